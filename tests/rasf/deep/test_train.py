"""The fused loop against the same loop written plainly; lanes, chunks, and what the replay holds."""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from deep_twin import Twin, assert_same_networks
from probe_worlds import Walk
from rasf.deep.train import RunConfig

from rasf.deep import replay, train
from rasf.deep.agent import Agent, Tasks, preset
from rasf.deep.replay import Batch

WALK = Walk()
TASKS = Tasks(
    np.array([[1.0, 0.0, -0.5], [-1.0, 0.0, 1.0]], np.float32), np.array([[0.5, 0.0], [0.0, -0.5]], np.float32)
)
SMALL = {"widths": (4,), "atoms": 4, "batch": 3, "learning_rate": 0.02, "gamma": 0.8}
PERIOD = 8


def make(name="rasfc51", **changes):
    settings = preset(name, **{"target_period": PERIOD, **SMALL, **changes})
    return Agent.for_world(settings, WALK, TASKS)


def config_of(seed, beta=-3.0, bootstrap_beta=-1.0):
    return RunConfig(
        jax.random.key(seed), jnp.asarray(beta), jnp.asarray(bootstrap_beta), Tasks(*map(jnp.asarray, TASKS))
    )


def stacked(configs):
    return jax.tree.map(lambda *parts: jnp.stack(parts), *configs)


@cache
def compiled_start(agent, steps):
    return jax.jit(jax.vmap(partial(train.start, agent, WALK, steps)))


@cache
def compiled_advance(agent, periods):
    one = partial(train.advance, agent, WALK, periods, PERIOD)
    return jax.jit(jax.vmap(one, in_axes=(0, 0, None, None, None)))


def run(agent, configs, schedule, steps=None):
    """Lanes of stacked configs after chunks of periods on tasks, ((periods, task), ..), and their progress."""
    lanes = compiled_start(agent, steps or PERIOD * sum(periods for periods, _ in schedule))(configs)
    begin, task_begins, progress = 0, {}, []
    for periods, task in schedule:
        task_begin = task_begins.setdefault(task, begin)
        lanes, found = compiled_advance(agent, periods)(configs, lanes, begin, task_begin, task)
        progress.append(jax.tree.map(np.asarray, found))
        begin += periods * PERIOD
    return jax.tree.map(np.asarray, lanes), progress


def lane(lanes, i):
    return jax.tree.map(lambda part: part[i], lanes)


def assert_same(one, other):
    jax.tree.map(np.testing.assert_array_equal, one, other)


def columns(rows):
    """obs, next_obs, phi, action, not_terminated, task of replay rows."""
    return np.split(np.asarray(rows), [3, 6, 9, 10, 11], axis=-1)


# The loop, step by step


@cache
def compiled_chance(epsilon, n=1):
    """Chance of a period; it depends on no more of an agent than epsilon, actions and batch."""
    return jax.jit(partial(train._draw, make(epsilon=epsilon, updates=1 / n), WALK, length=PERIOD, n=n))


