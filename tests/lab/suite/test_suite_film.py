"""The driving demo: the shipped library on the road, filmed."""

import pytest

pytest.importorskip("highway_env")
pytest.importorskip("mo_gymnasium")

from PIL import Image

from rasf_lab.suite import film

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")


def test_the_shipped_library_drives_and_is_filmed(tmp_path, monkeypatch):
    monkeypatch.setattr(film, "EPISODES", 2)
    ticks = []
    report = film.run(0, tmp_path / "drive.gif", lambda: ticks.append(1))
    assert len(ticks) == film.total_ticks() == 6
    with Image.open(tmp_path / "drive.gif") as made:
        assert made.n_frames > 5
        width, height = made.size
        assert len(made.convert("RGB").getcolors(100_000)) > 5
    assert (width, height) == (600, 2 * (150 + 18))
    assert "collides" in report.renderables[-1].plain


def test_a_drive_is_the_same_again():
    library = film.shipped_driver()
    first, again = (film.drive(library, film.RISKS["neutral"], 3) for _ in range(2))
    assert first == again
    assert first.frames == []


def test_a_film_has_its_ending(tmp_path):
    with pytest.raises(ValueError, match=r"\.gif"):
        film.run(0, tmp_path / "drive.mp4", lambda: None)


def test_the_shipped_library_is_small_and_has_bounds():
    library = film.shipped_driver()
    assert library.environment.id == film.ROAD
    assert library.calibration is not None
    assert film.TASK not in [policy.w for policy in library.policies]
