"""One run of the four-room experiment: an algorithm, a seed, 128 tasks; and the files that make a batch resumable.

All algorithms of a seed meet the same tasks. A run is saved when it is complete, under a name that says what it is, so
an interrupted batch goes on where it stopped.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Literal

import numpy as np

import rasf
from rasf.envs.four_room import FourRoom
from rasf.files import write_atomically
from rasf.mdp import Floats

NOVEL_TASKS = np.array(list(product((-1.0, 0.0, 1.0), repeat=3)))
NOVEL_EPSILON = 0.12  # the figure's caption; the text says 0.1
TUNING_SEED = 1_000_000  # tuning runs use seeds from here on, reported runs never do


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

    @property
    def name(self) -> str:
        """A file name that no other run has."""
        detail = f"{self.noise}-{self.rollouts}" if self.algorithm == "sfql" else f"{self.eta:g}-{self.tau:g}"
        return f"{self.algorithm}_{self.risk:g}_{detail}_{self.tasks}x{self.steps}_{self.seed}"


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
    from rasf.tabular.successor_learner import SuccessorLearner, SuccessorSettings

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


def save(run: Run, found: dict[str, Floats], folder: Path) -> None:
    """Write a run's arrays, whole or not at all."""
    from safetensors.numpy import save_file

    write_atomically(
        folder / f"{run.name}.safetensors", lambda partial: save_file(found, partial, metadata=_label(run))
    )


def load(run: Run, folder: Path) -> dict[str, Floats] | None:
    """A finished run's arrays; None if it is not there, not whole, or of another run or version."""
    from safetensors import SafetensorError, safe_open

    path = folder / f"{run.name}.safetensors"
    try:
        with safe_open(path, "numpy") as file:
            if (file.metadata() or {}) != _label(run):
                return None
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (FileNotFoundError, SafetensorError):
        return None


def _label(run: Run) -> dict[str, str]:
    return {"run": json.dumps(asdict(run)), "version": rasf.__version__}


def span(runs: Iterable[Run], folder: Path) -> float:
    """Seconds from the first saved run to the last: the wall time of a batch, its interruptions included."""
    saved = [(folder / f"{run.name}.safetensors").stat().st_mtime for run in runs]
    return max(saved) - min(saved)


def _execute_and_save(run: Run, folder: Path) -> None:
    save(run, execute(run), folder)


def run_all(runs: Iterable[Run], folder: Path, tick: Callable[[], None]) -> None:
    """Run what is not there yet, one process a core; `tick` once per run."""
    missing = []
    for run in runs:
        if load(run, folder) is None:
            missing.append(run)
        else:
            tick()
    if not missing:
        return
    with ProcessPoolExecutor(max_workers=os.cpu_count(), mp_context=get_context("spawn")) as pool:
        waiting = [pool.submit(_execute_and_save, run, folder) for run in missing]
        try:
            for done in as_completed(waiting):
                done.result()
                tick()
        except BrokenProcessPool:
            raise ValueError("a worker process died, perhaps for want of memory; what was finished is kept") from None
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)  # else leaving would wait for the whole queue
            raise
