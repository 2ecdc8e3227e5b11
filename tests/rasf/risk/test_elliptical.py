"""Elliptical laws and their mixtures against quadrature of exp(beta x) times the density (appendix A.4)."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad
from scipy.special import betaln

from rasf.risk import Elliptical, EllipticalMixture, MeanVariance

LAWS = ("normal", "laplace", "logistic")
# beta * sd where the exponential moment ceases to exist: the tails decay like exp(-limit |x| / sd)
LIMIT = {"normal": math.inf, "laplace": math.sqrt(2), "logistic": math.pi / math.sqrt(3)}


def score(law):
    return lambda beta, mean, variance: Elliptical(beta, law).moments(mean, variance)


# one compilation for all parameters of a test
LANES = {law: jax.jit(jax.vmap(score(law), (None, 0, 0))) for law in LAWS}
GRADIENTS = {law: jax.jit(jax.grad(score(law), (0, 2))) for law in LAWS}


def density(law, mean, variance):
    """scipy's law with the scale that gives this variance."""
    match law:
        case "normal":
            return stats.norm(mean, math.sqrt(variance))
        case "laplace":
            return stats.laplace(mean, math.sqrt(variance / 2))
        case "logistic":
            return stats.logistic(mean, math.sqrt(3 * variance) / math.pi)


def utility_by_quadrature(beta, weights, laws, centre):
    def tilted(x):
        return sum(p * np.exp(beta * (x - centre) + law.logpdf(x)) for p, law in zip(weights, laws, strict=True))

    cuts = sorted({law.mean() for law in laws})  # the Laplace density has a kink there
    edges = [-np.inf, *cuts, np.inf]
    mgf = sum(quad(tilted, a, b, epsabs=0, epsrel=1e-11, limit=200)[0] for a, b in itertools.pairwise(edges))
    return centre + math.log(mgf) / beta


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("beta", [-0.5, -0.05, 0.01, 0.4])
@pytest.mark.parametrize(("mean", "variance"), [(0.0, 1.0), (3.0, 4.0), (-2.0, 0.25)])
def test_against_quadrature(law, beta, mean, variance):
    reference = density(law, mean, variance)
    assert reference.var() == pytest.approx(variance)
    expected = utility_by_quadrature(beta, [1.0], [reference], mean)
    assert Elliptical(beta, law).moments(mean, variance) == pytest.approx(expected, abs=1e-9)


def test_hand_numbers():
    assert Elliptical(-2.0).moments(1.0, 3.0) == -2.0
    # 1 - beta^2 v / 2 = 1/2
    assert Elliptical(-1.0, "laplace").moments(0.0, 1.0) == pytest.approx(-math.log(2))
    # y = pi / 2 and sin y = 1
    assert Elliptical(1.0, "logistic").moments(0.0, math.pi**2 / 12) == pytest.approx(math.log(math.pi / 2))
    assert Elliptical(0, "student").moments(1.0, 3.0) == 1.0


@pytest.mark.parametrize("beta", [-1.7, -1.0, -1e-2, 0.3, 1.8])
def test_the_papers_logistic_row(beta):
    scale = math.sqrt(3) / math.pi
    expected = betaln(1 - beta * scale, 1 + beta * scale) / beta
    assert Elliptical(beta, "logistic").moments(0.0, 1.0) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("law", LAWS)
def test_one_law_in_batches_is_normal_law_plus_kurtosis(law):
    """U = m + (beta / 2) v + (k4 / 24) beta^3 v^2 + ...; excess kurtosis 0, 3 and 6/5."""
    variance, beta = np.array([[0.5, 1.0], [2.0, 4.0]]), 1e-2
    excess = {"normal": 0.0, "laplace": 3.0, "logistic": 1.2}[law]
    gap = Elliptical(beta, law).moments(1.0, variance) - MeanVariance(beta).moments(1.0, variance)
    assert gap.shape == (2, 2)
    np.testing.assert_allclose(gap, excess / 24 * beta**3 * variance**2, rtol=1e-3, atol=1e-15)


# Domain


@pytest.mark.parametrize("law", ["laplace", "logistic"])
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_signed_infinity_outside_and_increasing_up_to_the_edge(law, sign):
    edge = LIMIT[law] ** 2
    for beyond in (edge * (1 + 1e-14), edge * 2, edge * 1e10):
        assert Elliptical(sign, law).moments(5.0, beyond) == sign * math.inf
    inside = sign * Elliptical(sign, law).moments(0.0, edge * (1 - 10.0 ** -np.arange(1.0, 15.0)))
    assert np.all(np.isfinite(inside))
    assert np.all(np.diff(inside) > 0)
    # the moment generating function has a simple pole there: ten times nearer adds log 10
    assert np.diff(inside)[5:11] == pytest.approx(math.log(10), rel=1e-2)


