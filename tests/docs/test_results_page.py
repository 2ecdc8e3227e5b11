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


def test_every_claim_has_its_place_and_its_verdict(subtests):
    """The sentence of a claim begins with its verdict."""
    for row in PAPERS:
        with subtests.test(row=row):
            lines = [line for line in PAGE.splitlines() if f'<a id="{row["id"].lower()}"></a>' in line]
            assert len(lines) == 1
            said = lines[0].split("**")[1]
            assert re.search(rf"\b{row['id']}\b", said)
            assert re.search(WORDS[row["verdict"]], said), said


def test_the_readme_counts_the_verdicts():
    readme = (DOCS.parent / "README.md").read_text().replace("\n", " ")
    verdicts = [row["verdict"] for row in PAPERS]
    held, refuted, open_ = (verdicts.count(verdict) for verdict in WORDS)
    assert f"{len(verdicts)} claims {held} hold, {refuted} do not and {open_} are not decided" in readme
