"""Checkpoints of training, from which a killed run resumes with bit-identical results.

A trainer names its stateful parts, and `Checkpoint` writes their state to one file periodically. A part is one of

    an object whose `STATE` lists the names of the attributes that training changes; each attribute is a part
    an object with methods `state()` and `restore(state)`, if attributes are not enough
    an array of numpy or jax, a generator of random numbers, a number, text, None, or a list, tuple or dict of parts

State is restored *into* the parts that the trainer has made from its arguments. Types come from these parts, never from
the file. A checkpoint also has a label: everything that determines the results of training. A checkpoint whose label
differs from the label of the training is not restored, and an error says so.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import numpy as np

from rasf import checks
from rasf.files import Arrays, Header, load_file, save_file

SECONDS = 120.0  # default time between two checkpoints
_SHARE = 20  # writing takes at most about 1 / _SHARE of the time of training
_KIND = "checkpoint"
_log = logging.getLogger("rasf")


class OtherTraining(ValueError):
    """The error for a checkpoint of a training with other arguments."""


class Checkpoint:
    """The checkpoint file of one training. Without a path, nothing is written.

    Args:
        path: The file. If the file exists, `begin` restores from it. Default: none.
        seconds: Least number of seconds between two writes. It is larger if writing would otherwise take more than 1/20
            of the time. Default: 120.
        parts: Parts by name, in addition to the parts of the trainer. Default: none.
        keep: Whether `finish` leaves the file in place. Default: False.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        seconds: float = SECONDS,
        parts: Mapping[str, object] | None = None,
        keep: bool = False,
    ) -> None:
        if path is not None and not isinstance(path, str | os.PathLike):
            raise ValueError(f"checkpoint must be the path of a file, got {type(path).__name__}")
        self.path = None if path is None else Path(path)
        if self.path is not None and self.path.is_dir():
            raise ValueError(f"checkpoint must name a file; {self.path} is a directory")
        self._seconds = checks.number("checkpoint_seconds", seconds, 0.0)
        self._given, self._keep = dict(parts or {}), keep
        self._parts: dict[str, object] = {}
        self.label: Header = {}
        self.seconds_before = 0.0  # time that earlier processes spent on this training
        self._started = self._next = time.monotonic()

    def begin(self, **parts: object) -> bool:
        """Set the parts of the training, and restore their state if the file exists.

        Returns:
            Whether the state was restored.

        Raises:
            OtherTraining: The file's label differs from the label of this training.
            ValueError: The file is damaged or does not fit the parts.
        """
        self._parts = parts | self._given
        restored = self.path is not None and self.path.exists()
        if restored:
            self._restore()
        self._started = time.monotonic()
        self._next = self._started + self._seconds
        return restored

    @property
    def due(self) -> bool:
        """Whether it is time to write the file."""
        return self.path is not None and time.monotonic() >= self._next

    def tick(self) -> None:
        """Write the file if it is `due`. Call `tick` only when no part is in the middle of an update."""
        if self.due:
            self.write()

    def write(self) -> None:
        """Write the file now. If writing fails, the previous file is kept, and training continues."""
        assert self.path is not None
        begin, arrays = time.monotonic(), Arrays()
        state = _encoded(self._parts, "state", arrays)
        spent = self.seconds_before + begin - self._started
        header = {"kind": _KIND, "label": self.label, "seconds": round(spent, 3), "state": state}
        try:
            save_file(self.path, header, arrays)
        except OSError as error:
            _log.warning("%s: %s; training continues", self.path, error.strerror or error)
        now = time.monotonic()
        self._next = now + max(self._seconds, _SHARE * (now - begin))

    def finish(self) -> None:
        """Remove the file at the end of training, unless `keep` was given."""
        if self.path is not None and not self._keep:
            self.path.unlink(missing_ok=True)

    def _restore(self) -> None:
        assert self.path is not None
        header, arrays = load_file(self.path)
        if header.get("kind") != _KIND or not isinstance(header.get("label"), dict):
            raise ValueError(f"{self.path} is not a checkpoint of a training")
        label = json.loads(json.dumps(self.label))
        names = sorted(name for name in {*label, *header["label"]} if label.get(name) != header["label"].get(name))
        if names:
            raise OtherTraining(
                f"{self.path} is the checkpoint of another training: {', '.join(names)} differ; remove the file or "
                "give the path of another file"
            )
        try:
            _restored(self._parts, header["state"], arrays)
            self.seconds_before = float(header["seconds"])
        except (KeyError, TypeError, IndexError, AttributeError) as error:
            raise ValueError(f"{self.path} does not fit this training: {error}") from None


