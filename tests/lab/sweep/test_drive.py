from dataclasses import replace
from pathlib import Path

import pytest
from sweep_help import HEAD, InlineEngine, executions, spec_of, stable_bytes, sweep

from rasf_lab.sweep import drive as drive_module
from rasf_lab.sweep.drive import Ended, SweepProgress, jobs_of, progress_of
from rasf_lab.sweep.store import Store, report_progress
from rasf_lab.sweep.worker import JobError, do_job, try_job

RAISING = HEAD + 'seeds = 3\n[parameters]\nfail = "raise"\nunless = "{}"\n'
LANES = 'sweep = "try"\nkind = "sweep_experiments:LANES"\nseeds = 6\n[grid]\nscale = [1.0, 2.0]\n'


class Losing(InlineEngine):
    """Loses the first jobs it is given, after they saved `saved` runs each."""

    def __init__(self, folder, losses, saved=0, gpus=0):
        super().__init__(folder)
        self.losses, self.saved, self.gpus = losses, saved, gpus

    def start(self, job):
        if self.losses:
            self.losses -= 1
            if self.saved:
                do_job(self.folder, job[: self.saved])
            self.taken.append(job)
            self.ended.append(Ended(job, JobError("its worker died (SIGKILL)"), lost=True))
        else:
            super().start(job)


@pytest.fixture(autouse=True)
def _gpu_of_lanes(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "inline")


def test_what_is_finished_is_not_run_again(tmp_path, trace):
    spec = spec_of(tmp_path, HEAD + "seeds = 4")
    store, progress = sweep(tmp_path / "s", spec, limit=3)
    assert (progress.done, progress.total, progress.fresh) == (3, 3, 3)
    store, progress = sweep(tmp_path / "s", spec)
    assert (progress.done, progress.total, progress.fresh) == (4, 4, 1)
    assert executions(trace) == {run.id: ["begun"] for run in spec.runs}
    assert not (store.folder / "scratch").exists()


def test_a_larger_sweep_of_the_same_name_runs_only_what_is_new(tmp_path, trace):
    sweep(tmp_path / "s", spec_of(tmp_path, HEAD + "seeds = 2"))
    larger = spec_of(tmp_path, HEAD + "seeds = 3")
    assert sweep(tmp_path / "s", larger)[1].fresh == 1
    assert executions(trace) == {run.id: ["begun"] for run in larger.runs}


def test_a_run_that_raises_fails_alone_and_is_tried_again_only_when_its_failure_is_cleared(tmp_path, trace):
    spec = spec_of(tmp_path, RAISING.format(tmp_path / "allowed"))
    store, progress = sweep(tmp_path / "s", spec)
    assert (progress.done, progress.failed, progress.running, progress.waiting) == (2, 1, 0, 0)
    failed = spec.runs[1]
    assert store.failures(spec.runs) == {failed.id: "RuntimeError: asked to raise"}
    assert "sweep_experiments.py" in (store.folder / "failed" / f"{failed.id}.json").read_text()  # the traceback
    _, progress = sweep(tmp_path / "s", spec)
    assert (progress.done, progress.failed, len(executions(trace)[failed.id])) == (2, 1, 1)
    (tmp_path / "allowed").touch()
    store.clear_failures(spec.runs)
    store, progress = sweep(tmp_path / "s", spec)
    assert (progress.done, progress.failed, progress.fresh) == (3, 0, 1)
    assert store.failures(spec.runs) == {}


@pytest.mark.parametrize("fail", ["raise", "exit"])
def test_even_an_exit_is_the_failure_of_a_run(tmp_path, fail):
    spec = spec_of(tmp_path, HEAD + f'seeds = 2\n[parameters]\nfail = "{fail}"')
    reasons = {"raise": "RuntimeError: asked to raise", "exit": "SystemExit: 3"}
    store, _ = sweep(tmp_path / "s", spec)
    assert list(store.failures(spec.runs).values()) == [reasons[fail]]


@pytest.mark.parametrize("content", [b"", b"half", None])
def test_damaged_files_are_redone(tmp_path, trace, content):
    spec = spec_of(tmp_path, HEAD + "seeds = 3")
    store, _ = sweep(tmp_path / "s", spec)
    before = stable_bytes(store.folder)
    path = store.folder / "runs" / f"{spec.runs[1].id}.run"
    path.write_bytes(path.read_bytes()[:-3] if content is None else content)
    _, progress = sweep(tmp_path / "s", spec)
    assert (progress.done, progress.fresh) == (3, 1)
    assert stable_bytes(store.folder) == before
    assert [len(executions(trace)[run.id]) for run in spec.runs] == [1, 2, 1]


