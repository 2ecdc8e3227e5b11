"""A run is an experiment, its parameters and a seed; `Experiment` is the interface of experiments.

A run's id is a hash of these three, so it is the same on every machine and for every order of the parameters; 1 and 1.0
are the same number. An experiment is named by text, so that a worker process can import it: by a short name if an
installed package declares the experiment as an entry point, else as "module:attribute". The experiment enters the hash
by this name: the same experiment under its short name and under "module:attribute" has different ids.
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
    """Return "module:attribute" by short name, for "learn" and the entry points in the group `rasf.experiments`."""
    offered = {one.name: one.value for one in entry_points(group="rasf.experiments")}
    return {"learn": "rasf_lab.sweep.learn:LEARN"} | offered


class RunLimits(NamedTuple):
    """Limits of a run; None is no limit."""

    seconds: float | None = None
    memory_gb: float | None = None


NO_LIMITS = RunLimits()


@dataclass(frozen=True)
class Run:
    """The name of an experiment (`kind`), its parameters, a seed, and the hash `id` of all three."""

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
        """Return the run as JSON values."""
        return {"kind": self.kind, "parameters": dict(sorted(self.parameters.items())), "seed": self.seed}

    @classmethod
    def from_description(cls, given: Header) -> Run:
        """Return the run from the values of `describe`."""
        return cls(given["kind"], dict(given["parameters"]), given["seed"])

    def __str__(self) -> str:
        written = ((name, str(value)) for name, value in sorted(self.parameters.items()))
        chosen = " ".join(f"{name}={text[:40]}{'..' * (len(text) > 40)}" for name, text in written)
        return f"{self.kind.rpartition(':')[2]} {chosen} seed={self.seed}"


def same_number(value: Parameter) -> Parameter:
    """Return a value with whole floats as ints, so that 1.0 and 1 give the same id."""
    if isinstance(value, dict):
        return {name: same_number(part) for name, part in value.items()}
    if isinstance(value, list):
        return [same_number(part) for part in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


class RunResult(NamedTuple):
    """A run's result: scalars for the sweep's table (nan and infinity are allowed), and arrays for the run's file."""

    scalars: dict[str, Value]
    arrays: Arrays


class Experiment(Protocol):
    """Checks, groups and executes the runs of an experiment.

    A run's numbers must not depend on the runs that are executed with it, because after a fault only the unfinished
    runs are executed. An experiment may also have `structured`, the names of parameters whose values may be lists or
    dicts. In a sweep file (TOML), such a parameter may be a section, such as `[evaluate]`.
    """

    def check(self, parameters: Mapping[str, Parameter]) -> Mapping[str, Parameter] | None:
        """Check the parameters of a run, and return those to keep, or None to keep them as they are.

        For example, the content of a file may replace its name.

        Raises:
            ValueError: a parameter is unknown or impossible; the message begins with the name of the parameter.
        """

    def uses_gpus(self, runs: Sequence[Run]) -> bool:
        """Return whether a job of these runs needs a GPU of its own, on machines that have GPUs."""

    def pack(self, runs: Sequence[Run], gpus: int) -> list[list[Run]]:
        """Return groups of runs that are executed together, such as trainings in one program on a GPU.

        Args:
            runs: all runs of the sweep, so that the groups do not depend on which runs are finished.
            gpus: number of GPUs of the machine or cluster that executes the sweep.
        """

    def execute(self, runs: Sequence[Run], scratch: Path) -> list[RunResult]:
        """Execute a group of runs and return their results in order.

        A long job may report its progress with `store.report_progress`.

        Args:
            runs: the unfinished runs of the group.
            scratch: folder for checkpoints of exactly these runs; it is kept after a fault and removed after success.
        """


def experiment_of(kind: str) -> Experiment:
    """Return the experiment with this short name, or the experiment at "module:attribute"."""
    module, _, attribute = experiments().get(kind, kind).partition(":")
    experiment: Experiment = getattr(import_module(module), attribute)
    return experiment


def alone(runs: Sequence[Run]) -> list[list[Run]]:
    """Return each run as a group of its own, for `Experiment.pack`."""
    return [[run] for run in runs]
