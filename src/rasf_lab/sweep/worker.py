"""What a worker does with a job: execute what is missing of it, keep each run, say how it went."""

from __future__ import annotations

import os
import platform
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import rasf
from rasf_lab.sweep.engines.machine import forget_peak, peak_gb
from rasf_lab.sweep.runs import Run, experiment_of
from rasf_lab.sweep.store import Store


class JobError(NamedTuple):
    """What went wrong, in one line; and at length."""

    reason: str
    details: str = ""


def try_job(folder: Path, job: Sequence[Run]) -> JobError | None:
    """Do a job; whatever it raises, even SystemExit, is the job's error and not the worker's."""
    try:
        do_job(folder, job)
    except BaseException as error:
        return JobError(_one_line(error), "".join(traceback.format_exception(error)))
    return None


def do_job(folder: Path, job: Sequence[Run]) -> None:
    """Execute the runs of a job that are not finished, and keep them; what goes wrong is raised."""
    store = Store(folder)
    missing = [run for run in job if not store.is_finished(run)]
    if not missing:
        return
    forget_peak()
    begin = time.perf_counter()
    outcomes = experiment_of(job[0].kind).execute(missing, store.scratch(missing))
    provenance = provenance_of(time.perf_counter() - begin, len(missing))
    for run, outcome in zip(missing, outcomes, strict=True):
        store.finish(run, outcome, provenance)
    store.clear_scratch(missing)


def provenance_of(wall_s: float, together: int) -> dict[str, object]:
    """Where, with what, in how much time and memory, and how many runs shared that."""
    return {
        "version": rasf.__version__,
        "commit": commit(),
        "python": platform.python_version(),
        "host": socket.gethostname(),
        "device": _device(),
        "wall_s": round(wall_s, 3),
        "peak_gb": round(peak_gb(), 3),
        "together": together,
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


@cache
def commit() -> str:
    """The checkout's commit; empty outside one."""
    here = Path(__file__).parent
    if "site-packages" in here.parts:  # which may lie inside the checkout of something else
        return ""
    try:
        asked = ["git", "-C", str(here), "rev-parse", "HEAD"]
        answer = subprocess.run(asked, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return answer.stdout.strip() if answer.returncode == 0 else ""


def _device() -> str:
    """The GPU of this worker, if it has one and used it; else the processor's type."""
    jax = sys.modules.get("jax")
    if jax is not None and os.environ.get("CUDA_VISIBLE_DEVICES"):
        return str(jax.devices()[0].device_kind)
    return platform.machine()


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
