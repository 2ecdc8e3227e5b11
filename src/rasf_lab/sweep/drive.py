"""The driver of a sweep. It starts unfinished runs on an engine until every run has finished or failed.

A job is a group of runs that one worker process executes together. The runs of a job fail if the job raises an
exception or exceeds its limits. If a worker is lost (killed, or on a node that disappeared), its job is tried again
by another worker, until the job has lost ten workers. Finished runs are never executed again. A full disk stops the
sweep, because further results could not be saved. If the sweep is started again, it continues.
"""

from __future__ import annotations

import os
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple, Protocol

from rasf_lab.sweep.runs import Run, experiment_of
from rasf_lab.sweep.spec import Spec
from rasf_lab.sweep.store import FULL_DISK, Store
from rasf_lab.sweep.worker import JobError

Job = tuple[Run, ...]
_MOST_LOSSES = 10  # a job fails when its tenth worker is lost
_WAIT_S = 0.5
_PUBLISH_EVERY_S = 2.0


class Ended(NamedTuple):
    """A job that has ended.

    Attributes:
        job: the runs of the job.
        error: the error, or None if all runs are finished.
        lost: whether the worker was lost. The driver may then try the job again.
    """

    job: Job
    error: JobError | None
    lost: bool = False


class Engine(Protocol):
    """The interface of engines, which execute jobs, for example in processes. `gpus` is the number of usable GPUs."""

    gpus: int

    def free(self) -> int:
        """Return the number of jobs that can start now."""

    def start(self, job: Job) -> None:
        """Start a job."""

    def wait(self, seconds: float) -> Sequence[Ended]:
        """Wait at most `seconds` for a job to end, and return the jobs that have ended."""

    def running(self) -> int:
        """Return the number of jobs that are running."""

    def close(self) -> None:
        """Stop all jobs."""


@dataclass
class SweepProgress:
    """The progress of a sweep, in numbers of runs."""

    total: int
    done: int
    failed: int = 0
    running: int = 0
    losses: int = 0  # number of lost workers
    fresh: int = 0  # runs done since this driver started
    seconds: float = 0.0  # seconds since this driver started
    begun: float = 0.0  # finished part of the running jobs, in numbers of runs, as experiments report it
    inherited: float = 0.0  # part of `begun` + `fresh` that an earlier driver did, in jobs resumed from checkpoints

    @property
    def waiting(self) -> int:
        """The number of runs that have not started."""
        return self.total - self.done - self.failed - self.running

    @property
    def rate(self) -> float | None:
        """Runs done per second, including the finished part of running jobs; None before there is progress."""
        done = self.fresh + self.begun - self.inherited
        return done / self.seconds if done > 0 and self.seconds > 0 else None

    @property
    def seconds_left(self) -> float | None:
        """Seconds until all runs are done, at the present rate; None if the rate is unknown."""
        return None if self.rate is None else (self.total - self.done - self.failed - self.begun) / self.rate


def progress_of(store: Store) -> SweepProgress:
    """Return the progress of a folder's sweep. Running runs and the rate are those that the driver last published."""
    runs = store.runs()
    progress = SweepProgress(len(runs), sum(map(store.is_finished, runs)), len(store.failures(runs)))
    if store.driver() is not None:
        published = store.published()
        for name in ("running", "losses", "fresh", "seconds", "begun", "inherited"):
            if isinstance(published.get(name), int | float):
                setattr(progress, name, published[name])
    return progress


def jobs_of(spec: Spec, store: Store, gpus: int, limit: int | None = None) -> list[Job]:
    """Return jobs with the runs that are neither finished nor failed.

    Args:
        spec: the sweep.
        store: the folder of the sweep.
        gpus: the number of GPUs of the engine.
        limit: the largest number of runs in all jobs together. Default: None, no limit.
    """
    failed = store.failures(spec.runs)
    left = len(spec.runs) if limit is None else limit
    jobs: list[Job] = []
    for kind in dict.fromkeys(run.kind for run in spec.runs):
        for together in experiment_of(kind).pack([run for run in spec.runs if run.kind == kind], gpus):
            missing = [run for run in together if run.id not in failed and not store.is_finished(run)][:left]
            if missing:
                jobs.append(tuple(missing))
                left -= len(missing)
    return jobs


