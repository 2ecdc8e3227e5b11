"""Runs of the suite, executed by `rasf_lab.sweep`: train a policy library or a rival, and measure how it acts.

A run is a case, an agent and a seed. The agent is "library" (ours) or the name of a rival. A library is trained once
and acts for all unseen weightings. Most rivals are retrained for every unseen weighting, in separate runs. Episodes
have the same start states for all agents. The arrays of a run have a row for each way to act (one row for a rival) and
a column for each unseen weighting:

    return, cvar       mean return of the episodes, and the mean of the worst tenth of returns
    failures           mean number of steps with a failure in an episode
    length, gauge      mean number of steps per episode; mean over steps of the case's gauge, such as the speed
    phi                (ways, weightings, d), mean over episodes of the sums of the d features

Runs of libraries also have:

    discounted, std    mean and standard deviation of the realised discounted return, for the weights by which the
                       policy acts (the control changes the weights). In truncated episodes, the predicted remaining
                       return is added
    predicted,         the library's predictions of `discounted` and `std` at the first observations of episodes
    predicted_std      (`ActingRule.predict`)
    earned             mean discounted return for the unchanged weighting, without a predicted remaining return
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import gymnasium
import numpy as np

from rasf.arrays import Floats
from rasf.checks import one_of
from rasf.envs.gymnasium.single import open_environment
from rasf.risk.names import risk_from_text
from rasf_lab.common.archive import load_archive, save_archive
from rasf_lab.common.runs import run_all
from rasf_lab.suite.cases import PRESETS, Acting, Asked, Case, find_case, given, tuples_for_lists
from rasf_lab.suite.rivals import (
    RIVALS,
    TOGETHER,
    obstacle,
    rival_training,
    rivals_of,
    trained_rival,
    trained_together,
)
from rasf_lab.suite.trials import TRYING, Gauge, Trial, outcome_of, stacked
from rasf_lab.sweep.learn import reporter
from rasf_lab.sweep.runs import Parameter, Run, RunResult, Value, alone
from rasf_lab.sweep.spec import Spec
from rasf_lab.sweep.store import Finished, Store, report_progress, sweep_folder

if TYPE_CHECKING:
    from rasf.library.policy_library import PolicyLibrary

LIBRARY = "library"
_ARCHIVE = "suite.npz"
_KNOWN = ("case", "agent", "training", "asked")


def runs_of(name: str, preset: str, agents: Sequence[str] = (LIBRARY,)) -> list[Run]:
    """Return the runs of a case: one run for each agent and seed.

    A rival that is trained for a single weighting has a run for each weighting and seed.

    Args:
        name: the name of the case, or MODULE:CASE.
        preset: a key of `PRESETS`.
        agents: "library" and names of rivals. Default: only "library".
    """
    case, size = find_case(name), PRESETS[preset]
    asked, found = case.asked(size), []
    for agent in agents:
        if agent == LIBRARY:
            queries, training = [asked], case.training(size)
        else:
            groups = [asked["unseen"]] if RIVALS[agent].every else [[w] for w in asked["unseen"]]
            queries = [Asked(**{**asked, "unseen": some, "actings": []}) for some in groups]
            training = rival_training(case, agent, size)
        for seed, one in product(range(size.seeds), queries):
            parameters = {"case": name, "agent": agent, "training": training, "asked": one}
            found.append(Run("suite", cast(Mapping[str, Parameter], parameters), seed))
    return found


def all_runs(names: Sequence[str], preset: str, agents: Sequence[str]) -> list[Run]:
    """Return the runs of several cases. A case has the runs of those agents that can be trained on the case.

    Raises:
        ValueError: an agent cannot be trained on any of the cases.
    """
    trainable = {name: {LIBRARY, *rivals_of(find_case(name))} for name in names}
    for agent in agents:
        if not any(agent in known for known in trainable.values()):
            why = obstacle(find_case(names[0]), agent)
            raise ValueError(f"{agent} cannot be trained on any of {', '.join(names)}: {why}")
    return [run for name in names for run in runs_of(name, preset, [one for one in agents if one in trainable[name]])]


def run_cases(names: Sequence[str], preset: str, folder: Path, agents: Sequence[str], tick: Callable[[], None]) -> None:
    """Execute the runs that are neither in `folder`/suite.npz nor in `folder`/suite-runs, in one process per core.

    Args:
        names: the names of the cases.
        preset: a key of `PRESETS`.
        folder: the folder of suite.npz and suite-runs.
        agents: "library" and names of rivals.
        tick: function that is called once for each finished run.
    """
    runs, archived = all_runs(names, preset, agents), load_archive(folder / _ARCHIVE).runs
    missing = [run for run in runs if run not in archived]
    for _ in range(len(runs) - len(missing)):
        tick()
    if missing:
        store = Store(folder / "suite-runs")
        before = [run for run in _declared(store) if run not in set(missing)]  # the folder may hold runs of other cases
        run_all(Spec("suite", tuple(before + missing)), store.folder, tick, only=missing)


def _declared(store: Store) -> list[Run]:
    with suppress(ValueError):
        return store.runs()
    return []


def finished_runs(folder: Path) -> list[Finished]:
    """Return all finished runs of `folder`/suite.npz and `folder`/suite-runs."""
    store, archived = Store(folder / "suite-runs"), load_archive(folder / _ARCHIVE).runs
    swept = (store.finished(run) for run in _declared(store) if run not in archived)
    return [*archived.values(), *(one for one in swept if one is not None)]


def pack(folder: Path) -> None:
    """Add the finished runs of `folder`/suite-runs to `folder`/suite.npz.

    The sums of features and the libraries are left out, because the summary does not use them.

    Args:
        folder: the folder of suite.npz and suite-runs.
    """
    small = [
        one._replace(arrays={name: array for name, array in one.arrays.items() if name != "phi"})
        for one in finished_runs(folder)
    ]
    save_archive(folder / _ARCHIVE, small, {})


class Suite:
    """The experiment of the suite, as described in the module's header."""

    structured = ("training", "asked")

    def check(self, parameters: Mapping[str, Parameter]) -> None:
        """Raise ValueError for missing or unknown parameters, or for an unknown case or agent."""
        for name in parameters:
            one_of("parameter", name, _KNOWN)
        for name in _KNOWN:
            if name not in parameters:
                raise ValueError(f"{name} is missing; runs of the suite are made by `rasf suite`")
        find_case(str(parameters["case"]))
        one_of("agent", str(parameters["agent"]), (LIBRARY, *RIVALS))

    def uses_gpus(self, runs: Sequence[Run]) -> bool:
        return False

    def pack(self, runs: Sequence[Run], gpus: int) -> list[list[Run]]:
        """Return groups of runs that are executed together.

        Batched rivals with the same case, agent and training form groups of at most `TOGETHER` runs, and one program
        trains a group. Every other run is a group of its own.
        """
        together: dict[str, list[Run]] = {}
        for run in runs:
            if _is_batched(run):
                alike = [run.parameters[name] for name in ("case", "agent", "training")]
                together.setdefault(json.dumps(alike, sort_keys=True), []).append(run)
        packed = alone([run for run in runs if not _is_batched(run)])
        groups = together.values()
        return packed + [some[i : i + TOGETHER] for some in groups for i in range(0, len(some), TOGETHER)]

    def execute(self, runs: Sequence[Run], scratch: Path) -> list[RunResult]:
        if _is_batched(runs[0]):
            return _execute_together(runs, scratch)
        return [_execute(run, scratch) for run in runs]


