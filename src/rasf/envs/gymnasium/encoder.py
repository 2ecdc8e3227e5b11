"""Observations as numbers: what a table's key and a network's input are made of.

A `Encoder` is made from a Gymnasium observation space and gives two codes of an observation:

    numbers   float64 (size,)        exact, what identifies a state in a table: a Discrete is one number, arrays are
                                     flattened, Dict and Tuple concatenated in the space's order; -0.0 becomes 0.0
    flat      float32 (vector_size,)   what a network sees: Discrete and MultiDiscrete one-hot, the rest as is, as
                                     `gymnasium.spaces.flatten` does

Both have a batched form: (n, ..) arrays for array spaces, and dicts or tuples of such arrays for Dict and Tuple, as
Gymnasium's vector environments give them. A encoder is described in JSON and restored from it without Gymnasium.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from rasf.arrays import Floats
from rasf.envs.gymnasium.spaces import MAX_SIZE, Hot, Leaf, describe, leaves, short

MAX_FEW_BITS = 62


class Encoder:
    """Codes of one observation space; see the module."""

    def __init__(self, description: Mapping[str, Any]) -> None:
        self._leaves = leaves(description)
        self._description = dict(description)
        self.size = sum(leaf.size for leaf in self._leaves)
        self.vector_size = sum(leaf.vector_size for leaf in self._leaves)
        if not 0 < self.size <= MAX_SIZE:
            raise ValueError(f"an observation must have 1 to {MAX_SIZE} numbers, got {self.size}")

    @classmethod
    def of(cls, space: Any) -> Encoder:
        """The encoder of a Gymnasium space."""
        return cls(describe(space))

    @classmethod
    def from_description(cls, description: Mapping[str, Any]) -> Encoder:
        """The encoder that `describe` described; everything in it is checked."""
        return cls(description)

    def describe(self) -> dict[str, Any]:
        """All there is to know, as JSON."""
        return dict(self._description)

    @property
    def integers(self) -> bool:
        """Whether every number is a whole one from a bounded range, so that states can recur exactly."""
        return all(leaf.ways is not None for leaf in self._leaves)

    @property
    def few(self) -> int | None:
        """How many observations are possible; None where they cannot be counted or are more than 2^62."""
        ways = [way for leaf in self._leaves for way in leaf.ways or ()]
        if not self.integers or sum(entries * math.log2(values) for values, entries in ways) > MAX_FEW_BITS:
            return None
        return math.prod(values**entries for values, entries in ways)

    def is_batch(self, obs: Any) -> bool:
        """Whether this is a batch; refuses what is neither one observation nor a batch."""
        answers = set()
        for leaf in self._leaves:
            shape = _pick(leaf, obs).shape
            if shape not in (leaf.shape, shape[:1] + leaf.shape):
                wanted = f"{leaf.shape}, or {_with_batch(leaf.shape)} for a batch"
                raise ValueError(f"{leaf.name} must have shape {wanted}, got {shape}")
            answers.add(shape != leaf.shape)
        if len(answers) > 1:
            raise ValueError("obs must be one observation or a batch, got an array of a batch beside one of a single")
        return answers.pop()

    def check(self, obs: Any) -> None:
        """Refuse what is not one observation with finite numbers."""
        for leaf in self._leaves:
            _require_finite(leaf, _one(leaf, obs))

    def key(self, obs: Any) -> Floats:
        """The exact numbers (size,) of one observation."""
        if len(self._leaves) == 1:
            return _numbers(self._leaves[0], _one(self._leaves[0], obs)).reshape(-1)
        return np.concatenate([_numbers(leaf, _one(leaf, obs)).reshape(-1) for leaf in self._leaves])

    def vector(self, obs: Any) -> npt.NDArray[np.float32]:
        """The network input (vector_size,) of one observation."""
        if len(self._leaves) == 1:
            return _flat(self._leaves[0], _one(self._leaves[0], obs)[None])[0]
        return np.concatenate([_flat(leaf, _one(leaf, obs)[None])[0] for leaf in self._leaves])

    def batch_keys(self, obs: Any) -> Floats:
        """The exact numbers (n, size) of a batch."""
        arrays = self._batch(obs)
        parts = [_numbers(leaf, array).reshape(len(array), leaf.size) for leaf, array in arrays]
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)

    def batch_vectors(self, obs: Any) -> npt.NDArray[np.float32]:
        """The network inputs (n, vector_size) of a batch."""
        parts = [_flat(leaf, array) for leaf, array in self._batch(obs)]
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)

    def _batch(self, obs: Any) -> list[tuple[Leaf, npt.NDArray[Any]]]:
        arrays = []
        for leaf in self._leaves:
            array = _pick(leaf, obs)
            if array.ndim != len(leaf.shape) + 1 or array.shape[1:] != leaf.shape:
                raise ValueError(
                    f"{leaf.name} must be a batch of shape {_with_batch(leaf.shape)}, got shape {array.shape}"
                )
            arrays.append((leaf, array))
        lengths = sorted({len(array) for _, array in arrays})
        if len(lengths) > 1:
            raise ValueError(f"obs must have the same number of observations in all its arrays, got {lengths}")
        return arrays


def _pick(leaf: Leaf, obs: Any) -> npt.NDArray[Any]:
    """The leaf's array in an observation."""
    value, name = obs, "obs"
    for key in leaf.path:
        if isinstance(key, str):
            if not isinstance(value, Mapping) or key not in value:
                raise ValueError(f"{name} must be a dict with the key {key!r}, got {short(value)}")
            value, name = value[key], f"{name}[{key}]"
        else:
            if not isinstance(value, tuple | list) or len(value) != key[1]:
                raise ValueError(f"{name} must be a tuple of {key[1]}, got {short(value)}")
            value, name = value[key[0]], f"{name}[{key[0]}]"
    if isinstance(value, np.ndarray):
        array = value
    else:
        try:
            array = np.asarray(value)
        except ValueError:
            raise ValueError(f"{leaf.name} must be an array, got a ragged {type(value).__name__}") from None
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{leaf.name} must hold numbers, got {short(value)}")
    return array


