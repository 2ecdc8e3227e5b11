"""The page around the pictures in a real browser: views, files, saving, themes, widths, keys."""

import csv
import io
import re
import xml.etree.ElementTree as ET
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from browser import Server, expect, settled

import rasf


def test_views_follow_one_another_and_keep_what_was_set(visit):
    watched = visit()
    page = watched.page
    expect(page.get_by_role("button", name="FourRoom (file)").first).to_have_attribute("aria-current", "page")
    settled(page)
    page.get_by_label("class 1, as a number").fill("0.25")
    page.get_by_label("class 1, as a number").press("Enter")
    page.wait_for_function("location.search.includes('w=0.25,')")
    page.get_by_role("button", name="Grid", exact=True).click()
    expect(page.get_by_role("heading", name="The paper's grid")).to_be_visible()
    settled(page)
    page.get_by_role("button", name="FourRoom (file)").first.click()
    expect(page.get_by_label("class 1, as a number")).to_have_value("0.25")
    settled(page)


@pytest.mark.slow
def test_back_and_forward_lead_to_views_seen_before(visit):
    page = visit("?view=grid&cell=7").page
    settled(page)
    page.get_by_role("button", name="FourRoom (file)").first.click()
    settled(page)
    page.locator('.picture [data-cell="112"]').click()
    page.wait_for_function("location.search.includes('cell=112&')")
    page.go_back()
    expect(page.get_by_role("heading", name="The paper's grid")).to_be_visible()
    settled(page)
    assert "cell=7&" in page.evaluate("location.search")
    page.go_forward()
    expect(page.get_by_role("heading", name="Four rooms")).to_be_visible()
    settled(page)
    assert "cell=112&" in page.evaluate("location.search")


def test_a_bad_link_is_answered_in_sentences(visit, server):
    page = visit("?view=grid&w=1,2&risk=<b>x</b>&cell=999&layer=x&step=-1").page
    notices = page.get_by_role("alert")
    expect(notices).to_contain_text("The link's w must be 4 numbers")
    expect(notices).to_contain_text("got '<b>x</b>'")
    expect(notices).to_contain_text("The link's cell must be the number of a cell, 0 to 24,")
    settled(page)
    expect(notices.locator(".notice")).to_have_count(1)  # a fourth sentence would push the first out
    notices.get_by_role("button", name="Close").click()
    expect(notices.locator(".notice")).to_have_count(0)
    page.goto(server.url + "?view=moon")
    expect(notices).to_contain_text("The link's view must be one of file-")
    settled(page)
    page.goto(server.url + "?view=file-00000000&w=1")
    expect(notices).to_contain_text("The link belongs to a library that is not open here")
    expect(notices.locator(".notice")).to_have_count(1)


ENDLESS = """
import time
from rasf_explorer import app
from rasf_explorer import views
from rasf_explorer.scenes import scene
def make(tick, stop):
    tick(0.5)
    while not stop():
        time.sleep(0.01)
    raise scene.Stopped
views._usual = lambda seed: [views.View("endless", "Endless", "Making it.", "", make)]
app.serve(None, port=0, show=False, ready=lambda url: print(url, flush=True))
"""


@pytest.mark.slow  # test_app.py stops and begins views without a browser
def test_making_a_view_can_be_cancelled_for_all_and_begun_again(chrome):
    running = Server(script=ENDLESS)
    try:
        context = chrome.new_context()
        first, second = context.new_page(), context.new_page()
        for page in (first, second):
            page.goto(running.url)
            expect(page.get_by_label("Progress")).to_have_attribute("value", "0.500")
        for canceller in (first, second):
            canceller.get_by_role("button", name="Cancel").click()
            for page in (first, second):
                expect(page.get_by_text("Endless was cancelled.")).to_be_visible()
                expect(page.get_by_label("Progress")).to_be_hidden()
            for page in (first, second):
                page.get_by_role("button", name="Start again").click()
                expect(page.get_by_label("Progress")).to_have_attribute("value", "0.500")
        context.close()
        assert running.said() == ""
    finally:
        running.close()


@pytest.mark.slow
def test_a_rollout_and_a_seed_beyond_the_last_are_taken_back(visit):
    page = visit("?view=grid&rollout=99999&seed=2147483648").page
    settled(page)
    expect(page.locator(".rollout select")).to_have_value("11")
    assert "rollout=11" in page.evaluate("location.search")
    page.get_by_role("button", name="Next seed").click()
    page.wait_for_function("location.search.includes('seed=0&')")
    settled(page)


