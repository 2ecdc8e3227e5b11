"""Results in files, the paper's claims in words, and both together in a table."""

import json
from dataclasses import asdict, fields
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from rasf_lab.common import claims, results
from rasf_lab.common.claims import CLAIMS, Claim, together
from rasf_lab.common.results import Finding, Reading, Result
from rasf_lab.common.rules import as_rule
from rasf_lab.common.verdicts import with_enough_seeds
from rasf_lab.paper.grid import claims as grid

FIGURES = Path(__file__).parents[3] / "docs" / "figures"
EXPERIMENTS = ("grid", "theory", "four_room", "reacher")


def make(**changes):
    given = {"numbers": {"x": np.arange(3), "y": np.float64(1 / 3)}, "findings": {"G1": Finding("holds", "so", 4)}}
    return Result("grid", "quick", 0, 1.5, **(given | changes))


def test_a_result_comes_back_as_it_was_saved(tmp_path):
    saved = make()
    loaded = results.load(saved.save(tmp_path))
    assert loaded.findings == saved.findings
    assert loaded.numbers == {"x": [0, 1, 2], "y": pytest.approx(1 / 3)}
    assert (loaded.version, loaded.device, loaded.date) == (saved.version, saved.device, saved.date)


def test_all_readings_of_a_finding_come_back(tmp_path):
    second, third = Reading("not decided", "or so", 3, "3"), Reading("holds", "thus", 5, "6")
    finding = Finding("holds", "so", 4, "4 of 5", "7 worlds", second, third)
    saved = make(findings={"G1": finding, "G2": Finding("does not hold", "no", 2)})
    loaded = results.load(saved.save(tmp_path))
    assert loaded.findings == saved.findings
    assert type(loaded.findings["G1"].second_reading) is type(loaded.findings["G1"].third_reading) is Reading
    assert loaded.findings["G2"].second_reading is loaded.findings["G2"].third_reading is None


def test_a_file_from_before_third_readings_is_read(tmp_path):
    finding = Finding("holds", "so", 4, second_reading=Reading("not decided", "or so", 3))
    path = make(findings={"G1": finding}).save(tmp_path)
    given = json.loads(path.read_text())
    del given["findings"]["G1"]["third_reading"]
    path.write_text(json.dumps(given))
    assert results.load(path).findings == {"G1": finding}


def test_arrays_come_back_where_they_are_wanted(tmp_path):
    given = {"a/b": np.arange(6.0).reshape(2, 3).astype(np.float16), "c": np.array([1, 2])}
    path = make(arrays=given).save(tmp_path)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["grid.arrays", "grid.json"]
    assert results.load(path).arrays == {}
    loaded = results.load(path, with_arrays=True).arrays
    assert loaded.keys() == given.keys()
    for name, values in given.items():
        assert loaded[name].dtype == values.dtype
        np.testing.assert_array_equal(loaded[name], values)


def test_arrays_are_not_read_unasked(tmp_path):
    path = make(arrays={"a": np.ones(2)}).save(tmp_path)
    path.with_suffix(".arrays").write_bytes(b"damaged")
    assert results.load(path).arrays == {}
    assert results.in_folder(tmp_path)["grid"].arrays == {}
    with pytest.raises(ValueError, match=r"grid\.arrays"):
        results.load(path, with_arrays=True)


def test_without_arrays_there_is_one_file(tmp_path):
    path = make().save(tmp_path)
    assert list(tmp_path.iterdir()) == [path]
    assert results.load(path, with_arrays=True).arrays == {}


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


# --- what stands behind a finding


@pytest.mark.parametrize(("seeds", "sample"), [(1, "1 seed"), (4, "4 seeds")])
def test_a_finding_is_from_seeds_unless_it_says_otherwise(seeds, sample):
    assert Finding("holds", "so", seeds).sample == sample
    assert Finding("holds", "so", seeds, sample="exact").sample == "exact"


def test_returns_of_the_grid_are_from_rollouts():
    returns = {name: np.random.default_rng(0).normal(size=5_000) for name in ("averse", "neutral")}
    found = grid.varies_less(returns, {"averse": {}, "neutral": {}}, 0)
    assert found.sample == "5,000 rollouts"


@pytest.mark.parametrize(("seeds", "verdict"), [(5, "holds"), (4, "not decided")])
def test_fewer_than_five_seeds_decide_nothing(seeds, verdict):
    for given in (Finding("holds", "so", seeds, "1", "some"), Reading("holds", "so", seeds, "1")):
        found = with_enough_seeds(given)
        assert type(found) is type(given)
        assert asdict(found) == asdict(given) | {"verdict": verdict}


def test_what_experiments_say_together():
    here, there = Finding("holds", "so", 4, "1.5", "exact"), Finding("holds", "and so", 7)
    assert together([]) is None
    assert together([here]) is here
    both = together([here, there])
    assert (both.verdict, both.seeds, both.number, both.sample) == ("holds", 7, "1.5", "exact; 7 seeds")
    for finding in (here, there):
        assert finding.measured in both.measured
    for verdict in ("does not hold", "not decided"):
        apart = together([here, Finding(verdict, "no", 3, "2")])
        assert (apart.verdict, apart.number) == ("not decided", "1.5; 2")


# --- claims


