"""A real browser and a real server for tests of the explorer; where there is no browser, a skip that says so.

RASF_CHROMIUM names the browser's program; RASF_BROWSER_REQUIRED=1 turns the skip into a failure, as in CI.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest

try:
    from playwright.sync_api import expect, sync_playwright
except ImportError:
    expect = sync_playwright = None  # `open_browser` says so

SERVER = """
import sys
import rasf
from rasf_explorer.app import serve
library = rasf.load(sys.argv[1]) if len(sys.argv) > 1 else None
serve(library, port=0, show=False, ready=lambda url: print(url, flush=True))
"""


def chromium():
    """The path of a browser, or None."""
    named = os.environ.get("RASF_CHROMIUM")
    return named or next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def no_browser(reason):
    """Skip, or fail where a browser is required."""
    message = f"the explorer is not tested in a browser: {reason}"
    if os.environ.get("RASF_BROWSER_REQUIRED") == "1":
        pytest.fail(message)
    pytest.skip(message)


@contextmanager
def open_browser():
    """The browser, or a skip that says what is missing."""
    program = chromium()
    if sync_playwright is None or importlib.util.find_spec("nicegui") is None:
        no_browser("playwright and nicegui must be installed")
    if program is None or not Path(program).is_file():
        no_browser("no chromium was found; RASF_CHROMIUM can name one")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


class Server:
    """`rasf explore` in a process of its own, on a free port."""

    def __init__(self, *arguments, script=SERVER):
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115, it lives as long as the server
        self.process = subprocess.Popen(
            [sys.executable, "-c", script, *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            cwd=tempfile.gettempdir(),
        )
        self.url = self.process.stdout.readline().strip()
        if not self.url.startswith("http"):
            self.process.wait(10)
            raise RuntimeError(f"the server did not start: {self.said()}")

    def said(self):
        """What it wrote as errors."""
        self.errors.seek(0)
        return self.errors.read()

    def close(self):
        """End it."""
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.errors.close()


class Watched:
    """A page that remembers what went wrong in it, and whom it asked for something, until it is left."""

    def __init__(self, page):
        self.page, self.troubles, self.hosts = page, [], set()
        self._hear = {
            "console": lambda m: m.type in ("error", "warning") and self.troubles.append(m.text),
            "pageerror": lambda error: self.troubles.append(str(error)),
            "requestfailed": lambda request: self.troubles.append(f"failed: {request.url}"),
            "response": lambda r: r.status >= 400 and self.troubles.append(f"{r.status}: {r.url}"),
            "request": lambda request: self.hosts.add(request.url.split("/")[2].split(":")[0]),
            "websocket": lambda socket: self.hosts.add(socket.url.split("/")[2].split(":")[0]),
        }
        for event, hear in self._hear.items():
            page.on(event, hear)

    def leave(self):
        """Leave the page as a browser that was never here."""
        for event, hear in self._hear.items():
            self.page.remove_listener(event, hear)  # what leaving breaks off is no trouble
        self.page.evaluate("localStorage.clear(); sessionStorage.clear()")
        self.page.context.clear_cookies()
        self.page.context.clear_permissions()
        self.page.goto("about:blank")


def settled(page, frontier=True):
    """Wait until picture, rollouts (and frontier) are those of the link in the address bar."""
    page.wait_for_function(
        """() => { const link = location.search.slice(1), of = place => document.querySelector(place)?.dataset.shows;
             return of('.picture') === link && link.startsWith(of('.numbers-panel') ?? '?'); }""",
        timeout=60_000,
    )
    if frontier:
        page.wait_for_selector(".frontier svg", timeout=60_000)
        page.wait_for_selector(".numbers-panel .progress-row", state="hidden", timeout=60_000)


def arrows(page):
    """Cell -> action and driver, as the map on the page has them; -1 where nobody acts."""
    found = page.eval_on_selector_all(
        ".picture [data-cell]", "cells => cells.map(c => [c.dataset.cell, c.dataset.action, c.dataset.driver])"
    )
    return {int(cell): (action, driver) for cell, action, driver in found}


def open_path(page, path):
    """Ask for a file by its path."""
    page.get_by_text("Open a library ...").click()
    page.get_by_label("Path of a library file on this machine").fill(str(path))
    page.get_by_role("button", name="Open", exact=True).click()
