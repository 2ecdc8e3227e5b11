"""Runs of the suite, by the machinery of `rasf_lab.sweep`: libraries that are trained and asked, and rivals retrained.

A run is a case with a seed. Its agent is "library", our own, or a rival; most are retrained for every unseen weighting,
a run for each. All meet the same beginnings. What comes of it has a row for each way to act (a rival has one) and a
column for each unseen weighting:

    return, cvar       mean of the episodes' returns, and of their worst tenth
    failures           on how many steps of an episode there was one, mean over episodes
    length, gauge      steps of an episode; the mean over steps of what the case measures
    discounted, std    mean and spread of the discounted return for the weights that were acted for, with the remaining
                       return that is predicted beyond a time limit; `predicted`, `predicted_std`: what the library
                       predicts at first observations for this way to act (`ActingRule.predict`)
    earned             mean of the discounted return for the weighting itself, as far as episodes went
    phi                (ways, weightings, d), features summed up over an episode
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
    """The runs of a case: every agent with every seed; by weighting too, of a rival who learns one only."""
    case, size = find_case(name), PRESETS[preset]
    asked, found = case.asked(size), []
    for agent in agents:
        if agent == LIBRARY:
            questions, training = [asked], case.training(size)
        else:
            together = [asked["unseen"]] if RIVALS[agent].every else [[w] for w in asked["unseen"]]
            questions = [Asked(**{**asked, "unseen": some, "actings": []}) for some in together]
            training = rival_training(case, agent, size)
        for seed, one in product(range(size.seeds), questions):
            parameters = {"case": name, "agent": agent, "training": training, "asked": one}
            found.append(Run("suite", cast(Mapping[str, Parameter], parameters), seed))
    return found


def all_runs(names: Sequence[str], preset: str, agents: Sequence[str]) -> list[Run]:
    """The runs of several cases, each with those agents that may meet it; everyone must meet one."""
    meets = {name: {LIBRARY, *rivals_of(find_case(name))} for name in names}
    for agent in agents:
        if not any(agent in known for known in meets.values()):
            why = obstacle(find_case(names[0]), agent)
            raise ValueError(f"{agent} can meet none of {', '.join(names)}: {why}")
    return [run for name in names for run in runs_of(name, preset, [one for one in agents if one in meets[name]])]


def run_cases(names: Sequence[str], preset: str, folder: Path, agents: Sequence[str], tick: Callable[[], None]) -> None:
    """Run what is neither in `folder`/suite.npz nor in `folder`/suite-runs, one process per core."""
    runs, archived = all_runs(names, preset, agents), load_archive(folder / _ARCHIVE).runs
    missing = [run for run in runs if run not in archived]
    for _ in range(len(runs) - len(missing)):
        tick()
    if missing:
        store = Store(folder / "suite-runs")
        before = [run for run in _declared(store) if run not in set(missing)]  # other cases lie in the same folder
        run_all(Spec("suite", tuple(before + missing)), store.folder, tick, only=missing)


def _declared(store: Store) -> list[Run]:
    with suppress(ValueError):
        return store.runs()
    return []


def finished_runs(folder: Path) -> list[Finished]:
    """All that is done, in `folder`/suite.npz and in `folder`/suite-runs."""
    store, archived = Store(folder / "suite-runs"), load_archive(folder / _ARCHIVE).runs
    swept = (store.finished(run) for run in _declared(store) if run not in archived)
    return [*archived.values(), *(one for one in swept if one is not None)]


def pack(folder: Path) -> None:
    """Write `folder`/suite.npz anew, with the runs that are in it and those of the sweep beside it.

    The summary reads all that is kept; the sums of features and the libraries are not kept.

    Args:
        folder: as that of `finished_runs`.
    """
    small = [
        one._replace(arrays={name: array for name, array in one.arrays.items() if name != "phi"})
        for one in finished_runs(folder)
    ]
    save_archive(folder / _ARCHIVE, small, {})


class Suite:
    """See the module's header."""

    structured = ("training", "asked")

    def check(self, parameters: Mapping[str, Parameter]) -> None:
        """Only what `runs_of` makes is run: `rasf suite` does it."""
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
        """Each alone, but for those that are trained alike in one program, as many as it takes."""
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
    """The run's library, trained now or before; and its file, which is the same whatever is asked of it."""
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
    """An environment that stays open: making one may take longer than an episode in it."""

    def close(self) -> None:
        """Not yet."""


class _Environments:
    """Makes environments of a case, and hands out the same ones for every question."""

    def __init__(self, case: Case) -> None:
        self._case, self._kept, self._given = case, list[_Kept](), 0

    def again(self) -> Callable[[], _Kept]:
        """From the first on."""
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
    """What one way to act leads to on one weighting."""
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
