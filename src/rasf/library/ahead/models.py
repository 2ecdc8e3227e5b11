"""The arguments `model`, `ahead`, `particles` and `milliseconds`, and the states of environments."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rasf import checks
from rasf.agents import Family, acting_risk
from rasf.arrays import Floats
from rasf.library.ahead import PARTICLES
from rasf.library.ahead.counted import CountedModel
from rasf.library.ahead.finite import FiniteModel
from rasf.library.ahead.followed import Followed, FollowedTables, Own
from rasf.library.ahead.policies import LookingAhead
from rasf.library.frozen_policies import FrozenPolicies
from rasf.mdp import FiniteMDP
from rasf.world import World, is_world

if TYPE_CHECKING:
    from collections.abc import Callable

    from rasf.envs.gymnasium.description import EnvironmentDescription
    from rasf.envs.gymnasium.single import FeatureEnvironment
    from rasf.envs.gymnasium.vector import FeatureVector

_MOST_AHEAD, _MOST_PARTICLES = 10_000, 100_000
LEARNED = "learned"  # the argument `model` for the library's own model


class CopyEach(NamedTuple):
    """The model of `evaluate` if the environments, which run in parallel, are copied."""


class Library(NamedTuple):
    """What a model needs to know of a library.

    Attributes:
        sources: The policies.
        own: The weights and the risk that each policy was trained for.
        environment: The description of the training environment.
        encode: Encodes an observation, or a batch, after t steps of the episode.
        model: The library's own model, a `LearnedModel` or a `CountedModel`; None if it has none. Default: None.
    """

    sources: FrozenPolicies
    own: Own
    environment: EnvironmentDescription
    encode: Callable[[object, int], np.ndarray]
    model: Any = None


def looking_ahead(
    library: Library, model: object, ahead: object, particles: object = PARTICLES, milliseconds: object = None
) -> FrozenPolicies:
    """Return policies that look ahead, or the library's policies if `ahead` is 0.

    Args:
        library: The library.
        model: A `rasf.World`, a `rasf.FiniteMDP`, a pair of a `FiniteMDP` and the observations of its states, or a
            Gymnasium environment. None or "learned" for the library's own model.
        ahead: Number of simulated steps.
        particles: Number of simulated paths for each policy and action. Default: 8.
        milliseconds: Largest time for one decision, or None. Default: None.

    Raises:
        ValueError: An argument is invalid, or the library cannot look ahead in the model.
    """
    steps, many = checks.whole("ahead", ahead, 0), checks.whole("particles", particles)
    for name, value, most in (("ahead", steps, _MOST_AHEAD), ("particles", many, _MOST_PARTICLES)):
        if value > most:
            raise ValueError(f"{name} must be at most {most:,}, got {value}")
    budget = None if milliseconds is None else checks.number("milliseconds", milliseconds, 0.0)
    if steps == 0:
        return library.sources
    sources, own = library.sources, model is None or (isinstance(model, str) and model == LEARNED)
    if own and library.model is None:
        raise ValueError(
            "model must be given to look ahead, because this library was trained without model=True: a rasf.World, a "
            "rasf.FiniteMDP, or a Gymnasium environment that can be copied"
        )
    model = library.model if own else model
    followed = _followed(library)
    return LookingAhead(sources, followed, _read(library, followed, model), steps, many, budget)


def _followed(library: Library) -> Any:
    """Return the source policies as a simulation follows them; raise ValueError if their own actions are unknown."""
    for i, (_, risk) in enumerate(library.own):
        try:
            library.sources.check(acting_risk(risk))
        except ValueError:
            raise ValueError(
                f"looking ahead needs policies whose own risk can be scored, but policy {i} has {risk!r}"
            ) from None
    if library.sources.family is Family.TABLES:
        return FollowedTables(library.sources, library.own)
    from rasf.library.ahead.networks import FollowedNetworks
    from rasf.library.networks.policies import NetworkPolicies

    assert isinstance(library.sources, NetworkPolicies)
    return FollowedNetworks(library.sources, library.own)


def _read(library: Library, followed: Followed, model: object) -> Any:
    """Return the model as one of the classes that `rasf.library.ahead.policies` lists."""
    sources = library.sources
    if model is library.model:
        return _own(library, followed)
    if is_world(model):
        return _world(library, followed, model)
    if isinstance(model, FiniteMDP) or (isinstance(model, tuple) and model and isinstance(model[0], FiniteMDP)):
        return _finite(library, followed, model)
    import gymnasium

    from rasf.library.ahead.copies import CopiedModel

    if not isinstance(model, gymnasium.Env | CopyEach):
        raise ValueError(
            "model must be a rasf.World, a rasf.FiniteMDP, a pair of a FiniteMDP and the observations of its states, "
            f"a Gymnasium environment, or 'learned', got {type(model).__name__}"
        )
    env = model if isinstance(model, gymnasium.Env) else None
    if env is not None:
        _check_spaces(library, env)
    own = library.environment.actions.own
    return CopiedModel(followed, sources.gamma, own, library.encode, sources.n_features, sources.limit, env)


def _own(library: Library, followed: Followed) -> Any:
    """Return the library's own model."""
    sources, model = library.sources, library.model
    if isinstance(model, CountedModel):
        keys = np.concatenate([model.keys, np.full((1, model.keys.shape[1]), np.nan)])  # the end has no observation
        tried = np.concatenate([model.tried, np.ones((1, sources.n_actions), np.bool_)])
        return FiniteModel(model.mdp, lambda age: keys, followed, sources.gamma, tried=tried)
    from rasf.library.ahead.world import ObservedModel

    return ObservedModel(model, followed, sources.gamma)  # type: ignore[arg-type]


