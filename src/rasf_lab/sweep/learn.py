"""The experiment `learn`: `rasf.learn` on any environment, for many agents, tasks, risks and seeds.

The parameters are arguments of `rasf.learn` and settings of the agent. The parameter `evaluate` is a section of the
sweep file with arguments of the evaluation. `TRAINING` and `EVALUATION` of `rasf.library.arguments.declared` list the
arguments that a sweep may have.

A run saves its library as libraries/ID.rasf in the sweep's folder. ID is a hash of the parameters of training and the
seed, so libraries are not trained again if only `evaluate` changes. The sweep's table of results has measures of
training, as means over policies. For each risk, the table has the measures of evaluation, as means over weightings,
such as `return@neutral` and `return_cvar@mean-variance:-4`. The run's arrays are

    history_NAME      measures of training, one row per policy
    evaluated_w       (n, d), the n weightings of the evaluation, for d features
    MEASURE@RISK      (n, 3), for each weighting the estimate and both ends of its interval
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from itertools import chain, product
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rasf.agents import AGENTS, AgentSpec, Family, LawKind, can_act, check_risks, library_agent
from rasf.checks import bounds, task_weights
from rasf.files import Header
from rasf.library.arguments import readers
from rasf.library.arguments.declared import EVALUATION, SWEEP, TRAINING, given_at, read_values
from rasf.risk.names import risk_to_text, short_risk
from rasf_lab.sweep.runs import Parameter, Run, RunResult, Value, alone
from rasf_lab.sweep.store import report_progress, sweep_folder

if TYPE_CHECKING:
    from rasf.arrays import Floats
    from rasf.library.policy_library import PolicyLibrary
    from rasf.library.progress import TrainingProgress
    from rasf.risk import Risk

_REPORT_EVERY_S = 2.0
_TRAINING, _EVALUATION = given_at(TRAINING, SWEEP), given_at(EVALUATION, SWEEP)


class Learn:
    """The experiment `learn`, as described in the module's header."""

    # the names of parameters whose values may be lists or dicts
    structured = (
        *(name for name, row in _TRAINING.items() if row.kind is str and row.read is not readers.text),
        "widths",
        "evaluate",
    )

    def check(self, parameters: Mapping[str, Parameter]) -> Mapping[str, Parameter]:
        """Check the parameters of a run. Return them, with names of files replaced by the weights in the files."""
        for name in ("env", "tasks"):
            if name not in parameters:
                raise ValueError(f"{name} is missing")
        read, evaluated = _read(parameters), _read_evaluation(parameters)
        n_features, chosen = _look(read["env"], json.dumps(read.get("env_kwargs", {})))
        agent = chosen if read.get("agent", "auto") == "auto" else library_agent(read["agent"])
        _check_settings(agent, {name: one for name, one in read.items() if name == "gamma" or name not in _TRAINING})
        check_risks(agent, read.get("risk", []))
        for risk in evaluated.get("risk", []):
            _check_acting(agent, risk, bool(read.get("covariance")))
        if "support" in read:
            bounds("support", read["support"], n_features)
        kept = dict(parameters)
        if not isinstance(read["tasks"], int):
            kept["tasks"] = task_weights("tasks", read["tasks"], n_features).tolist()
        if "tasks" in evaluated:
            w = task_weights("evaluate.tasks", evaluated["tasks"], n_features)
            kept["evaluate"] = readers.table("evaluate", parameters["evaluate"]) | {"tasks": w.tolist()}
        return kept

    def uses_gpus(self, runs: Sequence[Run]) -> bool:
        """Return whether a run names an agent with networks. "auto" does not count: it may select tables."""
        named = {str(run.parameters.get("agent", "auto")) for run in runs} - {"auto"}
        return any(AGENTS[name].family is Family.NETWORKS for name in named)

    def pack(self, runs: Sequence[Run], gpus: int) -> list[list[Run]]:
        return alone(runs)

    def execute(self, runs: Sequence[Run], scratch: Path) -> list[RunResult]:
        return [_execute(run, scratch) for run in runs]


LEARN = Learn()


def _read(parameters: Mapping[str, Parameter]) -> Header:
    """Return the arguments of `rasf.learn`, converted from text and lists, and the settings of the agent, unchanged."""
    read = read_values(_TRAINING, {name: value for name, value in parameters.items() if name != "evaluate"})
    return read | {"env": readers.import_environment(read["env"])}


def _read_evaluation(parameters: Mapping[str, Parameter]) -> Header:
    given = readers.table("evaluate", parameters.get("evaluate", {}))
    for name in given:
        if name not in _EVALUATION:
            raise ValueError(f"evaluate.{name} is unknown; known are {', '.join(_EVALUATION)}")
    return read_values(_EVALUATION, given, "evaluate.")


