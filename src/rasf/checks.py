"""Arguments checked once, each with one sentence that names the argument, what is accepted and what was given."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import SupportsFloat, TypeGuard, cast

import numpy as np
import numpy.typing as npt

from rasf.arrays import Floats, Numbers

HEAVIEST = 1e15  # a weight whose square, as variances have it, is finite in single precision
MOST_DECISIONS = 10**6  # a loop of them takes seconds
MOST_NUMBERS = 2**30  # in one table: 8 GiB
LARGEST = 1e90  # of features, weights, rewards and risk parameters: squares of returns stay within float64


def shown(value: object) -> str:
    """A value as it is told in an error: the beginning of its repr, in one line."""
    return " ".join(f"{value!r:.400}".split())[:80]


def is_whole(value: object) -> TypeGuard[int]:
    """Whether this is an integer of Python or numpy; True and False are not."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def whole(name: str, value: object, least: int = 1) -> int:
    """A whole number of at least `least`, and of 63 bits at most, as seeds are kept."""
    if not is_whole(value) or not least <= value < 2**63:
        raise ValueError(f"{name} must be a whole number of at least {least}, below 2^63, got {value!r}")
    return int(value)  # numpy's integers cannot be kept in a file's header


def number(name: str, value: object, low: float = -np.inf, high: float = np.inf) -> float:
    """A finite number within [low, high]."""
    try:
        plain = float(cast(SupportsFloat, value)) if np.ndim(cast(npt.ArrayLike, value)) == 0 else np.nan
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} must be a number, got {shown(value)}") from None
    if isinstance(value, str | bytes | bool) or not (np.isfinite(plain) and low <= plain <= high):
        within = "" if low == -np.inf and high == np.inf else f" within [{low:g}, {high:g}]"
        raise ValueError(f"{name} must be a finite number{within}, got {shown(value)}")
    return plain


def floats(given: npt.ArrayLike) -> Floats:
    """A copy as float64; nothing, of shape (0,), where these are no numbers."""
    try:
        return np.array(given, np.float64)
    except (TypeError, ValueError):
        return np.zeros(0)


def weights(name: str, given: npt.ArrayLike, d: int) -> Floats:
    """Reward weights (d,)."""
    found = floats(given)
    if found.shape != (d,) or not np.isfinite(found).all():
        raise ValueError(f"{name} must be {d} finite numbers, one per feature, got {shown(given)}")
    return found


def task_weights(name: str, given: npt.ArrayLike, d: int | None = None) -> Floats:
    """The weights (n, d) of one or several tasks."""
    size = "d" if d is None else d
    try:
        found = np.atleast_2d(np.array(given, np.float64))
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be weights of shape (n, {size}), got {shown(given)}") from None
    if found.ndim != 2 or not found.size or (d is not None and found.shape[1] != d):
        raise ValueError(f"{name} must be weights of shape (n, {size}), got shape {np.shape(given)}")
    if not np.abs(found).max() <= HEAVIEST:  # nan is not
        raise ValueError(f"{name} must be finite weights within {-HEAVIEST:g} and {HEAVIEST:g}, got {shown(given)}")
    return found


def bounds(name: str, given: npt.ArrayLike, d: int) -> Floats:
    """Finite bounds (d, 2), each low below its high."""
    found = floats(given)
    if found.shape != (d, 2) or not np.isfinite(found).all() or not (found[:, 0] < found[:, 1]).all():
        raise ValueError(f"{name} must be finite, of shape ({d}, 2), low below high, got {shown(given)}")
    return found


def keywords(name: str, given: object) -> dict[str, object]:
    """Return keyword arguments, a dict with words as keys; {} for None."""
    if given is not None and not (isinstance(given, Mapping) and all(isinstance(key, str) for key in given)):
        raise ValueError(f"{name} must be a dict of arguments by name, got {given!r:.60}")
    return dict(given or {})


def one_of(name: str, value: object, accepted: Iterable[object]) -> None:
    """Refuse a value that is not among the accepted ones."""
    known = list(accepted)
    try:
        found = value in known
    except ValueError:  # an array is equal to nothing as a whole
        found = False
    if not found:
        raise ValueError(f"{name} must be one of {', '.join(map(str, known))}, got {value!r}")


def numbers(name: str, given: object) -> Floats:
    """An array of float64 of any shape, nan and infinite ones included; not a copy, if it is one already."""
    return np.asarray(reals(name, given), np.float64)


def reals(name: str, given: object) -> Numbers:
    """An array of real numbers of any shape, in their own precision, nan and infinite ones included."""
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
    """A whole number of decisions, few enough to loop over them and to keep tables of `numbers_each` for each."""
    found = whole(name, value)
    if found > MOST_DECISIONS:
        raise ValueError(f"{name} must be at most {MOST_DECISIONS:,} decisions, got {value}")
    table(name, found, numbers_each)
    return found


def table(name: str, value: int, numbers_each: int) -> None:
    """Refuse an argument that asks for a table beyond 8 GiB, `numbers_each` for each of `value`."""
    if value * numbers_each > MOST_NUMBERS:
        most = MOST_NUMBERS // numbers_each
        raise ValueError(f"{name} must be at most {most:,} here, so that tables stay within 8 GiB, got {value}")


def discount(value: object) -> float:
    """A discount: a number above 0 and at most 1."""
    try:
        found = number("gamma", value)
    except ValueError:
        found = 0.0
    if not 0 < found <= 1:
        raise ValueError(f"gamma must be in (0, 1], got {shown(value)}")
    return found
