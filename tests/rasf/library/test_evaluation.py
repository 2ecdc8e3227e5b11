"""`evaluate` and `compare` against a plain loop, numpy and numbers by hand."""

from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from library_worlds import Finite, gamble, random_world, scripted

import rasf
from rasf import CVaR, MeanVariance, Risk
from rasf.envs.gymnasium.single import seeds_from
from rasf.library.acting.gpi import PerStateRisk
from rasf.library.acting.rule import Prediction
from rasf.risk.names import is_neutral
from rasf.statistics import event_difference, mean_interval, share_interval

NEUTRAL, AVERSE = MeanVariance(0.0), MeanVariance(-2.0)
W = np.array([-0.2, 1.0, -0.5])


@pytest.fixture(scope="module")
def library():
    return rasf.learn(
        gamble(start=0), tasks=[[0, 1, 0], [-1, 0, 0], [0, 0, -1]], agent="rasfql", gamma=0.9, steps_per_task=600,
        alpha=0.05, alpha_sigma=0.05, epsilon=0.5,
    )  # fmt: skip


@pytest.fixture(scope="module")
def wide():
    """On a random world that starts anywhere and is cut after 9 steps."""
    return rasf.learn(random_world(4, limit=9), tasks=np.eye(2), agent="rasfql", gamma=0.8, steps_per_task=500)


def by_hand(library, world, w, risk, seeds, gamma=None, failed=lambda step, info: info.get("failure", False)):
    """Returns, discounted returns, failures, lengths, cuts of the episodes; discount-aware where gamma is given."""
    rows = []
    for seed in seeds:
        obs, _ = world.reset(seed=seed)
        earned, discounted, failures, t, over = 0.0, 0.0, 0, 0, False
        while not over:
            asked = risk if gamma is None else MeanVariance(risk.beta * gamma**t)
            obs, phi, terminated, truncated, info = world.step(library.act(obs, w, asked))
            earned, discounted = earned + phi, discounted + library.gamma**t * phi
            failures, t, over = failures + failed(phi, info), t + 1, terminated or truncated
        rows.append((earned, discounted, failures, t, not terminated))
    earned, discounted, *counts = map(np.array, zip(*rows, strict=True))
    return earned @ w, discounted @ w, *counts


@pytest.mark.parametrize("as_function", [False, True])
def test_the_numbers_are_those_of_a_plain_loop(wide, as_function):
    w, make = np.array([0.3, -0.8]), lambda: random_world(4, limit=9)
    report = wide.evaluate(make if as_function else make(), w, AVERSE, 40, seed=6)
    returns, discounted, _, lengths, cut = by_hand(wide, make(), w, AVERSE, seeds_from(6, 40))
    np.testing.assert_array_equal(report.returns, returns)
    np.testing.assert_array_equal(report.discounted, discounted)
    np.testing.assert_array_equal(report.lengths, lengths)
    np.testing.assert_array_equal(report.truncated, cut)
    assert 0 < cut.sum() < 40
    assert report.failures is None
    assert (report.episodes, report.unseen, report.gamma) == (40, 0.0, 0.8)
    np.testing.assert_array_equal(report.phi @ w, returns)
    assert len(set(returns)) > 20


def test_summaries_are_numpys(wide):
    report = wide.evaluate(random_world(4, limit=9), [1.0, 0.5], NEUTRAL, 30)
    for name, values in (("return", report.returns), ("discounted", report.discounted)):
        assert report.measures[name].estimate == pytest.approx(values.mean(), rel=1e-12)
        assert report.measures[f"{name}_variance"].estimate == pytest.approx(np.var(values, ddof=1), rel=1e-12)
        assert report.measures[f"{name}_cvar"].estimate == pytest.approx(np.sort(values)[:3].mean(), rel=1e-12)
        assert report.measures[f"{name}_cvar"].estimate == pytest.approx(float(CVaR(0.1).samples(values)), rel=1e-12)
        for measure in (name, f"{name}_variance", f"{name}_cvar"):
            estimate, low, high = report.measures[measure]
            assert low <= estimate <= high
            assert low < high
    assert report.measures["length"].estimate == report.lengths.mean()
    assert "failures" not in report.measures
    assert f"{report.episodes} episodes, risk neutral" in str(report)


