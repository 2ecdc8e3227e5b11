"""A sweep as data: a TOML file that expands to runs.

    sweep = "four-room-risk"            name
    kind = "four-room"                  what is run; "module:attribute" for a kind of your own, also of
                                        a module in the folder we are in
    seeds = 10                          0 .. 9, or a list

    [parameters]                        the same in every run
    tasks = 128

    [grid]                              every combination
    risk = [0.0, -1.0, -2.0]

    [[list]]                            sets of parameters that belong together, each crossed with the grid
    algorithm = "prql"
    eta = 0.3

    [limits]                            of a run, or of runs that are executed together
    seconds = 3600
    memory_gb = 4

Everything is checked before anything starts; what is wrong is named with its line.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from rasf.sweep.runs import NO_LIMITS, Kind, Limits, Run, Value, add_cwd_to_path, kind_of, same_number
from rasf.sweep.spec_lines import Lines

_KEYS = ("sweep", "kind", "seeds", "parameters", "grid", "list", "limits")
_PARTS = ("check", "pack", "execute", "uses_gpus")  # of a kind
_MOST_RUNS = 100_000
_LARGEST = 2**63 - 1  # whole number of a table


@dataclass(frozen=True)
class Spec:
    """A named sweep: its runs in order, and what each may take."""

    name: str
    runs: tuple[Run, ...]
    limits: Limits = NO_LIMITS


def read_spec(path: Path, kinds: Mapping[str, str], memory_gb: float = math.inf) -> Spec:
    """Read and check a sweep file; `kinds` gives "module:attribute" for the names that may stand under `kind`.

    memory_gb: what a worker's machine has; a sweep that needs more is refused.
    """
    try:
        text = path.read_text(encoding="utf-8")
        given = tomllib.loads(text)
    except FileNotFoundError:
        raise ValueError(f"{path} does not exist") from None
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:  # TOML's own errors name the line
        raise ValueError(f"{path} is not TOML: {error}") from None
    return _Reader(Lines(path, text), given, kinds, memory_gb).spec()


class _Reader:
    def __init__(self, lines: Lines, given: dict[str, Any], kinds: Mapping[str, str], memory_gb: float) -> None:
        self._lines, self._given, self._kinds, self._memory_gb = lines, given, kinds, memory_gb

    def spec(self) -> Spec:
        for key in self._given:
            if key not in _KEYS:
                raise self._lines.refuse(f"unknown key {key!r}; known are {', '.join(_KEYS)}", key)
        name = self._given.get("sweep")
        if not isinstance(name, str) or not re.fullmatch(r"[\w-][\w.-]*", name):
            raise self._lines.refuse(f"sweep must be a name of letters, digits, '.', '_', '-', got {name!r}", "sweep")
        kind, executor = self._kind()
        seeds, choices, limits = self._seeds(), self._choices(), self._limits()
        if len(choices) * len(seeds) > _MOST_RUNS:
            raise self._too_many()
        for chosen in choices:
            try:
                executor.check(chosen)
            except ValueError as error:
                culprit = str(error).split()[0].strip("'\"")
                raise self._lines.refuse(str(error), culprit, *self._where(culprit, chosen)) from None
        return Spec(name, tuple(Run(kind, chosen, seed) for chosen in choices for seed in seeds), limits)

    def _kind(self) -> tuple[str, Kind]:
        given = self._given.get("kind")
        if isinstance(given, str) and given in self._kinds:
            return self._kinds[given], kind_of(self._kinds[given])
        if not isinstance(given, str) or not all(map(str.strip, given.split(":"))) or given.count(":") != 1:
            known = ", ".join((*sorted(self._kinds), "module:attribute"))
            raise self._lines.refuse(f"kind must be one of {known}, got {given!r}", "kind")
        add_cwd_to_path()
        try:
            kind = kind_of(given)
        except Exception as error:  # whatever a module of the user's may raise
            reason = f"{type(error).__name__}: {error}"
            raise self._lines.refuse(f"kind {given!r} cannot be imported: {reason}", "kind") from error
        if isinstance(kind, type) or not all(hasattr(kind, part) for part in _PARTS):
            parts = ", ".join(_PARTS)
            raise self._lines.refuse(f"kind {given!r} must be an object that has {parts}, got {kind!r}", "kind")
        return given, kind

    def _seeds(self) -> list[int]:
        given = self._given.get("seeds", 1)
        if _is_whole(given) and given > _MOST_RUNS:
            raise self._too_many("seeds")
        seeds = list(range(given)) if _is_whole(given) else given
        if not isinstance(seeds, list) or not seeds or not all(map(_is_whole, seeds)) or len(set(seeds)) < len(seeds):
            raise self._lines.refuse(
                f"seeds must be a number from 1 on, or a list of different numbers from 0 on, got {given!r}", "seeds"
            )
        return seeds

    def _choices(self) -> list[dict[str, Value]]:
        """Parameters of every run, without the seed."""
        fixed, grid, sets = self._table("parameters"), self._grid(), self._sets()
        for name, value in fixed.items():
            self._check_value(name, value, "parameters")
        for index, one in enumerate(sets):
            for name, value in one.items():
                self._check_value(name, value, "list", index)
                if name in fixed or name in grid:
                    raise self._lines.refuse(f"{name} is given twice", name, "list", index)
        for name in grid:
            if name in fixed:
                raise self._lines.refuse(f"{name} is given twice", name, "grid")
        if math.prod(map(len, grid.values())) * len(sets) > _MOST_RUNS:
            raise self._too_many()
        combinations = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
        return [{**fixed, **one, **combination} for one in sets for combination in combinations]

    def _grid(self) -> dict[str, list[Value]]:
        grid = self._table("grid")
        if "grid" in self._given and not grid:
            raise self._lines.refuse("[grid] is empty", "", "grid")
        for name, values in grid.items():
            if not isinstance(values, list) or not values:
                raise self._lines.refuse(f"{name} must be a list that is not empty, got {values!r}", name, "grid")
            for value in values:
                self._check_value(name, value, "grid")
                if sum(_same(value, other) for other in values) > 1:
                    raise self._lines.refuse(f"{name} has {value!r} twice", name, "grid")
        return grid

    def _sets(self) -> list[dict[str, Value]]:
        sets = self._given.get("list", [{}])
        if not isinstance(sets, list) or not sets or not all(isinstance(one, dict) for one in sets):
            raise self._lines.refuse("[[list]] must be tables of parameters", "", "list")
        for index, one in enumerate(sets):
            for before in sets[:index]:
                if one.keys() == before.keys() and all(_same(value, before[name]) for name, value in one.items()):
                    raise self._lines.refuse(f"the runs of {one!r} are there twice", "", "list", index)
        return sets

    def _table(self, section: str) -> dict[str, Any]:
        table = self._given.get(section, {})
        if not isinstance(table, dict):
            raise self._lines.refuse(f"[{section}] must be a table", section)
        return table

    def _check_value(self, name: str, value: Any, section: str, index: int = 0) -> None:
        wrong = None
        if not isinstance(value, bool | int | float | str):
            wrong = "a number, a truth value or text"
        elif isinstance(value, float) and not math.isfinite(value):
            wrong = "finite"
        elif isinstance(value, int) and abs(value) > _LARGEST:
            wrong = f"at most {_LARGEST} in size"
        if wrong is not None:
            raise self._lines.refuse(f"{name} must be {wrong}, got {value!r}", name, section, index)

    def _where(self, name: str, chosen: dict[str, Value]) -> tuple[str, int]:
        """Section, and place in a list, that gave a parameter its value."""
        for section in ("grid", "parameters"):
            if name in self._table(section):
                return section, 0
        sets = self._given.get("list", [])
        return "list", next((i for i, one in enumerate(sets) if name in one and one.items() <= chosen.items()), 0)

    def _limits(self) -> Limits:
        given = self._table("limits")
        for name, value in given.items():
            if name not in Limits._fields:
                known = ", ".join(Limits._fields)
                raise self._lines.refuse(f"unknown limit {name!r}; known are {known}", name, "limits")
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
                raise self._lines.refuse(f"{name} must be a positive number, got {value!r}", name, "limits")
        if given.get("memory_gb", 0) > self._memory_gb:
            raise self._lines.refuse(
                f"memory_gb is {given['memory_gb']}, but this machine has {self._memory_gb:.1f}", "memory_gb", "limits"
            )
        return Limits(**given)

    def _too_many(self, key: str = "") -> ValueError:
        return self._lines.refuse(f"more than {_MOST_RUNS} runs are too many", key, "" if key else "grid")


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST


def _same(value: Value, other: Value) -> bool:
    """Whether they make the same run: 1 and 1.0 do, 1 and true do not."""
    return type(same_number(value)) is type(same_number(other)) and value == other
