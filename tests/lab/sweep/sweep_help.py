"""Sweeps in tests: a file, a folder, an engine without processes."""

import io
from pathlib import Path

import pytest
from pyarrow import parquet

from rasf_lab.sweep.drive import Ended, drive, jobs_of
from rasf_lab.sweep.spec import read_spec
from rasf_lab.sweep.store import Store
from rasf_lab.sweep.table import VOLATILE, table_of
from rasf_lab.sweep.worker import try_job

HEAD = 'sweep = "try"\nkind = "sweep_experiments:PROBE"\n'


@pytest.fixture(autouse=True)
def trace(tmp_path_factory, monkeypatch):
    """The folder where runs note that they are executed."""
    folder = tmp_path_factory.mktemp("trace")
    monkeypatch.setenv("RASF_TEST_TRACE", str(folder))
    return folder


def spec_of(folder, text):
    """The sweep of a file's text."""
    path = Path(folder) / "spec.toml"
    path.write_text(text)
    return read_spec(path)


class InlineEngine:
    """Does a job where it stands."""

    gpus = 0

    def __init__(self, folder):
        self.folder, self.ended, self.taken = folder, [], []

    def free(self):
        return 0 if self.ended else 1

    def running(self):
        return len(self.ended)

    def start(self, job):
        self.taken.append(job)
        self.ended.append(Ended(job, try_job(self.folder, job)))

    def wait(self, seconds):
        ended, self.ended = self.ended, []
        return ended

    def close(self):
        self.closed = True


def sweep(folder, spec, engine=None, limit=None):
    """Run what is missing; the store and the progress."""
    store = Store(Path(folder))
    with store.driving():
        store.declare(spec)
        engine = engine or InlineEngine(store.folder)
        return store, drive(spec, store, engine, jobs_of(spec, store, engine.gpus, limit))


def executions(trace):
    """What every run noted, by id."""
    return {path.name: path.read_text().split("\n")[:-1] for path in Path(trace).iterdir()}


def stable_bytes(folder):
    """The sweep's table as a file, without times and hosts."""
    file = io.BytesIO()
    parquet.write_table(table_of(Store(Path(folder))).drop_columns(list(VOLATILE)), file)
    return file.getvalue()
