"""A sweep's folder: every run complete or absent, whatever happens to the processes that fill it.

    lock, driver             held by the one driver, free again the moment it dies; the driver's process
    sweep.json               name and runs
    progress.json            what the driver last said
    runs/ID.run              a finished run: scalars, provenance, arrays (the checksummed container of `rasf.files`)
    failed/ID.json           a run that failed, why and where
    scratch/JOB/             checkpoints of unfinished jobs, and `share`, how much is done
    log.txt                  what workers printed
    table.parquet            the combined table

A damaged file counts as absent. Experiments may keep files of their own beside these.
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
_PATIENCE_S = 0.25  # to get the lock, which `driver` holds for a moment


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
        """Be the only driver of this folder; a second one is refused and changes nothing.

        Raises:
            ValueError: the folder has another driver, or holds files and no sweep.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        before = {self._lock.name, self._owner.name}  # are there before sweep.json is
        # listed before sweep.json is looked for: a driver that has just begun writes it first
        others = [name for name in os.listdir(self.folder) if name not in before and not is_partial(name)]
        if others and not self._declaration.exists():
            raise ValueError(
                f"{self.folder} must be an empty folder or that of a sweep; it holds {min(others)} and no sweep.json"
            )
        try:
            lock = FileLock(self._lock).acquire(_PATIENCE_S)
        except Timeout:
            raise ValueError(f"{self.folder} is being driven by {self._noted_driver()}") from None
        with lock:
            self._owner.write_text(f"process {os.getpid()} on {socket.gethostname()}\n")
            for folder in (self.folder, *(each for each in self.folder.iterdir() if each.is_dir())):
                remove_stale(folder)
            yield

    def driver(self) -> str | None:
        """The process that drives this folder now, None if there is none; the folder need not be writable."""
        try:
            held = is_locked(self._lock)
        except FileNotFoundError:
            return None
        except OSError:  # of another user, and not readable
            held = None
        return self._noted_driver() if held else None if held is False else f"perhaps {self._noted_driver()}"

    def _noted_driver(self) -> str:
        return (self._owner.read_text().strip() if self._owner.exists() else "") or "another process"

    def declare(self, spec: Spec) -> None:
        """Note the sweep's runs.

        Raises:
            ValueError: the folder is that of another sweep.
        """
        described = {"name": spec.name, "limits": list(spec.limits), "runs": [run.describe() for run in spec.runs]}
        before = _json(self._declaration).get("name", spec.name)
        if before != spec.name:
            raise ValueError(
                f"{self.folder} belongs to the sweep {before!r}, not to {spec.name!r}; give each a folder of its own"
            )
        write_text(self._declaration, json.dumps(described, indent=1) + "\n")

    def declared(self) -> Header:
        """What `declare` noted."""
        found = _json(self._declaration)
        if not {"name", "runs"} <= found.keys():
            raise ValueError(f"{self.folder} is not the folder of a sweep")
        return found

    def runs(self) -> list[Run]:
        """The declared runs."""
        return [Run.from_description(each) for each in self.declared()["runs"]]

    def finish(self, run: Run, outcome: RunResult, provenance: dict[str, object]) -> None:
        """Keep a finished run, whole or not at all."""
        scalars = {name: _to_json(value) for name, value in outcome.scalars.items()}
        save_file(
            self._path(run), {"run": run.describe(), "scalars": scalars, "provenance": provenance}, outcome.arrays
        )
        self.clear_failures([run])

    def finished(self, run: Run) -> Finished | None:
        """A finished run; None if it is not there or damaged."""
        try:
            header, arrays = load_file(self._path(run))
            if header["run"] != run.describe():
                return None
            scalars = {name: _from_json(value) for name, value in header["scalars"].items()}
            return Finished(run, scalars, dict(header["provenance"]), arrays)
        except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def is_finished(self, run: Run) -> bool:
        """Whether a run is there and whole; what was once found whole is not read again."""
        if run.id not in self._whole and self.finished(run) is not None:
            self._whole.add(run.id)
        return run.id in self._whole

    def fail(self, run: Run, reason: str, details: str = "") -> None:
        """Note that a run failed, and why."""
        note = {"run": run.describe(), "reason": reason, "details": details}
        write_text(self._note(run), json.dumps(note, indent=1) + "\n")

    def failures(self, runs: Sequence[Run]) -> dict[str, str]:
        """Reasons by run id, of the runs that failed and are not finished."""
        noted = ((run, _json(self._note(run)).get("reason")) for run in runs)
        return {run.id: str(why) for run, why in noted if why is not None and not self.is_finished(run)}

    def clear_failures(self, runs: Sequence[Run]) -> None:
        """Forget failures, so that the runs are tried again."""
        for run in runs:
            self._note(run).unlink(missing_ok=True)

    def publish(self, progress: Mapping[str, object]) -> None:
        """Note how the driver is getting on."""
        write_text(self.folder / "progress.json", json.dumps(progress) + "\n")

    def published(self) -> Header:
        """What the driver last noted; empty if nothing."""
        return _json(self.folder / "progress.json")

    def scratch(self, job: Sequence[Run]) -> Path:
        """A folder for a job's checkpoints: never that of other runs, nor of only some of these."""
        path = self._scratch(job)
        path.mkdir(parents=True, exist_ok=True)
        return path

    def share(self, job: Sequence[Run]) -> float:
        """How much of a job is done, as its experiment last reported; 0 without a report."""
        try:
            share = float((self._scratch(job) / _SHARE).read_text())
        except (OSError, ValueError):
            return 0.0
        return share if 0 <= share <= 1 else 0.0

    def clear_scratch(self, job: Sequence[Run] = ()) -> None:
        """Remove a job's checkpoints; without a job, all."""
        shutil.rmtree(self._scratch(job) if job else self.folder / "scratch", ignore_errors=True)

    def _scratch(self, job: Sequence[Run]) -> Path:
        name = job[0].id if len(job) == 1 else hashlib.sha256(" ".join(run.id for run in job).encode()).hexdigest()[:16]
        return self.folder / "scratch" / name

    def _path(self, run: Run) -> Path:
        return self.folder / "runs" / f"{run.id}.run"

    def _note(self, run: Run) -> Path:
        return self.folder / "failed" / f"{run.id}.json"


def report_progress(scratch: Path, share: float) -> None:
    """For an experiment whose jobs take long: how much of the job with this scratch folder is done."""
    write_text(scratch / _SHARE, f"{share:.4f}")


def sweep_folder(scratch: Path) -> Path:
    """The folder of the sweep that a scratch folder is in, for files that an experiment keeps beside the runs."""
    return scratch.parent.parent


def _json(path: Path) -> Header:
    """A JSON object in a file; an empty one if there is none or it is damaged."""
    try:
        found = json.loads(path.read_text())
    except (FileNotFoundError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _to_json(scalar: object) -> object:
    """A scalar of Python or numpy for JSON, which has neither nan nor infinity."""
    value = scalar.item() if isinstance(scalar, np.generic) else scalar
    return {"float": repr(value)} if isinstance(value, float) and not math.isfinite(value) else value


def _from_json(value: Value | dict[str, str]) -> Value:
    return float(value["float"]) if isinstance(value, dict) else value
