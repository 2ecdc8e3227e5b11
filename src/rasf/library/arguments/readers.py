"""Readers of the values that a user writes in a flag, a configuration or a sweep file.

A reader takes the name of a value, for error messages, and the value as TOML or as text such as 1,0,.1. Values of flags
are text; TOML also has lists and tables:

    --w 1,0,.1 --w 0,1,.1               w = [[1, 0, 0.1], [0, 1, 0.1]]
    --set epsilon=0.2 --set widths=8,8  [set]  epsilon = 0.2  widths = [8, 8]
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tomllib
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt

from rasf.checks import is_whole, task_weights, whole
from rasf.files import Header, npy_memory

if TYPE_CHECKING:
    from rasf.arrays import Floats
    from rasf.risk import Risk

Part = TypeVar("Part")
_SUFFIXES = (".csv", ".json", ".npy")
_LARGEST_SEED = 2**32 - 1  # the largest seed that all random generators accept
_WORDS = {"true": True, "false": False, "none": None}


def read_toml(path: Path) -> tuple[str, Header]:
    """Return the text of a TOML file, and its values."""
    try:
        text = path.read_text(encoding="utf-8")
        return text, tomllib.loads(text)
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:  # the errors of `tomllib` name the line
        raise ValueError(f"{path} is not a TOML file: {error}") from None
    except RecursionError:
        raise ValueError(f"{path} is not a TOML file that can be read: its values are nested too deeply") from None


def text(name: str, value: object) -> str:
    """Read text that is not empty."""
    if not isinstance(value, str) or not value:
        raise ValueError(f"{name} must be text, got {value!r}")
    return value


def flag(name: str, value: object) -> bool:
    """Read True or False."""
    if not isinstance(value, bool):
        raise ValueError(f"{name} must be true or false, got {value!r}")
    return value


def path(name: str, value: object) -> Path:
    """Read the path of a file or a folder, relative to the working directory."""
    return value if isinstance(value, Path) else Path(text(name, value))


def seed(name: str, value: object) -> int:
    """Read a seed that all random generators accept."""
    found = whole(name, value, 0)
    if found > _LARGEST_SEED:
        raise ValueError(f"{name} must be at most {_LARGEST_SEED}, got {value}")
    return found


# --- weights and lists of numbers


def weights(name: str, value: npt.ArrayLike) -> Floats:
    """Read one or several rows of numbers, (n, d); each row is a list or text such as 1,0,.1."""
    each = [value] if isinstance(value, str) else value
    if isinstance(each, list):
        each = [row.split(",") if isinstance(row, str) else row for row in each]
    return task_weights(name, each)


def weights_in_file(name: str, value: object) -> Floats:
    """Read weights (n, d) from a file: comma-separated lines, a JSON list of lists, or a numpy array (not pickled)."""
    file = path(name, value)
    if file.suffix not in _SUFFIXES:
        raise ValueError(f"{name} must be a file that ends in {', '.join(_SUFFIXES)}, got {file}")
    try:
        if file.suffix == ".csv":
            return weights("it", [line for line in file.read_text("utf-8").splitlines() if line.strip()])
        if file.suffix == ".npy":
            with open(file, "rb") as opened:
                npy_memory(opened, file.stat().st_size)  # refuses a header that declares more data than the file has
        found = np.load(file) if file.suffix == ".npy" else json.loads(file.read_text("utf-8"))
        if np.ndim(found) != 2:
            raise ValueError(f"it has shape {np.shape(found)}")
        return weights("it", found)
    except OSError:
        raise
    except Exception as error:  # a damaged file causes many kinds of errors in numpy and json
        reason = " ".join(str(error).split())
        raise ValueError(f"{name} must be a file of weights, one row per task, and {file} is not: {reason}") from None


def weights_or_file(name: str, value: npt.ArrayLike) -> Floats:
    """Read weights (n, d), given directly or by the name of a file."""
    in_file = isinstance(value, str) and Path(value).suffix in _SUFFIXES
    return weights_in_file(name, value) if in_file else weights(name, value)


def tasks(name: str, value: npt.ArrayLike) -> int | Floats:
    """Read a number of tasks to draw, weights (n, d), or the name of a file of weights."""
    return whole(name, value) if is_whole(value) else weights_or_file(name, value)


def indices(name: str, value: object) -> list[int]:
    """Read indices, which are whole numbers from 0, written as 2,3 or as a list."""
    try:
        return [whole(name, int(one), 0) for one in _listed(value)]
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be whole numbers from 0, such as 2,3, got {value!r}") from None


def signs(name: str, value: object) -> list[int]:
    """Read signs of weights, written as 1,-1,0 or as a list."""
    each = [str(one).strip() for one in _listed(value)]
    if not {*each} <= {"1", "-1", "0"}:
        raise ValueError(f"{name} must be 1, -1 or 0 for each feature, such as 1,-1,0, got {value!r}")
    return [int(one) for one in each]


def _listed(value: object) -> list:
    return value.split(",") if isinstance(value, str) else value if isinstance(value, list) else [value]


# --- values by name


def table(name: str, value: object) -> Header:
    """Read a table of TOML."""
    if not isinstance(value, dict):
        raise ValueError(f"{name} must be a table, got {value!r}")
    return value


def assignments(name: str, value: object) -> Header:
    """Read values by name: a text such as epsilon=0.2 for each value, or a table."""
    if isinstance(value, dict):
        return value

    def cut(one: str, equals: str) -> tuple[str, str, str]:
        key, found, written = one.partition(equals)
        return key if key.isidentifier() else "", found, written

    return _each_once(name, _pairs(name, value, "name=value", _value, cut))


def limits(name: str, value: object) -> dict[str, tuple[float, bool]]:
    """Read limits of features, each with whether it is per episode: text such as failure=0.05/episode, or a table."""
    each = [f"{key}={bound}" for key, bound in value.items()] if isinstance(value, dict) else value

    def bound(written: str) -> tuple[float, bool]:
        return float(written.removesuffix("/episode")), written.endswith("/episode")

    return _each_once(name, _pairs(name, each, "failure=0.05 or failure=0.05/episode", bound))


def prices(name: str, value: object) -> dict[str, list[float]]:
    """Read prices for each feature: text such as collision=4 or collision=4,10, or a table of numbers or lists."""
    if isinstance(value, dict):
        return {key: part if isinstance(part, list) else [part] for key, part in value.items()}
    found: dict[str, list[float]] = {}
    for key, some in _pairs(name, value, "collision=4 or collision=4,10", lambda part: [*map(float, part.split(","))]):
        found[key] = [*found.get(key, []), *some]
    return found


def _pairs(
    name: str,
    value: object,
    example: str,
    read: Callable[[str], Part],
    cut: Callable[[str, str], tuple[str, str, str]] = str.rpartition,
) -> list[tuple[str, Part]]:
    """Return the key and the value of each text key=value; `cut` splits the text, by default at its last "="."""
    found = []
    for one in value if isinstance(value, list) else [value]:
        key, equals, written = cut(one, "=") if isinstance(one, str) else ("", "", "")
        try:
            if not key or not equals:
                raise ValueError
            found.append((key, read(written)))
        except ValueError:
            raise ValueError(f"{name} must be written as {example}, got {one!r}") from None
    return found


def _each_once(name: str, pairs: list[tuple[str, Part]]) -> dict[str, Part]:
    found: dict[str, Part] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"{name} must give {key} once, got {key} twice")
        found[key] = value
    return found


def _value(written: str) -> object:
    """Return the value of a text such as 3, .5, true, [1, 2] or 1,2; any other text is returned unchanged."""
    if written.lower() in _WORDS:
        return _WORDS[written.lower()]
    for reader in (int, float, json.loads, lambda part: json.loads(f"[{part}]" if "," in part else "")):
        with contextlib.suppress(ValueError):
            return reader(written)
    return written


# --- risks, and functions in a module


def risks(name: str, value: object) -> list[Risk]:
    """Read one risk, or several different risks."""
    from rasf.risk.names import EXAMPLES, risk_from_text, risk_to_text

    each = [value] if isinstance(value, str) else value
    if not isinstance(each, list) or not each or not all(isinstance(one, str) for one in each):
        raise ValueError(f"{name} must be written as {EXAMPLES}, got {value!r}")
    found = [risk_from_text(one) for one in each]
    if len({risk_to_text(one) for one in found}) != len(found):
        raise ValueError(f"{name} must name each risk once, got {', '.join(each)}")
    return found


def import_environment(typed: str) -> str:
    """Return the id of an environment. For `module:Id-v0`, import the module, also from the working directory."""
    module, colon, env_id = typed.rpartition(":")
    if colon:
        imported(module, f"env {typed!r} cannot be made")
    return env_id


def function(name: str, value: object) -> Callable[..., object]:
    """Read a function, written as MODULE:NAME. The module may be in the working directory."""
    module, colon, found = text(name, value).rpartition(":")
    if not colon:
        raise ValueError(f"{name} must be written MODULE:NAME, such as my_features:phi, got {value!r}")
    one: object = getattr(imported(module, f"{name} {value!r} cannot be imported"), found, None)
    if not callable(one):
        raise ValueError(f"{name} must be a function, and {module} has none called {found}")
    return one


def imported(module: str, otherwise: str) -> ModuleType:
    """Import a module by its name, also from the working directory; an error message begins with `otherwise`."""
    add_cwd_to_path()
    try:
        return import_module(module)
    except Exception as error:  # a user's module may raise anything
        raise ValueError(f"{otherwise}: {type(error).__name__}: {error}") from error


def add_cwd_to_path() -> None:
    """Add the working directory to the import path; spawned workers inherit it."""
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
