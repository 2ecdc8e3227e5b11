"""The results page says what the shipped results say."""

import re
from pathlib import Path

import pytest

import results_tables
from rasf_lab.common.claims import is_ours, table
from rasf_lab.common.results import shipped

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "results.md").read_text()
WORDS = {"holds": r"holds?", "does not hold": r"(does|do) not hold", "not decided": r"is undecided"}


@pytest.mark.parametrize("name", results_tables.PAGES)
def test_tables_are_current(name):
    page = (DOCS / name).read_text()
    assert results_tables.with_tables(page, results_tables.PAGES[name]) == page, "run `python docs/results_tables.py`"


def test_a_page_without_the_marks_is_refused():
    with pytest.raises(ValueError, match="glance"):
        results_tables.with_tables("nothing here", results_tables.PAGES["results.md"])


PAPERS = [row for row in table(shipped()) if not is_ours(row)]


def test_every_claim_has_its_place():
    for row in PAPERS:
        assert PAGE.count(f'<a id="{row["id"].lower()}"></a>') == 1


def test_claims_that_do_not_hold_by_every_reading_are_discussed(subtests):
    """The sentence of such a claim begins with its verdict; so does every other sentence about a claim."""
    rows = {row["id"]: row for row in PAPERS}
    said = {found[1]: found[0] for found in re.finditer(r"\*\*([GFRT]\d+) .*?\*\*", PAGE)}
    seconds = {key: (row["second_reading"] or {"verdict": "holds"})["verdict"] for key, row in rows.items()}
    assert {key for key in rows if {rows[key]["verdict"], seconds[key]} != {"holds"}} <= said.keys()
    for key, sentence in said.items():
        with subtests.test(key=key):
            assert re.search(rf"{key} {WORDS[rows[key]['verdict']]}", sentence), sentence
            _, *second = sentence.split("second reading")
            if second:
                assert rows[key]["second_reading"]
                assert re.search(WORDS[seconds[key]], second[0]), sentence


def test_the_readme_counts_the_verdicts():
    readme = (DOCS.parent / "README.md").read_text().replace("\n", " ")
    verdicts = [row["verdict"] for row in PAPERS]
    held, refuted, open_ = (verdicts.count(verdict) for verdict in WORDS)
    assert f"{len(verdicts)} claims {held} hold, {refuted} do not and {open_} are not decided" in readme
