"""`rasf demo`: train two libraries in the four-room world, one with risk and one without, and meet 27 new tasks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from rich.console import Group
from rich.table import Table
from rich.text import Text

from rasf.arrays import Floats
from rasf.envs.four_room import FourRoom
from rasf.experiments.common import drawing
from rasf.experiments.four_room.figures import visit_map
from rasf.experiments.four_room.measures import novel_outcome, trap_cells
from rasf.experiments.four_room.runs import NOVEL_EPSILON, NOVEL_TASKS
from rasf.risk import MeanVariance
from rasf.tabular.learner import SuccessorLearner, SuccessorSettings

TASKS, STEPS, ROLLOUTS = 32, 20_000, 50
PAPER_BETAS = {"risk-neutral": 0.0, "risk-aware": -2.0}
TICKS = len(PAPER_BETAS) * (TASKS + len(NOVEL_TASKS))


def run(seed: int, picture: Path, tick: Callable[[], None]) -> Group:
    """Train, meet the new tasks, save the picture, and say in words what happened."""
    if picture.is_dir():  # a bad path is better known before the work
        raise ValueError(f"{picture} is a folder; --out must name a picture")
    picture.parent.mkdir(parents=True, exist_ok=True)
    features, visits = {}, {}
    for name, beta in PAPER_BETAS.items():
        features[name], visits[name] = _train_and_meet(MeanVariance.from_paper(beta), seed, tick)
    _draw(visits, features, seed, picture)
    return _report(features, visits, picture)


def _train_and_meet(risk: MeanVariance, seed: int, tick: Callable[[], None]) -> tuple[Floats, Floats]:
    """Features (27, rollouts, d) and visits per rollout (27, cells) after training on TASKS tasks."""
    rooms = FourRoom()
    learner = SuccessorLearner(rooms.n_features, 4, SuccessorSettings(risk=risk), seed, TASKS)
    for w in rooms.random_tasks(TASKS, np.random.default_rng([seed, 77])):
        learner.learn_four_room(rooms, w, STEPS)
        tick()
    features, visits = [], []
    for index, rewards in enumerate(NOVEL_TASKS):
        draws = np.random.default_rng([seed, 99, index]).random((ROLLOUTS, rooms.step_limit, 3))
        coefs = learner.coefficients(rooms.task(rewards), risk)[None]
        earned, _, seen = learner.roll_out(rooms, coefs, NOVEL_EPSILON, draws)
        features.append(earned)
        visits.append(seen / ROLLOUTS)
        tick()
    return np.stack(features), np.stack(visits)


def _draw(visits: dict[str, Floats], features: dict[str, Floats], seed: int, picture: Path) -> None:
    drawn = drawing.figure(9, 5)
    for axes, name in zip(drawn.subplots(1, 2), PAPER_BETAS, strict=True):
        visit_map(axes, visits[name].mean(axis=0))
        failures = features[name][..., -1].mean()
        axes.set_title(f"{name} transfer: fails in {100 * failures:.0f} % of the rollouts", fontsize=10)
    drawn.suptitle("Where each library goes on 27 tasks it never trained on (red x: traps)", fontweight="bold")
    drawn.supxlabel(f"darker: more steps; {TASKS} training tasks, {ROLLOUTS} rollouts a task, seed {seed}", fontsize=7)
    drawing.save(drawn, picture)


def _report(features: dict[str, Floats], visits: dict[str, Floats], picture: Path) -> Group:
    table = Table(title=f"27 new tasks, {ROLLOUTS} rollouts each, nothing retrained", title_justify="left")
    for heading in ("transfer", "mean return", "variance", "fails", "steps on traps"):
        table.add_column(heading, justify="left" if heading == "transfer" else "right")
    failing = {}
    for name in PAPER_BETAS:
        outcome = novel_outcome(features[name][None])
        failing[name] = float(outcome["failures"][0])
        on_traps = visits[name][:, trap_cells()].sum(axis=1).mean()
        row = (f"{outcome['return'][0]:.2f}", f"{outcome['variance'][0]:.2f}", f"{100 * failing[name]:.1f} %")
        table.add_row(name, *row, f"{on_traps:.2f} a rollout")
    neutral, averse = (f"{100 * failing[name]:.1f} %" for name in ("risk-neutral", "risk-aware"))
    return Group(
        Text(
            f"Two libraries of {TASKS} policies were trained on the same {TASKS} random tasks of the four-room world: "
            "collect objects, reach the goal, mind the traps. Then both met 27 tasks with other rewards and acted at "
            "once. They differ only in whether they weigh the spread of the return besides its mean.\n"
        ),
        table,
        Text(
            f"\nThe risk-neutral library fails in {neutral} of the rollouts, the risk-aware one in {averse}. "
            f"A picture of where each goes is in {picture}."
        ),
    )
