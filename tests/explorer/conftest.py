import pytest
from browser import Server, Watched, open_browser

import rasf


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    """A small library of the four-room world, and its file."""
    made = rasf.learn(
        "rasf/FourRoom-v0",
        tasks=3,
        risk=(rasf.MeanVariance(0.0), rasf.MeanVariance(-4.0)),
        agent="rasfql",
        steps_per_task=6_000,
        seed=0,
    )
    path = tmp_path_factory.mktemp("explorer") / "small.rasf"
    made.save(path)
    return rasf.load(path), path


@pytest.fixture(scope="session")
def generic(tmp_path_factory):
    """A file whose library has the generic view."""
    path = tmp_path_factory.mktemp("generic") / "grid.rasf"
    rasf.learn("rasf/Grid-v0", tasks=2, agent="rasfql", steps_per_task=200, seed=0).save(path)
    return path


@pytest.fixture(scope="session")
def chrome():
    """The browser."""
    with open_browser() as browser:
        yield browser


@pytest.fixture(scope="session")
def server(library, chrome):
    """The explorer with the small library's file."""
    running = Server(library[1])
    yield running
    running.close()


@pytest.fixture
def visit(server, chrome):
    """Open the explorer with a query, in a fresh browser context; troubles in it fail the test."""
    contexts, pages = [], []

    def go(query="", *, troubles_expected=False, **options):
        options = {"viewport": {"width": 1280, "height": 900}} | options
        context = chrome.new_context(**options)
        context.set_default_timeout(15_000)
        contexts.append(context)
        watched = Watched(context)
        if not troubles_expected:
            pages.append(watched)
        watched.page.goto(server.url + query)
        return watched

    yield go
    for watched in pages:
        assert watched.troubles == []
        assert watched.hosts <= {"127.0.0.1"}
    for context in contexts:
        context.close()
