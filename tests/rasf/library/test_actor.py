"""Acting for a static risk: scores by stock against sums and integrals, what an actor carries, episodes with it."""

from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import rasf
from rasf.library.acting.gpi import PerStateRisk
from rasf.library.acting.rule import Memory
from rasf.library.acting.static import StaticRisk
from rasf.risk import CVaR, Entropic, MeanVariance, MonotoneMeanVariance, PiecewiseLinear

RISKS = [CVaR(0.25), PiecewiseLinear(0.2, 4.0), MonotoneMeanVariance(-0.4), Entropic(-0.6)]
K, B, A = 2, 5, 3
W = np.ones(1)


class Coins(gym.Env):
    """Four rounds: 1 for sure, or 3 or nothing by a fair coin. The observation is the round."""

    def __init__(self):
        self.observation_space, self.action_space = spaces.Discrete(5), spaces.Discrete(2)
        self.reward_space = spaces.Box(0.0, 3.0, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._round = 0
        return 0, {}

    def step(self, action):
        self._round += 1
        won = 3.0 * (self.np_random.random() < 0.5) if action else 1.0
        return self._round, np.array([won], np.float32), self._round == 4, False, {}


def static_rule(sources, w, risk):
    return StaticRisk(sources, w, risk, w)


def memory_of(stock, discount):
    """What is remembered where so much lies above the threshold."""
    return Memory(stock, discount, {"threshold": np.zeros(len(stock))})


def act_by_stock(sources, obs, w, risk, stock, discount):
    return static_rule(sources, w, risk).act(obs, memory_of(stock, discount))


def first_thresholds(sources, obs, w, risk):
    return static_rule(sources, w, risk).begin(obs).own["threshold"]


def of_moments(rng):
    mean, std = rng.normal(size=(K, B, A)), rng.uniform(0.1, 2.0, (K, B, A))
    scores = SimpleNamespace(mean=mean, std=std, values=mean)
    return sources_of(A, laws=lambda obs, w: None, scores=lambda obs, w, risk: scores), mean, std


def sources_of(n_actions, **parts):
    """Policies whose actions are numbered."""
    return SimpleNamespace(n_actions=n_actions, actions=lambda obs, chosen: chosen, **parts)


@pytest.mark.parametrize("risk", RISKS)
def test_normal_laws_by_integration(risk):
    rng = np.random.default_rng(0)
    sources, mean, std = of_moments(rng)
    z = np.linspace(-8, 8, 20_001)
    p = np.exp(-(z**2) / 2)
    p /= p.sum()
    stock, discount = rng.normal(size=B), rng.uniform(0.3, 1.0, B)
    actions = act_by_stock(sources, np.zeros((B, 1)), W, risk, stock, discount)
    b = first_thresholds(sources, np.zeros((B, 1)), W, risk)
    for i in range(B):
        laws = mean[:, i, :, None] + std[:, i, :, None] * z
        scores = (risk.utility(stock[i] + discount[i] * laws) @ p).max(axis=0)
        assert actions[i] == scores.argmax()
        value, own = risk.with_threshold(np.broadcast_to(p, laws.shape), laws)
        assert b[i] == pytest.approx(own.ravel()[value.argmax()], abs=2e-2)


def test_where_no_loss_can_reach_the_threshold_the_mean_decides():
    probs, values = np.array([[0.5, 0.5], [0.1, 0.9]])[None, None], np.array([0.0, 1.0])
    sources = sources_of(2, laws=lambda obs, w: (probs, values))
    above, one = np.full(1, 5.0), np.ones(1)
    assert act_by_stock(sources, np.zeros((1, 1)), W, CVaR(0.1), above, one).tolist() == [1]
    # of two policies that the risk does not tell apart, the one with the larger mean is selected
    twice = sources_of(2, laws=lambda obs, w: (np.concatenate([probs, probs[..., ::-1, :]]), values))
    rule = static_rule(twice, W, CVaR(0.1))
    assert rule.select(np.zeros((1, 1)), memory_of(above, one)).tolist() == [1 * 2 + 0]


def test_what_a_table_does_not_know_is_not_chosen():
    sources, mean, std = of_moments(np.random.default_rng(0))
    values = np.where(np.arange(A) == 1, mean, -np.inf)
    scores = SimpleNamespace(mean=mean, std=np.where(np.isfinite(values), std, np.nan), values=values)
    sources.scores = lambda obs, w, risk: scores
    none, ones = np.zeros(B), np.ones(B)
    for risk in RISKS:
        assert act_by_stock(sources, np.zeros((B, 1)), W, risk, none, ones).tolist() == [1] * B
        assert np.isfinite(first_thresholds(sources, np.zeros((B, 1)), W, risk)).all()


@pytest.mark.parametrize("risk", RISKS)
def test_laws_by_their_sums(risk):
    rng = np.random.default_rng(1)
    probs, values = rng.dirichlet(np.ones(7), (K, B, A)), np.sort(rng.normal(size=7))
    sources = sources_of(A, laws=lambda obs, w: (probs, values))
    stock, discount = rng.normal(size=B), rng.uniform(0.3, 1.0, B)
    actions = act_by_stock(sources, np.zeros((B, 1)), W, risk, stock, discount)
    b = first_thresholds(sources, np.zeros((B, 1)), W, risk)
    for i in range(B):
        scores = [
            max(
                sum(
                    p * risk.utility(np.float64(stock[i] + discount[i] * x))
                    for p, x in zip(probs[k, i, a], values, strict=True)
                )
                for k in range(K)
            )
            for a in range(A)
        ]
        assert scores[actions[i]] == pytest.approx(max(scores))
        value, own = risk.with_threshold(probs[:, i], values)
        assert b[i] == pytest.approx(own.ravel()[value.argmax()])


@pytest.fixture(scope="module")
def library():
    return rasf.learn(
        Coins,
        tasks=[[1.0]],
        agent="rasfql",
        steps_per_task=8_000,
        gamma=0.9,
        epsilon=0.5,
        seed=1,
        alpha=0.02,
        alpha_sigma=0.02,
    )


def test_an_actor_carries_what_was_earned(library):
    actor = library.actor(w=[1.0], risk=CVaR(0.25), static=True)
    for _ in range(2):
        assert actor.act(0) in (0, 1)
        assert actor.accrued.tolist() == [0.0]
        threshold = actor.threshold.tolist()
        actor.observe([3.0])  # features
        actor.observe(1.0)  # or a reward
        assert actor.accrued.tolist() == pytest.approx([3.0 + 0.9])
        assert actor.discount.tolist() == pytest.approx([0.81])
        assert actor.threshold.tolist() == threshold
        actor.act(2)
        actor.reset()
    actions = actor.act([0, 0, 0])
    actor.observe([[3.0], [0.0], [1.0]])
    actor.act([1, 1, 1])
    actor.observe([1.0, 1.0, 1.0])
    actor.reset([True, False, False])
    np.testing.assert_array_equal(actor.act([0, 2, 2])[0], actions[0])
    np.testing.assert_allclose(actor.accrued, [0.0, 0.9, 1.9])
    np.testing.assert_allclose(actor.discount, [1.0, 0.81, 0.81])


@pytest.mark.parametrize("ways", [{}, {"static": False}, {"static": True}])
def test_episodes_by_hand_are_those_of_evaluate(library, ways):
    risk = CVaR(0.25)
    report = library.evaluate(Coins, [1.0], risk, episodes=20, seed=3, **ways)
    from rasf.envs.gymnasium.single import seeds_from

    env, actor, discounted = Coins(), library.actor([1.0], risk, **ways), []
    for seed in seeds_from(3, 20):
        obs, total, t, over = env.reset(seed=seed)[0], 0.0, 0, False
        actor.reset()
        while not over:
            obs, phi, over, _, _ = env.step(actor.act(obs))
            actor.observe(phi)
            total, t = total + 0.9**t * float(phi[0]), t + 1
        discounted.append(total)
    np.testing.assert_allclose(report.discounted, discounted)


def test_what_was_won_may_be_played_with(library):
    """Where the threshold is safe already, more is sought; where it is far, nothing is left to lose."""
    sources, risk = library.sources, PiecewiseLinear(0.9, 10.0)
    last = library.encode(3)[None]
    ahead, behind = (act_by_stock(sources, last, np.ones(1), risk, np.array([y]), np.ones(1))[0] for y in (9.0, -0.5))
    assert (ahead, behind) == (1, 0)  # 1.5 on average and never below; else the sure 1 that lifts it above


class FirstSource(PerStateRisk):
    """Acts by the first policy alone: all that a further way to act has to say."""

    def values(self, obs, memory):
        return super().values(obs, memory)[:1]

    def act(self, obs, memory):
        return self.select(obs, memory)


def test_a_further_way_to_act_is_one_class(library):
    plain, alone = (library.evaluate(Coins, [1.0], episodes=5, acting=acting) for acting in (None, FirstSource))
    np.testing.assert_array_equal(plain.phi, alone.phi)  # there is one policy
    assert isinstance(alone.rule, FirstSource)
    assert library.evaluate(Coins, [1.0], episodes=5, acting=FirstSource, limits={0: 2.0}).prices.keys() == {"0"}
    assert library.actor([1.0], acting=FirstSource).act(0) == library.act(0, [1.0])
    with pytest.raises(ValueError, match="static and acting are two ways to act; choose one"):
        library.actor([1.0], CVaR(0.5), static=True, acting=FirstSource)
    with pytest.raises(ValueError, match="acting must be a subclass of"):
        library.evaluate(Coins, [1.0], episodes=5, acting="first")


def test_bad_input(library):
    with pytest.raises(ValueError, match="certainty equivalent"):
        library.actor([1.0], MeanVariance(-1.0), static=True)
    with pytest.raises(ValueError, match="certainty equivalent"):
        library.evaluate(Coins, [1.0], MeanVariance(-1.0), episodes=2, static=True)
    with pytest.raises(ValueError, match="choose one"):
        library.evaluate(Coins, [1.0], CVaR(0.5), episodes=2, static=True, discount_aware=True)
    actor = library.actor([1.0], CVaR(0.5), static=True)
    with pytest.raises(ValueError, match="observe must be called once after each act"):
        actor.observe(1.0)
    actor.act([0, 0])
    with pytest.raises(ValueError, match="obs must have one observation for each of 2 episodes"):
        actor.act([0, 0, 0])
    with pytest.raises(ValueError, match=r"features \(2, 1\) or rewards \(2,\)"):
        actor.observe([1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="must be finite"):
        actor.observe([np.nan, 1.0])
    with pytest.raises(ValueError, match="gained must be numbers, got 'x'"):
        actor.observe("x")
    with pytest.raises(ValueError, match="over must have shape"):
        actor.reset([True])
    with pytest.raises(ValueError, match="w must"):
        library.actor([1.0, 2.0], CVaR(0.5))
    plain = rasf.learn(Coins, tasks=[[1.0]], agent="sfql", steps_per_task=50, gamma=0.9)
    with pytest.raises(ValueError, match="spread"):
        plain.actor([1.0], CVaR(0.5), static=True).act(0)
