"""Observation spaces as JSON, and the arrays in an observation of such a space.

    describe(space)       returns a Gymnasium space as a JSON object: its "kind", its sizes and its bounds
    leaves(description)   returns the arrays (leaves) of an observation in order, each with its path. All fields are
                          checked, because a description may come from an untrusted file. The memory used grows with
                          the length of the description, not with the sizes in the description

The parts of a Dict are listed as [key, space] pairs, because the order of parts matters and a JSON object is unordered.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from rasf.checks import is_whole
from rasf.files import Header

if TYPE_CHECKING:
    import gymnasium

# the place of an array in a nested space: on each level, the key in a Dict, or (index, length) for a Tuple
Path = tuple[str | tuple[int, int], ...]
MAX_SIZE = 2**31  # largest number of entries in an observation
MAX_CHOICES = 2**53  # larger whole numbers are not exact in float64, which tables use
MAX_DEPTH = 16  # largest number of nested levels
DTYPES = [np.dtype(code).name for code in "?bBhHiIlLqQefdg"]
Bound = int | float | None
Bounds = Bound | list[Bound]  # one number for all entries of a Box, or a list with a number for each entry
ACCEPTED = "Discrete, MultiDiscrete, MultiBinary, Box, Dict or Tuple"


class Hot(NamedTuple):
    """The encoding of an array with `size` entries as one-hot network inputs; the fields have shape (size,)."""

    choices: npt.NDArray[np.int64]  # number of values of each entry
    start: npt.NDArray[np.int64]  # lowest value of each entry
    offset: npt.NDArray[np.int64]  # index of the first network input of each entry


class Leaf(NamedTuple):
    """An array in an observation."""

    path: Path
    shape: tuple[int, ...]
    size: int  # number of entries
    vector_size: int  # number of network inputs
    hot: Hot | None
    ways: tuple[tuple[int, int], ...] | None  # pairs (n, k): k entries with n possible values each; None if uncountable
    image: bool = False  # whether this is a Box of three or more dimensions, or of two dimensions and dtype uint8

    @property
    def name(self) -> str:
        """The name of the array in messages."""
        return _name(self.path)


def _name(path: Path) -> str:
    return "obs" + "".join(f"[{key if isinstance(key, str) else key[0]}]" for key in path)


def leaves(description: object, path: Path = ()) -> list[Leaf]:
    """Return the arrays of an observation, given its space's description; raise ValueError for a wrong description."""
    if not isinstance(description, Mapping) or len(path) > MAX_DEPTH:
        wanted = f"an object of at most {MAX_DEPTH} levels"
        raise ValueError(f"a space's description must be {wanted}, got {description!r:.60}")
    kind = description.get("kind")
    if kind in ("dict", "tuple"):
        parts = description.get("spaces")
        if not isinstance(parts, list) or not parts:
            raise ValueError(f"a {kind} space's description must list its spaces, got {parts!r:.60}")
        if kind == "tuple":
            return [leaf for i, part in enumerate(parts) for leaf in leaves(part, (*path, (i, len(parts))))]
        if any(not isinstance(part, list) or len(part) != 2 or not isinstance(part[0], str) for part in parts):
            raise ValueError("a dict space's description must list [key, space] pairs")
        if len({key for key, _ in parts}) < len(parts):
            raise ValueError("a dict space's description must not repeat a key")
        return [leaf for key, part in parts for leaf in leaves(part, (*path, key))]
    if kind == "discrete":
        return [_choices(path, (), [description.get("n")], [description.get("start")])]
    if kind == "multi_discrete":
        return [_choices(path, _shape(description), description.get("nvec"), description.get("start"))]
    if kind == "multi_binary":
        shape = _shape(description)
        size = math.prod(shape)
        return [Leaf(path, shape, size, size, None, ((2, size),))]
    if kind == "box":
        return [_box(path, description)]
    raise ValueError(f"a space's description must be of a {ACCEPTED}, got kind {kind!r:.60}")


def _choices(path: Path, shape: tuple[int, ...], n: object, start: object) -> Leaf:
    size = math.prod(shape)
    counts, firsts = _whole_numbers("n", n, size, 1), _whole_numbers("start", start, size, -MAX_CHOICES)
    choices = np.array(counts, np.int64)
    hot = Hot(choices, np.array(firsts, np.int64), np.cumsum(choices) - choices)
    return Leaf(path, shape, size, sum(counts), hot, tuple((count, 1) for count in counts))


def _whole_numbers(name: str, given: object, size: int, least: int) -> list[int]:
    if not isinstance(given, list) or len(given) != size:
        raise ValueError(f"a space's {name} must list {size} whole numbers, got {given!r:.60}")
    if any(not is_whole(entry) or not least <= entry <= MAX_CHOICES for entry in given):
        raise ValueError(f"a space's {name} must be whole numbers from {least} to {MAX_CHOICES}")
    return given


