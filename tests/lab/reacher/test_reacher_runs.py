"""Runs at toy size: what is measured, the sweep and its archive, resuming, the summary, libraries, the command line."""

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from importlib import resources
from itertools import chain
from pathlib import Path

import jax
import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from typer.testing import CliRunner

import rasf
from rasf.cli.main import app
from rasf.envs.gymnasium.single import open_environment
from rasf.envs.reacher.world import Reacher
from rasf.library.progress import ScalarLog
from rasf_lab.common import runs as common
from rasf_lab.common.archive import save_archive
from rasf_lab.common.results import shipped
from rasf_lab.paper import reproduce
from rasf_lab.paper.reacher import figures
from rasf_lab.paper.reacher import runs as reacher
from rasf_lab.paper.reacher.measures import kept
from rasf_lab.paper.reacher.runs import Options, Results, swept, unswept
from rasf_lab.paper.reacher.training import BETAS, TARGETS, LaneProgram, ReacherRun
from rasf_lab.sweep.engines import machine
from rasf_lab.sweep.runs import RunResult
from rasf_lab.sweep.spec import Spec
from rasf_lab.sweep.store import Finished, Store

SHIPPED = Path(__file__).parents[3] / "lab" / "results"
SHIPPED_RESULT = Path(str(resources.files("rasf_lab"))) / "shipped" / "reacher.json"
TOY = ReacherRun(
    "rasfc51",
    0.0,
    0,
    steps_per_task=20,
    evaluate_every=10,
    rollouts=1,
    final_rollouts=2,
    width=4,
    atoms=3,
    target_period=10,
    map_points=5,
    truth_rollouts=2,
    truth_steps=2,
)
SUCCESSOR = [TOY, replace(TOY, beta=-3.0)]
ALONE = [replace(TOY, agent="rac51", target=target) for target in TARGETS]
BATCHES = {"rasfc51": SUCCESSOR, "alone": ALONE}
VARYING = ("seconds", "peak_gb")


@pytest.fixture(scope="module")
def logged(tmp_path_factory):
    """What lanes of one program find, by run; the folder of their scalars; the program of the first."""
    folder = tmp_path_factory.mktemp("scalars")
    program = LaneProgram(SUCCESSOR, ScalarLog(folder))
    found = program.train() + LaneProgram(ALONE).train()
    return dict(zip(SUCCESSOR + ALONE, found, strict=True)), folder, program


@pytest.fixture(scope="module")
def found(logged):
    return logged[0]


def keep(found, folder, runs):
    """Put finished runs into the sweep of a folder, as its workers would."""
    store = Store(folder / "reacher-sweep")
    with store.driving():
        store.declare(Spec("reacher", tuple(map(swept, runs))))
    for run in runs:
        store.finish(
            swept(run), RunResult({"jax": "1.2.3"}, found[replace(run, library=False)]), {"device": "a device"}
        )


def archive(found, folder, runs):
    """Put finished runs into the archive of a folder, as `pack` does."""
    small = kept({run: found[run] for run in runs})
    finished = [Finished(swept(run), {}, {"device": "an old device"}, arrays) for run, arrays in small.items()]
    save_archive(folder / "reacher.npz", finished, {})


def arrays_of(run, folder):
    found = Results(folder).find([run])
    return found[run].arrays if found else None


def toy_batches(monkeypatch, batches):
    monkeypatch.setattr(reacher, "batches", lambda preset, seed: batches)


def test_everything_is_measured(found):
    evaluations = 1 + 4 * 2
    for run in SUCCESSOR:
        one = found[run]
        for name in ("return", "failures", "in_circle", "distance"):
            assert one[name].shape == (evaluations, 12)
            assert one[f"final_{name}"].shape == one[f"aware_{name}"].shape == (12,)
        assert one["tips"].shape == (12, 3, 500, 2)
        assert one["map_variance"].shape == one["map_truth"].shape
        assert one["map_variance"].shape[:2] == (4, 4)
        assert one["map_objective"].shape[:2] == (4, 12)
        assert (one["in_circle"] >= 0).all()
        assert (one["in_circle"] <= 1).all()
        assert one["risk_agree"] <= 1
        np.testing.assert_array_equal(one["seconds"], found[SUCCESSOR[0]]["seconds"])
        assert 0 < one["seconds"][0] < one["seconds"][1]
    neutral = found[SUCCESSOR[0]]
    np.testing.assert_allclose(neutral["aware_return"], neutral["final_return"])  # nothing to fade
    assert not np.array_equal(*(found[run]["return"] for run in SUCCESSOR))
    assert all(found[run]["return"].shape == (3, 1) for run in ALONE)


