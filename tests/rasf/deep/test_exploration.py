"""Exploration: how often, by which actions, and repeats of actions (epsilon-z-greedy): for how long and until when."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from deep_twin import compiled_actions, constant_networks, create_agent, settings_of

from rasf.deep import algorithm
from rasf.deep.agent import Tasks
from rasf.deep.algorithm import Held, StepChance
from rasf.deep.stepped import Pace, SteppedLearner

TASKS = Tasks.of(np.ones((1, 1)))
MANY = 2_000  # actions, so that two draws in a row are hardly ever the same
GREEDY = 1


def agent_of(actions=MANY, epsilon=1.0, epsilon_z=True, **changes):
    settings = settings_of("sfdqn", widths=(1,), epsilon=epsilon, epsilon_z=epsilon_z, **changes)
    return create_agent(settings, 1, actions, [(0.0, 1.0)], TASKS)


def make(num_envs, seed=3, **changes):
    return SteppedLearner(agent_of(**changes), TASKS, 0.0, seed, Pace(num_envs, 10_000, act_every=8))


def chance_of(agent, seed, rounds, n):
    """The chance (T, n) of these rounds, from the key of a run."""
    each = jax.vmap(partial(algorithm.step_chance, agent, jax.random.key(seed), n=n))
    return jax.tree.map(np.asarray, jax.jit(each)(jnp.asarray(rounds)))


def prefer(learner):
    """Networks that want the action GREEDY, whatever they see."""
    values = np.zeros((1, 1, learner.agent.actions, 1))
    values[0, 0, GREEDY, 0] = 1.0
    learner._learner = learner._learner._replace(online=constant_networks(learner.agent, [values]))
    learner._refresh()


def actions_of(learner, ends):
    """Actions (T, n) in a world of no meaning, whose episodes end where ends (T, n) says 1, and are cut where 2."""
    chosen, nothing = [], np.zeros((ends.shape[1], 1))
    for end in ends:
        chosen.append(learner.act(nothing))
        learner.observe(nothing, nothing, end == 1, np.ones(len(end), bool), end == 2)
    return np.array(chosen)


def never(steps, n):
    return np.zeros((steps, n), int)


def first_run(actions):
    """How long (n,) the first of the actions (T, n) is done."""
    return np.argmin(np.concatenate([actions == actions[0], np.zeros((1, actions.shape[1]), bool)]), axis=0)


def assert_zipf(lengths, longest):
    """Shares of 1 to longest - 1 are 1 / n^2 / zeta(2), within four standard errors; longer ones are cut to it."""
    shares = np.bincount(lengths, minlength=longest + 1)[1:longest] / len(lengths)
    expected = 6 / np.pi**2 / np.arange(1, longest) ** 2
    assert (np.abs(shares - expected) < 4 * np.sqrt(expected / len(lengths)) + 1 / MANY).all()


def test_actions_are_repeated_for_lengths_of_zipf_s_law():
    """The first action of each environment, and the next of those whose first was done once."""
    steps, n = 8, 4_000
    actions = actions_of(make(n), never(steps, n))
    first = first_run(actions)
    assert_zipf(first, steps)
    assert_zipf(first_run(actions[1:, first == 1]), steps - 1)
    assert len(np.unique(actions[0])) > MANY / 2


def test_nothing_is_repeated_beyond_the_end_of_an_episode():
    """A third of the environments end after every second step, a third are cut there, the others go on."""
    n = 300
    ends = never(20, n)
    ends[1::2, :100], ends[1::2, 100:200] = 1, 2
    actions = actions_of(make(n), ends)
    lasted = (actions[1:] == actions[:-1]).reshape(19, 3, 100).mean(axis=2)
    within, beyond = lasted[::2], lasted[1::2]
    # within an episode of two steps, all but 1 / zeta(2) of the first actions last
    np.testing.assert_allclose(within[:, :2].mean(axis=0), 1 - 6 / np.pi**2, atol=4 * np.sqrt(0.25 / 1_000))
    assert (beyond[:, :2].mean(axis=0) < 5 / MANY).all()
    assert beyond[:, 2].mean() > 0.5


def test_nothing_is_repeated_beyond_a_cut():
    """As where the next task begins, and its environment anew."""
    learner = make(300)
    before = actions_of(learner, never(1, 300))
    learner.cut()
    assert (actions_of(learner, never(1, 300)) == before).mean() < 0.02


def test_nothing_is_repeated_for_ever():
    """Lengths have no mean: where episodes do not end, one action could otherwise take the rest of training."""
    agent, found, n = agent_of(), [], 20_000
    held = Held.none(agent, 1)
    for action in range(2_001):
        chance = StepChance(np.zeros(1), np.array([action]), np.array([1_000]), np.zeros(1), np.zeros((1, 0)))
        explores, chosen, held = algorithm.explore(agent, chance, held, 0.5)
        assert explores.all()
        found.append(int(chosen[0]))
    assert found == [0] * 1_000 + [1_000] * 1_000 + [2_000]
    # lengths from 1 to 1,000, the rest of the series counted as 1,000: within four standard errors
    repeats = np.concatenate([chance_of(agent, 0, [i], n).repeat.ravel() for i in range(10)])
    shares = np.append(6 / np.pi**2 / np.arange(1, 1_000) ** 2, 0.0)
    shares[-1] = 1 - shares.sum()
    for chosen in (np.arange(20), np.array([999]), np.arange(20, 999)):
        expected = shares[chosen].sum() if len(chosen) > 20 else shares[chosen]
        counted = np.bincount(repeats, minlength=1_001)[1:][chosen]
        frequency = (counted.sum() if len(chosen) > 20 else counted) / len(repeats)
        assert (np.abs(frequency - expected) < 4 * np.sqrt(expected / len(repeats))).all()
    assert (repeats.min(), repeats.max()) == (1, 1_000)


def test_chance_is_uniform_and_follows_from_key_and_index():
    agent = agent_of(actions=3, epsilon_z=False)
    many = chance_of(agent, 0, np.arange(400), 8)
    assert abs(np.mean(many.explore < 0.3) - 0.3) < 4 * np.sqrt(0.3 * 0.7 / many.explore.size)
    counts = np.bincount(many.action[many.explore < 0.3], minlength=3)
    expected = counts.sum() / 3
    assert ((counts - expected) ** 2 / expected).sum() < 18.4  # chi-square, 2 degrees of freedom, 1 in 10^4
    assert (many.repeat == 1).all()
    for rounds in ([7], [399, 7]):  # alone, or in another block
        few = chance_of(agent, 0, rounds, 8)
        jax.tree.map(lambda one, other, at=rounds: np.testing.assert_array_equal(one, other[at]), few, many)
    assert not np.array_equal(chance_of(agent, 1, [7], 8).action, many.action[[7]])


def test_samples_are_uniform_and_follow_from_key_and_index():
    for share in (0.0, 0.5):
        agent = agent_of(epsilon_z=False, prioritised=share, batch=20)
        draw = jax.jit(jax.vmap(partial(algorithm.sample_chance, agent, jax.random.key(0))))
        many = draw(jnp.arange(700))
        counts = np.bincount((np.asarray(many.bits) % 7).ravel(), minlength=7)
        assert ((counts - 2_000) ** 2 / 2_000).sum() < 27.9  # chi-square, 6 degrees of freedom, 1 in 10^4
        jax.tree.map(
            lambda one, other: np.testing.assert_array_equal(one, other[100:103]), draw(jnp.arange(100, 103)), many
        )
        for part in many[1:]:
            assert np.mean(part) == pytest.approx(0.5 if share else 0.0, abs=0.02)
        assert not share or abs(np.corrcoef(np.ravel(many[1]), np.ravel(many[2]))[0, 1]) < 0.05


def by_loops(learner, ends, seed, epsilon):
    """Actions (T, n), one environment at a time, by the chance of the seed; epsilon: one, or (T,)."""
    n = ends.shape[1]
    chance = chance_of(learner.agent, seed, np.arange(len(ends)), n)
    held, left, chosen = [0] * n, [0] * n, []
    for t, (end, below) in enumerate(zip(ends, np.broadcast_to(epsilon, len(ends)), strict=True)):
        now = []
        for i in range(n):
            if not left[i] and chance.explore[t, i] < below:
                held[i], left[i] = chance.action[t, i], chance.repeat[t, i]
            now.append(held[i] if left[i] else GREEDY)
            left[i] = 0 if end[i] else max(0, left[i] - 1)
        chosen.append(now)
    return np.array(chosen)


@pytest.mark.parametrize("epsilon_z", [False, True])
@pytest.mark.parametrize(("n", "epsilon"), [(1, 0.4), (3, 0.4), (3, 1.0)])
def test_exploration_is_that_of_loops(n, epsilon, epsilon_z):
    ends = np.random.default_rng(0).choice(3, p=[0.8, 0.1, 0.1], size=(200, n))
    learner = make(n, actions=5, epsilon=epsilon, epsilon_z=epsilon_z)
    prefer(learner)
    found = actions_of(learner, ends)
    np.testing.assert_array_equal(found, by_loops(learner, ends, 3, epsilon))
    assert len(np.unique(found)) == 5


def test_same_seed_same_actions():
    ends = never(30, 4)
    first, again, other = (actions_of(make(4, seed=seed), ends) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_random_steps_of_a_warm_up_are_repeated_too_and_go_on_after_it():
    ends = never(30, 3)
    learner = make(3, actions=5, epsilon=0.0, warmup=30)
    warm = actions_of(learner, ends[:10])
    prefer(learner)
    later = actions_of(learner, ends[10:])
    epsilon = np.where(np.arange(30) < 10, 1.0, 0.0)
    np.testing.assert_array_equal(np.concatenate([warm, later]), by_loops(learner, ends, 3, epsilon))
    assert (later[0] != GREEDY).any()
    assert (later == GREEDY).any()


# Averse episodes


def averse(share, limit=0, **changes):
    small = {"widths": (1,), "epsilon": 0.0, "warmup": 0, "prioritised": 0.0, "averse_episodes": share}
    settings = settings_of("rasfdqn", **small, **changes)
    return create_agent(settings, 1, 2, [(0.0, 1.0)], TASKS, limit=limit)


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_a_share_of_episodes_is_averse_by_up_to_two_standard_deviations(share):
    many = chance_of(averse(share), 0, np.arange(400), 20)
    drawn = many.aversion[many.aversion > 0]
    assert abs(len(drawn) / many.aversion.size - share) <= 4 * np.sqrt(0.25 / many.aversion.size) * (0 < share < 1)
    if share:  # uniform between 0 and the most
        counts = np.histogram(drawn, bins=8, range=(0.0, algorithm._MOST_AVERSE))[0]
        assert counts.sum() == len(drawn)
        assert ((counts - len(drawn) / 8) ** 2 / (len(drawn) / 8)).sum() < 29.9  # chi-square, 7 degrees, 1 in 10^4
    few = chance_of(averse(share), 0, [399, 7], 20)
    np.testing.assert_array_equal(few.aversion, many.aversion[[399, 7]])
    without = chance_of(averse(0.0), 0, np.arange(400), 20)  # nothing else is drawn differently
    for name in ("explore", "action", "repeat"):
        np.testing.assert_array_equal(getattr(many, name), getattr(without, name))


def test_aversion_is_drawn_as_an_episode_begins_and_lasts_until_its_end():
    learner = SteppedLearner(averse(1.0), TASKS, 0.0, 3, Pace(3, 100, act_every=8))
    rng, nothing, held, age = np.random.default_rng(0), np.zeros((3, 1)), np.zeros(3), np.zeros(3, int)
    chance = chance_of(learner.agent, 3, np.arange(60), 3)
    for t in range(60):
        learner.act(nothing)
        held = np.where(age == 0, chance.aversion[t], held)
        np.testing.assert_array_equal(learner._held.aversion, held)
        ended, cut, valid = rng.random(3) < 0.1, rng.random(3) < 0.1, rng.random(3) < 0.9
        learner.observe(nothing, nothing, ended, valid, cut)
        age = np.where(valid, np.where(ended | cut, 0, age + 1), age)  # an empty step is none of an episode


def test_averse_episodes_avoid_what_varies():
    """Action 0 gives 1 with standard deviation 1, action 1 gives 0.2 for sure: worse up to an aversion of 0.8."""
    agent, n = averse(1.0), 400
    learner = SteppedLearner(agent, TASKS, 0.0, 3, Pace(n, 1_000))
    means, logs = np.reshape([1.0, 0.2], (1, 1, 2, 1)), np.reshape([0.0, -40.0], (1, 1, 2, 1))
    constant = constant_networks(agent, [means, means, logs])
    learner._learner = learner._learner._replace(online=constant, average=constant)
    learner._refresh()
    actions = learner.act(np.zeros((n, 1)))
    np.testing.assert_array_equal(actions, learner._held.aversion > 0.8)
    np.testing.assert_array_equal(actions, compiled_actions(learner, TASKS, 0.0))
    assert 0.2 < actions.mean() < 0.9
    assert learner.greedy(np.zeros(1), 0) == 0  # what it has learned is not averse
