"""Whole runs: stopped and resumed to the same bits, refused where a checkpoint does not fit, stopped where wrong."""

import re
import shutil
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from probe_worlds import Walk

from rasf.deep import checkpoint as checkpoints
from rasf.deep.agent import Agent, Tasks, preset
from rasf.deep.fit import Schedule, _check, _check_sizes, _label, fit, period_of
from rasf.deep.train import Progress, RunConfig
from rasf.risk import Entropic

WALK = Walk()
TASKS = Tasks(
    np.array([[1.0, 0.0, -0.5], [-1.0, 0.0, 1.0]], np.float32), np.array([[0.5, 0.0], [0.0, -0.5]], np.float32)
)


def make(name="sfdqn", tasks=TASKS, observation_size=3, n_actions=3, **changes):
    settings = preset(name, **{"widths": (3,), "batch": 2, "target_period": 4, **changes})
    return Agent.create(settings, observation_size, n_actions, WALK.feature_bounds, tasks)


AGENT = make()
SCHEDULE = Schedule(steps_per_task=16, tasks=2, evaluate_every=8)
# a tuple is a list once it has been through JSON
DESCRIPTION = {"agent": "sfdqn", "seeds": [1, 2], "widths": (3,)}


def plans(seeds=(1, 2), beta=-1.0, bootstrap_beta=-1.0, tasks=TASKS):
    lanes = [
        RunConfig(jax.random.key(seed), jnp.float32(beta), jnp.float32(bootstrap_beta), Tasks(*map(jnp.asarray, tasks)))
        for seed in seeds
    ]
    return jax.tree.map(lambda *parts: jnp.stack(parts), *lanes)


def look(step, lanes):
    """Something to remember of every lane."""
    return {"step": step, "bias": np.asarray(lanes.learner.online[0].hidden[0].bias[:, 0])}


def run(path=None, agent=AGENT, world=WALK, plan=None, schedule=SCHEDULE, evaluate=look, **changes):
    usual = {"description": DESCRIPTION, "checkpoint": path, "checkpoint_every_s": 0.0}
    return fit(agent, world, plan or plans(), schedule, evaluate, **{**usual, **changes})


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


OTHER_WEIGHTS = TASKS._replace(weights=TASKS.weights + np.float32(1e-6) * (TASKS.weights != 0))


@pytest.mark.parametrize(
    ("change", "differs"),
    [
        ({"description": {"agent": "other"}}, "description"),
        ({"description": {**DESCRIPTION, "more": 1}}, "description"),
        ({"description": {}}, "description"),
        ({"agent": make(gamma=0.8)}, "agent"),
        ({"agent": make(learning_rate=2e-3)}, "agent"),
        ({"agent": make(risk=Entropic)}, "agent"),
        ({"world": Walk(episode_length=6)}, "world"),
        ({"schedule": Schedule(16, 2, 4)}, "schedule"),
        ({"plan": plans(seeds=(1, 3))}, "plans"),
        ({"plan": plans(beta=-2.0)}, "plans"),
        ({"plan": plans(bootstrap_beta=-2.0)}, "plans"),
        ({"plan": plans(tasks=OTHER_WEIGHTS)}, "plans"),
        ({"plan": plans(tasks=TASKS._replace(inputs=TASKS.inputs * 2))}, "plans"),
        ({"world": Walk(scale=0.5), "plan": plans(seeds=(2, 1)), "description": {}}, "world, plans, description"),
    ],
)
def test_another_configuration_is_refused(stopped, change, differs):
    before = stopped.read_bytes()
    with pytest.raises(ValueError, match="is a checkpoint of another configuration; remove it or choose") as refusal:
        run(stopped, **change)
    assert str(refusal.value).endswith(f"(what differs: {differs})")
    assert "\n" not in str(refusal.value)
    assert stopped.read_bytes() == before


def test_checkpoints_of_older_versions_are_refused(stopped):
    """They held the description and the step, side by side."""
    lanes, history = checkpoints.load(stopped, run()[0])
    for label in ({**DESCRIPTION, "step": 16}, {}):
        checkpoints.save(stopped, lanes, history, label)
        with pytest.raises(ValueError, match="is a checkpoint of another version of rasf; remove it") as refusal:
            run(stopped)
        assert "\n" not in str(refusal.value)


class Plain(Walk):
    """A walk that does not print its parts."""

    __repr__ = object.__repr__


def test_places_in_memory_do_not_matter():
    def label():
        agent, world = make(risk=lambda beta: beta), Plain()
        kept.append((agent, world))  # or the next ones might get their places
        return _label(agent, world, plans(), SCHEDULE, {})

    kept = []
    assert label() == label()
    assert all(repr(one) != repr(other) for one, other in zip(*kept, strict=True))


def test_a_checkpoint_by_name(stopped, undisturbed):
    seen = []

    def watching(step, lanes):
        seen.append(step)
        return look(step, lanes)

    assert_same(run(str(stopped), evaluate=watching), undisturbed)
    assert seen == [24, 32]