def drive(
    spec: Spec,
    store: Store,
    engine: Engine,
    jobs: Sequence[Job],
    show: Callable[[SweepProgress], None] = lambda progress: None,
) -> SweepProgress:
    """Execute the jobs and return the progress. Call this within `store.driving()`, after `store.declare(spec)`.

    Args:
        spec: the sweep.
        store: the folder of the sweep.
        engine: the engine that executes the jobs. It is closed at the end.
        jobs: the jobs, as returned by `jobs_of`.
        show: function that is called with the progress, about twice a second. Default: do nothing.

    Raises:
        ValueError: the disk is full.
    """
    try:
        return _Driver(spec, store, engine, jobs).run(show)
    except OSError as error:
        if error.errno in FULL_DISK:
            raise _full(str(error)) from None
        raise
    finally:
        engine.close()


class _Driver:
    def __init__(self, spec: Spec, store: Store, engine: Engine, jobs: Sequence[Job]) -> None:
        self._store, self._engine, self._waiting, self._all = store, engine, deque(jobs), len(spec.runs)
        self._losses = Counter[str]()
        self._running: list[Job] = []
        self._began, self._published = time.monotonic(), -_PUBLISH_EVERY_S
        done, failed = sum(map(store.is_finished, spec.runs)), len(store.failures(spec.runs))
        self._progress = SweepProgress(done + failed + sum(map(len, jobs)), done, failed)

    def run(self, show: Callable[[SweepProgress], None]) -> SweepProgress:
        progress = self._progress
        while self._waiting or self._engine.running():
            while self._waiting and self._engine.free():
                job = self._waiting.popleft()
                progress.running += len(job)
                progress.inherited += self._begun([job])
                self._running.append(job)
                self._engine.start(job)
            self._tell(show)
            for ended in self._engine.wait(_WAIT_S):
                self._count(ended)
        self._tell(show)
        if progress.done == self._all:
            self._store.clear_scratch()
        return progress

    def _count(self, ended: Ended) -> None:
        """Count a job that has ended, or queue it again if its worker was lost."""
        job, error, lost = ended
        if error is not None and any(os.strerror(code) in error.reason for code in FULL_DISK):
            raise _full(error.reason)
        missing = tuple(run for run in job if not self._store.is_finished(run))
        self._progress.running -= len(job)
        self._running.remove(job)
        self._progress.begun = self._begun(self._running)
        self._progress.losses += lost
        self._progress.done += len(job) - len(missing)
        self._progress.fresh += len(job) - len(missing)
        if not missing:
            return
        self._losses[missing[0].id] += lost
        times = self._losses[missing[0].id]
        if lost and times < _MOST_LOSSES:
            self._waiting.appendleft(missing)
            return
        reason, details = error or ("the worker finished, but the file of the run is missing or damaged", "")
        for run in missing:
            self._store.fail(run, f"{reason}, {times} times" if lost else reason, details)
        self._progress.failed += len(missing)

    def _begun(self, jobs: Sequence[Job]) -> float:
        return sum(len(job) * self._store.share(job) for job in jobs)

    def _tell(self, show: Callable[[SweepProgress], None]) -> None:
        now = time.monotonic()
        self._progress.seconds = now - self._began
        publish = now - self._published >= _PUBLISH_EVERY_S
        if publish:
            self._progress.begun = self._begun(self._running)
        show(self._progress)
        if publish:
            self._published = now
            self._store.publish(asdict(self._progress))


def _full(what: str) -> ValueError:
    return ValueError(f"the disk is full ({what}); make room and start the sweep again to continue it")
