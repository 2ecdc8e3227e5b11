"""For all tests."""

import os

import pytest


@pytest.fixture(autouse=True, scope="session")
def nothing_is_synced():
    """No test cuts the power, so no file has to be on the disk before the next one."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "fsync", lambda file: None)
        yield
