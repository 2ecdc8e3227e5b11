"""A run: an experiment, its parameters and a seed; and what an experiment is.

A run's id is a hash of what determines its numbers, so it is the same on every machine and in every order; 1 and 1.0
are the same number. An experiment is named by text, because a worker in another process has to find it: by a short name
if an installed package offers it as an entry point, else by "module:attribute". Ids hash that name, not where the code
of a short name lies.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import NamedTuple, Protocol, TypeAlias

from rasf.files import Arrays, Header

Value = bool | int | float | str
Parameter: TypeAlias = "Value | list[Parameter] | dict[str, Parameter]"

_ID_LENGTH = 16


@cache
def experiments() -> dict[str, str]:
    """Return where the experiments with a short name lie: "learn", and what packages offer as `rasf.experiments`."""
    offered = {one.name: one.value for one in entry_points(group="rasf.experiments")}
    return {"learn": "rasf_lab.sweep.learn:LEARN"} | offered


class RunLimits(NamedTuple):
    """What a run may take; None is no limit."""

    seconds: float | None = None
    memory_gb: float | None = None


NO_LIMITS = RunLimits()


@dataclass(frozen=True)
class Run:
    """What determines a run's numbers; `kind` is the name of its experiment."""

    kind: str
    parameters: Mapping[str, Parameter]
    seed: int
    id: str = field(init=False)

    def __post_init__(self) -> None:
        text = json.dumps(same_number(self.describe()), sort_keys=True, allow_nan=False)
        object.__setattr__(self, "id", hashlib.sha256(text.encode()).hexdigest()[:_ID_LENGTH])

    def __hash__(self) -> int:
        return hash(self.id)

    def describe(self) -> dict[str, Parameter]:
        """All of it, as JSON."""
        return {"kind": self.kind, "parameters": dict(sorted(self.parameters.items())), "seed": self.seed}

    @classmethod
    def from_description(cls, given: Header) -> Run:
        """The run that `describe` described."""
        return cls(given["kind"], dict(given["parameters"]), given["seed"])

    def __str__(self) -> str:
        written = ((name, str(value)) for name, value in sorted(self.parameters.items()))
        chosen = " ".join(f"{name}={text[:40]}{'..' * (len(text) > 40)}" for name, text in written)
        return f"{self.kind.rpartition(':')[2]} {chosen} seed={self.seed}"


def same_number(value: Parameter) -> Parameter:
    """A value, its numbers written in one way: 1.0 as 1."""
    if isinstance(value, dict):
        return {name: same_number(part) for name, part in value.items()}
    if isinstance(value, list):
        return [same_number(part) for part in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


class RunResult(NamedTuple):
    """What a run found: numbers (nan and infinity too) and words for the table, arrays to be kept beside it."""

    scalars: dict[str, Value]
    arrays: Arrays


class Experiment(Protocol):
    """How runs of an experiment are checked, put together and executed.

    A run's numbers may not depend on the runs it is executed with: after a fault some of them are already finished and
    only the others are executed. An experiment may also have `structured`, the names of parameters whose values may be
    lists or tables; in a sweep file each of them may be a table of its own, such as `[evaluate]`.
    """

    def check(self, parameters: Mapping[str, Parameter]) -> Mapping[str, Parameter] | None:
        """Refuse unknown or impossible parameters in one sentence that begins with the name of the parameter.

        It may return them as they are to be kept, such as with the content of a file in place of its name.
        """

    def uses_gpus(self, runs: Sequence[Run]) -> bool:
        """Whether a job of these runs should have a GPU to itself, where there are GPUs."""

    def pack(self, runs: Sequence[Run], gpus: int) -> list[list[Run]]:
        """Runs that are executed together, such as lanes of one program on a GPU; else each alone.

        It is given all runs of a sweep, finished or not, so that what is together does not depend on what is finished.
        """

    def execute(self, runs: Sequence[Run], scratch: Path) -> list[RunResult]:
        """Run them; `scratch` is a folder for checkpoints of exactly these, which outlives a fault and is removed when
        all is done. A long job may say how far it is, by `store.report_progress`."""


def experiment_of(kind: str) -> Experiment:
    """The experiment with this short name, or at this "module:attribute"."""
    module, _, attribute = experiments().get(kind, kind).partition(":")
    experiment: Experiment = getattr(import_module(module), attribute)
    return experiment


def alone(runs: Sequence[Run]) -> list[list[Run]]:
    """`Experiment.pack` for runs that gain nothing from one another."""
    return [[run] for run in runs]
