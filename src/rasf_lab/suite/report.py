"""The suite's result: one file for all cases whose runs are in a folder, and a figure for each case."""

from __future__ import annotations

import math
import re
from datetime import datetime
from pathlib import Path

import numpy as np

from rasf import drawing
from rasf_lab.common.results import Numbers, Result
from rasf_lab.suite.figures import fronts
from rasf_lab.suite.measures import at_a_glance, cases_of, summary
from rasf_lab.suite.runs import finished_runs


def sum_up(folder: Path, preset: str) -> tuple[list[list[str]], list[Path]]:
    """Write suite.json and a figure for each case; return a table of the cases, and the paths of the files.

    Args:
        folder: the folder with the runs, to which the files are written.
        preset: the name of the preset to write into the result.
    """
    result = summarise(folder, preset)
    files = [result.save(folder)]
    for name in result.numbers:
        picture = folder / f"suite_{re.sub('[^a-z0-9]', '_', name.lower())}.png"
        files.append(drawing.save(fronts(result, name), picture))
    return at_a_glance(result.numbers), files


def summarise(folder: Path, preset: str) -> Result:
    """Return the result of all cases whose runs are finished.

    Args:
        folder: the folder with suite.npz, suite-runs or both.
        preset: the name of the preset to write into the result.
    """
    by_case = cases_of(finished_runs(folder))
    numbers: Numbers = {name: _known(summary(found)) for name, found in by_case.items()}
    used = [one for found in by_case.values() for one in found]
    ended = [datetime.fromisoformat(one.provenance["date"]) for one in used]
    seconds = max((max(ended) - min(ended)).total_seconds(), *(float(one.provenance["wall_s"]) for one in used))
    return Result("suite", preset, 0, seconds, numbers, {})


def _known(value: object) -> object:
    """Return the value with None in place of nan, as JSON has no nan."""
    if isinstance(value, dict):
        return {name: _known(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_known(part) for part in value]
    if isinstance(value, np.ndarray):
        return _known(value.tolist())
    return None if isinstance(value, float) and math.isnan(value) else value
