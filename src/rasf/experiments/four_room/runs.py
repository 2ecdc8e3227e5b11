"""One run of the four-room experiment, an algorithm, a seed, 128 tasks, as a kind of `rasf.sweep`.

All algorithms of a seed meet the same tasks. A run is saved when it is complete, so an interrupted batch goes on where
it stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields
from datetime import datetime
from itertools import product
from pathlib import Path
from typing import Any, Literal

import numpy as np

from rasf.arrays import Floats
from rasf.envs.four_room import FourRoom
from rasf.experiments.common import many_runs
from rasf.sweep import runs as sweep
from rasf.sweep.runs import Value
from rasf.sweep.spec import Spec
from rasf.sweep.store import Store

NOVEL_TASKS = np.array(list(product((-1.0, 0.0, 1.0), repeat=3)))
NOVEL_EPSILON = 0.12  # the figure's caption; the text says 0.1
TUNING_SEED = 1_000_000  # tuning runs use seeds from here on, reported runs never do
ALGORITHMS, NOISES = ("sfql", "prql", "q-learning"), ("independent", "shared")


@dataclass(frozen=True)
class Run:
    """What to run. `risk` is the paper's beta (the bare factor of the variance) or omega."""

    algorithm: Literal["sfql", "prql", "q-learning"]
    risk: float
    seed: int
    tasks: int
    steps: int
    noise: Literal["independent", "shared"] = "independent"
    eta: float = 0.0
    tau: float = 1.0
    rollouts: int = 0  # on every novel task, after training


def tasks_of(run: Run) -> Floats:
    """The run's tasks (n, 5), a function of the seed alone."""
    return FourRoom().random_tasks(run.tasks, np.random.default_rng([run.seed, 77]))


def execute(run: Run) -> dict[str, Floats]:
    """Train, and evaluate on the novel tasks if asked; arrays by name."""
    return _successor(run) if run.algorithm == "sfql" else _policy_reuse(run)


def _policy_reuse(run: Run) -> dict[str, Floats]:
    from rasf.tabular import prql

    history = prql.train(
        FourRoom(),
        tasks_of(run),
        steps_per_task=run.steps,
        omega=run.risk,
        eta=run.eta,
        tau=run.tau,
        noise_scale=0.01,
        reuse=run.algorithm == "prql",
        seed=run.seed,
    )
    return {"return": history.returns, "failures": history.failures.astype(np.float64)}


def _successor(run: Run) -> dict[str, Floats]:
    from rasf.risk import MeanVariance
    from rasf.tabular.learner import SuccessorLearner, SuccessorSettings

    rooms = FourRoom()
    settings = SuccessorSettings(
        risk=MeanVariance.from_paper(run.risk),
        initial_noise=run.noise,
        always_covariance=run.rollouts > 0,  # so that neutral sources can be evaluated with risk
    )
    learner = SuccessorLearner(rooms.n_features, 4, settings, run.seed, run.tasks)
    outcomes = [learner.learn_four_room(rooms, w, run.steps) for w in tasks_of(run)]
    found = {
        "return": np.array([outcome.total for outcome in outcomes]),
        "failures": np.array([outcome.failures for outcome in outcomes], np.float64),
    }
    if run.rollouts:
        found |= _novel(run, rooms, learner)
    return found


def _novel(run: Run, rooms: FourRoom, learner: Any) -> dict[str, Floats]:
    """Rollouts on the 27 novel tasks, acting neutrally, at the paper's -2, and at -2 with knowledge of the discount.

    For each way of acting: features (27, rollouts, 5), visits (27, cells).
    """
    from rasf.risk import MeanVariance

    averse = MeanVariance.from_paper(-2.0)
    fading = [averse.at_discount(learner.settings.gamma**t) for t in range(rooms.step_limit)]
    ways = {"neutral": [MeanVariance(0.0)], "averse": [averse], "aware": fading}
    found: dict[str, Floats] = {}
    for way, risks in ways.items():
        features, visits = [], []
        for index, class_rewards in enumerate(NOVEL_TASKS):
            w = rooms.task(class_rewards)
            coefs = np.stack([learner.coefficients(w, risk) for risk in risks])
            draws = np.random.default_rng([run.seed, 99, index]).random((run.rollouts, rooms.step_limit, 3))
            earned, _, seen = learner.roll_out(rooms, coefs, NOVEL_EPSILON, draws)
            features.append(earned)
            visits.append(seen)
        found[f"features_{way}"] = np.stack(features)
        found[f"visits_{way}"] = np.stack(visits).astype(np.float64)
    return found


class FourRoomKind:
    """The kind `four-room` of `rasf.sweep`: parameters are the fields of `Run`."""

    uses_gpus = False

    def check(self, parameters: Mapping[str, Value]) -> None:
        """Refuse what `Run` does not know, and values that cannot be."""
        known = {one.name: one for one in fields(Run) if one.name != "seed"}
        for name in parameters:
            if name not in known:
                raise ValueError(f"{name} is unknown; known are {', '.join(known)}")
        for name, one in known.items():
            if one.default is MISSING and name not in parameters:
                raise ValueError(f"{name} is missing")
        for name, accepted in (("algorithm", ALGORITHMS), ("noise", NOISES)):
            if parameters.get(name, accepted[0]) not in accepted:
                raise ValueError(f"{name} must be one of {', '.join(accepted)}, got {parameters[name]!r}")
        for name, least in (("tasks", 1), ("steps", 1), ("rollouts", 0)):
            value = parameters.get(name, least)
            if not isinstance(value, int) or value < least:
                raise ValueError(f"{name} must be a whole number from {least} on, got {value!r}")
        for name in ("risk", "eta", "tau"):
            if isinstance(parameters.get(name, 0.0), bool | str):
                raise ValueError(f"{name} must be a number, got {parameters[name]!r}")

    def pack(self, runs: Sequence[sweep.Run], gpus: int) -> list[list[sweep.Run]]:
        """Each alone."""
        return sweep.alone(runs)

    def execute(self, runs: Sequence[sweep.Run], scratch: Path) -> list[sweep.Outcome]:
        """Total return and failures for the table, all arrays beside it."""
        found = [execute(Run(seed=run.seed, **run.parameters)) for run in runs]  # type: ignore[arg-type]
        return [
            sweep.Outcome({"return": float(one["return"].sum()), "failures": float(one["failures"].sum())}, one)
            for one in found
        ]


FOUR_ROOM = FourRoomKind()


def swept(run: Run) -> sweep.Run:
    """The run as `rasf.sweep` knows it."""
    parameters = {name: value for name, value in asdict(run).items() if name != "seed"}
    return sweep.Run(f"{__name__}:FOUR_ROOM", parameters, run.seed)


def load(run: Run, folder: Path) -> dict[str, Floats] | None:
    """A finished run's arrays; None if it is not there, not whole, or of another version."""
    found = Store(folder).finished(swept(run))
    return None if found is None else found.arrays


def span(runs: Iterable[Run], folder: Path) -> float:
    """Seconds from the first finished run to the last: the wall time of a batch, its interruptions included."""
    found = [Store(folder).finished(swept(run)) for run in runs]
    ended = [datetime.fromisoformat(one.provenance["date"]) for one in found if one is not None]
    return (max(ended) - min(ended)).total_seconds()


def run_all(runs: Sequence[Run], folder: Path, tick: Callable[[], None], already_ticked: int = 0) -> None:
    """Run what is not there yet, one process a core; `tick` once per run, but for those ticked in an earlier call."""
    many_runs.run_all(Spec("four-room", tuple(map(swept, runs))), folder, tick, already_ticked=already_ticked)
