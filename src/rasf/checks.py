"""Checks of arguments. Every error is one sentence with the argument, the accepted values and the given value.

In all functions, `name` is the name of the argument in the error. Every function accepts the values that its
docstring describes, and raises ValueError for all other values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import SupportsFloat, TypeGuard, cast

import numpy as np
import numpy.typing as npt

from rasf.arrays import Floats, Numbers

HEAVIEST = 1e15  # largest absolute weight: variances are multiplied by its square, and must be finite in float32
MOST_DECISIONS = 10**6  # largest number of decisions in a loop: a loop of this length takes seconds
MOST_NUMBERS = 2**30  # largest number of entries of a table: 8 GiB as float64
LARGEST = 1e90  # largest absolute feature, weight, reward or risk parameter, so that squared returns are finite


def shown(value: object) -> str:
    """Return the beginning of a value's repr, in one line, for an error message."""
    return " ".join(f"{value!r:.400}".split())[:80]


def is_whole(value: object) -> TypeGuard[int]:
    """Return whether a value is an integer of Python or numpy, and not a bool."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def whole(name: str, value: object, least: int = 1) -> int:
    """Return an integer as a Python int, if the value is at least `least` and below 2^63."""
    if not is_whole(value) or not least <= value < 2**63:
        raise ValueError(f"{name} must be a whole number of at least {least}, below 2^63, got {value!r}")
    return int(value)  # JSON headers of files cannot contain numpy integers


def number(name: str, value: object, low: float = -np.inf, high: float = np.inf) -> float:
    """Return a finite number within [low, high] as a float."""
    try:
        plain = float(cast(SupportsFloat, value)) if np.ndim(cast(npt.ArrayLike, value)) == 0 else np.nan
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} must be a number, got {shown(value)}") from None
    if isinstance(value, str | bytes | bool) or not (np.isfinite(plain) and low <= plain <= high):
        within = "" if low == -np.inf and high == np.inf else f" within [{low:g}, {high:g}]"
        raise ValueError(f"{name} must be a finite number{within}, got {shown(value)}")
    return plain


def floats(given: npt.ArrayLike) -> Floats:
    """Return a copy as float64, or an empty array of shape (0,) if the values are not numbers."""
    try:
        return np.array(given, np.float64)
    except (TypeError, ValueError):
        return np.zeros(0)


def weights(name: str, given: npt.ArrayLike, d: int) -> Floats:
    """Return finite reward weights (d,)."""
    found = floats(given)
    if found.shape != (d,) or not np.isfinite(found).all():
        raise ValueError(f"{name} must be {d} finite numbers, one per feature, got {shown(given)}")
    return found


def task_weights(name: str, given: npt.ArrayLike, d: int | None = None) -> Floats:
    """Return the weights (n, d) of n >= 1 tasks, if no weight is larger than `HEAVIEST` in size."""
    size = "d" if d is None else d
    try:
        found = np.atleast_2d(np.array(given, np.float64))
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be weights of shape (n, {size}), got {shown(given)}") from None
    if found.ndim != 2 or not found.size or (d is not None and found.shape[1] != d):
        raise ValueError(f"{name} must be weights of shape (n, {size}), got shape {np.shape(given)}")
    if not np.abs(found).max() <= HEAVIEST:  # `not <=` instead of `>`, so that nan raises too
        raise ValueError(f"{name} must be finite weights between {-HEAVIEST:g} and {HEAVIEST:g}, got {shown(given)}")
    return found


def bounds(name: str, given: npt.ArrayLike, d: int) -> Floats:
    """Return finite bounds (d, 2), if every lower bound is below the upper bound."""
    found = floats(given)
    if found.shape != (d, 2) or not np.isfinite(found).all() or not (found[:, 0] < found[:, 1]).all():
        raise ValueError(f"{name} must be finite, of shape ({d}, 2), each low below its high, got {shown(given)}")
    return found


def keywords(name: str, given: object) -> dict[str, object]:
    """Return keyword arguments as a dict, which is empty for None."""
    if given is not None and not (isinstance(given, Mapping) and all(isinstance(key, str) for key in given)):
        raise ValueError(f"{name} must be a dict of arguments by name, got {given!r:.60}")
    return dict(given or {})


def one_of(name: str, value: object, accepted: Iterable[object]) -> None:
    """Raise an error if a value is not among the accepted values."""
    known = list(accepted)
    try:
        found = value in known
    except ValueError:  # comparing an array gives no single truth value
        found = False
    if not found:
        raise ValueError(f"{name} must be one of {', '.join(map(str, known))}, got {value!r}")


def numbers(name: str, given: object) -> Floats:
    """Return an array of float64 of any shape; nan and infinities are accepted. An array of float64 is not copied."""
    return np.asarray(reals(name, given), np.float64)


def reals(name: str, given: object) -> Numbers:
    """Return an array of real numbers of any shape and dtype; nan and infinities are accepted."""
    try:
        found = np.asarray(given)
        if found.dtype.kind == "O":
            found = np.asarray(found, np.float64)
        if found.dtype.kind in "biuf":
            return found
    except (TypeError, ValueError, OverflowError):
        pass
    raise ValueError(f"{name} must be an array of real numbers, got {shown(given)}")


def decisions(name: str, value: object, numbers_each: int = 0) -> int:
    """Return a number of decisions, if it is at most `MOST_DECISIONS` and a table of all decisions fits.

    The table has `numbers_each` numbers for each decision. It fits if it has at most `MOST_NUMBERS` numbers.
    """
    found = whole(name, value)
    if found > MOST_DECISIONS:
        raise ValueError(f"{name} must be at most {MOST_DECISIONS:,} decisions, got {value}")
    table(name, found, numbers_each)
    return found


def table(name: str, value: int, numbers_each: int) -> None:
    """Raise an error if a table of `value` times `numbers_each` numbers takes more than 8 GiB."""
    if value * numbers_each > MOST_NUMBERS:
        most = MOST_NUMBERS // numbers_each
        raise ValueError(f"{name} must be at most {most:,} here, so that tables stay within 8 GiB, got {value}")


def discount(value: object) -> float:
    """Return a discount, above 0 and at most 1, as a float."""
    try:
        found = number("gamma", value)
    except ValueError:
        found = 0.0
    if not 0 < found <= 1:
        raise ValueError(f"gamma must be in (0, 1], got {shown(value)}")
    return found
