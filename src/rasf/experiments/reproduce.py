"""What `rasf reproduce` can run: compute, save the result, draw its figures from the saved file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure

from rasf.experiments import drawing, grid, grid_figure, results, theory, theory_figure
from rasf.experiments.results import Result

PRESETS = ("quick", "paper")
Tick = Callable[[], None]


@dataclass(frozen=True)
class Experiment:
    """How to run an experiment, how many ticks of progress that takes, and the figures of its result."""

    run: Callable[[str, int, Tick], Result]
    ticks: Callable[[str], int]
    figures: dict[str, Callable[[Result], Figure]]


def _run_grid(preset: str, seed: int, tick: Tick) -> Result:
    result = grid.run(preset, seed)
    tick()
    return result


EXPERIMENTS = {
    "grid": Experiment(_run_grid, lambda _: 1, {"figure_1": grid_figure.draw}),
    "theory": Experiment(theory.run, theory.total_ticks, {"figure_7": theory_figure.draw}),
}


def reproduce(name: str, preset: str, seed: int, folder: Path, tick: Tick) -> tuple[Result, list[Path]]:
    """Run one experiment; its result and figures go to `folder`."""
    experiment = EXPERIMENTS[name]
    path = experiment.run(preset, seed, tick).save(folder)
    return results.load(path), [path, *draw(path)]


def draw(path: Path) -> list[Path]:
    """Redraw the figures of a saved result beside it."""
    result = results.load(path)
    figures = EXPERIMENTS[result.experiment].figures
    return [drawing.save(draw_one(result), path.parent / f"{name}.png") for name, draw_one in figures.items()]
