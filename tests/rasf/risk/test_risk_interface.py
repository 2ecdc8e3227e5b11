"""The interface of every risk: truthful `supports`, one clear sentence otherwise, and the same kind of array back."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rasf.risk import (
    CVaR,
    Elliptical,
    EllipticalMixture,
    Entropic,
    MeanVariance,
    MonotoneMeanVariance,
    NestedEntropic,
    Risk,
    SkewNormal,
)

RISKS = [
    (Entropic(-0.5), {"samples", "histogram", "independent"}),
    (MeanVariance(-0.5), {"samples", "histogram", "moments", "independent"}),
    (MonotoneMeanVariance(-0.5), {"samples", "histogram", "moments", "independent"}),
    (Elliptical(-0.5, "laplace"), {"moments"}),
    (Elliptical(-0.5, "logistic"), {"moments"}),
    (SkewNormal(-0.5), {"moments"}),
    (CVaR(0.4), {"samples", "histogram", "moments", "independent"}),
    (EllipticalMixture(-0.5, ("normal", "laplace")), {"mixture"}),
    (NestedEntropic(-0.5), set()),
]
PROBS, ATOMS = np.array([[0.5, 0.25, 0.25], [0.2, 0.0, 0.8]]), np.array([-1.0, 0.5, 2.0])
FORMS = {
    "samples": (PROBS,),
    "histogram": (PROBS, ATOMS),
    "moments": (np.array([1.0, -1.0]), np.array([0.5, 0.0])),
    "independent": (np.stack([PROBS, PROBS]), np.stack([ATOMS, 2 * ATOMS]), np.array([1.0, -0.5])),
    "mixture": (PROBS[:, [0, 2]], np.array([1.0, -1.0]), np.array([0.5, 0.1])),
}
WITH_BETA = [
    Entropic,
    NestedEntropic,
    MeanVariance,
    MonotoneMeanVariance,
    Elliptical,
    SkewNormal,
    lambda b: EllipticalMixture(b, ("normal",)),
]
WITH_SAMPLES = [Entropic(-1.0), MeanVariance(-1.0), MonotoneMeanVariance(-1.0), CVaR(0.5)]


def name(value):
    return getattr(value, "__name__", None) or type(value).__name__


@pytest.mark.parametrize(("risk", "forms"), RISKS)
def test_supports_names_the_forms(risk, forms):
    assert risk.supports == forms


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("risk", "forms"), RISKS)
def test_supports_is_truthful(risk, forms, form):
    arguments = FORMS[form]
    if form in forms:
        score = getattr(risk, form)(*arguments)
        assert isinstance(score, np.ndarray)
        assert score.shape == (2,)
        assert np.all(np.isfinite(score))
        return
    with pytest.raises(ValueError, match=f"^{type(risk).__name__} cannot score {form};") as refusal:
        getattr(risk, form)(*arguments)
    assert "\n" not in str(refusal.value)
    assert all(offered in str(refusal.value) for offered in forms)


@pytest.mark.parametrize(("risk", "form"), [(risk, form) for risk, forms in RISKS for form in sorted(forms)])
def test_every_form_works_under_jit(risk, form):
    score = jax.jit(getattr(risk, form))(*FORMS[form])
    np.testing.assert_allclose(score, getattr(risk, form)(*FORMS[form]), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("risk", "form"), [(Entropic(-0.5), "samples"), (MeanVariance(-0.5), "moments")])
@pytest.mark.parametrize("position", [0, 1])
def test_one_jax_argument_makes_the_answer_jax(risk, form, position):
    arguments = [np.array([0.5, 0.5]), np.array([0.5, 0.5])]
    assert not isinstance(getattr(risk, form)(*arguments), jax.Array)
    arguments[position] = jnp.asarray(arguments[position])
    assert isinstance(getattr(risk, form)(*arguments), jax.Array)


@pytest.mark.parametrize(("risk", "form"), [(risk, form) for risk, forms in RISKS for form in sorted(forms)])
def test_single_precision_numpy_needs_no_jax(risk, form):
    score = getattr(risk, form)(*(a.astype(np.float32) for a in FORMS[form]))
    assert isinstance(score, np.ndarray)
    np.testing.assert_allclose(score, getattr(risk, form)(*FORMS[form]), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("risk", "forms"), RISKS)
def test_logarithms_of_probabilities_score_like_the_probabilities(risk, forms):
    """`independent_log` is the same form: offered where `independent` is, refused in the same words elsewhere."""
    probs, atoms, w = FORMS["independent"]
    with np.errstate(divide="ignore"):
        log_probs = np.log(probs)  # one atom has no mass
    if "independent" not in forms:
        with pytest.raises(ValueError, match=f"^{type(risk).__name__} cannot score independent;"):
            risk.independent_log(log_probs, atoms, w)
        return
    score = risk.independent_log(log_probs, atoms, w)
    assert isinstance(score, np.ndarray)
    np.testing.assert_allclose(score, risk.independent(probs, atoms, w), rtol=1e-12)
    compiled = jax.jit(risk.independent_log)(log_probs, atoms, w)
    np.testing.assert_allclose(compiled, score, rtol=1e-5, atol=1e-6)
    # logits will do: a constant, even a large one, for each feature changes nothing
    logits = log_probs + np.array([[700.0], [-2_000.0]])
    np.testing.assert_allclose(risk.independent_log(logits, atoms, w), score, rtol=1e-9)


def test_a_mixture_says_what_it_can_score():
    with pytest.raises(ValueError, match=r"cannot score samples.*mixture"):
        EllipticalMixture(-1.0, ("normal",)).samples(np.ones(3))


def test_the_nested_risk_is_for_planning():
    with pytest.raises(ValueError, match="it is for planning"):
        NestedEntropic(-1.0).samples(np.ones(3))
    with pytest.raises(ValueError, match=r"^NestedEntropic .* discount_aware"):
        NestedEntropic(-1.0).at_discount(0.5)


@pytest.mark.parametrize("risk", [risk for risk, forms in RISKS if forms])
def test_risks_are_frozen_values(risk):
    assert isinstance(risk, Risk)
    assert risk == risk.at_discount(1.0)
    with pytest.raises(AttributeError):
        risk.beta = 1.0


def test_beta_must_be_finite(subtests):
    for make in WITH_BETA:
        for beta in [math.nan, math.inf, -math.inf, np.float32(np.nan), np.float64(np.inf)]:
            with subtests.test(make=make, beta=beta), pytest.raises(ValueError, match="beta must"):
                make(beta)


@pytest.mark.parametrize("kind", [np.array, jnp.array])
def test_beta_without_axes_must_be_finite(kind):
    with pytest.raises(ValueError, match="beta must"):
        Entropic(kind(math.nan))


def test_beta_must_be_one_number(subtests):
    for make in WITH_BETA:
        for beta in [np.zeros(2), [1.0], jnp.zeros((1, 1))]:
            with subtests.test(make=make, beta=beta), pytest.raises(ValueError, match="beta must"):
                make(beta)


@pytest.mark.parametrize("alpha", [0.0, -0.1, 1.0001, math.nan, math.inf])
def test_alpha_must_be_a_fraction(alpha):
    with pytest.raises(ValueError, match="alpha must"):
        CVaR(alpha)


bad = "weights must be finite and non-negative with a positive sum"


def test_bad_weights_are_refused(subtests):
    for risk in WITH_SAMPLES:
        for weights in [[0.0, 0.0, 0.0], [1.0, -1.0, 1.0], [1.0, math.nan, 1.0], [-1.0, -1.0, -1.0]]:
            with subtests.test(risk=risk, weights=weights), pytest.raises(ValueError, match=bad):
                risk.samples(np.arange(3.0), np.array(weights))


@pytest.mark.parametrize("risk", WITH_SAMPLES)
def test_one_bad_row_of_weights_is_refused(risk):
    with pytest.raises(ValueError, match=bad):
        risk.samples(np.ones((2, 3)), np.array([[1.0, 1.0, 1.0], [0.0, 0.0, 0.0]]))


@pytest.mark.parametrize("risk", WITH_SAMPLES)
def test_weights_of_another_length_are_refused(risk):
    with pytest.raises(ValueError, match="shape"):
        risk.samples(np.arange(3.0), np.ones(2))


@pytest.mark.parametrize("risk", WITH_SAMPLES)
def test_one_weight_for_many_samples(risk):
    """Either reading will do: refuse it, or weigh the samples equally."""
    samples = np.array([1.0, 2.0, 3.0])
    try:
        score = risk.samples(samples, np.array([1.0]))
    except ValueError:
        return
    # with probabilities (1, 1, 1) CVaR at 1/2 would see only the worst sample
    assert score == pytest.approx(risk.samples(samples))


@pytest.mark.parametrize("risk", WITH_SAMPLES)
def test_infinite_weights_are_refused(risk):
    with pytest.raises(ValueError, match="weights"):
        risk.samples(np.arange(3.0), np.array([1.0, 1.0, math.inf]))


def test_no_samples_are_refused(subtests):
    for risk in WITH_SAMPLES:
        for x in [np.zeros(0), np.zeros((3, 0)), np.float64(1.0), jnp.zeros(0)]:
            with subtests.test(risk=risk, x=x), pytest.raises(ValueError, match="at least one sample"):
                risk.samples(x)


@pytest.mark.parametrize("risk", WITH_SAMPLES)
def test_one_sample_is_its_own_score(risk):
    assert risk.samples(np.array([3.5])) == 3.5
    assert risk.samples([2, 2, 2]) == 2.0  # integers and lists will do
    np.testing.assert_array_equal(risk.samples(np.array([[1], [2]])), [1.0, 2.0])


@pytest.mark.parametrize("risk", WITH_SAMPLES)
def test_weights_are_broadcast_over_leading_axes(risk):
    x, weights = np.arange(6.0).reshape(2, 3), np.array([1.0, 2.0, 5.0])
    expected = [risk.samples(row, weights) for row in x]
    np.testing.assert_allclose(risk.samples(x, weights), expected)
    np.testing.assert_allclose(risk.samples(x, np.stack([weights, weights])), expected)
    np.testing.assert_allclose(risk.samples(x[0], np.stack([weights, weights])), [expected[0]] * 2)


def test_weights_of_samples_are_as_many_as_the_samples():
    for risk in (MeanVariance(-1.0), Entropic(-1.0), CVaR(0.5)):
        with pytest.raises(ValueError, match="weights must have 3 entries, one for each sample"):
            risk.samples(np.arange(3.0), np.ones(1))