@pytest.mark.parametrize(("n", "worst"), [(5, 1.0), (15, (1.0 + 0.5 * 2.0) / 1.5), (20, 1.5)])
def test_a_part_of_an_episode_counts_in_part_in_the_worst_tenth(n, worst):
    # returns 1 .. n, by the seed's order
    class Ranks(gym.Env):
        observation_space, action_space = spaces.Discrete(1), spaces.Discrete(1)
        order = iter(np.random.default_rng(0).permutation(n) + 1.0)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return 0, {}

        def step(self, action):
            return 0, np.array([next(self.order, 0.0)]), True, False, {}

    alike = Finite(np.ones((1, 1, 1)), np.ones((1, 1, 1, 1)), ends=(0,))
    library = rasf.learn(alike, tasks=1, agent="sfql", steps_per_task=1)
    world = Ranks()
    world.reward_space = spaces.Box(0.0, float(n), (1,))  # so that no step is spent to count the features
    report = library.evaluate(world, [1.0], NEUTRAL, n)
    np.testing.assert_array_equal(np.sort(report.returns), np.arange(1.0, n + 1))
    assert report.measures["return_cvar"].estimate == pytest.approx(worst)


def test_sums_and_discounts_by_hand(library):
    # action 0: 0 -> 1 -> 3 in two steps, 1.5 gained in the second
    report = library.evaluate(gamble(), [0.0, 1.0, -9.0], MeanVariance(-50.0), 4)
    np.testing.assert_array_equal(report.returns, np.full(4, 1.5))
    np.testing.assert_allclose(report.discounted, np.full(4, 0.9 * 1.5))
    np.testing.assert_array_equal(report.phi, np.tile([2.0, 1.5, 0.0], (4, 1)))
    np.testing.assert_array_equal(report.lengths, [2, 2, 2, 2])
    assert not report.truncated.any()
    for measure in ("return_variance", "discounted_variance"):
        assert tuple(report.measures[measure]) == (0.0, 0.0, 0.0)


def test_risk_decides_what_is_met(library):
    bold, careful = (library.evaluate(gamble(), [0.0, 1.0, 0.0], risk, 400) for risk in (NEUTRAL, AVERSE))
    assert bold.measures["return"].estimate == pytest.approx(2.0, abs=0.3)  # half of 4
    assert bold.measures["return_variance"].estimate == pytest.approx(4.0, abs=0.2)
    assert bold.measures["return_cvar"].estimate == 0.0
    assert bold.measures["failures"].estimate == pytest.approx(0.5, abs=0.1)
    assert tuple(careful.measures["return"]) == (1.5, 1.5, 1.5)
    assert careful.measures["failures"] == share_interval(0, 400)
    assert bold.measures["failures"] == share_interval(bold.failures.sum(), 400)


def two_gambles(gain):
    """In 0, then in 1, action 0 walks on for nothing; action 1 wins gain + 1 or loses 1 - gain, and losing ends it."""
    P, phi = np.zeros((4, 2, 4)), np.zeros((4, 2, 4, 1))
    P[0, 0, 1] = 1.0
    P[0, 1, [1, 2]] = 0.5
    P[1, 0, 3] = 1.0
    P[1, 1, [2, 3]] = 0.5
    P[2, :, 3] = P[3, :, 3] = 1.0
    phi[0, 1, 1, 0] = phi[1, 1, 3, 0] = gain + 1.0
    phi[0, 1, 2, 0] = phi[1, 1, 2, 0] = gain - 1.0
    return Finite(P, phi, ends=(3,))


def test_a_discount_aware_library_counts_later_risks_less():
    # at gamma 0.5 a gamble of variance 1 and mean 0.3 is not worth it at beta -1 (0.3 < 0.5), but at -0.5 it is
    world = two_gambles(0.3)
    library = rasf.learn(
        world, tasks=[[1.0], [-1.0]], agent="rasfql", gamma=0.5, steps_per_task=6000, alpha=0.02, alpha_sigma=0.02,
        epsilon=1.0,
    )  # fmt: skip
    risk = MeanVariance(-1.0)
    assert [library.act(s, [1.0], risk) for s in (0, 1)] == [0, 0]
    assert [library.act(s, [1.0], MeanVariance(-0.5)) for s in (0, 1)][1] == 1
    plain = library.evaluate(two_gambles(0.3), [1.0], risk, 50, seed=2)
    aware = library.evaluate(two_gambles(0.3), [1.0], risk, 50, seed=2, discount_aware=True)
    np.testing.assert_array_equal(plain.returns, np.zeros(50))
    assert set(np.round(aware.returns, 9)) == {1.3, -0.7}
    by_loop = by_hand(library, two_gambles(0.3), np.ones(1), risk, seeds_from(2, 50), gamma=0.5)
    for found, expected in zip((aware.returns, aware.discounted), by_loop, strict=False):
        np.testing.assert_array_equal(found, expected)

    class Plain(Risk):
        supports = frozenset({"moments"})

        def moments(self, mean, variance):
            return mean

    assert library.evaluate(world, [1.0], Plain(), 2).episodes == 2
    with pytest.raises(ValueError, match=r"Plain .* discount_aware"):
        library.evaluate(world, [1.0], Plain(), 2, discount_aware=True)


