"""Pictures of the explorer, for README and docs, from the real page: `python docs/explorer_pictures.py [NAME ...]`.

    explorer_four_room.png   who drives where, in the four rooms        explorer_dark.png      a trajectory, dark
    explorer_grid.png        the paper's grid                           explorer_narrow.png    a phone's width
    explorer_reacher.png     the arm over its objective                 explorer_library.png   any library file
    explorer_driving.png     a highway, the same traffic at two risks

Needs playwright, a Chromium (RASF_CHROMIUM names one) and rasf[suite]; two minutes, most of them training.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from PIL import Image

import rasf

FIGURES = Path(__file__).parent / "figures"
_SERVER = """
import sys, rasf
from rasf_explorer.app import serve
serve(rasf.load(sys.argv[1]), port=0, show=False, ready=lambda url: print(url, flush=True))
"""
_READY = """() => { const link = location.search.slice(1), of = place => document.querySelector(place)?.dataset.shows;
  return of('.picture') === link && link.startsWith(of('.numbers-panel') ?? '?')
    && document.querySelector('.frontier svg') && !document.querySelector('.progress-row')?.offsetParent; }"""


class Shot(NamedTuple):
    """A view, as a picture's name, a link, a width, a height (0: the whole page) and a theme."""

    name: str
    query: str
    width: int = 1280
    height: int = 0
    theme: str = "light"


SHOTS = (
    Shot("four_room", "?view=four-room&cell=112", height=1230),
    Shot("grid", "?view=grid", height=1230),
    Shot("reacher", "?view=reacher&tip=0.1,0.1&step=60", height=1230),
    Shot("driving", "?view=highway&rollout=1&step=18", height=1430),
    Shot("dark", "?view=four-room&layer=trajectory&step=14&cell=57", height=1230, theme="dark"),
    Shot("narrow", "?view=four-room&layer=visits", width=390, height=1500),
    Shot("library", "", height=900),
)


def small_library(path: Path) -> None:
    """A library that has no view of its own."""
    tasks = [[-1.0, 20.0, -20.0, -20.0], [-1.0, 20.0, 0.0, 0.0]]
    risks = (rasf.MeanVariance(0.0), rasf.MeanVariance(-0.1))
    rasf.learn("rasf/Grid-v0", tasks=tasks, risk=risks, agent="rasfql", steps_per_task=4_000, gamma=1.0).save(path)


def take(browser: Any, url: str, shot: Shot) -> None:
    """One picture."""
    page = browser.new_page(viewport={"width": shot.width, "height": 900}, color_scheme=shot.theme)
    page.goto(url + shot.query)
    if shot.name == "library":
        page.get_by_role("button", name="Evaluate").click()
        page.wait_for_selector(".numbers", timeout=120_000)
    else:
        page.wait_for_selector(".picture svg", timeout=300_000)
        page.wait_for_function(_READY, timeout=300_000)
    page.set_viewport_size({"width": shot.width, "height": shot.height})
    page.wait_for_timeout(500)  # for the last frame to be painted
    path = FIGURES / f"explorer_{shot.name}.png"
    with Image.open(io.BytesIO(page.screenshot())) as whole:
        whole.convert("RGB").quantize(256, kmeans=3).save(path, optimize=True)  # few colours, the rare red one kept
    page.close()
    print(f"{path.name}: {path.stat().st_size / 1024:.0f} kB")  # noqa: T201


def main() -> None:
    """Start the explorer, look at every view."""
    from playwright.sync_api import sync_playwright

    program = os.environ.get("RASF_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        small_library(Path(folder) / "grid.rasf")
        command = [sys.executable, "-c", _SERVER, str(Path(folder) / "grid.rasf")]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert server.stdout is not None
            url = server.stdout.readline().strip()
            browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
            for shot in SHOTS:
                if shot.name in (sys.argv[1:] or [shot.name]):
                    take(browser, url, shot)
            browser.close()
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
