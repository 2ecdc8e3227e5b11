"""The arm in a real browser, with the networks that come with rasf."""

import re

import pytest
from browser import expect, settled


def tip_of(page):
    link = page.evaluate("location.search")
    return [float(number) for number in re.search(r"tip=([^&]*)", link)[1].split(",")]


@pytest.mark.slow
def test_the_arm_moves_and_a_place_chosen_shows_its_scores(visit):
    page = visit("?view=reacher").page
    page.wait_for_selector(".picture svg", timeout=120_000)
    settled(page, frontier=False)
    cancel = page.get_by_role("button", name="Cancel")
    expect(cancel).to_be_visible()  # thirteen levels take seconds
    cancel.click()
    expect(page.get_by_role("button", name="Compute the frontier")).to_be_visible()
    expect(page.get_by_label("Progress of the frontier")).to_be_hidden()

    tip, slider = page.locator(".picture .tip").first, page.get_by_label("Step of the rollout")
    places = []
    for step in (0, 60, 120):
        slider.fill(str(step))
        places.append((tip.get_attribute("cx"), tip.get_attribute("cy")))
    assert len(set(places)) == 3
    link = page.locator(".picture .link2").first
    assert (link.get_attribute("x2"), link.get_attribute("y2")) == places[-1]
    page.get_by_role("button", name="Play").click()
    page.wait_for_function("n => Number(document.querySelector('.playback input').value) >= n", arg=125)
    page.get_by_role("button", name="Pause").click()
    assert (tip.get_attribute("cx"), tip.get_attribute("cy")) not in places

    box = page.locator(".picture").bounding_box()
    page.locator(".picture").click(position={"x": 0.6 * box["width"], "y": 0.3 * box["height"]})
    page.wait_for_function("location.search.includes('tip=')")
    before = tip_of(page)
    heading = f"Scores with the tip at rest at ({before[0]:.2f}, {before[1]:.2f}) m"
    expect(page.get_by_role("heading", name=heading)).to_be_visible()
    expect(page.locator(".scores .wins")).to_be_visible()
    expect(page.locator(".scores .wins td").nth(1)).to_have_text(re.compile(r"^[−0+] / [−0+]$"))
    assert page.locator(".scores-panel .scroll").evaluate("table => table.scrollWidth <= table.clientWidth")
    page.locator(".picture").focus()
    page.keyboard.press("ArrowLeft")
    page.wait_for_function("old => !location.search.includes(old)", arg=f"tip={before[0]!r},")
    after = tip_of(page)
    assert abs(before[0] - 0.02 - after[0]) < 1e-6
    assert before[1] == after[1]