def test_compare_meets_the_same_beginnings(wide):
    begun = []

    class Recorded(Finite):
        def reset(self, *, seed=None, options=None):
            obs, info = super().reset(seed=seed)
            begun.append((seed, obs))
            return obs, info

    def make():
        like = random_world(4)
        return Recorded(like.P, like.phi, like.ends, start=None, limit=9)

    risks = {"bold": MeanVariance(3.0), "careful": AVERSE}
    both = wide.compare(make(), [0.3, -0.8], risks, 20, seed=5)
    runs = [start for start in begun if start[0] is not None]
    assert runs[-40:-20] == runs[-20:]
    assert [seed for seed, _ in runs[-20:]] == seeds_from(5, 20)
    assert len({obs for _, obs in runs[-20:]}) > 1
    for name, risk in risks.items():
        alone = wide.evaluate(make, [0.3, -0.8], risk, 20, seed=5)
        np.testing.assert_array_equal(both.reports[name].returns, alone.returns)
    gap = both.reports["careful"].returns - both.reports["bold"].returns
    assert both.difference("careful").estimate == pytest.approx(gap.mean())
    assert tuple(both.difference("bold", "discounted")) == (0.0, 0.0, 0.0)
    rows = both.rows()
    assert rows[0][:2] == ["risk", "return"]
    assert [row[0] for row in rows[1:]] == ["bold", "careful"]
    assert str(both).splitlines()[1].startswith("bold")
    # fewer episodes are the first ones
    np.testing.assert_array_equal(
        wide.evaluate(make, [0.3, -0.8], AVERSE, 7, seed=5).returns, both.reports["careful"].returns[:7]
    )


def test_failures_are_what_info_names_or_a_rule_says(library):
    w = [0.0, 1.0, 0.0]
    seeds = seeds_from(0, 30)
    _, _, fallen, lengths, _ = by_hand(library, gamble(), np.array(w), NEUTRAL, seeds)
    named = library.evaluate(gamble(), w, NEUTRAL, 30)
    np.testing.assert_array_equal(named.failures, fallen)
    assert 0 < fallen.sum() < 30
    ruled = library.evaluate(gamble(), w, NEUTRAL, 30, failure=lambda step: step.phi[2] == 0)
    np.testing.assert_array_equal(ruled.failures, lengths - fallen)
    unnamed = gamble(failing=None)
    assert library.evaluate(unnamed, w, NEUTRAL, 30).failures is None
    by_rule = library.evaluate(unnamed, w, NEUTRAL, 30, failure=lambda step: step.terminated and step.obs == 3)
    np.testing.assert_array_equal(by_rule.failures, np.ones(30))


@pytest.mark.parametrize("order", [1, -1])
def test_who_never_met_a_failure_that_others_met_has_none(library, order):
    # this environment's info speaks of failures only when there is one
    risks = dict([("careful", AVERSE), ("bold", NEUTRAL)][::order])
    both = library.compare(gamble(named="then"), [0.0, 1.0, 0.0], risks, 30)
    np.testing.assert_array_equal(both.reports["careful"].failures, np.zeros(30))
    assert both.reports["bold"].failures.sum() > 0
    assert "-" not in [cell for row in both.rows() for cell in row]
    assert abs(both.difference(list(risks)[1], "failures").estimate) == both.reports["bold"].failures.mean()


def test_steps_may_be_limited_and_unseen_states_are_counted(wide):
    report = wide.evaluate(random_world(4, limit=9), [1.0, 1.0], NEUTRAL, 10, max_steps=2)
    assert report.lengths.max() == 2
    assert report.truncated.any()
    few = rasf.learn(gamble(start=0), tasks=[[0, 0, 1]], agent="rasfql", steps_per_task=1, epsilon=0.0)
    seen = few.scores(np.arange(4), [0, 0, 1], NEUTRAL).seen
    assert seen.tolist() == [True, False, False, False]
    again = few.evaluate(gamble(start=0), [0, 0, 1], NEUTRAL, 10)
    assert again.unseen == pytest.approx((again.lengths - 1).sum() / again.lengths.sum())


def test_what_is_printed_says_what_no_policy_knew_and_what_was_cut(library):
    few = rasf.learn(gamble(start=0), tasks=[[0, 0, 1]], agent="rasfql", steps_per_task=1, epsilon=0.0)
    report = few.evaluate(gamble(start=0), [0, 0, 1], NEUTRAL, 10)
    unseen = f"{report.unseen:.1%} of the decisions were at observations that no policy has seen"
    assert str(report).splitlines()[-1] == unseen
    both = few.compare(gamble(start=0), [0, 0, 1], [NEUTRAL, AVERSE], 10, max_steps=1)
    cut = int(both.reports["neutral"].truncated.sum())
    assert str(both).splitlines()[7] == f"neutral: {cut} of 10 episodes were truncated by a time limit"
    assert len(str(both).splitlines()) == 9
    assert "are equal" not in str(both)
    plain = library.evaluate(gamble(), [0.0, 1.0, -9.0], MeanVariance(-50.0), 4)
    assert str(plain).splitlines()[-1].startswith("all 4 returns are equal: intervals of width 0 are right only")
    assert str(plain).splitlines()[-2].startswith("sum of feature 2")
    assert (repr(report), repr(both)) == (str(report), str(both))  # as a notebook shows them