@pytest.mark.parametrize(
    ("name", "side_by_side"),
    [("rasfc51", True), *(pytest.param(name, False, marks=pytest.mark.slow) for name in ("rasfc51", "rac51"))],
)
def test_the_loop_is_algorithm_2(name, side_by_side):
    """Act by GPI or explore, step, store, sample, update every policy; copy to the target after every period.

    The plain loop takes the same chance and must take the same actions and hold the same numbers. Side by side, each
    task has an environment, and there is an update for a step of all of them.
    """
    n = 2 if side_by_side else 1
    with jax.enable_x64(True):
        agent, config = make(name, epsilon=0.3, side_by_side=side_by_side, updates=1 / n, average=0), config_of(3)
        configs = stacked([config])
        steps = n * 3 * PERIOD
        first = lane(compiled_start(agent, steps)(configs), 0)
        lanes, _ = run(agent, configs, ((1, 0), (1, 0), (1, 0 if side_by_side else 1)), steps)
        move, observe = jax.jit(WALK.advance), jax.jit(WALK.observe)
        twin, states, kept, explored = Twin(agent, first.learner, *TASKS), [None] * n, [], 0
        for begin in range(0, 3 * PERIOD, PERIOD):
            draws = jax.tree.map(np.asarray, compiled_chance(0.3, n)(config.key, begin))
            for i in range(PERIOD):
                now = jax.tree.map(lambda part, i=i: part[i], draws)
                step, task = begin + i, 0 if side_by_side else (begin + i) // (2 * PERIOD)
                acted = []
                for e in range(n):
                    reset, noise = (jax.tree.map(lambda x, e=e: x[e], part) for part in (now.reset, now.noise))
                    if (step - task * 2 * PERIOD) % WALK.episode_length == 0:
                        states[e] = reset
                    obs = np.asarray(observe(states[e]))
                    action = twin.gpi_action(obs, TASKS.weights[task + e], TASKS.inputs[task + e], beta=-3.0)
                    if now.explore[e]:
                        action, explored = int(now.action[e]), explored + 1
                    states[e], phi = move(states[e], action, noise)
                    acted.append((obs, action, np.asarray(phi), np.asarray(observe(states[e])), 1.0, task + e))
                kept.extend(acted)
                twin.update([kept[int(bits) % len(kept)] for bits in now.sample], beta=-1.0)
            twin.copy_target()
        assert 0 < explored < steps / 2
        learner = lane(lanes, 0).learner
        assert_same_networks(twin, learner, agent, atol=1e-9)
        rows = [
            np.concatenate([obs, after, phi, [action, alive, task]]) for obs, action, phi, after, alive, task in kept
        ]
        np.testing.assert_allclose(lanes.rows[0], rows, rtol=0, atol=1e-9)
        assert_same(learner.target, learner.online)  # a copy has just been made


# Lanes and chunks


@pytest.fixture(scope="module")
def three_lanes():
    agent, configs = make(), [config_of(1), config_of(2), config_of(2, beta=4.0)]
    return agent, configs, *run(agent, stacked(configs), ((2, 0), (2, 1)))


def test_same_seed_same_bits(three_lanes):
    agent, configs, lanes, progress = three_lanes
    again, same = run(agent, stacked(configs), ((2, 0), (2, 1)))
    assert_same(lanes, again)
    assert_same(progress, same)


def test_lanes_do_not_see_one_another(three_lanes):
    """At the same width, a lane is the same bits whatever the others are."""
    agent, configs, lanes, _ = three_lanes
    others, _ = run(agent, stacked([config_of(7), configs[1], config_of(8, beta=0.0)]), ((2, 0), (2, 1)))
    assert_same(lane(lanes, 1), lane(others, 1))


def test_lanes_differ(three_lanes):
    _, _, lanes, _ = three_lanes
    for i, j in ((0, 1), (1, 2), (0, 2)):  # by seed, by beta, by both
        assert not np.array_equal(lanes.rows[i], lanes.rows[j])
        assert not np.array_equal(lanes.learner.online[0].heads.bias[i], lanes.learner.online[0].heads.bias[j])
    # the same seed begins alike: reset, noise and exploration are the same
    np.testing.assert_array_equal(lanes.rows[1, 0, :3], lanes.rows[2, 0, :3])


@pytest.mark.slow
def test_a_lane_alone_is_close(three_lanes):
    """Another width compiles to other sums; over 32 updates rounding of 1e-7 grows little."""
    agent, configs, lanes, _ = three_lanes
    alone, _ = run(agent, stacked(configs[:1]), ((2, 0), (2, 1)))
    np.testing.assert_array_equal(columns(alone.rows[0])[3], columns(lanes.rows[0])[3])  # the same actions
    jax.tree.map(partial(np.testing.assert_allclose, rtol=0, atol=1e-4), lane(alone, 0), lane(lanes, 0))


def test_chunks_change_no_bit(three_lanes):
    agent, configs, lanes, progress = three_lanes
    cut, pieces = run(agent, stacked(configs), ((1, 0), (1, 0), (1, 1), (1, 1)))
    assert_same(lanes, cut)
    for whole, halves in zip(progress, (pieces[:2], pieces[2:]), strict=True):
        assert_same(whole, jax.tree.map(lambda *parts: np.concatenate(parts, axis=1), *halves))


