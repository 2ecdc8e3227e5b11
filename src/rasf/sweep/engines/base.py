"""What the driver asks of an engine: take jobs, say how they ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from rasf.sweep.runs import Run
from rasf.sweep.worker import JobError

Job = tuple[Run, ...]


class Ended(NamedTuple):
    """A job that is over: `trouble` is None where it was done.

    lost: the worker died, was killed or went away, which says nothing about the job; it may be tried again.
    """

    job: Job
    trouble: JobError | None
    lost: bool = False


class Engine(Protocol):
    """Runs jobs somewhere; `gpus` is how many of them it has for jobs."""

    gpus: int

    def free(self) -> int:
        """How many more jobs it can take now."""

    def start(self, job: Job) -> None:
        """Take a job."""

    def wait(self, seconds: float) -> Sequence[Ended]:
        """Jobs that ended meanwhile; returns after `seconds` at the latest."""

    def running(self) -> int:
        """Jobs under way."""

    def close(self) -> None:
        """Stop what is under way."""
