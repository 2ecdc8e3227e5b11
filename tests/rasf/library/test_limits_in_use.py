"""Limits with a library: budgets that hold through an episode, whatever happens in it."""

from types import SimpleNamespace

import numpy as np
import pytest
from library_worlds import gamble

import rasf
from rasf import CVaR, Entropic, FiniteMDP, Limit, MeanVariance, plan, successor_moments
from rasf.library.acting.gpi import PerStateRisk
from rasf.library.acting.limited import WithinLimits
from rasf.limits import read_limits

D, GAMMA, STEPS = 3, 0.5, 12
NEUTRAL = MeanVariance(0.0)


def exact_sources(rng, S=4, A=3):
    """Policies that are optimal for some tasks, with their exact laws, in the words of a library."""
    P = rng.dirichlet(np.full(S, 0.5), (S, A))
    P = np.where(np.partition(P, -2, axis=-1)[..., [-2]] > P, 0.0, P)  # two successors each
    P /= P.sum(axis=-1, keepdims=True)
    phi = rng.random((S, A, D))
    mdp = FiniteMDP(P, phi, gamma=GAMMA)
    tasks = [np.r_[rng.random(D - 1), -rng.exponential()] for _ in range(4)]
    policies = [plan(mdp, task, Entropic(0.0)).policy for task in tasks]
    policies = [policy if policy.ndim == 1 else policy[-1] for policy in policies]
    psi = np.stack([successor_moments(mdp, policy).psi for policy in policies])

    def scores(obs, w, risk):
        mean = psi[:, obs[:, 0].astype(int)] @ w
        return SimpleNamespace(values=mean, mean=mean, std=np.zeros_like(mean))

    sources = SimpleNamespace(scores=scores, n_actions=A, n_features=D, gamma=GAMMA, check=lambda risk: None)
    sources.seen = lambda obs: np.ones(len(obs), bool)
    sources.actions = lambda obs, chosen: chosen
    sources.act = lambda obs, w, risk: scores(obs, w, risk).mean.max(axis=0).argmax(axis=1)
    return sources, [(task, NEUTRAL) for task in tasks], P, phi


def follow(rule, P, phi, start):
    """Expected discounted features over STEPS, by all paths; and what was chosen first."""
    state, chance, total = np.array([start]), np.ones(1), np.zeros(D)
    memory = rule.begin(state[:, None].astype(float))
    for t in range(STEPS):
        actions = rule.act(state[:, None].astype(float), memory)
        memory.advance(np.zeros(len(state)), GAMMA)
        total += GAMMA**t * (chance[:, None] * phi[state, actions]).sum(axis=0)
        if t == 0:
            first = memory.of(np.zeros(1, int))
        rows, after = np.nonzero(P[state, actions])
        chance, memory = chance[rows] * P[state[rows], actions[rows], after], memory.of(rows)
        state = after
    return total, first


def test_with_exact_laws_limits_are_kept_and_nothing_is_lost():
    rng, binding = np.random.default_rng(0), 0
    for _ in range(40):
        sources, own, P, phi = exact_sources(rng)
        w, start = np.r_[rng.random(D - 1), 0.0], 0
        costs = sources.scores(np.zeros((1, 1)), np.eye(D)[-1], NEUTRAL).mean
        limit = float(rng.uniform(costs.min(), costs.max()))
        free_rule = PerStateRisk(sources, w, NEUTRAL, w)
        rule = WithinLimits.of(free_rule, read_limits({D - 1: limit}, D), own)
        total, first = follow(rule, P, phi, start)
        tail = GAMMA**STEPS / (1 - GAMMA)
        assert first.own["kept"].all()
        assert total[-1] <= limit + tail
        values = sources.scores(np.zeros((1, 1)), w, NEUTRAL).mean
        predicted = values[costs <= limit + 1e-9].max()
        assert total @ w >= predicted - tail * np.abs(w).sum() - 1e-9
        free, _ = follow(free_rule, P, phi, start)
        binding += free[-1] > limit + tail
    assert binding > 10  # who minds no limit breaks it


@pytest.fixture(scope="module")
def library():
    """Policies for the sure way and for the short one, which falls half of the time."""
    tasks = [[-0.1, 1.0, -2.0], [-1.0, 1.0, -0.1]]
    return rasf.learn(gamble(failing=(2,)), tasks=tasks, agent="rasf-model", steps_per_task=4_000, gamma=0.9)


W = [-1.0, 1.0, -0.1]


def test_limits_choose_the_sure_way(library):
    free, within = (
        library.evaluate(gamble(failing=(2,)), W, limits=limits, episodes=40) for limits in (None, {2: 0.1})
    )
    assert free.failures.mean() > 0.2
    assert within.failures.sum() == 0
    assert list(within.limited()) == ["2 <= 0.1"]
    assert within.measures["2 <= 0.1"].estimate == 0
    assert within.prices["2"] > 0
    assert "prices: 2 " in str(within)
    assert within.describe()["limits"] == {"2": "at most 0.1"}
    assert library.act(0, W) == free_action(library)
    assert library.act(0, W, limits={2: 0.1}) != library.act(0, W)
    assert library.act(np.zeros(3, int), W, limits={2: 0.1}).tolist() == [library.act(0, W, limits={2: 0.1})] * 3


def free_action(library):
    return int(library.scores(0, W).action)


def test_scores_tell_prices_and_what_is_expected(library):
    found = library.scores(0, W, limits={2: 0.1})
    assert found.expected["2"] == pytest.approx(0.0, abs=1e-6)
    assert found.prices["2"] > 0
    assert found.remarks == ("",)
    assert "2 priced" in repr(found)
    assert library.scores(0, W, limits={2: 5.0}).prices["2"] == 0.0
    batch = library.scores(np.zeros(2, int), W, limits={2: 0.1})
    assert batch.prices["2"].shape == (2,)


