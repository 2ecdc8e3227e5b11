"""`rasf demo`: train a library in the four-room world, then act on 27 new tasks at a neutral and at an averse risk.

The demo uses the public calls `rasf.learn` and `library.compare`. A wrapper of the environment counts visited cells.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from rich.console import Group
from rich.table import Table
from rich.text import Text

import rasf
from rasf import drawing
from rasf.arrays import Floats
from rasf_lab.paper.four_room.figures import visit_map
from rasf_lab.paper.four_room.measures import trap_cells

WORLD = "rasf/FourRoom-v0"
TASKS, STEPS, EPISODES = 32, 20_000, 20
RISKS = {"risk-neutral": rasf.MeanVariance(0.0), "risk-aware": rasf.MeanVariance.from_paper(-2.0)}
# weights of each task: -1, 0 or 1 for each of three kinds of objects, 1 for the goal, -2 for a failure
NEW_TASKS = [[*rewards, 1.0, -2.0] for rewards in product((-1.0, 0.0, 1.0), repeat=3)]


class OnNewTasks(NamedTuple):
    """Results on the new tasks: returns and failures (27, episodes), and the share of episodes that visit each cell."""

    returns: Floats
    failures: Floats
    visits: Floats


class Footprints(gym.Wrapper[object, object, object, object]):
    """A wrapper of the four-room world that counts in `counts` (rows, columns) how many episodes visit each cell."""

    def __init__(self, counts: Floats) -> None:
        super().__init__(gym.make(WORLD))
        self._counts = counts
        self._seen: set[tuple[int, ...]] = set()

    def reset(self, **options: Any) -> Any:
        self._seen = set()
        return super().reset(**options)

    def step(self, action: Any) -> Any:
        outcome = super().step(action)
        cell = tuple(outcome[0][:2])
        self._counts[cell] += cell not in self._seen
        self._seen.add(cell)
        return outcome


def total_ticks() -> int:
    """Return the number of calls of `tick` in `run`."""
    return len(RISKS) * TASKS + len(NEW_TASKS)


def run(seed: int, picture: Path, tick: Callable[[], None]) -> Group:
    """Train a library, act on the new tasks, save the picture, and return the report.

    Args:
        seed: seed of training and of the episodes.
        picture: file of the picture.
        tick: called in every training task once for each risk, and after every new task.

    Raises:
        ValueError: `picture` is a folder.
    """
    if picture.is_dir():  # raise the error before the training, which takes time
        raise ValueError(f"--out must name a picture file, got the folder {picture}")
    picture.parent.mkdir(parents=True, exist_ok=True)
    outcomes = train_and_meet(seed, tick)
    _draw(outcomes, seed, picture)
    return _report(outcomes, picture)


def train_and_meet(seed: int, tick: Callable[[], None]) -> dict[str, OnNewTasks]:
    """Train policies for both risks, and return the results on the new tasks for each name in `RISKS`."""
    risks = list(RISKS.values())
    library = rasf.learn(
        WORLD, agent="rasf-model", tasks=TASKS, risk=risks, steps_per_task=STEPS, seed=seed, callback=lambda _: tick()
    )
    counts = np.zeros(gym.make(WORLD).observation_space.nvec[:2])
    visits = {name: np.zeros_like(counts) for name in RISKS}

    def credit(name: str, episodes_over: int) -> None:
        visits[name] += counts
        counts[:] = 0.0

    reports = []
    for w in NEW_TASKS:
        compared = library.compare(lambda: Footprints(counts), w, RISKS, EPISODES, seed=seed, callback=credit)
        reports.append(compared.reports)
        tick()
    return {
        name: OnNewTasks(
            np.array([report[name].returns for report in reports]),
            np.array([report[name].failures for report in reports]),
            visits[name].ravel() / (EPISODES * len(NEW_TASKS)),
        )
        for name in RISKS
    }


def _draw(outcomes: dict[str, OnNewTasks], seed: int, picture: Path) -> None:
    drawn = drawing.figure(9, 5)
    for axes, (name, outcome) in zip(drawn.subplots(1, 2), outcomes.items(), strict=True):
        # visit_map draws log10(1 + n), and n = 9 is darkest. So cells that all episodes visit are darkest
        visit_map(axes, 9 * outcome.visits)
        axes.set_title(f"{name} transfer: fails in {outcome.failures.mean():.1%} of the episodes", fontsize=10)
    drawn.suptitle("Cells visited on 27 new tasks by the same library (red x: traps)", fontweight="bold")
    settings = f"{TASKS} training tasks, {EPISODES} episodes on each new task, seed {seed}"
    drawn.supxlabel(f"a darker cell is visited in more episodes; {settings}", fontsize=7)
    drawing.save(drawn, picture)


def _report(outcomes: dict[str, OnNewTasks], picture: Path) -> Group:
    table = Table(title=f"27 new tasks, {EPISODES} episodes each, no further training", title_justify="left")
    for heading in ("transfer", "mean return", "variance", "failures", "traps stepped on"):
        table.add_column(heading, justify="left" if heading == "transfer" else "right")
    for name, (returns, failures, visits) in outcomes.items():
        cells = (f"{returns.mean():.2f}", f"{returns.var(axis=1).mean():.2f}", f"{failures.mean():.1%}")
        table.add_row(name, *cells, f"{visits[trap_cells()].sum():.2f} per episode")
    neutral, averse = (f"{outcome.failures.mean():.1%}" for outcome in outcomes.values())
    before = (
        f"A library was trained on {TASKS} random tasks of the four-room world: collect objects, reach the goal, avoid "
        f"the traps. It has {len(RISKS) * TASKS} policies: a risk-neutral and a risk-aware one for each task. It then "
        "acted on 27 tasks with other rewards, without further training: once with scores from the mean of the return "
        "alone, and once with scores from its mean and variance.\n"
    )
    after = (
        f"\nRisk-neutral transfer fails in {neutral} of the episodes, risk-aware transfer in {averse}. "
        f"The picture is {picture}."
    )
    return Group(Text(before), table, Text(after))
