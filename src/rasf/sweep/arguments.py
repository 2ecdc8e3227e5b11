"""What a user writes, in a sweep file, a configuration or a flag, as arguments of `rasf.learn` and of evaluation.

A reader takes the name of a value, to complain by, and the value: as TOML has it, or as text such as 1,0,.1.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from rasf.checks import is_whole, task_weights, whole
from rasf.files import npy_memory
from rasf.sweep.runs import add_cwd_to_path

if TYPE_CHECKING:
    from rasf.arrays import Floats
    from rasf.risk import Risk

Reader = Callable[[str, Any], Any]
_SUFFIXES = (".csv", ".json", ".npy")
_LARGEST_SEED = 2**32 - 1  # that all generators take


def read_toml(path: Path) -> tuple[str, dict[str, Any]]:
    """The text of a TOML file, and what it says."""
    try:
        text = path.read_text(encoding="utf-8")
        return text, tomllib.loads(text)
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:  # TOML's own errors name the line
        raise ValueError(f"{path} is not a TOML file: {error}") from None
    except RecursionError:
        raise ValueError(f"{path} is not a TOML file that can be read: its values are nested too deeply") from None


def text(name: str, value: object) -> str:
    """Text that is not empty."""
    if not isinstance(value, str) or not value:
        raise ValueError(f"{name} must be text, got {value!r}")
    return value


def flag(name: str, value: object) -> bool:
    """Yes or no."""
    if not isinstance(value, bool):
        raise ValueError(f"{name} must be true or false, got {value!r}")
    return value


def seed(name: str, value: object) -> int:
    """What generators take as a seed."""
    found = whole(name, value, 0)
    if found > _LARGEST_SEED:
        raise ValueError(f"{name} must be at most {_LARGEST_SEED}, got {value}")
    return found


def weights(name: str, value: Any) -> Floats:
    """Rows of numbers (n, d): one or several, each a list or text such as 1,0,.1."""
    each = [value] if isinstance(value, str) else value
    if isinstance(each, list):
        each = [row.split(",") if isinstance(row, str) else row for row in each]
    return task_weights(name, each)


def weights_in_file(name: str, path: Path) -> Floats:
    """Weights (n, d) in a file: comma-separated lines, a JSON list of lists, or a numpy array, never a pickled one."""
    if path.suffix not in _SUFFIXES:
        raise ValueError(f"{name} must be a file that ends in {', '.join(_SUFFIXES)}, got {path}")
    try:
        if path.suffix == ".csv":
            return weights("it", [line for line in path.read_text("utf-8").splitlines() if line.strip()])
        if path.suffix == ".npy":
            with open(path, "rb") as file:
                npy_memory(file, path.stat().st_size)  # or refused: the head may declare more than there is
        found = np.load(path) if path.suffix == ".npy" else json.loads(path.read_text("utf-8"))
        if np.ndim(found) != 2:
            raise ValueError(f"it has shape {np.shape(found)}")
        return weights("it", found)
    except OSError:
        raise
    except Exception as error:  # numpy and json raise many kinds for a damaged file
        reason = " ".join(str(error).split())
        raise ValueError(f"{name} must be a file of weights, one row per task, and {path} is not: {reason}") from None


def weights_or_file(name: str, value: Any) -> Floats:
    """Weights (n, d), or those in the file that a text names."""
    if isinstance(value, str) and Path(value).suffix in _SUFFIXES:
        return weights_in_file(name, Path(value))
    return weights(name, value)


def tasks(name: str, value: object) -> int | Floats:
    """How many tasks to draw, their weights (n, d), or a file of them."""
    return whole(name, value) if is_whole(value) else weights_or_file(name, value)


def risks(name: str, value: object) -> list[Risk]:
    """One or several risks, each once."""
    from rasf.risk.names import EXAMPLES, risk_from_text, risk_to_text

    each = [value] if isinstance(value, str) else value
    if not isinstance(each, list) or not each or not all(isinstance(one, str) for one in each):
        raise ValueError(f"{name} must be written as {EXAMPLES}, got {value!r}")
    found = [risk_from_text(one) for one in each]
    if len({risk_to_text(one) for one in found}) != len(found):
        raise ValueError(f"{name} must name each risk once, got {', '.join(each)}")
    return found


def short_risk(text: str) -> str:
    """A risk's text without needless digits: mean-variance:-4 for mean-variance:-4.0."""
    return text.removesuffix(".0")


def import_environment(typed: str) -> str:
    """The id that a user typed; of `module:Id-v0` the module is imported, also from the folder we are in."""
    module, colon, env_id = typed.rpartition(":")
    if colon:
        imported(module, f"env {typed!r} cannot be made")
    return env_id


def function(name: str, value: Any) -> Callable[..., Any]:
    """A function of a module, written MODULE:NAME; the module may lie in the folder we are in."""
    module, colon, found = text(name, value).rpartition(":")
    if not colon:
        raise ValueError(f"{name} must be written MODULE:NAME, such as my_features:phi, got {value!r}")
    one = getattr(imported(module, f"{name} {value!r} cannot be imported"), found, None)
    if not callable(one):
        raise ValueError(f"{name} must be a function, and {module} has none called {found}")
    return one


def indices(name: str, value: Any) -> list[int]:
    """Whole numbers from 0, written 2,3 or as a list."""
    each = value.split(",") if isinstance(value, str) else value if isinstance(value, list) else [value]
    try:
        return [whole(name, int(one), 0) for one in each]
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be whole numbers from 0, such as 2,3, got {value!r}") from None


def imported(module: str, otherwise: str) -> ModuleType:
    """A module that a user names, also of the folder we are in; `otherwise` begins the sentence that refuses it."""
    add_cwd_to_path()
    try:
        return import_module(module)
    except Exception as error:  # whatever a module of the user's may raise
        raise ValueError(f"{otherwise}: {type(error).__name__}: {error}") from error
