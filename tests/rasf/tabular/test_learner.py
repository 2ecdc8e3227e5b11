"""The learner around the kernels: seeds, growth, rollouts, and bad input."""

from itertools import product
from typing import NamedTuple

import numpy as np
import pytest

from rasf import MeanVariance, plan
from rasf.envs import tabular_world
from rasf.envs.four_room import FourRoom
from rasf.envs.grid import Grid
from rasf.tabular import model_loop
from rasf.tabular.learner import SuccessorLearner
from rasf.tabular.model import ModelLearner
from rasf.tabular.settings import ModelSettings, TableSettings
from rasf.tabular.stretch import advance
from rasf_lab.paper.four_room.novel import moments_of

ROOMS = FourRoom("S..T\n.1X.\n..2G", trap_probability=0.3, step_limit=30)
AVERSE = MeanVariance(-4.0)
LEARNED_W = TableSettings(learn_w=True)


def trained(settings=LEARNED_W, seed=3, tasks=4, steps=500, risk=AVERSE):
    learner = SuccessorLearner(ROOMS.n_features, 4, settings, seed, tasks, risk)
    weights = ROOMS.random_tasks(tasks, np.random.default_rng(seed))
    return learner, [learner.learn_task(ROOMS, w, steps) for w in weights]


def contents(learner):
    rows, policies = range(int(learner.states)), range(learner.task + 1)
    return np.array([[np.concatenate([m.ravel() for m in moments_of(learner, j, r)]) for j in policies] for r in rows])


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
    Sigma = moments_of(learner, 0, 0).Sigma
    np.testing.assert_array_equal(Sigma, Sigma.transpose(0, 2, 1))
    assert np.abs(contents(learner)).max() > 0.1
    neutral, outcomes = trained(TableSettings(learn_w=True, covariance=False), risk=MeanVariance(0.0))
    assert (moments_of(neutral, 0, 0).Sigma == 0).all()
    # learned but without weight, Sigma changes nothing
    _, watched = trained(risk=MeanVariance(0.0))
    assert watched == outcomes


def test_given_weights_are_kept():
    learner, _ = trained(TableSettings(), risk=MeanVariance(0.0))
    np.testing.assert_array_equal(learner.memory.w, ROOMS.random_tasks(4, np.random.default_rng(3)))


def test_learned_weights_approach_the_true_ones():
    learner, _ = trained(TableSettings(epsilon=1.0, learn_w=True), steps=5_000, risk=MeanVariance(0.0))
    w = ROOMS.random_tasks(4, np.random.default_rng(3))
    np.testing.assert_allclose(learner.memory.w, w, atol=1e-3)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"alpha": -0.1}, "alpha must"),
        ({"alpha_sigma": 2.0}, "alpha_sigma must"),
        ({"epsilon": 1.1}, "epsilon must"),
        ({"gamma": 0.0}, "gamma must"),
        ({"covariance": "none"}, "covariance must"),
        ({"learn_w": "other"}, "learn_w must"),
    ],
)
def test_bad_settings_are_refused(change, words):
    with pytest.raises(ValueError, match=words):
        TableSettings(**change)


def test_bad_calls_are_refused():
    with pytest.raises(ValueError, match="seed must"):
        SuccessorLearner(2, 4, LEARNED_W, -1, 4)
    with pytest.raises(ValueError, match="max_tasks must"):
        SuccessorLearner(2, 4, LEARNED_W, 0, 40_000)
    with pytest.raises(ValueError, match="risk must"):
        SuccessorLearner(2, 4, LEARNED_W, 0, 4, None)
    learner, _ = trained(tasks=1, steps=10)
    with pytest.raises(ValueError, match="larger max_tasks"):
        learner.begin_task()
    fresh = SuccessorLearner(ROOMS.n_features, 4, LEARNED_W, 0, 1)
    for call in (
        lambda: fresh.learn_task(ROOMS, [1.0], 10),
        lambda: fresh.begin_task(np.full(ROOMS.n_features, np.nan)),
    ):
        with pytest.raises(ValueError, match="one per feature"):
            call()
    with pytest.raises(ValueError, match="call begin_task first"):
        fresh.add_row()
    with pytest.raises(ValueError, match="learner's 4 features and 3 actions"):
        SuccessorLearner(ROOMS.n_features, 3, LEARNED_W, 0, 1).learn_task(ROOMS, np.ones(4), 10)
    with pytest.raises(ValueError, match="another world"):
        learner.lead(FourRoom("S12G"), np.ones(4), 5)


