"""Every Python snippet of the README and the docs runs."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SLOW = ("start.md-0",)  # seconds; the README has its like
SNIPPETS = [
    pytest.param(code, id=f"{page.name}-{number}", marks=[pytest.mark.slow] * (f"{page.name}-{number}" in SLOW))
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    for number, code in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL))
]


@pytest.mark.parametrize("code", SNIPPETS)
def test_snippet_runs(code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "snippet", "exec"), {})


def test_links_and_figures_exist():
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "lab").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_no_placeholder_is_left():
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        assert not re.findall(r"^[A-Z]{4,}$", page.read_text(), re.MULTILINE), page.name


def test_every_diary_is_listed_and_every_page_names_diaries_that_there_are():
    notes = ROOT / "lab" / "notes"
    listed = re.findall(r"^\| `(\w+\.md)` \|", (notes / "README.md").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(path.name for path in notes.glob("*.md") if path.name != "README.md")
    for page in (ROOT / "docs").glob("*.md"):
        for name in re.findall(r"`(lab/notes/\w+\.md)`", page.read_text()):
            assert (ROOT / name).exists(), f"{page.name}: {name}"
