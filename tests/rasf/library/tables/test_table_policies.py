"""Tabular sources: scores and choices against dense arrays, the learner and a plain reference; merging."""

from multiprocessing.reduction import ForkingPickler

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_tables import random_sources

import rasf
from rasf import CVaR, Elliptical, Entropic, MeanVariance, NestedEntropic, gpe, gpi
from rasf.envs.four_room import FourRoom
from rasf.library.tables.policies import TablePolicies
from rasf.risk import Risk, SkewNormal
from rasf.tabular.learner import SuccessorLearner
from rasf.tabular.settings import TableSettings
from rasf.tabular.table import SigmaForm, initial_noise
from rasf_lab.paper.four_room.novel import coefficients, moments_of, roll_out, unpack_sigma

ROOMS = FourRoom("S..T\n.1X.\n..2G", trap_probability=0.3, step_limit=30)
AVERSE = MeanVariance(-4.0)
RISKS = [AVERSE, MeanVariance(1.5), MeanVariance(0.0), CVaR(0.2), Elliptical(-1.0), Elliptical(-0.7, "laplace"),
         Elliptical(3.0, "logistic"), SkewNormal(-2.0), Entropic(0.0)]  # fmt: skip


def trained(seed=3, tasks=5, steps=400, risk=AVERSE, gamma=0.95, **constants):
    """A learner whose settings have other constants, as research changes them."""
    chosen = type("Changed", (TableSettings,), constants)(gamma=gamma, learn_w=True, covariance=False)
    learner = SuccessorLearner(ROOMS.n_features, 4, chosen, seed, tasks, risk)
    for w in ROOMS.random_tasks(tasks, np.random.default_rng(seed)):
        learner.learn_task(ROOMS, w, steps)
    return learner


def dense(learner):
    """psi (K, S, A, d) and Sigma (K, S, A, d, d), as the learner tells them."""
    each = [[moments_of(learner, k, s) for s in range(learner.states)] for k in range(learner.task + 1)]
    return np.array([[m.psi for m in row] for row in each]), np.array([[m.Sigma for m in row] for row in each])


@pytest.fixture(scope="module")
def learner():
    return trained()


@pytest.fixture(scope="module")
def sources(learner):
    return TablePolicies.from_learner(learner, learner.keys())