def test_scalars_for_tensorboard(logged):
    found, folder, _ = logged
    events = EventAccumulator(str(folder / "rasfc51" / "beta-3_seed0"))
    events.Reload()
    read = [event.value for event in events.Scalars("return/task_3")]
    np.testing.assert_allclose(read, found[SUCCESSOR[1]]["return"][:, 2], rtol=1e-5)


def test_without_tensorboard_there_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard.summary.writer.event_file_writer", None)
    with pytest.raises(ValueError, match=r"^TensorBoard"):
        ScalarLog(tmp_path)


@pytest.mark.slow  # test_reacher_fit.py does the same at a smaller size
def test_interrupted_lanes_go_on_to_the_same_numbers(found, tmp_path):
    ticks, checkpoint = [], tmp_path / "lanes.checkpoint"

    def tick():
        ticks.append(1)
        if len(ticks) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        LaneProgram(SUCCESSOR).train(checkpoint, tick, checkpoint_every_s=0.0)
    assert checkpoint.exists()
    for run, again in zip(SUCCESSOR, LaneProgram(SUCCESSOR).train(checkpoint), strict=True):
        for name in found[run].keys() - set(VARYING):
            np.testing.assert_array_equal(again[name], found[run][name], err_msg=name)


def test_some_targets_alone_are_those_lanes_of_all():
    some, whole = LaneProgram([ALONE[3], ALONE[7]]), LaneProgram(ALONE)
    assert some.agent == whole.agent
    pairs = jax.tree.map(lambda ours, theirs: (ours == theirs[np.array([3, 7])]).all(), some.configs, whole.configs)
    assert all(jax.tree.leaves(pairs))
    np.testing.assert_array_equal(some.tasks.weights, whole.tasks.weights[np.array([3, 7])])


# --- files


def test_packed_runs_are_summed_up_as_those_of_the_sweep(found, tmp_path, monkeypatch):
    fine = replace(TOY, map_points=61)
    every = found | {fine: found[TOY] | {"map_objective": found[TOY]["map_objective"] + 1}}
    toy_batches(monkeypatch, BATCHES | {"fine": [fine]})
    keep(every, tmp_path, [*SUCCESSOR, *ALONE, fine])
    before = reacher.summarise("quick", 0, tmp_path)
    sizes = []
    for _ in range(2):  # packed again, nothing changes
        reacher.pack(tmp_path, "quick")
        shutil.rmtree(tmp_path / "reacher-sweep", ignore_errors=True)
        sizes.append((tmp_path / "reacher.npz").read_bytes())
        after = reacher.summarise("quick", 0, tmp_path)
        first, second = (json.loads(one.save(tmp_path).read_text()) for one in (before, after))
        assert first == second
        assert after.arrays.keys() == before.arrays.keys() > set()
        for name, maps in before.arrays.items():
            np.testing.assert_array_equal(after.arrays[name], maps, err_msg=name)
    assert sizes[0] == sizes[1]
    assert "map_objective" not in arrays_of(TOY, tmp_path)
    assert "shown_tips" not in arrays_of(ALONE[1], tmp_path)


def test_packed_runs_are_judged_together_with_new_seeds(found, tmp_path, monkeypatch):
    more = [replace(run, seed=1) for run in SUCCESSOR]
    toy_batches(monkeypatch, BATCHES | {"more": more})
    archive(found, tmp_path, SUCCESSOR + ALONE)
    keep(dict(zip(more, (found[run] for run in SUCCESSOR), strict=True)), tmp_path, more)
    result = reacher.summarise("quick", 0, tmp_path)
    assert result.numbers["agents"]["rasfc51 -3"]["seeds"] == 2
    assert {"R11", "R15", "R18"} <= result.findings.keys()  # by maps, by distributions, by failures


