"""The table of the paper's theory names code and tests that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NOTES = ROOT / "lab" / "notes" / "theory.md"
NAMED = sorted(set(re.findall(r"`([\w/]+\.py): ([\w., ]+)`", NOTES.read_text())))


def file_of(path):
    if path.split("/")[-1].startswith("test_"):
        return ROOT / "tests" / path if path.startswith("lab/") else ROOT / "tests" / "rasf" / path
    return ROOT / "src" / path if path.startswith("rasf_lab/") else ROOT / "src" / "rasf" / path


@pytest.mark.parametrize(("path", "names"), NAMED)
def test_what_the_table_names_exists(path, names):
    text = file_of(path).read_text()
    for name in names.split(", "):
        assert re.search(rf"(def|class) {name.split('.')[-1]}\b", text), name


def test_the_table_has_a_row_for_every_theorem_lemma_and_algorithm():
    text = NOTES.read_text()
    for kind, count in (("Theorem", 6), ("Lemma", 9), ("Algorithm", 4)):
        for number in range(1, count + 1):
            assert re.search(rf"^\| {kind} {number}\b", text, re.MULTILINE), f"{kind} {number}"
    named = {int(n) for n in re.findall(r"eq\. (\d+)", text)}
    for low, high in re.findall(r"eq\. (\d+) (?:to|and) (\d+)", text):
        named |= set(range(int(low), int(high) + 1))
    assert set(range(1, 27)) <= named
