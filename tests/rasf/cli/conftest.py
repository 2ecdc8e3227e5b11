"""A coin to gamble with, a library trained on it, and the command line in a folder of its own."""

import shutil
import sys

import pytest

import coin_world
import rasf
from rasf.cli.main import main
from rasf.library.file import load


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty folder with the module `coin`, to be in."""
    shutil.copy(coin_world.__file__, tmp_path / "coin.py")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setenv("COLUMNS", "100")
    return tmp_path


@pytest.fixture
def command(here, monkeypatch, capsys):
    """Runs rasf in this process: exit code, standard output, standard error."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["rasf", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            main()
        said = capsys.readouterr()
        return left.value.code or 0, said.out, said.err

    return run


@pytest.fixture(scope="session")
def learned():
    """What TRAIN asks for, learned without the command line."""
    return rasf.learn(
        "Coin-v0",
        tasks=[[1, -1], [1, 0]],
        risk=[rasf.MeanVariance(0.0), rasf.MeanVariance(-4.0)],
        steps_per_task=600,
        gamma=0.9,
        epsilon=0.5,
    )


@pytest.fixture
def trained(learned, here):
    """The same from a file."""
    learned.save("coin.rasf")
    return load("coin.rasf")
