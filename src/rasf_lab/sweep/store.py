"""The folder of a sweep. Every run in the folder is complete or absent, even if processes die while they write.

    lock                     held by the only driver, and released when the driver dies
    driver                   the driver's process and host
    sweep.json               the sweep's name, limits and runs
    progress.json            the progress that the driver last published
    runs/ID.run              a finished run: scalars, provenance, arrays (the checksummed container of `rasf.files`)
    failed/ID.json           a failed run: reason and traceback
    scratch/JOB/             checkpoints of an unfinished job, and `share`, the finished share of the job
    log.txt                  output of the workers
    table.parquet            the table of results (`rasf_lab.sweep.table`)

The driver is the process that executes the sweep. A damaged file counts as absent. Experiments may keep more files in
the folder.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import shutil
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
from filelock import FileLock, Timeout

from rasf.files import Arrays, Header, is_locked, is_partial, load_file, remove_stale, save_file, write_text
from rasf_lab.sweep.runs import Run, RunResult, Value
from rasf_lab.sweep.spec import Spec

FULL_DISK = (errno.ENOSPC, errno.EDQUOT)
_SHARE = "share"
_PATIENCE_S = 0.25  # seconds to wait for the lock, because a test by `Store.driver` holds it for a moment


class Finished(NamedTuple):
    """A finished run."""

    run: Run
    scalars: dict[str, Value]
    provenance: Header
    arrays: Arrays


class Store:
    """The folder of a sweep."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock, self._owner, self._declaration = folder / "lock", folder / "driver", folder / "sweep.json"
        self._whole: set[str] = set()

    @contextmanager
    def driving(self) -> Iterator[None]:
        """Hold the folder's lock as its only driver.

        Raises:
            ValueError: the folder has another driver, or holds files but no sweep.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        before = {self._lock.name, self._owner.name}  # these files are written before sweep.json
        # files are listed before the test for sweep.json: a driver that starts now writes sweep.json before other files
        others = [name for name in os.listdir(self.folder) if name not in before and not is_partial(name)]
        if others and not self._declaration.exists():
            raise ValueError(
                f"{self.folder} must be empty or the folder of a sweep; it has {min(others)} but no sweep.json"
            )
        try:
            lock = FileLock(self._lock).acquire(_PATIENCE_S)
        except Timeout:
            raise ValueError(f"the sweep in {self.folder} is already being run by {self._noted_driver()}") from None
        with lock:
            self._owner.write_text(f"process {os.getpid()} on {socket.gethostname()}\n")
            for folder in (self.folder, *(each for each in self.folder.iterdir() if each.is_dir())):
                remove_stale(folder)
            yield

    def driver(self) -> str | None:
        """Return the name of the process that executes the sweep now, or None. The folder need not be writable."""
        try:
            held = is_locked(self._lock)
        except FileNotFoundError:
            return None
        except OSError:  # the lock belongs to another user and is not readable
            held = None
        return self._noted_driver() if held else None if held is False else f"perhaps {self._noted_driver()}"

    def _noted_driver(self) -> str:
        return (self._owner.read_text().strip() if self._owner.exists() else "") or "another process"

    def declare(self, spec: Spec) -> None:
        """Write the sweep's name, limits and runs.

        Raises:
            ValueError: the folder belongs to another sweep.
        """
        described = {"name": spec.name, "limits": list(spec.limits), "runs": [run.describe() for run in spec.runs]}
        before = _json(self._declaration).get("name", spec.name)
        if before != spec.name:
            raise ValueError(
                f"{self.folder} belongs to the sweep {before!r}; choose another folder for the sweep {spec.name!r}"
            )
        write_text(self._declaration, json.dumps(described, indent=1) + "\n")

    def declared(self) -> Header:
        """Return the sweep's name, limits and runs, as written by `declare`.

        Raises:
            ValueError: the folder is not the folder of a sweep.
        """
        found = _json(self._declaration)
        if not {"name", "runs"} <= found.keys():
            raise ValueError(f"{self.folder} is not the folder of a sweep")
        return found

    def runs(self) -> list[Run]:
        """Return the declared runs."""
        return [Run.from_description(each) for each in self.declared()["runs"]]

    def finish(self, run: Run, outcome: RunResult, provenance: dict[str, object]) -> None:
        """Save a finished run, completely or not at all, and delete the file that marked the run as failed, if any."""
        scalars = {name: _to_json(value) for name, value in outcome.scalars.items()}
        save_file(
            self._path(run), {"run": run.describe(), "scalars": scalars, "provenance": provenance}, outcome.arrays
        )
        self.clear_failures([run])

    def finished(self, run: Run) -> Finished | None:
        """Return a finished run; None if its file is absent or damaged."""
        try:
            header, arrays = load_file(self._path(run))
            if header["run"] != run.describe():
                return None
            scalars = {name: _from_json(value) for name, value in header["scalars"].items()}
            return Finished(run, scalars, dict(header["provenance"]), arrays)
        except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def is_finished(self, run: Run) -> bool:
        """Return whether a run is finished. A complete file is read only once."""
        if run.id not in self._whole and self.finished(run) is not None:
            self._whole.add(run.id)
        return run.id in self._whole

    def fail(self, run: Run, reason: str, details: str = "") -> None:
        """Save the reason why a run failed, and details such as the traceback."""
        note = {"run": run.describe(), "reason": reason, "details": details}
        write_text(self._note(run), json.dumps(note, indent=1) + "\n")

    def failures(self, runs: Sequence[Run]) -> dict[str, str]:
        """Return the reasons of failures by run id, for the runs that failed and are not finished."""
        noted = ((run, _json(self._note(run)).get("reason")) for run in runs)
        return {run.id: str(why) for run, why in noted if why is not None and not self.is_finished(run)}

    def clear_failures(self, runs: Sequence[Run]) -> None:
        """Delete the files that mark these runs as failed, so that the runs are tried again."""
        for run in runs:
            self._note(run).unlink(missing_ok=True)

    def publish(self, progress: Mapping[str, object]) -> None:
        """Write the driver's progress."""
        write_text(self.folder / "progress.json", json.dumps(progress) + "\n")

    def published(self) -> Header:
        """Return the progress that the driver last wrote; empty if there is none."""
        return _json(self.folder / "progress.json")

    def scratch(self, job: Sequence[Run]) -> Path:
        """Make and return the folder for a job's checkpoints. Jobs with different runs have different folders."""
        path = self._scratch(job)
        path.mkdir(parents=True, exist_ok=True)
        return path

    def share(self, job: Sequence[Run]) -> float:
        """Return the finished share of a job, from the last report of its experiment; 0 without a report."""
        try:
            share = float((self._scratch(job) / _SHARE).read_text())
        except (OSError, ValueError):
            return 0.0
        return share if 0 <= share <= 1 else 0.0

    def clear_scratch(self, job: Sequence[Run] = ()) -> None:
        """Remove the checkpoints of a job; by default, of all jobs."""
        shutil.rmtree(self._scratch(job) if job else self.folder / "scratch", ignore_errors=True)

    def _scratch(self, job: Sequence[Run]) -> Path:
        name = job[0].id if len(job) == 1 else hashlib.sha256(" ".join(run.id for run in job).encode()).hexdigest()[:16]
        return self.folder / "scratch" / name

    def _path(self, run: Run) -> Path:
        return self.folder / "runs" / f"{run.id}.run"

    def _note(self, run: Run) -> Path:
        return self.folder / "failed" / f"{run.id}.json"


def report_progress(scratch: Path, share: float) -> None:
    """Report the progress of a long job. Experiments call this function.

    Args:
        scratch: the job's scratch folder.
        share: the finished share of the job, from 0 to 1.
    """
    write_text(scratch / _SHARE, f"{share:.4f}")


def sweep_folder(scratch: Path) -> Path:
    """Return the folder of the sweep to which a scratch folder belongs."""
    return scratch.parent.parent


def _json(path: Path) -> Header:
    """Return the JSON object in a file; empty if the file is absent or damaged."""
    try:
        found = json.loads(path.read_text())
    except (FileNotFoundError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _to_json(scalar: object) -> object:
    """Return a Python or numpy scalar as a JSON value; nan and infinity become {"float": text}."""
    value = scalar.item() if isinstance(scalar, np.generic) else scalar
    return {"float": repr(value)} if isinstance(value, float) and not math.isfinite(value) else value


def _from_json(value: Value | dict[str, str]) -> Value:
    return float(value["float"]) if isinstance(value, dict) else value