def test_a_worker_does_not_run_what_is_finished(tmp_path, trace):
    spec = spec_of(tmp_path, HEAD + "seeds = 3")
    do_job(tmp_path / "s", spec.runs[:2])  # of a driver that died before it heard of it
    do_job(tmp_path / "s", spec.runs)
    do_job(tmp_path / "s", spec.runs)
    assert executions(trace) == {run.id: ["begun"] for run in spec.runs}


def test_checkpoints_stay_until_all_is_done(tmp_path):
    spec = spec_of(tmp_path, RAISING.format(tmp_path / "allowed"))
    other = Store(tmp_path / "s").scratch(spec.runs[2:])  # of a run that was interrupted
    (tmp_path / "s" / "sweep.json").write_text("{}")
    store, _ = sweep(tmp_path / "s", spec, limit=2)
    failed = store.scratch(spec.runs[1:2])
    assert sorted((store.folder / "scratch").iterdir()) == sorted([failed, other])
    (tmp_path / "allowed").touch()
    store.clear_failures(spec.runs)
    sweep(tmp_path / "s", spec)
    assert not (store.folder / "scratch").exists()


def test_a_lost_job_is_tried_again(tmp_path, trace):
    spec = spec_of(tmp_path, HEAD + "seeds = 3")
    _, progress = sweep(tmp_path / "s", spec, Losing(tmp_path / "s", losses=9))
    assert (progress.done, progress.failed, progress.losses) == (3, 0, 9)
    assert executions(trace) == {run.id: ["begun"] for run in spec.runs}


def test_a_job_that_is_always_lost_fails(tmp_path):
    spec = spec_of(tmp_path, HEAD + "seeds = 3")
    store, progress = sweep(tmp_path / "s", spec, Losing(tmp_path / "s", losses=10))
    assert (progress.done, progress.failed, progress.losses) == (2, 1, 10)
    assert store.failures(spec.runs) == {spec.runs[0].id: "its worker died (SIGKILL), 10 times"}


def test_a_worker_lost_after_it_saved_is_no_loss_of_the_run(tmp_path, trace):
    spec = spec_of(tmp_path, HEAD + "seeds = 2")
    _, progress = sweep(tmp_path / "s", spec, Losing(tmp_path / "s", losses=2, saved=1))
    assert (progress.done, progress.fresh, progress.losses) == (2, 2, 2)
    assert executions(trace) == {run.id: ["begun"] for run in spec.runs}


def test_a_pack_that_was_lost_half_saved_goes_on_with_the_rest(tmp_path, trace):
    spec = spec_of(tmp_path, LANES)
    engine = Losing(tmp_path / "s", losses=1, saved=3, gpus=1)
    _, progress = sweep(tmp_path / "s", spec, engine)
    assert [len(job) for job in engine.taken] == [4, 1, 2, 4, 2]
    assert (progress.done, progress.fresh) == (12, 12)
    assert executions(trace) == {run.id: ["begun"] for run in spec.runs}


def test_packs_do_not_depend_on_what_is_finished(tmp_path):
    spec = spec_of(tmp_path, LANES)
    whole = jobs_of(spec, Store(tmp_path / "none"), gpus=1)
    store, _ = sweep(tmp_path / "s", spec, limit=2)
    assert [set(job) for job in jobs_of(spec, store, gpus=1)] == [set(whole[0][2:]), *map(set, whole[1:])]
    assert [len(job) for job in jobs_of(spec, store, gpus=1, limit=5)] == [2, 2, 1]
    assert [len(job) for job in jobs_of(spec, store, gpus=0)] == [1] * 10


def test_a_full_disk_stops_the_sweep_which_goes_on_later(tmp_path, trace):
    spec = spec_of(tmp_path, RAISING.format(tmp_path / "room").replace("raise", "full"))
    engine = InlineEngine(tmp_path / "s")
    with pytest.raises(ValueError, match=r"disk is full .*'/somewhere'"):
        sweep(tmp_path / "s", spec, engine)
    assert engine.closed
    assert Store(tmp_path / "s").failures(spec.runs) == {}
    (tmp_path / "room").touch()
    _, progress = sweep(tmp_path / "s", spec)
    assert (progress.done, progress.failed, progress.fresh) == (3, 0, 2)
    assert [len(executions(trace)[run.id]) for run in spec.runs] == [1, 2, 1]


