"""Results of experiments with provenance: numbers and verdicts, with seed, preset, version, device and wall time.

An experiment has one JSON file. Large arrays are in a second file. Figures are always drawn from these files, and
`rasf claims` reads the verdicts from the JSON files. Results of our own runs ship with the package.

A reading is one interpretation of a claim of the paper, with a rule that gives the verdict. Every claim has a first
reading, and some claims have a second or a third reading.
"""

from __future__ import annotations

import json
import os
import platform
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import Any, Literal

import numpy as np

import rasf
from rasf.files import Arrays, load_file, save_file, write_text

Verdict = Literal["holds", "does not hold", "not decided"]
Numbers = dict[str, Any]  # JSON values and arrays, by name
_ARRAYS = ".arrays"
FURTHER_READINGS = ("second_reading", "third_reading")


@dataclass(frozen=True)
class Reading:
    """The verdict of our runs on one reading of a claim, with a report: `measured`, and in short form `number`."""

    verdict: Verdict
    measured: str
    seeds: int
    number: str = ""


@dataclass(frozen=True)
class Finding(Reading):
    """The verdict on a claim's first reading, the `sample` in words ("5 seeds"), and the further readings, if any."""

    sample: str = ""
    second_reading: Reading | None = None
    third_reading: Reading | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "sample", self.sample or f"{self.seeds} seed{'s' * (self.seeds != 1)}")


@dataclass(frozen=True)
class Result:
    """The numbers of one experiment, its findings by claim id, and their provenance."""

    experiment: str
    preset: str
    seed: int
    wall_time_s: float
    numbers: Numbers
    findings: dict[str, Finding]
    version: str = rasf.__version__
    python: str = platform.python_version()
    device: str = f"{platform.machine()} CPU, {os.cpu_count()} cores"
    date: str = field(default_factory=lambda: datetime.now(UTC).strftime("%Y-%m-%d"))
    arrays: Arrays = field(default_factory=dict)

    def save(self, folder: Path) -> Path:
        """Write <experiment>.json, and <experiment>.arrays if there are arrays. Return the path of the JSON file."""
        path = folder / f"{self.experiment}.json"
        if self.arrays:
            save_file(path.with_suffix(_ARRAYS), {"experiment": self.experiment}, self.arrays)
        write_text(path, json.dumps(_plain(asdict(replace(self, arrays={}))), separators=(",", ":")) + "\n")
        return path


def load(path: Path, with_arrays: bool = False) -> Result:
    """Return the result in a file.

    Args:
        path: the JSON file.
        with_arrays: whether to read the file of large arrays too, if it exists. Default: False.

    Raises:
        ValueError: the file was not written by `Result.save`.
    """
    try:
        given = json.loads(path.read_text())
        given["findings"] = {key: _finding(**finding) for key, finding in given["findings"].items()}
        arrays = path.with_suffix(_ARRAYS)
        if with_arrays and arrays.exists():
            given["arrays"] = load_file(arrays)[1]
        return Result(**given)
    except (json.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} is not a result file of rasf: {error}") from error


def _finding(**given: Any) -> Finding:
    return Finding(**given | {name: Reading(**given[name]) for name in FURTHER_READINGS if given.get(name)})


def shipped() -> dict[str, Result]:
    """Return the results that ship with the package, by experiment."""
    return in_folder(Path(str(resources.files("rasf_lab"))) / "shipped")


def in_folder(folder: Path) -> dict[str, Result]:
    """Return all results in a folder, by experiment."""
    found = [load(path) for path in sorted(folder.glob("*.json"))]
    if not found:
        raise ValueError(f"{folder} is not a folder with results; make one with `rasf reproduce`")
    return {result.experiment: result for result in found}


def _plain(value: object) -> object:
    """Convert `value` to JSON types. Floats are rounded to 12 significant digits, for small and reproducible files."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    return float(f"{value:.12g}") if isinstance(value, float) else value