@pytest.mark.parametrize("risk", RISKS, ids=repr)
def test_scores_and_choices_are_those_of_gpe_and_gpi_on_dense_arrays(learner, sources, risk):
    w, keys = ROOMS.task([0.4, -0.9]), sources.arrays()["keys"]
    psi, Sigma = dense(learner)
    wanted = gpe(psi, Sigma, w, MeanVariance(0.0) if isinstance(risk, Entropic) else risk)
    scores = sources.scores(keys, w, risk)
    np.testing.assert_allclose(scores.values, wanted, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(scores.mean, psi @ w, rtol=1e-12, atol=1e-13)
    variance = np.maximum(np.einsum("...ij,i,j->...", Sigma, w, w), 0.0)
    np.testing.assert_allclose(scores.std**2, variance, rtol=1e-12, atol=1e-13)
    actions = sources.act(keys, w, risk)
    np.testing.assert_array_equal(actions, gpi(scores.values).policy)
    np.testing.assert_array_equal(actions, sources.act(keys, w, risk))
    np.testing.assert_array_equal(actions, [sources.act_one(key, w, risk) for key in keys])
    fresh = TablePolicies.restore(sources.describe(), sources.arrays())
    np.testing.assert_array_equal(actions, [fresh.act_one(key, w, risk) for key in keys])
    assert actions.dtype == np.int64


@pytest.mark.parametrize("changes", [{}, {"diagonal": True}, {"shared_noise": True}, {"steps": 40}])
def test_acting_is_what_the_learner_would_choose(changes):
    learner = trained(**changes)
    sources = TablePolicies.from_learner(learner, learner.keys())
    w = learner.memory.w[learner.task]
    chosen = [learner.choose(row)[0] for row in range(sources.states)]
    best = sources.scores(sources.arrays()["keys"], w, AVERSE).values.max(0)
    clear = np.diff(np.sort(best, axis=-1))[:, -1] > 1e-9  # the learner rounds otherwise, and has its own rule for ties
    assert clear.mean() > 0.8
    np.testing.assert_array_equal(sources.act(sources.arrays()["keys"], w, AVERSE)[clear], np.array(chosen)[clear])


def test_a_compiled_run_acts_in_the_gymnasium_environment(learner, sources):
    """In a world without luck the features collected are those of the learner's own roll-out."""
    calm = {"layout": ROOMS.layout, "trap_probability": 0.0, "step_limit": 30}
    w = ROOMS.task([0.9, 0.5])
    own = trained()
    coefs = coefficients(own, w, AVERSE)[None]
    features, lengths, _ = roll_out(own, FourRoom(**calm), coefs, 0.0, np.zeros((1, 30, 3)))
    env = gym.make("rasf/FourRoom-v0", **calm)
    observation, _ = env.reset(seed=0)
    total, steps, over = np.zeros(4), 0, False
    while not over:
        action = sources.act_one(observation.astype(np.float64), w, AVERSE)
        observation, phi, terminated, truncated, _ = env.step(action)
        total, steps, over = total + phi, steps + 1, terminated or truncated
    np.testing.assert_array_equal(total, features[0])
    assert steps == lengths[0]


def by_definition(sources, state, policy, a):
    """psi and Sigma of a policy at a state, or None where its group does not know the state."""
    arrays, d, A = sources.arrays(), sources.n_features, sources.n_actions
    g = int(np.searchsorted(arrays["policies"], policy, "right")) - 1
    local = policy - arrays["policies"][g]
    for cell in range(arrays["states"][state], arrays["states"][state + 1]):
        if arrays["group"][cell] != g:
            continue
        numbers = np.zeros(arrays["value"].shape[1])
        draws = [initial_noise(int(arrays["seed"][g]), int(arrays["row"][cell]), local, i * A + a) for i in range(d)]
        numbers[:d] = np.float32(arrays["noise"][g] * np.array(draws))
        for e in range(arrays["entries"][cell * A + a], arrays["entries"][cell * A + a + 1]):
            if arrays["first"][e] <= local <= arrays["last"][e]:
                numbers = arrays["value"][e].astype(float)
        Sigma = np.zeros((d, d))
        if sources.sigma != SigmaForm.NONE:
            Sigma = unpack_sigma(numbers[d:], d, diagonal=sources.sigma == SigmaForm.DIAGONAL)
        return numbers[:d], Sigma
    return None


def reference_values(sources, w, risk):
    values = np.full((sources.policies, sources.states, sources.n_actions), -np.inf)
    for k, s, a in np.ndindex(values.shape):
        known = by_definition(sources, s, k, a)
        if known is not None:
            values[k, s, a] = gpe(*known, w, risk)
    return values


@settings(max_examples=80, deadline=None)
@given(
    st.integers(0, 2**32),
    st.integers(1, 3),
    st.sampled_from(SigmaForm),
    st.sampled_from([AVERSE, CVaR(0.3)]),
    st.booleans(),
)
def test_random_tables_against_their_definition(seed, groups, sigma, risk, ties):
    rng = np.random.default_rng(seed)
    sources = random_sources(rng, groups, sigma=sigma, ties=ties)
    w = np.array([1.0, -1.0]) if ties else rng.normal(size=2)
    risk = MeanVariance(0.0) if sigma == SigmaForm.NONE else risk
    keys, wanted = sources.arrays()["keys"], reference_values(sources, w, risk)
    scores = sources.scores(keys, w, risk)
    np.testing.assert_allclose(scores.values, wanted, rtol=1e-11, atol=1e-14)
    np.testing.assert_array_equal(np.isnan(scores.std), np.isinf(wanted) | (sigma == SigmaForm.NONE))
    np.testing.assert_array_equal(sources.act(keys, w, risk), gpi(scores.values).policy)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32))
def test_merging_keeps_every_policy_and_the_order_does_not_matter(seed):
    rng = np.random.default_rng(seed)
    parts, w = [random_sources(rng, groups) for groups in (1, 2, 1)], rng.normal(size=2)
    merged = TablePolicies.merge(parts)
    keys = np.unique(np.concatenate([part.arrays()["keys"] for part in parts]), axis=0)
    assert merged.states == len(keys)
    scores, base = merged.scores(keys, w, AVERSE), 0
    for part in parts:
        own = part.scores(keys, w, AVERSE)
        known = (keys[:, None] == part.arrays()["keys"]).all(-1).any(-1)
        mine = slice(base, base + part.policies)
        for whole, alone in zip(scores[:3], own[:3], strict=True):
            np.testing.assert_array_equal(whole[mine][:, known], alone[:, known])
        assert (scores.values[mine][:, ~known] == -np.inf).all()
        assert np.isnan(scores.std[mine][:, ~known]).all()
        base += part.policies
    assert base == merged.policies
    np.testing.assert_array_equal(merged.act(keys, w, CVaR(0.3)), gpi(merged.scores(keys, w, CVaR(0.3)).values).policy)
    nested = TablePolicies.merge([TablePolicies.merge(parts[:2]), parts[2]])
    for name, array in merged.arrays().items():
        np.testing.assert_array_equal(array, nested.arrays()[name])


def test_what_was_learned_differently_does_not_merge(sources):
    for other, name in (
        (trained(diagonal=True, tasks=1), "sigma"),
        (trained(gamma=0.9, tasks=1), "gamma"),
    ):
        with pytest.raises(ValueError, match=f"parts .* same {name}"):
            TablePolicies.merge([sources, TablePolicies.from_learner(other, other.keys())])
    with pytest.raises(ValueError, match="same features"):
        TablePolicies.merge([sources, random_sources(np.random.default_rng(0))])
    with pytest.raises(ValueError, match="at least one"):
        TablePolicies.merge([])


