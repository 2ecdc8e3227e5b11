"""The library object: one observation or many, of every kind of space; what acts is what the scores say."""

import numpy as np
import pytest
from gymnasium import spaces
from library_worlds import gamble, random_world, scripted

import rasf
from rasf import CVaR, Elliptical, Entropic, MeanVariance, NestedEntropic
from rasf.envs.gymnasium.single import open_environment

NEUTRAL, AVERSE = MeanVariance(0.0), MeanVariance(-1.5)
FOUR = np.array([[0, 0, 1], [2, 0, 1], [1, 5, 0], [3, 1, 1]])
KINDS = {
    "discrete": (spaces.Discrete(4, start=7), lambda s: np.int64(7 + s)),
    "whole box": (spaces.Box(0, 9, (3,), np.int32), lambda s: FOUR[s].astype(np.int32)),
    "real box": (spaces.Box(-1.0, 1.0, (2, 2), np.float32), lambda s: np.full((2, 2), s / 7, np.float32)),
    "binary": (spaces.MultiBinary(2), lambda s: np.array([s % 2, s // 2], np.int8)),
    "dict": (
        spaces.Dict({"b": spaces.Discrete(4), "a": spaces.Box(0.0, 5.0, (2,), np.float64)}),
        lambda s: {"b": s, "a": np.array([s, 0.5])},
    ),
    "tuple": (
        spaces.Tuple((spaces.MultiDiscrete([4, 2]), spaces.Box(-2.0, 2.0, (), np.float32))),
        lambda s: (np.array([s, 1]), np.array(0.25 * s, np.float32)),
    ),
}
SMALL = {"widths": (8,), "batch": 4}
W = [[1.0, -0.5], [0.2, 0.8], [-1.0, 0.3]]


def batched(observations):
    first = observations[0]
    if isinstance(first, dict):
        return {key: np.stack([each[key] for each in observations]) for key in first}
    if isinstance(first, tuple):
        return tuple(np.stack(part) for part in zip(*observations, strict=True))
    return np.stack(observations)


def learned(kind, agent="rasfql", **options):
    space, show = KINDS[kind]
    world = random_world(3, space=space, show=show, first_action=5)
    return rasf.learn(world, tasks=W, agent=agent, risk=AVERSE, seed=1, steps_per_task=60, **options)


@pytest.fixture(scope="module")
def library():
    """Three policies on a world with two features and four states, which look like 7 .. 10."""
    return learned("discrete")


@pytest.fixture(scope="module")
def networks():
    return learned("discrete", "sfdqn-residual", **SMALL)


def check_one_and_many(library, kind, tolerance):
    space, show = KINDS[kind]
    observations = [show(s) for s in (0, 2, 1, 0, 2)]
    w = [0.7, -0.4]
    many = library.scores(batched(observations), w, AVERSE)
    actions = library.act(batched(observations), w, AVERSE)
    assert actions.shape == many.action.shape == many.source.shape == many.seen.shape == (5,)
    assert many.values.shape == many.mean.shape == many.std.shape == (3, 5, 2)
    for i, obs in enumerate(observations):
        assert space.contains(obs)
        one, action = library.scores(obs, w, AVERSE), library.act(obs, w, AVERSE)
        assert isinstance(action, int)
        assert action == actions[i] == one.action == many.action[i]
        assert action in (5, 6)
        assert one.values.shape == (3, 2)
        for name in ("values", "mean", "std"):
            np.testing.assert_allclose(getattr(one, name), getattr(many, name)[:, i], rtol=tolerance, atol=tolerance)
        assert (one.source, one.seen) == (many.source[i], many.seen[i])
        # by hand: the best entry, the lowest action first, and the policy that holds it
        best = one.values.max()
        assert action - 5 == min(np.argwhere(one.values == best)[:, 1])
        assert one.values[one.source, action - 5] == best
        np.testing.assert_allclose(one.values, one.mean - 0.75 * one.std**2, rtol=1e-5, atol=1e-7)
    np.testing.assert_array_equal(np.asarray(many), many.values)
    assert np.asarray(many, np.float32).dtype == np.float32


@pytest.mark.parametrize("kind", KINDS)
def test_one_observation_and_a_batch_agree_in_every_space(kind):
    library = learned(kind)
    check_one_and_many(library, kind, 0.0)
    assert library.scores(KINDS[kind][1](0), [1, 1], AVERSE).seen


@pytest.mark.parametrize("kind", ["discrete", "dict"])
def test_networks_answer_for_one_and_for_many(kind):
    check_one_and_many(learned(kind, "sfdqn-residual", **SMALL), kind, 1e-5)


@pytest.mark.parametrize(("w", "risk"), [([2.0, -1.0], NEUTRAL), ((1, 0), AVERSE), (np.ones(2, int), CVaR(0.3))])
def test_networks_and_tables_take_any_risk_their_moments_serve(library, networks, w, risk):
    for one in (library, networks):
        found = one.scores(8, w, risk)
        np.testing.assert_allclose(found.values, risk.moments(found.mean, found.std**2), rtol=1e-5, atol=1e-6)
        assert one.act(8, w, risk) == 5 + found.values.max(axis=0).argmax()


def test_an_empty_batch_gets_no_actions(library, networks):
    for one in (library, networks):
        assert one.act(np.zeros(0, np.int64), [1, 1], NEUTRAL).shape == (0,)
        assert one.scores(np.zeros(0, np.int64), [1, 1], NEUTRAL).values.shape == (3, 0, 2)


def test_a_state_nobody_met_gets_the_first_action_and_scores_say_so():
    shown = [np.array([t, 0.0]) for t in (0, 1)]
    world = scripted(spaces.Box(-9.0, 9.0, (2,), np.float64), shown, [1.0], ends=2, first_action=3)
    library = rasf.learn(world, tasks=[[-1.0]], agent="rasfql", steps_per_task=40)
    found = library.scores(np.array([[1.0, 0.0], [5.0, 5.0]]), [1.0], AVERSE)
    np.testing.assert_array_equal(found.seen, [True, False])
    np.testing.assert_array_equal(found.values[:, 1], [[0.0, 0.0]])
    assert library.act(np.array([5.0, 5.0]), [1.0], AVERSE) == 3


@pytest.mark.parametrize(("w", "said"), [
    ([1.0], "w must be 2 finite numbers"),
    ([1.0, 2.0, 3.0], "w must be 2 finite numbers"),
    ([[1.0, 2.0]], "w must be 2 finite numbers"),
    ([1.0, np.nan], "w must be 2 finite numbers"),
    ([1.0, np.inf], "w must be 2 finite numbers"),
    (1.0, "w must be 2 finite numbers"),
    (None, "w must be 2 finite numbers"),
    ("ab", "w must be 2 finite numbers"),
    ([[1.0], [2.0, 3.0]], "w must be 2 finite numbers"),
    ({"a": 1}, "w must be 2 finite numbers"),
])  # fmt: skip
def test_weights_that_are_none_are_refused_everywhere(library, networks, w, said):
    for one in (library, networks):
        for ask in (one.act, one.scores):
            with pytest.raises(ValueError, match=said):
                ask(8, w, NEUTRAL)
        with pytest.raises(ValueError, match=said):
            one.evaluate(random_world(3), w, NEUTRAL, 2)


@pytest.mark.parametrize("risk", ["neutral", None, -4.0, MeanVariance])
def test_what_is_no_risk_is_refused(library, networks, risk):
    for one in (library, networks):
        for ask in (one.act, one.scores):
            with pytest.raises(ValueError, match="risk must"):
                ask(8, [1, 1], risk)
        with pytest.raises(ValueError, match="risk must"):
            one.evaluate(random_world(3), [1, 1], risk, 2)


@pytest.mark.parametrize("risk", [Entropic(-1.0), NestedEntropic(-1.0)])
def test_a_risk_the_law_cannot_serve_is_refused(library, networks, risk):
    for one in (library, networks):
        for ask in (one.act, one.scores):
            with pytest.raises(ValueError, match="risk must") as refused:
                ask(8, [1, 1], risk)
            assert "\n" not in str(refused.value)
        with pytest.raises(ValueError, match="risk must"):
            one.compare(random_world(3), [1, 1], [NEUTRAL, risk], 2)
    # a table without Sigma serves the mean only
    neutral = rasf.learn(random_world(3), tasks=[[1, 1]], agent="sfql", steps_per_task=20)
    assert neutral.act(0, [1, 1], Entropic(0.0)) in (0, 1)
    for other in (AVERSE, CVaR(0.1), Elliptical(-1.0)):
        with pytest.raises(ValueError, match="risk must"):
            neutral.act(0, [1, 1], other)


@pytest.mark.parametrize(("kind", "obs", "said"), [
    ("discrete", np.zeros((2, 2), int), r"obs must have shape \(\), or \(n,\) for a batch, got \(2, 2\)"),
    ("discrete", "north", "obs must hold numbers"),
    ("discrete", {"a": 1}, "obs must hold numbers"),
    ("discrete", [[1], [2, 3]], "obs must be an array, got a ragged list"),
    ("real box", np.zeros((2, 3)), r"obs must have shape \(2, 2\), or \(n, 2, 2\)"),
    ("real box", np.array([[0.0, np.nan], [0.0, 0.0]]), "obs must be finite"),
    ("dict", np.zeros(3), "obs must be a dict with the key 'a'"),
    ("dict", {"a": np.zeros(2)}, "obs must be a dict with the key 'b'"),
    ("dict", {"b": [1, 2], "a": np.zeros(2)}, "obs must be one observation or a batch"),
    ("tuple", (np.zeros(2, int),), "obs must be a tuple of 2"),
])  # fmt: skip
def test_an_observation_of_another_shape_is_refused(kind, obs, said):
    library = learned(kind)
    for ask in (library.act, library.scores):
        with pytest.raises(ValueError, match=said) as refused:
            ask(obs, [1, 1], NEUTRAL)
        assert "\n" not in str(refused.value)


@pytest.mark.parametrize("obs", [6, 11, -1, 7.5, [7, 6], [7.0, 8.5], np.array([10, 11])])
def test_an_observation_outside_a_discrete_space_is_refused(library, networks, obs):
    for each in (library, networks):
        for ask in (each.act, each.scores):
            with pytest.raises(ValueError, match="obs must"):
                ask(obs, [1, 1], NEUTRAL)


def test_whole_numbers_may_be_written_in_any_type(library):
    for obs in (7, 7.0, np.uint8(7), [7], [7.0], np.array([7, 10], np.int8)):
        assert np.ravel(library.act(obs, [1, 1], NEUTRAL))[0] == library.act(7, [1, 1], NEUTRAL)
    assert library.act(np.zeros(0, int), [1, 1], NEUTRAL).shape == (0,)


def test_use_changes_nothing(library):
    before = {name: array.copy() for name, array in library.sources.arrays().items()}
    w = np.array([1.0, 1.0])
    library.act(8, w, AVERSE)
    w[:] = -1.0  # the caller's array is the caller's
    for risk in (AVERSE, CVaR(0.2), NEUTRAL):
        np.testing.assert_array_equal(library.act([7, 8, 9], w, risk), [library.act(s, w, risk) for s in (7, 8, 9)])
    for name, array in library.sources.arrays().items():
        np.testing.assert_array_equal(array, before[name])


def test_weights_inferred_from_rewards_are_those_of_the_task():
    world, w = gamble(), np.array([-0.1, 1.0, -2.0])
    env, rng, phis = open_environment(world), np.random.default_rng(0), []
    env.reset(seed=0)
    for _ in range(200):
        step = env.step(int(rng.integers(2)))
        phis.append(step.phi)
        if step.terminated:
            env.reset()
    estimate = rasf.infer_weights(phis, np.array(phis) @ w)
    np.testing.assert_allclose(estimate.w, w, atol=1e-12)
    assert estimate.determined
    library = rasf.learn(world, tasks=[[0.0, 1.0, 0.0]], agent="rasfql", steps_per_task=400)
    assert library.act(0, estimate, AVERSE) == library.act(0, w, AVERSE)


def test_a_library_says_what_it_is(library):
    assert repr(library) == "<PolicyLibrary: 3 policies of rasfql on an environment without id>"
    assert [policy.w for policy in library.policies] == [tuple(w) for w in W]
    assert {policy.risk for policy in library.policies} == {MeanVariance(-1.5)}
    assert (library.n_features, library.gamma) == (2, 0.95)


def test_an_explanation_is_one_line(library):
    one, many = (library.scores(obs, W[0], NEUTRAL) for obs in (7, [7, 8, 10]))
    worth = f"{one.values.max():.4g}"
    assert repr(one) == f"<Explanation: values (3, 2), action {one.action} by policy {one.source}, worth {worth}>"
    seen = f"{many.seen.sum()} of 3 observations were seen in training"
    assert repr(many) == f"<Explanation: values (3, 3, 2), {seen}>"
    assert not many.seen[2]  # an episode ends there
    assert "never seen" in repr(library.scores(10, W[0], NEUTRAL))