@pytest.mark.parametrize("law", ["laplace", "logistic"])
def test_the_edge_in_single_precision(law):
    edge = np.float32(LIMIT[law] ** 2)
    variance = edge + np.spacing(edge) * np.arange(-40, 41, dtype=np.float32)
    scores = np.asarray(LANES[law](1.0, np.zeros_like(variance), variance))
    assert not np.any(np.isnan(scores))
    assert np.all(np.isfinite(scores[:35]))
    assert np.all(scores[-35:] == np.inf)


def test_the_laplace_edge_itself_is_outside():
    assert Elliptical(-2.0, "laplace").moments(0.0, 0.5) == -math.inf
    assert np.isfinite(Elliptical(-2.0, "laplace").moments(0.0, np.nextafter(0.5, 0)))


def test_the_normal_law_has_no_edge():
    assert Elliptical(-1e3).moments(0.0, 1e6) == pytest.approx(-5e8)


@pytest.mark.parametrize("law", ["laplace", "logistic"])
@pytest.mark.parametrize("beta", [-10.0, 1e100])
def test_infinity_does_not_spread_in_a_batch(law, beta):
    scores = Elliptical(beta, law).moments(np.array([1.0, 1.0]), np.array([0.0, 1.0]))
    np.testing.assert_array_equal(scores, [1.0, math.copysign(math.inf, beta)])


@pytest.mark.parametrize("law", ["laplace", "logistic"])
def test_infinity_even_when_beta_squared_overflows(law):
    assert Elliptical(-1e160, law).moments(0.0, 1.0) == -math.inf


@pytest.mark.parametrize("law", LAWS)
def test_negative_variance_estimates_count_as_zero(law):
    np.testing.assert_array_equal(Elliptical(-3.0, law).moments(np.ones(2), np.array([-1.0, 0.0])), [1.0, 1.0])


@pytest.mark.parametrize("beta", [-1.0, 1e-300, 0.5, np.float64(1e-9)])
def test_student_is_refused_unless_beta_is_zero(beta):
    with pytest.raises(ValueError, match=r"^beta must be 0 .* Student"):
        Elliptical(beta, "student")
    with pytest.raises(ValueError, match="Student"):
        EllipticalMixture(beta, ("normal", "student"))


@pytest.mark.parametrize(
    "zero",
    [
        0,
        0.0,
        -0.0,
        np.float64(0),
        np.float32(0),
        np.int64(0),
        np.array(0.0),
    ],
)
def test_student_at_any_kind_of_zero(zero):
    assert Elliptical(zero, "student").moments(1.0, 3.0) == 1.0
    assert Elliptical(zero, "student").at_discount(0.5).moments(1.0, 3.0) == 1.0


def test_unknown_law_is_refused():
    with pytest.raises(ValueError, match="law must"):
        Elliptical(-1.0, "cauchy")
    with pytest.raises(ValueError, match="got 'cauchy'"):
        EllipticalMixture(-1.0, ("normal", "cauchy"))


# Near beta = 0


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("beta", [0.0, 5e-324, -1e-310, 1e-300, -1e-12, 1e-6])
def test_smooth_through_zero(law, beta):
    assert Elliptical(beta, law).moments(2.0, 9.0) == pytest.approx(2 + 4.5 * beta, rel=1e-12)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("beta", [1e-2, -1e-4, 1e-6, 1e-8, -1e-12, 1e-50, 1e-100])
def test_relative_accuracy_of_the_variance_term(law, beta):
    # -log(1 - x/2) = x/2 + x^2/8 + x^3/24 and log(y / sin y) = y^2/6 + y^4/180 + y^6/2835 with y^2 = 3 x
    square = beta**2
    series = {
        "normal": 1.0,
        "laplace": 1 + square / 4 + square**2 / 12,
        "logistic": 1 + square / 10 + square**2 * 2 / 105,
    }[law]
    assert Elliptical(beta, law).moments(0.0, 1.0) == pytest.approx(beta / 2 * series, rel=1e-11, abs=0)


@pytest.mark.parametrize(("beta", "evaluate"), [(1e-13, LANES["logistic"]), (1e-120, score("logistic"))])
def test_logistic_variance_term_of_tiny_beta(beta, evaluate):
    assert evaluate(beta, np.zeros(1), np.ones(1))[0] == pytest.approx(beta / 2, rel=1e-5, abs=0)


