"""The engine `local`: worker processes on this machine. `rasf_lab.sweep.drive` explains jobs and the driver.

Workers are spawned and execute one job after the other. They share compiled code through the caches of Numba and JAX on
disk. (If a killed process leaves a half-written file in JAX's cache, JAX detects this and compiles the program in each
process, which is slow but correct.) A worker that dies, or exceeds its time or memory, is replaced. Workers die with
the driver: on Linux at once, by a signal of the kernel, and on other systems when they next exchange messages with the
driver. A worker has one core or one GPU. On a core, libraries for linear algebra use one thread, so that sums do not
depend on the number of cores. On a GPU, JAX raises an error if the GPU cannot be used. It allocates
GPU memory only as needed, because another process may use the same GPU.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import current_process, get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path

from rasf.checks import whole
from rasf_lab.sweep.drive import Ended, Job
from rasf_lab.sweep.engines.machine import jax_cache, resident_gb
from rasf_lab.sweep.runs import NO_LIMITS, Run, RunLimits
from rasf_lab.sweep.worker import JobError, try_job

_LOOK_EVERY_S = 0.2
_PR_SET_PDEATHSIG = 1
_READY = "ready"
_ON_A_CORE = {"JAX_PLATFORMS": "cpu", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
_ON_A_GPU = {"JAX_PLATFORMS": "cuda,cpu", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}


class _Worker:
    """A worker process, its job, the time when the job started, and the id of its GPU (None on a core)."""

    def __init__(self, folder: Path, gpu: str | None) -> None:
        self.gpu = gpu
        self.job: Job | None = None
        self.since: float | None = None  # time when the job started; None until the process is ready
        context = get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(folder, theirs, os.getpid()), daemon=True)
        with _environment(gpu):
            self.process.start()
        theirs.close()

    def give(self, job: Job) -> None:
        self.job = job
        if self.since is not None:
            self.since = time.monotonic()
        self.pipe.send([run.describe() for run in job])


@contextmanager
def _environment(gpu: str | None) -> Iterator[None]:
    """Within the context, set the environment variables of new processes.

    Variables that the user has set keep their values, except for CUDA_VISIBLE_DEVICES of a worker on a GPU.
    """
    before = dict(os.environ)
    usual = _ON_A_CORE if gpu is None else _ON_A_GPU
    os.environ.update({"JAX_COMPILATION_CACHE_DIR": jax_cache(), **usual, **before})
    if gpu is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpu
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _work(folder: Path, pipe: Connection, driver: int) -> None:
    """Execute jobs from the pipe until the driver is gone. This is the main function of a worker."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the driver handles Ctrl-C
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != driver:  # the driver died before this call
            return
    current_process().daemon = False  # runs may start processes, which a daemon cannot do
    with suppress(OSError):  # if the file cannot be written, there is no log
        log = os.open(folder / "log.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(log, 1)
        os.dup2(log, 2)
    try:
        pipe.send(_READY)
        while True:
            job = tuple(Run.from_description(each) for each in pipe.recv())
            pipe.send(try_job(folder, job))
    except (EOFError, OSError):  # the driver is gone
        return


class LocalEngine:
    """An `Engine` on this machine: a worker for each GPU id in `gpus`, or else `workers` workers on cores."""

    def __init__(self, folder: Path, workers: int, limits: RunLimits = NO_LIMITS, gpus: Sequence[str] = ()) -> None:
        whole("workers", workers)
        self.gpus = len(gpus)
        self._folder, self._limits = folder, limits
        # for each worker that is not running: the id of its GPU, or None for a core
        self._places: list[str | None] = list(gpus) if gpus else [None] * workers
        self._workers: list[_Worker] = []

    def free(self) -> int:
        return len(self._places) + len(self._workers) - self.running()

    def running(self) -> int:
        return sum(worker.job is not None for worker in self._workers)

    def start(self, job: Job) -> None:
        worker = next((worker for worker in self._workers if worker.job is None), None)
        if worker is None:
            worker = _Worker(self._folder, self._places.pop(0))
            self._workers.append(worker)
        with suppress(OSError):  # the worker died while idle; `wait` detects it
            worker.give(job)

    def wait(self, seconds: float) -> list[Ended]:
        until = time.monotonic() + seconds
        while True:
            ended = [found for worker in list(self._workers) if (found := self._look_at(worker)) is not None]
            left = until - time.monotonic()
            if ended or left <= 0 or not self.running():
                return ended
            wait([worker.pipe for worker in self._workers], min(left, _LOOK_EVERY_S))

    def close(self) -> None:
        for worker in list(self._workers):
            self._remove(worker)

    def _look_at(self, worker: _Worker) -> Ended | None:
        try:
            while worker.pipe.poll():
                message = worker.pipe.recv()
                if message == _READY:
                    worker.since = time.monotonic()
                elif (job := worker.job) is not None:
                    worker.job = None
                    return Ended(job, message)
        except (EOFError, OSError):
            return self._died(worker)
        # this check is also needed: a dead worker's pipe has no end of file while a child of the worker has it open
        if not worker.process.is_alive():
            return self._died(worker)
        if worker.job is None or worker.since is None:
            return None
        seconds, memory = self._limits
        if seconds is not None and time.monotonic() - worker.since > seconds:
            return self._stop(worker, f"took more than {seconds:g} s")
        if memory is not None and resident_gb(worker.process.pid) > memory:
            return self._stop(worker, f"used more than {memory:g} GB of memory")
        return None

    def _stop(self, worker: _Worker, reason: str) -> Ended | None:
        self._remove(worker)
        return None if worker.job is None else Ended(worker.job, JobError(reason))

    def _died(self, worker: _Worker) -> Ended | None:
        worker.process.join()
        code = worker.process.exitcode or 0
        self._remove(worker)
        if code > 0 and worker.since is None:
            raise ValueError(f"workers cannot start (exit code {code}); their errors are above")
        cause = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return None if worker.job is None else Ended(worker.job, JobError(f"the worker died ({cause})"), lost=True)

    def _remove(self, worker: _Worker) -> None:
        worker.process.kill()
        worker.process.join()
        worker.pipe.close()
        self._workers.remove(worker)
        self._places.append(worker.gpu)
