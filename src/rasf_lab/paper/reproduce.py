"""`rasf reproduce`: run an experiment, save its result, and draw its figures from the saved file.

An experiment is a folder of this package. The folder is imported only if the experiment is run, so that the grid needs
neither jax nor the code of the reacher. A folder has these modules:

    runs.py       run(preset, seed, tick, folder) writes files of runs to `folder` and returns a Result, or a sentence
                  that names the missing runs; total_ticks(preset) returns how often `run` calls `tick`
    measures.py   computes numbers from runs
    claims.py     has rules that turn numbers into findings
    figures.py    has FIGURES, functions by name that draw a result; a function returns None if its runs are missing
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType

from rasf_lab.common import results
from rasf_lab.common.results import Result


def total_ticks(name: str, preset: str, **options: object) -> int:
    """Return how often `reproduce` calls `tick` for this experiment, preset and options."""
    return int(_part(name, "runs").total_ticks(preset, **options))


def reproduce(
    name: str, preset: str, seed: int, folder: Path, tick: Callable[[], None], **options: object
) -> tuple[Result | str, list[Path]]:
    """Run one experiment, and write its result and figures.

    Args:
        name: the experiment: grid, four-room, reacher or theory.
        preset: the size of the experiment, "quick" or "paper".
        seed: the first seed.
        folder: the folder to which all files are written.
        tick: function that reports progress. It is called `total_ticks` times.
        **options: options of the experiment's `run`. Only the reacher has options.

    Returns:
        The result and the paths of the written files. If runs are missing: a sentence that names them, and no paths.
    """
    found: Result | str = _part(name, "runs").run(preset, seed, tick, folder, **options)
    if isinstance(found, str):
        return found, []
    path = found.save(folder)
    return results.load(path), [path, *draw(path)]


def draw(path: Path) -> list[Path]:
    """Draw the figures of the result saved at `path` into the same folder, and return the paths of the figures."""
    return draw_result(results.load(path, with_arrays=True), path.parent)


def draw_result(result: Result, folder: Path) -> list[Path]:
    """Draw the figures of a result.

    Args:
        result: the result. Maps are drawn only if the result was loaded with its arrays.
        folder: the folder to which the figures are written.

    Returns:
        The paths of the figures. A figure whose runs are missing is left out.
    """
    from rasf import drawing

    drawn = {name: draw_one(result) for name, draw_one in _part(result.experiment, "figures").FIGURES.items()}
    return [drawing.save(figure, folder / f"{name}.png") for name, figure in drawn.items() if figure is not None]


def _part(name: str, part: str) -> ModuleType:
    return import_module(f"rasf_lab.paper.{name.replace('-', '_')}.{part}")
