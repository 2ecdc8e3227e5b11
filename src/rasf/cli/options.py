"""What `rasf train` and `rasf evaluate` are told: flags, and a TOML file with the same names; flags win.

A value passes the same reader wherever it comes from. Flags are text where TOML has lists and tables:

    --w 1,0,.1 --w 0,1,.1               w = [[1, 0, 0.1], [0, 1, 0.1]]
    --set epsilon=0.2 --set widths=8,8  [set]  epsilon = 0.2  widths = [8, 8]
"""

from __future__ import annotations

import contextlib
import json
import math
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rasf.risk import Risk

Reader = Callable[[str, Any], Any]
Rows = tuple[tuple[float, ...], ...]

_LARGEST_SEED = 2**32 - 1
_WORDS = {"true": True, "false": False, "none": None}


def gather(
    readers: Mapping[str, Reader],
    config: Path | None,
    flags: Mapping[str, Any],
    alternatives: tuple[str, ...] = (),
) -> dict[str, Any]:
    """Every value that is given, read. Of `alternatives` one flag drives out all that the file says."""
    given = {name: readers[name](name, value) for name, value in flags.items() if value not in (None, [])}
    values = {} if config is None else _read_config(config, readers)
    if any(name in given for name in alternatives):
        values = {name: value for name, value in values.items() if name not in alternatives}
    for name, value in given.items():
        values[name] = values[name] | value if isinstance(value, dict) and name in values else value
    twice = [name for name in alternatives if name in values]
    if len(twice) > 1:
        raise ValueError(f"only one of {', '.join(alternatives)} can be given, got {' and '.join(twice)}")
    return values


def _read_config(path: Path, readers: Mapping[str, Reader]) -> dict[str, Any]:
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not a TOML file: {error}") from None
    unknown = [name for name in given if name not in readers]
    if unknown:
        raise ValueError(f"{path} must hold only {', '.join(readers)}, got {', '.join(unknown)}")
    try:
        return {name: readers[name](name, value) for name, value in given.items()}
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def text(name: str, value: Any) -> str:
    """Words."""
    if not isinstance(value, str) or not value:
        raise ValueError(f"{name} must be text, got {value!r}")
    return value


def path(name: str, value: Any) -> Path:
    """A file or a folder, seen from where the command runs."""
    return value if isinstance(value, Path) else Path(text(name, value))


def flag(name: str, value: Any) -> bool:
    """Yes or no."""
    if not isinstance(value, bool):
        raise ValueError(f"{name} must be true or false, got {value!r}")
    return value


def whole(least: int) -> Reader:
    """A whole number from `least` on."""

    def read(name: str, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ValueError(f"{name} must be a whole number from {least} on, got {value!r}")
        return value

    return read


def seed(name: str, value: Any) -> int:
    """What generators take as a seed."""
    if whole(0)(name, value) > _LARGEST_SEED:
        raise ValueError(f"{name} must be at most {_LARGEST_SEED}, got {value}")
    return int(value)


def number(name: str, value: Any) -> float:
    """A finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{name} must be a finite number, got {value!r}")
    return float(value)


def rows(name: str, value: Any) -> Rows:
    """Rows of numbers, equally long: text such as 1,0,.1 for each, or lists."""
    wrong = ValueError(f"{name} must be numbers such as 1,0,.1, as many each time, got {value!r}")
    each = [value] if isinstance(value, str) or (isinstance(value, list) and value and _is_number(value[0])) else value
    if not isinstance(each, list) or not each:
        raise wrong
    try:
        found = tuple(tuple(map(float, row.split(",") if isinstance(row, str) else row)) for row in each)
    except (TypeError, ValueError):
        raise wrong from None
    if len({len(row) for row in found}) != 1 or not found[0] or not all(math.isfinite(x) for row in found for x in row):
        raise wrong
    return found


def pairs(name: str, value: Any) -> Rows:
    """Rows of two numbers, low and high."""
    found = rows(name, value)
    if len(found[0]) != 2:
        raise ValueError(f"{name} must be low and high for each feature, such as -10,5, got {value!r}")
    return found


def risks(name: str, value: Any) -> list[Risk]:
    """Risks, each once."""
    from rasf.risk.names import EXAMPLES, risk_from_text, risk_to_text

    each = [value] if isinstance(value, str) else value
    if not isinstance(each, list) or not each or not all(isinstance(one, str) for one in each):
        raise ValueError(f"{name} must be written as {EXAMPLES}, got {value!r}")
    found = [risk_from_text(one) for one in each]
    if len({risk_to_text(one) for one in found}) != len(found):
        raise ValueError(f"{name} must name each risk once, got {', '.join(each)}")
    return found


def assignments(name: str, value: Any) -> dict[str, Any]:
    """Values by name: text such as epsilon=0.2 for each, or a table."""
    if isinstance(value, dict):
        return value
    found: dict[str, Any] = {}
    for one in value if isinstance(value, list) else [value]:
        key, equals, written = one.partition("=") if isinstance(one, str) else ("", "", "")
        if not key.isidentifier() or not equals:
            raise ValueError(f"{name} must be written as name=value, got {one!r}")
        if key in found:
            raise ValueError(f"{name} must give {key} once, got it twice")
        found[key] = _value(written)
    return found


def _value(written: str) -> Any:
    """What JSON or Python make of a text, or the text itself: 3, .5, true, [1, 2], words."""
    if written.lower() in _WORDS:
        return _WORDS[written.lower()]
    for reader in (int, float, json.loads):
        with contextlib.suppress(ValueError):
            return reader(written)
    return written


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float)
