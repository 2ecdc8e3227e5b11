"""The reacher as an experiment of `rasf_lab.sweep`: what it refuses, how it packs runs, and `kill -9` in the middle."""

import math
import os
import signal
from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
from reacher_often import OFTEN, OFTEN_NAME

from rasf_lab.paper.reacher.runs import LANES, MANY_LANES, REACHER, batches, swept
from rasf_lab.paper.reacher.training import ReacherRun
from rasf_lab.sweep import runs as sweep
from rasf_lab.sweep.drive import drive, jobs_of
from rasf_lab.sweep.engines.local import LocalEngine
from rasf_lab.sweep.spec import Spec
from rasf_lab.sweep.store import Store

GOOD = {"agent": "rasfc51", "beta": -3.0}


def test_good_parameters_pass():
    assert REACHER.check(GOOD) == GOOD
    assert REACHER.check(GOOD | {"width": 256, "atoms": 3}) == GOOD | {"atoms": 3}  # as `swept` names them
    assert REACHER.uses_gpus([])


def test_bad_parameters_are_refused(subtests):
    for changes, sentence in [
        ({"nope": 1}, "nope is unknown"),
        ({"agent": "ppo"}, "agent must be one of"),
        ({"beta": "x"}, "beta must be"),
        ({"beta": math.nan}, "beta must be"),
        ({"beta": None}, "beta is missing"),
        ({"width": 0}, "width must be"),
        ({"atoms": True}, "atoms must be"),
        ({"bootstrap": "both"}, "bootstrap must be one of"),
        ({"target_networks": "no"}, "target_networks must be"),
        ({"agent": "rac51", "target": 12}, "target must be"),
        ({"agent": "rac51", "target": True}, "target must be"),
        ({"target": 3}, "target is for the agents c51 and rac51 only"),
        ({"agent": "rac51", "library": True}, "library is for agents"),
    ]:
        with subtests.test(changes=changes, sentence=sentence):
            parameters = {key: value for key, value in (GOOD | changes).items() if value is not None}
            with pytest.raises(ValueError, match=f"^{sentence}"):
                REACHER.check(parameters)


def lanes(agent, betas, seeds):
    return [sweep.Run("reacher", {"agent": agent, "beta": beta}, seed) for beta in betas for seed in seeds]


def check_jobs(jobs, runs):
    """Every run in one job, every job of runs that differ in beta, seed and target only."""
    assert sorted(run.id for job in jobs for run in job) == sorted(run.id for run in runs)
    of_a_lane = ("beta", "target", "library")
    for job in jobs:
        assert len({"target" in run.parameters for run in job}) == 1
        rest = {tuple(sorted((n, v) for n, v in run.parameters.items() if n not in of_a_lane)) for run in job}
        assert len(rest) == 1


def test_runs_that_differ_in_beta_and_seed_only_share_a_gpu_job():
    runs = lanes("rasfc51", (0.0, -1.0, -2.0), range(10)) + lanes("rac51", (0.0,), range(25))
    jobs = REACHER.pack(runs, gpus=1)
    assert sorted(map(len, jobs)) == [10, 20, 25]
    check_jobs(jobs, runs)
    assert [len(job) for job in REACHER.pack(runs, gpus=0)] == [1] * len(runs)


def test_any_betas_and_seeds_go_together_and_one_that_keeps_its_policies_too():
    runs = lanes("rasfc51", (0.0,), (0, 1, 2)) + lanes("rasfc51", (-3.0,), (1, 2))
    runs.append(sweep.Run("reacher", GOOD | {"library": True}, 7))
    assert REACHER.pack(runs, gpus=1) == [runs]


# runs of RaSFC51 that can be lanes of one program: as the paper has it; finer maps; seven other choices
ALIKE = (70, 6, 3, 3, 3, 5, 5, 5, 10)


@pytest.mark.parametrize(
    ("gpus", "rasfc51"),
    [
        (1, [20, 20, 20, 10, 6, 3, 3, 3, 5, 5, 5, 10]),
        (2, [20, 20, 20, 10, 3, 3, *[2, 1] * 3, *[3, 2] * 3, 5, 5]),
        (7, [10] * 7 + [1] * 6 + [1] * 24 + [2] * 5),
        (70, [1] * sum(ALIKE)),
    ],
)
def test_the_papers_runs_on_gpus(gpus, rasfc51):
    runs = [swept(run) for group in batches("paper", 0).values() for run in group]
    jobs = REACHER.pack(runs, gpus)
    check_jobs(jobs, runs)
    sizes = defaultdict(list)
    for job in jobs:
        sizes[job[0].parameters["agent"], "target" in job[0].parameters].append(len(job))
    assert dict(sizes) == {
        ("rasfc51", False): rasfc51,  # spread over the GPUs
        ("rac51", True): [MANY_LANES, MANY_LANES, 60],
        ("rac51", False): [70, 10, 25],
        ("sfdqn", False): [10, 5, 10, 10],
        ("sfdqn-residual", False): [20, 3],
        ("rac51-relabelled", False): [20],
    }
    assert sum(rasfc51) == sum(ALIKE)
    assert max(rasfc51) <= LANES
    assert REACHER.pack(runs, gpus) == jobs


# --- faults

TOY = ReacherRun(
    "sfdqn",
    0.0,
    0,
    bootstrap="gpi",
    steps_per_task=20,
    evaluate_every=20,
    rollouts=1,
    final_rollouts=2,
    width=4,
    target_period=10,
)


class Killing(LocalEngine):
    """Kills its worker when the first checkpoint is there."""

    killed = False

    def wait(self, seconds):
        if not self.killed and list(self._folder.glob("scratch/*/lanes.checkpoint")):
            os.kill(self._workers[0].process.pid, signal.SIGKILL)
            self.killed = True
        return super().wait(min(seconds, 0.02))


@pytest.mark.slow  # test_kills.py of the engines kills quicker runs, test_reacher_fit.py resumes smaller ones
def test_lanes_killed_in_the_middle_go_on_to_the_same_arrays(tmp_path):
    runs = [sweep.Run(OFTEN_NAME, swept(replace(TOY, seed=seed)).parameters, seed) for seed in (0, 1)]
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
        for name in expected.arrays.keys() - {"seconds", "peak_gb"}:
            np.testing.assert_array_equal(found.arrays[name], expected.arrays[name], err_msg=name)
