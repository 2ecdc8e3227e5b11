"""`rasf bench` with benchmarks that answer at once."""

import json
import re
import runpy
import sys

import pytest
from typer.testing import CliRunner

from rasf.cli.main import app
from rasf_lab.commands import bench

SCRIPT = """
import json, os, sys
from pathlib import Path
here = Path(__file__).parent
if (here / "broken").exists():
    raise SystemExit("no reference installed")
answer = {"ours": {"ms": float((here / "ms").read_text())}, "ratio": 4.0, "arguments": sys.argv[1:-2]}
answer["platforms"] = os.environ.get("JAX_PLATFORMS")
Path(sys.argv[sys.argv.index("--json") + 1]).write_text(json.dumps(answer))
"""
TIME = bench.Measure("time", ("ours", "ms"), "ms", ("ratio",))
RATE = bench.Measure("rate", ("ours", "ms"), "a second", higher_is_better=True)
FAKE = bench.Benchmark("fake", "fake.py", ("--small",), (TIME, RATE), full=("--large",))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "fake.py").write_text(SCRIPT)
    (tmp_path / "ms").write_text("2.0")
    monkeypatch.setattr(bench, "checkout", lambda: tmp_path)
    monkeypatch.setattr(bench, "BENCHMARKS", (FAKE,))
    return tmp_path


def measure(folder, quick=True):
    return bench.measure([FAKE], quick, folder / "history.jsonl")


def test_values_ratios_and_sizes(folder):
    rows, entry = measure(folder)
    assert [(row.value, row.ratio, row.worse) for row in rows] == [(2.0, 4.0, None), (2.0, None, None)]
    assert entry["answers"]["fake"]["arguments"] == ["--small"]
    assert measure(folder, quick=False)[1]["answers"]["fake"]["arguments"] == ["--large"]


def test_a_reference_that_is_not_installed_has_no_ratio(folder):
    (folder / "fake.py").write_text(SCRIPT.replace('"ratio": 4.0, ', ""))
    assert [row.ratio for row in measure(folder)[0]] == [None, None]
    assert CliRunner().invoke(app, ["bench", "--quick"]).exit_code == 0


def test_planning_is_measured_without_quantecon(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "quantecon", None)
    monkeypatch.setitem(sys.modules, "quantecon.markov", None)
    found = tmp_path / "found.json"
    monkeypatch.setattr(sys, "argv", ["planning.py", "--states", "50", "--repeats", "1", "--json", str(found)])
    runpy.run_path(str(bench.checkout() / "planning.py"), run_name="__main__")
    answer = json.loads(found.read_text())
    first, second = bench.BENCHMARKS[0].measures
    assert bench._row(bench.BENCHMARKS[0], first, answer, ()).ratio is None
    assert bench._row(bench.BENCHMARKS[0], second, answer, ()).value > 0


def test_names_can_be_typed_and_listed():
    assert all(re.fullmatch("[a-z]+(-[a-z]+)*", benchmark.name) for benchmark in bench.BENCHMARKS)


def test_a_slow_down_shows_against_the_median_of_the_history(folder):
    for ms in ("2.0", "1.0", "2.0"):
        (folder / "ms").write_text(ms)
        measure(folder)
    (folder / "ms").write_text("5.0")
    time, rate = measure(folder)[0]
    assert (time.worse, time.slow) == (2.5, True)
    assert (rate.worse, rate.slow) == (0.4, False)
    assert measure(folder, quick=False)[0][0].worse is None  # another size has a history of its own


def test_damaged_lines_of_the_history_do_not_count(folder):
    measure(folder)
    path = folder / "history.jsonl"
    path.write_text('{"machine": 1}\nnot json\n' + path.read_text() + '{"cut')
    assert len(bench.read_history(path)) == 1
    assert bench.read_history(folder / "nothing") == []


def test_a_benchmark_that_fails_says_why(folder):
    (folder / "broken").touch()
    with pytest.raises(ValueError, match=r"fake\.py failed"):
        measure(folder)
    assert not (folder / "history.jsonl").exists()


def test_without_a_checkout_it_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(bench.rasf, "__file__", str(tmp_path / "site-packages" / "rasf" / "__init__.py"))
    with pytest.raises(ValueError, match="need a checkout"):
        bench.checkout()


def test_command_line(folder):
    shown = CliRunner().invoke(app, ["bench", "--quick"])
    assert shown.exit_code == 0
    assert "fake" in shown.stdout
    answer = CliRunner().invoke(app, ["bench", "--quick", "--json", "--history", str(folder / "h")])
    assert json.loads(answer.stdout)["rows"][0]["value"] == 2.0
    with pytest.raises(ValueError, match="only must"):
        CliRunner().invoke(app, ["bench", "--only", "nope"], catch_exceptions=False)


@pytest.mark.parametrize(("gpus", "names"), [([], ["fake"]), (["0"], ["fake", "fake, GPU"])])
def test_benchmarks_for_a_gpu_are_run_beside_those_of_the_cores_where_there_is_one(folder, monkeypatch, gpus, names):
    on_gpu = FAKE._replace(name="fake, GPU", quick=("--lanes", "10"), on_gpu=True)
    monkeypatch.setattr(bench, "BENCHMARKS", (FAKE, on_gpu))
    monkeypatch.setattr(bench, "_gpus", lambda: gpus)
    monkeypatch.setenv("JAX_PLATFORMS", "cuda")
    answer = json.loads(CliRunner().invoke(app, ["bench", "--quick", "--json"]).stdout)["answers"]
    assert list(answer) == names
    assert answer["fake"]["platforms"] == "cpu"
    if gpus:
        assert answer["fake, GPU"]["platforms"] == "cuda"
        assert answer["fake, GPU"]["arguments"] == ["--lanes", "10"]


def test_every_script_is_there():
    for benchmark in bench.BENCHMARKS:
        assert (bench.checkout() / benchmark.script).is_file()
