"""The reacher as a sweep, at toy size: `kill -9` in the middle, batches gathered from runs, files that are there."""

import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest
from reacher_often import OFTEN, OFTEN_NAME

from quick_compilation import quick_compilation  # noqa: F401
from rasf.experiments.common import many_runs
from rasf.experiments.reacher import batches as reacher_batches
from rasf.experiments.reacher import experiment as reacher
from rasf.experiments.reacher import reacher_sweep
from rasf.experiments.reacher.batches import Batch, Size, trials
from rasf.experiments.reacher.kind import runs_of
from rasf.sweep.drive import drive, jobs_of
from rasf.sweep.engines.local import LocalEngine
from rasf.sweep.runs import Outcome, Run
from rasf.sweep.spec import Spec
from rasf.sweep.store import Store

OURS = Path(__file__).parents[2] / "runs" / "reacher-runs"
TOY = Size(
    steps_per_task=20,
    evaluate_every=10,
    rollouts=1,
    final_rollouts=2,
    widths=(4, 4),
    atoms=3,
    target_period=10,
)
POINTS = Batch("sfdqn", "sfdqn", (0.0,), (0, 1), replace(TOY, evaluate_every=20), bootstrap="gpi")
VARYING = ("seconds", "peak_gb")


@pytest.fixture(scope="module", autouse=True)
def _workers_compile_as_we_do(quick_compilation):  # noqa: F811
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAX_DISABLE_MOST_OPTIMIZATIONS", "true")
        patch.setenv("JAX_COMPILATION_CACHE_DIR", jax.config.jax_compilation_cache_dir)
        patch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")
        yield


class Killing(LocalEngine):
    """Kills its worker when the first checkpoint is there."""

    killed = False

    def wait(self, seconds):
        if not self.killed and list(self._folder.glob("scratch/*/lanes.checkpoint")):
            os.kill(self._workers[0].process.pid, signal.SIGKILL)
            self.killed = True
        return super().wait(min(seconds, 0.02))


@pytest.mark.slow  # tests/sweep/test_kills.py kills quicker runs, tests/deep/test_fit.py resumes smaller ones
def test_a_batch_killed_in_the_middle_goes_on_to_the_same_arrays(tmp_path):
    runs = [Run(OFTEN_NAME, run.parameters, run.seed) for run in runs_of(POINTS)]
    spec, store = Spec("toy", tuple(runs)), Store(tmp_path / "sweep")
    with store.driving():
        store.declare(spec)
        engine = Killing(store.folder, workers=1)
        progress = drive(spec, store, engine, jobs_of(spec, store, gpus=1))
    assert (progress.done, progress.losses, progress.failed) == (2, 1, 0)
    log = (store.folder / "log.txt").read_text()
    assert log.index("begins with 2 lanes") < log.index("goes on with 2 lanes")
    assert log.count("begins") == log.count("goes on") == 1
    undisturbed = OFTEN.execute(runs, tmp_path / "scratch" / "job")
    for run, expected in zip(runs, undisturbed, strict=True):
        found = store.finished(run)
        assert found.scalars == expected.scalars
        assert found.arrays.keys() == expected.arrays.keys()
        for name in expected.arrays.keys() - set(VARYING):
            np.testing.assert_array_equal(found.arrays[name], expected.arrays[name], err_msg=name)


def some_arrays(batch, rng):
    """Arrays such as a lane has them."""
    draws = {"return": rng.normal(size=(3, 12)), "risk_agree": rng.normal(size=()), "final_return": rng.normal(size=12)}
    tips = rng.normal(size=(12, 3, 5, 2)).astype(np.float16)
    return draws | {"tips": tips, "seconds": rng.random(2), "peak_gb": rng.random(1)}


def fill(store, batch):
    """Finish all runs of a batch without running them; their arrays."""
    rng = np.random.default_rng(0)
    found = [some_arrays(batch, rng) for _ in trials(batch)]
    for run, arrays in zip(runs_of(batch), found, strict=True):
        store.finish(run, Outcome({}, arrays), {"device": "a device"})
    return found


def test_a_batch_is_gathered_when_its_last_run_is_finished(tmp_path):
    batch, store = replace(POINTS, betas=(0.0, -3.0), seeds=(7, 2)), Store(tmp_path / "reacher-sweep")
    found = fill(store, batch)
    last = store._path(runs_of(batch)[-1])
    shutil.move(last, tmp_path / "last")
    reacher_sweep.gather(batch, store, tmp_path)
    assert reacher_batches.load(batch, tmp_path) is None
    shutil.move(tmp_path / "last", last)
    reacher_sweep.gather(batch, store, tmp_path)
    arrays = reacher_batches.load(batch, tmp_path)
    np.testing.assert_array_equal(arrays["return"], np.stack([one["return"] for one in found]))
    assert arrays["risk_agree"].shape == (4,)
    np.testing.assert_array_equal(arrays["tips"], np.stack([found[0]["tips"], found[2]["tips"]]))  # of seed 7
    np.testing.assert_allclose(arrays["seconds"], sum(one["seconds"] for one in found))
    assert arrays["peak_gb"] == max(one["peak_gb"] for one in found)
    assert arrays["beta"].tolist() == [0.0, 0.0, -3.0, -3.0]
    assert arrays["seed"].tolist() == [7, 2, 7, 2]
    assert arrays["target"].tolist() == [-1] * 4
    assert reacher_batches.device_of(batch, tmp_path).startswith("a device, jax ")


def test_what_is_complete_is_gathered_though_other_runs_failed_and_the_driver_asks_for_no_device(tmp_path, monkeypatch):
    other = replace(POINTS, name="other", bootstrap="own")
    fill(Store(tmp_path / "reacher-sweep"), POINTS)

    def fail(spec, folder, tick, gpus):
        assert {run.id for run in spec.runs} == {run.id for batch in (POINTS, other) for run in runs_of(batch)}
        assert gpus == ("0",)
        assert os.environ["RASF_TENSORBOARD"] == str(tmp_path / "scalars")
        raise ValueError("2 of 4 runs failed")

    monkeypatch.setattr(many_runs, "run_all", fail)
    monkeypatch.setattr(jax, "devices", lambda *_: pytest.fail("it would take hold of the GPU"))
    with pytest.raises(ValueError, match="2 of 4 runs failed"):
        reacher_sweep.run_batches([POINTS, other], tmp_path, gpus=("0",), tensorboard=tmp_path / "scalars")
    assert "RASF_TENSORBOARD" not in os.environ
    assert reacher_batches.load(POINTS, tmp_path / "reacher-runs") is not None
    assert reacher_batches.load(other, tmp_path / "reacher-runs") is None


def test_batches_of_earlier_versions_stay_good(tmp_path, monkeypatch):
    kept = tmp_path / "reacher-runs"
    shutil.copytree(OURS, kept)
    found = [batch.name for batch in reacher.batches("paper", 0) if reacher_batches.load(batch, kept) is not None]
    assert {"rasfc51-main", "alone", "rac51", "sfdqn"} <= set(found)
    monkeypatch.setattr(many_runs, "run_all", lambda *_: pytest.fail("nothing is missing"))
    ticks = []
    options = reacher.Options(only=("rasfc51-main", "alone"))
    result = reacher.run("paper", 0, lambda: ticks.append(1), tmp_path, options)
    assert len(ticks) == reacher.total_ticks("paper", options) == 20 + 120
    assert result.numbers["agents"]["rasfc51 -3"]["seeds"] == 10
    assert "NVIDIA H200" in result.device