def check_own(sources: FrozenPolicies, model: Any) -> None:
    """Raise a ValueError if a library's own model does not fit its policies.

    Args:
        sources: The policies.
        model: The model, a `LearnedModel` or a `CountedModel`.
    """
    if isinstance(model, CountedModel) is not (sources.family is Family.TABLES):
        raise ValueError("model must be counts for tables, and networks for networks")
    if isinstance(model, CountedModel):
        wanted = sources.n_inputs, sources.n_actions, sources.n_features
        given = model.keys.shape[1], model.mdp.n_actions, model.mdp.n_features
        if wanted != given:
            raise ValueError(f"model must have the observations, actions and features {wanted}, got {given}")
        return
    from rasf.library.ahead.world import check_world

    check_world(model, sources.n_actions, sources.action_size, sources.n_inputs, sources.n_features, sources.limit)


def _world(library: Library, followed: Followed, world: World) -> Any:
    from rasf.library.ahead.networks import FollowedNetworks
    from rasf.library.ahead.world import WorldModel, check_world

    sources = library.sources
    if not isinstance(followed, FollowedNetworks):
        raise ValueError("model can be a rasf.World only for a library of networks; this library is tabular")
    check_world(world, sources.n_actions, sources.action_size, sources.n_inputs, sources.n_features, sources.limit)
    return WorldModel(world, followed, sources.gamma)


def _finite(library: Library, followed: Followed, model: Any) -> FiniteModel:
    sources, space = library.sources, library.environment.observations
    mdp, observations = model if isinstance(model, tuple) else (model, None)
    wanted = {"features": (sources.n_features, mdp.n_features), "actions": (sources.n_actions, mdp.n_actions)}
    for name, (mine, given) in wanted.items():
        if mine != given:
            raise ValueError(f"model must have {mine} {name}, as in training, got {given}")
    if observations is None:
        if space["kind"] != "discrete" or space["n"] != mdp.n_states:
            raise ValueError(
                f"model must be a pair of a FiniteMDP and the observations of its {mdp.n_states} states, unless the "
                "library's observations are the numbers of these states"
            )
        observations = np.arange(mdp.n_states) + space["start"]
    return FiniteModel(mdp, partial(library.encode, observations), followed, sources.gamma, sources.limit)


def _check_spaces(library: Library, env: Any) -> None:
    from rasf.envs.gymnasium.actions import actions_of
    from rasf.envs.gymnasium.encoder import Encoder

    if Encoder.of(env.observation_space).describe() != library.environment.observations:
        raise ValueError("model must have the observations that the library was trained with")
    if actions_of(env.action_space) != library.environment.actions:
        raise ValueError("model must have the actions that the library was trained with")


def own_model(sources: FrozenPolicies, environments: FeatureVector) -> object:
    """Return the model that environments are themselves: a world, a finite MDP, or copies of the environments.

    Args:
        sources: The policies, which look ahead in a world only if they are networks.
        environments: The environments, from `Trials.opened`.
    """
    from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit

    from rasf.envs.finite import FiniteEnv
    from rasf.envs.gymnasium.single import layers_of
    from rasf.envs.gymnasium.vector import SyncEnvs

    if not isinstance(environments, SyncEnvs):
        raise ValueError(
            "model must be given for a vector environment; without a model, env must be an id, an environment, or a "
            "function that makes it"
        )
    *wrappers, inner = layers_of(environments.environments[0].featured)
    # other wrappers, and subclasses, may change observations or steps
    if not all(type(wrapper) in (OrderEnforcing, PassiveEnvChecker, TimeLimit) for wrapper in wrappers):
        return CopyEach()
    if isinstance(inner, FiniteEnv) and (type(inner).reset, type(inner).step) == (FiniteEnv.reset, FiniteEnv.step):
        return inner.mdp
    own = {"compiled_world", "world_state"} <= vars(type(inner)).keys()
    world = inner.compiled_world if own and sources.family is Family.NETWORKS else None
    return CopyEach() if world is None else world


def states_of(looking: LookingAhead, environments: Sequence[FeatureEnvironment] | None, count: int, age: int) -> Floats:
    """Return the numbers (B, m) of the states of B environments after `age` steps.

    Args:
        looking: The policies that look ahead.
        environments: The environments; None for a vector environment, whose states are unknown.
        count: The number B of environments.
        age: Steps of the episodes so far.
    """
    from rasf.library.ahead.copies import CopiedModel

    model, each = looking.model, [environment.featured for environment in environments or ()]
    if isinstance(model, FiniteModel):
        return model.rows([age] * count)
    if model.numbers == 0:
        return np.zeros((count, 0))
    if isinstance(model, CopiedModel):
        return model.rows(each, count, [age] * count)
    if environments is None or not all(hasattr(env.unwrapped, "world_state") for env in each):
        raise ValueError(
            "model needs the environment's state: env must have the attribute world_state, or leave model out, so that "
            "env is copied"
        )
    return np.concatenate([model.rows(env.unwrapped.world_state, None) for env in each])


def state_rows(looking: LookingAhead, state: object, batch: int | None, ages: Sequence[int]) -> Floats:
    """Return the numbers (B, m) of the states that a caller gives to `Actor.act`.

    Args:
        looking: The policies that look ahead.
        state: The argument `state`.
        batch: The number B of observations, or None for a single observation.
        ages: Steps of each episode so far.
    """
    from rasf.library.ahead.copies import CopiedModel

    model = looking.model
    if isinstance(model, FiniteModel) or model.numbers == 0:
        if state is not None:
            raise ValueError("state must be left out, because observations are the states of the model")
        return model.rows(ages) if isinstance(model, FiniteModel) else np.zeros((batch or 1, 0))
    if isinstance(model, CopiedModel):
        return model.rows(state, batch, ages)
    return model.rows(state, batch)
