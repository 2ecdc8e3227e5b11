"""The maps in a real browser: what is drawn is what the scene computes, whatever is turned, clicked or typed."""

import re

import numpy as np
import pytest
from browser import arrows, expect, settled

from rasf_explorer.scenes.four_room import FourRoomScene
from rasf_explorer.scenes.grid import GridScene
from rasf_explorer.state import State, default_state

ACTIONS = ("left", "up", "right", "down")


def said_by(scene, state):
    """Cell -> action and driver, as data attributes have them, for cells where somebody acts."""
    family = next(family for family in scene.families if family.name == state.family)
    policy = scene.policy(np.array(state.w), family.make(state.level), state.context)
    return {
        cell: (ACTIONS[action], str(driver))
        for cell, (action, driver) in enumerate(zip(policy.action, policy.driver, strict=True))
        if action >= 0
    }


def acting(page):
    return {cell: said for cell, said in arrows(page).items() if said[0] in ACTIONS}


def turn(page, label, value):
    """Set a slider by its number."""
    number = page.get_by_label(f"{label}, as a number")
    number.fill(str(value))
    number.press("Enter")


def wait_for_link(page, part):
    page.wait_for_function("part => location.search.includes(part)", arg=part)


@pytest.fixture(scope="module")
def grid():
    return GridScene()


@pytest.fixture(scope="module")
def rooms(library):
    return FourRoomScene(library[0])


def test_the_grid_loads_and_shows_the_exact_policy_for_three_levels_and_two_tasks(visit, grid):
    page = visit("?view=grid").page
    settled(page)
    usual = default_state("grid", grid)
    assert acting(page) == said_by(grid, usual)
    panel = page.locator(".numbers-panel")
    expect(panel).to_contain_text("Utility at the start: GPI 3.48, best source −1.72, optimum 3.48.")
    for measure, count in (("return", 2), ("return_variance", 2), ("failures", 2), ("length", 2), ("return_cvar", 0)):
        expect(panel.locator(f'[data-measure="{measure}"] .interval', has_text="exact")).to_have_count(count)
    seen = set()
    for w in (usual.w, (-1.0, 20.0, -5.0, -20.0)):
        for name, value in zip(("step", "goal", "trap X", "trap Y"), w, strict=True):
            turn(page, name, value)
        for level in (-0.2, -0.1, 0.0):
            turn(page, "Risk dial, beta", level)
            state = State("grid", w, usual.family, level, usual.cell, layer="drivers")
            wait_for_link(page, f"risk={usual.family}:{level}&")
            expected = said_by(grid, state)
            page.wait_for_function(
                """expected => Object.entries(expected).every(([cell, [action, driver]]) => {
                     const found = document.querySelector(`.picture [data-cell="${cell}"]`);
                     return found.dataset.action === action && found.dataset.driver === driver; })""",
                arg=expected,
            )
            assert acting(page) == expected
            seen.add(str(expected))
    assert len(seen) >= 4, "the dial and the weights should change the map"


def test_four_rooms_from_a_file_show_the_librarys_policy_by_slider_keys(visit, rooms):
    page = visit("").page
    settled(page)
    state = default_state("file", rooms)
    assert acting(page) == said_by(rooms, state)
    dial = page.get_by_label("Risk dial, beta", exact=True)
    dial.focus()
    dial.press("End")
    family = rooms.families[0]
    wait_for_link(page, f"risk={family.name}:{family.high}&")
    changed = State("file", state.w, family.name, family.high, state.cell, layer="drivers")
    settled(page)
    assert acting(page) == said_by(rooms, changed)
    page.get_by_role("button", name="Neutral").click()
    wait_for_link(page, f"risk={family.name}:{family.neutral}&")
    settled(page)
    assert acting(page) == said_by(rooms, State("file", state.w, family.name, family.neutral, state.cell))


@pytest.mark.slow
def test_the_numbers_are_those_of_the_scenes_own_rollouts(visit, rooms):
    page = visit("?seed=3").page
    settled(page)
    state = default_state("file", rooms)
    risk = rooms.families[0].make(state.level)
    outcome = rooms.roll_out(np.array(state.w), risk, 500, 3)
    from rasf_explorer.drawing.svg import shown

    row = page.locator('.numbers [data-measure="return"] td').first.locator("b")
    expect(row).to_have_text(shown(outcome.measures["return"].estimate))
    row = page.locator('.numbers [data-measure="length"] td').first.locator("b")
    expect(row).to_have_text(shown(outcome.measures["length"].estimate))


