"""The learner around the kernels: seeds, growth, rollouts, and bad input."""

from itertools import product

import numpy as np
import pytest

from rasf import MeanVariance, plan
from rasf.envs.four_room import FourRoom
from rasf.envs.grid import Grid
from rasf.tabular.learner import SuccessorLearner, SuccessorSettings

ROOMS = FourRoom("S..T\n.1X.\n..2G", trap_probability=0.3, step_limit=30)
AVERSE = SuccessorSettings(risk=MeanVariance(-4.0))


def trained(settings=AVERSE, seed=3, tasks=4, steps=500):
    learner = SuccessorLearner(ROOMS.n_features, 4, settings, seed, tasks)
    weights = ROOMS.random_tasks(tasks, np.random.default_rng(seed))
    return learner, [learner.learn_four_room(ROOMS, w, steps) for w in weights]


def contents(learner):
    rows, policies = range(int(learner.states)), range(learner.task + 1)
    return np.array([[np.concatenate([m.ravel() for m in learner.moments(j, r)]) for j in policies] for r in rows])


def test_same_seed_same_bits_whatever_runs_between():
    first, outcomes = trained()
    trained(seed=8)
    again, same = trained()
    assert outcomes == same
    np.testing.assert_array_equal(contents(first), contents(again))
    assert trained(seed=4)[1] != outcomes


def test_outcomes_add_up():
    _, outcomes = trained(steps=700)
    for outcome in outcomes:
        assert outcome.episodes >= 700 // ROOMS.step_limit - 1
        assert 0 <= outcome.failures <= outcome.episodes


def test_sigma_is_learned_when_asked_and_symmetric():
    learner, _ = trained()
    Sigma = learner.moments(0, 0).Sigma
    np.testing.assert_array_equal(Sigma, Sigma.transpose(0, 2, 1))
    assert np.abs(contents(learner)).max() > 0.1
    neutral, outcomes = trained(SuccessorSettings())
    assert (neutral.moments(0, 0).Sigma == 0).all()
    # learned but without weight, Sigma changes nothing
    _, watched = trained(SuccessorSettings(always_covariance=True))
    assert watched == outcomes


def test_given_weights_are_kept():
    learner, _ = trained(SuccessorSettings(learn_w=False))
    np.testing.assert_array_equal(learner.memory.w, ROOMS.random_tasks(4, np.random.default_rng(3)))


def test_learned_weights_approach_the_true_ones():
    learner, _ = trained(SuccessorSettings(epsilon=1.0), steps=5_000)
    w = ROOMS.random_tasks(4, np.random.default_rng(3))
    np.testing.assert_allclose(learner.memory.w, w, atol=1e-3)


def test_rollouts_leave_what_was_learned_alone():
    learner, _ = trained(tasks=4)
    before = contents(learner)
    draws = np.random.default_rng(0).random((20, ROOMS.step_limit, 3))
    coefs = learner.coefficients(ROOMS.task([1.0, -1.0]), MeanVariance(-4.0))
    features, lengths, visits = learner.roll_out(ROOMS, coefs[None], 0.1, draws)
    assert visits.sum() == lengths.sum()
    assert (features[:, -2:].sum(axis=1) <= 1).all()
    np.testing.assert_array_equal(before, contents(learner)[: len(before)])
    again, _, _ = learner.roll_out(ROOMS, coefs[None], 0.1, draws)
    np.testing.assert_array_equal(features, again)


def test_constant_coefficients_at_every_step_act_like_one_set():
    learner, _ = trained()
    draws = np.random.default_rng(1).random((10, ROOMS.step_limit, 3))
    coefs = learner.coefficients(ROOMS.task([1.0, 0.5]), MeanVariance(-4.0))
    once, _, _ = learner.roll_out(ROOMS, coefs[None], 0.1, draws)
    each, _, _ = learner.roll_out(ROOMS, np.tile(coefs, (ROOMS.step_limit, 1)), 0.1, draws)
    np.testing.assert_array_equal(once, each)


def test_training_goes_on_after_rollouts_as_if_there_had_been_none():
    plain, _ = trained(tasks=4)
    disturbed = SuccessorLearner(ROOMS.n_features, 4, AVERSE, 3, 4)
    for w in ROOMS.random_tasks(4, np.random.default_rng(3)):
        disturbed.learn_four_room(ROOMS, w, 500)
        coefs = disturbed.coefficients(w, MeanVariance(-1.0))[None]
        disturbed.roll_out(ROOMS, coefs, 0.0, np.full((1, 1, 3), 0.5))
    np.testing.assert_array_equal(contents(plain), contents(disturbed))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"alpha": -0.1}, "alpha must"),
        ({"alpha_sigma": 2.0}, "alpha_sigma must"),
        ({"epsilon": 1.1}, "epsilon must"),
        ({"gamma": 0.0}, "gamma must"),
        ({"covariance": "none"}, "covariance must"),
        ({"initial_noise": "other"}, "initial_noise must"),
        ({"risk": None}, "risk must"),
    ],
)
def test_bad_settings_are_refused(change, words):
    with pytest.raises(ValueError, match=words):
        SuccessorSettings(**change)


