"""Whole runs: stopped and resumed to the same bits, refused where a checkpoint does not fit, stopped where wrong."""

import re
import shutil
from functools import partial
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from deep.deep_twin import create_agent, settings_of
from deep.probe_worlds import Walk
from rasf.deep import replay
from rasf.deep.agent import Tasks
from rasf.deep.fused import RunConfig, Schedule
from rasf.files import load_file, save_file
from rasf.risk import Entropic
from rasf_lab.paper.reacher.fit import _label, _resume, _save, fit

WALK = Walk()
TASKS = Tasks(
    np.array([[1.0, 0.0, -0.5], [-1.0, 0.0, 1.0]], np.float32), np.array([[0.5, 0.0], [0.0, -0.5]], np.float32)
)


def make(risk=None, optimiser=None, **changes):
    settings = settings_of("sfdqn", **{"widths": (3,), "batch": 2, "target_period": 4, **changes})
    more = {name: one for name, one in (("risk", risk), ("optimiser", optimiser)) if one is not None}
    return create_agent(settings, 3, 3, WALK.feature_bounds, TASKS, **more)


AGENT = make()
SCHEDULE = Schedule(steps_per_task=16, tasks=2, evaluate_every=8)
# a tuple is a list once it has been through JSON
DESCRIPTION = {"agent": "sfdqn", "seeds": [1, 2], "widths": (3,)}


def configs(seeds=(1, 2), beta=-1.0, bootstrap_beta=-1.0, tasks=TASKS):
    lanes = [
        RunConfig(jax.random.key(seed), jnp.float32(beta), jnp.float32(bootstrap_beta), Tasks(*map(jnp.asarray, tasks)))
        for seed in seeds
    ]
    return jax.tree.map(lambda *parts: jnp.stack(parts), *lanes)


def look(step, lanes):
    """Something to remember of every lane."""
    return {"step": step, "bias": np.asarray(lanes.learner.online[0].hidden[0].bias[:, 0])}


def run(path=None, agent=AGENT, world=WALK, config=None, schedule=SCHEDULE, evaluate=look, **changes):
    usual = {"description": DESCRIPTION, "checkpoint": path, "checkpoint_every_s": 0.0}
    return fit(agent, world, config or configs(), schedule, evaluate, **{**usual, **changes})


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
    steps = replay.unpack(np.asarray(lanes.ring.rows), 3)
    phi = steps.phi.reshape(2, 4, 8, 3)
    np.testing.assert_allclose(history["training_phi"], np.swapaxes(phi.mean(2), 0, 1), atol=1e-6)
    np.testing.assert_array_equal(history["bias"][-1], lanes.learner.online[0].hidden[0].bias[:, 0])
    np.testing.assert_array_equal(steps.task, [np.repeat([0, 1], 16)] * 2)
    np.testing.assert_array_equal(steps.obs[..., 2], [np.tile(np.arange(16) % 5, 2)] * 2)


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
        ({"agent": make(optimiser=partial(optax.adam, eps=1e-7))}, "agent"),
        ({"world": Walk(episode_length=6)}, "world"),
        ({"schedule": Schedule(16, 2, 4)}, "schedule"),
        ({"config": configs(seeds=(1, 3))}, "configs"),
        ({"config": configs(beta=-2.0)}, "configs"),
        ({"config": configs(bootstrap_beta=-2.0)}, "configs"),
        ({"config": configs(tasks=OTHER_WEIGHTS)}, "configs"),
        ({"config": configs(tasks=TASKS._replace(inputs=TASKS.inputs * 2))}, "configs"),
        ({"world": Walk(scale=0.5), "config": configs(seeds=(2, 1)), "description": {}}, "world, configs, description"),
    ],
)
def test_another_configuration_is_refused(stopped, change, differs):
    before = stopped.read_bytes()
    with pytest.raises(ValueError, match="another configuration") as refusal:
        run(stopped, **change)
    assert f"(different: {differs})" in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert stopped.read_bytes() == before


def test_checkpoints_of_older_versions_are_refused(stopped):
    """They held the description and the step, side by side."""
    header, arrays = load_file(stopped)
    for label in (
        {**DESCRIPTION, "widths": [3], "step": 16},
        {},
        {name: header[name] for name in header if name != "step"},
    ):
        save_file(stopped, label, arrays)
        with pytest.raises(ValueError, match="another version") as refusal:
            run(stopped)
        assert "\n" not in str(refusal.value)


