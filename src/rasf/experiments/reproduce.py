"""What `rasf reproduce` can run: compute, save the result, draw its figures from the saved file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from matplotlib.figure import Figure

from rasf.experiments.common import drawing, results
from rasf.experiments.common.results import Result
from rasf.experiments.four_room import experiment as four_room
from rasf.experiments.four_room import figures as four_room_figures
from rasf.experiments.grid import figures as grid_figure
from rasf.experiments.grid import runs as grid
from rasf.experiments.reacher import experiment as reacher
from rasf.experiments.reacher import figures as reacher_figures
from rasf.experiments.reacher import pictures as reacher_pictures
from rasf.experiments.theory import claims as theory
from rasf.experiments.theory import figures as theory_figure

Tick = Callable[[], None]


@dataclass(frozen=True)
class Experiment:
    """How to run an experiment (files of single runs go to the folder), its ticks of progress, and its figures.

    In place of a result there may be a sentence: what must be run before there can be one. A figure is None where the
    runs it shows are not there.
    """

    run: Callable[[str, int, Tick, Path], Result | str]
    ticks: Callable[[str], int]
    figures: dict[str, Callable[[Result], Figure | None]]


def _run_grid(preset: str, seed: int, tick: Tick, folder: Path) -> Result:
    result = grid.run(preset, seed)
    tick()
    return result


def _run_theory(preset: str, seed: int, tick: Tick, folder: Path) -> Result:
    return theory.run(preset, seed, tick)


EXPERIMENTS = {
    "grid": Experiment(_run_grid, lambda _: 1, {"figure_1": grid_figure.draw}),
    "theory": Experiment(_run_theory, theory.total_ticks, {"figure_7": theory_figure.draw}),
    "four-room": Experiment(
        four_room.run,
        four_room.total_ticks,
        {
            "figure_2_four_room": four_room_figures.figure_2,
            "figure_3": four_room_figures.figure_3,
            "figure_8": four_room_figures.figure_8,
            "figure_9": four_room_figures.figure_9,
        },
    ),
    "reacher": Experiment(
        reacher.run,
        reacher.total_ticks,
        {
            "figure_2_reacher": reacher_figures.figure_2,
            "figure_4": reacher_figures.figure_4,
            "figure_6": reacher_figures.figure_6,
            "figure_10": reacher_figures.figure_10,
            "figures_11_12": reacher_pictures.figures_11_12,
            "figure_13": reacher_pictures.figure_13,
            "figure_14": reacher_pictures.figure_14,
        },
    ),
}


def experiments(options: reacher.Options) -> dict[str, Experiment]:
    """All experiments, the reacher's with these options."""
    with_options = replace(
        EXPERIMENTS["reacher"],
        run=partial(reacher.run, options=options),
        ticks=partial(reacher.total_ticks, options=options),
    )
    return EXPERIMENTS | {"reacher": with_options}


def reproduce(
    experiment: Experiment, preset: str, seed: int, folder: Path, tick: Tick
) -> tuple[Result | str, list[Path]]:
    """Run one experiment; its result and figures go to `folder`."""
    found = experiment.run(preset, seed, tick, folder)
    if isinstance(found, str):
        return found, []
    path = found.save(folder)
    return results.load(path), [path, *draw(path)]


def draw(path: Path) -> list[Path]:
    """Redraw the figures of a saved result beside it."""
    result = results.load(path)
    figures = EXPERIMENTS[result.experiment].figures
    drawn = {name: draw_one(result) for name, draw_one in figures.items()}
    return [drawing.save(figure, path.parent / f"{name}.png") for name, figure in drawn.items() if figure is not None]