def test_other_sizes_seeds_and_agents_are_other_runs(found, tmp_path):
    keep(found, tmp_path, SUCCESSOR)
    for change in ({"seed": 1}, {"atoms": 4}, {"agent": "sfc51"}, {"library": True}):
        assert arrays_of(replace(TOY, **change), tmp_path) is None
    assert unswept(swept(TOY)) == TOY
    assert swept(ReacherRun("rasfc51", -3.0, 2)).parameters == {"agent": "rasfc51", "beta": -3.0}


def test_what_is_finished_is_not_run_again(found, tmp_path, monkeypatch):
    toy_batches(monkeypatch, BATCHES)
    archive(found, tmp_path, ALONE)
    keep(found, tmp_path, SUCCESSOR)
    monkeypatch.setattr(LaneProgram, "train", lambda *_: pytest.fail("it ran again"))
    ticks = []
    result = reacher.run("quick", 0, lambda: ticks.append(1), tmp_path)
    assert len(ticks) == reacher.total_ticks("quick") == 14
    assert result.device == "a device, jax 1.2.3; an old device"
    assert result.numbers["batches"]["alone"]["lanes"] == 12


def test_the_driver_asks_for_no_device_and_tells_workers_where_scalars_go(found, tmp_path, monkeypatch):
    toy_batches(monkeypatch, BATCHES)
    archive(found, tmp_path, ALONE)

    def fail(spec, folder, tick, gpus):
        assert list(spec.runs) == [swept(run) for run in SUCCESSOR]
        assert gpus == ["0"]
        assert os.environ["RASF_TENSORBOARD"] == str(tmp_path / "scalars")
        raise ValueError("1 of 2 runs failed")

    monkeypatch.setattr(common, "run_all", fail)
    monkeypatch.setattr(machine, "gpus", lambda: ["0"])
    monkeypatch.setattr(jax, "devices", lambda *_: pytest.fail("it would take hold of the GPU"))
    with pytest.raises(ValueError, match="runs failed"):
        reacher.run("quick", 0, lambda: None, tmp_path, Options(tensorboard=tmp_path / "scalars"))
    assert "RASF_TENSORBOARD" not in os.environ


# --- the summary


def test_summary_and_figures_of_what_is_there(found, tmp_path, monkeypatch):
    toy_batches(monkeypatch, BATCHES | {"other": [replace(TOY, seed=1)]})
    keep(found, tmp_path, SUCCESSOR + ALONE)
    result = reacher.summarise("quick", 0, tmp_path)
    assert result.numbers["agents"]["rasfc51 -3"]["seeds"] == 1
    assert result.numbers["batches"].keys() == {"rasfc51", "alone"}
    assert set(result.findings) == {"R1", "R4", "R11", "R15", "R16", "R17", "R18"}
    assert all(finding.verdict == "not decided" for finding in result.findings.values())  # one seed
    drawn = {path.stem for path in reproduce.draw(result.save(tmp_path))}
    maps = {"figure_13", "figure_13_as_printed", "figure_14_truth"}  # figure_14 needs finer ones
    assert drawn == {"figure_2_reacher", "figure_6", "figure_10", "figures_11_12"} | maps


@pytest.mark.slow  # trains three programs
def test_runs_beyond_the_paper_are_judged_and_drawn_with_the_shipped_normaliser(tmp_path, monkeypatch):
    """As in `quick`: averse successor features learn neutral policies too, and both lead."""
    toy = replace(TOY, beyond=True, steps_per_task=32, evaluate_every=16, target_period=8)
    runs = [replace(toy, agent=agent, beta=beta) for agent in ("rasfdqn", "rac51") for beta in (-3.0, 0.0)]
    programs = [LaneProgram(some) for some in (runs[:1], runs[1:2], runs[2:])]
    assert [program.agent.policies for program in programs] == [8, 4, 1]
    assert [program.schedule.tasks for program in programs] == [8, 4, 4]
    np.testing.assert_array_equal(programs[0].configs.beta[0], [0.0] * 4 + [-6.0] * 4)
    kept = dict(zip(runs, chain(*(program.train() for program in programs)), strict=True))
    keep(kept, tmp_path, runs)
    toy_batches(monkeypatch, {"all": runs})
    result = reacher.summarise("quick", 0, tmp_path)
    assert set(result.findings) == {"R3", "R4"}
    assert result.findings["R3"].measured.startswith("RaSFDQN")
    assert result.numbers["normaliser"]["end"].tolist() == shipped()["reacher"].numbers["normaliser"]["end"]
    assert {"figure_2_reacher", "figure_4"} <= {path.stem for path in reproduce.draw(result.save(tmp_path))}
    library = programs[0].library(0, kept[runs[0]])
    assert library.agent == "rasfdqn"
    assert [policy.risk.beta for policy in library.policies] == [0.0] * 4 + [-6.0] * 4


