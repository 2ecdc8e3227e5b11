"""Kinds of `rasf.sweep`: what they refuse, how they pack, and that the shipped sweep files are the paper's runs."""

import math
from collections import defaultdict

import numpy as np
import pytest

from quick_compilation import quick_compilation  # noqa: F401
from rasf.experiments.four_room import experiment as four_room
from rasf.experiments.four_room import runs as four_room_runs
from rasf.experiments.kinds import KINDS, shipped_sweeps
from rasf.experiments.reacher import experiment as reacher
from rasf.experiments.reacher.batches import Batch, Size
from rasf.experiments.reacher.kind import LANES, MANY_LANES, REACHER, runs_of
from rasf.experiments.reacher.runs import run_batch
from rasf.sweep.runs import Run, kind_of
from rasf.sweep.spec import read_spec

PAPER = four_room.PRESETS["paper"]
GOOD = {
    "four-room": {"algorithm": "sfql", "risk": -1.0, "tasks": 2, "steps": 10},
    "reacher": {"agent": "rasfc51", "beta": -3.0},
}


def ids(runs):
    return {four_room_runs.swept(run).id for run in runs}


def swept_ids(name):
    spec = read_spec(shipped_sweeps()[name], KINDS)
    assert spec.name == name
    return {run.id for run in spec.runs}


def test_shipped_sweeps_are_what_reproduce_runs():
    runs = four_room.successor_runs(PAPER, 0)
    for noise in ("independent", "shared"):
        expected = ids(run for (kind, _), group in runs.items() if kind == noise for run in group)
        assert swept_ids(f"four-room-{noise}") == expected
    tuning = four_room.tuning_runs(PAPER).values()
    assert swept_ids("four-room-tuning") == ids(run for group in tuning for run in group)
    planned = [run.id for batch in reacher.batches("paper", 0) for run in runs_of(batch)]
    shipped = [key for name in shipped_sweeps() if name.startswith("reacher") for key in swept_ids(name)]
    assert sorted(shipped) == sorted(planned)
    assert len(set(planned)) == len(planned) == 50 + 120 + 50 + 30 + 5 + 20


@pytest.mark.parametrize("name", KINDS)
def test_good_parameters_pass(name):
    kind_of(KINDS[name]).check(GOOD[name])
    assert isinstance(kind_of(KINDS[name]).uses_gpus, bool)


@pytest.mark.parametrize(
    ("name", "changes", "sentence"),
    [
        ("four-room", {"nope": 1}, "nope is unknown"),
        ("four-room", {"algorithm": "dqn"}, "algorithm must be one of sfql"),
        ("four-room", {"noise": "none"}, "noise must be one of"),
        ("four-room", {"tasks": 0}, "tasks must be a whole number from 1 on"),
        ("four-room", {"steps": 2.5}, "steps must be a whole number"),
        ("four-room", {"risk": "high"}, "risk must be a number"),
        ("four-room", {"risk": None}, "risk is missing"),
        ("reacher", {"nope": 1}, "nope is unknown"),
        ("reacher", {"agent": "ppo"}, "agent must be one of"),
        ("reacher", {"beta": "x"}, "beta must be a finite number"),
        ("reacher", {"beta": math.nan}, "beta must be a finite number"),
        ("reacher", {"beta": None}, "beta is missing"),
        ("reacher", {"width": 0}, "width must be a positive whole number"),
        ("reacher", {"atoms": True}, "atoms must be a positive whole number"),
        ("reacher", {"bootstrap": "both"}, "bootstrap must be one of"),
        ("reacher", {"agent": "rac51", "target": 12}, "target must be a whole number from 0 to 11"),
        ("reacher", {"agent": "rac51", "target": True}, "target must be a whole number"),
        ("reacher", {"target": 3}, "target is for the agents c51 and rac51 only"),
    ],
)
def test_bad_parameters_are_refused(name, changes, sentence):
    parameters = {key: value for key, value in (GOOD[name] | changes).items() if value is not None}
    with pytest.raises(ValueError, match=sentence):
        kind_of(KINDS[name]).check(parameters)