def test_what_cannot_be_kept_is_said_and_the_nearest_taken(library):
    found = library.scores(0, W, limits={0: 0.5})  # both ways take a step at least
    assert found.remarks[0].startswith("0 at most 0.5 cannot be kept: the nearest attainable sum is ")
    assert "cannot be kept" in repr(found)
    report = library.evaluate(gamble(failing=(2,)), W, limits={0: 0.5}, episodes=3)
    assert any("cannot be kept" in remark for remark in report.remarks())
    actor = library.actor(W, limits={0: 0.5})
    actor.act(0)
    assert "cannot be kept" in actor.remarks()[0]


def test_an_actor_within_limits_does_what_evaluate_does(library):
    env = gamble(failing=(2,))
    for risk, static in ((NEUTRAL, True), (MeanVariance(-0.5), False), (CVaR(0.5), True)):
        report = library.evaluate(env, W, risk, limits={2: 0.3}, episodes=10, static=static and risk != NEUTRAL)
        actor = library.actor(W, risk, limits={2: 0.3}, static=static)
        from rasf.envs.gymnasium.single import seeds_from

        for seed, phi in zip(seeds_from(0, 10), report.phi, strict=True):
            (obs, _), total, over = env.reset(seed=seed), np.zeros(3), False
            actor.reset()
            while not over:
                obs, gained, over, cut, _ = env.step(actor.act(obs))
                actor.observe(gained)
                total, over = total + gained, over or cut
            np.testing.assert_allclose(total, phi)
        assert actor.prices.keys() == {"2"}


def test_discount_aware_goes_with_limits(library):
    report = library.evaluate(
        gamble(failing=(2,)), W, MeanVariance(-0.1), limits={2: 0.1}, episodes=5, discount_aware=True
    )
    assert report.failures.sum() == 0


def test_where_nobody_knows_anything_the_driver_goes_on():
    """Two policies: 0 is dear, 1 is cheap; an observation that nobody knows must not hand over to 0."""
    costs = {0: [[0.9], [0.05]], 1: [[0.0], [0.0]], 2: [[0.8], [0.05]]}  # by observation: (K, A)

    def scores(obs, w, risk):
        mean = np.stack([np.array(costs[int(o)]) for o in obs[:, 0]], axis=1) * w[0]
        return SimpleNamespace(values=mean, mean=mean, std=0 * mean)

    sources = SimpleNamespace(scores=scores, n_actions=1, n_features=1, gamma=0.9, check=lambda risk: None)
    sources.actions = lambda obs, chosen: chosen
    sources.seen = lambda obs: obs[:, 0] != 1
    free = PerStateRisk(sources, np.ones(1), NEUTRAL, np.ones(1))
    rule = WithinLimits.of(free, read_limits({0: 0.05}, 1), [((1.0,), NEUTRAL)] * 2)
    for path in ((0, 2), (0, 1, 2), (1, 0, 1, 2)):
        memory = rule.begin(np.array([[float(path[0])]]))
        for state in path:
            rule.act(np.array([[float(state)]]), memory)
            memory.advance(np.zeros(1), 0.9)
        assert memory.own["source"].tolist() == [1]
        assert memory.own["kept"].all()
        assert memory.own["costs"].tolist() == [[0.05]]


@pytest.mark.parametrize("risk", [NEUTRAL, CVaR(0.3), MeanVariance(-0.5)])
def test_a_limit_that_cannot_bind_changes_nothing(library, risk):
    for w in (W, [-0.1, 1.0, -2.0], [-0.5, 2.0, -1.0]):
        static = isinstance(risk, CVaR)
        free, within = (
            library.evaluate(gamble(failing=(2,)), w, risk, limits=limits, episodes=30, static=static)
            for limits in (None, {2: 1e6})
        )
        np.testing.assert_array_equal(free.phi, within.phi)


def test_policies_for_a_risk_of_plans_keep_limits_too():
    tasks = [[-0.1, 1.0, -2.0], [-1.0, 1.0, -0.1]]
    options = {"agent": "rasf-model", "steps_per_task": 2_000, "gamma": 0.9, "risk": rasf.NestedEntropic(-1.0)}
    planned = rasf.learn(gamble(failing=(2,)), tasks=tasks, **options)
    assert planned.evaluate(gamble(failing=(2,)), W, limits={2: 0.1}, episodes=10).failures.sum() == 0
    assert planned.risks() == [NEUTRAL]


def test_several_limits_and_some_episodes_over(library):
    actor = library.actor(W, limits={2: 0.1, 1: Limit(at_least=0.2)})
    assert actor.act(np.zeros(3, int)).shape == (3,)
    actor.observe(np.zeros((3, 3)))
    before = {name: part.copy() for name, part in actor.prices.items()}
    actor.act(np.ones(3, int))
    actor.observe(np.ones((3, 3)))
    actor.reset([True, False, True])
    actor.act(np.zeros(3, int))
    assert actor.accrued.tolist()[0] == actor.accrued.tolist()[2] == 0.0
    assert actor.accrued[1] != 0.0
    for name, part in actor.prices.items():
        np.testing.assert_array_equal(part, before[name])


def test_bad_input(library):
    with pytest.raises(ValueError, match="needs a calibrated library"):
        library.act(0, W, limits={2: Limit(0.1, per_episode=True)})
    with pytest.raises(ValueError, match="limits must name a feature: a number from 0 to 2, got 'failure'"):
        library.evaluate(gamble(), W, limits={"failure": 0.1})
