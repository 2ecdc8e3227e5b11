"""Runs and the interface of experiments. A run is an experiment, its parameters and a seed.

A run's id is a hash of experiment, parameters and seed, so the id is equal on all machines and for all orders of the
parameters. 1 and 1.0 count as the same number. An experiment is given by a name from which a worker process can import
it. The name is short if an installed package declares the experiment as an entry point, else it is "module:attribute".
The id depends on the name, so a short name and "module:attribute" give different ids.
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
    """Return "module:attribute" for each short name: "learn" and the entry points in the group `rasf.experiments`."""
    offered = {one.name: one.value for one in entry_points(group="rasf.experiments")}
    return {"learn": "rasf_lab.sweep.learn:LEARN"} | offered


class RunLimits(NamedTuple):
    """Limits of the time and the memory of a job; None is no limit."""

    seconds: float | None = None
    memory_gb: float | None = None


NO_LIMITS = RunLimits()


@dataclass(frozen=True)
class Run:
    """A run: the name of its experiment (`kind`), parameters, a seed, and the hash `id` of the three."""

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
    """Return a value with whole floats replaced by ints, so that 1.0 and 1 give the same id."""
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
    """The interface of experiments, which check, group and execute runs.

    A run's numbers must not depend on the other runs of its group, because after a fault only the unfinished runs are
    executed. An experiment may also have `structured`, the names of parameters whose values may be lists or dicts. In a
    sweep file (TOML), a parameter in `structured` may be a section, such as `[evaluate]`.
    """

    def check(self, parameters: Mapping[str, Parameter]) -> Mapping[str, Parameter] | None:
        """Check the parameters of a run, and return the parameters to keep, or None to keep the given parameters.

        For example, the content of a file may replace the name of the file.

        Raises:
            ValueError: a parameter is unknown or impossible; the message begins with the name of the parameter.
        """

    def uses_gpus(self, runs: Sequence[Run]) -> bool:
        """Return whether a job of these runs gets its own GPU, on machines that have GPUs."""

    def pack(self, runs: Sequence[Run], gpus: int) -> list[list[Run]]:
        """Return groups of runs that are executed together, such as trainings in one program on a GPU.

        Args:
            runs: all runs of the sweep, so that the groups do not depend on which runs are finished.
            gpus: the number of GPUs of the machine or cluster that executes the sweep.
        """

    def execute(self, runs: Sequence[Run], scratch: Path) -> list[RunResult]:
        """Execute a group of runs and return their results in order.

        A long job may report its progress with `store.report_progress`.

        Args:
            runs: the unfinished runs of the group.
            scratch: the folder for checkpoints of this group of runs. It is kept after a fault, and removed after
                success.
        """


def experiment_of(kind: str) -> Experiment:
    """Return the experiment `kind`, which is a short name or "module:attribute"."""
    module, _, attribute = experiments().get(kind, kind).partition(":")
    experiment: Experiment = getattr(import_module(module), attribute)
    return experiment


def alone(runs: Sequence[Run]) -> list[list[Run]]:
    """Return groups of one run each, for `Experiment.pack`."""
    return [[run] for run in runs]