def test_an_episode_that_never_ends_is_cut_after_ten_thousand_steps():
    space, zero = spaces.Discrete(1), np.int64(0)
    endless = scripted(space, [zero], [1.0], ends=10**9)
    library = rasf.learn(endless, tasks=1, agent="rasfql", steps_per_task=2)
    report = library.evaluate(endless, [1.0], NEUTRAL, 2)
    assert report.lengths.tolist() == [10_000, 10_000]
    assert report.truncated.all()


def test_json_says_the_same():
    library = rasf.learn(gamble(), tasks=1, agent="rasfql", steps_per_task=50)
    comparison = library.compare(gamble(), W, [NEUTRAL, CVaR(0.2)], 5)
    found = comparison.describe()
    assert list(found) == ["neutral", "cvar:0.2"]
    assert found["cvar:0.2"]["episodes"] == 5
    assert found["neutral"]["measures"]["return"][0] == comparison.reports["neutral"].returns.mean()
    assert found["neutral"]["w"] == W.tolist()


# --- where


def test_an_id_brings_the_settings_of_training():
    def phi(obs, action, next_obs, info):
        return [next_obs[0], 1.0]

    library = rasf.learn(
        "CartPole-v1", tasks=[[0, 1]], agent="rasfql", steps_per_task=30, phi=phi,
        env_kwargs={"max_episode_steps": 7, "sutton_barto_reward": True},
    )  # fmt: skip
    assert library.environment.kwargs == {"sutton_barto_reward": True}
    assert library.evaluate("CartPole-v1", [0, 1], NEUTRAL, 3, phi=phi).lengths.max() == 7
    with pytest.raises(ValueError, match="phi must"):
        library.evaluate("CartPole-v1", [0, 1], NEUTRAL, 3)


def test_settings_that_no_file_can_keep_are_not_made_up():
    pytest.importorskip("mo_gymnasium")
    from mo_gymnasium.envs.deep_sea_treasure.deep_sea_treasure import CONCAVE_MAP

    asked = {"env_kwargs": {"dst_map": CONCAVE_MAP}, "agent": "rasfql", "tasks": 1, "steps_per_task": 20}
    library = rasf.learn("deep-sea-treasure-v0", **asked)
    with pytest.raises(ValueError, match="env must"):
        library.evaluate("deep-sea-treasure-v0", [1, 0], NEUTRAL, 2)


@pytest.mark.parametrize(("change", "said"), [
    ({"episodes": 1}, "episodes must"),
    ({"episodes": 10.0}, "episodes must"),
    ({"max_steps": 0}, "max_steps must"),
    ({"seed": -1}, "seed must"),
    ({"env": "nothing-v0"}, "env must"),
    ({"env": 7}, "env must"),
    ({"env_kwargs": 3}, "env_kwargs must be a dict of arguments by name, got 3"),
    ({"failure": lambda step: "no"}, r"the result of failure\(step\) must be True or False, got 'no'"),
    ({"env": random_world(0, S=5, d=3)}, "env must have the observations that the library was trained with"),
    ({"env": random_world(0, d=2)}, "env must have the n_features that the library was trained with, 3, got 2"),
    ({"env": random_world(0, A=3, d=3)}, "env must have the n_actions that the library was trained with, 2, got 3"),
    ({"env": gym.make("CartPole-v1")}, "the environment's reward is one number"),
])  # fmt: skip
def test_what_cannot_be_evaluated_is_refused(library, change, said):
    asked = {"env": gamble(), "w": W, "risk": NEUTRAL, "episodes": 3} | change
    with pytest.raises(ValueError, match=said) as refused:
        library.evaluate(**asked)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(("risks", "said"), [
    ([], "risks must be a list of risks, or a dict of risks by name"),
    (NEUTRAL, "risks must be a list of risks, or a dict of risks by name"),
    ([NEUTRAL, NEUTRAL], "risks must have different names, got neutral; to give other names, use a dict"),
    ([NEUTRAL, "cvar:0.1"], "risk must be a rasf risk"),
])  # fmt: skip
def test_what_cannot_be_compared_is_refused(library, risks, said):
    with pytest.raises(ValueError, match=said):
        library.compare(gamble(), W, risks, 3)


