"""The four-room experiment (the paper's Figures 3, 8 and 9): its runs, and `rasf reproduce four-room`.

A run is one algorithm with one seed on all tasks. `rasf_lab.sweep` executes the runs of a batch. A finished run is a
file, so an interrupted batch resumes where it stopped. All algorithms have the same tasks for a seed, so differences
are paired by seed. beta is the factor of the whole variance, as in the paper's experiments: beta = -2 is
MeanVariance(-4). PRQL's eta and tau are searched for every omega, as in the paper, on seeds whose runs are not
reported.

Where the paper can be read in two ways, there are runs for both: the initial noise is independent or shared, w is
learned or given, Sigma is full or diagonal, the step size of PRQL's risk table C is 0.05 or 0.1, and PRQL counts a use
of a policy after or before the episode. Beyond the paper, there are runs of `rasf-model`, which keeps all experience,
and of the exact optimum of some tasks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from itertools import chain, product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rasf.agents import AGENTS, Family
from rasf.arrays import Floats
from rasf.checks import number, one_of, whole
from rasf.envs.four_room import FourRoom
from rasf.risk import MeanVariance
from rasf.tabular.settings import ModelSettings, TableSettings
from rasf.tabular.stretch import TaskOutcome
from rasf_lab.common.results import Result
from rasf_lab.common.runs import run_all, with_defaults
from rasf_lab.paper.four_room.claims import judge
from rasf_lab.paper.four_room.measures import (
    AVERSE,
    NOVEL_TASKS,
    RISKS,
    Arrays,
    choices,
    curve_summary,
    novel_summary,
    search_summary,
)
from rasf_lab.sweep import runs as sweep
from rasf_lab.sweep.spec import Spec
from rasf_lab.sweep.store import Finished, Store

if TYPE_CHECKING:
    from rasf.tabular.learner import SuccessorLearner

NOVEL_EPSILON = 0.12  # probability of a random action, as in the caption of Figure 9; the paper's text says 0.1
TUNING_SEED = 1_000_000  # this seed and larger seeds are only for tuning, never for reported runs
ETAS, TAUS = (0.1, 0.3, 0.5), (1.0, 10.0, 100.0)
PAPERS = tuple(spec.name for spec in AGENTS.values() if spec.family is Family.TABLES and spec.neutral)
# beyond the paper: rasf-model for one risk, or for two risks that learn from the same experience ("both"); RaSFQL,
# evaluated at several levels of aversion ("dial"); the exact optimum
ALGORITHMS = (*PAPERS, "rasf-model", "rasf-model-both", "rasfql-dial", "optimum")
NOISES = ("independent", "shared")
# PRQL in our reading of the paper and in two other readings; eta and tau are searched for each reading
POLICY_REUSE: dict[str, dict[str, Any]] = {
    "prql": {},
    "prql c-step-0.1": {"rho": 0.2},  # the step size of C is alpha rho, and alpha is 0.5
    "prql as-printed": {"as_printed": True},
}
_USES_C = "prql c-step-0.1"  # not run at omega 0, where scores do not depend on C
Setting = tuple[str, float]  # name in POLICY_REUSE, omega


@dataclass(frozen=True)
class FourRoomSize:
    """The size of a batch of runs."""

    seeds: int  # number of seeds of the paper's agents
    tasks: int
    steps: int  # steps of each task
    tuning_seeds: int  # number of seeds of the search for eta and tau
    shared_seeds: int  # number of seeds of the runs with shared initial noise
    rollouts: int  # rollouts on each novel task
    model_seeds: int  # number of seeds of the runs of `rasf-model` and of the exact optimum
    optimum_tasks: int  # number of tasks, the first of every seed, that are also solved exactly
    library_seeds: int  # number of seeds of the runs whose libraries act, without exploration, on the novel tasks
    library_rollouts: int  # rollouts of these libraries on each novel task


PRESETS = {
    "quick": FourRoomSize(
        seeds=2, tasks=24, steps=10_000, tuning_seeds=1, shared_seeds=2, rollouts=20, model_seeds=2, optimum_tasks=1,
        library_seeds=1, library_rollouts=100,
    ),
    "paper": FourRoomSize(
        seeds=120, tasks=128, steps=20_000, tuning_seeds=30, shared_seeds=10, rollouts=100, model_seeds=30,
        optimum_tasks=4, library_seeds=30, library_rollouts=500,
    ),
}  # fmt: skip


@dataclass(frozen=True)
class FourRoomRun:
    """The parameters of a run. `risk` is the paper's beta or omega."""

    algorithm: str
    risk: float
    seed: int
    tasks: int
    steps: int
    noise: str = "independent"
    eta: float = 0.0
    tau: float = 1.0
    rollouts: int = 0  # rollouts on every novel task after training
    learn_w: bool = True
    covariance: str = "full"
    rho: float = 0.1
    as_printed: bool = False