# jax


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("beta", [-1.0, -0.3, -1e-3, 0.0, 0.7, 3.0])
def test_jax_agrees_with_numpy(law, beta):
    mean, variance = np.array([0.0, 1.0, -1.0, 2.0]), np.array([0.0, 0.01, 1.0, 1.9])
    expected = Elliptical(beta, law).moments(mean, variance)
    np.testing.assert_allclose(LANES[law](beta, mean, variance), expected, rtol=2e-5, atol=1e-6)
    with jax.enable_x64(True):
        np.testing.assert_allclose(LANES[law](beta, mean, variance), expected, rtol=1e-12)


def gradient(law, beta, variance):
    return GRADIENTS[law](beta, 0.0, variance)


@pytest.mark.parametrize("beta", [-0.9, -0.1, 0.5])
def test_gradients_in_closed_form(beta):
    with jax.enable_x64(True):
        # U = -log(1 - beta^2 v / 2) / beta
        rest = 1 - beta**2 / 2
        by_beta, by_variance = gradient("laplace", beta, 1.0)
        assert by_variance == pytest.approx(beta / 2 / rest, rel=1e-10)
        assert by_beta == pytest.approx(1 / rest + math.log(rest) / beta**2, rel=1e-10)
        # U = log(y / sin y) / beta with y = sqrt(3 v) |beta|
        y = math.sqrt(3) * abs(beta)
        by_beta, by_variance = gradient("logistic", beta, 1.0)
        assert by_variance == pytest.approx((1 - y / math.tan(y)) / 2 / beta, rel=1e-10)
        assert by_beta == pytest.approx((1 - y / math.tan(y) - math.log(y / math.sin(y))) / beta**2, rel=1e-8)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("beta", [0.0, 1e-13])
def test_gradient_in_beta_at_the_limit(law, beta):
    assert gradient(law, beta, 4.0)[0] == pytest.approx(2.0, rel=1e-5)


@pytest.mark.parametrize("law", LAWS)
def test_gradient_in_a_tiny_variance(law):
    assert gradient(law, -2.0, 1e-30)[1] == pytest.approx(-1.0, rel=1e-5)


# Lemma of A.4: a projection of an elliptical law is the one-dimensional law of the same kind

PSI, SIGMA, W = np.array([1.0, -2.0]), np.array([[2.0, 0.6], [0.6, 1.0]]), np.array([0.8, -0.5])
NODES, NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(80)
PLANE = np.stack(np.meshgrid(NODES, NODES, indexing="ij"), -1) @ np.linalg.cholesky(SIGMA).T @ W
PLANE_WEIGHTS = np.outer(NODE_WEIGHTS, NODE_WEIGHTS) / (2 * math.pi)


def normal_mgf(beta, mixing=1.0):
    """E exp(beta w . sqrt(mixing) Z) for Z ~ N(0, SIGMA), by a product rule in the plane."""
    return np.sum(PLANE_WEIGHTS * np.exp(beta * math.sqrt(mixing) * PLANE))


@pytest.mark.parametrize("beta", [-1.0, 0.5, 2.0])
def test_projection_of_a_normal_law(beta):
    expected = PSI @ W + math.log(normal_mgf(beta)) / beta
    assert Elliptical(beta).moments(PSI @ W, W @ SIGMA @ W) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("beta", [-1.0, 0.6])
def test_projection_of_a_laplace_law(beta):
    """Multivariate Laplace: a normal law whose covariance is multiplied by a standard exponential variable."""
    mgf = quad(lambda t: math.exp(-t) * normal_mgf(beta, t), 0, 80, epsabs=0, epsrel=1e-10, limit=200)[0]
    expected = PSI @ W + math.log(mgf) / beta
    assert Elliptical(beta, "laplace").moments(PSI @ W, W @ SIGMA @ W) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("z", [0.1, 0.9])
def test_at_discount(law, z):
    # z X is of the same law with mean z m and variance z^2 v
    later = z * Elliptical(-0.8, law).at_discount(z).moments(2.0, 1.5)
    assert later == pytest.approx(Elliptical(-0.8, law).moments(z * 2.0, z**2 * 1.5), rel=1e-12)
    two = EllipticalMixture(-0.8, (law, "normal"))
    weights, mean, variance = np.array([0.3, 0.7]), np.array([2.0, -1.0]), np.array([1.5, 1.0])
    later = z * two.at_discount(z).mixture(weights, mean, variance)
    assert later == pytest.approx(two.mixture(weights, z * mean, z**2 * variance), rel=1e-12)


# Mixtures


@pytest.mark.parametrize("beta", [-0.8, -0.01, 0.5])
@pytest.mark.parametrize("laws", [("normal", "normal", "normal"), ("normal", "laplace", "logistic")])
def test_mixture_against_quadrature(beta, laws):
    weights, mean, variance = np.array([0.2, 0.5, 0.3]), np.array([-4.0, 0.0, 3.0]), np.array([0.5, 1.0, 2.0])
    parts = [density(law, m, v) for law, m, v in zip(laws, mean, variance, strict=True)]
    expected = utility_by_quadrature(beta, weights, parts, 0.0)
    assert EllipticalMixture(beta, laws).mixture(weights, mean, variance) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("law", LAWS)
