"""What `rasf reproduce` runs: compute, save the result, draw its figures from the saved file.

An experiment is a folder of this package, found by its name and imported when it is asked for, so that the grid needs
neither jax nor the reacher:

    runs.py       total_ticks(preset), and run(preset, seed, tick, folder) -> Result, or a sentence: what must be run
                  before there can be one; files of single runs go to the folder
    measures.py   numbers from runs
    claims.py     rules that turn numbers into findings
    figures.py    FIGURES: functions that draw a result, by name; None where the runs it shows are not there
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType

from rasf_lab.common import results
from rasf_lab.common.results import Result


def total_ticks(name: str, preset: str, **options: object) -> int:
    """How often an experiment ticks; options are those of its runs (the reacher has some)."""
    return int(_part(name, "runs").total_ticks(preset, **options))


def reproduce(
    name: str, preset: str, seed: int, folder: Path, tick: Callable[[], None], **options: object
) -> tuple[Result | str, list[Path]]:
    """Run one experiment; its result and figures go to `folder`."""
    found: Result | str = _part(name, "runs").run(preset, seed, tick, folder, **options)
    if isinstance(found, str):
        return found, []
    path = found.save(folder)
    return results.load(path), [path, *draw(path)]


def draw(path: Path) -> list[Path]:
    """Redraw the figures of a saved result beside it."""
    return draw_result(results.load(path, with_arrays=True), path.parent)


def draw_result(result: Result, folder: Path) -> list[Path]:
    """Draw the figures of a result.

    Args:
        result: with its arrays, if figures of them are wanted.
        folder: where the pictures go, one file for each figure.

    Returns:
        The files.
    """
    from rasf import drawing

    drawn = {name: draw_one(result) for name, draw_one in _part(result.experiment, "figures").FIGURES.items()}
    return [drawing.save(figure, folder / f"{name}.png") for name, figure in drawn.items() if figure is not None]


def _part(name: str, part: str) -> ModuleType:
    return import_module(f"rasf_lab.paper.{name.replace('-', '_')}.{part}")