def policy_reuse_settings() -> list[Setting]:
    """Return the settings that are tuned separately: every reading of PRQL at every omega."""
    return [(name, omega) for name, omega in product(POLICY_REUSE, RISKS) if omega or name != _USES_C]


def tuning_runs(size: FourRoomSize) -> dict[tuple[Setting, tuple[float, float]], list[FourRoomRun]]:
    """Return the runs of PRQL that search eta and tau, by setting and by (eta, tau)."""
    seeds = range(TUNING_SEED, TUNING_SEED + size.tuning_seeds)
    return {
        ((name, omega), (eta, tau)): [
            FourRoomRun("prql", omega, s, size.tasks, size.steps, eta=eta, tau=tau, **POLICY_REUSE[name]) for s in seeds
        ]
        for (name, omega), eta, tau in product(policy_reuse_settings(), ETAS, TAUS)
    }


def reported_runs(
    size: FourRoomSize, first_seed: int, tuned: Mapping[Setting, tuple[float, float]]
) -> dict[str, list[FourRoomRun]]:
    """Return the reported runs, by the name of their curve. SFQL and RaSFQL at -2 also act on the novel tasks.

    Args:
        size: the size of the batch.
        first_seed: the first seed.
        tuned: eta and tau of every setting of PRQL.
    """
    same = (size.tasks, size.steps)
    seeds = range(first_seed, first_seed + size.seeds)
    groups: dict[str, list[FourRoomRun]] = {}
    for beta in RISKS:
        rollouts = size.rollouts if beta in (0.0, -2.0) else 0
        groups[f"sfql independent {beta:g}"] = [FourRoomRun("sfql", beta, s, *same, rollouts=rollouts) for s in seeds]
        groups[f"sfql shared {beta:g}"] = [
            FourRoomRun("sfql", beta, s, *same, "shared") for s in seeds[: size.shared_seeds]
        ]
        groups[f"sfql w-given {beta:g}"] = [FourRoomRun("sfql", beta, s, *same, learn_w=False) for s in seeds]
    groups["sfql diagonal -2"] = [FourRoomRun("sfql", -2.0, s, *same, covariance="diagonal") for s in seeds]
    for (name, omega), (eta, tau) in tuned.items():
        groups[f"{name} {omega:g}"] = [
            FourRoomRun("prql", omega, s, *same, eta=eta, tau=tau, **POLICY_REUSE[name]) for s in seeds
        ]
    groups["q-learning"] = [FourRoomRun("q-learning", 0.0, s, *same) for s in seeds]
    solved = min(size.optimum_tasks, size.tasks)
    fewer = seeds[: size.model_seeds]
    for beta in (0.0, -2.0):
        groups[f"rasf-model {beta:g}"] = [FourRoomRun("rasf-model", beta, s, *same, learn_w=False) for s in fewer]
        groups[f"rasf-model w-learned {beta:g}"] = [FourRoomRun("rasf-model", beta, s, *same) for s in fewer]
        if solved:
            groups[f"optimum {beta:g}"] = [FourRoomRun("optimum", beta, s, solved, size.steps) for s in fewer]
    held: dict[str, Any] = {"rollouts": size.library_rollouts, "learn_w": False}
    if solved:
        groups["optimum novel"] = [FourRoomRun("optimum", 0.0, first_seed, len(NOVEL_TASKS), size.steps, **held)]
    for name, algorithm, beta in (
        ("rasf-model library 0", "rasf-model", 0.0),
        ("rasf-model library -2", "rasf-model", -2.0),
        ("rasf-model library both", "rasf-model-both", -2.0),
        ("rasfql dial", "rasfql-dial", -2.0),
    ):
        groups[name] = [FourRoomRun(algorithm, beta, s, *same, **held) for s in seeds[: size.library_seeds]]
    return groups


