"""Prioritised replay: rows are drawn in proportion, and distributions are those of what happened all the same."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from deep_twin import create_agent, settings_of, single_steps, unbounded

from rasf.deep import algorithm
from rasf.deep.agent import Tasks
from rasf.deep.priorities import HostPriorities, Priorities
from rasf.deep.stepped import Pace, SteppedLearner
from rasf.risk import MeanVariance

TASKS = Tasks.of([[1.0, -0.5], [0.3, 1.0]])
BOUNDS = np.array([(-1.0, 1.0), (0.0, 2.0)])


def uniform(n, seed=0):
    return np.random.default_rng(seed).random(n).astype(np.float32)


class Compiled:
    """`Priorities` with the methods of `HostPriorities`."""

    def __init__(self, capacity):
        self.held = Priorities.empty(capacity)

    def begin(self, at):
        self.held = jax.jit(Priorities.begin)(self.held, at)

    def rate(self, at, errors):
        self.held = jax.jit(Priorities.rate)(self.held, at, errors)

    def draw(self, shares, size):
        return np.asarray(jax.jit(Priorities.draw)(self.held, shares, size))

    def frequency(self, at, size):
        return np.asarray(jax.jit(Priorities.frequency)(self.held, at, size))


BOTH = pytest.mark.parametrize("kind", [HostPriorities, Compiled], ids=["host", "compiled"])


@BOTH
def test_rows_are_drawn_in_proportion(kind):
    priorities = kind(300)
    at, errors = np.arange(200), uniform(200) ** 4
    priorities.begin(at)
    priorities.rate(at, errors)
    counts = np.bincount(priorities.draw(uniform(200_000, 1), 200), minlength=200)
    np.testing.assert_allclose(counts / counts.sum(), errors / errors.sum(), atol=1.5e-3)
    np.testing.assert_allclose(priorities.frequency(at, 200), errors / errors.mean(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("size", [1, 63, 64, 65, 1_000])
def test_drawing_is_that_from_all_priorities_added_up(size):
    """Priorities are small whole numbers, whose sums have no rounding: the compiled ones draw the same rows.

    Also after rows were rated several times, and in one batch twice.
    """
    host, compiled, rng = HostPriorities(1_000), Compiled(1_000), np.random.default_rng(size)
    errors = np.ones(size, np.float32)
    for one in (host, compiled):
        one.begin(np.arange(size))
    for _ in range(3):
        at = rng.integers(size, size=100)
        new = rng.integers(1, 50, size=size).astype(np.float32)[at]  # a row listed twice has one error
        errors[at] = new
        for one in (host, compiled):
            one.rate(at, new)
    shares = np.append(rng.random(2_000), [0.0, 1 - 2**-24]).astype(np.float32)
    up_to = np.cumsum(errors, dtype=np.float64)
    spots = shares * np.float32(up_to[-1])
    plain = [next((i for i in range(size) if up_to[i] > spot), size - 1) for spot in spots]
    np.testing.assert_array_equal(compiled.draw(shares, size), plain)
    # the host's product with a share is in double precision, so a spot at an edge may be one row lower
    exact = np.minimum(np.searchsorted(up_to, shares.astype(float) * up_to[-1], side="right"), size - 1)
    np.testing.assert_array_equal(host.draw(shares, size), exact)
    assert np.mean(exact == plain) > 0.99
    for one in (host, compiled):
        np.testing.assert_allclose(one.frequency(np.arange(size), size), errors / errors.mean(), rtol=1e-5)


def test_the_last_of_two_errors_of_a_row_counts():
    priorities = HostPriorities(10)
    priorities.begin(np.arange(4))
    priorities.rate(np.array([2, 2]), np.array([5.0, 3.0], np.float32))
    np.testing.assert_allclose(priorities.frequency(np.arange(4), 4), np.array([1, 1, 3, 1]) * 4 / 6)


def test_random_priorities_are_drawn_alike_by_both():
    host, compiled, rng = HostPriorities(500), Compiled(500), np.random.default_rng(0)
    for i in range(0, 500, 50):
        at = np.arange(i, i + 50)
        rated = rng.integers(i + 50, size=64)
        errors = (rng.random(500).astype(np.float32) ** 8)[rated]
        for one in (host, compiled):
            one.begin(at)
            one.rate(rated, errors)
    found = [one.draw(uniform(5_000), 500) for one in (host, compiled)]
    assert np.mean(found[0] == found[1]) > 0.999  # single and double precision round differently
    every = np.arange(500)
    np.testing.assert_allclose(*(one.frequency(every, 500) for one in (host, compiled)), rtol=1e-4)


@BOTH
def test_new_rows_have_the_largest_priority_of_the_last_batch(kind):
    priorities = kind(300)
    priorities.begin(np.arange(100))
    priorities.rate(np.arange(100), np.linspace(0, 3, 100, dtype=np.float32))
    priorities.begin(np.array([100]))
    assert priorities.frequency(np.array([100]), 101) == priorities.frequency(np.array([99]), 101)


@BOTH
def test_errors_that_are_all_zero_draw_everything_alike(kind):
    priorities = kind(128)
    priorities.begin(np.arange(100))
    priorities.rate(np.arange(100), np.zeros(100, np.float32))
    assert np.unique(priorities.draw(uniform(5_000), 100)).tolist() == list(range(100))


@BOTH
def test_an_overwritten_row_is_new(kind):
    priorities = kind(64)
    priorities.begin(np.arange(64))
    priorities.rate(np.arange(64), np.full(64, 1e-3, np.float32))
    priorities.rate(np.array([5]), np.array([2.0], np.float32))
    priorities.begin(np.array([0]))
    drawn = priorities.draw(uniform(1_000), 64)
    assert np.mean(np.isin(drawn, [0, 5])) > 0.9
    assert set(np.unique(drawn)) >= {0, 5}


def agent_of(share=0.5, planned=0, **changes):
    settings = settings_of("rasfdqn", widths=(6,), prioritised=share, **changes)
    return create_agent(settings, 2, 3, BOUNDS, TASKS, planned=planned)


def test_a_share_is_drawn_by_priority_and_weights_make_up_for_it():
    agent, share, n = agent_of(batch=64), 0.5, 200
    priorities = HostPriorities(n)
    priorities.begin(np.arange(n))
    priorities.rate(np.arange(n), np.where(np.arange(n) == 7, 50.0, 0.5).astype(np.float32))
    draw = jax.jit(jax.vmap(lambda update: algorithm.sample_chance(agent, jax.random.key(0), update)))
    chance = jax.tree.map(np.asarray, draw(jnp.arange(500)))
    chosen = (chance.bits % n).astype(int)
    by_priority = chance.by_priority < share
    chosen[by_priority] = priorities.draw(chance.share[by_priority], n)
    frequency = 1 - share + share * priorities.frequency(chosen, n)
    expected = 0.5 / n + 0.5 * 50 / (50 + 199 * 0.5)
    assert np.mean(chosen == 7) == pytest.approx(expected, rel=0.05)
    weights = algorithm.correction(agent, frequency, 10)
    assert np.mean(chosen * weights) == pytest.approx(99.5, rel=0.02)


def test_corrections_grow_over_the_first_half_of_training():
    agent, frequency = agent_of(planned=100), np.array([0.5, 1.0, 4.0])
    for updates, power in ((0, 0.0), (25, 0.5), (50, 1.0), (90, 1.0)):
        np.testing.assert_allclose(algorithm.correction(agent, frequency, updates), frequency**-power)
    np.testing.assert_allclose(algorithm.correction(agent_of(), frequency, 0), 1 / frequency)  # nothing planned


def test_weights_of_one_change_nothing():
    agent, rng = agent_of(), np.random.default_rng(0)
    obs, phi, next_obs = (rng.normal(size=(8, 2)).astype(np.float32) for _ in range(3))
    batch = single_steps(obs, rng.integers(3, size=8), phi, next_obs, np.ones(8, np.float32), np.zeros(8, int))
    learner = jax.jit(agent.init)(jax.random.key(0))
    update = jax.jit(lambda weight: agent.update(learner, batch, TASKS, MeanVariance(0.0), unbounded(2), weight))
    (plain, found), (weighted, same), (_, twice) = update(1.0), update(jnp.ones(8)), update(jnp.full(8, 2.0))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), (plain, found), (weighted, same))
    np.testing.assert_allclose(twice.each, 2 * found.each, rtol=1e-6)
    np.testing.assert_allclose(twice.error, found.error, rtol=1e-6)  # priorities are those of the plain error


@pytest.mark.parametrize("prioritised", [0.0, 0.9])
def test_the_distribution_of_a_rare_outcome_is_right_in_the_end(prioritised):
    """One step that pays 1 in an eighth of the cases: prioritised replay draws those much more often."""
    small = {"widths": (4,), "warmup": 0, "n_step": 1, "batch": 32, "learning_rate": 0.01, "average": 100}
    settings = settings_of("rasfdqn", **small, prioritised=prioritised)
    task = Tasks.of(np.ones((1, 1)))
    agent = create_agent(settings, 1, 1, np.array([(0.0, 1.0)]), task, planned=3_000)
    learner = SteppedLearner(agent, task, 0.0, 0, Pace(1, 1_000))
    learner.begin_task(0)
    for i in range(400):
        learner.act(np.zeros((1, 1)))
        learner.observe(np.zeros((1, 1)), [[float(i % 8 == 0)]], [True], [True])
    learner.learn(3_000)
    heads = agent.law.plain_heads(learner.networks, np.ones(1, np.float32))
    mean, variance = agent.moments(heads, jnp.zeros((1, 1)), jnp.zeros((1, 0)))
    assert mean.item() == pytest.approx(0.125, abs=0.015)
    assert variance.item() == pytest.approx(0.109, abs=0.02)


def test_the_same_seed_gives_the_same_bits():
    found = []
    for _ in range(2):
        agent = agent_of(warmup=10)
        learner, rng = SteppedLearner(agent, TASKS, 0.0, 3, Pace(1, 100)), np.random.default_rng(0)
        learner.begin_task(0)
        for _ in range(60):
            learner.act(rng.normal(size=(1, 2)))
            learner.observe(rng.normal(size=(1, 2)), rng.random((1, 2)), [False], [True])
            learner.learn()
        found.append(learner.networks)
    jax.tree.map(np.testing.assert_array_equal, *found)
