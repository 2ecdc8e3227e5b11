"""What must hold of the arrays of frozen tabular policies before compiled code, which checks no bounds, reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, Protocol

import numpy as np
import numpy.typing as npt

from rasf.arrays import Floats, Ints
from rasf.envs.gymnasium.encoder import Encoder
from rasf.tabular.frozen import Frozen
from rasf.tabular.table import learned_sigma

SIGMA = ("none", "diagonal", "full")  # by NO_SIGMA, DIAGONAL_SIGMA, FULL_SIGMA

_TYPES: dict[str, type[np.generic]] = {
    "states": np.int64,
    "group": np.int32,
    "row": np.int32,
    "entries": np.int64,
    "first": np.int16,
    "last": np.int16,
    "value": np.float32,
    "policies": np.int64,
    "seed": np.uint64,
    "noise": np.float64,
}
_MOST_POLICIES = 2**15 - 1  # of one group; they are numbered in 16 bits
_LARGEST = 2**15  # actions, features; acting remembers 1 + an action in 16 bits


def check_sizes(description: Mapping[str, Any]) -> tuple[int, int, float, int]:
    """Actions, features, gamma and the form of Sigma, by a stored description."""
    for name in ("actions", "features"):
        size = description.get(name)
        if type(size) is not int or not 1 <= size <= _LARGEST:
            raise ValueError(f"{name} must be a whole number from 1 to {_LARGEST}, got {size!r}")
    gamma, sigma = description.get("gamma"), description.get("sigma")
    if type(gamma) is not float or not 0 < gamma <= 1:
        raise ValueError(f"gamma must be a number in (0, 1], got {gamma!r}")
    if sigma not in SIGMA:
        raise ValueError(f"sigma must be {', '.join(SIGMA)}, got {sigma!r}")
    return description["actions"], description["features"], gamma, SIGMA.index(sigma)


def check_keys(keys: npt.NDArray[Any]) -> None:
    """Keys (S, n) are finite float64, n at least 1."""
    if keys.dtype != np.float64 or keys.ndim != 2 or keys.shape[1] < 1:
        raise ValueError(f"keys must be float64 of shape (S, n), got {keys.dtype} of shape {keys.shape}")
    if not np.isfinite(keys).all():
        raise ValueError("keys must be finite, got nan or infinite numbers")


def check_frozen(frozen: Frozen, n_states: int, A: int, d: int, sigma: int) -> None:
    """Shapes, types, offsets and ranges of all arrays."""
    if not (1 <= A <= _LARGEST and 1 <= d <= _LARGEST):
        raise ValueError(f"actions and features must be 1 to {_LARGEST} each, got {A} and {d}")
    m, cells, stored, groups = d + learned_sigma(d, sigma), frozen.group.size, frozen.first.size, frozen.seed.size
    shapes = {
        "states": (n_states + 1,),
        "group": (cells,),
        "row": (cells,),
        "entries": (cells * A + 1,),
        "first": (stored,),
        "last": (stored,),
        "value": (stored, m),
        "policies": (groups + 1,),
        "seed": (groups,),
        "noise": (groups,),
    }
    for name, array in frozen._asdict().items():
        wanted = np.dtype(_TYPES[name])
        if array.dtype != wanted or array.shape != shapes[name]:
            raise ValueError(
                f"{name} must be {wanted} of shape {shapes[name]}, got {array.dtype} of shape {array.shape}"
            )
    if groups == 0:
        raise ValueError("seed must have one number for each group of policies, got none")
    _check_offsets("policies", frozen.policies, min(int(frozen.policies[-1]), groups * _MOST_POLICIES), strictly=True)
    if np.diff(frozen.policies).max() > _MOST_POLICIES:
        raise ValueError(f"policies must give every group at most {_MOST_POLICIES}")
    _check_offsets("states", frozen.states, cells, strictly=True)
    _check_offsets("entries", frozen.entries, stored, strictly=False)
    if cells and (frozen.group.min() < 0 or frozen.group.max() >= groups):
        raise ValueError(f"group must be 0 to {groups - 1}, got {frozen.group.min()} to {frozen.group.max()}")
    if not _rise_within(frozen.group, frozen.group, frozen.states):
        raise ValueError("group must rise within every state")
    if cells and frozen.row.min() < 0:
        raise ValueError(f"row must not be negative, got {frozen.row.min()}")
    size = np.repeat(np.diff(frozen.policies)[frozen.group], np.diff(frozen.entries[::A]))
    if not ((frozen.first >= 0) & (frozen.first <= frozen.last) & (frozen.last < size)).all():
        raise ValueError("first and last must be policies of their group, first not after last")
    if not _rise_within(frozen.first, frozen.last, frozen.entries):
        raise ValueError("first and last must rise within every cell and action")
    if not np.isfinite(frozen.value).all():
        raise ValueError("value must be finite, got nan or infinite numbers")
    if not (np.isfinite(frozen.noise) & (frozen.noise >= 0)).all():
        raise ValueError("noise must be finite and not negative")


class _Sized(Protocol):
    def describe(self) -> dict[str, Any]:
        """Sizes and settings."""


def same_everywhere(parts: Sequence[_Sized]) -> None:
    """Refuse to merge what was learned differently."""
    if not parts:
        raise ValueError("parts must hold at least one library, got none")
    described = [part.describe() for part in parts]
    for name in ("features", "actions", "numbers", "gamma", "sigma"):
        found = [one[name] for one in described]
        if any(value != found[0] for value in found):
            raise ValueError(f"parts must all have the same {name}, got {', '.join(map(str, found))}")


class KnownChoices:
    """`numbers` and `batch_keys` of a Discrete space, which refuse what it has not: no table would know it."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder, self._low = encoder, encoder.describe()["start"]
        self._high = self._low + encoder.describe()["n"] - 1

    def key(self, obs: Any) -> Floats:
        """The number of one observation."""
        found = self._encoder.key(obs)
        number = found.item()
        return found if self._low <= number <= self._high and number.is_integer() else self._refuse()

    def batch_keys(self, obs: Any) -> Floats:
        """The numbers of a batch."""
        found, low, high = self._encoder.batch_keys(obs), self._low, self._high
        whole = np.asarray(obs).dtype.kind != "f" or (np.rint(found) == found).all()
        known = whole and low <= found.min(initial=high) and found.max(initial=low) <= high
        return found if known else self._refuse()

    def _refuse(self) -> NoReturn:
        raise ValueError(f"obs must hold whole numbers from {self._low} to {self._high}")


def _check_offsets(name: str, offsets: Ints, end: int, strictly: bool) -> None:
    low, high = offsets[:-1], offsets[1:]
    if offsets[0] != 0 or offsets[-1] != end or not (low < high if strictly else low <= high).all():
        raise ValueError(f"{name} must rise {'strictly ' if strictly else ''}from 0 to {end}")


def _rise_within(low: Ints, high: Ints, offsets: Ints) -> bool:
    """Whether every stretch low[i] .. high[i] lies above the one before it, in each range of the offsets."""
    begins = np.zeros(len(low), np.bool_)
    begins[offsets[:-1][np.diff(offsets) > 0]] = True
    return bool((begins[1:] | (low[1:] > high[:-1])).all())