def total_ticks(preset: str) -> int:
    """Return the number of runs of a preset."""
    size, any_setting = PRESETS[preset], dict.fromkeys(policy_reuse_settings(), (ETAS[0], TAUS[0]))
    return sum(map(len, chain(tuning_runs(size).values(), reported_runs(size, 0, any_setting).values())))


def run(preset: str, seed: int, tick: Callable[[], None], folder: Path) -> Result:
    """Execute the runs that are missing in `folder`/four-room-runs, and return the result of all runs."""
    size, store = PRESETS[preset], Store(folder / "four-room-runs")
    if seed + size.seeds > TUNING_SEED:
        raise ValueError(f"seed must be at most {TUNING_SEED - size.seeds}, as larger seeds are for tuning, got {seed}")
    begin = time.perf_counter()
    tuning = tuning_runs(size)
    tried = list(chain(*tuning.values()))
    run_all(_spec(tried), store.folder, tick)
    settings = {searched: _finished(runs, store) for searched, runs in tuning.items()}
    returns = {searched: _stacked(group)["return"].sum(axis=1) for searched, group in settings.items()}  # (seeds,)
    tuned = {
        setting: max(product(ETAS, TAUS), key=lambda pair: returns[setting, pair].mean())
        for setting in policy_reuse_settings()
    }
    reported = reported_runs(size, seed, tuned)
    run_all(_spec([*tried, *chain(*reported.values())]), store.folder, tick, already_ticked=len(tried))
    finished = {name: _finished(runs, store) for name, runs in reported.items()}
    curves = {name: _stacked(group) for name, group in finished.items()}
    novel = {"neutral": curves["sfql independent 0"], "averse": curves["sfql independent -2"]}
    searches = {
        f"{name} {omega:g}": {pair: returns[(name, omega), pair] for pair in product(ETAS, TAUS)}
        for name, omega in policy_reuse_settings()
    }
    numbers = {
        "settings": vars(size),
        "tuned": {f"{name} {omega:g}": {"eta": eta, "tau": tau} for (name, omega), (eta, tau) in tuned.items()},
        "searched": {name: search_summary(search) for name, search in searches.items()},
        "curves": {name: curve_summary(arrays) for name, arrays in curves.items()},
        "choices": choices(curves),
        "novel": {name: novel_summary(arrays) for name, arrays in novel.items()},
    }
    # earlier calls may have executed some runs, so include the time from the end of the first to that of the last run
    every = chain(*settings.values(), *finished.values())
    ended = [datetime.fromisoformat(one.provenance["date"]) for one in every]
    wall_time = max(time.perf_counter() - begin, (max(ended) - min(ended)).total_seconds())
    return Result("four-room", preset, seed, wall_time, numbers, judge(curves, novel, searches))


def _finished(runs: Sequence[FourRoomRun], store: Store) -> list[Finished]:
    found = []
    for run in runs:
        one = store.finished(swept(run))
        if one is None:
            raise ValueError(f"the run {run} is missing from {store.folder}; run `rasf reproduce four-room` again")
        found.append(one)
    return found


def _stacked(group: list[Finished]) -> Arrays:
    """Return the arrays of the runs by name, stacked over seeds, such as return and failures (seeds, tasks)."""
    return {name: np.stack([one.arrays[name] for one in group]) for name in group[0].arrays}


def tasks_of(run: FourRoomRun) -> Floats:
    """Return the run's tasks (n, 5), which depend on the seed but not on the algorithm."""
    return FourRoom().random_tasks(run.tasks, np.random.default_rng([run.seed, 77]))


def _policy_reuse(run: FourRoomRun) -> Arrays:
    from rasf_lab.paper.four_room import prql

    history = prql.train(
        FourRoom(),
        tasks_of(run),
        steps_per_task=run.steps,
        omega=run.risk,
        eta=run.eta,
        tau=run.tau,
        noise_scale=0.01,
        rho=run.rho,
        as_printed=run.as_printed,
        reuse=run.algorithm == "prql",
        seed=run.seed,
    )
    return {"return": history.returns, "failures": history.failures.astype(np.float64)}