def test_bad_calls_are_refused():
    with pytest.raises(ValueError, match="seed must"):
        SuccessorLearner(2, 4, AVERSE, -1, 4)
    with pytest.raises(ValueError, match="max_tasks must"):
        SuccessorLearner(2, 4, AVERSE, 0, 40_000)
    learner, _ = trained(tasks=1, steps=10)
    with pytest.raises(ValueError, match="made for 1 tasks"):
        learner.begin_task()
    fresh = SuccessorLearner(ROOMS.n_features, 4, AVERSE, 0, 1)
    for call in (
        lambda: fresh.learn_four_room(ROOMS, [1.0], 10),
        lambda: fresh.coefficients(np.ones(5_000), MeanVariance(-1.0)),
        lambda: fresh.begin_task(np.full(ROOMS.n_features, np.nan)),
    ):
        with pytest.raises(ValueError, match="one per feature"):
            call()
    with pytest.raises(ValueError, match="call begin_task first"):
        fresh.add_row()
    with pytest.raises(ValueError, match="learner 4 and 3"):
        SuccessorLearner(ROOMS.n_features, 3, AVERSE, 0, 1).learn_four_room(ROOMS, np.ones(4), 10)
    with pytest.raises(ValueError, match="another world"):
        learner.roll_out(FourRoom("S12G"), np.zeros((1, 14)), 0.0, np.zeros((1, 5, 3)))
    with pytest.raises(ValueError, match="coefs must"):
        learner.roll_out(ROOMS, np.zeros((2, 14)), 0.0, np.zeros((1, 5, 3)))
    with pytest.raises(ValueError, match="draws must"):
        learner.roll_out(ROOMS, np.zeros((1, 14)), 0.0, np.zeros((1, 5, 2)))


def test_features_of_another_size_are_refused_before_compiled_code_sees_them():
    learner = SuccessorLearner(2, 4, AVERSE, 0, 1)
    learner.begin_task()
    row = learner.add_row()
    action, driver, slot = learner.choose(row)
    for phi in (np.ones(7), np.array([np.nan, 0.0]), np.array([1e10, 0.0])):
        with pytest.raises(ValueError, match="phi"):
            learner.learn(row, action, driver, slot, phi, 0.0, None)


@pytest.mark.parametrize(("beta", "best"), [(0.0, 1), (-2.0, 0)])
def test_stepped_by_hand_a_coin_shows_its_moments_and_the_sign_of_risk(beta, best):
    """Mean 1.5 against 1; variance 2.25 against 0: at beta = -2 the sure coin is better (1.5 - 2.25 < 1)."""
    settings = SuccessorSettings(MeanVariance(beta), alpha=0.02, alpha_sigma=0.02, always_covariance=True)
    learner, rng = SuccessorLearner(1, 2, settings, 0, 1), np.random.default_rng(0)
    learner.begin_task()
    row = learner.add_row()
    for toss in range(3_000):
        action = toss % 2
        paid = 1.0 if action == 0 else 3.0 * (rng.random() < 0.5)
        _, driver, slot = learner.choose(row)
        learner.learn(row, action, driver, slot, [paid], paid, None)
    assert learner.choose(row)[0] == best
    psi, Sigma = learner.moments(0, row)
    assert psi[:, 0] == pytest.approx([1.0, 1.5], abs=0.3)
    assert Sigma[:, 0, 0] == pytest.approx([0.0, 2.25], abs=0.5)


def test_a_row_for_every_decision_solves_a_finite_horizon():
    """gamma = 1, three decisions, no slip: the learned totals are the optimal ones of `plan` with a horizon."""
    grid, horizon, rng = Grid("S.G\n...", slip=0.0), 3, np.random.default_rng(0)
    mdp, w = grid.mdp(), grid.task((), goal=5.0)
    settings = SuccessorSettings(gamma=1.0, learn_w=False, initial_noise="shared")
    learner = SuccessorLearner(mdp.n_features, mdp.n_actions, settings, 0, 1)
    learner.begin_task(w)
    rows = {}

    def row_of(h, state):
        return rows[h, state] if (h, state) in rows else rows.setdefault((h, state), learner.add_row())

    h, state = 0, grid.start
    for _ in range(6_000):
        row = row_of(h, state)
        action, driver, slot = learner.choose(row)
        if rng.random() < 0.5:
            action = int(rng.integers(mdp.n_actions))
        entry = mdp.indptr[state * mdp.n_actions + action]  # without slip there is one successor
        phi, after, h = mdp.phi[entry], int(mdp.successor[entry]), h + 1
        over = bool(mdp.terminal[after]) or h == horizon
        learner.learn(row, action, driver, slot, phi, float(phi @ w), None if over else row_of(h, after))
        h, state = (0, grid.start) if over else (h, after)
    best = plan(mdp, w, horizon=horizon).value
    assert len(rows) > 4
    for (h, state), row in rows.items():
        assert (learner.moments(0, row).psi @ w).max() == pytest.approx(best[h, state], abs=1e-3)


@pytest.mark.parametrize("learn_w", [False, True])
def test_who_follows_the_path_of_a_twin_learns_the_same(learn_w):
    """All that is learned of a step depends on the step, not on who took it."""
    settings = SuccessorSettings(risk=MeanVariance(-4.0), learn_w=learn_w)
    leader, follower = (SuccessorLearner(ROOMS.n_features, 4, settings, 3, 3) for _ in range(2))
    for w in ROOMS.random_tasks(3, np.random.default_rng(0)):
        for learner in (leader, follower):
            learner.begin_task(None if learn_w else w)
        for stretch in range(2):
            _, path = leader.lead_four_room(ROOMS, w, 700, stretch)
            follower.follow_four_room(ROOMS, w, path)
    np.testing.assert_array_equal(leader.memory.w, follower.memory.w)
    np.testing.assert_array_equal(leader.four_room_keys(), follower.four_room_keys())
    for policy, row in product(range(3), range(0, leader.states, 7)):
        for mine, theirs in zip(leader.moments(policy, row), follower.moments(policy, row), strict=True):
            np.testing.assert_array_equal(mine, theirs)