def test_sums_of_features_have_intervals(library):
    both = library.compare(gamble(), [0.0, 1.0, 0.0], {"bold": NEUTRAL, "careful": AVERSE}, 50)
    bold, careful = both.reports.values()
    assert list(bold.sums) == ["feature 0", "feature 1", "feature 2"]
    assert bold.sums["feature 0"] == mean_interval(bold.phi[:, 0])
    assert bold.sums["feature 2"] == share_interval(bold.phi[:, 2].sum(), 50)  # falls, at most one
    assert careful.sums["feature 2"] == share_interval(0, 50)  # a step's bounds are declared, 0 and 1
    assert str(replace(careful, sizes=None).sums["feature 2"]) == "0 [-, -]"
    assert both.sums()[0] == ["sums of features", *bold.sums]
    assert str(careful.sums["feature 2"]) in str(both)
    assert str(careful.sums["feature 2"]) in str(careful)
    assert careful.describe()["sums"]["feature 2"] == list(share_interval(0, 50))
    assert both.difference("careful", "failures") == event_difference(careful.failures, bold.failures)
    fallen = both.difference("careful", "feature 2")
    assert fallen.estimate == -bold.phi[:, 2].mean()


def test_prices_are_a_control(library):
    """A price changes the weights that choose; outcomes are counted by those of the task."""
    w = np.array([0.0, 1.0, 0.0])
    both = library.compare(gamble(), w, [NEUTRAL], 40, prices={2: [0.1, 9], "1": -1.0})
    assert list(both.reports) == ["neutral", "price 2 0.1", "price 2 9", "price 1 -1"]
    neutral, cheap, dear, _ = both.reports.values()
    np.testing.assert_array_equal(cheap.returns, neutral.returns)
    np.testing.assert_array_equal(dear.returns, np.full(40, 1.5))  # the sure way
    np.testing.assert_array_equal(dear.phi, library.evaluate(gamble(), [0.0, 1.0, -9.0], NEUTRAL, 40).phi)
    np.testing.assert_array_equal(dear.w, w)
    assert dear.describe()["acting_w"] == [0.0, 1.0, -9.0]
    assert "actions are chosen as if the weight of feature 2 were -9 instead of 0" in str(dear)
    assert neutral.acting_w is None
    alone = library.evaluate(gamble(), w, NEUTRAL, 40, prices={2: 9})
    np.testing.assert_array_equal(alone.phi, dear.phi)
    rule = library.rule(w, NEUTRAL, prices={2: 9.0})
    assert rule.predict(np.zeros((1, 1), int)).mean[0] == pytest.approx(0.9 * 1.5, abs=0.1)


def test_predictions_are_those_of_the_acting_rule(library):
    w, start = [0.0, 1.0, 0.0], np.zeros((1, 1), int)
    plain, limited = (library.rule(w, NEUTRAL, limits=limits) for limits in (None, {2: 0.0}))
    static = library.rule(w, CVaR(0.1), static=True)
    assert plain.predict(start).mean[0] > 1.6
    for rule in (limited, static):
        mean, spread = rule.predict(start).overall()
        assert mean == pytest.approx(0.9 * 1.5, abs=0.1)
        assert spread < 0.2
        later = rule.begin(start)
        later.discount[:] = 0.9**2
        assert rule.predict(start, later).mean[0] == pytest.approx(mean)


def test_bad_arguments_of_acting_are_refused_in_a_sentence(library):
    """Before an environment is made: this one says so."""

    def make():
        raise AssertionError

    bad = {
        "callback must be a function, got int": {"callback": 3},
        "episodes must be at most 10,000,000": {"episodes": 10**12},
        "episodes must be a whole number of at least 2": {"episodes": 1},
        "max_steps must be a whole number": {"max_steps": 0},
        "seed must be a whole number": {"seed": -1},
        "w must be within -1e.15 and 1e.15": {"w": [1e308, 1.0, 1.0]},
        "risks must be a list of risks": {"risks": "neutral"},
        "risks must have names that are text, got 1": {"risks": {1: NEUTRAL}},
        "static must be True or False, got 'x'": {"static": "x"},
        "prices must be a dict": {"prices": [4.0]},
        "prices must name each feature once": {"prices": {2: 1, "2": 1}},
        "prices of 2 must be one or more different numbers": {"prices": {2: []}},
        "a price of 2 must be a number": {"prices": {2: ["x"]}},
        "a price of 2 must be a finite number": {"prices": {2: float("nan")}},
    }
    for said, changes in bad.items():
        given = {"w": W, "risks": [NEUTRAL], "episodes": 3} | changes
        with pytest.raises(ValueError, match=said):
            library.compare(make, **given)
    for said, prices in {
        "prices must name a feature: a number from 0 to 2, got 'x'": {"x": 1.0},
        "prices must name each feature only once": {2: 1.0, "2": 2.0},
        "w must be within": {2: 1e300},
    }.items():
        with pytest.raises(ValueError, match=said):
            library.evaluate(gamble(), W, episodes=3, prices=prices)
    for act in (library.act, library.scores):
        with pytest.raises(ValueError, match="w must be within"):
            act(0, [1e308, 1.0, 1.0])
    for said, changes in {
        "callback must be a function": {"callback": 3},
        "risks must be a list of risks": {"risks": ["neutral"]},
        "episodes must be at most": {"episodes": 10**12},
        "risks must differ": {"risks": [NEUTRAL, NEUTRAL]},
    }.items():
        with pytest.raises(ValueError, match=said):
            library.calibrate(make, **changes)
    with pytest.raises(ValueError, match="episodes must be at least 7500000000 for 1000000000 tasks and 1 risks"):
        library.calibrate(gamble(), 60, tasks=10**9, risks=[NEUTRAL])