@pytest.mark.parametrize(
    ("name", "sentence"), [("rasfc51", "also run the batch 'alone'"), ("alone", "also run another batch")]
)
def test_one_batch_is_kept_though_it_cannot_be_summed_up(found, tmp_path, monkeypatch, name, sentence):
    toy_batches(monkeypatch, BATCHES)
    keep(found, tmp_path, BATCHES[name])
    out = CliRunner().invoke(
        app, ["reproduce", "reacher", "--preset", "paper", "--batch", name, "--out", str(tmp_path)]
    )
    assert out.exit_code == 0
    assert "the runs are kept; to sum up" in out.output
    assert sentence in out.output
    assert not (tmp_path / "reacher.json").exists()


def test_the_shipped_result_has_what_is_missing_here():
    assert figures.figure_4(shipped()["reacher"]) is not None


def test_the_shipped_result_is_that_of_the_shipped_runs(tmp_path):
    result = reacher.summarise("paper", 0, SHIPPED)
    again, before = (json.loads(path.read_text()) for path in (result.save(tmp_path), SHIPPED_RESULT))
    assert {name.partition("/")[0] for name in result.arrays} == before["numbers"]["map_points"].keys()
    differ = {"date": None, "version": None}
    assert again | differ == before | differ


def test_shipped_runs_are_not_run_again(tmp_path, monkeypatch):
    shutil.copy(SHIPPED / "reacher.npz", tmp_path)
    monkeypatch.setattr(common, "run_all", lambda *_: pytest.fail("nothing is missing"))
    ticks, options = [], Options(only=("rasfc51-main", "alone"))
    result = reacher.run("paper", 0, lambda: ticks.append(1), tmp_path, options)
    assert len(ticks) == reacher.total_ticks("paper", options) == 20 + 120
    assert result.numbers["agents"]["rasfc51 -3"]["seeds"] == 10
    assert "NVIDIA H200" in result.device


