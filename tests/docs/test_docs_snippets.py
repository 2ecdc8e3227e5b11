"""The site: no snippet escapes test_docs.py, every page and every public name is there, its numbers are true.

`make docs` builds it strictly, which finds broken links and anchors; what Zensical does not look at is checked here.
"""

import inspect
import pkgutil
import re
import tomllib
from importlib import import_module
from pathlib import Path

import gymnasium
import numpy as np
import pytest

import api_reference
import rasf
import site_pictures
from rasf import statistics

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").glob("*.md"))
REFERENCE = (ROOT / "docs" / "api.md").read_text()
NAMED = api_reference.names(REFERENCE)
WORLDS = re.compile(r"^from (rasf\.envs[\w.]*|rasf_lab\.(?:driving|operations)[\w.]*) import (.+)$", re.MULTILINE)
FENCES = {"```python", "```", "```toml", "```json", "```sh"}  # test_docs.py runs the first kind


def in_navigation(entries):
    for entry in entries:
        for target in entry.values():
            yield from [target] if isinstance(target, str) else in_navigation(target)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_python_block_is_one_that_runs(page):
    text = page.read_text()
    signatures = {"```py"} if page.name == "api.md" else set()
    assert set(re.findall(r"^ *(?:```|~~~).*$", text, re.MULTILINE)) <= FENCES | signatures
    assert text.count("\n```") % 2 == 0  # a block left open would hide the next
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    plain = [block for language, block in blocks if not language]
    assert not any(re.search(r"^(import|from) \w+", block, re.MULTILINE) for block in plain)


def test_the_navigation_has_every_page_once_and_no_other():
    config = tomllib.loads((ROOT / "zensical.toml").read_text())
    assert sorted(in_navigation(config["project"]["nav"])) == [page.name for page in PAGES]


def test_the_reference_has_every_public_name_once():
    assert sorted(name for name in NAMED if name.count(".") == 1) == sorted(f"rasf.{name}" for name in rasf.__all__)
    assert len(set(NAMED)) == len(NAMED)
    for room in (rasf.risk, statistics):
        there = {name for name in room.__all__ if f"rasf.{name}" in NAMED or f"{room.__name__}.{name}" in NAMED}
        assert there == set(room.__all__)


def test_the_reference_has_every_world_that_gymnasium_or_a_page_names():
    entries = [spec.entry_point for id, spec in gymnasium.registry.items() if id.startswith("rasf/")]
    assert {entry.replace(":", ".") for entry in entries} <= set(NAMED)
    for page in PAGES:
        for room, names in WORLDS.findall(page.read_text()):
            things = [getattr(import_module(room), name) for name in names.split(", ")]
            homes = {f"{thing.__module__}.{thing.__name__}" for thing in things if callable(thing)}
            assert homes <= {*NAMED}, page.name


def test_a_name_is_documented_with_its_docstring_arguments_and_members(subtests):
    for name in NAMED:
        with subtests.test(name=name):
            thing, text = pkgutil.resolve_name(name), "\n".join(api_reference.reference(name))
            assert text.startswith(f"### {name.removeprefix('rasf.')} {{ #{name} }}\n")
            assert thing.__doc__.split()[-1] in text
            signature = text.split("```py\n")[1].split("```")[0]
            given = inspect.signature(thing).parameters.values()
            named = [one.name for one in given if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]
            assert all(f"{argument}: " in signature for argument in named)
            if inspect.isclass(thing):
                public = {
                    member for member, held in vars(thing).items() if callable(held) and not member.startswith("_")
                }
                shown = set(re.findall(rf"{{ #{re.escape(name)}\.(\w+) }}", text))
                assert {member for member in public if getattr(thing, member).__doc__} <= shown


def test_the_reference_is_current():
    assert api_reference.with_reference(REFERENCE) == REFERENCE, "run `python docs/api_reference.py`"


def test_sections_of_a_docstring_become_lists():
    text = "\n".join(api_reference.reference("rasf.learn"))
    assert "**Args:**\n\n- `env`: The id of an environment." in text
    assert "**Returns:**\n\nA `PolicyLibrary`" in text
    assert "\n    " not in text.split("```")[2]


def test_keyword_only_arguments_follow_a_star():
    assert "path: str | PathLike[str], *, precision: str = 'single')" in "\n".join(
        api_reference.reference("rasf.PolicyLibrary")
    )


def test_a_name_that_is_not_public_stops_the_work():
    with pytest.raises(ValueError, match=r"rasf\.lern"):
        api_reference.with_reference("<!-- rasf.lern -->\n<!-- end of rasf.lern -->")


def test_the_table_of_routes_says_what_the_picture_shows():
    page = (ROOT / "docs" / "choosing_a_risk.md").read_text()
    for route in site_pictures.routes():
        returns = route.returns
        row = f"| {route.beta:g} | {len(route.states) - 1} | {returns.mean():.2f} | {returns.std():.2f} | "
        assert f"{row}{100 * route.failures:.1f} % |" in page


def test_the_gamble_s_numbers():
    """Mean 8.5 and variance 30^2 * 0.05 * 0.95 = 42.75, so mean-variance crosses 7 at -2 * 1.5 / 42.75."""
    assert pytest.approx(-0.070, abs=5e-4) == -2 * 1.5 / 42.75
    outcomes = np.array([10.0] * 19 + [-20.0])
    assert rasf.MeanVariance(-2 * 1.5 / 42.75).samples(outcomes) == pytest.approx(7.0)
    assert rasf.Entropic(-0.0455).samples(outcomes) > 7.0 > rasf.Entropic(-0.0465).samples(outcomes)
    assert rasf.MeanVariance(-1.0).samples(np.array([0.0, 10.0])) == pytest.approx(-7.5)
