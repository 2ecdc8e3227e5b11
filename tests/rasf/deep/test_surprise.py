"""Replay by surprise: what is drawn how often, and that laws are those of what happened all the same."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from deep_twin import create_agent
from rasf.deep.stepping import SteppedLearner

from rasf.deep.agent import Tasks, preset
from rasf.deep.laws import MeanDiagonal, MeanLogDiagonal
from rasf.deep.replay import Batch, HostReplay, Surprises, row_size
from rasf.risk import MeanVariance

TASKS = Tasks(np.array([[1.0, -0.5], [0.3, 1.0]], np.float32), np.zeros((2, 0), np.float32))
BOUNDS = np.array([(-1.0, 1.0), (0.0, 2.0)])


def filled(n, capacity=1_000):
    """A replay of n rows whose first number is their index."""
    rows = np.zeros((n, row_size(1, 2)), np.float32)
    rows[:, 0] = np.arange(n)
    kept = HostReplay(capacity, 1, 2)
    kept.store(rows)
    return kept


def test_rows_are_drawn_in_proportion():
    surprises, rng = Surprises(300), np.random.default_rng(0)
    at, ratings = np.arange(200), rng.random(200).astype(np.float32) ** 4
    surprises.begin(at)
    surprises.rate(at, ratings)
    counts = np.bincount(surprises.draw(rng, 200_000, 200), minlength=200)
    np.testing.assert_allclose(counts / counts.sum(), ratings / ratings.sum(), atol=1.5e-3)
    np.testing.assert_allclose(surprises.frequency(at, 200), ratings / ratings.mean(), rtol=1e-4, atol=1e-4)


class Given:
    """In place of a generator: the numbers it is to give."""

    def __init__(self, numbers):
        self.numbers = numbers

    def random(self, n):
        assert n == len(self.numbers)
        return self.numbers


@pytest.mark.parametrize("size", [1, 63, 64, 65, 1_000])
def test_drawing_is_that_from_all_ratings_added_up(size):
    """Also after rows were rated twice at once: the last rating counts."""
    surprises, rng = Surprises(1_000), np.random.default_rng(size)
    ratings = np.ones(size, np.float32)
    surprises.begin(np.arange(size))
    for _ in range(3):
        at, new = rng.integers(size, size=100), rng.random(100).astype(np.float32) ** 8
        surprises.rate(at, new)
        for i, rating in zip(at, new, strict=True):
            ratings[i] = max(rating, 1e-6)
    shares = np.append(rng.random(2_000), [0.0, 1 - 2**-53])
    up_to = np.cumsum(ratings, dtype=np.float64)
    plain = np.minimum(np.searchsorted(up_to, shares * up_to[-1], side="right"), size - 1)
    np.testing.assert_array_equal(surprises.draw(Given(shares), len(shares), size), plain)
    np.testing.assert_allclose(
        surprises.frequency(np.arange(size), size), ratings / ratings.mean(dtype=float), rtol=1e-6
    )


def test_new_rows_are_as_surprising_as_the_last_that_were():
    surprises = Surprises(300)
    surprises.begin(np.arange(100))
    surprises.rate(np.arange(100), np.linspace(0, 3, 100, dtype=np.float32))
    surprises.begin(np.array([100]))
    assert surprises.frequency(np.array([100]), 101) == surprises.frequency(np.array([99]), 101)


def test_ratings_that_are_all_zero_draw_everything_alike():
    surprises, rng = Surprises(128), np.random.default_rng(0)
    surprises.begin(np.arange(100))
    surprises.rate(np.arange(100), np.zeros(100, np.float32))
    assert np.unique(surprises.draw(rng, 5_000, 100)).tolist() == list(range(100))


def test_a_share_comes_by_surprise_and_weights_make_up_for_it():
    kept, rng = filled(200), np.random.default_rng(0)
    kept.rate(np.arange(200), np.where(np.arange(200) == 7, 50.0, 0.5).astype(np.float32))
    drawn = kept.sample_by_surprise(rng, (500, 64), 0.5)
    np.testing.assert_array_equal(drawn.rows[..., 0], drawn.chosen)
    expected = 0.5 / 200 + 0.5 * 50 / (50 + 199 * 0.5)
    assert np.mean(drawn.chosen == 7) == pytest.approx(expected, rel=0.05)
    assert np.mean(drawn.chosen / drawn.frequency) == pytest.approx(99.5, rel=0.02)


def test_an_overwritten_row_is_new():
    kept = filled(64, capacity=64)
    kept.rate(np.arange(64), np.full(64, 1e-3, np.float32))
    kept.rate(np.array([5]), np.array([2.0], np.float32))
    kept.store(np.zeros((1, row_size(1, 2)), np.float32))  # in place of the first
    drawn = kept.sample_by_surprise(np.random.default_rng(0), (100, 8), 1.0)
    assert set(np.unique(drawn.chosen)) >= {0, 5}
    assert np.mean(np.isin(drawn.chosen, [0, 5])) > 0.9


@pytest.mark.parametrize("law", [MeanDiagonal(3), MeanLogDiagonal(3)])
def test_surprise_is_how_far_off_the_means_were(law):
    rng = np.random.default_rng(0)
    chosen, following = rng.normal(size=(2, 2, 4, 2, 3))
    phi, discount = rng.normal(size=(4, 3)), np.full(4, 0.9)
    with jax.enable_x64(True):
        each, surprise = law.each_loss((chosen,), (following,), phi, discount)
        whole, _ = law.loss((chosen,), (following,), phi, discount)
    off = phi + 0.9 * following[:, :, 0] - chosen[:, :, 0]
    np.testing.assert_allclose(surprise, np.linalg.norm(off, axis=-1).mean(axis=0))
    assert float(whole) == pytest.approx(np.asarray(each).mean())


@pytest.mark.slow
def test_weights_of_one_change_nothing():
    agent = create_agent(preset("rasfdqn", widths=(6,)), 2, 3, BOUNDS, TASKS)
    rng = np.random.default_rng(0)
    obs, phi, next_obs = (rng.normal(size=(8, 2)).astype(np.float32) for _ in range(3))
    batch = Batch(obs, rng.integers(3, size=8), phi, next_obs, np.ones(8, np.float32), np.zeros(8, int))
    start, risk = agent.init(jax.random.key(0)), MeanVariance(0.0)
    plain, loss, _ = agent.update(start, batch, TASKS, risk)
    weighted, same, surprise = agent.weighted_update(start, batch, TASKS, risk, jnp.ones(8))
    assert surprise.shape == (8,)
    assert float(loss) == pytest.approx(float(same), rel=1e-5)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), plain.online, weighted.online)


@pytest.mark.parametrize("surprise", [pytest.param(0.0, marks=pytest.mark.slow), 0.9])
def test_the_law_of_a_rare_outcome_is_right_in_the_end(surprise):
    """One step that pays 1 in an eighth of the cases: surprise draws those much more often."""
    small = {"widths": (4,), "warmup": 0, "n_step": 1, "batch": 32, "learning_rate": 0.01, "average": 100}
    settings = preset("rasfdqn", **small, surprise=surprise)
    task = Tasks(np.ones((1, 1), np.float32), np.zeros((1, 0), np.float32))
    agent = create_agent(settings, 1, 1, np.array([(0.0, 1.0)]), task, planned=3_000)
    learner = SteppedLearner(agent, task, 0.0, 0, 1, 1_000)
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
        agent = create_agent(preset("rasfdqn", widths=(6,), warmup=10), 2, 3, BOUNDS, TASKS)
        learner, rng = SteppedLearner(agent, TASKS, 0.0, 3, 1, 100), np.random.default_rng(0)
        learner.begin_task(0)
        for _ in range(60):
            learner.act(rng.normal(size=(1, 2)))
            learner.observe(rng.normal(size=(1, 2)), rng.random((1, 2)), [False], [True])
            learner.learn()
        found.append(learner.networks)
    jax.tree.map(np.testing.assert_array_equal, *found)


def test_surprise_is_refused_where_nothing_measures_it():
    with pytest.raises(ValueError, match="surprise is for the laws 'moments' and 'log-moments' of features"):
        preset("rasfc51", surprise=0.5)
    with pytest.raises(ValueError, match="surprise is for"):
        preset("rasfdqn", conditioned=True)
    with pytest.raises(ValueError, match="surprise must"):
        preset("rasfdqn", surprise=1.5)
