import pytest


@pytest.fixture(autouse=True)
def trace(tmp_path_factory, monkeypatch):
    """The folder where runs note that they are executed."""
    folder = tmp_path_factory.mktemp("trace")
    monkeypatch.setenv("RASF_TEST_TRACE", str(folder))
    return folder