def lanes(agent, betas, seeds):
    return [Run(KINDS["reacher"], {"agent": agent, "beta": beta}, seed) for beta in betas for seed in seeds]


def check_jobs(jobs, runs):
    """Every run in one job, every job every combination of its betas, seeds and targets."""
    assert sorted(run.id for job in jobs for run in job) == sorted(run.id for run in runs)
    for job in jobs:
        differing = [{run.parameters.get(name) for run in job} for name in ("beta", "target")] + [{r.seed for r in job}]
        assert len(job) == np.prod([len(values) for values in differing])
        rest = {tuple(sorted((n, v) for n, v in run.parameters.items() if n not in ("beta", "target"))) for run in job}
        assert len(rest) == 1


def test_runs_that_differ_in_beta_and_seed_only_share_a_gpu_job():
    runs = lanes("rasfc51", (0.0, -1.0, -2.0), range(10)) + lanes("rac51", (0.0,), range(25))
    jobs = REACHER.pack(runs, gpus=1)
    assert sorted(map(len, jobs)) == [10, 20, 25]
    check_jobs(jobs, runs)
    assert [len(job) for job in REACHER.pack(runs, gpus=0)] == [1] * len(runs)


@pytest.mark.parametrize(
    ("gpus", "rasfc51"), [(1, [20, 20, 10]), (2, [20, 20, 10]), (3, [10] * 5), (8, [7] * 5 + [6, 6, 3]), (50, [1] * 50)]
)
def test_the_papers_batches_on_gpus(gpus, rasfc51):
    runs = [run for batch in reacher.batches("paper", 0) for run in runs_of(batch)]
    jobs = REACHER.pack(runs, gpus)
    check_jobs(jobs, runs)
    sizes = defaultdict(list)
    for job in jobs:
        sizes[job[0].parameters["agent"], "target" in job[0].parameters].append(len(job))
    assert dict(sizes) == {
        ("rasfc51", False): rasfc51,  # spread over the GPUs
        ("rac51", True): [MANY_LANES],
        ("rac51", False): [50],
        ("sfdqn", False): [10, 10, 10],
        ("sfdqn-residual", False): [5],
        ("rac51-relabelled", False): [20],
    }
    assert max(sizes["rasfc51", False]) <= LANES
    assert REACHER.pack(runs, gpus) == jobs


def test_a_batch_of_unequal_widths_is_no_sweep():
    with pytest.raises(ValueError, match="widths must"):
        runs_of(Batch("x", "sfdqn", (0.0,), (0,), Size(widths=(4, 8))))


def test_uneven_leftovers_still_make_whole_batches():
    runs = lanes("rasfc51", (0.0,), (0, 1, 2)) + lanes("rasfc51", (-3.0,), (1, 2))
    assert sorted(len(job) for job in REACHER.pack(runs, gpus=1)) == [2, 3]


@pytest.mark.slow  # test_reacher_runs.py compares whole batches
def test_a_run_is_a_lane_of_the_batch(tmp_path):
    size = {"steps_per_task": 10, "evaluate_every": 10, "rollouts": 1, "final_rollouts": 2, "atoms": 3}
    size |= {"target_period": 10, "map_points": 5, "truth_rollouts": 2, "truth_steps": 2}
    parameters = {"agent": "sfdqn", "width": 4, **size}
    runs = [Run(KINDS["reacher"], parameters | {"beta": 0.0}, seed) for seed in (3, 5)]
    outcomes = REACHER.execute(runs, tmp_path / "scratch" / "job")
    batch = Batch("lanes", "sfdqn", (0.0,), (3, 5), Size(widths=(4, 4), **size))
    assert [run.id for run in runs_of(batch)] == [run.id for run in runs]
    found = run_batch(batch, tmp_path)
    for lane, outcome in enumerate(outcomes):
        np.testing.assert_array_equal(outcome.arrays["final_return"], found["final_return"][lane])
        assert outcome.scalars["test_failures"] == found["final_failures"][lane, 4:].sum()
        np.testing.assert_array_equal(outcome.arrays["seconds"], outcomes[0].arrays["seconds"])
    assert not np.array_equal(outcomes[0].arrays["return"], outcomes[1].arrays["return"])