def test_a_disk_that_is_full_for_the_driver_stops_the_sweep_too(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device", "note")

    monkeypatch.setattr(Store, "fail", full)
    with pytest.raises(ValueError, match="the disk is full"):
        sweep(tmp_path / "s", spec_of(tmp_path, RAISING.format("/nowhere")))


def test_a_worker_that_says_done_but_kept_nothing_has_failed(tmp_path):
    class Forgetful(InlineEngine):
        def start(self, job):
            self.ended.append(Ended(job, None))

    spec = spec_of(tmp_path, HEAD)
    store, progress = sweep(tmp_path / "s", spec, Forgetful(tmp_path / "s"))
    assert progress.failed == 1
    assert "the file of the run is missing or damaged" in store.failures(spec.runs)[spec.runs[0].id]


def test_progress_is_told_and_published(tmp_path, monkeypatch):
    monkeypatch.setattr(drive_module, "_PUBLISH_EVERY_S", 0.0)
    spec, store = spec_of(tmp_path, RAISING.format("/nowhere")), Store(Path(tmp_path / "s"))
    with store.driving():
        store.declare(spec)
        said = []
        drive_module.drive(
            spec,
            store,
            InlineEngine(store.folder),
            jobs_of(spec, store, 0),
            lambda p: said.append((p.done, p.running, p.failed)),
        )
        assert said == [(0, 1, 0), (1, 1, 0), (1, 1, 1), (2, 0, 1)]
        driven = progress_of(store)
        assert (driven.total, driven.done, driven.failed, driven.fresh) == (3, 2, 1, 2)
        assert driven.rate > 0
    assert progress_of(store) == SweepProgress(3, 2, 1)  # nobody drives it: no rate


def test_rate_and_time_left():
    progress = SweepProgress(total=10, done=6, failed=1, running=2, fresh=4, seconds=8.0)
    assert (progress.waiting, progress.rate, progress.seconds_left) == (1, 0.5, 6.0)
    assert SweepProgress(10, 6).seconds_left is None


class Slow(InlineEngine):
    """Says twice how far a job is, before it does it."""

    gpus = 1

    def start(self, job):
        self.job, self.shares = job, [0.25, 0.75]

    def free(self):
        return int(not self.running())

    def running(self):
        return int(getattr(self, "job", None) is not None)

    def wait(self, seconds):
        if self.shares:
            report_progress(Store(self.folder).scratch(self.job), self.shares.pop(0))
            return []
        job, self.job = self.job, None
        return [Ended(job, try_job(self.folder, job))]


def test_a_long_job_says_how_far_it_is(tmp_path, trace, monkeypatch):
    monkeypatch.setattr(drive_module, "_PUBLISH_EVERY_S", 0.0)
    spec, store = spec_of(tmp_path, LANES.replace("[1.0, 2.0]", "[1.0]")), Store(tmp_path / "s")
    said = []
    with store.driving():
        store.declare(spec)
        engine = Slow(store.folder)
        drive_module.drive(
            spec, store, engine, jobs_of(spec, store, 1), lambda p: said.append((p.done, p.running, p.begun))
        )
    four = [(0, 4, 0.0), (0, 4, 1.0), (0, 4, 3.0)]
    assert said == [*four, (4, 2, 0.0), (4, 2, 0.5), (4, 2, 1.5), (6, 0, 0.0)]
    assert store.share(spec.runs[:4]) == 0.0  # its scratch is gone


def test_a_share_that_makes_no_sense_is_none(tmp_path):
    spec, store = spec_of(tmp_path, HEAD), Store(tmp_path / "s")
    for written, read in (("0.5", 0.5), ("7", 0.0), ("nan", 0.0), ("half", 0.0), ("", 0.0)):
        (store.scratch(spec.runs) / "share").write_text(written)
        assert store.share(spec.runs) == read


def test_time_left_counts_what_is_under_way():
    progress = SweepProgress(total=10, done=2, running=4, fresh=2, seconds=8.0, begun=2.0)
    assert (progress.rate, progress.seconds_left) == (0.5, 12.0)
    resumed = SweepProgress(total=10, done=2, running=4, fresh=2, seconds=8.0, begun=2.0, inherited=2.0)
    assert (resumed.rate, resumed.seconds_left) == (0.25, 24.0)


def test_what_a_job_had_done_before_is_not_counted_as_fast(tmp_path, trace):
    spec, store = spec_of(tmp_path, LANES.replace("[1.0, 2.0]", "[1.0]")), Store(tmp_path / "s")
    with store.driving():
        store.declare(spec)
        report_progress(store.scratch(spec.runs[:4]), 0.5)
        progress = drive_module.drive(spec, store, Slow(store.folder), jobs_of(spec, store, 1))
    assert (progress.inherited, progress.begun, progress.fresh) == (2.0, 0.0, 6)


def test_a_job_that_ended_is_not_counted_twice(tmp_path, trace):
    spec, store, said = spec_of(tmp_path, LANES.replace("[1.0, 2.0]", "[1.0]")), Store(tmp_path / "s"), []
    with store.driving():
        store.declare(spec)
        drive_module.drive(spec, store, Slow(store.folder), jobs_of(spec, store, 1), lambda p: said.append(replace(p)))
    assert all(p.done + p.begun <= p.total and p.begun <= p.running for p in said)  # published or not