SUITE = Suite()


def _is_batched(run: Run) -> bool:
    agent = str(run.parameters["agent"])
    return agent != LIBRARY and RIVALS[agent].batched


def _execute_together(runs: Sequence[Run], scratch: Path) -> list[RunResult]:
    one = given(runs[0])
    return trained_together(
        find_case(one["case"]),
        one["agent"],
        one["training"],
        [given(run)["asked"] for run in runs],
        [run.seed for run in runs],
        partial(report_progress, scratch),
    )


def _execute(run: Run, scratch: Path) -> RunResult:
    case, asked = find_case(given(run)["case"]), given(run)["asked"]
    if given(run)["agent"] != LIBRARY:
        return trained_rival(case, given(run)["agent"], given(run)["training"], asked, run.seed)
    library, path = _library(run, case, scratch)
    began = time.perf_counter()
    trying = (_Environments(case), asked, run.seed)
    found = [[_try(library, case, text, w, *trying) for w in np.array(asked["unseen"])] for text in asked["actings"]]
    scalars: dict[str, Value] = {
        "library": f"{path.parent.name}/{path.name}",
        "policies": len(library.policies),
        "training_seconds": float(library.provenance.get("merged", [library.provenance])[0]["seconds"]),
        "asking_seconds": round(time.perf_counter() - began, 1),
        "notes": " ".join(library.notes),
    }
    return RunResult(scalars, stacked(found))