def test_mixture_of_one_or_of_equals_is_the_law(law):
    expected = Elliptical(-0.7, law).moments(3.0, 1.2)
    assert EllipticalMixture(-0.7, (law,)).mixture(np.ones(1), np.full(1, 3.0), np.full(1, 1.2)) == pytest.approx(
        expected
    )
    assert EllipticalMixture(-0.7, (law, law)).mixture(
        np.array([0.3, 0.7]), np.full(2, 3.0), np.full(2, 1.2)
    ) == pytest.approx(expected)


def test_mixture_far_apart_does_not_overflow():
    score = EllipticalMixture(-1.0, ("normal", "normal")).mixture(
        np.array([0.5, 0.5]), np.array([-1e6, 1e6]), np.array([2.0, 2.0])
    )
    assert score == pytest.approx(-1e6 - 1 + math.log(2), rel=1e-14)


@pytest.mark.parametrize("compiled", [lambda f: f, jax.jit], ids=["numpy", "jax"])
@pytest.mark.parametrize("beta", [-1.0, 1.0])
def test_infinite_components(compiled, beta):
    weights = np.array([[0.5, 0.5], [1.0, 0.0], [0.0, 1.0]])
    mixture = compiled(EllipticalMixture(beta, ("normal", "laplace")).mixture)
    scores = mixture(weights, np.array([1.0, 2.0]), np.array([2.0, 5.0]))
    np.testing.assert_allclose(scores, [beta * np.inf, 1.0 + beta, beta * np.inf])


def test_mixture_batches_under_jit():
    rng = np.random.default_rng(0)
    weights, mean, variance = rng.dirichlet(np.ones(2), size=5), rng.normal(size=(5, 2)), rng.uniform(size=(5, 2))
    risk = EllipticalMixture(-0.9, ("laplace", "logistic"))
    expected = [risk.mixture(*row) for row in zip(weights, mean, variance, strict=True)]
    np.testing.assert_allclose(risk.mixture(weights, mean, variance), expected)
    lanes = jax.jit(jax.vmap(lambda b: EllipticalMixture(b, risk.laws).mixture(weights, mean, variance)))
    neutral = np.sum(weights * mean, axis=-1)
    np.testing.assert_allclose(lanes(jnp.array([-0.9, 0.0])), [expected, neutral], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("columns", [1, 3])
def test_wrong_number_of_columns(columns):
    part = np.full(columns, 1 / columns)
    with pytest.raises(ValueError, match="2 columns"):
        EllipticalMixture(-1.0, ("normal", "normal")).mixture(part, part, part)


def test_mixture_without_components_is_refused():
    with pytest.raises(ValueError, match="at least one component"):
        EllipticalMixture(-1.0, ())


@pytest.mark.parametrize("beta", [1e-300, -1e-9, 1e-4])
def test_mixture_near_zero(beta):
    # mean 2, variance E v + Var m = 2 + 1
    two = EllipticalMixture(beta, ("normal", "laplace"))
    score = two.mixture(np.array([0.5, 0.5]), np.array([1.0, 3.0]), np.array([1.0, 3.0]))
    assert score == pytest.approx(2 + beta * 3 / 2, abs=1e-14 + 10 * beta**2)


@pytest.mark.parametrize("beta", [0, 0.0])
def test_mixture_at_zero_is_the_mean(beta):
    two = EllipticalMixture(beta, ("normal", "student"))
    assert two.mixture(np.array([0.25, 0.75]), np.array([4.0, 8.0]), np.array([1.0, 3.0])) == 7.0


def mixture_gradient(beta, weights, variance):
    def score(b, m):
        return EllipticalMixture(b, ("normal", "laplace")).mixture(jnp.array(weights), m, jnp.array(variance))

    return jax.jit(jax.grad(score, (0, 1)))(beta, jnp.array([1.0, 2.0]))


def test_mixture_gradients_are_finite():
    by_beta, by_mean = mixture_gradient(-0.5, [0.5, 0.5], [1.0, 2.0])
    assert np.isfinite(by_beta)
    assert np.sum(by_mean) == pytest.approx(1.0, rel=1e-5)


def test_mixture_gradient_ignores_an_infinite_component_without_weight():
    by_beta, by_mean = mixture_gradient(-0.5, [1.0, 0.0], [3.0, 100.0])
    np.testing.assert_allclose(by_mean, [1.0, 0.0])
    assert by_beta == pytest.approx(1.5)
