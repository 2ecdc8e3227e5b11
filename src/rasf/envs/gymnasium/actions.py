"""Action spaces: actions as policies choose them, and the same actions as an environment takes them.

DiscreteActions    0 to n - 1                  the environment numbers these actions from `first` on
BoxActions         vectors (m,) in [-1, 1]     the environment takes arrays with the bounds, shape and type of a Box
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from rasf.arrays import Floats, Ints
from rasf.files import Header

if TYPE_CHECKING:
    import gymnasium

MOST_ACTIONS = 2**15  # largest number of actions: tables store an action in 16 bits
_MOST_SIZE = 1_000  # largest number of entries of a vector
_TYPES = ("float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
_EXACT = 2**53  # largest whole number up to which float64 is exact
_SLACK = 1e-6  # entries may be outside [-1, 1] by this much, because float32 is rounded


@dataclass(frozen=True)
class DiscreteActions:
    """The actions 0 to n - 1, which the environment numbers from `first` on."""

    n: int
    first: int = 0
    size: ClassVar[int] = 0  # actions are not vectors

    def own(self, action: int) -> np.int64:
        """Return an action as the environment takes it.

        Args:
            action: The action, 0 to n - 1.

        Raises:
            ValueError: The action is out of range.
        """
        if not 0 <= action < self.n:
            raise ValueError(f"action must be 0 to {self.n - 1}, got {action!r}")
        return np.int64(action + self.first)

    def own_batch(self, actions: npt.ArrayLike) -> Ints:
        """Return actions (B,) as the environment takes them; see `own`."""
        return self.checked(actions).astype(np.int64) + self.first

    def checked(self, actions: npt.ArrayLike) -> np.ndarray:
        """Return actions (B,) as an array; raise ValueError unless they are whole numbers from 0 to n - 1."""
        chosen = np.asarray(actions)
        if (
            chosen.ndim != 1
            or chosen.dtype.kind not in "iu"
            or (chosen.size and (chosen.min() < 0 or chosen.max() >= self.n))
        ):
            raise ValueError(f"actions must be whole numbers from 0 to {self.n - 1}, got {chosen.tolist()!r:.60}")
        return chosen

    def first_of(self, n: int) -> Ints:
        """Return an array (n,) in which every action is 0."""
        return np.zeros(n, np.int64)

    def sample(self, rng: np.random.Generator) -> int:
        """Return a random action."""
        return int(rng.integers(self.n))


@dataclass(frozen=True)
class BoxActions:
    """Vectors in [-1, 1]^m, which are scaled to the bounds of a Box.

    Attributes:
        low: The lowest value of each entry, (m,).
        high: The highest value of each entry, (m,).
        shape: The shape of an action of the environment, an array with m entries.
        dtype: The name of the type of the environment's actions.
    """

    low: tuple[float, ...]
    high: tuple[float, ...]
    shape: tuple[int, ...]
    dtype: str
    n: ClassVar[int] = 0  # actions are not numbered

    @classmethod
    def of(cls, space: gymnasium.spaces.Box) -> BoxActions:
        """Return the actions of a space.

        Args:
            space: The action space of an environment.

        Raises:
            ValueError: A bound is infinite, an entry has equal bounds, or there are too many entries.
        """
        low, high = (np.asarray(bound, np.float64).ravel() for bound in (space.low, space.high))
        if not space.is_bounded("both"):
            raise ValueError(
                "the action space must have finite bounds, so that actions can be scaled; wrap the environment in "
                "gymnasium.wrappers.TransformAction(env, lambda action: action, Box), with a Box of finite bounds"
            )
        return cls._checked(low.tolist(), high.tolist(), space.shape, np.dtype(space.dtype).name)

    @classmethod
    def from_json(cls, given: Header) -> BoxActions:
        """Return the actions that the header of a file describes (`to_json`). The file is not trusted."""
        low, high, shape, dtype = (given.get(name) for name in ("low", "high", "shape", "dtype"))
        for name, numbers in (("low", low), ("high", high), ("shape", shape)):
            kinds = (int,) if name == "shape" else (int, float)
            if type(numbers) is not list or any(type(one) not in kinds for one in numbers):
                raise ValueError(f"the {name} of its actions must be a list of numbers, got {numbers!r:.60}")
        return cls._checked(low, high, shape, str(dtype))  # type: ignore[arg-type]

    @classmethod
    def _checked(cls, low: Sequence[float], high: Sequence[float], shape: Sequence[int], dtype: str) -> BoxActions:
        size = math.prod(shape)
        if dtype not in _TYPES:
            raise ValueError(f"the type of actions must be one of {', '.join(_TYPES)}, got {dtype!r:.60}")
        if not (1 <= size <= _MOST_SIZE and len(low) == len(high) == size and min(shape, default=1) > 0):
            raise ValueError(
                f"actions must have 1 to {_MOST_SIZE} entries, with a low and a high for each, got shape {shape!r:.60}"
            )
        least, most = _range(dtype)
        if not all(least <= one < other <= most for one, other in zip(low, high, strict=True)):
            raise ValueError(
                f"the bounds of actions must be finite, in increasing order and within {dtype}, got {low!r:.60} and "
                f"{high!r:.60}"
            )
        return cls(tuple(map(float, low)), tuple(map(float, high)), tuple(map(int, shape)), dtype)

    @property
    def size(self) -> int:
        """The number m of entries of an action."""
        return len(self.low)

    def own(self, action: npt.ArrayLike) -> np.ndarray:
        """Return an action as the environment takes it.

        Args:
            action: The action (m,), in [-1, 1].

        Raises:
            ValueError: The shape is wrong, or an entry is not in [-1, 1].
        """
        given = np.asarray(action, np.float64)
        if given.shape != (self.size,):
            raise ValueError(f"action must have shape ({self.size},), got {given.shape}")
        return np.asarray(self.own_batch(given[None])[0])  # an array also if the shape is ()

    def own_batch(self, actions: npt.ArrayLike) -> np.ndarray:
        """Return actions (B, m) as the environment takes them, (B, ..); see `own`."""
        given = self.checked(actions)
        low, high = np.array(self.low), np.array(self.high)
        found = np.clip(low + (given + 1) / 2 * (high - low), low, high)
        if not self.dtype.startswith("float"):
            found = np.rint(found)
        return found.astype(self.dtype).reshape(len(given), *self.shape)

    def checked(self, actions: npt.ArrayLike) -> Floats:
        """Return actions (B, m) as an array; raise ValueError unless they are vectors in [-1, 1]."""
        given = np.asarray(actions, np.float64)
        if given.ndim != 2 or given.shape[1] != self.size or not (np.abs(given) <= 1 + _SLACK).all():
            raise ValueError(f"actions must be vectors of {self.size} numbers in [-1, 1], got {given.tolist()!r:.80}")
        return given

    def unit(self, actions: npt.ArrayLike) -> Floats:
        """Return the environment's own actions (B, ..) as vectors (B, m) in [-1, 1]; the inverse of `own_batch`."""
        given = np.asarray(actions, np.float64)
        low, high = np.array(self.low), np.array(self.high)
        return np.clip(2 * (given.reshape(len(given), self.size) - low) / (high - low) - 1, -1, 1)

    def first_of(self, n: int) -> Floats:
        """Return an array (n, m) in which every action is the middle of the Box."""
        return np.zeros((n, self.size))

    def sample(self, rng: np.random.Generator) -> Floats:
        """Return a random action (m,), uniform in [-1, 1]."""
        return rng.uniform(-1.0, 1.0, self.size)

    def to_json(self) -> Header:
        """Return the actions as JSON, for the header of a file."""
        return {"low": [*self.low], "high": [*self.high], "shape": [*self.shape], "dtype": self.dtype}


def _range(dtype: str) -> tuple[float, float]:
    """Return the smallest and the largest number of a type; whole numbers end where float64 is no longer exact."""
    if dtype.startswith("float"):
        limits = np.finfo(dtype)
        return float(limits.min) / 2, float(limits.max) / 2  # halved, so that high - low is finite
    whole = np.iinfo(dtype)
    return max(whole.min, -_EXACT), min(whole.max, _EXACT)


Actions: TypeAlias = DiscreteActions | BoxActions


def actions_of(space: gymnasium.Space) -> Actions:
    """Return the actions of a space; raise ValueError unless the space is Discrete or a Box with finite bounds."""
    import gymnasium

    if isinstance(space, gymnasium.spaces.Box):
        return BoxActions.of(space)
    if not isinstance(space, gymnasium.spaces.Discrete):
        raise ValueError(
            f"the action space must be Discrete or a Box, got {type(space).__name__}, which is not supported"
        )
    if space.n > MOST_ACTIONS:
        raise ValueError(f"the action space must have at most {MOST_ACTIONS} actions, got {space.n}")
    return DiscreteActions(int(space.n), int(space.start))