def _one(leaf: Leaf, obs: Any) -> npt.NDArray[Any]:
    array = _pick(leaf, obs)
    if array.shape != leaf.shape:
        raise ValueError(f"{leaf.name} must be one observation of shape {leaf.shape}, got shape {array.shape}")
    return array


def _require_finite(leaf: Leaf, array: npt.NDArray[Any]) -> None:
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ValueError(f"{leaf.name} must be finite, got nan or infinite numbers")


def _numbers(leaf: Leaf, array: npt.NDArray[Any]) -> Floats:
    _require_finite(leaf, array)
    exact = array.astype(np.float64)
    exact += 0.0  # -0.0 and 0.0 are one state
    return exact


def _flat(leaf: Leaf, array: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """The leaf's part (n, vector_size) of the flat code, from a batch of arrays."""
    rows = array.reshape(len(array), leaf.size)
    if leaf.hot is not None:
        return _one_hot(leaf, leaf.hot, rows)
    if rows.dtype == np.float64:
        with np.errstate(over="ignore"):
            inputs = rows.astype(np.float32)
    else:
        inputs = rows.astype(np.float32)
    _require_finite(leaf, inputs)
    return inputs


def _one_hot(leaf: Leaf, hot: Hot, rows: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    _require_finite(leaf, rows)
    chosen = rows.astype(np.int64)
    whole = rows.dtype.kind != "f" or bool((chosen == rows).all())
    chosen -= hot.start
    if not whole or ((chosen < 0) | (chosen >= hot.choices)).any():
        last = hot.start + hot.choices - 1
        raise ValueError(f"{leaf.name} must hold whole numbers from {_range(hot.start)} to {_range(last)}")
    chosen += hot.offset
    inputs = np.zeros((len(rows), leaf.vector_size), np.float32)
    inputs[np.arange(len(rows))[:, None], chosen] = 1.0
    return inputs


def _range(entries: npt.NDArray[np.int64]) -> str:
    return str(entries[0]) if (entries == entries[0]).all() else str(entries.tolist())


def _with_batch(shape: tuple[int, ...]) -> str:
    return f"({', '.join(['n', *map(str, shape)])}{',' if not shape else ''})"