class Plain(Walk):
    """A walk that does not print its parts."""

    __repr__ = object.__repr__


def test_places_in_memory_do_not_matter():
    def label():
        agent, world = make(risk=lambda beta: beta), Plain()
        kept.append((agent, world))  # or the next ones might get their places
        return _label(agent, world, configs(), SCHEDULE, {})

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


def test_damaged_checkpoints_are_refused(stopped):
    for content in (b"", stopped.read_bytes()[:-10], b"something else"):
        stopped.write_bytes(content)
        with pytest.raises(ValueError, match=r"run\.safetensors is ") as refusal:
            run(stopped)
        assert "\n" not in str(refusal.value)
        assert stopped.read_bytes() == content


class Pair(NamedTuple):
    left: object
    right: object


TREE = Pair(
    (jnp.array([[1.5, -0.0], [jnp.nan, jnp.inf]]), {"a": jnp.arange(3), "b": jnp.float32(1e-40)}),
    (Pair(jnp.zeros((0, 2)), jnp.array([True, False])), jnp.uint32(2**32 - 1)),
)
HISTORY = {"loss": np.array([[1.0, 2.0]], np.float64), "odd": np.arange(6, dtype=np.float32).reshape(2, 3).T}
LABEL = {"agent": "rasfc51", "seeds": [1, 2], "gamma": 0.9}


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "folder" / "run.rasf"
    _save(path, TREE, HISTORY, LABEL | {"step": 7})
    return path


def test_checkpoints_come_back_bit_for_bit(saved):
    like = Pair(
        (jnp.ones((2, 2)), {"a": jnp.zeros(3, int), "b": jnp.float32(0)}),
        (Pair(jnp.zeros((0, 2)), jnp.zeros(2, bool)), jnp.uint32(0)),
    )
    step, tree, history = _resume(saved, like, LABEL)
    assert step == 7
    assert isinstance(tree.right[0], Pair)
    (table, named), (inner, largest) = tree
    assert np.asarray(table).tobytes() == np.asarray(TREE.left[0]).tobytes()
    np.testing.assert_array_equal(named["a"], [0, 1, 2])
    assert np.asarray(named["b"]).tobytes() == np.float32(1e-40).tobytes()
    assert inner.left.shape == (0, 2)
    np.testing.assert_array_equal(inner.right, [True, False])
    assert int(largest) == 2**32 - 1
    assert set(history) == set(HISTORY)
    for name, part in HISTORY.items():
        np.testing.assert_array_equal(history[name], part)
        assert history[name].dtype == part.dtype


def test_a_second_checkpoint_replaces_the_first_and_leaves_nothing_else(saved):
    _save(saved, TREE, {}, {"step": 8})
    step, _, history = _resume(saved, TREE, {})
    assert (step, history) == (8, {})
    assert [path.name for path in saved.parent.iterdir()] == [saved.name]


@pytest.mark.parametrize(
    ("like", "words"),
    [
        (
            TREE._replace(right=(TREE.right[0], jnp.int32(0))),
            r"does not fit this training: \.right\[1\] must have .* type int32",
        ),
        (TREE._replace(right=(TREE.right[0], jnp.zeros(2, jnp.uint32))), r"\.right\[1\] must have shape \(2,\)"),
        (TREE._replace(left=(TREE.left[0], {"c": jnp.zeros(3)})), r"does not fit this training: \.left\[1\]\['c'\]"),
    ],
)
def test_checkpoints_of_another_structure_are_refused(saved, like, words):
    before = saved.read_bytes()
    with pytest.raises(ValueError, match=words) as refusal:
        _resume(saved, like, LABEL)
    assert "\n" not in str(refusal.value)
    assert saved.read_bytes() == before


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


@pytest.mark.parametrize(
    ("steps", "every"),
    [(16, 6), (16, 12), (20, 8)],
)
def test_evaluation_must_fit_the_periods(steps, every):
    words = re.escape(f"evaluate_every must be a multiple of 4 and divide {steps}, got {every}")
    with pytest.raises(ValueError, match=words):
        fit(AGENT, WALK, configs(), Schedule(steps, 2, every), look, description={})