def test_the_papers_batches_have_every_beta_and_seed_once():
    paper = list(chain(*reacher.batches("paper", 0).values()))
    of_agents = {"rasfc51": 110, "rac51": 300 + 105, "sfdqn": 35, "sfdqn-residual": 23, "rac51-relabelled": 20}
    assert Counter(run.agent for run in paper) == of_agents
    assert len({swept(run).id for run in paper}) == len(paper)
    averse = {(run.beta, run.seed) for run in paper if run.agent == "rasfc51"}
    half = {(beta, seed) for beta in (-0.5, -1.5) for seed in range(5)}
    more = {(-4.0, seed) for seed in range(10, 20)}
    assert averse == {(beta, seed) for beta in BETAS for seed in range(10)} | half | more


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--preset", "quick", "--batch", "nonsense"], "batch must be one of rasfdqn, rac51"),
        (["--preset", "quick", "--device", "gpu"], "jax finds no gpu here"),
        (["--preset", "paper"], "the reacher at the paper's size needs a GPU"),
        (["--preset", "quick", "--batch", "rac51", "--library", "x.rasf"], "library needs a batch"),
    ],
)
def test_bad_options_end_in_one_sentence(arguments, sentence, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out = CliRunner().invoke(app, ["reproduce", "reacher", "--out", str(tmp_path), *arguments])
    assert isinstance(out.exception, ValueError)
    assert sentence in str(out.exception)
    assert not list(tmp_path.iterdir())


# --- libraries


@pytest.mark.slow  # half a minute; `test_reacher_sweep` has the workers, the test without gymnasium the library
def test_reproduce_finds_the_same_and_ends_in_a_policy_library(logged, tmp_path, monkeypatch):
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")  # of the worker
    found, _, program = logged
    toy_batches(monkeypatch, BATCHES)
    monkeypatch.setattr(machine, "gpus", lambda: ["0"])  # so that lanes are one job; its worker does it on a core
    archive(found, tmp_path, ALONE)
    library, scalars = tmp_path / "toy.rasf", tmp_path / "scalars"
    arguments = ["--preset", "quick", "--out", str(tmp_path), "--tensorboard", str(scalars), "--library", str(library)]
    CliRunner().invoke(app, ["reproduce", "reacher", *arguments], catch_exceptions=False)
    store = Store(tmp_path / "reacher-sweep")
    assert [run.parameters["beta"] for run in store.runs()] == [0.0, -3.0]  # none of `alone`
    assert "rasfc51, lanes 2: 8 of 8 chunks of training are done" in (store.folder / "log.txt").read_text()
    assert (scalars / "rasfc51" / "beta-3_seed0").exists()
    for run in SUCCESSOR:  # the second also kept its policies
        arrays = arrays_of(run, tmp_path)
        assert arrays.keys() == found[run].keys()
        for name, values in found[run].items():
            assert (arrays[name].dtype, arrays[name].shape) == (values.dtype, values.shape), name
            if name not in VARYING:
                np.testing.assert_array_equal(arrays[name], values, err_msg=name)
    _check_library(rasf.load(library), program)
    monkeypatch.setattr(common, "run_all", lambda spec, *_: [pytest.fail(str(run)) for run in missing(spec, store)])
    CliRunner().invoke(app, ["reproduce", "reacher", *arguments[:4]], catch_exceptions=False)


def missing(spec, store):
    return [run for run in spec.runs if not store.is_finished(run)]


def _check_library(library, program):
    """It is of the environment it says, acts as the trained networks do, and is evaluated like any other."""
    assert library.agent == "rasfc51"
    assert [policy.risk for policy in library.policies] == [rasf.MeanVariance(-6.0)] * 4
    np.testing.assert_array_equal([policy.w for policy in library.policies], Reacher().tasks((0, 1, 2, 3)))
    env = open_environment("rasf/Reacher-v0")
    assert library.environment == env.describe()
    assert library.history["return"].shape == library.history["failures"].shape == (4,)
    assert (library.history["failures"] >= 0).all()
    assert (np.abs(library.history["return"]) <= 20 * 4).all()
    obs = np.random.default_rng(0).normal(size=(40, 4)).astype(np.float32)
    w = Reacher().tasks((9,))[0]
    networks = jax.tree.map(lambda part: part[1], program.networks)
    scores = program.tester.scores(program.tester.task_heads(networks, w), obs, None, rasf.MeanVariance(-6.0))
    ours = library.scores(obs, w, rasf.MeanVariance(-6.0))
    np.testing.assert_allclose(ours.values, scores, rtol=2e-2, atol=2e-2)  # kept in half precision
    np.testing.assert_array_equal(library.act(obs, w, rasf.MeanVariance(-6.0)), ours.action)
    env.close()
    report = library.evaluate("rasf/Reacher-v0", w, rasf.MeanVariance(-6.0), episodes=2)
    assert len(report.returns) == 2
    assert report.failures is not None


@pytest.mark.slow  # tests/rasf/library/networks/test_train_networks.py does the same without the lab
def test_training_and_its_library_need_no_gymnasium(tmp_path):
    """As on a machine with a GPU and little else."""
    code = f"""
import sys
for name in ("gymnasium", "mo_gymnasium", "mujoco", "pydantic"):
    sys.modules[name] = None
import rasf.cli.main
from rasf_lab.paper import reproduce
from rasf_lab.paper.reacher import figures, runs
from rasf_lab.paper.reacher.training import LaneProgram, ReacherRun
assert reproduce.total_ticks("reacher", "quick") == 12
program = LaneProgram([{replace(TOY, agent="sfdqn", evaluate_every=20)!r}])
program.library(0, program.train()[0]).save({str(tmp_path / "made.rasf")!r})
"""
    environment = os.environ | {"JAX_PLATFORMS": "cpu"}
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300, env=environment)
    library = rasf.load(tmp_path / "made.rasf")
    assert library.agent == "sfdqn"
    assert library.environment == open_environment("rasf/Reacher-v0").describe()
    assert "gymnasium" not in library.provenance["versions"]