def test_without_a_risk_the_mean_counts(library):
    assert library.act(0, W) == library.act(0, W, NEUTRAL)
    np.testing.assert_array_equal(library.scores(0, W), library.scores(0, W, NEUTRAL))
    assert library.evaluate(gamble(), W, episodes=3).risk == NEUTRAL


def test_a_comparison_knows_its_names(library):
    both = library.compare(gamble(failing=None), W, [NEUTRAL, AVERSE], 3)
    with pytest.raises(ValueError, match="name must"):
        both.difference("bold")
    for measure in ("failures", "variance"):
        with pytest.raises(ValueError, match="measure must"):
            both.difference("neutral", measure)


def test_environments_that_were_made_here_are_closed_also_when_they_break(library):
    made = []

    def make(broken=None):
        world = gamble()
        world.phi[broken if broken is not None else (0, 0, 0)] = np.nan
        made.append(world)
        return world

    library.evaluate(make, W, NEUTRAL, 20)
    assert len(made) == 16
    with pytest.raises(ValueError, match=r"features .* finite"):
        library.evaluate(lambda: make(np.s_[:, :, 3]), W, NEUTRAL, 3)
    with pytest.raises(ValueError, match="the n_features"):
        library.evaluate(lambda: made.append(random_world(0)) or made[-1], W, NEUTRAL, 3)
    assert all(world.closed for world in made)
    mine = gamble()
    library.evaluate(mine, W, NEUTRAL, 3)
    assert not mine.closed


def test_arguments_of_the_environment_may_be_given():
    library = rasf.learn("rasf/Grid-v0", tasks=1, agent="sfql", steps_per_task=50, env_kwargs={"slip": 0.0})
    w = [-1.0, 20.0, -20.0, -20.0]
    as_trained, told = (
        library.evaluate("rasf/Grid-v0", w, episodes=4, max_steps=30, env_kwargs=given)
        for given in (None, {"slip": 0.0})
    )
    np.testing.assert_array_equal(as_trained.returns, told.returns)
    assert library.evaluate("rasf/Grid-v0", w, episodes=20, max_steps=30, env_kwargs={"slip": 1.0}).returns.std() > 0
    with pytest.raises(ValueError, match="id"):
        library.evaluate(lambda: None, w, episodes=4, env_kwargs={"slip": 0.0})


@pytest.mark.parametrize(("at_end", "with_rest"), [("truncated", 2.0), ("terminated", None)])
def test_predictions_beyond_a_cut_are_reported_too(at_end, with_rest):
    """A feature of 1 in every step at gamma 0.5: two steps show 1.5, and where they were cut, 0.5 is left."""
    world = scripted(spaces.Box(-9.0, 9.0, (1,), np.float64), [np.zeros(1)], [1.0], 2, at_end=at_end)
    library = rasf.learn(world, tasks=[[1.0]], agent="rasfql", gamma=0.5, steps_per_task=200, epsilon=1.0)
    report = library.evaluate(world, [1.0], episodes=3)
    assert report.measures["discounted"].estimate == pytest.approx(1.5)
    found = report.measures.get("discounted_with_rest")
    assert (found and found.estimate) == (with_rest and pytest.approx(with_rest, abs=1e-3))


# --- vector environments


class Told(gym.Wrapper):
    """Its reward is one number, as Gymnasium's vector environments want it; info tells the features."""

    def step(self, action):
        obs, phi, *ends, info = self.env.step(action)
        return obs, 0.0, *ends, info | {"phi": phi}


def told(obs, action, next_obs, info):
    return info["phi"]


told.bounds = [[-1, 1], [-1, 1]]


