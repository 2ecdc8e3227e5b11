"""The environments of `learn` (one for tables, `num_envs` for networks), and the choice of an agent."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from rasf.agents import AGENTS, AgentSpec, Family, library_agent
from rasf.arrays import Floats
from rasf.files import Header
from rasf.risk import Risk
from rasf.world import World, action_size, is_world

if TYPE_CHECKING:
    import gymnasium

    from rasf.envs.gymnasium.single import Environment, FailureRule, FeatureEnvironment, Phi
    from rasf.envs.gymnasium.vector import FeatureVector
    from rasf.library.greedy import GreedyCheck
    from rasf.library.training import Opened

    Learnable: TypeAlias = Environment | gymnasium.vector.VectorEnv | World

_NETWORKS, _PAPERS_NETWORKS, _CONTINUOUS = "rasfdqn", "rasfc51", "rasftd3"  # the networks that "auto" chooses
_MARGIN = 0.5  # estimated bounds are widened on either side by this share of their range
_FEW = 100_000  # largest number of possible observations for which a table is chosen without a random walk
_LONG = 48  # largest size of an observation for which a table is chosen; a flattened view of 7 x 7 cells is larger
_RECURRING = 20_000  # steps of the random walk that tests whether observations recur
_NEW = 0.2  # a table is chosen if at most this share of the observations in the second half of this walk is new
_WALK = 2_000  # steps of the random walk that estimates bounds; the other walk first tests recurrence then


@dataclass(frozen=True)
class GivenEnvironment:
    """The arguments of `learn` about the environment; `closing` closes all environments that are opened here."""

    env: Learnable
    phi: Phi | None
    kwargs: Header
    failure: FailureRule | None
    num_envs: int
    closing: ExitStack

    def open(self, agent: str, risks: Sequence[Risk], seed: int) -> tuple[Opened, AgentSpec, list[str]]:
        """Return the open environment, the agent (for "auto", a chosen agent), and notes on the choice of the agent."""
        if is_world(self.env):  # worlds written in jax do not need Gymnasium
            from rasf.library.networks.worlds import WorldAdapter

            size = action_size(self.env)
            preferred = getattr(self.env, "preferred_agent", networks_for(risks, size).name)
            spec = _fitting(_of_networks(preferred if agent == "auto" else agent, "a world written in jax"), size)
            if self.phi is not None or self.kwargs or self.num_envs > 1:
                raise ValueError("phi, env_kwargs and num_envs are for Gymnasium's environments, got a world in jax")
            return WorldAdapter(self.env), spec, []
        import gymnasium

        from rasf.envs.gymnasium.single import open_environment
        from rasf.envs.gymnasium.vector import open_vector, sync_envs

        if isinstance(self.env, gymnasium.vector.VectorEnv):
            vector = open_vector(self.env, None if self.num_envs == 1 else self.num_envs, self.phi, **self.kwargs)
            size = vector.actions.size
            spec = _of_networks(networks_for(risks, size).name if agent == "auto" else agent, "a vector environment")
            return vector, _fitting(spec, size), _notes_on_images(vector)
        first = open_environment(self.env, self.phi, **self.kwargs)
        if not isinstance(self.env, gymnasium.Env):
            self.closing.callback(first.close)
        if agent == "auto":
            spec, reason = choose_agent(first, seed, risks)
            notes = [f"agent {spec} was chosen because {reason}"]
        else:
            spec, notes = library_agent(agent), []
        _fitting(spec, first.actions.size)
        if spec.family is Family.NETWORKS:
            several = sync_envs(first, self.num_envs, self.env, self.phi, self.kwargs)
            for more in several.environments[1:]:
                self.closing.callback(more.close)
            return several, spec, notes + _notes_on_images(several)
        if self.num_envs > 1:
            raise ValueError(f"num_envs must be 1 for {spec}, which learns from one environment, got {self.num_envs}")
        return first, spec, notes

    def greedy_check(self, steps: int, seed: int) -> GreedyCheck | None:
        """Return the object that evaluates greedy policies in a second environment; None if it cannot be made."""
        env = self.env
        if is_world(env) and find_spec("gymnasium") is None:
            return None
        import gymnasium

        from rasf.envs.gymnasium.single import open_environment
        from rasf.library.greedy import GreedyCheck

        if isinstance(env, gymnasium.Env | gymnasium.vector.VectorEnv):
            return None

        def another() -> FeatureEnvironment:
            found = open_environment(env, self.phi, **self.kwargs)
            self.closing.callback(found.close)
            if self.failure is not None:
                found.count_failures(self.failure)
            return found

        return GreedyCheck(another, steps, seed)


def _notes_on_images(world: FeatureVector) -> list[str]:
    return [
        f"the image of shape {shape} in an observation is flattened to {np.prod(shape)} numbers for fully connected "
        "networks; convolutional networks are not provided"
        for shape in world.encoder.images
    ]


def count_failures(world: Opened, rule: FailureRule) -> None:
    """Set the rule that decides which steps of an environment are failures."""
    for one in getattr(world, "environments", [world]):
        if not hasattr(one, "count_failures"):
            raise ValueError(
                "failure is for single Gymnasium environments; other environments must report failures themselves"
            )
        one.count_failures(rule)


def feature_bounds(world: Opened, seed: int, notes: list[str]) -> Floats | None:
    """Return bounds (d, 2) of the features, declared or estimated; None for a vector environment that declares none."""
    if world.bounds is not None:
        return world.bounds
    from rasf.envs.gymnasium.single import estimate_bounds
    from rasf.envs.gymnasium.vector import SyncEnvs

    if not isinstance(world, SyncEnvs):
        return None
    bounds = estimate_bounds(world.environments[0], _WALK, seed, _MARGIN)
    notes.append(
        f"bounds of the features come from {_WALK} random steps, widened by {_MARGIN:g} of their range: "
        f"{np.round(bounds, 4).tolist()}"
    )
    return bounds


# --- the agent


def _of_networks(agent: str, given: str) -> AgentSpec:
    spec = library_agent(agent)
    if spec.family is Family.TABLES:
        raise ValueError(f"env must be a single environment for {spec}, got {given}")
    return spec


def _fitting(spec: AgentSpec, size: int) -> AgentSpec:
    """Return the agent; raise ValueError if its actions are not vectors of `size` numbers (0: numbered actions)."""
    if spec.continuous == bool(size):
        return spec
    fitting = ", ".join(one.name for one in AGENTS.values() if one.makes_library and one.continuous == bool(size))
    kind = f"a Box of size {size}" if size else "Discrete"
    raise ValueError(f"agent must be one for the environment's actions ({kind}), such as {fitting}; got {spec}")


def networks_for(risks: Sequence[Risk], action_size: int = 0) -> AgentSpec:
    """Return the agent with networks that agent="auto" chooses.

    Args:
        risks: The risks that policies are trained for.
        action_size: Number of entries of an action that is a vector; 0 if actions are numbered. Default: 0.

    Returns:
        rasftd3 for vectors; else rasfdqn, or rasfc51 if rasfdqn cannot be trained for these risks.
    """
    if action_size:
        return AGENTS[_CONTINUOUS]
    ours = AGENTS[_NETWORKS]
    return ours if all(isinstance(risk, ours.risks) for risk in risks) else AGENTS[_PAPERS_NETWORKS]


def choose_agent(env: FeatureEnvironment, seed: int, risks: Sequence[Risk] = ()) -> tuple[AgentSpec, str]:
    """Choose the agent that the environment declares, else tables if observations are few or recur, else networks.

    Tables need observations of whole numbers. Either at most 100,000 observations are possible, or observations are
    short, are not images, and few of them are new in the second half of a random walk.

    Args:
        env: The environment, which may be reset and stepped. Its attribute `preferred_agent` declares an agent.
        seed: Seed of the random walk.
        risks: The risks that policies are trained for. Default: none.

    Returns:
        The agent, and the reason in words.
    """
    encoder, table, networks = env.encoder, AGENTS["rasfql"], networks_for(risks)
    preferred = getattr(env.env.unwrapped, "preferred_agent", None)
    if preferred is not None:
        return library_agent(preferred), "the environment declares this agent"
    if env.actions.size:
        return AGENTS[_CONTINUOUS], f"actions are continuous (a Box of size {env.actions.size})"
    if not encoder.integers:
        return networks, "observations are not whole numbers of a bounded range and may not recur exactly"
    if encoder.n_possible is not None and encoder.n_possible <= _FEW:
        return table, f"the environment has at most {encoder.n_possible} observations"
    if encoder.images:
        shape = encoder.images[0]
        return networks, f"observations are images of shape {shape}, from which tables cannot generalise"
    if encoder.size > _LONG:
        return networks, f"observations have {encoder.size} numbers each, too many for a table"
    rng, seen, half = np.random.default_rng(seed), set(), 0
    obs = env.reset(seed)
    for t in range(1, _RECURRING + 1):
        seen.add(encoder.key(obs).tobytes())
        if t == _WALK and len(seen) > t // 2:
            return networks, f"observations hardly recur: {len(seen)} different observations in {t} random steps"
        if t == _RECURRING // 2:
            half = len(seen)
        step = env.step(env.actions.sample(rng))
        obs = env.reset() if step.terminated or step.truncated else step.obs
    new = (len(seen) - half) / (_RECURRING - _RECURRING // 2)
    found = f"{len(seen)} different observations in {_RECURRING} random steps, {new:.0%} new in the second half"
    if new <= _NEW:
        return table, f"observations recur: {found}"
    return networks, f"observations hardly recur: {found}"
