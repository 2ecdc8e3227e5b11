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

from rasf.agents import Family, LawKind, check_risks, library_agent
from rasf.arrays import Floats
from rasf.checks import bounds as checked_bounds
from rasf.checks import number, whole
from rasf.envs.gymnasium.single import Phi
from rasf.library.file import versions
from rasf.library.opening import Opened, is_ours, open_for_learning, tasks_of, with_settings
from rasf.library.policy_library import PolicyLibrary, SourcePolicy, merge
from rasf.library.progress import Callback, Trained, TrainingProgress
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
    callback: Callback | None = None,
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
    elders: a library whose policies help to explore, and stay as they are. callback: is shown where training stands.
    settings: constants of the agent, such as epsilon, alpha, widths, atoms, learning_rate.
    """
    begin = time.perf_counter()
    risks = _risks(risk)
    seed, num_envs = whole("seed", seed, 0), whole("num_envs", num_envs, 1)
    if agent != "auto":
        check_risks(library_agent(agent), risks)  # before an environment is opened
    notes: list[str] = []
    wants_bounds = support is None and elders is None
    opened = open_for_learning(env, phi, env_kwargs or {}, agent, num_envs, seed, wants_bounds, notes)
    libraries, stopped = [], False

    def shown(risk_index: int, record: TrainingProgress) -> bool:
        nonlocal stopped
        if callback is not None:
            w, named = tuple(weights[record.policy].tolist()), risk_to_text(risks[risk_index])
            policy = record.policy + risk_index * len(weights)
            stopped = bool(callback(replace(record, policy=policy, w=w, risk=named)))
        return stopped

    try:
        check_risks(opened.agent, risks)
        if elders is not None:
            _check_elders(elders, opened, risks)
        weights = tasks_of(tasks, opened, seed, elders, notes)
        steps = opened.agent.steps_per_task if steps_per_task is None else whole("steps_per_task", steps_per_task)
        chosen = settings | ({} if gamma is None else {"gamma": number("gamma", gamma)})
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
            kept = (trained.sources, opened.described, policies, opened.agent.name, trained.history)
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


def _check_elders(elders: PolicyLibrary, opened: Opened, risks: list[Risk]) -> None:
    """They must be able to advise: see the same observations, take the same actions, serve the risks."""
    for name in ("observations", "n_actions", "n_features"):
        if elders.environment[name] != opened.described[name]:
            raise ValueError(f"a library can grow only in the environment it was trained in, but {name} differ")
    if (elders.sources.describe()["law"] == "table") != (opened.agent.family is Family.TABLES):
        kinds = ("tables", "networks") if opened.agent.family is Family.TABLES else ("networks", "tables")
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
    callback: Callback,
    notes: list[str],
) -> Trained:
    older = None if elders is None else elders.sources
    if support is not None and opened.agent.law is not LawKind.HISTOGRAM:
        raise ValueError(f"support is for histograms; {opened.agent} has none")
    if opened.agent.family is Family.TABLES:
        from rasf.library.tables.train import train_tables
        from rasf.tabular.learner import SuccessorSettings

        assert isinstance(risk, MeanVariance)
        base = SuccessorSettings(risk=risk, learn_w=learn_w, **opened.agent.constants)
        return train_tables(opened.env, tasks, with_settings(base, settings), steps, seed, callback, older)
    from rasf.deep.agent import preset
    from rasf.library.networks.train import train_networks

    if learn_w:
        raise ValueError(f"learn_w is for tables; {opened.agent} is told the weights, as in the paper")
    chosen = with_settings(replace(preset(opened.agent.name), risk=type(risk)), settings)
    atoms = declared = None
    if opened.agent.law is LawKind.HISTOGRAM:
        declared = opened.declared if support is None and older is None else None
        atoms = _atoms(support, older, opened.bounds, chosen.gamma, chosen.atoms, opened.env.n_features)
    trained = train_networks(opened.env, tasks, chosen, risk, atoms, steps, seed, callback, older, declared)
    clipped = float(np.nanmax(trained.history["clipped"].sum(axis=1), initial=0.0))
    if clipped > _MUCH_CLIPPED:
        notes.append(f"{clipped:.1%} of the histograms' mass was clipped at the ends of the support; give a wider one")
    return trained


def _atoms(given: npt.ArrayLike | None, elders: Any, bounds: Floats | None, gamma: float, n: int, d: int) -> Floats:
    """Atoms (d, n) of discounted feature returns: those of elders, so that they can be merged, or within the support.

    An episode may end at any time, so 0 is always within.
    """
    if given is not None:
        span = checked_bounds("support", given, d)
    elif elders is not None and elders.describe()["law"] == "histogram":
        span = np.array(elders.law.atoms)[:, [0, -1]]
    elif bounds is None:
        raise ValueError("support must be given for a vector environment whose reward_space is not bounded")
    else:
        span = np.stack([np.minimum(bounds[:, 0], 0.0), np.maximum(bounds[:, 1], 0.0)], axis=1) / (1 - gamma)
        span[span[:, 0] == span[:, 1]] += [-1.0, 1.0]  # a feature that is always 0
    return np.linspace(span[:, 0], span[:, 1], n, axis=1)