@pytest.mark.slow
def test_focus_and_title_follow_what_is_done(visit):
    page = visit("?view=grid").page
    expect(page).to_have_title("Grid - rasf explorer")
    tab = page.get_by_role("button", name="FourRoom (file)").first
    tab.focus()
    page.keyboard.press("Enter")
    expect(tab).to_have_attribute("aria-current", "page")
    expect(page).to_have_title("FourRoom (file) - rasf explorer")
    expect(tab).to_be_focused()
    expect(page.locator(".views [aria-current]")).to_have_count(1)
    settled(page)
    opener = page.get_by_text("Open a library ...")
    opener.click()
    path = page.get_by_label("Path of a library file on this machine")
    path.focus()
    page.keyboard.press("Escape")
    expect(path).to_be_hidden()
    expect(opener).to_be_focused()


def test_only_names_of_this_machine_are_answered(server):
    port = server.url.rstrip("/").rpartition(":")[2]
    answers = {}
    for name in ("127.0.0.1", "localhost", "[::1]", "evil.example", "127.0.0.1.evil.example"):
        request = Request(server.url + "?view=grid", headers={"Host": f"{name}:{port}"})
        try:
            with urlopen(request, timeout=10) as answer:
                answers[name] = answer.status
        except HTTPError as error:
            answers[name] = error.code
    assert list(answers.values()) == [200, 200, 200, 400, 400]


def test_other_sites_can_neither_frame_the_page_nor_open_its_socket(server, chrome):
    """A page of another origin, here one without any: the browser itself keeps it out."""
    with urlopen(server.url, timeout=10) as answer:
        policy = answer.headers["Content-Security-Policy"]
        assert answer.headers["X-Frame-Options"] == "DENY"
    assert "frame-ancestors 'none'" in policy
    assert "default-src 'self'" in policy
    page = chrome.new_context().new_page()
    page.set_content(f"<iframe src='{server.url}'></iframe>")
    page.wait_for_timeout(500)
    assert all("rasf explorer" not in frame.content() for frame in page.frames)
    address = server.url.replace("http", "ws") + "_nicegui_ws/socket.io/?EIO=4&transport=websocket"
    opened = """address => new Promise(done => { const socket = new WebSocket(address);
        socket.onopen = () => done('opened'); socket.onerror = () => done('refused'); })"""
    assert page.evaluate(opened, address) == "refused"
    page.goto(server.url)
    assert page.evaluate(opened, address) == "opened"
    page.context.close()


@pytest.mark.slow
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
    from rasf_explorer.drawing.svg import shown

    (mean,) = [row for row in rows if row[:3] == ["measure", "return", "chosen"]]
    expect(page.locator('.numbers [data-measure="return"] td b').first).to_have_text(shown(float(mean[3])))
    assert ["provenance", "rasf", "", rasf.__version__, "", ""] in rows
    assert ["provenance", "rollouts", "", "500", "", ""] in rows
    assert len([row for row in rows if row[:2] == ["frontier", "return"]]) == len(page.locator(".frontier").all()) * 13
    assert any(row[0] == "winning score" for row in rows)


@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        (390, "light"),
        *(pytest.param(*one, marks=pytest.mark.slow) for one in ((1280, "light"), (1280, "dark"), (390, "dark"))),
    ],
)
def test_nothing_is_cut_off(visit, width, scheme):
    page = visit(width=width, height=800, scheme=scheme).page
    settled(page)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.get_by_text("Open a library ...").click()
    page.wait_for_function("document.querySelector('.open-panel').getBoundingClientRect().right <= innerWidth")
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


@pytest.mark.slow
def test_the_theme_is_kept(visit):
    page = visit("?view=grid").page
    settled(page)  # loading that a reload breaks off is trouble
    page.get_by_role("radio", name="Dark").check()
    expect(page.locator("body")).to_have_class(re.compile("body--dark"))
    page.reload()
    expect(page.locator("body")).to_have_class(re.compile("body--dark"))
    expect(page.get_by_role("radio", name="Dark")).to_be_checked()


def test_every_control_is_reached_by_tab_and_has_a_name(visit):
    page = visit("?view=grid").page
    settled(page)
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
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


@pytest.mark.slow
def test_copying_the_link(visit):
    page = visit("?view=grid", permissions=["clipboard-read", "clipboard-write"]).page
    settled(page)
    page.get_by_role("button", name="Copy link").click()
    expect(page.locator(".spoken")).to_have_text("Link copied.")
    assert page.evaluate("navigator.clipboard.readText()") == page.evaluate("location.href")


@pytest.mark.slow
def test_the_spoken_line_says_what_changed(visit):
    page = visit("?view=grid").page
    settled(page)
    expect(page.locator(".spoken")).to_have_text(
        re.compile(r"GPI takes right, by policy 0. GPI fails in .* % of rollouts, at the neutral risk in .* %. The .*")
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