@pytest.mark.parametrize("mode", [*gym.vector.AutoresetMode, "mo"])
def test_a_vector_environment_gives_the_same_episodes_as_single_ones(wide, mode):
    w, risks, make = [0.3, -0.8], [NEUTRAL, AVERSE], lambda: random_world(4, limit=9, failing=(1,), named="then")
    if mode == "mo":
        phi, env = None, pytest.importorskip("mo_gymnasium").wrappers.vector.MOSyncVectorEnv([make] * 3)
    else:
        phi, env = told, gym.vector.SyncVectorEnv([lambda: Told(make())] * 3, autoreset_mode=mode)
    for options in ({}, {"max_steps": 4}, {"failure": lambda step: step.obs == 2 and step.phi[0] > -0.9}):
        single = wide.compare(make, w, risks, 20, seed=6, **options).reports
        for name, report in wide.compare(env, w, risks, 20, seed=6, phi=phi, **options).reports.items():
            for part in ("returns", "discounted", "phi", "failures", "lengths", "truncated", "rest", "starts"):
                found, wanted = getattr(report, part), getattr(single[name], part)
                np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-6 if mode == "mo" else 0, err_msg=part)
    assert report.failures.sum() > 0
    assert not env.closed


def test_networks_are_evaluated_in_a_vector_environment_too_and_calibrated():
    make = lambda: random_world(4, limit=9)  # noqa: E731
    library = rasf.learn(make, tasks=np.eye(2), agent="rasfdqn", steps_per_task=40, widths=(8,), batch=8, warmup=10)
    env = gym.vector.SyncVectorEnv([lambda: Told(make())] * 4)
    single, several = library.evaluate(make, [1, 0], episodes=6), library.evaluate(env, [1, 0], episodes=6, phi=told)
    np.testing.assert_array_equal(several.returns, single.returns)
    calibrations = [library.calibrate(one, 40, tasks=2, phi=phi).describe() for one, phi in ((make, None), (env, told))]
    assert calibrations[0] == calibrations[1]


class OneSeed(gym.vector.VectorEnv):
    """Four environments written as a batch; the seed decides where all of them start."""

    def __init__(self):
        self.num_envs, self.metadata = 4, {"autoreset_mode": gym.vector.AutoresetMode.SAME_STEP}
        self.single_observation_space = spaces.Discrete(4)
        self.observation_space = spaces.MultiDiscrete([4] * 4)
        self.single_action_space, self.seeds = spaces.Discrete(2), []

    def reset(self, *, seed=None, options=None):
        self.seeds.append(seed)
        self.state, self.time = np.random.default_rng(seed).integers(3, size=4), 0
        return self.state, {}

    def step(self, actions):
        self.time += 1
        phi, over = np.stack([self.state, actions], axis=1).astype(float), np.full(4, self.time == 3)
        info = {"final_obs": np.array([*self.state, None])[:4], "_final_obs": over} if over.any() else {}
        self.time %= 3
        return self.state, phi, over, np.zeros(4, bool), info


def test_a_vector_environment_of_ones_own_has_a_seed_for_each_batch(wide):
    env = OneSeed()
    first, again = (wide.evaluate(env, [1.0, 0.0], episodes=6, seed=3) for _ in range(2))
    np.testing.assert_array_equal(first.returns, again.returns)
    seeds = seeds_from(3, 6)
    assert env.seeds == [0, seeds[0], seeds[4]] * 2  # the first one is to count the features
    assert (first.lengths == 3).all()
    for wrong, said in (({"env_kwargs": {"a": 1}}, "a can only be given with an"), ({"failure": 3}, "failure must be")):
        with pytest.raises(ValueError, match=said):
            wide.evaluate(env, [1.0, 0.0], episodes=6, **wrong)
    other = gym.vector.SyncVectorEnv([lambda: Told(random_world(4, S=5))] * 2)
    with pytest.raises(ValueError, match="env must have the observations that the library was trained with"):
        wide.evaluate(other, [1.0, 0.0], episodes=6, phi=told)


class Saying(OneSeed):
    """Says something of its ends or failures."""

    def __init__(self, **said):
        super().__init__()
        self.said, self.reward_space = said, spaces.Box(0.0, 4.0, (2,))

    def step(self, actions):
        obs, phi, terminated, truncated, info = super().step(actions)
        ends = self.said.get("terminated", terminated), self.said.get("truncated", truncated)
        return obs, phi, *ends, info | {name: value for name, value in self.said.items() if name == "failure"}


def test_vector_environments_that_say_neither_yes_nor_no_are_refused(wide):
    for where in ("terminated", "truncated", "failure"):
        for amiss in (np.full(4, np.nan), ["no"] * 4, True, np.zeros((4, 1)), np.full(3, False), None, np.full(4, 2)):
            with pytest.raises(ValueError, match=rf"environment's .*{where}.* must be (4 flags|True or False), got"):
                wide.evaluate(Saying(**{where: amiss}), [1.0, 0.0], episodes=4)
    report = wide.evaluate(Saying(failure=np.array([0, 1, 1, 0])), [1.0, 0.0], episodes=4)
    assert report.failures.tolist() == [0, 2, 2, 0]  # at an end, final_info would say it


class Foretold(PerStateRisk):
    """Acts as usual, and predicts another mean and spread."""

    def predict(self, obs, memory=None, features=()):
        n = len(obs)
        sums = np.tile(FORETOLD["sums"], (n, 1))[:, list(features)]
        return Prediction(np.full(n, FORETOLD["mean"]), np.full(n, FORETOLD["std"]), sums)