def test_features_of_another_size_are_refused_before_compiled_code_sees_them():
    learner = SuccessorLearner(2, 4, LEARNED_W, 0, 1, AVERSE)
    learner.begin_task()
    row = learner.add_row()
    chosen = learner.choose(row)
    for phi in (np.ones(7), np.array([np.nan, 0.0]), np.array([1e10, 0.0])):
        with pytest.raises(ValueError, match="phi"):
            learner.learn(row, chosen[0], chosen, phi, 0.0, None)


@pytest.mark.parametrize(("beta", "best"), [(0.0, 1), (-2.0, 0)])
def test_stepped_by_hand_a_coin_shows_its_moments_and_the_sign_of_risk(beta, best):
    """Mean 1.5 against 1; variance 2.25 against 0: at beta = -2 the sure coin is better (1.5 - 2.25 < 1)."""
    settings = TableSettings(alpha=0.02, alpha_sigma=0.02, learn_w=True)
    learner, rng = SuccessorLearner(1, 2, settings, 0, 1, MeanVariance(beta)), np.random.default_rng(0)
    learner.begin_task()
    row = learner.add_row()
    for toss in range(3_000):
        action = toss % 2
        paid = 1.0 if action == 0 else 3.0 * (rng.random() < 0.5)
        learner.learn(row, action, learner.choose(row), [paid], paid, None)
    assert learner.choose(row)[0] == best
    psi, Sigma = moments_of(learner, 0, row)
    assert psi[:, 0] == pytest.approx([1.0, 1.5], abs=0.3)
    assert Sigma[:, 0, 0] == pytest.approx([0.0, 2.25], abs=0.5)


def test_a_row_for_every_decision_solves_a_finite_horizon():
    """gamma = 1, three decisions, no slip: the learned totals are the optimal ones of `plan` with a horizon."""
    grid, horizon, rng = Grid("S.G\n...", slip=0.0), 3, np.random.default_rng(0)
    mdp, w = grid.mdp(), grid.task((), goal=5.0)
    learner = SuccessorLearner(mdp.n_features, mdp.n_actions, TableSettings(gamma=1.0, covariance=False), 0, 1)
    learner.begin_task(w)
    rows = {}

    def row_of(h, state):
        return rows[h, state] if (h, state) in rows else rows.setdefault((h, state), learner.add_row())

    h, state = 0, grid.start
    for _ in range(6_000):
        row = row_of(h, state)
        chosen = learner.choose(row)
        action = chosen[0]
        if rng.random() < 0.5:
            action = int(rng.integers(mdp.n_actions))
        entry = mdp.indptr[state * mdp.n_actions + action]  # without slip there is one successor
        phi, after, h = mdp.phi[entry], int(mdp.successor[entry]), h + 1
        over = bool(mdp.terminal[after]) or h == horizon
        learner.learn(row, action, chosen, phi, float(phi @ w), None if over else row_of(h, after))
        h, state = (0, grid.start) if over else (h, after)
    best = plan(mdp, w, horizon=horizon).value
    assert len(rows) > 4
    for (h, state), row in rows.items():
        assert (moments_of(learner, 0, row).psi @ w).max() == pytest.approx(best[h, state], abs=1e-3)


