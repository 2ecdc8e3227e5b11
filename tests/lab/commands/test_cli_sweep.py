import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet
import pytest
import sweep_experiments
from sweep_help import HEAD, executions, spec_of
from typer.testing import CliRunner

from rasf_lab.commands import sweep as cli_sweep
from rasf_lab.sweep.drive import SweepProgress
from rasf_lab.sweep.engines import machine
from rasf_lab.sweep.engines.local import LocalEngine
from rasf_lab.sweep.store import Store

FAILING = HEAD + 'seeds = 4\n[parameters]\nfail = "raise"\nunless = "{}"\n'


@pytest.fixture
def rasf(tmp_path, monkeypatch):
    """Call the command line in an empty folder: output and exit code, or the error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("COLUMNS", "200")

    def call(*arguments):
        out = CliRunner().invoke(cli_sweep.sweep, [*map(str, arguments)])
        if out.exception is not None and not isinstance(out.exception, SystemExit):
            raise out.exception
        return out.exit_code, out.output

    return call


def test_a_dry_run_lists_runs_and_starts_none(rasf, tmp_path, trace):
    spec = spec_of(tmp_path, HEAD + "seeds = 25")
    code, said = rasf("spec.toml", "--dry-run")
    assert code == 0
    assert "try: 25 runs, 25 would be executed into rasf-sweeps/try" in said
    assert spec.runs[0].id in said
    assert "and 5 more" in said
    assert "3 would be executed" in rasf("--dry-run", "spec.toml", "--limit", 3)[1]
    assert [path.name for path in tmp_path.iterdir()] == ["spec.toml"]
    assert executions(trace) == {}


def test_a_sweep_is_limited_resumed_retried_and_looked_at(rasf, tmp_path, trace):
    spec = spec_of(tmp_path, FAILING.format(tmp_path / "allowed"))
    code, said = rasf("spec.toml", "--workers", 1, "--limit", 1)
    assert code == 0
    assert "1 of 4 runs are done; wrote rasf-sweeps/try/table.parquet" in said
    code, said = rasf("run", "spec.toml", "--workers", 1)
    assert code == 1
    assert "3 of 4 runs are done" in said
    assert "seed=1: RuntimeError: asked to raise" in said
    assert "--retry-failed" in said
    code, said = rasf("status", "rasf-sweeps/try")
    assert code == 0
    assert "3 of 4" in said
    assert "the sweep is not running" in said
    assert "failed runs (1)" in said
    assert "RuntimeError: asked to raise" in said
    assert ", 0 would be executed" in rasf("spec.toml", "--dry-run")[1]
    assert ", 1 would be executed" in rasf("spec.toml", "--dry-run", "--retry-failed")[1]
    (tmp_path / "allowed").touch()
    assert rasf("spec.toml", "--retry-failed", "--workers", 1)[0] == 0
    table = pyarrow.parquet.read_table("rasf-sweeps/try/table.parquet")
    assert table.column("status").to_pylist() == ["finished"] * 4
    assert [len(executions(trace)[run.id]) for run in spec.runs] == [1, 2, 1, 1]


def test_a_kind_is_found_in_the_folder_we_are_in_by_workers_too(rasf, tmp_path, monkeypatch):
    (tmp_path / "own_experiment.py").write_text("from sweep_experiments import Probe\nMINE = Probe()\n")
    monkeypatch.delitem(sys.modules, "own_experiment", raising=False)
    (tmp_path / "spec.toml").write_text(HEAD.replace("sweep_experiments:PROBE", "own_experiment:MINE"))
    code, said = rasf("spec.toml", "--workers", 1)
    assert code == 0, said
    assert "1 of 1 runs are done" in said


def test_a_bad_file_starts_nothing(rasf, tmp_path):
    (tmp_path / "spec.toml").write_text(HEAD + "[limits]\nmemory_gb = 1000000\n")
    with pytest.raises(ValueError, match="line 4: memory_gb"):
        rasf("spec.toml")
    assert [path.name for path in tmp_path.iterdir()] == ["spec.toml"]


def test_a_sweep_that_is_driven_is_left_alone_and_can_be_looked_at(rasf, tmp_path):
    spec = spec_of(tmp_path, HEAD + "seeds = 2")
    store = Store(tmp_path / "s")
    with store.driving():
        store.declare(spec)
        store.publish({"running": 2, "fresh": 1, "seconds": 2.0})
        with pytest.raises(ValueError, match="run by process"):
            rasf("spec.toml", "--dir", "s")
        said = rasf("status", "s")[1]
        assert "0 of 2" in said
        assert "30.0/min" in said
        assert "0:00:04" in said
        assert f"run by process {os.getpid()} on " in said


def test_arguments_that_make_no_sense_are_refused(rasf, tmp_path):
    spec_of(tmp_path, HEAD)
    with pytest.raises(ValueError, match=r"^address"):
        rasf("spec.toml", "--address", "here:6379")
    with pytest.raises(ValueError, match="folder of a sweep"):
        rasf("status", tmp_path)
    assert rasf("spec.toml", "--workers", 0)[0] == 2
    assert rasf("spec.toml", "--engine", "clouds")[0] == 2


def test_help_shows_both_commands(rasf):
    assert all(word in rasf("--help")[1] for word in ("run", "status", "kind learn", "rasf sweep risks.toml"))


@pytest.mark.parametrize(("workers", "places"), [(None, 3), (2, 2), (8, 3)])
def test_a_kind_that_uses_gpus_gets_them_all_or_as_many_as_asked(tmp_path, monkeypatch, workers, places):
    monkeypatch.setattr(machine, "gpus", lambda: ["0", "1", "2"])
    lanes = spec_of(tmp_path, HEAD.replace("PROBE", "LANES"))
    engine = cli_sweep._engine(lanes, Store(tmp_path), cli_sweep.EngineName.local, None, workers)
    assert isinstance(engine, LocalEngine)
    assert (engine.gpus, engine.free()) == (places, places)
    plain = cli_sweep._engine(spec_of(tmp_path, HEAD), Store(tmp_path), cli_sweep.EngineName.local, None, workers)
    assert (plain.gpus, plain.free()) == (0, workers or machine.cores())


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_an_interrupted_sweep_says_how_to_go_on(tmp_path):
    spec_of(tmp_path, HEAD + "[parameters]\nsleep = 60.0\n")
    # whoever runs the tests in the background has SIGINT ignored, and children inherit that
    call = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    call += "from rasf.cli.main import main; main()"
    path = os.pathsep.join([str(Path(sweep_experiments.__file__).parent), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-c", call, "sweep", str(tmp_path / "spec.toml"), "--dir", str(tmp_path / "s")]
    running = subprocess.Popen(
        [*command, "--workers", "1"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    until = time.monotonic() + 60
    while not list((tmp_path / "s").glob("scratch/*")):
        assert time.monotonic() < until
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    said, _ = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "stopped: 0 of 1 runs are done; the same command continues the sweep" in said


@pytest.mark.parametrize(
    ("progress", "words"),
    [
        (SweepProgress(10, 2, 1, 3, fresh=1, seconds=100.0), ("2 of 10", "36.0/h", "0:11:40")),
        (SweepProgress(10, 2, 1, 3, fresh=1, seconds=10.0), ("6.0/min", "0:01:10")),
    ],
)
def test_progress_in_words(progress, words):
    cells = [cell for column in cli_sweep.progress_table("name", progress).columns for cell in column.cells]
    assert cells[1:4] == ["3", "4", "1"]
    assert set(words) <= set(cells)