@dataclass(frozen=True)
class _PaperSettings(TableSettings):
    """Table settings with two readings of the paper that the library does not offer."""

    shared_noise: bool = False  # type: ignore[misc]
    diagonal: bool = False  # type: ignore[misc]


def _trained(run: FourRoomRun) -> tuple[SuccessorLearner, Arrays]:
    """Train a learner on all tasks; return the learner, and its return and failures on each task."""
    from rasf.tabular.learner import SuccessorLearner

    rooms = FourRoom()
    settings = _PaperSettings(
        learn_w=run.learn_w,
        covariance=run.rollouts > 0,  # Sigma is needed to act on the novel tasks at several risks
        shared_noise=run.noise == "shared",
        diagonal=run.covariance == "diagonal",
    )
    risk = MeanVariance.from_paper(run.risk)
    learner = SuccessorLearner(rooms.n_features, rooms.n_actions, settings, run.seed, run.tasks, risk)
    return learner, _history([learner.learn_task(rooms, w, run.steps) for w in tasks_of(run)])


def _successor(run: FourRoomRun) -> Arrays:
    learner, history = _trained(run)
    return history | (_novel(run, FourRoom(), learner) if run.rollouts else {})


def _novel(run: FourRoomRun, rooms: FourRoom, learner: SuccessorLearner) -> Arrays:
    """For each of `WAYS`, return features (27, rollouts, 5) and visits (27, cells) of rollouts on the novel tasks."""
    from rasf_lab.paper.four_room.novel import coefficients, roll_out

    fading = [AVERSE.at_discount(learner.settings.gamma**t) for t in range(rooms.step_limit)]
    found: Arrays = {}
    for way, risks in {"neutral": [MeanVariance(0.0)], "averse": [AVERSE], "aware": fading}.items():
        features, visits = [], []
        for index, class_rewards in enumerate(NOVEL_TASKS):
            w = rooms.task(class_rewards)
            coefs = np.stack([coefficients(learner, w, risk) for risk in risks])
            draws = np.random.default_rng([run.seed, 99, index]).random((run.rollouts, rooms.step_limit, 3))
            earned, _, seen = roll_out(learner, rooms, coefs, NOVEL_EPSILON, draws)
            features.append(earned)
            visits.append(seen)
        found[f"features_{way}"] = np.stack(features)
        found[f"visits_{way}"] = np.stack(visits).astype(np.float64)
    return found


