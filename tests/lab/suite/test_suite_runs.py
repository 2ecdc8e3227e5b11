"""A case of one's own, from the command line to the result file: training, asking, summing up, going on."""

import json
import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

import coin_world
from rasf.cli.main import main
from rasf_lab.common import results
from rasf_lab.suite import runs as suite_runs
from rasf_lab.suite.report import summarise
from rasf_lab.suite.runs import finished_runs, pack, runs_of
from rasf_lab.suite.trials import Gauge

SHIPPED = Path(__file__).parents[3] / "lab" / "results"

MINE = """
import coin
from rasf_lab.suite import Case

CASE = Case(
    env="Coin-v0", about="a fair coin, or a sure thing", features=("won", "lost"), tasks=((1, 0), (1, -4)),
    unseen=((1, -0.2), (1, -0.5), (0.4, -0.1)), steps_per_task=4_000, failures="losses", priced=1,
    agent="rasf-model", settings={"gamma": 0.9, "optimism": 3.0},
    actings=("neutral", "mean-variance:-4", "cvar:0.1", "static cvar:0.1", "limit 0.1", "price 1", "price 5"),
    episodes=80,
)
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    shutil.copy(coin_world.__file__, tmp_path / "coin.py")
    (tmp_path / "suite_of_mine.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    return tmp_path


@pytest.fixture
def command(here, monkeypatch, capsys):
    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["rasf", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            main()
        said = capsys.readouterr()
        return left.value.code or 0, said.out, said.err

    return run


def test_a_case_of_ones_own_is_run_and_summed_up(command, here):
    code, said, complaint = command("suite", "suite_of_mine:CASE", "--out", here / "out")
    assert code == 0, complaint
    assert "Coin-v0" in said
    assert "helps" in said
    found = json.loads((here / "out/suite.json").read_text())["numbers"]["suite_of_mine:CASE"]
    ways = found["ways"]
    # a coin for 3 or for a loss against a sure 1: neutral acting gambles, a risk, a limit and a price do not
    assert ways["neutral"]["failures"][0] == pytest.approx(0.5, abs=0.15)
    for way in ("mean-variance:-4", "limit 0.1", "price 5"):
        assert ways[way]["failures"][0] == 0
        assert ways[way]["return"][0] == pytest.approx(np.mean([1, 1, 0.4]))
    assert ways["neutral"]["predicted"][0] == pytest.approx(ways["neutral"]["discounted"][0], abs=0.4)
    for way in ("static cvar:0.1", "limit 0.1"):  # what they do, and not the gamble of plain acting
        assert ways[way]["predicted"][0] == pytest.approx(np.mean([1, 1, 0.4]), abs=0.05)
        assert ways[way]["predicted_std"][0] < 0.2
    assert found["verdict"]["helps"]
    assert (here / "out/suite_suite_of_mine_case.png").exists()
    runs = finished_runs(here / "out")
    assert [one.run for one in runs] == runs_of("suite_of_mine:CASE", "quick")
    before = {path: path.stat().st_mtime for path in (here / "out/suite-runs/runs").iterdir()}
    assert command("suite", "suite_of_mine:CASE", "--out", here / "out")[0] == 0
    assert {path: path.stat().st_mtime for path in (here / "out/suite-runs/runs").iterdir()} == before
    pack(here / "out")
    shutil.rmtree(here / "out/suite-runs")
    told = (here / "out/suite.json").read_text()
    assert command("suite", "suite_of_mine:CASE", "--out", here / "out")[0] == 0
    assert (here / "out/suite.json").read_text() == told
    assert not (here / "out/suite-runs").exists()  # nothing was run again


def test_the_shipped_result_is_that_of_the_shipped_runs(tmp_path):
    again = results.load(summarise(SHIPPED, "full").save(tmp_path))
    before = results.shipped()["suite"]
    assert (again.numbers, again.wall_time_s) == (before.numbers, before.wall_time_s)


def test_shipped_runs_are_not_run_again(tmp_path, monkeypatch):
    shutil.copy(SHIPPED / "suite.npz", tmp_path)
    monkeypatch.setattr(suite_runs, "run_all", lambda *_, **__: pytest.fail("nothing is missing"))
    ticks = []
    suite_runs.run_cases(["highway", "power"], "full", tmp_path, ["library"], lambda: ticks.append(1))
    assert len(ticks) == 10


def test_bad_input_is_refused_in_a_sentence(command):
    code, _, complaint = command("suite", "nowhere")
    assert code == 1
    assert "case must be" in complaint
    assert command("suite", "--list")[0] == 0


def test_a_gauge_counts_failures_and_sums_up(here):
    from rasf.envs.gymnasium.single import Step
    from rasf_lab.suite import find_case

    gauge = Gauge(find_case("suite_of_mine:CASE"))
    assert gauge(Step(0, np.zeros(2), True, False, True))
    assert not gauge(Step(0, np.zeros(2), True, False, False))
    assert np.isnan(gauge.mean)
