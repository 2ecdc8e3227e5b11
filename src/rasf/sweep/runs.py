"""A run: a kind, its parameters and a seed; and what a kind is.

A run's id is a hash of what determines its numbers, so it is the same on every machine and in every order; 1 and 1.0
are the same number. A `Kind` is named by text, "module:attribute", because a worker in another process has to find it.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

Value = bool | int | float | str
_ID_LENGTH = 16


class Limits(NamedTuple):
    """What a run may take; None is no limit."""

    seconds: float | None = None
    memory_gb: float | None = None


NO_LIMITS = Limits()


@dataclass(frozen=True)
class Run:
    """What determines a run's numbers; `kind` is "module:attribute"."""

    kind: str
    parameters: Mapping[str, Value]
    seed: int
    id: str = field(init=False)

    def __post_init__(self) -> None:
        named = {name: same_number(value) for name, value in self.parameters.items()}
        text = json.dumps({**self.describe(), "parameters": named}, sort_keys=True, allow_nan=False)
        object.__setattr__(self, "id", hashlib.sha256(text.encode()).hexdigest()[:_ID_LENGTH])

    def __hash__(self) -> int:
        return hash(self.id)

    def describe(self) -> dict[str, Any]:
        """All of it, as JSON."""
        return {"kind": self.kind, "parameters": dict(sorted(self.parameters.items())), "seed": self.seed}

    @classmethod
    def from_description(cls, given: Mapping[str, Any]) -> Run:
        """The run that `describe` described."""
        return cls(given["kind"], dict(given["parameters"]), given["seed"])

    def __str__(self) -> str:
        chosen = " ".join(f"{name}={value}" for name, value in sorted(self.parameters.items()))
        return f"{self.kind.rpartition(':')[2]} {chosen} seed={self.seed}"


def same_number(value: Value) -> Value:
    """A value, written in one way: 1.0 as 1."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


class Outcome(NamedTuple):
    """What a run found: numbers (nan and infinity too) and words for the table, arrays to be kept beside it."""

    scalars: dict[str, Value]
    arrays: dict[str, npt.NDArray[Any]]


class Kind(Protocol):
    """How runs of a kind are checked, put together and executed.

    A run's numbers may not depend on the runs it is executed with: after a fault some of them are already finished and
    only the others are executed.
    """

    uses_gpus: bool  # whether a job should have a GPU to itself, where there are GPUs

    def check(self, parameters: Mapping[str, Value]) -> None:
        """Refuse unknown or impossible parameters in one sentence that begins with the name of the parameter."""

    def pack(self, runs: Sequence[Run], gpus: int) -> list[list[Run]]:
        """Runs that are executed together, such as lanes of one program on a GPU; else each alone.

        It is given all runs of a sweep, finished or not, so that what is together does not depend on what is finished.
        """

    def execute(self, runs: Sequence[Run], scratch: Path) -> list[Outcome]:
        """Run them; `scratch` is a folder for checkpoints of exactly these, which outlives a fault and is removed when
        all is done. A long job may say how far it is, by `store.report_progress`."""


def add_cwd_to_path() -> None:
    """Let imports look in the folder we are in, too, for modules that a user names; spawned workers inherit it."""
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())


def kind_of(name: str) -> Kind:
    """The kind that "module:attribute" names."""
    module, _, attribute = name.partition(":")
    kind: Kind = getattr(import_module(module), attribute)
    return kind


def plain(values: Mapping[str, Any]) -> dict[str, Value]:
    """Scalars of numpy as Python's own."""
    return {name: value.item() if isinstance(value, np.generic) else value for name, value in values.items()}


def alone(runs: Sequence[Run]) -> list[list[Run]]:
    """`Kind.pack` for runs that gain nothing from one another."""
    return [[run] for run in runs]
