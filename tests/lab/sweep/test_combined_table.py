import json
import math
import sys

import pyarrow.parquet
import pytest
from sweep_help import HEAD, spec_of, stable_bytes, sweep

from rasf_lab.sweep.runs import Run, RunResult
from rasf_lab.sweep.spec import Spec
from rasf_lab.sweep.store import Store
from rasf_lab.sweep.table import VOLATILE, check_arrow, table_of, write_table

SWEEP = HEAD + 'seeds = 3\n[parameters]\nfail = "raise"\n[grid]\nscale = [2.0, 1.0]\n'


def test_a_row_for_every_run_in_declared_order(tmp_path):
    spec = spec_of(tmp_path, SWEEP)
    store, _ = sweep(tmp_path / "s", spec, limit=5)
    table = pyarrow.parquet.read_table(write_table(store))
    assert table.column_names == [
        *("id", "kind", "seed", "status", "reason", "fail", "scale", "mean", "seed_result", "word"),
        *("version", "commit", "python", "host", "device", "wall_s", "peak_gb", "together", "date"),
    ]
    rows = table.to_pylist()
    assert [row["id"] for row in rows] == [run.id for run in spec.runs[:5]]
    assert [row["status"] for row in rows] == ["finished", "failed", "finished", "finished", "failed"]
    assert [row["reason"] for row in rows] == [
        None,
        "RuntimeError: asked to raise",
        None,
        None,
        "RuntimeError: asked to raise",
    ]
    assert rows[0]["mean"] == 2 * rows[3]["mean"] > 0
    assert (rows[2]["seed"], rows[2]["seed_result"], rows[2]["scale"], rows[2]["word"]) == (2, 20, 2.0, "w2")
    assert rows[1]["mean"] is None
    assert rows[0]["together"] == 1
    assert rows[0]["peak_gb"] > 0 or sys.platform != "linux"


def test_two_sweeps_give_equal_tables_but_for_times_and_hosts(tmp_path, monkeypatch):
    spec = spec_of(tmp_path, SWEEP)
    sweep(tmp_path / "a", spec)
    monkeypatch.setattr("socket.gethostname", lambda: "elsewhere")
    monkeypatch.setattr("time.strftime", lambda *_: "later")
    sweep(tmp_path / "b", spec, limit=2)
    sweep(tmp_path / "b", spec)
    assert stable_bytes(tmp_path / "a") == stable_bytes(tmp_path / "b")
    a, b = (table_of(Store(tmp_path / name)) for name in "ab")
    assert a.column("host") != b.column("host")
    assert set(a.column_names) - set(VOLATILE) >= {"id", "seed", "mean", "version", "commit"}


def kept(tmp_path, *pairs):
    """The table of runs with these parameters and scalars."""
    store = Store(tmp_path / "s")
    runs = [Run("k:K", parameters, seed) for seed, (parameters, _) in enumerate(pairs)]
    store.declare(Spec("s", tuple(runs)))
    for run, (_, scalars) in zip(runs, pairs, strict=True):
        store.finish(run, RunResult(scalars, {}), {})
    return table_of(store)


def test_types_are_those_of_all_runs_together(tmp_path):
    table = kept(
        tmp_path,
        ({"a": 1, "b": True, "c": "x", "d": 1, "e": 2**70}, {"y": math.nan}),
        ({"a": 2.5, "b": False, "c": 3, "d": 2, "e": 1}, {"y": 1, "z": 5}),
    )
    assert {name: str(table.schema.field(name).type) for name in "abcdeyz"} == {
        "a": "double", "b": "bool", "c": "string", "d": "int64", "e": "double", "y": "double", "z": "int64",
    }  # fmt: skip
    assert table.column("c").to_pylist() == ["x", "3"]
    assert math.isnan(table.column("y").to_pylist()[0])
    assert table.column("z").to_pylist() == [None, 5]


def test_names_that_are_taken_get_an_ending(tmp_path):
    table = kept(tmp_path, ({"seed": 7, "risk": 1.0}, {"risk": 2.0, "host": "h"}))
    row = table.to_pylist()[0]
    assert (row["seed"], row["seed_parameter"], row["risk"], row["risk_result"]) == (0, 7, 1.0, 2.0)
    assert (row["host"], row["host_result"]) == (None, "h")


def test_an_empty_sweep_has_an_empty_table(tmp_path):
    store = Store(tmp_path / "s")
    store.declare(spec_of(tmp_path, SWEEP))
    assert write_table(store).exists()
    assert table_of(store).num_rows == 0


def test_other_columns_of_other_runs_are_not_in_the_way(tmp_path):
    table = kept(tmp_path, ({"a": 1}, {"b": 2}), ({"b": 3}, {"a": 4}))
    assert [(row["a"], row["b"], row["a_result"], row["b_result"]) for row in table.to_pylist()] == [
        (1, None, None, 2),
        (None, 3, 4, None),
    ]


def test_a_missing_pyarrow_is_one_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ValueError, match=r"pyarrow: .*rasf\[sweep\]"):
        check_arrow()


def test_a_damaged_note_is_no_row(tmp_path):
    spec = spec_of(tmp_path, SWEEP)
    store, _ = sweep(tmp_path / "s", spec)
    note = store.folder / "failed" / f"{spec.runs[1].id}.json"
    note.write_text(json.dumps({"reason": None}))
    assert table_of(store).num_rows == 5