def _model(run: FourRoomRun) -> Arrays:
    """Train `rasf-model` and return its history; if the run has rollouts, also its results on the novel tasks.

    There is one policy for each risk of the run and each task. In a task, the policies of the risks act for equal
    shares of the steps, and all of them learn from every step.
    """
    from rasf.library.tables.policies import TablePolicies
    from rasf.tabular.model import ModelLearner
    from rasf_lab.paper.four_room import predictions

    begin, rooms, tasks = time.perf_counter(), FourRoom(), tasks_of(run)
    betas = (0.0, run.risk) if run.algorithm == "rasf-model-both" else (run.risk,)
    learner = ModelLearner(rooms.n_features, rooms.n_actions, ModelSettings(learn_w=run.learn_w), run.seed)
    outcomes = []
    for w in tasks:
        learner.begin_task(None if run.learn_w else w)
        of_task = [learner.lead(rooms, w, MeanVariance.from_paper(beta), run.steps // len(betas)) for beta in betas]
        outcomes.append(TaskOutcome(*(sum(each) for each in zip(*of_task, strict=True))))
    found = _history(outcomes) | {
        "seconds": np.array([time.perf_counter() - begin, learner.planning_seconds]),
        "states": np.array([float(learner.states)]),
    }
    if not run.rollouts:
        return found
    libraries = {beta: predictions.library_of(learner, tasks, beta) for beta in betas}
    acting = [predictions.dial(library, run.seed, run.rollouts, (beta,)) for beta, library in libraries.items()]
    found["novel_return"] = np.stack([one["dial_return"][:, 0] for one in acting])  # (risks, 27)
    found["novel_failures"] = np.stack([one["dial_failed"][:, 0].mean(axis=1) for one in acting])
    if len(betas) > 1:
        found |= predictions.dial(TablePolicies.merge(list(libraries.values())), run.seed, run.rollouts)
        parts = [predictions.alone(learner, tasks, beta, run.seed, run.rollouts) for beta in betas]
        found |= {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return found


def _rasfql_dial(run: FourRoomRun) -> Arrays:
    """Train RaSFQL at the run's risk; return its history, and results of its library at all levels of aversion."""
    from rasf.library.tables.policies import TablePolicies
    from rasf_lab.paper.four_room import predictions

    learner, history = _trained(run)
    library = TablePolicies.from_learner(learner, learner.keys())
    return history | predictions.dial(library, run.seed, run.rollouts)


def _optimum(run: FourRoomRun) -> Arrays:
    """Return the total reward and the failures of the exactly optimal policy of each task in `run.steps` steps."""
    from rasf_lab.paper.four_room.optimum import follow, solve

    rooms, beta = FourRoom(), float(MeanVariance.from_paper(run.risk).beta)
    # `rollouts` > 0 marks the run that solves the novel tasks, "optimum novel"
    weights = [rooms.task(rewards) for rewards in NOVEL_TASKS[: run.tasks]] if run.rollouts else tasks_of(run)
    returns, failures = np.zeros((2, run.tasks))
    for task, w in enumerate(weights):
        _, action = solve(rooms, w, beta, ModelSettings().gamma)
        draws, failed = np.random.default_rng([run.seed, task, 0]).random((run.steps, 3)), np.zeros(1, np.int64)
        returns[task] = follow(rooms.world(), rooms.step_limit, w, action, 0.0, draws, failed)
        failures[task] = failed[0]
    return {"return": returns, "failures": failures}


def _history(outcomes: Sequence[TaskOutcome]) -> Arrays:
    return {
        "return": np.array([outcome.total for outcome in outcomes]),
        "failures": np.array([outcome.failures for outcome in outcomes], np.float64),
    }


_EXECUTE = {
    "sfql": _successor,
    "prql": _policy_reuse,
    "q-learning": _policy_reuse,
    "rasf-model": _model,
    "rasf-model-both": _model,
    "rasfql-dial": _rasfql_dial,
    "optimum": _optimum,
}


class FourRoomExperiment:
    """The experiment `kind = "four-room"` of a sweep. Its parameters are the fields of `FourRoomRun`."""

    def check(self, parameters: Mapping[str, sweep.Parameter]) -> dict[str, sweep.Parameter]:
        """Return the parameters and the defaults of the other fields; refuse unknown names and invalid values.

        The defaults are included so that a run has the same id whether a sweep file or `swept` defines the run.
        """
        given = with_defaults(FourRoomRun, parameters)
        one_of("algorithm", given["algorithm"], ALGORITHMS)
        one_of("noise", given["noise"], NOISES)
        one_of("covariance", given["covariance"], ("full", "diagonal"))
        for name in ("learn_w", "as_printed"):
            one_of(name, given[name], (True, False))
        for name, least in (("tasks", 1), ("steps", 1), ("rollouts", 0)):
            whole(name, given[name], least)
        for name in ("risk", "eta", "tau", "rho"):
            number(name, given[name])
        return given

    def uses_gpus(self, runs: Sequence[sweep.Run]) -> bool:
        return False

    def pack(self, runs: Sequence[sweep.Run], gpus: int) -> list[list[sweep.Run]]:
        return sweep.alone(runs)

    def execute(self, runs: Sequence[sweep.Run], scratch: Path) -> list[sweep.RunResult]:
        """Execute the runs. Return total return and failures of each run for the sweep's table, and all its arrays."""
        outcomes = []
        for each in runs:
            run = FourRoomRun(seed=each.seed, **each.parameters)  # type: ignore[arg-type]
            found = _EXECUTE[run.algorithm](run)
            outcomes.append(sweep.RunResult({name: float(found[name].sum()) for name in ("return", "failures")}, found))
        return outcomes


FOUR_ROOM = FourRoomExperiment()


def swept(run: FourRoomRun) -> sweep.Run:
    """Return the run as a `Run` of `rasf_lab.sweep`."""
    return sweep.Run("four-room", {name: value for name, value in asdict(run).items() if name != "seed"}, run.seed)


def _spec(runs: Sequence[FourRoomRun]) -> Spec:
    return Spec("four-room", tuple(map(swept, runs)))
