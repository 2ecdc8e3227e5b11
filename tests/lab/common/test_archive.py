import numpy as np
import pytest

from rasf_lab.common.archive import load_archive, save_archive
from rasf_lab.sweep.runs import Run
from rasf_lab.sweep.store import Finished


def finished(seed, **arrays):
    run = Run("grid", {"beta": -3.0, "asked": {"w": [1, 0.5]}}, seed)
    return Finished(run, {"seconds": float("nan"), "notes": "é"}, {"device": "a device"}, arrays)


def runs_of_several_shapes():
    rng = np.random.default_rng(0)
    curves = 1e3 + rng.normal(size=(4, 50, 3)).astype(np.float32)  # stored as byte planes
    counts = np.tile(np.arange(8, dtype=np.uint8), (2, 30))  # stored as they are
    return [
        *(finished(seed, curve=curve, level=np.float32(seed)) for seed, curve in enumerate(curves)),
        *(finished(4 + row, count=count) for row, count in enumerate(counts)),
        finished(6),
    ]


def test_runs_come_back_to_the_bit(tmp_path):
    runs, maps = runs_of_several_shapes(), {"a label/map": np.arange(12, dtype=np.float16).reshape(3, 4)}
    save_archive(tmp_path / "one.npz", runs, maps)
    found = load_archive(tmp_path / "one.npz")
    assert list(found.runs) == [one.run for one in runs]
    for one in runs:
        again = found.runs[one.run]
        assert (again.scalars["notes"], again.provenance) == ("é", {"device": "a device"})
        assert np.isnan(again.scalars["seconds"])
        assert again.arrays.keys() == one.arrays.keys()
        for name, array in one.arrays.items():
            assert (again.arrays[name].dtype, again.arrays[name].shape) == (array.dtype, array.shape)
            np.testing.assert_array_equal(again.arrays[name], array)
    np.testing.assert_array_equal(found.shared["a label/map"], maps["a label/map"])
    with np.load(tmp_path / "one.npz") as members:  # numpy alone reads it too
        assert members["1/count"].shape == (2, 240)
        assert members["0/curve"].shape == (4, 4, 50, 3)
    save_archive(tmp_path / "two.npz", found.runs.values(), found.shared)
    assert (tmp_path / "two.npz").read_bytes() == (tmp_path / "one.npz").read_bytes()


def test_an_archive_that_is_not_there_is_empty(tmp_path):
    assert load_archive(tmp_path / "none.npz") == ({}, {})


def test_damaged_archives_are_refused_in_a_sentence(tmp_path):
    path, other = tmp_path / "one.npz", tmp_path / "other.npz"
    save_archive(path, runs_of_several_shapes(), {})
    whole = path.read_bytes()
    np.savez(other, curve=np.zeros(3))
    changed = whole[:300] + bytes([whole[300] ^ 255]) + whole[301:]
    for damaged in (b"", b"text", whole[:-1], whole[: len(whole) // 2], changed, other.read_bytes()):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"one\.npz is damaged or not an archive of runs: "):
            load_archive(path)