def digest(*arrays: np.ndarray) -> str:
    """Return a short hash of arrays, for labels."""
    found = hashlib.sha256()
    for array in arrays:
        plain = np.ascontiguousarray(array)
        found.update(f"{plain.dtype}{plain.shape}".encode() + plain.tobytes())
    return found.hexdigest()[:16]


def _is_jax(value: object) -> bool:
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(value, jax.Array)


def _encoded(value: object, name: str, arrays: Arrays) -> object:
    """Return a part as JSON, and add its arrays to `arrays` under names that start with `name`."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, np.generic):
        return _encoded(value.item(), name, arrays)
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, np.ndarray) or _is_jax(value):
        arrays[name] = np.array(value)
        return {"array": name}
    if isinstance(value, np.random.Generator):
        return {"generator": _encoded(value.bit_generator.state, name, arrays)}
    if hasattr(value, "STATE"):
        return {"object": {one: _encoded(getattr(value, one), f"{name}.{one}", arrays) for one in value.STATE}}
    if hasattr(value, "restore") and hasattr(value, "state"):
        return {"own": _encoded(value.state(), name, arrays)}
    if isinstance(value, list) and len({(one.shape, one.dtype) for one in value if isinstance(one, np.ndarray)}) == 1:
        arrays[name] = np.stack(value)
        return {"rows": name}
    if isinstance(value, list | tuple):
        return {"list": [_encoded(one, f"{name}.{i}", arrays) for i, one in enumerate(value)]}
    if isinstance(value, dict):
        if value and all(isinstance(key, bytes) for key in value):
            arrays[f"{name}.keys"] = np.frombuffer(b"".join(value), np.uint8).reshape(len(value), -1)
            arrays[name] = np.array(list(value.values()), np.int64)
            return {"bytes": name}
        return {"dict": [[key, _encoded(one, f"{name}.{key}", arrays)] for key, one in value.items()]}
    raise TypeError(f"a checkpoint cannot keep a {type(value).__name__}")


def _restored(live: object, stored: object, arrays: Arrays) -> object:
    """Return the stored state with the types of the part `live`; objects and generators are changed in place."""
    if not isinstance(stored, dict):
        return stored
    ((kind, held),) = stored.items()
    if kind == "float":
        return float(held)
    if kind == "array":
        return _array(live, arrays[held])
    if kind == "rows":
        return list(np.array(arrays[held]))
    if kind == "generator" and isinstance(live, np.random.Generator):
        live.bit_generator.state = cast(Header, _restored(None, held, arrays))
        return live
    if kind == "object" and hasattr(live, "STATE"):
        for one in live.STATE:
            setattr(live, one, _restored(getattr(live, one), held[one], arrays))
        return live
    if kind == "own" and hasattr(live, "restore"):
        live.restore(_restored(None, held, arrays))
        return live
    if kind == "list":
        return _sequence(live, held, arrays)
    if kind == "bytes":
        keys = (row.tobytes() for row in arrays[f"{held}.keys"])
        return dict(zip(keys, arrays[held].tolist(), strict=True))
    if kind == "dict":
        known = live if isinstance(live, dict) else {}
        return {key: _restored(known.get(key), one, arrays) for key, one in held}
    raise TypeError(f"a {type(live).__name__} cannot be restored from {kind!r:.60}")


def _array(live: object, held: np.ndarray) -> object:
    if isinstance(live, np.ndarray) and held.dtype != live.dtype:
        raise TypeError(f"an array of {live.dtype} cannot be restored from {held.dtype}")
    if not _is_jax(live):
        return np.array(held)  # a copy, because arrays from a file are read-only
    import jax.numpy as jnp

    wanted = jnp.asarray(live)
    if (held.shape, held.dtype) != (wanted.shape, wanted.dtype):
        raise TypeError(
            f"a network's array of {wanted.dtype} {wanted.shape} cannot be restored from {held.dtype} {held.shape}"
        )
    return jnp.array(held)


def _sequence(live: object, held: list[object], arrays: Arrays) -> object:
    """Return a sequence of the type of `live`: a list, tuple or NamedTuple. If `live` is None, return a list."""
    if isinstance(live, tuple) and hasattr(live, "_make"):
        return live._make(_restored(one, each, arrays) for one, each in zip(live, held, strict=True))
    known = list(live) if isinstance(live, list | tuple) and len(live) == len(held) else [None] * len(held)
    found = [_restored(one, each, arrays) for one, each in zip(known, held, strict=True)]
    return tuple(found) if isinstance(live, tuple) else found
