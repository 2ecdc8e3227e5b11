"""`learn`: train a library of policies on any Gymnasium or MO-Gymnasium environment with discrete actions.

One policy for every task and every risk. Tasks follow one another, and policies learned before help to explore, by GPI.
What is decided on the way (which agent, which weights, which support) is kept in the library's `notes`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rasf.envs.adapters import Phi, estimate_bounds, open_environment
from rasf.envs.feature_vector import FeatureVector
from rasf.library.agents import DEEP, TABULAR, check_agent, choose_agent, with_settings
from rasf.library.library_file import versions
from rasf.library.policy_library import PolicyLibrary, SourcePolicy, merge
from rasf.library.training import Record, Trained, Watch
from rasf.mdp import Floats
from rasf.risk import MeanVariance, Risk
from rasf.risk.names import risk_to_text

_STEPS = {"table": 20_000, "networks": 200_000}  # a task, as in the paper
_WALK, _MARGIN = 2_000, 0.5  # of the random walk that estimates bounds
_MUCH_CLIPPED = 0.01
_NEUTRAL = MeanVariance(0.0)
_log = logging.getLogger("rasf")


def learn(
    env: Any,
    *,
    tasks: npt.ArrayLike | int,
    agent: str = "auto",
    risk: Risk | Sequence[Risk] = _NEUTRAL,
    steps_per_task: int | None = None,
    gamma: float | None = None,
    seed: int = 0,
    phi: Phi | None = None,
    num_envs: int = 1,
    learn_w: bool = False,
    support: npt.ArrayLike | None = None,
    env_kwargs: dict[str, Any] | None = None,
    elders: PolicyLibrary | None = None,
    watch: Watch | None = None,
    **settings: Any,
) -> PolicyLibrary:
    """Train a library.

    env: an id, a `gymnasium.Env`, a function that makes one, or (for networks) a `gymnasium.vector.VectorEnv`. Its
    reward is the vector of features, unless `phi(obs, action, next_obs, info)` gives them.
    tasks: weights (n, d), or a number of tasks, drawn from the environment's own distribution or from [-1, 1]^d.
    agent: auto, sfql, rasfql (tables), sfc51, rasfc51, sfdqn, sfdqn-residual (networks).
    risk: what the policies are trained for; several give a policy for each task and risk.
    num_envs: environments that networks learn from side by side. learn_w: tables learn w from the rewards, as in the
    paper, instead of being told. support: (d, 2), bounds of the discounted feature returns, for histograms.
    elders: a library whose policies help to explore, and stay as they are. watch: is shown where training stands.
    settings: constants of the agent, such as epsilon, alpha, widths, atoms, learning_rate.
    """
    begin = time.perf_counter()
    risks = [risk] if isinstance(risk, Risk) else list(risk)
    if not risks:
        raise ValueError("risk must be a risk or several, got none")
    notes: list[str] = []
    opened = _open(env, phi, env_kwargs or {}, agent, num_envs, seed, notes)
    check_agent(opened.agent, risks)
    weights = _tasks(tasks, opened, seed, notes)
    steps = _STEPS["table" if opened.agent in TABULAR else "networks"] if steps_per_task is None else steps_per_task
    if steps < 1:
        raise ValueError(f"steps_per_task must be at least 1, got {steps}")
    if elders is not None and elders.environment["observations"] != opened.described["observations"]:
        raise ValueError("elders must be a library of the same environment")
    stopped = False

    def shown(risk_index: int, record: Record) -> bool:
        nonlocal stopped
        stopped = watch is not None and watch(replace(record, policy=record.policy + risk_index * len(weights)))
        return stopped

    libraries = []
    chosen = settings | ({} if gamma is None else {"gamma": gamma})
    try:
        for index, one in enumerate(risks):
            trained = _train(
                opened, weights, one, steps, seed, learn_w, support, chosen, elders,
                partial(shown, index), notes,
            )  # fmt: skip
            policies = tuple(SourcePolicy(tuple(w), risk_to_text(one)) for w in trained.weights.tolist())
            provenance = {
                "made": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                "versions": versions(),
                "seed": seed,
                "steps_per_task": steps,
                "settings": {name: repr(value) for name, value in chosen.items()},
                "seconds": round(time.perf_counter() - begin, 1),
                "complete": not stopped,
            }
            kept = (trained.sources, opened.described, policies, opened.agent, trained.history)
            libraries.append(PolicyLibrary(*kept, tuple(notes), provenance))
            if stopped:
                break
    finally:
        if not hasattr(env, "step"):  # ours, not the caller's
            opened.env.close()
    for note in notes:
        _log.info(note)
    return merge(libraries) if len(libraries) > 1 else libraries[0]


class _Opened(NamedTuple):
    """An environment (or several), the agent that learns there, and what a file says of it."""

    env: Any
    agent: str
    described: dict[str, Any]
    bounds: Floats | None  # where declared or estimated
    one: Any  # the unwrapped environment, to ask for its tasks


def _open(
    env: Any, phi: Phi | None, kwargs: dict[str, Any], agent: str, num_envs: int, seed: int, notes: list[str]
) -> _Opened:
    from gymnasium.vector import VectorEnv

    if num_envs < 1:
        raise ValueError(f"num_envs must be at least 1, got {num_envs}")
    if isinstance(env, VectorEnv):
        agent = "rasfc51" if agent == "auto" else agent
        if agent in TABULAR:
            raise ValueError(f"env must be a single environment for {agent}, got a vector environment")
        return _vector(env, None, phi, {}, agent)
    made = env() if callable(env) and not hasattr(env, "step") else env
    single = open_environment(made, phi, **kwargs)
    if agent == "auto":
        agent, reason = choose_agent(single, seed)
        notes.append(f"agent {agent} was chosen because {reason}")
    if agent in TABULAR:
        if num_envs > 1:
            raise ValueError(f"num_envs must be 1 for {agent}, which learns from one environment, got {num_envs}")
        return _Opened(single, agent, single.describe(), single.bounds, single.env.unwrapped)
    bounds = single.bounds
    if bounds is None and agent in DEEP:
        bounds = estimate_bounds(single, _WALK, seed, _MARGIN)
        notes.append(
            f"bounds of the features come from {_WALK} random steps, widened by {_MARGIN:g} of their range: "
            f"{np.round(bounds, 4).tolist()}"
        )
    opened = _vector(env, num_envs, phi, kwargs, agent)
    if made is not env or isinstance(env, str):
        single.close()
    return opened._replace(bounds=bounds, one=single.env.unwrapped)


def _vector(env: Any, num_envs: int | None, phi: Phi | None, kwargs: dict[str, Any], agent: str) -> _Opened:
    from rasf.envs.vector import open_vector

    vector: FeatureVector = open_vector(env, num_envs, phi, **kwargs)
    return _Opened(vector, agent, vector.describe(), vector.bounds, None)


def _tasks(tasks: npt.ArrayLike | int, opened: _Opened, seed: int, notes: list[str]) -> Floats:
    """Weights (n, d), given or drawn."""
    d = opened.env.n_features
    if isinstance(tasks, int | np.integer):
        if tasks < 1:
            raise ValueError(f"tasks must be at least 1, or weights of shape (n, {d}), got {tasks}")
        rng = np.random.default_rng([seed, 77])
        if hasattr(opened.one, "random_tasks") and opened.described["phi"] is None:
            return np.asarray(opened.one.random_tasks(int(tasks), rng), np.float64)
        notes.append(f"the environment has no distribution of tasks: {tasks} weightings were drawn from [-1, 1]^{d}")
        return rng.uniform(-1.0, 1.0, (int(tasks), d))
    weights = np.atleast_2d(np.asarray(tasks, np.float64))
    if weights.ndim != 2 or weights.shape[1] != d or len(weights) == 0 or not np.isfinite(weights).all():
        raise ValueError(f"tasks must be finite weights of shape (n, {d}), got shape {np.shape(tasks)}")
    return weights


def _train(
    opened: _Opened,
    tasks: Floats,
    risk: Risk,
    steps: int,
    seed: int,
    learn_w: bool,
    support: npt.ArrayLike | None,
    settings: dict[str, Any],
    elders: PolicyLibrary | None,
    watch: Watch,
    notes: list[str],
) -> Trained:
    older = None if elders is None else elders.sources
    if opened.agent in TABULAR:
        from rasf.library.tabular_training import train_tables
        from rasf.tabular.successor_learner import SuccessorSettings

        if support is not None:
            raise ValueError(f"support is for histograms; {opened.agent} has none")
        assert isinstance(risk, MeanVariance)
        base = SuccessorSettings(risk=risk, learn_w=learn_w, always_covariance=opened.agent == "rasfql")
        return train_tables(opened.env, tasks, with_settings(base, settings), steps, seed, watch, older)
    from rasf.deep.agent import preset
    from rasf.library.network_training import train_networks

    if learn_w:
        raise ValueError(f"learn_w is for tables; {opened.agent} is told the weights, as in the paper")
    chosen = with_settings(replace(preset(opened.agent), risk=type(risk)), settings)
    span = _support(support, opened.bounds, chosen.gamma, opened.env.n_features)
    trained = train_networks(opened.env, tasks, chosen, risk, span, steps, seed, watch, older)
    clipped = float(np.nanmax(trained.history["clipped"].sum(axis=1), initial=0.0))
    if clipped > _MUCH_CLIPPED:
        notes.append(f"{clipped:.1%} of the histograms' mass was clipped at the ends of the support; give a wider one")
    return trained


def _support(given: npt.ArrayLike | None, bounds: Floats | None, gamma: float, d: int) -> Floats:
    """Bounds (d, 2) of discounted feature returns; an episode may end at any time, so 0 is always within."""
    if given is not None:
        span = np.asarray(given, np.float64)
        if span.shape != (d, 2) or not np.isfinite(span).all() or not (span[:, 0] < span[:, 1]).all():
            raise ValueError(f"support must be finite, of shape ({d}, 2), low below high, got {given!r}")
        return span
    if bounds is None:
        raise ValueError("support must be given for a vector environment whose reward_space is not bounded")
    span = np.stack([np.minimum(bounds[:, 0], 0.0), np.maximum(bounds[:, 1], 0.0)], axis=1) / (1 - gamma)
    flat = span[:, 0] == span[:, 1]
    span[flat] += [-1.0, 1.0]  # a feature that is always 0
    return span