def test_a_state_never_met_is_answered_and_said(sources):
    strange = np.concatenate([sources.arrays()["keys"][:1], np.full((1, sources.n_inputs), 9.0)])
    for risk in (AVERSE, CVaR(0.1)):
        scores = sources.scores(strange, ROOMS.task([1.0, 1.0]), risk)
        np.testing.assert_array_equal(scores.seen, [True, False])
        for array in scores[:3]:
            assert (array[:, 1] == 0).all()
        assert sources.act(strange, ROOMS.task([1.0, 1.0]), risk)[1] == 0
        assert sources.act_one(strange[1], ROOMS.task([1.0, 1.0]), risk) == 0


def test_a_state_where_nothing_was_learned_is_not_seen():
    """Three tasks, so that the last stretch holds more than one policy's noise; one state is only looked at."""
    learner = SuccessorLearner(1, 2, TableSettings(), 0, 3, AVERSE)
    learner.begin_task([1.0])
    learned, looked_at = learner.add_row(), learner.add_row()
    learner.begin_task([1.0])
    learner.begin_task([1.0])
    action, _, slot = learner.choose(learned)
    learner.learn(learned, 1, (action, 2, slot), [1.0], 1.0, looked_at)
    sources = TablePolicies.from_learner(learner, [[0.0], [1.0]])
    scores = sources.scores(np.array([[0.0], [1.0], [2.0]]), np.ones(1), AVERSE)
    np.testing.assert_array_equal(scores.seen, [True, False, False])
    noise = np.array([moments_of(learner, k, looked_at).psi[:, 0] for k in range(3)])
    np.testing.assert_array_equal(scores.values[:, 1], noise)
    assert (noise != 0).all()
    assert sources.act_one(np.array([1.0]), np.ones(1), AVERSE) == noise.max(0).argmax()


def test_without_sigma_only_neutral_risks_are_served():
    learner = trained(risk=MeanVariance(0.0))
    neutral = TablePolicies.from_learner(learner, learner.keys())
    keys, w = neutral.arrays()["keys"], ROOMS.task([1.0, 0.5])
    scores = neutral.scores(keys, w, Entropic(0.0))
    np.testing.assert_array_equal(scores.values, scores.mean)
    assert np.isnan(scores.std).all()
    np.testing.assert_array_equal(neutral.act(keys, w, Entropic(0.0)), neutral.act(keys, w, MeanVariance(0.0)))
    for risk in (AVERSE, CVaR(0.5), Elliptical(-1.0)):
        for call in (neutral.act, neutral.scores):
            with pytest.raises(ValueError, match="risk must"):
                call(keys, w, risk)


@pytest.mark.parametrize(("risk", "message"), [
    (Entropic(-1.0), "risk must .*rasfc51"),
    (NestedEntropic(-1.0), "risk must"),
    (-4.0, "must be a rasf risk"),
])  # fmt: skip
def test_a_risk_that_moments_cannot_serve_is_refused(sources, risk, message):
    with pytest.raises(ValueError, match=message):
        sources.check(risk)
    with pytest.raises(ValueError, match=message):
        sources.act_one(sources.arrays()["keys"][0], ROOMS.task([1.0, 1.0]), risk)


def test_observations_and_weights_of_another_size_are_refused(sources):
    w = ROOMS.task([1.0, 1.0])
    for obs in (np.zeros((2, 3)), np.zeros(sources.n_inputs)):
        with pytest.raises(ValueError, match="obs must"):
            sources.act(obs, w, AVERSE)
    with pytest.raises(ValueError, match="obs must"):
        sources.act_one(np.zeros((1, sources.n_inputs)), w, AVERSE)
    with pytest.raises(ValueError, match="w must"):
        sources.act(sources.arrays()["keys"], w[:3], AVERSE)


def test_remembered_choices_never_go_stale(sources):
    keys, rng = sources.arrays()["keys"], np.random.default_rng(0)

    class Unhashable(MeanVariance):
        __hash__ = None

    tasks = [(rng.normal(size=4), risk) for risk in (AVERSE, Unhashable(-1.0), CVaR(0.5)) for _ in range(12)]
    first = [sources.act(keys, w, risk) for w, risk in tasks]
    assert len({actions.tobytes() for actions in first}) > 3
    for (w, risk), actions in zip(tasks, first, strict=True):
        np.testing.assert_array_equal(actions, sources.act(keys, w, risk))


def test_a_risk_of_ones_own_scores_by_its_moments(sources):
    class Cautious(Risk):
        supports = frozenset({"moments"})

        def moments(self, mean, variance):
            return mean - 3 * variance**0.25

    keys, w = sources.arrays()["keys"], ROOMS.task([1.0, -0.3])
    scores = sources.scores(keys, w, Cautious())
    np.testing.assert_allclose(scores.values, scores.mean - 3 * np.sqrt(scores.std), rtol=1e-12)
    np.testing.assert_array_equal(sources.act(keys, w, Cautious()), gpi(scores.values).policy)


def test_a_library_of_a_discrete_space_can_be_sent_to_other_processes():
    assert ForkingPickler.dumps(rasf.learn("rasf/Grid-v0", tasks=1, steps_per_task=50))