def unstacked(plan):
    return jax.tree.map(lambda part: part[0], plan)


DENSE = TASKS._replace(weights=np.ones((2, 3), np.float32))
THREE = Tasks(np.ones((3, 3), np.float32), np.zeros((3, 2), np.float32))
WIDER = Tasks(np.ones((2, 4), np.float32), TASKS.inputs)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"agent": make(n_actions=2)}, "agent must have 3 actions to fit the world and the plans, got 2"),
        ({"agent": make(observation_size=2)}, "agent must have 3 inputs to fit the world and the plans, got 2"),
        ({"agent": make("rac51", TASKS._replace(inputs=np.zeros((2, 1))))}, "agent must have 5 inputs .*, got 4"),
        ({"agent": replace(AGENT, law=type(AGENT.law)(2))}, "agent must have 3 features .*, got 2"),
        ({"agent": make(tasks=THREE)}, "agent must have 2 policies .*, got 3"),
        ({"plan": plans(tasks=WIDER)}, "plans must have 3 features .*, got 4"),
        ({"agent": make("rac51"), "plan": plans(tasks=WIDER)}, "plans must have 3 features .*, got 4"),
        ({"schedule": Schedule(16, 3, 8)}, "schedule must have 2 tasks .*, got 3"),
        ({"agent": make("rasfc51"), "plan": plans(tasks=DENSE)}, "agent must be weighing 3 features .*, got 2"),
        ({"plan": unstacked(plans())}, r"plans must have lanes in front of every part: .* got key \(\), beta \(\), "),
        ({"plan": plans()._replace(beta=jnp.zeros(3))}, r"plans must have lanes .* beta \(3,\)"),
        ({"plan": plans()._replace(bootstrap_beta=0.0)}, r"plans must have lanes .* bootstrap_beta \(\)"),
        ({"plan": plans()._replace(key=jax.random.key(0))}, r"plans must have lanes .* key \(\)"),
        ({"plan": plans(tasks=TASKS._replace(inputs=np.zeros(2)))}, r"plans must have lanes .* inputs \(2, 2\)"),
        ({"plan": jax.tree.map(lambda part: part[:0], plans())}, r"plans must have lanes .* key \(0,\)"),
        ({"plan": plans(beta=float("nan"))}, "beta of plans must be finite, got nan"),
        ({"plan": plans(bootstrap_beta=-float("inf"))}, "bootstrap_beta of plans must be finite, got -inf"),
        ({"plan": plans(tasks=TASKS._replace(weights=TASKS.weights * np.nan))}, "weights of plans must be finite"),
    ],
)
def test_what_does_not_fit_together_is_refused_before_training(change, words):
    def never(step, lanes):
        raise AssertionError("it began")

    with pytest.raises(ValueError, match=words) as refusal:
        run(evaluate=never, **change)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("name", ["rasfc51", "rac51", "sfdqn-residual"])
def test_every_law_fits(name):
    _check_sizes(make(name), WALK, plans(), SCHEDULE)
    if name != "rasfc51":  # only histograms leave features out
        _check_sizes(make(name), WALK, plans(tasks=DENSE), SCHEDULE)


def test_damaged_checkpoints_are_refused(stopped):
    for content in (b"", stopped.read_bytes()[:-10], b"something else"):
        stopped.write_bytes(content)
        with pytest.raises(ValueError, match="is not a checkpoint of rasf, or it is damaged") as refusal:
            run(stopped)
        assert "\n" not in str(refusal.value)
        assert stopped.read_bytes() == content


class Changed(Walk):
    """A walk that changed after the checkpoint, and does not say so."""

    def __repr__(self):
        return repr(WALK)


@pytest.mark.parametrize(
    ("world", "words"),
    [
        (
            Changed(declared=0.5),
            r"feature 0 left its declared bounds \[-0.5, 0.5\] between steps 16 and 24: it was in \[",
        ),
        (Changed(scale=float("nan")), "the world gave a feature that is not finite between steps 16 and 24"),
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
    [(16, 6), (16, 12), (20, 8)],
)
def test_evaluation_must_fit_the_periods(steps, every):
    words = re.escape(f"evaluate_every must be a multiple of 4 and divide steps_per_task, got {every} and {steps}")
    with pytest.raises(ValueError, match=words):
        fit(AGENT, WALK, plans(), Schedule(steps, 2, every), look, description={})


@pytest.mark.parametrize("name", ["steps_per_task", "tasks", "evaluate_every"])
@pytest.mark.parametrize("wrong", [0, -8, 8.0, True, None])
def test_schedules_are_positive_whole_numbers(name, wrong):
    with pytest.raises(ValueError, match=f"{name} must be a positive whole number, got {wrong}"):
        replace(SCHEDULE, **{name: wrong})


def test_periods():
    assert period_of(AGENT) == 4
    without = Agent.create(preset("sfdqn", target_period=0), 3, 3, WALK.feature_bounds, TASKS)
    assert period_of(without) == 1_000
    assert Schedule(200_000, 4, 5_000).steps == 800_000