@pytest.mark.slow
def test_a_limit_changes_what_is_done_and_tells_its_price(visit, rooms):
    from rasf_explorer.drawing.svg import shown
    from rasf_explorer.scenes.scene import Ways

    page = visit("?risk=mean-variance:0.0").page
    settled(page)
    turn(page, rooms.limit.name, 0.01)
    wait_for_link(page, "limit=0.01&")
    settled(page)
    state = default_state("file", rooms)
    outcome = rooms.roll_out(np.array(state.w), rooms.families[0].make(0.0), 500, 0, ways=Ways(0.01))
    expect(page.locator(".notes")).to_contain_text(outcome.notes[0])
    row = page.locator('.numbers [data-measure="return"] td').first.locator("b")
    expect(row).to_have_text(shown(outcome.measures["return"].estimate))
    page.get_by_role("button", name="No limit").click()
    page.wait_for_function("!location.search.includes('limit=')")


@pytest.mark.slow
def test_a_static_risk_is_told_beside_the_step(visit, rooms):
    from rasf_explorer.drawing.svg import shown
    from rasf_explorer.scenes.scene import Ways

    page = visit("?risk=cvar:0.2&layer=trajectory").page
    settled(page)
    page.get_by_label("the whole return").check()
    wait_for_link(page, "static=1&")
    settled(page)
    state = default_state("file", rooms)
    outcome = rooms.roll_out(np.array(state.w), rooms.families[1].make(0.2), 500, 0, ways=Ways(None, True))
    page.get_by_label("Step of the rollout").fill("6")
    so_far, level = shown(float(outcome.earned[0][6])), shown(outcome.threshold)
    text = "the risk compares the discounted return of the whole episode with the threshold"
    expect(page.locator(".earned")).to_have_text(f"Step 6: discounted return so far {so_far}; {text} {level}.")


def test_a_clicked_cell_and_one_chosen_by_keys_show_their_scores(visit, grid):
    from rasf_explorer.drawing.svg import shown

    page = visit("?view=grid").page
    settled(page)
    state = default_state("grid", grid)
    risk = grid.families[0].make(state.level)

    def check(cell):
        row, column = divmod(cell, grid.layout.columns)
        expect(page.get_by_role("heading", name=f"Scores in row {row + 1}, column {column + 1}")).to_be_visible()
        scores = grid.cell(cell, np.array(state.w), risk)
        best = page.locator(".scores .wins td")
        expect(best.nth(1)).to_have_text(ACTIONS[scores.action])
        expect(best.first).to_have_text(f"★ {scores.driver}")
        expect(best.first).to_have_attribute("title", f"policy {scores.driver}: {grid.policies[scores.driver]}")
        for i, numbers in ((2, scores.values), (3, scores.mean), (4, scores.std)):
            expect(best.nth(i)).to_have_text(shown(numbers[scores.driver, scores.action]))

    page.locator('.picture [data-cell="6"]').click()
    check(6)
    assert page.locator(".scores-panel .scroll").evaluate("table => table.scrollWidth <= table.clientWidth")
    page.locator(".picture").focus()
    page.keyboard.press("ArrowRight")
    check(7)
    page.keyboard.press("ArrowDown")
    check(12)
    wait_for_link(page, "cell=12&")
    expect(page.locator(".spoken")).to_have_text(re.compile(r"Scores in row 3, column 3. GPI takes .*, by policy \d+."))