def test_progress_is_what_the_replay_shows(three_lanes):
    _, _, lanes, progress = three_lanes
    phi = columns(lanes.rows)[2].reshape(3, 2, 2, PERIOD, 3)  # lanes, tasks, periods, steps
    for task, found in enumerate(progress):
        assert found.loss.shape == (3, 2)
        assert found.clipped.shape == (3, 2, 2)
        np.testing.assert_allclose(found.phi_mean[:, :, 0], phi[:, task].mean(2), rtol=0, atol=1e-6)
        np.testing.assert_array_equal(found.phi_min, phi[:, task].min(2))
        np.testing.assert_array_equal(found.phi_max, phi[:, task].max(2))


# The replay


def test_rows_are_the_walk(three_lanes):
    _, _, lanes, _ = three_lanes
    for rows in lanes.rows:
        obs, next_obs, phi, action, not_terminated, task = columns(rows)
        age = obs[:, 2]
        # a task begins with a new episode, of five steps
        np.testing.assert_array_equal(age, np.tile(np.arange(16) % 5, 2))
        np.testing.assert_array_equal(next_obs[:, 2], age + 1)
        np.testing.assert_array_equal(task[:, 0], np.repeat([0, 1], 16))
        assert (not_terminated == 1).all()  # episodes are cut, and the last state is bootstrapped
        goes_on = age[1:] > 0
        np.testing.assert_array_equal(obs[1:][goes_on], next_obs[:-1][goes_on])
        assert (obs[1:][~goes_on] != next_obs[:-1][~goes_on]).any(1).all()
        assert len(np.unique(obs[age == 0, 0])) == (age == 0).sum()  # every reset is a new draw
        np.testing.assert_allclose(phi[:, 0], np.tanh(next_obs[:, 0]), atol=1e-6)
        np.testing.assert_array_equal(phi[:, 2], action[:, 0] / 2)
        assert set(np.unique(action)) <= {0, 1, 2}
        assert len(np.unique(phi[:, 1])) == 32  # and so is every step's chance


def test_exploration_is_as_rare_as_it_should_be_and_uniform():
    with jax.enable_x64(True):
        draws = [compiled_chance(0.3)(jax.random.key(0), begin) for begin in range(0, 400 * PERIOD, PERIOD)]
    explore, action = (np.concatenate([getattr(one, name) for one in draws]) for name in ("explore", "action"))
    assert abs(np.mean(explore) - 0.3) < 4 * np.sqrt(0.3 * 0.7 / explore.size)
    counts = np.bincount(action[explore], minlength=3)
    expected = counts.sum() / 3
    assert ((counts - expected) ** 2 / expected).sum() < 18.4  # chi-square, 2 degrees of freedom, 1 in 10^4


def test_store_and_sample():
    rng = np.random.default_rng(0)
    rows, kept = replay.empty(6, 2, 3), []
    assert rows.shape == (6, 10)
    store = jax.jit(replay.store)
    for i in range(4):
        one = Batch(rng.normal(size=2), i % 3, rng.normal(size=3), rng.normal(size=2), float(i != 2), i % 2)
        kept.append(one)
        rows = store(rows, i, replay.pack(jax.tree.map(lambda part: jnp.asarray(part)[None], one)))
    bits = jnp.array([0, 1, 2, 3, 4, 7, 2**32 - 1], jnp.uint32)
    got = jax.jit(replay.sample, static_argnums=3)(rows, jnp.asarray(4), bits, 2)
    assert jnp.issubdtype(got.action.dtype, jnp.integer)
    assert jnp.issubdtype(got.task.dtype, jnp.integer)
    for place, i in enumerate([0, 1, 2, 3, 0, 3, 3]):
        for part, expected in zip(got, kept[i], strict=True):
            np.testing.assert_allclose(part[place], expected, rtol=1e-6)


def test_sampling_is_uniform_over_what_was_stored():
    rows = jnp.arange(20.0)[:, None] * jnp.ones(6)
    bits = jax.random.bits(jax.random.key(0), (14_000,))
    counts = np.bincount(np.asarray(replay.sample(rows, jnp.asarray(7), bits, 1).obs[:, 0]).astype(int), minlength=20)
    assert (counts[7:] == 0).all()
    assert ((counts[:7] - 2_000) ** 2 / 2_000).sum() < 27.9  # chi-square, 6 degrees of freedom, 1 in 10^4