def _box(path: Path, description: Mapping[str, object]) -> Leaf:
    shape = _shape(description)
    size = math.prod(shape)
    dtype = description.get("dtype")
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise ValueError(f"a Box's dtype must be the name of a number type, got {dtype!r:.60}")
    ends: list[list[Bound]] = []
    for name in ("low", "high"):
        end = description.get(name)
        listed = end if isinstance(end, list) else [end]
        if isinstance(end, list) and len(end) != size:
            raise ValueError(f"a Box's {name} must be one number or a list of {size}, got {len(end)}")
        ends.append([entry for entry in listed if entry is None or isinstance(entry, int | float)])
        if len(ends[-1]) < len(listed):
            raise ValueError(f"a Box's {name} must be numbers, or null where unbounded")
    image = len(shape) > 2 or (len(shape) == 2 and dtype == "uint8")
    low, high = ([entry for entry in end if is_whole(entry) and abs(entry) <= MAX_CHOICES] for end in ends)
    if [len(low), len(high)] != [*map(len, ends)] or np.dtype(dtype).kind == "f":
        return Leaf(path, shape, size, size, None, None, image)
    length = max(len(low), len(high))
    counts = [top - bottom + 1 for bottom, top in zip(_stretched(low, length), _stretched(high, length), strict=True)]
    if min(counts) < 1:
        raise ValueError("a Box's low must not be above its high")
    return Leaf(path, shape, size, size, None, tuple((count, size // length) for count in counts), image)


def _stretched(ends: list[int], length: int) -> list[int]:
    return ends if len(ends) == length else ends * length


def _shape(description: Mapping[str, object]) -> tuple[int, ...]:
    shape = description.get("shape")
    if not isinstance(shape, list) or any(not is_whole(side) or not 1 <= side <= MAX_SIZE for side in shape):
        raise ValueError(f"a space's shape must list whole numbers of at least 1, got {shape!r:.60}")
    if len(shape) > 32 or math.prod(shape) > MAX_SIZE:
        raise ValueError(f"a space's shape must have at most 32 dimensions and {MAX_SIZE} entries, got {shape!r:.60}")
    return tuple(shape)


def describe(space: gymnasium.Space) -> Header:
    """Return a Gymnasium observation space as JSON; raise ValueError for unsupported spaces, such as Text."""
    unsupported = next(_unsupported(space), None)
    if unsupported is None:
        return _described(space)
    path, kind = unsupported
    wanted = f"the observation space must be {ACCEPTED}, got {kind}"
    if not path:
        raise ValueError(wanted)
    kept = [key for key, part in _parts(space) if not [*_unsupported(part)]]
    way_out = f"; leave it out with gymnasium.wrappers.FilterObservation(env, {kept})" if kept else ""
    raise ValueError(f"{wanted} at {_name(path)}{way_out}")


def _parts(space: gymnasium.Space) -> list[tuple[str | int, gymnasium.Space]]:
    """Return the keys and spaces of the parts of a Dict or a Tuple, [] for other spaces."""
    parts = getattr(space, "spaces", ())
    return [*(parts.items() if isinstance(parts, Mapping) else enumerate(parts))]


def _unsupported(space: gymnasium.Space, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """Yield the path and the class name of each part that is not supported."""
    from gymnasium import spaces

    if isinstance(space, spaces.Dict | spaces.Tuple):
        for key, part in _parts(space):
            yield from _unsupported(part, (*path, str(key)))
    elif not isinstance(space, spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary | spaces.Box):
        yield path, type(space).__name__


def _described(space: gymnasium.Space) -> Header:
    from gymnasium import spaces

    if isinstance(space, spaces.Dict):
        if not all(isinstance(key, str) for key in space.spaces):
            raise ValueError("a Dict observation space must have strings as keys")
        return {"kind": "dict", "spaces": [[key, _described(part)] for key, part in space.spaces.items()]}
    if isinstance(space, spaces.Tuple):
        return {"kind": "tuple", "spaces": [_described(part) for part in space.spaces]}
    if isinstance(space, spaces.Discrete):
        return {"kind": "discrete", "n": int(space.n), "start": int(space.start)}
    if isinstance(space, spaces.MultiDiscrete):
        listed = {"nvec": space.nvec.reshape(-1).tolist(), "start": space.start.reshape(-1).tolist()}
        return {"kind": "multi_discrete", "shape": list(space.nvec.shape), **listed}
    if isinstance(space, spaces.MultiBinary):
        return {"kind": "multi_binary", "shape": list(space.shape)}
    return describe_box(space.low, space.high)


def describe_box(low: np.ndarray, high: np.ndarray) -> Header:
    """Return the description of a Box with these bounds."""
    ends = {"low": _compact(low), "high": _compact(high)}
    return {"kind": "box", "shape": list(low.shape), "dtype": low.dtype.name, **ends}


def _compact(ends: np.ndarray) -> Bounds:
    """Return bounds as one number if all bounds are equal, otherwise as a list; None stands for an infinite bound."""
    flat = ends.reshape(-1)
    listed = (flat[:1] if (flat == flat[0]).all() else flat).tolist()
    plain = [None if isinstance(entry, float) and not math.isfinite(entry) else entry for entry in listed]
    plain = [int(entry) if isinstance(entry, bool) else entry for entry in plain]
    return plain[0] if len(plain) == 1 else plain
