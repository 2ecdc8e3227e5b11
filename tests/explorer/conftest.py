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


@pytest.fixture(scope="session")
def tab(chrome):
    """A page for one test after the other: it has the explorer's scripts from the first on."""
    return new_page(chrome)


def new_page(chrome):
    context = chrome.new_context()
    context.set_default_timeout(15_000)
    return context.new_page()


@pytest.fixture
def visit(server, chrome, tab):
    """Open the explorer with a query, in another browser each time; troubles in it fail the test."""
    visited = []

    def go(query="", *, width=1280, height=900, scheme="light", permissions=()):
        page = new_page(chrome) if visited else tab
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme=scheme)
        page.context.grant_permissions(permissions)
        visited.append(Watched(page))
        page.goto(server.url + query)
        return visited[-1]

    yield go
    for watched in visited:
        watched.leave()
        if watched.page is not tab:
            watched.page.context.close()
    for watched in visited:
        assert watched.troubles == []
        assert watched.hosts <= {"127.0.0.1"}
