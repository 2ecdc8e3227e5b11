"""The page around the pictures in a real browser: views, files, saving, themes, widths, keys."""

import csv
import io
import re
import xml.etree.ElementTree as ET

import pytest
from browser import Server, expect, settled

import rasf


@pytest.fixture(scope="session")
def generic(tmp_path_factory):
    """A file whose library has the generic view."""
    path = tmp_path_factory.mktemp("generic") / "grid.rasf"
    rasf.learn("rasf/Grid-v0", tasks=2, agent="rasfql", steps_per_task=200, seed=0).save(path)
    return path


def open_path(page, path):
    page.get_by_text("Open a library ...").click()
    page.get_by_label("Path of a library file on this machine").fill(str(path))
    page.get_by_role("button", name="Open", exact=True).click()


def test_views_follow_one_another_and_keep_what_was_set(visit):
    watched = visit()
    page = watched.page
    expect(page.get_by_role("button", name="FourRoom (file)")).to_have_attribute("aria-current", "page")
    settled(page)
    page.get_by_label("class 1, as a number").fill("0.25")
    page.get_by_label("class 1, as a number").press("Enter")
    page.wait_for_function("location.search.includes('w=0.25,')")
    page.get_by_role("button", name="Grid", exact=True).click()
    expect(page.get_by_role("heading", name="The paper's grid")).to_be_visible()
    settled(page)
    page.get_by_role("button", name="FourRoom (file)").click()
    expect(page.get_by_label("class 1, as a number")).to_have_value("0.25")
    settled(page)


def test_a_bad_link_is_answered_in_sentences(visit):
    page = visit("?view=grid&w=1,2&risk=<b>x</b>&cell=999").page
    notices = page.get_by_role("alert")
    expect(notices).to_contain_text("The link's w must be 4 numbers")
    expect(notices).to_contain_text("got '<b>x</b>'")
    expect(notices).to_contain_text("The link's cell must be a whole number from 0 to 24")
    settled(page)
    for left in (2, 1, 0):
        notices.get_by_role("button", name="Close").first.click()
        expect(notices.locator(".notice")).to_have_count(left)
    other = visit("?view=moon").page
    expect(other.get_by_role("alert")).to_contain_text("The link's view must be one of file")
    settled(other)


def test_bad_files_are_refused_in_a_sentence_and_good_ones_become_views(visit, tmp_path, generic):
    page = visit("?view=grid").page
    settled(page)
    open_path(page, tmp_path / "missing.rasf")
    expect(page.get_by_role("alert")).to_contain_text("missing.rasf")
    damaged = tmp_path / "damaged.rasf"
    damaged.write_bytes(b"<script>alert(1)</script>" * 20)
    page.get_by_label("Path of a library file on this machine").fill(str(damaged))
    page.get_by_role("button", name="Open", exact=True).click()
    expect(page.get_by_role("alert").locator(".notice")).to_have_count(2)
    expect(page.get_by_role("alert")).to_contain_text("damaged.rasf")
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Choose a file").click()
    chooser.value.set_files(generic)
    expect(page.get_by_role("heading", name="rasf/Grid-v0")).to_be_visible()
    expect(page.locator(".facts")).to_contain_text("rasfql")
    expect(page.locator(".scores .wins")).to_be_visible()


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
    risks = {"Chosen": {"mean-variance": rasf.MeanVariance}[family](float(level)), "Neutral": rasf.MeanVariance(0.0)}
    found = library.compare("rasf/Grid-v0", [float(x) for x in weights.split(",")], risks, episodes=20, seed=0)
    from rasf.explorer.svg import shown

    cells = page.locator('.numbers [data-measure="return"] td b')
    for i, report in enumerate(found.reports.values()):
        expect(cells.nth(i)).to_have_text(shown(report.measures["return"].estimate))


