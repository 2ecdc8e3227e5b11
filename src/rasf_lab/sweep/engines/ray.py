"""The engine `ray`: jobs are tasks of a Ray cluster. The cluster is at a given address, or is started on this machine.

Every node needs an installation of rasf, and the sweep's folder at the same path. A task gives its job to a worker
process of the engine `local`, which also handles limits, logs and faults. After the job, Ray keeps the task's process
and its worker for the next job. If the task has a GPU, the process instead ends after the job, to free
the GPU's memory. If a node or process dies, the driver tries its jobs again.
"""

from __future__ import annotations

import os
import socket
import sys
from functools import cache
from pathlib import Path
from typing import Any

from rasf.checks import whole
from rasf.files import Header
from rasf_lab.sweep.drive import Ended, Job
from rasf_lab.sweep.engines.local import LocalEngine
from rasf_lab.sweep.runs import NO_LIMITS, Run, RunLimits
from rasf_lab.sweep.store import Store
from rasf_lab.sweep.worker import JobError

_WAIT_S = 3600.0
_KNOCK_S = 10.0
_QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}


def _import_ray() -> Any:
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    try:
        import ray
    except ImportError:
        raise ValueError("the engine 'ray' needs Ray: pip install 'rasf[ray]'") from None
    return ray


class RayEngine:
    """An `Engine` on a Ray cluster.

    Args:
        folder: the folder of the sweep.
        workers: the number of jobs at a time. Default: None, one job for each GPU or core of the cluster.
        limits: limits of time and memory of a job. Default: no limits.
        address: address of the cluster. Default: None, start a cluster on this machine.
        use_gpus: whether each job has a GPU. Default: False.

    Raises:
        ValueError: Ray is not installed, or there is no cluster at the address.
    """

    def __init__(
        self,
        folder: Path,
        workers: int | None = None,
        limits: RunLimits = NO_LIMITS,
        address: str | None = None,
        use_gpus: bool = False,
    ) -> None:
        if workers is not None:
            whole("workers", workers)
        self._ray = _import_ray()
        self._folder, self._workers, self._limits = str(folder.resolve()), workers, limits
        self._jobs: dict[object, Job] = {}
        self._ours = not self._ray.is_initialized()
        if self._ours:
            self._connect(address)
        self.gpus = int(self._has("GPU")) if use_gpus else 0
        needs = {"num_gpus": 1, "max_calls": 1} if self.gpus else {}
        self._task = self._ray.remote(num_cpus=1, max_retries=0, **needs)(_do)

    def free(self) -> int:
        # counted anew in each call, because the cluster may grow and shrink
        places = self._workers or max(1, int(self._has("GPU" if self.gpus else "CPU")))
        return max(0, places - len(self._jobs))

    def running(self) -> int:
        return len(self._jobs)

    def start(self, job: Job) -> None:
        described = [run.describe() for run in job]
        self._jobs[self._task.remote(self._folder, described, tuple(self._limits), sys.path)] = job

    def wait(self, seconds: float) -> list[Ended]:
        waiting = list(self._jobs)
        if not waiting or not self._ray.wait(waiting, timeout=seconds)[0]:
            return []
        ready, _ = self._ray.wait(waiting, num_returns=len(waiting), timeout=0)
        return [self._ended(task, self._jobs.pop(task)) for task in ready]

    def close(self) -> None:
        for task in self._jobs:
            self._ray.cancel(task, force=True)
        self._jobs.clear()
        if self._ours:
            self._ray.shutdown()  # also stops a cluster that this engine has started

    def _ended(self, task: object, job: Job) -> Ended:
        errors = self._ray.exceptions
        try:
            found, lost = self._ray.get(task)
        except errors.RayTaskError as error:
            return Ended(job, JobError(f"the Ray task raised {error.cause!r}", str(error)))
        except errors.RayError as error:
            return Ended(job, JobError(f"the Ray worker was lost ({type(error).__name__})"), lost=True)
        return Ended(job, None if found is None else JobError(*found), lost)

    def _connect(self, address: str | None) -> None:
        new = {"include_dashboard": False, "num_cpus": self._workers} if address is None else {}
        try:
            if address is not None and ":" in address:
                _knock(address)
            self._ray.init(address=address or "local", logging_level="ERROR", log_to_driver=False, **new)
        except (OSError, ValueError, RuntimeError) as error:
            first = (str(error).splitlines() or ["no reason given"])[0]
            raise ValueError(f"there is no Ray cluster at {address or 'this machine'}: {first}") from None

    def _has(self, resource: str) -> float:
        return float(self._ray.cluster_resources().get(resource, 0))


def _knock(address: str) -> None:
    """Raise OSError for an address where no process listens, because Ray would wait there for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    with socket.create_connection((host, int(port)), timeout=_KNOCK_S):
        return


def _do(
    folder: str, described: list[Header], limits: tuple[float | None, ...], path: list[str]
) -> tuple[tuple[str, str] | None, bool]:
    """Execute a job in a Ray task, with the driver's sys.path `path`. Return the error and whether the worker died."""
    import ray

    sys.path += [each for each in path if each not in sys.path]
    try:
        Store(Path(folder)).declared()
    except ValueError:
        reason = f"{folder} is missing on {socket.gethostname()}; all nodes must share the folder of a sweep"
        return (reason, ""), False
    engine = _engine(folder, limits, tuple(str(each) for each in ray.get_gpu_ids()))
    engine.start(tuple(map(Run.from_description, described)))
    while True:
        for _, error, lost in engine.wait(_WAIT_S):
            return None if error is None else (error.reason, error.details), lost


@cache
def _engine(folder: str, limits: tuple[float | None, ...], gpus: tuple[str, ...]) -> LocalEngine:
    """Return an engine with one worker. The cache keeps the engine for the next job."""
    return LocalEngine(Path(folder), 1, RunLimits(*limits), gpus)
