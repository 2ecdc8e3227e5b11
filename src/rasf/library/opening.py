"""Before training begins: the environment is opened, an agent chosen that suits it, tasks drawn or checked."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rasf.envs.adapters import Phi, declared_bounds, estimate_bounds, open_environment
from rasf.envs.feature_vector import FeatureVector
from rasf.library.agents import HISTOGRAMS, TABULAR, choose_agent
from rasf.library.policy_library import PolicyLibrary
from rasf.mdp import Floats

_WALK, _MARGIN = 2_000, 0.5  # of the random walk that estimates bounds


class Opened(NamedTuple):
    """An environment (or several), the agent that learns there, and what a file says of it."""

    env: Any
    agent: str
    described: dict[str, Any]
    bounds: Floats | None  # where declared or estimated
    one: Any  # the unwrapped environment, to ask for its tasks
    declared: Floats | None = None  # bounds, infinite where open


def open_for_learning(
    env: Any,
    phi: Phi | None,
    kwargs: dict[str, Any],
    agent: str,
    num_envs: int,
    seed: int,
    wants_bounds: bool,
    notes: list[str],
) -> Opened:
    """The environment for an agent, which "auto" chooses; bounds of features are estimated where they are wanted."""
    from gymnasium.vector import VectorEnv

    if isinstance(env, VectorEnv):
        agent = "rasfc51" if agent == "auto" else agent
        if agent in TABULAR:
            raise ValueError(f"env must be a single environment for {agent}, got a vector environment")
        declared = declared_bounds(env, phi)
        return _vector(env, None if num_envs == 1 else num_envs, phi, kwargs, agent)._replace(declared=declared)
    made = env() if callable(env) and is_ours(env) else env
    single = open_environment(made, phi, **kwargs)
    keep = False
    try:
        if agent == "auto":
            agent, reason = choose_agent(single, seed)
            notes.append(f"agent {agent} was chosen because {reason}")
        if agent in TABULAR:
            if num_envs > 1:
                raise ValueError(f"num_envs must be 1 for {agent}, which learns from one environment, got {num_envs}")
            keep = True
            return Opened(single, agent, single.describe(), single.bounds, single.env.unwrapped)
        bounds = single.bounds
        if bounds is None and wants_bounds and agent in HISTOGRAMS:
            bounds = estimate_bounds(single, _WALK, seed, _MARGIN)
            notes.append(
                f"bounds of the features come from {_WALK} random steps, widened by {_MARGIN:g} of their range: "
                f"{np.round(bounds, 4).tolist()}"
            )
        found = {"bounds": bounds, "one": single.env.unwrapped, "declared": single.declared_bounds}
        return _vector(env, num_envs, phi, kwargs, agent)._replace(**found)
    finally:
        if is_ours(env) and not keep:
            single.close()


def _vector(env: Any, num_envs: int | None, phi: Phi | None, kwargs: dict[str, Any], agent: str) -> Opened:
    from rasf.envs.vector import open_vector

    vector: FeatureVector = open_vector(env, num_envs, phi, **kwargs)
    return Opened(vector, agent, vector.describe(), vector.bounds, None)


def tasks_of(
    tasks: npt.ArrayLike | int, opened: Opened, seed: int, elders: PolicyLibrary | None, notes: list[str]
) -> Floats:
    """Weights (n, d), given or drawn."""
    d = opened.env.n_features
    if isinstance(tasks, int | np.integer):
        count = whole("tasks", tasks, 1)
        # a library that grows must not draw its old tasks again
        rng = np.random.default_rng([seed, 77] if elders is None else [seed, 77, len(elders.policies)])
        if hasattr(opened.one, "random_tasks") and opened.described["phi"] is None:
            return _weightings("the environment's random_tasks", opened.one.random_tasks(count, rng), d)
        notes.append(f"the environment has no distribution of tasks: {count} weightings were drawn from [-1, 1]^{d}")
        return rng.uniform(-1.0, 1.0, (count, d))
    return _weightings("tasks", tasks, d)


def _weightings(name: str, given: npt.ArrayLike, d: int) -> Floats:
    try:
        weights = np.atleast_2d(np.array(given, np.float64))
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a number of tasks or weights of shape (n, {d}), got {given!r}") from None
    if weights.ndim != 2 or weights.shape[1] != d or len(weights) == 0:
        raise ValueError(f"{name} must be weights of shape (n, {d}), got shape {np.shape(given)}")
    if not np.isfinite(weights).all():
        raise ValueError(f"{name} must be finite, got nan or infinite weights")
    return weights


def is_ours(env: Any) -> bool:
    """Whether environments are made here, from an id or a function (a class is one too), not given by the caller."""
    from gymnasium import Env
    from gymnasium.vector import VectorEnv

    return not isinstance(env, Env | VectorEnv)


def whole(name: str, value: Any, least: int) -> int:
    """A number that must be whole, not below `least`, and of 63 bits at most, as seeds are kept."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not least <= value < 2**63:
        raise ValueError(f"{name} must be a whole number of at least {least}, below 2^63, got {value!r}")
    return int(value)  # numpy's integers cannot be kept in a file's header
