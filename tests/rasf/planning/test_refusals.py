"""What the exact layer refuses: one sentence that names the argument, before any work."""

import time

import numpy as np
import pytest
import scipy.sparse as sp

import rasf
from rasf import CVaR, Entropic, FiniteMDP, MeanVariance, NestedEntropic
from rasf.risk import EllipticalMixture, MonotoneMeanVariance, PiecewiseLinear

NAN, INF = np.nan, np.inf
P, PHI = np.full((2, 2, 2), 0.5), np.ones((2, 2, 1))
MDP, ENDING = FiniteMDP(P, PHI, gamma=0.9), FiniteMDP(P, PHI, terminal=[1])
PSI, SIGMA = np.ones((1, 2, 2, 1)), np.ones((1, 2, 2, 1, 1))
HUGE = 10**12


def refused(sentence, *calls):
    """Each call is refused at once, in one line that begins so."""
    for number, call in enumerate(calls):
        begin = time.process_time()
        with pytest.raises(ValueError, match=f"^{sentence}") as caught:
            call()
        assert "\n" not in str(caught.value), number
        assert time.process_time() - begin < 5, number


def each(function, *values):
    return [lambda value=value: function(value) for value in values]


def test_models():
    refused("P must be an array of real numbers", *each(lambda x: FiniteMDP(x, PHI), "abc", P + 0j, {}, [[1], [1, 2]]))
    refused("P must be an array of real", lambda: FiniteMDP(sp.csr_array(np.full((4, 2), 0.5 + 0j)), PHI))
    refused(
        "phi must be an array",
        *each(lambda x: FiniteMDP(P, x), "abc", PHI + 1j, np.full((2, 2, 1), "a"), [[1], [1, 2]]),
    )
    refused("phi must have at least one feature", lambda: FiniteMDP(P, np.ones((2, 2, 0))))
    refused("phi must be at most 1e[+]90 in size, got 1e[+]300; rescale", lambda: FiniteMDP(P, 1e300 * PHI))
    refused(
        r"gamma must be in \(0, 1\]", *each(lambda x: FiniteMDP(P, PHI, gamma=x), None, "0.9", [0.9], True, 0.5j, {})
    )
    refused("terminal must be a boolean mask", *each(lambda x: FiniteMDP(P, PHI, terminal=x), [[1], [1, 2]], "1", None))


def test_transitions():
    one = (0, 0, 1, 1.0, [1.0])
    refused("transitions must", *each(lambda x: FiniteMDP.from_transitions(x, 2, 1), None, 3, "abcde", [one[:3]]))
    wrong = (None, "a", 1j, NAN, INF, 0.5, np.arange(2))
    refused("transitions must have whole", *each(lambda s: FiniteMDP.from_transitions([(s, *one[1:])], 2, 1), *wrong))
    refused("p must be", *each(lambda p: FiniteMDP.from_transitions([(0, 0, 1, p, [1.0])], 2, 1), "x", [0.5, 0.5]))
    refused("n_states must", *each(lambda n: FiniteMDP.from_transitions([one], n, 1), None, "2", 0, -1, 1.5))
    refused("n_actions must", *each(lambda n: FiniteMDP.from_transitions([one], 2, n), None, 1.5, 0, HUGE))


def test_tasks():
    refused(
        "w must be an array of real",
        *each(lambda w: rasf.plan(MDP, w), "a", [1j], [object()], {}, [10**400], [[1], [1, 2]]),
    )
    calls = [
        lambda w: rasf.plan(MDP, w),
        lambda w: rasf.evaluate_policy(MDP, [0, 0], w, MeanVariance(-1.0)),
        lambda w: rasf.static_gpi(ENDING, [[0, 0]], w, CVaR(0.5), start=0, horizon=3),
        lambda w: rasf.certificate(ENDING, [[0, 0]], w, Entropic(-0.1)),
        lambda w: rasf.limited_gpi(MDP, [[0, 0]], w, {0: 1.0}, start=0),
    ]
    for call in calls:
        refused("w must give rewards of at most 1e[+]90 in size", *each(call, [1e300], [1e308]))


def test_plans():
    refused("mdp must be a FiniteMDP", *each(lambda mdp: rasf.plan(mdp, [1.0]), None, P))
    refused("tolerance must", *each(lambda x: rasf.plan(MDP, [1.0], tolerance=x), "a", None, [1e-9], INF, NAN, 0.0))
    refused(
        "beta must be at most 1e[+]90",
        *each(lambda risk: rasf.plan(MDP, [1.0], risk(-1e200)), Entropic, NestedEntropic),
    )
    near = FiniteMDP(P, PHI, terminal=[1], gamma=1 - 1e-9)
    refused("gamma = 0.999999999 is too near 1 for Entropic", lambda: rasf.plan(near, [1.0], Entropic(-0.5)))
    refused("gamma = .* double precision", lambda: rasf.plan(FiniteMDP(P, PHI, terminal=[1], gamma=1 - 1e-16), [1.0]))
    refused("policy must be an array", lambda: rasf.evaluate_policy(MDP, [[0], [0, 1]], [1.0], Entropic(-0.1)))


