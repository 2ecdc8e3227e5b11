"""The work of a worker process: execute the unfinished runs of a job, save their results, and return any error."""

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
    """The error of a failed job: the reason in one line, and details such as the traceback."""

    reason: str
    details: str = ""


def try_job(folder: Path, job: Sequence[Run]) -> JobError | None:
    """Execute a job and return its error, or None. All exceptions, even SystemExit, are caught."""
    try:
        do_job(folder, job)
    except BaseException as error:
        return JobError(_one_line(error), "".join(traceback.format_exception(error)))
    return None


def do_job(folder: Path, job: Sequence[Run]) -> None:
    """Execute and save the unfinished runs of a job.

    Args:
        folder: the folder of the sweep.
        job: the runs, all of one experiment.
    """
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
    """Return the provenance of finished runs: version, commit, machine, time and peak memory.

    Args:
        wall_s: the seconds that the job took.
        together: the number of runs that the job executed.
    """
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
    """Return the git commit of the checkout that has this file; an empty text outside a checkout."""
    here = Path(__file__).parent
    if "site-packages" in here.parts:  # a virtual environment may lie in the checkout of another project
        return ""
    try:
        asked = ["git", "-C", str(here), "rev-parse", "HEAD"]
        answer = subprocess.run(asked, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return answer.stdout.strip() if answer.returncode == 0 else ""


def _device() -> str:
    """Return the type of this worker's GPU if JAX used a GPU, else the type of the processor."""
    jax = sys.modules.get("jax")
    if jax is not None and os.environ.get("CUDA_VISIBLE_DEVICES"):
        return str(jax.devices()[0].device_kind)
    return platform.machine()


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
