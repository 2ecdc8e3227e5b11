"""`rasf reproduce`: run an experiment, save the result, draw its figures from the saved file.

An experiment is a folder of this package. The folder is imported only if the experiment is run, so that the grid needs
neither jax nor the code of the reacher. A folder has these modules:

    runs.py       total_ticks(preset), the number of calls of `tick`; run(preset, seed, tick, folder), which writes
                  files of runs to `folder` and returns a Result, or a sentence that names the missing runs
    measures.py   numbers from runs
    claims.py     rules that turn numbers into findings
    figures.py    FIGURES: functions that draw a result, by name; a function returns None if its runs are missing
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType

from rasf_lab.common import results
from rasf_lab.common.results import Result


def total_ticks(name: str, preset: str, **options: object) -> int:
    """Return how often `reproduce` calls `tick` if it gets the same name, preset and options."""
    return int(_part(name, "runs").total_ticks(preset, **options))


def reproduce(
    name: str, preset: str, seed: int, folder: Path, tick: Callable[[], None], **options: object
) -> tuple[Result | str, list[Path]]:
    """Run one experiment, and write its result and figures.

    Args:
        name: the experiment: grid, four-room, reacher or theory.
        preset: its size, "quick" or "paper".
        seed: the first seed.
        folder: the folder of all files.
        tick: called as runs are finished, `total_ticks` times in all.
        **options: options of the experiment's `run`. Only the reacher has options.

    Returns:
        The result and the written files; a sentence that names the missing runs, and no files, if there is no result.
    """
    found: Result | str = _part(name, "runs").run(preset, seed, tick, folder, **options)
    if isinstance(found, str):
        return found, []
    path = found.save(folder)
    return results.load(path), [path, *draw(path)]


def draw(path: Path) -> list[Path]:
    """Draw the figures of a saved result into its folder, and return their files."""
    return draw_result(results.load(path, with_arrays=True), path.parent)


def draw_result(result: Result, folder: Path) -> list[Path]:
    """Draw the figures of a result.

    Args:
        result: the result. Maps are drawn only if the result was loaded with its arrays.
        folder: the folder of the pictures.

    Returns:
        The files, one for each figure.
    """
    from rasf import drawing

    drawn = {name: draw_one(result) for name, draw_one in _part(result.experiment, "figures").FIGURES.items()}
    return [drawing.save(figure, folder / f"{name}.png") for name, figure in drawn.items() if figure is not None]


def _part(name: str, part: str) -> ModuleType:
    return import_module(f"rasf_lab.paper.{name.replace('-', '_')}.{part}")
