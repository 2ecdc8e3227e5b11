"""Whole runs: stopped and resumed to the same bits, refused where a checkpoint does not fit, stopped where wrong."""

import re
import shutil
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from probe_worlds import Walk

from rasf.deep.agent import Agent, Tasks, preset
from rasf.deep.fit import Schedule, _check, fit, period_of
from rasf.deep.train import Plan, Progress

WALK = Walk()
TASKS = Tasks(
    np.array([[1.0, 0.0, -0.5], [-1.0, 0.0, 1.0]], np.float32), np.array([[0.5, 0.0], [0.0, -0.5]], np.float32)
)
AGENT = Agent.create(
    preset("sfdqn", widths=(3,), batch=2, target_period=4),
    WALK.observation_size,
    WALK.n_actions,
    WALK.feature_bounds,
    TASKS,
)
SCHEDULE = Schedule(steps_per_task=16, tasks=2, evaluate_every=8)
# a tuple is a list once it has been through JSON
DESCRIPTION = {"agent": "sfdqn", "seeds": [1, 2], "widths": (3,)}


def plans():
    lanes = [
        Plan(jax.random.key(seed), jnp.float32(-1.0), jnp.float32(-1.0), Tasks(*map(jnp.asarray, TASKS)))
        for seed in (1, 2)
    ]
    return jax.tree.map(lambda *parts: jnp.stack(parts), *lanes)


def look(step, lanes):
    """Something to remember of every lane."""
    return {"step": step, "bias": np.asarray(lanes.learner.online[0].hidden[0].bias[:, 0])}


def run(path=None, world=WALK, evaluate=look, **changes):
    usual = {"description": DESCRIPTION, "checkpoint": path, "checkpoint_every_s": 0.0}
    return fit(AGENT, world, plans(), SCHEDULE, evaluate, **{**usual, **changes})


class Stop(Exception):
    """The power went out."""


class Counter:
    """A tick that fails the n-th time."""

    def __init__(self, fail_at=None):
        self.ticks, self.fail_at = 0, fail_at

    def __call__(self):
        self.ticks += 1
        if self.ticks == self.fail_at:
            raise Stop


def assert_same(one, other):
    jax.tree.map(np.testing.assert_array_equal, one, other)


@pytest.fixture(scope="module")
def undisturbed():
    tick = Counter()
    lanes, history = run(tick=tick)
    assert tick.ticks == 4
    return lanes, history


@pytest.fixture(scope="module")
def half_way(tmp_path_factory, undisturbed):
    """The checkpoint of a run that was stopped half-way."""
    path = tmp_path_factory.mktemp("half_way") / "run.safetensors"
    with pytest.raises(Stop):
        run(path, tick=Counter(fail_at=2))
    return path


@pytest.fixture
def stopped(tmp_path, half_way):
    """A copy of it."""
    return Path(shutil.copy(half_way, tmp_path))


def test_history(undisturbed):
    lanes, history = undisturbed
    assert history["step"].tolist() == [0, 8, 16, 24, 32]
    assert history["bias"].shape == (5, 2, 3)
    assert history["loss"].shape == (4, 2)  # there was no loss before the first chunk
    assert history["clipped"].shape == (4, 2, 2)
    phi = np.asarray(lanes.rows)[:, :, 6:9].reshape(2, 4, 8, 3)
    np.testing.assert_allclose(history["training_phi"], np.swapaxes(phi.mean(2), 0, 1), atol=1e-6)
    np.testing.assert_array_equal(history["bias"][-1], lanes.learner.online[0].hidden[0].bias[:, 0])
    np.testing.assert_array_equal(np.asarray(lanes.rows)[:, :, -1], [np.repeat([0, 1], 16)] * 2)
    np.testing.assert_array_equal(np.asarray(lanes.rows)[:, :, 2], [np.tile(np.arange(16) % 5, 2)] * 2)


def test_stopped_after_a_checkpoint_and_resumed(stopped, undisturbed):
    seen, tick = [], Counter()

    def watching(step, lanes):
        seen.append(step)
        return look(step, lanes)

    resumed = run(stopped, tick=tick, evaluate=watching)
    assert seen == [24, 32]  # the first half was not done again
    assert tick.ticks == 4  # but counts as progress
    assert_same(resumed, undisturbed)


