import errno
import json
import math
import os

import numpy as np
import pytest
from sweep_help import HEAD, spec_of

from rasf import files
from rasf_lab.sweep.drive import progress_of
from rasf_lab.sweep.runs import Run, RunResult
from rasf_lab.sweep.store import Store

RUN = Run("sweep_experiments:PROBE", {"scale": 2.0}, 4)
PARTIAL = f".rasf-{files._HOST}-123-{'0' * 16}.partial"  # of a writer that was killed
OUTCOME = RunResult({"mean": np.float64(0.5), "n": np.int64(3), "ok": np.bool_(True), "word": "a"}, {"x": np.arange(3)})


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "sweep")


def test_a_finished_run_comes_back(store):
    assert store.finished(RUN) is None
    store.finish(RUN, OUTCOME, {"host": "here"})
    found = store.finished(RUN)
    assert found.scalars == {"mean": 0.5, "n": 3, "ok": True, "word": "a"}
    assert found.provenance == {"host": "here"}
    np.testing.assert_array_equal(found.arrays["x"], [0, 1, 2])
    assert store.is_finished(RUN)


def test_numbers_that_are_not_finite_come_back(store):
    store.finish(RUN, RunResult({"a": math.nan, "b": -math.inf, "c": np.float32(np.inf)}, {}), {})
    scalars = store.finished(RUN).scalars
    assert math.isnan(scalars["a"])
    assert (scalars["b"], scalars["c"]) == (-math.inf, math.inf)


@pytest.mark.parametrize("damage", ["truncate", "flip", "empty", "swap"])
def test_a_damaged_run_counts_as_absent(store, damage):
    store.finish(RUN, OUTCOME, {})
    path = store.folder / "runs" / f"{RUN.id}.run"
    whole = path.read_bytes()
    if damage == "swap":  # whole, but of another run
        other = Run(RUN.kind, RUN.parameters, 5)
        store.finish(other, OUTCOME, {})
        path.write_bytes((store.folder / "runs" / f"{other.id}.run").read_bytes())
    else:
        flipped = whole[:-1] + bytes([whole[-1] ^ 1])
        path.write_bytes({"truncate": whole[: len(whole) // 2], "flip": flipped, "empty": b""}[damage])
    assert store.finished(RUN) is None
    assert not store.is_finished(RUN)


def test_a_failure_is_noted_until_it_is_cleared_or_finished(store):
    store.fail(RUN, "no luck", "at length")
    assert store.failures([RUN]) == {RUN.id: "no luck"}
    store.clear_failures([RUN])
    assert store.failures([RUN]) == {}
    store.fail(RUN, "no luck")
    store.finish(RUN, OUTCOME, {})
    assert store.failures([RUN]) == {}


def test_a_run_that_is_finished_has_not_failed_whatever_a_note_says(store):
    store.finish(RUN, OUTCOME, {})
    store.fail(RUN, "left over")
    assert store.failures([RUN]) == {}


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"reason": null}', "[" * 100_000], ids=range(6))
def test_a_damaged_note_counts_as_none(store, text):
    store.fail(RUN, "no luck")
    (store.folder / "failed" / f"{RUN.id}.json").write_text(text)
    assert store.failures([RUN]) == {}


def test_a_second_driver_is_told_who_the_first_is_and_changes_nothing(store):
    with store.driving():
        (store.folder / PARTIAL).touch()
        second = Store(store.folder)
        with pytest.raises(ValueError, match=r"process \d+ on "), second.driving():
            pass
        assert (store.folder / PARTIAL).exists()
        assert second.driver().startswith("process ")
    assert store.driver() is None
    with second.driving():
        pass


def test_a_driver_removes_what_killed_writers_left_and_nothing_else(store, tmp_path):
    store.declare(spec_of(tmp_path, HEAD))
    store.finish(RUN, OUTCOME, {})
    for name in (f"runs/{PARTIAL}", PARTIAL, f"libraries/{PARTIAL}", ".mine", "runs/.mine"):
        (store.folder / name).parent.mkdir(exist_ok=True)
        (store.folder / name).touch()
    with store.driving():
        left = sorted(path.name for path in store.folder.rglob("*") if path.is_file())
        assert left == [".mine", ".mine", f"{RUN.id}.run", "driver", "lock", "sweep.json"]


def test_a_folder_with_other_things_in_it_is_left_alone(tmp_path):
    (tmp_path / "scratch").mkdir()
    with (
        pytest.raises(ValueError, match="must be empty or the folder of a sweep; it has scratch"),
        Store(tmp_path).driving(),
    ):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["scratch"]


def test_a_second_sweep_that_begins_with_the_first_is_told_of_it(store, tmp_path, monkeypatch):
    """Whatever the first one writes while the second looks at the folder."""
    plain = os.listdir

    def listed(folder):
        store.declare(spec_of(tmp_path, HEAD))
        store.finish(RUN, OUTCOME, {})
        return plain(folder)

    with store.driving():
        monkeypatch.setattr(os, "listdir", listed)
        with pytest.raises(ValueError, match=r"is already being run by process \d+ on "), Store(store.folder).driving():
            pass


def test_looking_at_a_sweep_writes_nothing(store, tmp_path, monkeypatch):
    """As in a folder that is of another user, or on a file system that is read-only."""
    store.declare(spec_of(tmp_path, HEAD))
    with store.driving():
        store.publish({"running": 1})
    plain = os.open

    def read_only(path, flags, *arguments, **options):
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            raise OSError(errno.EROFS, "Read-only file system", str(path))
        return plain(path, flags, *arguments, **options)

    before = {path: path.stat() for path in store.folder.rglob("*")}
    monkeypatch.setattr(os, "open", read_only)
    assert (store.driver(), progress_of(store).running) == (None, 0)
    monkeypatch.undo()
    with store.driving():
        monkeypatch.setattr(os, "open", read_only)
        assert store.driver().startswith("process ")
        assert progress_of(store).running == 1
        monkeypatch.undo()
    (store.folder / "lock").unlink()
    assert store.driver() is None
    assert not (store.folder / "lock").exists()
    assert before.keys() - {store.folder / "lock"} == {*store.folder.rglob("*")}


def test_a_folder_belongs_to_one_sweep(store, tmp_path):
    first = spec_of(tmp_path, HEAD)
    store.declare(first)
    larger = spec_of(tmp_path, HEAD + "seeds = 3")
    store.declare(larger)
    assert store.runs() == list(larger.runs)
    with pytest.raises(ValueError, match="'try'; choose another folder for the sweep 'other'"):
        store.declare(spec_of(tmp_path, HEAD.replace("try", "other")))
    assert store.runs() == list(larger.runs)


def test_a_damaged_declaration_is_written_again(store, tmp_path):
    spec = spec_of(tmp_path, HEAD)
    store.declare(spec)
    (store.folder / "sweep.json").write_text("{")
    with pytest.raises(ValueError, match="not the folder"):
        store.declared()
    store.declare(spec)
    assert json.loads((store.folder / "sweep.json").read_text())["name"] == "try"


def test_scratch_is_of_exactly_these_runs(store):
    other = Run(RUN.kind, RUN.parameters, 5)
    folders = {store.scratch(job) for job in ([RUN], [other], [RUN, other])}
    assert len(folders) == 3
    assert store.scratch([RUN, other]) in folders
    store.clear_scratch([RUN])
    assert {path.exists() for path in folders} == {True, False}
    store.clear_scratch()
    assert not any(path.exists() for path in folders)