@pytest.mark.parametrize("horizon", [HUGE, 10**9])
def test_horizons_that_no_loop_ends(horizon):
    refused(
        "horizon must be at most 1,000,000 decisions, got 1000",
        lambda: rasf.plan(MDP, [1.0], horizon=horizon),
        lambda: rasf.evaluate_policy(MDP, [0, 0], [1.0], MeanVariance(-1.0), horizon),
        lambda: rasf.successor_moments(MDP, [0, 0], horizon),
        lambda: rasf.certificate(ENDING, [[0, 0]], [1.0], Entropic(-0.1), horizon),
        lambda: rasf.static_gpi(ENDING, [[0, 0]], [1.0], CVaR(0.5), start=0, horizon=horizon),
        lambda: rasf.plan_limited(MDP, [1.0], {0: 1.0}, start=0, horizon=horizon),
        lambda: rasf.limited_gpi(MDP, [[0, 0]], [1.0], {0: 1.0}, start=0, horizon=horizon),
    )


def test_tables_that_no_memory_holds():
    wide = FiniteMDP(sp.eye_array(2000, format="csr"), np.ones((2000, 1)))
    refused("horizon must be at most 536,870 here, so that tables stay", lambda: rasf.plan(wide, [1.0], horizon=10**6))
    refused(
        "levels must be at most 100,000",
        lambda: rasf.plan_static(ENDING, [1.0], CVaR(0.5), start=0, horizon=3, levels=10**9),
    )
    many = {"start": 0, "horizon": 10**5, "levels": 10**5}
    refused("levels must be at most .* here", lambda: rasf.plan_static(wide, [1.0], CVaR(0.5), **many))
    endless = FiniteMDP(P, PHI, gamma=1 - 1e-9)
    refused("horizon must be given at gamma", lambda: rasf.plan_static(endless, [1.0], CVaR(0.5), start=0))


def test_sources():
    given = (None, 3, "ab", [])
    refused("policies must hold at", *each(lambda x: rasf.limited_gpi(MDP, x, [1.0], {0: 1.0}, start=0), *given))
    by_stock = {"w": [1.0], "risk": CVaR(0.5), "start": 0, "horizon": 3}
    refused("policies must hold at", *each(lambda x: rasf.static_gpi(ENDING, x, **by_stock), *given))
    refused("sources must hold", *each(lambda x: rasf.certificate(ENDING, x, [1.0], Entropic(-0.1)), *given))
    refused("search must be", *each(lambda x: rasf.static_gpi(ENDING, [[0, 0]], search=x, **by_stock), "maybe", None))


@pytest.mark.parametrize("levels", [None, 50])
def test_actions_of_a_static_plan(levels):
    found = rasf.static_gpi(ENDING, [[0, 0]], [1.0], CVaR(0.5), start=0, horizon=3, levels=levels)
    assert found.action(np.int64(1), np.int64(0), np.float32(1.0)) == 0
    refused(
        "state must be a state from 0 to 1", *each(lambda s: found.action(0, s, 0.0), -1, 5, 0.5, NAN, None, "0", True)
    )
    refused("step must be from 0 to 2", *each(lambda t: found.action(t, 0, 0.0), -1, 3, 0.5, NAN, None))
    refused("accrued must be", *each(lambda c: found.action(0, 0, c), NAN, INF, "a", None, [1.0, 2.0]))
    refused("state 1 cannot be reached", lambda: found.action(0, 1, 0.0))


def test_certificates():
    refused(
        "epsilon must",
        *each(lambda x: rasf.certificate(ENDING, [[0, 0]], [1.0], Entropic(-0.1), epsilon=x), "a", [1.0]),
    )
    scores = ("a", [[1], [1, 2]], np.full((1, 2, 2), NAN), np.full((1, 2, 2), INF))
    refused(
        "scores must", *each(lambda x: rasf.certificate(ENDING, [[0, 0]], [1.0], Entropic(-0.1), scores=x), *scores)
    )