@pytest.mark.parametrize("learn_w", [False, True])
def test_who_follows_the_path_of_a_twin_learns_the_same(learn_w):
    """All that is learned of a step depends on the step, not on who took it."""
    settings = TableSettings(learn_w=learn_w)
    leader, follower = (SuccessorLearner(ROOMS.n_features, 4, settings, 3, 3, AVERSE) for _ in range(2))
    for w in ROOMS.random_tasks(3, np.random.default_rng(0)):
        for learner in (leader, follower):
            learner.begin_task(None if learn_w else w)
        for number in range(2):
            follower.follow(ROOMS, leader.lead(ROOMS, w, 700, number))
    np.testing.assert_array_equal(leader.memory.w, follower.memory.w)
    np.testing.assert_array_equal(leader.keys(), follower.keys())
    for policy, row in product(range(3), range(0, leader.states, 7)):
        for mine, theirs in zip(moments_of(leader, policy, row), moments_of(follower, policy, row), strict=True):
            np.testing.assert_array_equal(mine, theirs)


class Ring(NamedTuple):
    """Cells in a ring; action 1 moves on, unless chance holds it back; cell 0 pays and ends, cell 3 is a failure."""

    cells: int

    def first_state(self):
        return 1

    def next_state(self, state, action, draw):
        state = (state + 1) % self.cells if action == 1 and draw < 0.8 else state
        return state, 1 if state == 0 else 2 if state == 3 else 0, state == 0

    def number(self, state, i):
        return state


class RingWorld(NamedTuple):
    """`Ring` as a `TabularWorld`."""

    step_limit: int = 20
    n_features: int = 2
    n_actions: int = 2
    kinds: np.ndarray = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 0.5]])
    failure: int = 2
    sizes: tuple[int, ...] = (6,)

    def world(self):
        return Ring(6)


@pytest.fixture
def plain_loops(monkeypatch):
    """Loops that step a world run in Python, so that a test's own world need not be compiled."""
    monkeypatch.setattr(tabular_world, "_not_cached", lambda loop: loop.py_func)
    monkeypatch.setattr("rasf.tabular.sfql.advance", advance.py_func)
    monkeypatch.setattr("rasf.tabular.model_loop.advance", advance.py_func)
    monkeypatch.setattr("rasf.tabular.model_loop.row_of", model_loop.row_of.py_func)


def test_a_world_of_ones_own_is_learned_and_need_not_be_certain(plain_loops):
    world, w = RingWorld(), np.array([2.0, -1.0])
    learner = SuccessorLearner(2, 2, TableSettings(), 0, 1)
    seen = learner.learn_task(world, w, 3_000)
    rows = {int(key): row for row, (key,) in enumerate(learner.keys())}
    assert set(rows) == {1, 2, 3, 4, 5}
    assert all(learner.choose(row)[0] == 1 for row in rows.values())
    assert seen.episodes > 300
    assert seen.failures > seen.episodes
    assert moments_of(learner, 0, rows[5]).psi[1, 0] == pytest.approx(0.8 / (1 - 0.2 * 0.95), abs=0.2)


def test_a_model_learns_a_world_of_ones_own(plain_loops):
    world, w = RingWorld(), np.array([2.0, -1.0])
    learner = ModelLearner(2, 2, ModelSettings(), 0)
    learner.begin_task(w)
    seen = learner.lead(world, w, MeanVariance(0.0), 2_000)
    rows = {int(key): row for row, (key,) in enumerate(learner.keys())}
    policy = learner.policy(w)
    assert [policy[rows[cell]] for cell in range(1, 6)] == [1] * 5
    assert learner.value(rows[5]) == pytest.approx(2 * 0.8 / (1 - 0.2 * 0.95), abs=0.1)
    assert seen.failures >= seen.episodes > 200


def test_defaults_are_the_paper_s():
    """Appendix C.2. "Much smaller" step sizes of Sigma (appendix A.1) are here a fifth of those of psi."""
    given = TableSettings()
    assert (given.gamma, given.epsilon, given.alpha, given.alpha_sigma, given.alpha_w) == (0.95, 0.12, 0.5, 0.1, 0.5)
