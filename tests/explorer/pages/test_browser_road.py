"""A road in a real browser, with networks at random."""

import pytest
from browser import expect, open_path, settled
from small_roads import random_driver

pytest.importorskip("highway_env")
pytest.importorskip("mo_gymnasium")


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    path = tmp_path_factory.mktemp("road") / "highway.rasf"
    random_driver(config={"duration": 6, "vehicles_count": 8}).save(path)
    return path


def places(page, *cars):
    return [page.locator(f".picture .car.{car}[data-mover]").first.get_attribute("transform") for car in cars]


@pytest.mark.slow
def test_both_cars_drive_and_collisions_and_speed_are_told(visit, driver):
    page = visit("?view=grid").page
    open_path(page, driver)
    expect(page.get_by_role("heading", name="Highway")).to_be_visible(timeout=60_000)
    settled(page)
    for words in ("Collision rate", "Mean speed, m/s"):
        expect(page.get_by_role("rowheader", name=words)).to_be_visible()
    expect(page.get_by_role("heading", name="Scores at the first observation")).to_be_visible()
    expect(page.locator(".scores .wins")).to_be_visible()

    slider, seen = page.get_by_label("Step of the rollout"), []
    for step in (0, 1, 2):
        slider.fill(str(step))
        seen.append(places(page, "chosen", "neutral"))
    assert all(len(set(of_one)) == 3 for of_one in zip(*seen, strict=True))
    assert seen[0][0] == seen[0][1]  # the same beginning
    expect(page.get_by_role("heading", name="Scores at step 2")).to_be_visible()
    page.get_by_role("button", name="Play").click()
    page.wait_for_function("document.querySelector('.playback input').value > 2")
    assert places(page, "chosen")[0] not in [one for one, _ in seen]

    slider.fill("1")
    settled(page)
    link = page.evaluate("location.search")
    assert "step=1" in link
    page.reload()
    page.wait_for_selector(".picture svg", timeout=60_000)
    settled(page)
    assert places(page, "chosen", "neutral") == seen[1]
