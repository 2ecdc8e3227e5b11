"""The explorer as a person feels it: milliseconds in a real browser from a slider's key press to what it changes.

    python lab/benchmarks/explorer_page.py [--views grid four-room reacher] [--presses 30] [--json FILE]

For every key press on the risk dial, and then on the first two weights in turn: until the picture of the new state is
painted; until the first numbers of its rollouts are, the chosen risk's; until all are, the neutral one's too, which a
moved weight asks for. Everything is counted: the browser, the way to the server and back, computing, drawing. Presses
are a second apart, so rollouts begin after the 120 ms of rest that the page waits for. Needs playwright and a Chromium
(RASF_CHROMIUM names one).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

_SERVER = "from rasf_explorer.app import serve; serve(None, port=0, show=False, ready=lambda u: print(u, flush=True))"
_READY = """() => { const link = location.search.slice(1), of = place => document.querySelector(place)?.dataset.shows;
  return of('.picture') === link && link.startsWith(of('.numbers-panel') ?? '?')
    && document.querySelector('.frontier svg') && !document.querySelector('.progress-row')?.offsetParent; }"""
_WATCH = """() => {
  const seen = window.seen = { pressed: null, picture: null, chosen: null, numbers: null };
  document.addEventListener('input', () => { seen.pressed ??= performance.now(); }, { capture: true, once: true });
  const shows = { attributes: true, attributeFilter: ['data-shows'] };
  const watch = (place, name, options) => {
    const observer = new MutationObserver(() => {
      if (seen.pressed === null) return;
      observer.disconnect();
      requestAnimationFrame(() => {
        const painted = new MessageChannel();  // a message runs after the frame is painted
        painted.port1.onmessage = () => { seen[name] = performance.now() - seen.pressed; };
        painted.port2.postMessage(0); });
    });
    observer.observe(document.querySelector(place), options);
  };
  watch('.picture', 'picture', shows);
  watch('.numbers-panel .table-place', 'chosen', { childList: true });
  watch('.numbers-panel', 'numbers', shows); }"""


def measure(page: Any, url: str, view: str, presses: int, turned: Sequence[int]) -> dict[str, float]:
    """Medians and 95th percentiles in one view; sliders by number, 0 being the dial."""
    page.goto(f"{url}?view={view}")
    page.wait_for_selector(".picture svg", timeout=300_000)
    page.wait_for_function(_READY, timeout=300_000)
    sliders = page.locator(".task input[type=range]")
    found: dict[str, list[float]] = {"picture": [], "chosen": [], "numbers": []}
    for n in range(presses + 2):
        slider = sliders.nth(turned[n % len(turned)])
        slider.focus()
        page.evaluate(_WATCH)
        inside = slider.evaluate("s => (s.value - s.min) / (s.max - s.min)")
        left = inside > 0.98 or (inside > 0.02 and n % 16 < 8)
        slider.press("ArrowLeft" if left else "ArrowRight")
        page.wait_for_function("window.seen.numbers !== null", timeout=60_000)
        if n >= 2:  # the first ones warm up
            for name, values in found.items():
                measured = page.evaluate(f"window.seen.{name}")
                values += [] if measured is None else [measured]  # numbers that stay as they are do not show
        page.wait_for_timeout(1_000)
    return {
        f"ms_{name}_{what}": float(np.quantile(values or [np.nan], share))
        for name, values in found.items()
        for what, share in (("median", 0.5), ("95_percent", 0.95))
    }


def main() -> None:
    """Measure and print."""
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--views", nargs="+", default=["grid", "four-room", "reacher"])
    parser.add_argument("--presses", type=int, default=30)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    program = os.environ.get("RASF_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    server = subprocess.Popen([sys.executable, "-c", _SERVER], stdout=subprocess.PIPE, text=True)
    results = {}
    try:
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
            for view in options.views:
                for what, turned in (("dial", (0,)), ("weights", (1, 2))):
                    name = f"{view}, {what}"
                    results[name] = measure(browser.new_page(), url, view, options.presses, turned)
            browser.close()
    finally:
        server.terminate()
        server.wait()
    for view, numbers in results.items():
        print(f"{view:20s} " + "   ".join(f"{name} {number:7.1f}" for name, number in numbers.items()))
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
