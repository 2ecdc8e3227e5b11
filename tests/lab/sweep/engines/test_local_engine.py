import os
import subprocess
import sys
from pathlib import Path

import pytest
from sweep_help import HEAD, executions, spec_of, stable_bytes, sweep

from rasf_lab.sweep import drive as drive_module
from rasf_lab.sweep.engines import local, machine
from rasf_lab.sweep.engines.local import LocalEngine

linux = pytest.mark.skipif(sys.platform != "linux", reason="asks /proc")
FAILING = HEAD + 'seeds = 3\n[parameters]\nfail = "{}"\n'


def test_processes_find_what_one_process_finds(tmp_path, trace):
    spec = spec_of(tmp_path, FAILING.format("raise"))
    sweep(tmp_path / "inline", spec)
    store, progress = sweep(tmp_path / "s", spec, LocalEngine(tmp_path / "s", workers=2))
    assert (progress.done, progress.failed, progress.losses) == (2, 1, 0)
    assert stable_bytes(tmp_path / "inline") == stable_bytes(store.folder)
    assert len(executions(trace)) == 3


@pytest.mark.parametrize(
    ("fail", "limit", "reason"),
    [
        ("hang", "seconds = 2.5", "took more than 2.5 s"),
        pytest.param("eat", "memory_gb = 0.3", "used more than 0.3 GB of memory", marks=linux),
    ],
)
def test_a_run_over_its_limits_fails_and_the_others_go_on(tmp_path, fail, limit, reason):
    spec = spec_of(tmp_path, FAILING.format(fail) + f"[limits]\n{limit}\n")
    store, progress = sweep(tmp_path / "s", spec, LocalEngine(tmp_path / "s", 1, spec.limits))
    assert (progress.done, progress.failed, progress.losses) == (2, 1, 0)
    assert store.failures(spec.runs) == {spec.runs[1].id: reason}


def test_a_run_that_takes_its_worker_down_fails_after_some_tries(tmp_path, trace, monkeypatch):
    monkeypatch.setattr(drive_module, "_MOST_LOSSES", 2)
    spec = spec_of(tmp_path, FAILING.format("die"))
    store, progress = sweep(tmp_path / "s", spec, LocalEngine(tmp_path / "s", 1))
    assert (progress.done, progress.failed, progress.losses) == (2, 1, 2)
    assert store.failures(spec.runs) == {spec.runs[1].id: "the worker died (SIGABRT), 2 times"}
    assert [len(executions(trace)[run.id]) for run in spec.runs] == [1, 2, 1]


def test_several_gpus_take_several_packs(tmp_path, monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    lanes = HEAD.replace("PROBE", "LANES")
    spec = spec_of(tmp_path, lanes + "seeds = 6\n[parameters]\nsleep = 0.2\n[grid]\nscale = [1, 2]\n")
    engine = LocalEngine(tmp_path / "s", workers=5, gpus=["7", "8"])
    assert (engine.gpus, engine.free()) == (2, 2)
    store, progress = sweep(tmp_path / "s", spec, engine)
    assert progress.done == 12
    lanes = [line.split() for line in (store.folder / "lanes").read_text().splitlines()]
    assert {gpu for gpu, *_ in lanes} == {"7", "8"}
    ids = [run.id for run in spec.runs]
    assert sorted(ids.index(together[0]) for _, *together in lanes) == [0, 4, 6, 10]
    assert sorted(len(together) for _, *together in lanes) == [2, 2, 4, 4]
    assert [store.finished(run).provenance["together"] for run in spec.runs] == [4, 4, 4, 4, 2, 2] * 2
    assert "CUDA_VISIBLE_DEVICES" not in os.environ  # of the driver


def test_a_worker_finds_its_gpu_and_no_other_in_its_environment(monkeypatch):
    for name in ("JAX_PLATFORMS", "XLA_PYTHON_CLIENT_PREALLOCATE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3")
    before = dict(os.environ)
    with local._environment("3"):
        assert os.environ["CUDA_VISIBLE_DEVICES"] == "3"
        assert os.environ["JAX_PLATFORMS"] == "cuda,cpu"  # JAX fails if the first cannot be had
        assert os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] == "false"
        assert os.environ.get("OMP_NUM_THREADS") == before.get("OMP_NUM_THREADS")
    assert dict(os.environ) == before
    with local._environment(None):
        assert os.environ["JAX_PLATFORMS"] == "cpu"
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "true")
    with local._environment("3"):
        assert os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] == "true"  # what the user chose


@pytest.mark.parametrize(
    ("environment", "listed", "found"),
    [
        ({}, "0\n1\n", ["0", "1"]),
        ({}, None, []),
        ({"CUDA_VISIBLE_DEVICES": "2, GPU-8a1f"}, "0\n1\n2\n", ["2", "GPU-8a1f"]),
        ({"CUDA_VISIBLE_DEVICES": ""}, "0\n", []),
        ({"CUDA_VISIBLE_DEVICES": "1,-1,0"}, "0\n1\n", ["1"]),
        ({"JAX_PLATFORMS": "cpu"}, "0\n", []),
    ],
)
def test_gpus_are_those_that_jax_may_use(monkeypatch, environment, listed, found):
    for name in ("JAX_PLATFORMS", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(machine, "_is_installed", lambda plugin: plugin == "xla_cuda13")
    monkeypatch.setattr(machine.shutil, "which", lambda name: None if listed is None else f"/usr/bin/{name}")
    answer = subprocess.CompletedProcess([], 0, listed, "")
    monkeypatch.setattr(machine.subprocess, "run", lambda *_, **__: answer)
    assert machine.gpus() == found
    monkeypatch.setattr(machine, "_is_installed", lambda plugin: False)
    assert machine.gpus() == []


def test_what_runs_print_is_kept_apart(tmp_path, capfd, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for name in ("OMP_NUM_THREADS", "JAX_COMPILATION_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    spec = spec_of(tmp_path, HEAD.replace("PROBE", "TALK"))
    store, _ = sweep(tmp_path / "s", spec, LocalEngine(tmp_path / "s", 1))
    log = (store.folder / "log.txt").read_text().replace("\n", " ")
    assert "said and warned" in log
    assert f"OMP_NUM_THREADS=1 JAX_COMPILATION_CACHE_DIR={tmp_path}/rasf/jax-" in log
    assert "said" not in "".join(capfd.readouterr())


def test_workers_that_cannot_start_stop_the_sweep(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "multiprocessing.spawn.get_command_line", lambda **_: [sys.executable, "-c", "import sys; sys.exit(4)"]
    )
    with pytest.raises(ValueError, match=r"workers .*\(exit code 4\)"):
        sweep(tmp_path / "s", spec_of(tmp_path, HEAD), LocalEngine(tmp_path / "s", 1))


def test_an_engine_needs_a_worker(tmp_path):
    with pytest.raises(ValueError, match="workers must"):
        LocalEngine(Path(tmp_path), 0)
