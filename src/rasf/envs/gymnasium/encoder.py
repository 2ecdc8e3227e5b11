"""Observations as numbers: the keys of tables and the inputs of networks.

An `Encoder` is made from a Gymnasium observation space and turns an observation into numbers in two ways:

    key      float64 (size,)         identifies a state in a table: a Discrete is one number, arrays are flattened,
                                     Dict and Tuple are concatenated in the space's order, -0.0 becomes 0.0
    vector   float32 (vector_size,)  the input of a network, as in `gymnasium.spaces.flatten`: Discrete and
                                     MultiDiscrete are one-hot, other numbers are unchanged

Keys and vectors can also be made for a batch of n observations. As in Gymnasium's vector environments, a batch is an
array (n, ..) if the space is an array, and a dict or tuple of arrays (n, ..) for Dict and Tuple. An encoder has a JSON
description, from which an encoder can be made without Gymnasium.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from rasf.arrays import Floats, Floats32
from rasf.envs.gymnasium.spaces import MAX_SIZE, Hot, Leaf, describe, leaves
from rasf.files import Header

if TYPE_CHECKING:
    import gymnasium

MAX_FEW_BITS = 62  # the number of possible observations is computed only up to 2^62


class Encoder:
    """Keys and vectors for the observations of one space.

    Args:
        description: the space as JSON; all fields are checked, because it may come from an untrusted file.
    """

    def __init__(self, description: Header) -> None:
        self._leaves = leaves(description)
        self._description = dict(description)
        self.size = sum(leaf.size for leaf in self._leaves)
        self.vector_size = sum(leaf.vector_size for leaf in self._leaves)
        if not 0 < self.size <= MAX_SIZE:
            raise ValueError(f"an observation must have 1 to {MAX_SIZE} numbers, got {self.size}")
        # lowest and highest value of a Discrete space; keys outside this range are refused, because no table has them
        self._choices: tuple[int, int] | None = None
        if description["kind"] == "discrete":
            self._choices = (description["start"], description["start"] + description["n"] - 1)

    @classmethod
    def of(cls, space: gymnasium.Space) -> Encoder:
        """Return the encoder of a Gymnasium space."""
        return cls(describe(space))

    def describe(self) -> Header:
        """Return the space as JSON."""
        return dict(self._description)

    @property
    def integers(self) -> bool:
        """Whether all numbers of an observation are whole and bounded, so that states can recur exactly."""
        return all(leaf.ways is not None for leaf in self._leaves)

    @property
    def n_possible(self) -> int | None:
        """The number of possible observations, None if it is infinite or above 2^62."""
        ways = [way for leaf in self._leaves for way in leaf.ways or ()]
        if not self.integers or sum(entries * math.log2(values) for values, entries in ways) > MAX_FEW_BITS:
            return None
        return math.prod(values**entries for values, entries in ways)

    @property
    def images(self) -> list[tuple[int, ...]]:
        """The shapes of those arrays of an observation that are images."""
        return [leaf.shape for leaf in self._leaves if leaf.image]

    @property
    def vector_dtype(self) -> np.dtype[np.generic]:
        """The smallest type that stores a vector without loss: uint8 for a Box of bytes, otherwise float32."""
        images = self._description["kind"] == "box" and self._description["dtype"] == "uint8"
        return np.dtype(np.uint8 if images else np.float32)

    def is_batch(self, obs: object) -> bool:
        """Return whether `obs` is a batch; raise ValueError if it is neither one observation nor a batch."""
        answers = set()
        for leaf in self._leaves:
            shape = _pick(leaf, obs).shape
            if shape not in (leaf.shape, shape[:1] + leaf.shape):
                wanted = f"{leaf.shape}, or {_with_batch(leaf)} for a batch"
                raise ValueError(f"{leaf.name} must have shape {wanted}, got {shape}")
            answers.add(shape != leaf.shape)
        if len(answers) > 1:
            raise ValueError("obs must be one observation or a batch, got a mixture of both")
        return answers.pop()

    def check(self, obs: object) -> None:
        """Raise ValueError unless `obs` is one observation with finite numbers."""
        for leaf, array in self._arrays(obs, batch=False):
            _require_finite(leaf, array)

    def key(self, obs: object) -> Floats:
        """Return the key (size,) of one observation."""
        return self._keys(self._arrays(obs, batch=False))[0]

    def batch_keys(self, obs: object) -> Floats:
        """Return the keys (n, size) of a batch."""
        return self._keys(self._arrays(obs, batch=True))

    def vector(self, obs: object) -> Floats32:
        """Return the network input (vector_size,) of one observation."""
        return _joined([_inputs(*pair) for pair in self._arrays(obs, batch=False)])[0]

    def batch_vectors(self, obs: object) -> Floats32:
        """Return the network inputs (n, vector_size) of a batch."""
        return _joined([_inputs(*pair) for pair in self._arrays(obs, batch=True)])

    def _keys(self, arrays: list[tuple[Leaf, np.ndarray]]) -> Floats:
        for leaf, array in arrays:
            _require_finite(leaf, array)
        keys = _joined([array.reshape(len(array), leaf.size).astype(np.float64) for leaf, array in arrays])
        keys += 0.0  # turns -0.0 into 0.0, because both are the same state
        if self._choices is not None and len(keys):
            least, most = (keys.item(),) * 2 if len(keys) == 1 else (keys.min(), keys.max())
            whole = arrays[0][1].dtype.kind != "f" or bool((np.rint(keys) == keys).all())
            if not (whole and self._choices[0] <= least and most <= self._choices[1]):
                raise ValueError(f"obs must hold whole numbers from {self._choices[0]} to {self._choices[1]}")
        return keys

    def _arrays(self, obs: object, batch: bool) -> list[tuple[Leaf, np.ndarray]]:
        """Return each leaf (array of the space) with its values (n, ..), where n is 1 for one observation."""
        arrays = []
        for leaf in self._leaves:
            array = _pick(leaf, obs)
            if array.shape[batch:] != leaf.shape or array.ndim != len(leaf.shape) + batch:
                wanted = f"a batch of shape {_with_batch(leaf)}" if batch else f"one observation of shape {leaf.shape}"
                raise ValueError(f"{leaf.name} must be {wanted}, got shape {array.shape}")
            arrays.append((leaf, array if batch else array[None]))
        if batch and len(lengths := {len(array) for _, array in arrays}) > 1:
            raise ValueError(f"obs must have the same number of observations in all its arrays, got {sorted(lengths)}")
        return arrays


def _joined(parts: list[np.ndarray]) -> np.ndarray:
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-1)


def _pick(leaf: Leaf, obs: object) -> np.ndarray:
    """Return one array of an observation: the array that a leaf of the space describes."""
    value, name = obs, "obs"
    for key in leaf.path:
        if isinstance(key, str):
            if not isinstance(value, Mapping) or key not in value:
                raise ValueError(f"{name} must be a dict with the key {key!r}, got {value!r:.60}")
            value, name = value[key], f"{name}[{key}]"
        else:
            if not isinstance(value, tuple | list) or len(value) != key[1]:
                raise ValueError(f"{name} must be a tuple of {key[1]} entries, got {value!r:.60}")
            value, name = value[key[0]], f"{name}[{key[0]}]"
    try:
        array = np.asarray(value)
    except ValueError:
        raise ValueError(f"{leaf.name} must be an array, got a ragged {type(value).__name__}") from None
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{leaf.name} must hold numbers, got {value!r:.60}")
    return array


def all_finite(numbers: np.ndarray) -> bool:
    """Return whether all numbers are finite."""
    # for the few numbers of a step, counting is faster than `all`
    return np.count_nonzero(np.isfinite(numbers)) == numbers.size


def _require_finite(leaf: Leaf, array: np.ndarray) -> None:
    if array.dtype.kind == "f" and not all_finite(array):
        raise ValueError(f"{leaf.name} must be finite, got nan or infinite numbers")


def _inputs(leaf: Leaf, array: np.ndarray) -> Floats32:
    """Return the network inputs (n, vector_size) of one leaf in a batch."""
    rows = array.reshape(len(array), leaf.size)
    if leaf.hot is not None:
        return _one_hot(leaf, leaf.hot, rows)
    if array.dtype == np.float32:
        inputs = rows.copy()
    else:
        with np.errstate(over="ignore"):  # numbers that are too large for float32 are refused below
            inputs = rows.astype(np.float32)
    _require_finite(leaf, inputs)
    return inputs


def _one_hot(leaf: Leaf, hot: Hot, rows: np.ndarray) -> Floats32:
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


def _with_batch(leaf: Leaf) -> str:
    return f"({', '.join(['n', *map(str, leaf.shape)])}{',' if not leaf.shape else ''})"