def test_saved_files_hold_what_is_shown(visit):
    page = visit("?view=grid").page
    settled(page)
    with page.expect_download() as svg:
        page.get_by_role("button", name="Save SVG").click()
    assert svg.value.suggested_filename == "rasf-grid-entropic--0.1.svg"
    root = ET.parse(svg.value.path()).getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert len([g for g in root.iter() if g.get("data-cell")]) == 25
    with page.expect_download() as png:
        page.get_by_role("button", name="Save PNG").click()
    saved = png.value.path().read_bytes()
    assert saved.startswith(b"\x89PNG")
    assert int.from_bytes(saved[16:20], "big") == 1600
    with page.expect_download() as numbers:
        page.get_by_role("button", name="Save CSV").click()
    rows = list(csv.reader(io.StringIO(numbers.value.path().read_text())))
    from rasf.explorer.svg import shown

    (mean,) = [row for row in rows if row[:3] == ["measure", "return", "chosen"]]
    expect(page.locator('.numbers [data-measure="return"] td b').first).to_have_text(shown(float(mean[3])))
    assert ["provenance", "rasf", "", rasf.__version__, "", ""] in rows
    assert ["provenance", "rollouts", "", "500", "", ""] in rows
    assert len([row for row in rows if row[:2] == ["frontier", "return"]]) == len(page.locator(".frontier").all()) * 13
    assert any(row[0] == "winning score" for row in rows)


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")])
def test_nothing_is_cut_off(visit, width, scheme):
    page = visit("?view=file", viewport={"width": width, "height": 800}, color_scheme=scheme).page
    settled(page)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.get_by_text("Open a library ...").click()
    cut = page.evaluate(
        """() => [...document.querySelectorAll('.page *, .bar *')].filter(e => {
             const box = e.getBoundingClientRect(), inside = e.closest('.scroll, .only-heard, svg');
             const out = box.right > innerWidth + 1 || box.left < -1;
             return !inside && box.width > 0 && out; }).map(e => e.className)"""
    )
    assert cut == []
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", dark)[:3])) < 200) == (scheme == "dark")
    columns = page.evaluate(
        "['.task', '.picture-panel', '.numbers-panel'].map(c => document.querySelector(c).getBoundingClientRect().left)"
    )
    assert (len(set(columns)) == 3) == (width == 1280)


def test_the_theme_is_kept(visit):
    page = visit("?view=grid").page
    page.get_by_role("radio", name="Dark").check()
    expect(page.locator("body")).to_have_class(re.compile("body--dark"))
    page.reload()
    expect(page.locator("body")).to_have_class(re.compile("body--dark"))
    expect(page.get_by_role("radio", name="Dark")).to_be_checked()


def test_every_control_is_reached_by_tab_and_has_a_name(visit):
    page = visit("?view=grid").page
    settled(page)
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the picture")).to_be_focused()
    names, seen = [], set()
    for _ in range(80):
        page.keyboard.press("Tab")
        found = page.evaluate(
            """() => { const e = document.activeElement;
                 if (!e || e === document.body) return null;
                 const label = e.labels?.[0]?.innerText || e.getAttribute('aria-label') || e.innerText || e.title;
                 const ring = getComputedStyle(e).outlineStyle !== 'none'
                   || (e.nextElementSibling && getComputedStyle(e.nextElementSibling).outlineStyle !== 'none');
                 e.dataset.visited = 'yes';
                 return [e.tagName + ' ' + e.className, (label || '').trim(), ring]; }"""
        )
        if found is None:
            break
        what, label, ring = found
        assert label, f"{what} has no name"
        assert ring, f"{what}, {label}, shows no focus"
        names.append(label)
        seen.add(what)
    missed = page.evaluate(
        """() => [...document.querySelectorAll('button, input, select, summary, [tabindex="0"]')].filter(e =>
             e.offsetParent && !e.dataset.visited && !e.disabled && e.type !== 'radio' && e.tabIndex >= 0
             && !e.closest('.only-heard, details:not([open]) > div')).map(e => e.outerHTML.slice(0, 90))"""
    )
    assert missed == []
    assert "Copy link" in names
    assert any("Risk dial" in name for name in names)
    assert any(name.startswith("Map") for name in names)


def test_copying_the_link(visit):
    page = visit("?view=grid", permissions=["clipboard-read", "clipboard-write"]).page
    settled(page)
    page.get_by_role("button", name="Copy link").click()
    expect(page.locator(".spoken")).to_have_text("Link copied.")
    assert page.evaluate("navigator.clipboard.readText()") == page.evaluate("location.href")


def test_the_spoken_line_says_what_changed(visit):
    page = visit("?view=grid").page
    settled(page)
    expect(page.locator(".spoken")).to_have_text(
        re.compile(r"Policy 0 drives: right. Fails in .* % of rollouts, risk-neutral .* %; mean return .*")
    )
    before = page.locator(".spoken").inner_text()
    page.get_by_role("button", name="Neutral").click()
    expect(page.locator(".spoken")).not_to_have_text(before)


def test_the_server_says_nothing_wrong(server, visit):
    settled(visit("?view=grid").page)
    assert server.said() == ""


@pytest.mark.slow
def test_the_usual_views_without_a_file(chrome):
    """Four rooms are trained on the spot, the reacher's networks loaded: a minute on two cores."""
    running = Server()
    try:
        page = chrome.new_context().new_page()
        page.goto(running.url)
        expect(page.get_by_label("Progress")).to_be_visible()
        settled(page)
        page.get_by_role("button", name="Reacher").click()
        settled(page)
        assert running.said() == ""
    finally:
        running.close()