FORETOLD = {"mean": 0.0, "std": 0.0, "sums": [0.0, 0.0]}


def test_returns_that_differ_from_predictions_are_named(wide, monkeypatch):
    w, world = np.array([0.3, -0.8]), lambda: random_world(4, limit=9)
    plain = wide.evaluate(world(), w, NEUTRAL, 60)
    mean, std = plain.realised.mean(), plain.realised.std(ddof=1)

    def told(mean, std, episodes=60):
        for name, value in (("mean", mean), ("std", std)):
            monkeypatch.setitem(FORETOLD, name, value)
        report = wide.evaluate(world(), w, NEUTRAL, episodes, acting=Foretold)
        return replace(report, rest=plain.rest[:episodes]).misprediction

    assert told(mean, std) is None
    assert told(mean + 0.2 * std, 1.2 * std) is None  # too little to matter
    assert told(mean + 2 * std, 3 * std, 15) is None  # too few episodes
    assert told(np.nan, np.nan) is None  # policies without a spread
    found = told(mean + std, std)
    assert found.startswith(f"discounted returns differ from predictions (the mean was {mean:.3g} [")
    assert found.endswith(f"] instead of the predicted {mean + std:.4g}): calibrate, or train for more steps")
    found = told(mean, std / 2)
    assert found.startswith(f"discounted returns differ from predictions (the standard deviation was {std:.3g} [")
    assert f"] instead of the predicted {std / 2:.3g})" in found
    assert ", the standard deviation was " in told(mean + std, 2 * std)
    assert told(mean - std, 2 * std) == (
        f"the mean discounted return was better than predicted: {mean_interval(plain.realised)} instead of "
        f"{mean - std:.4g}"
    )
    monkeypatch.setitem(FORETOLD, "mean", mean + std)
    assert "the mean was" in str(wide.evaluate(world(), w, NEUTRAL, 60, acting=Foretold))


def test_the_feature_whose_sum_is_predicted_worst_is_named(wide, monkeypatch):
    w, world = np.array([0.3, -0.8]), lambda: random_world(4, limit=9)
    plain = wide.evaluate(world(), w, NEUTRAL, 60)
    sums, spread = plain.discounted_phi.mean(axis=0), plain.discounted_phi.std(axis=0, ddof=1)
    monkeypatch.setitem(FORETOLD, "mean", plain.discounted.mean())
    monkeypatch.setitem(FORETOLD, "std", plain.discounted.std(ddof=1))

    def told(off, cut=False):
        """Sums that are predicted better than they were, by `off` standard deviations."""
        monkeypatch.setitem(FORETOLD, "sums", sums + np.sign(w) * np.array(off) * spread)
        report = wide.evaluate(world(), w, NEUTRAL, 60, acting=Foretold)
        return replace(report, rest=np.zeros(60), truncated=np.full(60, cut)).misprediction

    for little in ([0.0, 0.0], [0.2, 0.2], [-1.0, -1.0]):
        assert told(little) is None
    first, second = plain.feature_names
    assert f"(the sum of {first} was {sums[0]:.3g} [" in told([1.0, 0.6])
    assert f"] instead of the predicted {sums[0] + spread[0]:.3g})" in told([1.0, 0.6])
    assert f"the sum of {second} was" in told([0.6, 1.0])
    assert told([1.0, 0.6], cut=True) is None  # its sum goes on after the cut


class Clumsy(PerStateRisk):
    """Takes the best action if neutral, and the worst one otherwise."""

    def act(self, obs, memory):
        values = self.values(obs, memory).max(axis=0)
        return values.argmax(axis=1) if is_neutral(self.risk) else values.argmin(axis=1)


def test_compare_names_risks_that_are_worse_than_neutral_by_their_own_measure(wide):
    w, world = [0.3, -0.8], lambda: random_world(4, limit=9)
    risks = [NEUTRAL, AVERSE, CVaR(0.2)]
    found = wide.compare(world(), w, risks, 60, acting=Clumsy)
    assert [one.split()[0] for one in found.remarks()] == ["mean-variance:-2.0", "cvar:0.2"]
    for remark, risk in zip(found.remarks(), risks[1:], strict=True):
        own, neutral = (risk.samples(found.reports[row].realised) for row in (remark.split()[0], "neutral"))
        said = "is worse than neutral acting by its own measure of the discounted return"
        assert f"{said}, {own:.4g} against {neutral:.4g}:" in remark
        assert remark in str(found)
    assert wide.compare(world(), w, risks[1:], 60, acting=Clumsy).remarks() == []  # nothing neutral to compare with
    assert wide.compare(world(), w, [NEUTRAL, MeanVariance(-1e-6)], 60).remarks() == []