def test_every_claim_has_all_its_words():
    papers = [claim for claim in CLAIMS if claim.where != "ours"]
    assert len(papers) == 47
    assert len({claim.id for claim in CLAIMS}) == len(CLAIMS)
    may_be_empty = {"second_rule", "second_reason", "third_rule", "third_reason", "figure"}
    for claim in CLAIMS:
        for name in {each.name for each in fields(Claim)} - may_be_empty:
            assert getattr(claim, name).strip(), (claim.id, name)
        assert bool(claim.second_rule) == bool(claim.second_reason), claim.id
        assert bool(claim.third_rule) == bool(claim.third_reason), claim.id
        assert len(claim.short) <= 50, claim.id


def test_claims_are_numbered_without_gaps():
    counts = {"G": 5, "F": 17, "R": 18, "T": 7, "M": 9}
    assert [claim.id for claim in CLAIMS] == [f"{kind}{n}" for kind, most in counts.items() for n in range(1, most + 1)]


def part(experiment, name):
    return import_module(f"rasf_lab.paper.{experiment}.{name}")


def test_figures_of_claims_are_drawn_and_shown():
    drawn = {name for experiment in EXPERIMENTS for name in part(experiment, "figures").FIGURES}
    named = {claim.figure for claim in CLAIMS if claim.figure}
    assert named <= drawn
    assert [name for name in sorted(named) if not (FIGURES / f"{name}.png").exists()] == []


IN_CODE = {"F14", "F15", "M4", "M8", "R3", "R5", "R13"}  # first readings


def test_rules_in_words_are_rules_in_data_or_code():
    ids = {claim.id for claim in CLAIMS if claim.id[0] in "FRM"}
    assert ids | {"T7"} == claims.FIRST.keys() | IN_CODE
    assert not claims.FIRST.keys() & IN_CODE
    assert {claim.id for claim in CLAIMS if claim.second_rule} == claims.SECOND.keys()
    assert {claim.id for claim in CLAIMS if claim.third_rule} == claims.RULES["third"].keys()


@pytest.mark.parametrize("experiment", ["four_room", "reacher"])
def test_rules_name_measures_that_there_are_and_each_measure_is_named(experiment):
    measures = part(experiment, "claims").MEASURES
    kinds = {"four_room": ("F", "M", "T"), "reacher": ("R",)}[experiment]
    found = [rule for rules in claims.RULES.values() for id, rule in rules.items() if id.startswith(kinds)]
    names = {"noise": "independent", "agent": "rasfc51", "when": "final"}
    named = {measure for rule in found for measure, _ in rule.quantities(**names).values()}
    also = {measure for rule in found for one in rule.also for measure, _ in as_rule(one).quantities().values()}
    assert named | also == measures.keys()


def rows(*given):
    return {row["id"]: row for row in claims.table({f"{n}": one for n, one in enumerate(given)})}


def test_claims_without_results_are_not_measured():
    found = rows()
    assert list(found) == [claim.id for claim in CLAIMS]
    for claim in CLAIMS:
        row = found[claim.id]
        assert (row["verdict"], row["measured"], row["seeds"]) == (claims.NOT_MEASURED, "", 0)
        for reading in ("second", "third"):
            words = (getattr(claim, f"{reading}_rule"), getattr(claim, f"{reading}_reason"))
            found_again = row[f"{reading}_reading"]
            if not any(words):
                assert found_again is None
                continue
            assert (found_again["rule"], found_again["reason"]) == words
            assert (found_again["verdict"], found_again["measured"]) == (claims.NOT_MEASURED, "")


def test_a_finding_reaches_its_claim():
    row = rows(make())["G1"]
    assert (row["verdict"], row["measured"], row["seeds"], row["second_reading"]) == ("holds", "so", 4, None)
    assert row["rule"] == next(claim.rule for claim in CLAIMS if claim.id == "G1")


def test_second_readings_reach_their_claims():
    second = Reading("does not hold", "otherwise", 9, "5 %")
    found = rows(
        make(findings={"R1": Finding("holds", "so", 10, second_reading=second), "R2": Finding("holds", "so", 10)})
    )
    words = next(claim for claim in CLAIMS if claim.id == "R1")
    assert found["R1"]["verdict"] == "holds"
    assert found["R1"]["second_reading"] == {
        "rule": words.second_rule,
        "reason": words.second_reason,
        "verdict": "does not hold",
        "measured": "otherwise",
        "seeds": 9,
        "number": "5 %",
    }
    assert found["R2"]["verdict"] == "holds"
    assert found["R2"]["second_reading"]["verdict"] == claims.NOT_MEASURED
    assert found["R8"]["second_reading"]["verdict"] == claims.NOT_MEASURED


def test_further_readings_of_a_row_are_by_name():
    third = Reading("holds", "after all", 9)
    found = rows(make(findings={"F11": Finding("holds", "so", 10, third_reading=third)}))
    verdicts = {name: one["verdict"] for name, one in claims.further_readings(found["F11"]).items()}
    assert verdicts == {"second": claims.NOT_MEASURED, "third": "holds"}
    assert claims.further_readings(found["F12"]).keys() == {"second"}
    assert claims.further_readings(found["F1"]) == {}


def test_the_table_is_what_json_knows():
    json.dumps(list(rows(make()).values()), allow_nan=False)


def test_shipped_results_decide_the_claims_of_this_part():
    rows = {row["id"]: row["verdict"] for row in claims.table(results.shipped())}
    decided = {key for key, verdict in rows.items() if verdict != claims.NOT_MEASURED}
    assert {"G1", "G2", "G3", "G4", "G5", "T1", "T2", "T3", "T4", "T5", "T6", "T7"} <= decided


def test_json_is_strict():
    for result in results.shipped().values():
        json.dumps(results._plain(result.numbers), allow_nan=False)
