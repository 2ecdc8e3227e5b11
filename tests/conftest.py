"""For all tests."""

import os

import pytest

import kept_programs


@pytest.fixture(autouse=True, scope="session")
def nothing_is_synced():
    """No test cuts the power, so no file has to be on the disk before the next one."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "fsync", lambda file: None)
        yield


def pytest_sessionfinish(session):
    if "PYTEST_XDIST_WORKER" not in os.environ:
        kept_programs.gather(session.config)
