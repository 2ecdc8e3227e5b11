"""How networks see the time that is left, and the bounds of returns that follow from it, against loops."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rasf.deep.algorithm import widened
from rasf.deep.clock import TIME_INPUTS, Clock
from rasf.deep.laws import Within

CLOCKS = [Clock(1, 0.9), Clock(5, 0.01), Clock(7, 1.0), Clock(7, 0.8), Clock(200, 0.99), Clock(1_000, 0.9)]


def sum_left(clock, age):
    """The sum of gamma^t over the steps that are left after `age` steps."""
    return sum(clock.gamma**t for t in range(clock.limit - age))


@pytest.mark.parametrize("clock", CLOCKS)
def test_the_share_of_time_that_is_left_is_read_back_from_the_inputs(clock):
    ages = np.unique(np.linspace(0, clock.limit, 9).astype(int))
    obs = np.random.default_rng(0).normal(size=(len(ages), 3)).astype(np.float32)
    inputs = clock.beside(obs, ages)
    assert inputs.shape == (len(ages), 3 + TIME_INPUTS)
    assert inputs.dtype == np.float32
    np.testing.assert_array_equal(inputs[:, :3], obs)
    expected = [sum_left(clock, age) / sum_left(clock, 0) for age in ages]
    np.testing.assert_allclose(clock.share(inputs), expected, rtol=1e-4, atol=1e-5)
    compiled = jax.jit(clock.beside)(jnp.asarray(obs), jnp.asarray(ages))
    np.testing.assert_allclose(compiled, inputs, rtol=1e-4, atol=3e-4)
    np.testing.assert_allclose(clock.beside(obs[0], ages[0]), inputs[0])  # one observation
    several = clock.beside(np.stack([obs, obs]), np.stack([ages, ages]))
    np.testing.assert_array_equal(several[1], inputs)
    # beyond the limit nothing is left, and nothing is less than that
    at_the_end, beyond = (clock.beside(obs, np.full(len(ages), clock.limit + more)) for more in (0, 5))
    np.testing.assert_array_equal(at_the_end, beyond)


@pytest.mark.parametrize("clock", [one for one in CLOCKS if one.limit > 1])
def test_inputs_of_time_have_mean_0_and_spread_1_over_an_episode(clock):
    seen = clock.beside(np.zeros((clock.limit, 0)), np.arange(clock.limit))
    np.testing.assert_allclose(seen[:, 0].mean(), 0.0, atol=1e-9)
    np.testing.assert_allclose(seen[:, 0].std(), 1.0, atol=1e-9)
    np.testing.assert_allclose(seen[:, 1].mean(), 0.0, atol=2 / clock.limit)  # of a uniform distribution
    np.testing.assert_allclose(seen[:, 1].std(), 1.0, atol=2 / clock.limit)
    assert (np.diff(seen, axis=0) <= 0).all()


# Bounds


def steps_of(rng, episodes, limit):
    """Features (n, 3) of steps with whether nothing follows: any sign; at the end only; of one sign."""
    found = []
    for _ in range(episodes):
        length = rng.integers(1, limit + 1)
        for t in range(length):
            last = t == length - 1
            found.append((np.array([rng.normal(), last * rng.random(), rng.random()]), last))
    return found


@pytest.mark.parametrize("gamma", [0.8, 1.0])
def test_no_return_of_an_episode_leaves_its_bounds(gamma):
    """Bounds of what was seen so far hold for every return in it; the least and the largest step are found."""
    rng, limit, none = np.random.default_rng(0), 6, np.zeros(3, np.float32)
    steps, clock = steps_of(rng, 40, limit), Clock(limit, gamma)
    within = Within(none, none, none)
    for start in range(0, len(steps), 7):
        phi, ended = (np.array(part) for part in zip(*steps[start : start + 7], strict=True))
        within = widened(within, phi.astype(np.float32), ended * 1.0)
    every = np.float32([phi for phi, _ in steps])
    np.testing.assert_array_equal(within.low, np.minimum(every.min(axis=0), 0))
    np.testing.assert_array_equal(within.high, every.max(axis=0))
    np.testing.assert_array_equal(within.recurring, [1, 0, 1])
    assert all(part.dtype == np.float32 for part in within)
    left, total = 0, np.zeros(3)
    for phi, last in reversed(steps):
        left, total = (1, phi) if last else (left + 1, phi + gamma * total)
        low, high = within.bounds(np.float64(sum_left(clock, limit - left)))
        assert (low - 1e-6 <= total).all()
        assert (total <= high + 1e-6).all()


def test_bounds_by_hand():
    within = Within(np.array([-2.0, 0.0]), np.array([1.0, 3.0]), np.array([1.0, 0.0]))
    low, high = within.bounds(np.array([[5.0, 0.0]]))
    np.testing.assert_array_equal(low, [[[-10.0, 0.0], [0.0, 0.0]]])
    np.testing.assert_array_equal(high, [[[5.0, 3.0], [0.0, 3.0]]])  # what occurs once may be counted once at any time


def test_bounds_widen_alike_in_numpy_and_jax():
    rng, none = np.random.default_rng(1), np.zeros(2, np.float32)
    host = device = Within(none, none, none)
    device = jax.tree.map(jnp.asarray, device)
    widen = jax.jit(widened)
    for _ in range(5):
        phi, ended = rng.normal(size=(3, 2)).astype(np.float32), (rng.random(3) < 0.5).astype(np.float32)
        phi[:, 1] *= ended
        host, device = widened(host, phi, ended), widen(device, phi, ended)
        jax.tree.map(np.testing.assert_array_equal, host, device)
    assert host.recurring.tolist() == [1.0, 0.0]


@pytest.mark.parametrize("clock", CLOCKS, ids=str)
def test_the_age_is_read_from_the_inputs(clock):
    ages = np.arange(clock.limit + 1)
    inputs = clock.beside(np.zeros((len(ages), 2), np.float32), ages)
    np.testing.assert_array_equal(clock.age(inputs), ages)
