"""Batches at toy size: what is measured, files, resuming, the summary, the command line."""

import shutil
import sys
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest
from safetensors import safe_open
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from typer.testing import CliRunner

from quick_compilation import quick_compilation  # noqa: F401
from rasf.cli.main import app
from rasf.deep import checkpoint
from rasf.experiments import reproduce
from rasf.experiments.common.results import shipped
from rasf.experiments.reacher import batches as reacher_batches
from rasf.experiments.reacher import experiment as reacher
from rasf.experiments.reacher import figures as reacher_figures
from rasf.experiments.reacher.batches import Batch, Size
from rasf.experiments.reacher.runs import run_batch
from rasf.experiments.reacher.tensorboard_log import ScalarLog
from rasf.sweep.engines import machine
from rasf.sweep.store import Store

TOY = Size(
    steps_per_task=20,
    evaluate_every=10,
    rollouts=1,
    final_rollouts=2,
    widths=(4, 4),
    atoms=3,
    target_period=10,
    map_points=5,
    truth_rollouts=2,
    truth_steps=2,
)
SUCCESSOR = Batch("rasfc51", "rasfc51", (0.0, -3.0), (0,), TOY)
ALONE = Batch("alone", "rac51", (0.0,), (0,), TOY, alone=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs")
    log = ScalarLog(path / "scalars")
    run_batch(SUCCESSOR, path, log=log)
    run_batch(ALONE, path)
    return path


def test_everything_is_measured(folder):
    found = reacher_batches.load(SUCCESSOR, folder)
    lanes, evaluations = 2, 1 + 4 * 2
    for name in ("return", "failures", "in_circle", "distance"):
        assert found[name].shape == (lanes, evaluations, 12)
        assert found[f"final_{name}"].shape == found[f"aware_{name}"].shape == (lanes, 12)
    assert found["tips"].shape == (lanes, 12, 3, 500, 2)
    assert found["map_variance"].shape == found["map_truth"].shape
    assert found["map_variance"].shape[:3] == (lanes, 4, 4)
    assert found["map_objective"].shape[:3] == (lanes, 4, 12)
    assert (found["in_circle"] >= 0).all()
    assert (found["in_circle"] <= 1).all()
    np.testing.assert_allclose(found["aware_return"][0], found["final_return"][0])  # neutral: nothing to fade
    assert found["risk_agree"][1] <= 1
    alone = reacher_batches.load(ALONE, folder)
    np.testing.assert_array_equal(alone["target"], np.arange(12))
    assert alone["return"].shape == (12, 3, 1)


def test_a_finished_batch_is_not_run_again(folder, monkeypatch):
    monkeypatch.setattr("rasf.deep.fit.fit", lambda *_, **__: pytest.fail("it ran again"))
    ticks = []
    run_batch(SUCCESSOR, folder, tick=lambda: ticks.append(1))
    assert len(ticks) == reacher_batches.ticks(SUCCESSOR) == 8


def test_the_file_of_another_batch_does_not_count(folder):
    assert reacher_batches.load(replace(SUCCESSOR, seeds=(1,)), folder) is None
    assert reacher_batches.load(replace(SUCCESSOR, name="other"), folder) is None


@pytest.mark.parametrize("other", [{"seeds": (1,)}, {"size": replace(TOY, atoms=4)}])
def test_another_preset_or_seed_does_not_overwrite_what_is_there(folder, tmp_path, monkeypatch, other):
    monkeypatch.setattr(reacher, "batches", lambda preset, seed: [replace(SUCCESSOR, **other), ALONE])
    kept = shutil.copytree(folder, tmp_path / "reacher-runs")
    before = (kept / "rasfc51.safetensors").read_bytes()
    out = CliRunner().invoke(app, ["reproduce", "reacher", "--preset", "quick", "--out", str(tmp_path)])
    assert "rasfc51.safetensors holds another preset, seed or version of the batch 'rasfc51'" in str(out.exception)
    assert (kept / "rasfc51.safetensors").read_bytes() == before
    assert not (tmp_path / "reacher-sweep").exists()


def test_a_file_cut_off_is_not_there(folder, tmp_path):
    whole = (folder / "rasfc51.safetensors").read_bytes()
    (tmp_path / "rasfc51.safetensors").write_bytes(whole[:-1])
    assert reacher_batches.load(SUCCESSOR, tmp_path) is None
    assert not reacher_batches.is_taken(SUCCESSOR, tmp_path)


def test_networks_are_kept_in_half_precision(folder):
    path = folder / "rasfc51_-3.networks"
    assert checkpoint.describe(path)["beta"] == -3.0


@pytest.mark.slow  # tests/deep/test_fit.py does the same at a smaller size
def test_an_interrupted_batch_goes_on_to_the_same_numbers(folder, tmp_path):
    ticks = []

    def tick():
        ticks.append(1)
        if len(ticks) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_batch(SUCCESSOR, tmp_path, tick=tick, checkpoint_every_s=0.0)
    assert (tmp_path / "rasfc51.checkpoint").exists()
    again = run_batch(SUCCESSOR, tmp_path, checkpoint_every_s=0.0)
    undisturbed = reacher_batches.load(SUCCESSOR, folder)
    for name, values in undisturbed.items():
        if name not in ("seconds", "peak_gb"):
            np.testing.assert_array_equal(again[name], values, err_msg=name)
    assert not (tmp_path / "rasfc51.checkpoint").exists()


def test_scalars_for_tensorboard(folder):
    (lane,) = (folder / "scalars" / "rasfc51").glob("lane-1*")
    events = EventAccumulator(str(lane))
    events.Reload()
    read = [event.value for event in events.Scalars("return/task_3")]
    np.testing.assert_allclose(read, reacher_batches.load(SUCCESSOR, folder)["return"][1, :, 2], rtol=1e-5)


def test_reproduce_finds_what_a_batch_run_here_finds(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(reacher, "batches", lambda preset, seed: [SUCCESSOR, ALONE])
    monkeypatch.setattr(machine, "gpus", lambda: ["0"])  # so that a batch is one job; workers do it on a core
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    monkeypatch.setenv("JAX_DISABLE_MOST_OPTIMIZATIONS", "true")  # as quick_compilation does here
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", jax.config.jax_compilation_cache_dir)
    monkeypatch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")
    kept = tmp_path / "reacher-runs"
    kept.mkdir()
    shutil.copy(folder / "alone.safetensors", kept)  # is there already
    arguments = ["--preset", "quick", "--out", str(tmp_path), "--tensorboard", str(tmp_path / "scalars")]
    CliRunner().invoke(app, ["reproduce", "reacher", *arguments], catch_exceptions=False)
    found, expected = (reacher_batches.load(SUCCESSOR, where) for where in (kept, folder))
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        assert (found[name].dtype, found[name].shape) == (values.dtype, values.shape), name
        if name not in ("seconds", "peak_gb"):
            np.testing.assert_array_equal(found[name], values, err_msg=name)
    assert 0 < found["seconds"][0] < found["seconds"][1]
    networks = "rasfc51_-3.networks"
    with safe_open(kept / networks, "numpy") as ours, safe_open(folder / networks, "numpy") as theirs:
        assert set(ours.keys()) == set(theirs.keys())
        for name in theirs.keys():  # noqa: SIM118
            np.testing.assert_array_equal(ours.get_tensor(name), theirs.get_tensor(name), err_msg=name)
    assert len(list((tmp_path / "scalars" / "rasfc51").glob("lane-*_beta-3_seed0"))) == 1
    store = Store(tmp_path / "reacher-sweep")
    assert [run.parameters["beta"] for run in store.runs()] == [0.0, -3.0]  # none of `alone`
    assert "rasfc51, lanes 2: 8 of 8 chunks of training are done" in (store.folder / "log.txt").read_text()


def test_a_choice_of_targets_is_those_lanes_of_the_batch():
    some, whole = (reacher_batches.prepare(batch) for batch in (replace(ALONE, targets=(3, 7)), ALONE))
    np.testing.assert_array_equal(some.targets, [3, 7])
    assert some.agent == whole.agent
    pairs = jax.tree.map(lambda ours, theirs: (ours == theirs[np.array([3, 7])]).all(), some.plans, whole.plans)
    assert all(jax.tree.leaves(pairs))
    np.testing.assert_array_equal(some.tasks.weights, whole.tasks.weights[np.array([3, 7])])
    assert "targets" in replace(ALONE, targets=(3, 7)).describe()["batch"]
    assert "targets" not in ALONE.describe()["batch"]  # files made before there was a choice stay good


def test_without_tensorboard_there_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard.summary.writer.event_file_writer", None)
    with pytest.raises(ValueError, match="TensorBoard is not installed; pip install"):
        ScalarLog(tmp_path)


def test_summary_and_figures_of_what_is_there(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(reacher, "batches", lambda preset, seed: [SUCCESSOR, ALONE])
    result = reacher.summarise("quick", 0, folder)
    assert result.numbers["agents"]["rasfc51 -3"]["seeds"] == 1
    assert set(result.findings) == {"R1", "R4", "R11", "R15"}
    assert all(finding.verdict == "not decided" for finding in result.findings.values())  # one seed
    drawn = {path.stem for path in reproduce.draw(result.save(tmp_path))}
    assert drawn == {"figure_2_reacher", "figure_6", "figure_10", "figures_11_12", "figure_13", "figure_14"}


@pytest.mark.parametrize(
    ("batch", "sentence"), [(SUCCESSOR, "run the batch 'alone' too"), (ALONE, "run an agent's batch too")]
)
def test_one_batch_is_kept_though_it_cannot_be_summed_up(folder, tmp_path, monkeypatch, batch, sentence):
    monkeypatch.setattr(reacher, "batches", lambda preset, seed: [batch])
    shutil.copytree(folder, tmp_path / "reacher-runs")
    out = CliRunner().invoke(app, ["reproduce", "reacher", "--preset", "quick", "--out", str(tmp_path)])
    assert out.exit_code == 0
    assert "the runs are kept; to sum up" in out.output
    assert sentence in out.output
    assert not (tmp_path / "reacher.json").exists()


def test_the_shipped_result_has_what_is_missing_here():
    assert reacher_figures.figure_4(shipped()["reacher"]) is not None


def test_the_shipped_result_is_that_of_the_runs():
    result = shipped()["reacher"]
    runs = Path(__file__).parents[2] / "runs" / "reacher-runs"
    assert reacher.summarise("paper", 0, runs).findings == result.findings


def test_names_of_batches_are_unique_and_lanes_of_rasfc51_fit_a_gpu():
    for preset in ("quick", "paper"):
        names = [batch.name for batch in reacher.batches(preset, 0)]
        assert len(set(names)) == len(names)
    paper = [batch for batch in reacher.batches("paper", 0) if batch.agent == "rasfc51"]
    assert all(len(batch.betas) * len(batch.seeds) <= 20 for batch in paper)  # twenty take 5 GB and half an hour
    lanes = {(beta, seed) for batch in paper for beta in batch.betas for seed in batch.seeds}
    assert lanes == {(beta, seed) for beta in reacher.RISKS for seed in range(10)}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--preset", "quick", "--batch", "nonsense"], "batch must be one of rasfc51"),
        (["--preset", "quick", "--device", "gpu"], "jax finds no gpu here"),
        (["--preset", "paper"], "the reacher at the paper's size wants a GPU"),
    ],
)
def test_bad_options_end_in_one_sentence(arguments, sentence, tmp_path):
    out = CliRunner().invoke(app, ["reproduce", "reacher", "--out", str(tmp_path), *arguments])
    assert isinstance(out.exception, ValueError)
    assert sentence in str(out.exception)
    assert not list(tmp_path.iterdir())