@cache
def _look(env: str, kwargs: str) -> tuple[int, AgentSpec]:
    """Return the number of features of an environment, and the agent that `agent="auto"` selects for it."""
    from rasf.envs.gymnasium.single import open_environment
    from rasf.library.arguments.environment import choose_agent

    try:
        opened = open_environment(env, **json.loads(kwargs))
    except Exception as error:  # a user's environment may raise any exception
        raise ValueError(f"env {env!r} cannot be used: {error}") from error
    try:
        return opened.n_features, choose_agent(opened, 0)[0]
    finally:
        opened.close()


def _check_settings(agent: AgentSpec, settings: Mapping[str, object]) -> None:
    from rasf.library.training import setting_names, trainer_of

    names = setting_names(trainer_of(agent, {})[0])
    for name, value in settings.items():
        if name not in names:
            known = ", ".join(dict.fromkeys((*_TRAINING, "evaluate", *names)))
            raise ValueError(f"{name} is unknown; known are {known}")
        try:
            trainer_of(agent, {name: value})
        except ValueError as error:
            sentence = str(error)
            raise ValueError(sentence if sentence.startswith(name) else f"{name}: {sentence}") from None


def _check_acting(agent: AgentSpec, risk: Risk, covariance: bool) -> None:
    """Raise ValueError, before training, for a risk at which the agent's library will not be able to act."""
    means_only = agent.neutral and agent.law is not LawKind.HISTOGRAM and not covariance
    if not can_act(agent.law, risk, covariance=not means_only):
        raise ValueError(f"evaluate.risk must be a risk that {agent} can act for, got {risk_to_text(risk)}")


def _execute(run: Run, scratch: Path) -> RunResult:
    library, path = _library(run, scratch)
    arrays = {f"history_{name}": part for name, part in library.history.items()}
    scalars: dict[str, Value] = {"library": f"{path.parent.name}/{path.name}", "policies": len(library.policies)}
    if run.parameters.get("agent", "auto") == "auto":
        scalars["agent"] = library.agent
    seen = {f"train_{name}": float(library.history[name].mean()) for name in ("return", "failures")}
    # the mean of failures is nan if the environment marks no failures
    scalars |= {name: mean for name, mean in seen.items() if not math.isnan(mean)}
    if "evaluate" in run.parameters:
        options = _read(run.parameters)
        same = {"env": options["env"], "env_kwargs": options.get("env_kwargs", {})}
        measured = _evaluate(library, same, _read_evaluation(run.parameters))
        scalars |= {name: float(part[:, 0].mean()) for name, part in measured.items() if "@" in name}
        arrays |= measured
    return RunResult(scalars, arrays)


def _library(run: Run, scratch: Path) -> tuple[PolicyLibrary, Path]:
    """Load or train the run's library; return the library and the path of its file."""
    from rasf.library.file import load
    from rasf.library.learn import learn

    training = Run(run.kind, {name: value for name, value in run.parameters.items() if name != "evaluate"}, run.seed)
    path = sweep_folder(scratch) / "libraries" / f"{training.id}.rasf"
    if path.exists():
        with suppress(ValueError):  # a damaged file counts as absent
            return load(path), path
    options = _read(run.parameters)
    learn(**options, seed=run.seed, callback=reporter(scratch)).save(path)
    return load(path), path


def reporter(scratch: Path) -> Callable[[TrainingProgress], None]:
    """Return a callback for `rasf.learn` that reports the progress of the job with this scratch folder."""
    reported = time.monotonic()

    def report(progress: TrainingProgress) -> None:
        nonlocal reported
        if time.monotonic() - reported > _REPORT_EVERY_S:
            reported = time.monotonic()
            report_progress(scratch, progress.share)

    return report


def _evaluate(library: PolicyLibrary, env: Header, options: Header) -> dict[str, Floats]:
    """Return the arrays `MEASURE@RISK` (n, 3) and `evaluated_w` (n, d) of the module's header."""
    w = options.pop("tasks", None)
    if w is None:
        w = np.array(list(dict.fromkeys(policy.w for policy in library.policies)))
    risks = options.pop("risk", None) or library.risks()
    named = {short_risk(risk_to_text(risk)): risk for risk in risks}
    compared = [library.compare(w=one, risks=named, **env, **options) for one in w]
    found = {"evaluated_w": w}
    reports = [report for each in compared for report in each.reports.values()]
    for name, measure in product(named, dict.fromkeys(chain(*(report.measures for report in reports)))):
        # an environment that marks only failed steps gives no measure of failures if no step failed: the measure is 0
        rows = [each.reports[name].measures.get(measure, (0.0, 0.0, 0.0)) for each in compared]
        found[f"{measure}@{name}"] = np.array([tuple(row) for row in rows])
    return found
