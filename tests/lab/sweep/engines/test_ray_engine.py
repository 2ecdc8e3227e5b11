import os
import subprocess
import sys
import types
from pathlib import Path

import pytest
from sweep_help import HEAD, executions, spec_of, stable_bytes, sweep

from rasf_lab.sweep.engines.ray import RayEngine, _do

HERE = Path(__file__).parent.parent


def test_a_missing_ray_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ValueError, match=r"rasf\[ray\]"):
        RayEngine(tmp_path)


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1", "127.0.0.1:door"])
def test_an_address_where_nobody_listens_is_refused(tmp_path, monkeypatch, address):
    monkeypatch.setitem(sys.modules, "ray", types.SimpleNamespace(is_initialized=lambda: False))  # it is not asked
    with pytest.raises(ValueError, match=f"cluster at {address}"):
        RayEngine(tmp_path, address=address)


def test_an_engine_needs_a_worker(tmp_path):
    with pytest.raises(ValueError, match="workers must"):
        RayEngine(tmp_path, workers=0)


@pytest.mark.parametrize(("use_gpus", "gpus"), [(True, 3), (False, 0)])
def test_a_job_has_a_gpu_to_itself_and_its_process_ends_with_it(tmp_path, monkeypatch, use_gpus, gpus):
    asked = {}

    def remote(**options):
        asked.update(options)
        return lambda function: function

    ray = types.SimpleNamespace(
        is_initialized=lambda: True, remote=remote, cluster_resources=lambda: {"GPU": 3.0, "CPU": 16.0}
    )
    monkeypatch.setitem(sys.modules, "ray", ray)
    engine = RayEngine(tmp_path, use_gpus=use_gpus)
    assert (engine.gpus, engine.free()) == (gpus, gpus or 16)
    assert asked == {"num_cpus": 1, "max_retries": 0} | ({"num_gpus": 1, "max_calls": 1} if use_gpus else {})


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc")
def test_a_node_killed_midway_leaves_no_trace_in_the_table(tmp_path, trace):
    pytest.importorskip("ray")
    spec = spec_of(tmp_path, HEAD + 'seeds = 20\n[parameters]\nfail = "raise"\n[grid]\nscale = [1.0, 3.0]\n')
    done = subprocess.run(
        [sys.executable, str(HERE / "ray_driver.py"), str(tmp_path / "spec.toml"), str(tmp_path / "ray")],
        capture_output=True,
        text=True,
        env={**os.environ, "RASF_TEST_SLEEP": "0.2"},
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    finished, failed, losses = map(int, done.stdout.split()[-3:])
    assert (finished, failed) == (38, 2)
    assert losses >= 1
    begun = executions(trace)
    assert begun.keys() == {run.id for run in spec.runs}
    assert "again" not in {word for words in begun.values() for word in words}
    sweep(tmp_path / "calm", spec)
    assert stable_bytes(tmp_path / "ray") == stable_bytes(tmp_path / "calm")


@pytest.mark.slow
def test_a_cluster_started_here_keeps_the_limits(tmp_path):
    pytest.importorskip("ray")
    spec_of(
        tmp_path,
        HEAD + 'seeds = 3\n[parameters]\nfail = "hang"\n[limits]\nseconds = 5\n',
    )
    command = [sys.executable, "-m", "rasf", "sweep", str(tmp_path / "spec.toml"), "--dir", str(tmp_path / "s")]
    done = subprocess.run(
        [*command, "--engine", "ray", "--workers", "2"], capture_output=True, text=True, timeout=300,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])},
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert "2 of 3 runs are done" in done.stdout
    assert "took more than 5 s" in done.stdout


def test_a_node_without_the_folder_says_so(tmp_path):
    pytest.importorskip("ray")
    error, lost = _do(str(tmp_path / "elsewhere"), [], (None, None), [])
    assert "all nodes must share the folder of a sweep" in error[0]
    assert not lost