def test_stopped_between_checkpoints(tmp_path, undisturbed):
    """The evaluation of the third chunk fails: its work is lost, and done again."""
    path = tmp_path / "run.safetensors"

    def failing(step, lanes):
        if step == 24:
            raise Stop
        return look(step, lanes)

    with pytest.raises(Stop):
        run(path, evaluate=failing)
    assert_same(run(path), undisturbed)


def test_a_finished_run_is_only_read(tmp_path, undisturbed):
    path = tmp_path / "run.safetensors"
    run(path)
    before = path.read_bytes()

    def never(step, lanes):
        raise AssertionError("nothing is left to do")

    assert_same(run(path, evaluate=never), undisturbed)
    assert path.read_bytes() == before


def test_no_checkpoint_before_its_time(tmp_path):
    path = tmp_path / "run.safetensors"
    with pytest.raises(Stop):
        run(path, checkpoint_every_s=1e9, tick=Counter(fail_at=3))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("description", [{"agent": "other"}, {**DESCRIPTION, "more": 1}, {}])
def test_another_configuration_is_refused(stopped, description):
    before = stopped.read_bytes()
    with pytest.raises(ValueError, match="is a checkpoint of another configuration; remove it or choose") as refusal:
        run(stopped, description=description)
    assert "\n" not in str(refusal.value)
    assert stopped.read_bytes() == before


def test_damaged_checkpoints_are_refused(stopped):
    for content in (b"", stopped.read_bytes()[:-10], b"something else"):
        stopped.write_bytes(content)
        with pytest.raises(ValueError, match="is not a checkpoint of rasf, or it is damaged") as refusal:
            run(stopped)
        assert "\n" not in str(refusal.value)
        assert stopped.read_bytes() == content


@pytest.mark.parametrize(
    ("world", "words"),
    [
        (Walk(declared=0.5), r"feature 0 left its declared bounds \[-0.5, 0.5\] between steps 16 and 24: it was in \["),
        (Walk(scale=float("nan")), "the world gave a feature that is not finite between steps 16 and 24"),
    ],
    ids=["outside", "not finite"],
)
def test_features_that_go_wrong_stop_the_run_and_keep_the_checkpoint(stopped, world, words):
    before = stopped.read_bytes()
    with pytest.raises(ValueError, match=words) as refusal:
        run(stopped, world=world)
    assert "\n" not in str(refusal.value)
    assert stopped.read_bytes() == before


def progress(phi_min=0.0, phi_max=1.0, loss=1.0):
    """Of 2 lanes, 3 periods and 2 features, fine but for one entry."""
    low, high, losses = np.zeros((2, 3, 2)), np.ones((2, 3, 2)), np.ones((2, 3))
    low[1, 2, 1], high[1, 2, 1], losses[1, 2] = phi_min, phi_max, loss
    return Progress(losses, np.zeros((2, 3, 2)), low, low, high)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"phi_min": -0.01},
            r"feature 1 left its declared bounds \[0, 1\] between steps 40 and 50: it was in \[-0.01, 1\]",
        ),
        ({"phi_max": 1.01}, r"feature 1 left its declared bounds \[0, 1\]"),
        ({"phi_min": float("nan")}, "not finite"),
        ({"phi_max": float("inf")}, "not finite"),
        ({"phi_min": -float("inf")}, "not finite"),
        ({"loss": float("nan")}, "the loss was not finite between steps 40 and 50; a smaller learning rate may help"),
        ({"loss": float("inf")}, "the loss was not finite"),
    ],
)
def test_what_is_checked(change, words):
    with pytest.raises(ValueError, match=words):
        _check(progress(**change), np.array([(0.0, 1.0)] * 2), 40, 10)


def test_rounding_at_the_bounds_is_fine():
    _check(progress(phi_min=-1e-7, phi_max=1 + 1e-6), np.array([(0.0, 1.0)] * 2), 40, 10)


@pytest.mark.parametrize(
    ("steps", "every"),
    [(16, 6), (16, 0), (16, 12), (20, 8), (16, -8)],
)
def test_evaluation_must_fit_the_periods(steps, every):
    words = re.escape(f"evaluate_every must be a multiple of 4 and divide steps_per_task, got {every} and {steps}")
    with pytest.raises(ValueError, match=words):
        fit(AGENT, WALK, plans(), Schedule(steps, 2, every), look, description={})


def test_periods():
    assert period_of(AGENT) == 4
    without = Agent.create(preset("sfdqn", target_period=0), 3, 3, WALK.feature_bounds, TASKS)
    assert period_of(without) == 1_000
    assert Schedule(200_000, 4, 5_000).steps == 800_000
