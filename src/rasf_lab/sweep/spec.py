"""A sweep as data: a TOML file that expands to runs.

    sweep = "four-room-risk"            name
    kind = "four-room"                  the experiment: learn, four-room, reacher, or "module:attribute" for your own
                                        experiment; the module may be in the current folder
    seeds = 10                          a number n, for the seeds 0 .. n - 1, or a list of seeds

    [parameters]                        parameters with the same value in every run
    tasks = 128

    [grid]                              lists of values; every combination is run
    risk = [0.0, -1.0, -2.0]

    [[list]]                            a set of parameters; every set is run with every combination of the grid
    algorithm = "prql"
    eta = 0.3

    [limits]                            limits of a job, which is a run or a group of runs that are executed together
    seconds = 3600
    memory_gb = 4

A parameter whose value is a dict, such as `evaluate` of learn, may be a section of the file: `[evaluate]`. The file is
checked before any run starts; an error message names the line.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from rasf.checks import is_whole
from rasf.files import Header
from rasf.library.arguments.readers import add_cwd_to_path, read_toml
from rasf_lab.sweep.runs import (
    NO_LIMITS,
    Experiment,
    Parameter,
    Run,
    RunLimits,
    experiment_of,
    experiments,
    same_number,
)

_KEYS = ("sweep", "kind", "seeds", "parameters", "grid", "list", "limits")
_PARTS = ("check", "pack", "execute", "uses_gpus")  # the methods that an experiment must have
_MOST_RUNS = 100_000
_LARGEST = 2**63 - 1  # the largest whole number that a column of the table of results can hold


@dataclass(frozen=True)
class Spec:
    """A sweep: its name, its runs in order, and the limits of its jobs."""

    name: str
    runs: tuple[Run, ...]
    limits: RunLimits = NO_LIMITS


def read_spec(path: Path, memory_gb: float = math.inf) -> Spec:
    """Read and check a sweep file.

    Args:
        path: the path of the file.
        memory_gb: the memory in GB of a worker's machine; a sweep with a larger limit is refused. Default: infinite.

    Raises:
        ValueError: the file is not a valid sweep; the message names the line.
    """
    return _Reader(path, *read_toml(path), memory_gb).spec()


class _Reader:
    def __init__(self, path: Path, text: str, given: Header, memory_gb: float) -> None:
        self._path, self._lines, self._given, self._memory_gb = path, text.splitlines(), given, memory_gb
        self._structured: Sequence[str] = ()

    def spec(self) -> Spec:
        name = self._given.get("sweep")
        if not isinstance(name, str) or not re.fullmatch(r"[\w-][\w.-]*", name):
            raise self._refuse(f"sweep must be a name of letters, digits, '.', '_', '-', got {name!r}", "sweep")
        kind, experiment = self._experiment()
        self._structured = getattr(experiment, "structured", ())
        for key in self._given:
            if key not in (*_KEYS, *self._structured):
                raise self._refuse(f"unknown key {key!r}; known are {', '.join((*_KEYS, *self._structured))}", key)
        seeds, choices, limits = self._seeds(), self._choices(), self._limits()
        if len(choices) * len(seeds) > _MOST_RUNS:
            raise self._too_many()
        kept = [self._checked(experiment, chosen) for chosen in choices]
        return Spec(name, tuple(Run(kind, chosen, seed) for chosen in kept for seed in seeds), limits)

    def _experiment(self) -> tuple[str, Experiment]:
        given = self._given.get("kind")
        if not isinstance(given, str) or (given not in experiments() and not re.fullmatch(r"[\w.]+:\w+", given)):
            known = ", ".join((*experiments(), "module:attribute"))
            raise self._refuse(f"kind must be one of {known}, got {given!r}", "kind")
        add_cwd_to_path()
        try:
            experiment = experiment_of(given)
        except Exception as error:  # a user's module may raise any exception
            reason = f"{type(error).__name__}: {error}"
            raise self._refuse(f"kind {given!r} cannot be imported: {reason}", "kind") from error
        if isinstance(experiment, type) or not all(hasattr(experiment, part) for part in _PARTS):
            parts = ", ".join(_PARTS)
            raise self._refuse(f"kind {given!r} must be an object that has {parts}, got {experiment!r}", "kind")
        return given, experiment

    def _checked(self, experiment: Experiment, chosen: dict[str, Parameter]) -> Mapping[str, Parameter]:
        try:
            return experiment.check(chosen) or chosen
        except ValueError as error:
            culprit = str(error).split()[0].strip("'\"")
            raise self._refuse(str(error), culprit.rpartition(".")[2], *self._where(culprit, chosen)) from None

    def _seeds(self) -> list[int]:
        given = self._given.get("seeds", 1)
        if is_whole(given) and given > _MOST_RUNS:
            raise self._too_many("seeds")
        seeds = list(range(given)) if is_whole(given) else given
        whole = isinstance(seeds, list) and all(is_whole(seed) and 0 <= seed <= _LARGEST for seed in seeds)
        if not whole or not seeds or len(set(seeds)) < len(seeds):
            accepted = "a whole number of at least 1, or a list of different whole numbers of at least 0"
            raise self._refuse(f"seeds must be {accepted}, got {given!r}", "seeds")
        return seeds

    def _choices(self) -> list[dict[str, Parameter]]:
        """Return the parameters of every run, without the seed."""
        fixed, grid, sets = self._table("parameters"), self._grid(), self._sets()
        tables = {name: self._given[name] for name in self._structured if name in self._given}
        taken: set[str] = set()
        lists = (("list", index, one) for index, one in enumerate(sets))
        for section, index, part in (("parameters", 0, fixed), ("", 0, tables), ("grid", 0, grid), *lists):
            for name, value in part.items():
                if section != "grid":
                    self._check_value(name, value, section, index)
                if name in taken:
                    raise self._refuse(f"{name} is given twice", name, section, index)
            taken |= set() if section == "list" else part.keys()
        if math.prod(map(len, grid.values())) * len(sets) > _MOST_RUNS:
            raise self._too_many()
        combinations = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
        return [{**fixed, **tables, **one, **combination} for one in sets for combination in combinations]

    def _grid(self) -> dict[str, list[Parameter]]:
        grid = self._table("grid")
        if "grid" in self._given and not grid:
            raise self._refuse("[grid] is empty", "", "grid")
        for name, values in grid.items():
            if not isinstance(values, list) or not values:
                raise self._refuse(f"{name} must be a list that is not empty, got {values!r}", name, "grid")
            times = Counter(map(_text, values))
            for value in values:
                self._check_value(name, value, "grid")
                if times[_text(value)] > 1:
                    raise self._refuse(f"{name} has {value!r} twice", name, "grid")
        return grid

    def _sets(self) -> list[dict[str, Parameter]]:
        sets = self._given.get("list", [{}])
        if not isinstance(sets, list) or not sets or not all(isinstance(one, dict) for one in sets):
            raise self._refuse("[[list]] must be tables of parameters", "", "list")
        texts = list(map(_text, sets))
        for index, one in enumerate(sets):
            if texts[index] in texts[:index]:
                raise self._refuse(f"the runs of {one!r} are declared twice", "", "list", index)
        return sets

    def _limits(self) -> RunLimits:
        given = self._table("limits")
        for name, value in given.items():
            if name not in RunLimits._fields:
                raise self._refuse(f"unknown limit {name!r}; known are {', '.join(RunLimits._fields)}", name, "limits")
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
                raise self._refuse(f"{name} must be a positive number, got {value!r}", name, "limits")
        if given.get("memory_gb", 0) > self._memory_gb:
            needs = f"memory_gb must be at most {self._memory_gb:.1f} on this machine, got {given['memory_gb']}"
            raise self._refuse(needs, "memory_gb", "limits")
        return RunLimits(**given)

    def _table(self, section: str) -> Header:
        table = self._given.get(section, {})
        if not isinstance(table, dict):
            raise self._refuse(f"[{section}] must be a table", section)
        return table

    def _check_value(self, name: str, value: object, section: str, index: int = 0) -> None:
        if name in self._structured and isinstance(value, list | dict):
            for part in value.values() if isinstance(value, dict) else value:
                self._check_value(name, part, section, index)
            return
        wrong = None
        if not isinstance(value, bool | int | float | str):
            wrong = "a number, a truth value or text"
        elif isinstance(value, float) and not math.isfinite(value):
            wrong = "finite"
        elif isinstance(value, int) and abs(value) > _LARGEST:
            wrong = f"at most {_LARGEST} in size"
        if wrong is not None:
            raise self._refuse(f"{name} must be {wrong}, got {value!r}", name, section, index)

    def _too_many(self, key: str = "") -> ValueError:
        return self._refuse(f"more than {_MOST_RUNS} runs are too many", key, "" if key else "grid")

    def _where(self, name: str, chosen: dict[str, Parameter]) -> tuple[str, int]:
        """Return the section that has a parameter, and its index if it is a [[list]]; `name` may be SECTION.KEY."""
        table, _, _ = name.partition(".")
        if table in self._structured and table in self._given:
            return table if table != name else "", 0
        for section in ("grid", "parameters"):
            if table in self._table(section):
                return section, 0
        sets = self._given.get("list", [])
        return "list", next((i for i, one in enumerate(sets) if table in one and one.items() <= chosen.items()), 0)

    def _refuse(self, what: str, key: str = "", section: str = "", index: int = 0) -> ValueError:
        """Return a ValueError that names the line of a key. `index` selects one of several sections named `section`."""
        return ValueError(f"{self._path}, line {self._line(key, section, index)}: {what}")

    def _line(self, key: str, section: str, index: int) -> int:
        """Return the line of a key, else of its section, else 1. This search is needed, as `tomllib` gives no lines."""
        at, inside, seen = 1, section == "", -1
        for number, line in enumerate(self._lines, 1):
            header = re.match(r"\s*\[{1,2}\s*[\"']?([\w-]+)[\"']?\s*\]{1,2}\s*(#|$)", line)
            if header:
                seen += header[1] == section
                if section == "" and header[1] == key:  # the section is itself a parameter, or is unknown
                    return number
                inside = header[1] == section and seen == index
                at = number if inside else at
            elif section and re.match(rf"\s*{re.escape(section)}\s*[.=]", line):
                at = number  # a line such as grid.risk = [0.0] or grid = {risk = [0.0]}
                if key and re.search(rf"\b{re.escape(key)}\b", line):
                    return number
            elif inside and key and re.match(rf"\s*[\"']?{re.escape(key)}[\"']?\s*[.=]", line):
                return number
        return at


def _text(value: Parameter) -> str:
    """Return a text that is equal for equal parameters: for 1 and 1.0, but not for 1 and true."""
    return json.dumps(same_number(value), sort_keys=True, default=str)