def test_scores():
    wrong = (PSI * NAN, PSI * INF, "a", None, PSI * 1j, [[1], [1, 2]], 1.0)
    refused("psi must", *each(lambda x: rasf.gpe(x, SIGMA, [1.0], MeanVariance(-1.0)), *wrong))
    refused("Sigma must", *each(lambda x: rasf.gpe(PSI, x, [1.0], MeanVariance(-1.0)), SIGMA * NAN, None, "a"))
    refused("w must", *each(lambda x: rasf.gpe(PSI, SIGMA, x, MeanVariance(-1.0)), [NAN], [1e308], "a", None))
    refused("risk must", *each(lambda x: rasf.gpe(PSI, SIGMA, [1.0], x), None, "neutral"))
    tables = (np.full((1, 2, 2), NAN), [[[1.0, NAN]]], "a", None, 1.0, [1.0], np.zeros((0, 2, 2)), np.zeros((1, 2, 0)))
    refused("scores must", *each(rasf.gpi, *tables, np.full((1, 2, 2), "a"), np.ones((1, 2, 2)) * 1j))
    assert rasf.gpi([[[-INF, 1.0]]]).policy.tolist() == [1]

    def aware(gamma, steps):
        return lambda: rasf.gpi_policy(
            PSI, SIGMA, [1.0], MeanVariance(-1.0), discount_aware=True, gamma=gamma, steps=steps
        )

    refused("gamma must", aware("a", 2), aware(NAN, 2), aware(2.0, 2))
    refused("steps must", aware(0.9, 0), aware(0.9, 1.5), aware(0.9, HUGE))


def test_rollouts():
    refused("start must", *each(lambda x: rasf.simulate(MDP, [0, 0], x, 3, 2, 0), -1, 2, 0.5, "a", None, NAN, True))
    refused("steps must", *each(lambda x: rasf.simulate(MDP, [0, 0], 0, x, 2, 0), 0, -1, 2.5, "a", None, HUGE))
    refused("episodes must", *each(lambda x: rasf.simulate(MDP, [0, 0], 0, 3, x, 0), 0, -1, 1.5, "a", HUGE))
    refused("seed must", *each(lambda x: rasf.simulate(MDP, [0, 0], 0, 3, 2, x), -1, 0.5, "a", None))


def test_risks():
    wrong = ("a", None, NAN, INF, [1.0, 2.0], 1j, True, {}, 10**400, b"-1")
    for risk in (Entropic, MeanVariance, MonotoneMeanVariance, NestedEntropic, MeanVariance.from_paper):
        refused("beta must", *each(risk, *wrong))
    refused("alpha must", *each(CVaR, *wrong, 0, 2, -1))
    refused("beta of MonotoneMeanVariance must be at most 0", *each(MonotoneMeanVariance, 1, 1e-300))
    refused("gain must", *each(lambda x: PiecewiseLinear(x, 2.0), *wrong))
    refused("laws must", *each(lambda x: EllipticalMixture(-1.0, x), None, 3, "normal", ()))
    refused("per_episode must", lambda: rasf.Limit(1.0, per_episode="no"))
    for risk in (Entropic(-1.0), CVaR(0.5), MeanVariance(-1.0), MonotoneMeanVariance(-1.0)):
        refused("x must", *each(risk.samples, "a", None, [NAN, 1.0], [1j, 1.0], [[1.0], [1.0, 2.0]], [], 1.0))
        refused("weights must", *each(lambda x: risk.samples([1.0, 2.0], x), [1.0] * 3, "a", [-1.0, 1.0]))  # noqa: B023


def test_weights():
    refused(
        "phis must be an array",
        *each(lambda x: rasf.infer_weights(x, [1.0]), "a", [[1j]], [[object()]], [[1.0], [1.0, 2.0]]),
    )
    refused("rewards must", *each(lambda x: rasf.infer_weights([[1.0]], x), "a", [1.0, 2.0]))
    refused(
        "phis and rewards must be at most",
        lambda: rasf.infer_weights([[1e300]], [1.0]),
        lambda: rasf.infer_weights([[1.0]], [1e308]),
    )
    assert not rasf.infer_weights(
        [[1e-200], [1e-200]], [1.0, 1.0]
    ).determined  # what small features weigh, none can tell
    refused("d must", *each(rasf.WeightLearner, 0, 1.5, "a", None, 10**9))
    found = rasf.infer_weights([[1.0], [2.0]], [1.0, 2.0])
    refused("phi must", *each(found.error_of, "a", [1.0, 2.0], [NAN]))


def test_sizes_that_are_served():
    np.testing.assert_allclose(rasf.plan(MDP, [1e80]).q, 1e81)
    assert np.isfinite(rasf.plan(ENDING, [1e90], Entropic(-1e-90)).q).all()
    for beta in (5e-324, -1e-310):  # neutral, to rounding
        np.testing.assert_allclose(rasf.plan(ENDING, [1.0], Entropic(beta)).q[0], 2.0)