def _library(run: Run, case: Case, scratch: Path) -> tuple[PolicyLibrary, Path]:
    """Load or train the run's library; return the library and its path. The path does not depend on the queries."""
    from rasf.library.file import load
    from rasf.library.learn import learn

    training = Run(run.kind, {name: run.parameters[name] for name in ("case", "training")}, run.seed)
    path = sweep_folder(scratch) / "libraries" / f"{training.id}.rasf"
    if path.exists():
        with suppress(ValueError):  # a damaged file counts as absent
            return load(path), path
    options: dict[str, Any] = dict(given(run)["training"])
    settings = tuples_for_lists(options.pop("settings"))
    risks = [risk_from_text(text) for text in options.pop("risk")]
    kwargs = options.pop("env_kwargs") or None
    watched: dict[str, Any] = {"failure": case.failure, "callback": reporter(scratch)}
    learn(**options, risk=risks, env_kwargs=kwargs, seed=run.seed, **watched, **settings).save(path)
    return load(path), path


class _Kept(gymnasium.Wrapper[object, object, object, object]):
    """An environment that stays open, because opening an environment may take longer than an episode."""

    def close(self) -> None:
        """Leave the environment open."""


class _Environments:
    """Environments of a case, which are made once and used for all queries."""

    def __init__(self, case: Case) -> None:
        self._case, self._kept, self._given = case, list[_Kept](), 0

    def again(self) -> Callable[[], _Kept]:
        """Return a function that returns the next kept environment at each call, beginning with the first."""
        self._given = 0
        return self._next

    def _next(self) -> _Kept:
        if self._given == len(self._kept):
            self._kept.append(_Kept(open_environment(self._case.env, None, **self._case.env_kwargs).env))
        self._given += 1
        return self._kept[self._given - 1]


def _try(
    library: PolicyLibrary, case: Case, text: str, w: Floats, environments: _Environments, asked: Asked, seed: int
) -> Trial:
    """Return the measures of one way to act for one weighting."""
    acting, gauge = Acting.read(text, case, w), Gauge(case)
    report = library.evaluate(
        environments.again(),
        acting.w,
        acting.risk,
        asked["episodes"],
        seed=TRYING + seed,
        failure=gauge,
        max_steps=asked["max_steps"],
        **acting.ways,
    )
    mean, std = report.rule.predict(report.starts).overall()
    realised = report.discounted + report.rest
    return {
        **outcome_of(report.phi, report.failures, report.lengths, w, gauge.mean),
        "earned": (report.discounted_phi @ w).mean(),
        "discounted": realised.mean(),
        "std": realised.std(ddof=1),
        "predicted": mean,
        "predicted_std": std,
    }
