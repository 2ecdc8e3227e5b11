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
from typing import Any

import numpy as np
import numpy.typing as npt

from rasf.envs.adapters import Phi
from rasf.library.agents import HISTOGRAMS, TABULAR, check_agent, with_settings
from rasf.library.library_file import versions
from rasf.library.opening import Opened, is_ours, open_for_learning, tasks_of, whole
from rasf.library.policy_library import PolicyLibrary, SourcePolicy, merge
from rasf.library.training import STEPS_OF_NETWORKS, STEPS_OF_TABLES, Record, Trained, Watch
from rasf.mdp import Floats
from rasf.risk import MeanVariance, Risk
from rasf.risk.names import is_neutral, risk_to_text

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
    risks = _risks(risk)
    seed, num_envs = whole("seed", seed, 0), whole("num_envs", num_envs, 1)
    if agent != "auto":
        check_agent(agent, risks)  # before an environment is opened
    notes: list[str] = []
    wants_bounds = support is None and elders is None
    opened = open_for_learning(env, phi, env_kwargs or {}, agent, num_envs, seed, wants_bounds, notes)
    libraries, stopped = [], False

    def shown(risk_index: int, record: Record) -> bool:
        nonlocal stopped
        if watch is not None:
            w, named = tuple(weights[record.policy].tolist()), risk_to_text(risks[risk_index])
            policy = record.policy + risk_index * len(weights)
            stopped = bool(watch(replace(record, policy=policy, w=w, risk=named)))
        return stopped

    try:
        check_agent(opened.agent, risks)
        if elders is not None:
            _check_elders(elders, opened, risks)
        weights = tasks_of(tasks, opened, seed, elders, notes)
        usual = STEPS_OF_TABLES if opened.agent in TABULAR else STEPS_OF_NETWORKS
        steps = usual if steps_per_task is None else whole("steps_per_task", steps_per_task, 1)
        chosen = settings | ({} if gamma is None else {"gamma": _number("gamma", gamma)})
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
        if opened.env.names_failures:  # perhaps only when one happened: the policies that never met one have none
            for library in libraries:
                np.nan_to_num(library.history["failures"], copy=False)
    finally:
        if is_ours(env):
            opened.env.close()
    for note in notes:
        _log.info(note)
    return merge(libraries) if len(libraries) > 1 else libraries[0]


def _risks(given: Risk | Sequence[Risk]) -> list[Risk]:
    """One or several, checked; every way to say neutral becomes the same, which all agents can train for."""
    if not isinstance(given, Risk | list | tuple) or given in ([], ()):
        raise ValueError(f"risk must be a rasf risk such as MeanVariance(-4.0), or a list of them, got {given!r}")
    risks = [given] if isinstance(given, Risk) else list(given)
    return [_NEUTRAL if is_neutral(one) else one for one in risks]


def _number(name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a number, got {value!r}") from None


def _check_elders(elders: PolicyLibrary, opened: Opened, risks: list[Risk]) -> None:
    """They must be able to advise: see the same observations, take the same actions, serve the risks."""
    for name in ("observations", "n_actions", "n_features"):
        if elders.environment[name] != opened.described[name]:
            raise ValueError(f"a library can grow only in the environment it was trained in, but {name} differ")
    if (elders.sources.describe()["law"] == "table") != (opened.agent in TABULAR):
        kinds = ("tables", "networks") if opened.agent in TABULAR else ("networks", "tables")
        raise ValueError(f"a library of {kinds[1]} cannot grow by {opened.agent}, which learns {kinds[0]}")
    for risk in risks:
        elders.sources.check(risk)


def _train(
    opened: Opened,
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
    if support is not None and opened.agent not in HISTOGRAMS:
        raise ValueError(f"support is for histograms; {opened.agent} has none")
    if opened.agent in TABULAR:
        from rasf.library.tabular_training import train_tables
        from rasf.tabular.successor_learner import SuccessorSettings

        assert isinstance(risk, MeanVariance)
        base = SuccessorSettings(risk=risk, learn_w=learn_w, always_covariance=opened.agent == "rasfql")
        return train_tables(opened.env, tasks, with_settings(base, settings), steps, seed, watch, older)
    from rasf.deep.agent import preset
    from rasf.library.network_training import train_networks

    if learn_w:
        raise ValueError(f"learn_w is for tables; {opened.agent} is told the weights, as in the paper")
    chosen = with_settings(replace(preset(opened.agent), risk=type(risk)), settings)
    atoms = declared = None
    if opened.agent in HISTOGRAMS:
        declared = opened.declared if support is None and older is None else None
        atoms = _atoms(support, older, opened.bounds, chosen.gamma, chosen.atoms, opened.env.n_features)
    trained = train_networks(opened.env, tasks, chosen, risk, atoms, steps, seed, watch, older, declared)
    clipped = float(np.nanmax(trained.history["clipped"].sum(axis=1), initial=0.0))
    if clipped > _MUCH_CLIPPED:
        notes.append(f"{clipped:.1%} of the histograms' mass was clipped at the ends of the support; give a wider one")
    return trained


def _atoms(given: npt.ArrayLike | None, elders: Any, bounds: Floats | None, gamma: float, n: int, d: int) -> Floats:
    """Atoms (d, n) of discounted feature returns: those of elders, so that they can be merged, or within the support.

    An episode may end at any time, so 0 is always within.
    """
    if given is not None:
        try:
            span = np.array(given, np.float64)
        except (TypeError, ValueError):
            span = np.zeros(0)
        if span.shape != (d, 2) or not np.isfinite(span).all() or not (span[:, 0] < span[:, 1]).all():
            raise ValueError(f"support must be finite, of shape ({d}, 2), low below high, got {given!r}")
    elif elders is not None and elders.describe()["law"] == "histogram":
        span = np.array(elders.law.atoms)[:, [0, -1]]
    elif bounds is None:
        raise ValueError("support must be given for a vector environment whose reward_space is not bounded")
    else:
        span = np.stack([np.minimum(bounds[:, 0], 0.0), np.maximum(bounds[:, 1], 0.0)], axis=1) / (1 - gamma)
        span[span[:, 0] == span[:, 1]] += [-1.0, 1.0]  # a feature that is always 0
    return np.linspace(span[:, 0], span[:, 1], n, axis=1)
