"""Libraries opened on the page, in a real browser: good and bad files, their evaluation, those without a dial."""

import csv
import io
import re

import pytest
from browser import expect, open_path, settled

import rasf
from rasf.risk.names import risk_from_text


def measures_saved(page):
    """The rows of measures in the CSV file."""
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save CSV").click()
    rows = csv.reader(io.StringIO(saved.value.path().read_text()))
    return [row for row in rows if row[0] == "measure"]


def test_bad_files_are_refused_in_a_sentence_and_good_ones_become_views(visit, tmp_path, generic):
    page = visit("?view=grid").page
    settled(page)
    page.get_by_text("Open a library ...").click()
    path = page.get_by_label("Path of a library file on this machine")
    path.fill(str(tmp_path / "missing.rasf"))
    path.evaluate("path => { window.scrollTo(0, 400); path.form.requestSubmit(); }")
    expect(page.get_by_role("alert")).to_contain_text("missing.rasf")
    expect(path).to_be_hidden()
    assert page.evaluate("scrollY") > 100
    in_sight = """() => { const box = document.querySelector('.notice').getBoundingClientRect();
        return document.elementFromPoint(box.x + 20, box.y + box.height / 2)?.closest('.notice') !== null; }"""
    assert page.evaluate(in_sight)
    damaged = tmp_path / "damaged.rasf"
    damaged.write_bytes(b"<script>alert(1)</script>" * 20)
    open_path(page, damaged)
    expect(page.get_by_role("alert").locator(".notice")).to_have_count(2)
    expect(page.get_by_role("alert")).to_contain_text("damaged.rasf")
    page.get_by_text("Open a library ...").click()
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Choose a file").click()
    chooser.value.set_files(generic)
    expect(page.get_by_role("heading", name="rasf/Grid-v0")).to_be_visible()
    expect(page.locator(".facts")).to_contain_text("rasfql")
    expect(page.locator(".scores .wins")).to_be_visible()


@pytest.mark.slow
def test_a_file_can_be_closed(visit, tmp_path):
    rasf.learn("rasf/Grid-v0", tasks=2, agent="sfql", steps_per_task=100, seed=7).save(tmp_path / "closed.rasf")
    page = visit("?view=grid").page
    settled(page)
    page.get_by_text("Open a library ...").click()
    expect(page.get_by_role("button", name="Close this file")).to_be_hidden()  # the grid is no file
    page.get_by_text("Open a library ...").click()
    open_path(page, tmp_path / "closed.rasf")
    expect(page.get_by_role("heading", name="rasf/Grid-v0")).to_be_visible()
    tab = page.locator(".views [aria-current]")
    key = tab.get_attribute("data-view")
    page.get_by_text("Open a library ...").click()
    page.get_by_role("button", name="Close this file").click()
    expect(page.locator(f'.views [data-view="{key}"]')).to_have_count(0)
    expect(tab).to_have_text("FourRoom (file)")
    settled(page)


@pytest.mark.slow
def test_a_library_is_evaluated_on_demand_and_evaluation_can_be_cancelled(visit, generic):
    page = visit("?view=grid").page
    open_path(page, generic)
    expect(page.locator(".scores .wins")).to_be_visible()
    page.get_by_label("Episodes").fill("1")
    page.get_by_role("button", name="Evaluate").click()
    expect(page.get_by_role("alert")).to_contain_text("Episodes must be a whole number from 2 to 100000.")
    page.get_by_label("Episodes").fill("100000")
    page.get_by_role("button", name="Evaluate").click()
    expect(page.get_by_label("Progress of the evaluation")).to_be_visible()
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("button", name="Evaluate")).to_be_visible()
    expect(page.locator(".numbers")).to_have_count(0)
    page.get_by_label("Episodes").fill("20")
    page.get_by_role("button", name="Evaluate").click()
    expect(page.locator(".numbers")).to_be_visible()
    library = rasf.load(generic)
    link = dict(re.findall(r"(\w+)=([^&]*)", page.evaluate("location.search")))
    weights, (family, level) = link["w"], link["risk"].split(":")
    risks = {"Chosen": risk_from_text(f"{family}:{level}"), "Neutral": rasf.MeanVariance(0.0)}
    found = library.compare("rasf/Grid-v0", [float(x) for x in weights.split(",")], risks, episodes=20, seed=0)
    from rasf_explorer.drawing.svg import shown

    cells = page.locator('.numbers [data-measure="return"] td b')
    for i, report in enumerate(found.reports.values()):
        expect(cells.nth(i)).to_have_text(shown(report.measures["return"].estimate))

    about, panel = page.locator(".evaluated"), page.get_by_label("Evaluation", exact=True)
    said = f"Evaluated at {family}, beta {shown(float(level))}, 20 episodes"
    expect(about).to_have_text(said + ".")
    assert len(measures_saved(page)) == 2 * len(report.measures)
    page.get_by_role("button", name="Neutral").click()
    expect(about).to_have_text(said + ". The settings have changed since then.")
    expect(panel).to_have_class(re.compile("stale"))
    assert measures_saved(page) == []
    page.get_by_label("Episodes").fill("100000")
    page.get_by_role("button", name="Evaluate").click()
    expect(page.get_by_label("Progress of the evaluation")).to_be_visible()
    dial = page.get_by_label("Risk dial, beta, as a number")
    dial.fill(level)
    dial.press("Enter")
    expect(page.get_by_label("Progress of the evaluation")).to_be_hidden()  # a change gives it up
    expect(about).to_have_text(said + ".")
    expect(panel).not_to_have_class(re.compile("stale"))
    assert len(measures_saved(page)) == 2 * len(report.measures)


@pytest.mark.slow
def test_without_a_dial_there_is_one_column_and_no_frontier(visit, tmp_path):
    options = {"tasks": 2, "agent": "sfql", "steps_per_task": 500, "seed": 0}
    rasf.learn("rasf/Grid-v0", **options).save(tmp_path / "grid.rasf")
    rasf.learn("rasf/FourRoom-v0", **options).save(tmp_path / "rooms.rasf")
    page = visit("?view=grid").page
    settled(page)
    open_path(page, tmp_path / "grid.rasf")
    page.get_by_label("Episodes").fill("5")
    page.get_by_role("button", name="Evaluate").click()
    head = page.locator(".numbers thead th")
    expect(head).to_have_text(["Neutral"])
    assert {row[2] for row in measures_saved(page)} == {"chosen"}
    open_path(page, tmp_path / "rooms.rasf")
    settled(page, frontier=False)
    expect(page.locator(".spoken")).to_have_text(re.compile("mean return"))
    expect(head).to_have_text(["Neutral"])
    expect(page.get_by_role("heading", name="Frontier")).to_be_hidden()
    assert {row[2] for row in measures_saved(page)} == {"chosen"}
