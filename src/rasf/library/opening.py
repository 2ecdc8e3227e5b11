"""Before training begins: the environment is opened, an agent chosen that suits it, tasks drawn or checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rasf.agents import AGENTS, AgentSpec, Family, LawKind, library_agent
from rasf.arrays import Floats
from rasf.checks import task_weights, whole
from rasf.envs.gymnasium.feature_vector import FeatureVector
from rasf.envs.gymnasium.single import FeatureEnvironment, Phi, declared_bounds, estimate_bounds, open_environment
from rasf.library.policy_library import PolicyLibrary

_MARGIN = 0.5  # of the range of the features seen, on either side
_FEW = 100_000  # observations that surely fit a table
_LARGE = 1_000  # numbers of an observation, each state's key in a table: images are not for tables
_WALK = 2_000  # steps of the random walks that look for bounds, and for recurring observations


class Opened(NamedTuple):
    """An environment (or several), the agent that learns there, and what a file says of it."""

    env: Any
    agent: AgentSpec
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
        spec = library_agent("rasfc51" if agent == "auto" else agent)
        if spec.family is Family.TABLES:
            raise ValueError(f"env must be a single environment for {spec}, got a vector environment")
        declared = declared_bounds(env, phi)
        return _vector(env, None if num_envs == 1 else num_envs, phi, kwargs, spec)._replace(declared=declared)
    made = env() if callable(env) and is_ours(env) else env
    single = open_environment(made, phi, **kwargs)
    keep = False
    try:
        if agent == "auto":
            spec, reason = choose_agent(single, seed)
            notes.append(f"agent {spec} was chosen because {reason}")
        else:
            spec = library_agent(agent)
        if spec.family is Family.TABLES:
            if num_envs > 1:
                raise ValueError(f"num_envs must be 1 for {spec}, which learns from one environment, got {num_envs}")
            keep = True
            return Opened(single, spec, single.describe(), single.bounds, single.env.unwrapped)
        bounds = single.bounds
        if bounds is None and wants_bounds and spec.law is LawKind.HISTOGRAM:
            bounds = estimate_bounds(single, _WALK, seed, _MARGIN)
            notes.append(
                f"bounds of the features come from {_WALK} random steps, widened by {_MARGIN:g} of their range: "
                f"{np.round(bounds, 4).tolist()}"
            )
        found = {"bounds": bounds, "one": single.env.unwrapped, "declared": single.declared_bounds}
        return _vector(env, num_envs, phi, kwargs, spec)._replace(**found)
    finally:
        if is_ours(env) and not keep:
            single.close()


def _vector(env: Any, num_envs: int | None, phi: Phi | None, kwargs: dict[str, Any], agent: AgentSpec) -> Opened:
    from rasf.envs.gymnasium.vector import open_vector

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
            return task_weights("the environment's random_tasks", opened.one.random_tasks(count, rng), d)
        notes.append(f"the environment has no distribution of tasks: {count} weightings were drawn from [-1, 1]^{d}")
        return rng.uniform(-1.0, 1.0, (count, d))
    return task_weights("tasks", tasks, d)


def is_ours(env: Any) -> bool:
    """Whether environments are made here, from an id or a function (a class is one too), not given by the caller."""
    from gymnasium import Env
    from gymnasium.vector import VectorEnv

    return not isinstance(env, Env | VectorEnv)


class AutoChoice(NamedTuple):
    """An agent, and why."""

    agent: AgentSpec
    reason: str


def choose_agent(env: FeatureEnvironment, seed: int) -> AutoChoice:
    """A tabular agent where observations are few and recur, else networks."""
    encoder, table, networks = env.encoder, AGENTS["rasfql"], AGENTS["rasfc51"]
    if not encoder.integers:
        return AutoChoice(
            AGENTS["rasfc51"], "its observations are not whole numbers of a bounded range, which recur exactly"
        )
    if encoder.size > _LARGE:
        return AutoChoice(
            AGENTS["rasfc51"], f"its observations have {encoder.size} numbers each, too many for a table's keys"
        )
    if encoder.few is not None and encoder.few <= _FEW:
        return AutoChoice(table, f"it has at most {encoder.few} observations")
    rng, seen = np.random.default_rng(seed), set()
    obs = env.reset(seed)
    for _ in range(_WALK):
        seen.add(encoder.key(obs).tobytes())
        step = env.step(int(rng.integers(env.n_actions)))
        obs = env.reset() if step.terminated or step.truncated else step.obs
    found = f"{len(seen)} different observations in {_WALK} random steps"
    if len(seen) <= _WALK // 2:
        return AutoChoice(table, f"observations recur: {found}")
    return AutoChoice(networks, f"observations hardly recur: {found}")


def with_settings(base: Any, given: Mapping[str, Any]) -> Any:
    """Settings with changes by name; unknown names are refused."""
    known = {one.name for one in fields(base)} - {"risk", "law", "conditioned", "relabel", "bounds"}
    unknown = sorted(set(given) - known)
    if unknown:
        raise ValueError(f"settings must be among {', '.join(sorted(known))}, got {', '.join(unknown)}")
    plain = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
    try:
        changed = replace(base, **plain)
        hash(changed)  # an agent is a key of what jax has made for it
    except TypeError as error:
        raise ValueError(f"settings must be numbers, or sizes such as widths=(64, 64): {error}") from None
    return changed
