import json

import numpy as np
import pytest

from rasf.experiments.common import claims, results
from rasf.experiments.common.results import Finding, Result


def make(**changes):
    given = {"numbers": {"x": np.arange(3), "y": np.float64(1 / 3)}, "findings": {"G1": Finding("holds", "so", 4)}}
    return Result("grid", "quick", 0, 1.5, **(given | changes))


def test_a_result_comes_back_as_it_was_saved(tmp_path):
    saved = make()
    loaded = results.load(saved.save(tmp_path))
    assert loaded.findings == saved.findings
    assert loaded.numbers == {"x": [0, 1, 2], "y": pytest.approx(1 / 3)}
    assert (loaded.version, loaded.device, loaded.date) == (saved.version, saved.device, saved.date)


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = make().save(tmp_path)
    before = path.read_text()
    monkeypatch.setattr(results.os, "replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        make(findings={}).save(tmp_path)
    assert path.read_text() == before
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"findings": {"G1": 3}}'])
def test_a_foreign_file_is_refused_in_one_sentence(tmp_path, text):
    path = tmp_path / "grid.json"
    path.write_text(text)
    with pytest.raises(ValueError, match="not a result file of rasf"):
        results.load(path)


@pytest.mark.parametrize("name", [".", "nowhere"])
def test_a_folder_without_results_is_refused(tmp_path, name):
    (tmp_path / "readme.txt").touch()
    with pytest.raises(ValueError, match="is not a folder with results"):
        results.in_folder(tmp_path / name)


def test_claims_without_results_are_not_measured():
    rows = claims.table({})
    assert len(rows) == 37
    assert len({row["id"] for row in rows}) == 37
    assert {row["verdict"] for row in rows} == {claims.NOT_MEASURED}


def test_a_finding_reaches_its_claim():
    row = next(row for row in claims.table({"grid": make()}) if row["id"] == "G1")
    assert (row["verdict"], row["measured"], row["seeds"]) == ("holds", "so", 4)


def test_shipped_results_decide_the_claims_of_this_part():
    rows = {row["id"]: row["verdict"] for row in claims.table(results.shipped())}
    decided = {key for key, verdict in rows.items() if verdict != claims.NOT_MEASURED}
    assert {"G1", "G2", "G3", "G4", "G5", "T1", "T2", "T3", "T4", "T5", "T6", "T7"} <= decided


def test_json_is_strict():
    for result in results.shipped().values():
        json.dumps(results._plain(result.numbers), allow_nan=False)
