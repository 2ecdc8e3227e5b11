"""Explored actions that last: for how long, until when, and that nothing else of exploration changes."""

import numpy as np
import pytest
from deep_twin import constant_networks, create_agent
from rasf.deep.stepping import SteppedLearner, _Held

from rasf.deep.agent import Tasks, preset

TASKS = Tasks(np.ones((1, 1), np.float32), np.zeros((1, 0), np.float32))
MANY = 2_000  # actions, so that two draws in a row are hardly ever the same
GREEDY = 1


def make(num_envs, actions=MANY, seed=3, epsilon=1.0, lasting=True, **changes):
    settings = preset("sfdqn", widths=(1,), epsilon=epsilon, lasting=lasting, **changes)
    agent = create_agent(settings, 1, actions, [(0.0, 1.0)], TASKS)
    return SteppedLearner(agent, TASKS, 0.0, seed, num_envs, 10_000, act_every=8)


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


def test_actions_last_for_lengths_of_zipf_s_law():
    """The first action of each environment, and the next of those whose first was done once."""
    steps, n = 8, 4_000
    actions = actions_of(make(n), never(steps, n))
    first = first_run(actions)
    assert_zipf(first, steps)
    assert_zipf(first_run(actions[1:, first == 1]), steps - 1)
    assert len(np.unique(actions[0])) > MANY / 2


def test_nothing_lasts_beyond_the_end_of_an_episode():
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


def test_nothing_lasts_beyond_a_cut():
    """As where the next task begins, and its environment anew."""
    learner = make(300)
    before = actions_of(learner, never(1, 300))
    learner.cut()
    assert (actions_of(learner, never(1, 300)) == before).mean() < 0.02


def test_nothing_lasts_for_ever():
    """Lengths have no mean: where episodes do not end, one could otherwise be all that is left of training."""
    held = _Held(1)

    class Endless:
        def zipf(self, exponent, n):
            return np.full(n, 10**12)

    lasted = [held.go_on(Endless(), np.array([True]), np.array([action]))[1][0] for action in range(2_001)]
    assert lasted == [0] * 1_000 + [1_000] * 1_000 + [2_000]


def by_loops(ends, actions, seed, epsilon, lasting):
    """Actions (T, n), one environment at a time; the first child of the seed explores. epsilon: one, or (T,)."""
    rng, n = np.random.default_rng(np.random.SeedSequence(seed).spawn(2)[0]), ends.shape[1]
    held, left, chosen = [0] * n, [0] * n, []
    for end, chance in zip(ends, np.broadcast_to(epsilon, len(ends)), strict=True):
        uniform, drawn = rng.random(n), rng.integers(actions, size=n)
        lengths = np.minimum(rng.zipf(2.0, n), 1_000) if lasting else np.ones(n, int)
        now = []
        for i in range(n):
            if not left[i] and uniform[i] < chance:
                held[i], left[i] = drawn[i], lengths[i]
            now.append(held[i] if left[i] else GREEDY)
            left[i] = 0 if end[i] else max(0, left[i] - 1)
        chosen.append(now)
    return np.array(chosen)


@pytest.mark.parametrize("lasting", [False, True])
@pytest.mark.parametrize(("n", "epsilon"), [(1, 0.4), (3, 0.4), (3, 1.0)])
def test_exploration_is_that_of_loops(n, epsilon, lasting):
    """Without lasting actions: uniform numbers, then actions, as it always was."""
    ends = np.random.default_rng(0).choice(3, p=[0.8, 0.1, 0.1], size=(200, n))
    learner = make(n, actions=5, epsilon=epsilon, lasting=lasting)
    prefer(learner)
    found = actions_of(learner, ends)
    np.testing.assert_array_equal(found, by_loops(ends, 5, 3, epsilon, lasting))
    assert len(np.unique(found)) == 5


def test_same_seed_same_actions():
    ends = never(30, 4)
    first, again, other = (actions_of(make(4, seed=seed), ends) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_random_steps_of_a_warm_up_last_too_and_go_on_after_it():
    ends = never(30, 3)
    learner = make(3, actions=5, epsilon=0.0, warmup=30)
    warm = actions_of(learner, ends[:10])
    prefer(learner)
    later = actions_of(learner, ends[10:])
    epsilon = np.where(np.arange(30) < 10, 1.0, 0.0)
    np.testing.assert_array_equal(np.concatenate([warm, later]), by_loops(ends, 5, 3, epsilon, lasting=True))
    assert (later[0] != GREEDY).any()
    assert (later == GREEDY).any()