@pytest.mark.slow
def test_playback_moves_the_agent_along_the_path_and_the_arrows_follow_what_was_collected(visit, rooms):
    from rasf_explorer.drawing.map import centre

    # a task that is worth a detour past an object
    page = visit("?w=1.0,1.0,1.0,1.0,-2.0&risk=mean-variance:0.0&layer=trajectory").page
    settled(page)
    outcome = rooms.roll_out(np.array([1.0, 1.0, 1.0, 1.0, -2.0]), rooms.families[0].make(0.0), 500, 0)
    path, contexts = outcome.paths[0], outcome.contexts[0]

    def place():
        moved = page.locator(".picture .agent").first.get_attribute("transform")
        return tuple(round(float(number), 2) for number in moved.removeprefix("translate(").rstrip(")").split(","))

    def where(step):
        return tuple(round(number, 2) for number in centre(rooms.layout, int(path[step])))

    assert place() == where(0)
    slider = page.get_by_label("Step of the rollout")
    slider.fill("5")
    assert place() == where(5)
    slider.fill("0")
    page.get_by_role("button", name="Play").click()
    page.wait_for_function("n => Number(document.querySelector('.playback input').value) >= n", arg=3)
    page.get_by_role("button", name="Pause").click()
    step = int(slider.input_value())
    assert place() == where(step)
    collected = [step for step in range(len(path)) if contexts[step]]
    assert collected, "the rollout should collect something, or the test shows nothing"
    slider.fill(str(collected[0]))
    wait_for_link(page, f"context={contexts[collected[0]]}&")
    state = State("file", (1.0, 1.0, 1.0, 1.0, -2.0), "mean-variance", 0.0, context=int(contexts[collected[0]]))
    expected = said_by(rooms, state)
    page.wait_for_function(
        """expected => Object.entries(expected).every(([cell, [action]]) =>
             document.querySelector(`.picture [data-cell="${cell}"]`).dataset.action === action)""",
        arg=expected,
    )
    assert acting(page) == expected
    assert place() == where(collected[0])
    count = int(contexts[collected[0]]).bit_count()
    heading = f", after collecting {count} object"
    page.locator(".picture").focus()
    page.keyboard.press("ArrowUp")
    expect(page.locator(".scores-panel h2")).to_contain_text(heading)
    expect(page.locator(".spoken")).to_contain_text(heading)
    page.get_by_role("button", name="As at the start").click()
    expect(page.get_by_role("button", name="As at the start")).to_be_hidden()
    expect(page.locator(".scores-panel h2")).not_to_contain_text("collecting")
    assert place() == where(0)
    assert acting(page) == said_by(rooms, State("file", state.w, "mean-variance", 0.0))


@pytest.mark.slow
def test_many_quick_moves_end_in_the_last_state(visit, grid):
    page = visit("?view=grid").page
    settled(page)
    usual = default_state("grid", grid)
    page.evaluate(
        """() => { const dial = document.querySelector('.dial input[type=range]');
             for (let i = 0; i < 200; i++) {
               dial.value = String(-0.2 + 0.3 * ((i * 37) % 100) / 100);
               dial.dispatchEvent(new Event('input'));
             }
             dial.value = '-0.05'; dial.dispatchEvent(new Event('input')); }"""
    )
    wait_for_link(page, f"risk={usual.family}:-0.05&")
    settled(page)
    expect(page.locator(".numbers-panel")).to_contain_text("beta −0.05")
    assert acting(page) == said_by(grid, State("grid", usual.w, usual.family, -0.05))


# a picture that changes in place keeps its attributes in another order than a new one has them
CONTENT = """element => { const said = node => node.nodeType !== 1 ? node.data : `<${node.nodeName} ` +
  [...node.attributes].map(({name, value}) => `${name}="${value}"`).sort().join(" ") + ">" +
  [...node.childNodes].map(said).join("") + "</>"; return [...element.childNodes].map(said).join(""); }"""


def test_the_link_restores_everything_in_another_browser(visit):
    first = visit("?view=grid").page
    settled(first)
    turn(first, "trap X", -12)
    first.get_by_role("radio", name="Mean and variance").check()
    wait_for_link(first, "risk=mean-variance:-0.1&")
    turn(first, "Risk dial, beta", -0.07)
    first.locator('.picture [data-cell="8"]').click()
    first.get_by_role("radio", name="Visits").check()
    first.get_by_role("button", name="Next seed").click()
    for part in ("-12.0", "mean-variance:-0.07", "cell=8", "layer=visits", "seed=1"):
        wait_for_link(first, part)
    settled(first)
    expect(first.locator(".numbers-panel")).to_contain_text("seed 1")
    link = first.evaluate("location.search")
    second = visit(link).page
    settled(second)
    for page in (first, second):
        expect(page.locator(".numbers-panel")).to_contain_text("mean-variance, beta −0.07")
    shown = [
        [page.locator(place).first.evaluate(CONTENT) for place in (".picture", ".numbers", ".scores", ".frontier")]
        for page in (first, second)
    ]
    assert shown[0] == shown[1]
    assert second.get_by_label("trap X, as a number").input_value() == "-12"
    assert second.evaluate("location.search") == link
