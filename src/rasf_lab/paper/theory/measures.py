"""Test the paper's theory (claims T1 to T6) on random instances.

Lemma 1 (T1) is tested on random discrete distributions. The closed forms of utilities in the paper's appendix A.4 (T6,
and Figure 7) are compared with quadrature.

Theorems 1 and 2 and their discounted forms (T2, T3, T5) are tested on random MDPs with source policies and a target
task. GPI acts by the sources' utilities with errors of at most epsilon. The gap of GPI is compared with the theorem's
bound. The gap is the utility of the best source (Theorem 1), or the optimal utility (Theorem 2), less the true utility
of GPI. In the discounted theorems, sources are scored by the utility of z X, where X is the remaining return and
z = gamma^t is the discount at step t. Claim T5 also reports a case that the theorems do not cover: if sources are
scored with z = 1 at every step, as in the paper's Algorithms 1 and 2, then GPI can be worse than its best source on the
discounted return, even with exact utilities.

Theorem 3 and its discounted form (T4, T5) are about the covariance Sigma of Psi. Psi is the random sum of the features,
and has the mean psi. A prime marks the successor state, and ^T the transpose. With approximate psi~, residual
delta~ = phi + gamma psi~' - psi~ and error e = psi~ - psi, let

    eps = max(|e(s, a)|^2, gamma |E[delta~ e'^T]|).

The claim is |Sigma - E[delta~ delta~^T + gamma^2 Sigma~']| <= 3 eps in a "matrix-compatible norm", here the spectral
norm unless another norm is named. Whether the claim holds depends on the reading of Sigma~':

    about psi~'   Sigma~' = E[(Psi' - psi~')(Psi' - psi~')^T], as in the proof: the claim holds
    true Sigma'   the term gamma^2 E[e' e'^T] remains, which eps does not bound: the claim fails, unless eps is also at
                  least gamma^2 |e'|^2
    learned       the proof's Sigma~' plus an error: the claim holds if gamma^2 times the norm of this error is added
                  to 3 eps

Whether the claim holds also depends on the norm. The proof assumes |A^T| = |A| for every matrix A, and
|e e^T| <= |e|^2. Both hold in the spectral and in the Frobenius norm. In the induced infinity norm, which is
matrix-compatible too, |A^T| can reach d |A| and |e e^T| can reach d |e|^2, and the bound is (2 d + 1) eps instead of
3 eps. Shapes: S states, A actions, d features.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import product
from typing import Literal

import numpy as np
from scipy import special, stats
from scipy.stats.distributions import rv_frozen

from rasf.arrays import Floats, Ints
from rasf.mdp import FiniteMDP
from rasf.planning.certificate import Certificate, certificate
from rasf.planning.moments import successor_moments
from rasf.planning.plan import Plan, evaluate_policy, plan
from rasf.risk import Elliptical, EllipticalMixture, Entropic, SkewNormal
from rasf.risk.elliptical import Law
from rasf.transfer import gpi
from rasf_lab.common.results import Numbers

Tick = Callable[[], None]
Order = float | Literal["fro"]
LAWS: tuple[Law, ...] = ("normal", "laplace", "logistic")
BETAS = (-2.0, -0.7, -0.01, 0.01, 0.5, 1.3)
VARIANCES = (0.05, 0.3, 0.9)
PROOF, TRUE, UNIFORM = "about psi~'", "true Sigma'", "true Sigma', eps >= gamma^2 |e'|^2 too"
LEARNED = "learned, minus the norm of its error"
READINGS = (PROOF, TRUE, UNIFORM, LEARNED)
NORMS: dict[str, Order] = {"spectral": 2, "Frobenius": "fro", "induced infinity": math.inf}
INFINITY = "infinity norm"  # the name of the results by the proof's reading in the induced infinity norm
_SLACK = 1e-9  # a smaller violation counts as a rounding error
_GAP_SLACK = 1e-7  # a smaller violation of a bound on a gap counts as an error of planning
_TOLERANCE = 1e-9  # tolerance of planning


def _instances(count: int, seed: int, tick: Tick) -> Iterator[np.random.Generator]:
    """Yield a random generator for each instance; call `tick` after each instance."""
    for instance in range(count):
        yield np.random.default_rng([seed, instance])
        tick()


def lemma_1(instances: int, seed: int, tick: Tick) -> Numbers:
    """Count how many random pairs of discrete random variables violate each property of Lemma 1.

    Args:
        instances: the number of pairs.
        seed: seed of the pairs.
        tick: called after each pair.
    """
    broken = dict.fromkeys(("monotone", "cash-invariant", "concave or convex", "non-expansive"), 0)
    for rng in _instances(instances, seed, tick):
        beta = float(rng.choice([-1, 1]) * 10 ** rng.uniform(-4, 3))
        probs = rng.dirichlet(np.ones(6))
        x, y = rng.normal(scale=10 ** rng.uniform(-1, 2), size=(2, 6))
        c, t = float(rng.normal()), float(rng.random())
        u = Entropic(beta)
        slack = _SLACK * (1 + float(np.abs([x, y]).max()))
        ux, uy = u.histogram(probs, x), u.histogram(probs, y)
        mixed, mean = u.histogram(probs, t * x + (1 - t) * y), t * ux + (1 - t) * uy
        broken["monotone"] += bool(u.histogram(probs, np.maximum(x, y)) < max(ux, uy) - slack)
        broken["cash-invariant"] += bool(abs(u.histogram(probs, x + c) - ux - c) > slack)
        broken["concave or convex"] += bool(np.sign(beta) * (mixed - mean) > slack)
        broken["non-expansive"] += bool(abs(ux - uy) > np.abs(x - y).max() + slack)
    return {"instances": instances, "violations": broken}


def penalties() -> dict[str, float]:
    """Return, for each distribution, the largest |closed form - quadrature| of the utility over several parameters.

    The last distribution is a projection of a 2-D Laplace distribution, for the paper's lemma on projections.
    """
    errors: dict[str, float] = {
        law: max(
            abs(float(Elliptical(b, law).moments(0.4, v)) - (0.4 + _quadrature(_density(law, v), b)))
            for b, v in product(BETAS, VARIANCES)
            if _inside(law, b, v)
        )
        for law in LAWS
    }
    errors["skew-normal"] = max(_skew_error(*each) for each in product(BETAS, VARIANCES, (-0.8, 0.5)))
    errors["mixture"] = max(_mixture_error(b) for b in (-1.2, -0.3, 0.4, 1.1))
    errors["projection of a 2-D Laplace distribution"] = max(_projection_error(b) for b in (-0.8, 0.3, 0.9))
    return errors


def figure_7(points: int = 200) -> dict[str, Floats]:
    """Return utility - mean at beta = 1 for each distribution in LAWS, at `points` variances from 0 to 1.9."""
    variance = np.linspace(0.0, 1.9, points)
    return {"variance": variance} | {law: Elliptical(1.0, law).moments(0.0, variance) for law in LAWS}


def _inside(law: Law, beta: float, variance: float) -> bool:
    """Return whether beta and variance are well inside the distribution's domain, where quadrature converges."""
    return {"normal": True, "laplace": beta**2 * variance < 1.6, "logistic": 3 * beta**2 * variance < 7}[law]


def _density(law: Law, variance: float) -> rv_frozen:
    """Return the distribution with mean 0 and this variance."""
    if law == "normal":
        return stats.norm(scale=math.sqrt(variance))
    if law == "laplace":
        return stats.laplace(scale=math.sqrt(variance / 2))
    return stats.logistic(scale=math.sqrt(3 * variance) / math.pi)


def _quadrature(law: rv_frozen, beta: float) -> float:
    """Return the entropic utility of a distribution with mean near 0, by Gauss-Legendre quadrature of expm1(beta X)."""
    reach = 300 * float(law.std())  # wide, because the product of the density and exp(beta x) can decay slowly
    half = np.concatenate([[0.0], np.geomspace(reach / 3e4, reach, 300)])
    edges = np.concatenate([-half[:0:-1], half])
    node, weight = np.polynomial.legendre.leggauss(20)
    middle, width = (edges[1:] + edges[:-1]) / 2, (edges[1:] - edges[:-1]) / 2
    x = (middle[:, None] + width[:, None] * node).ravel()
    mass = (width[:, None] * weight).ravel()
    log_density = law.logpdf(x)
    return math.log1p(float(np.sum(mass * (np.exp(beta * x + log_density) - np.exp(log_density))))) / beta


def _skew_error(beta: float, variance: float, fraction: float) -> float:
    skew = fraction * math.sqrt(variance / (1 - 2 / math.pi))
    omega = variance + 2 / math.pi * skew**2
    shape = skew / math.sqrt(omega - skew**2)
    law = stats.skewnorm(shape, loc=-math.sqrt(2 / math.pi) * skew, scale=math.sqrt(omega))
    return abs(float(SkewNormal(beta).moments(0.0, variance, skew)) - _quadrature(law, beta))


def _mixture_error(beta: float) -> float:
    weights, means, variances = np.array([0.6, 0.3, 0.1]), np.array([1.0, -0.5, -3.0]), np.array([0.3, 0.2, 0.9])
    moment = sum(
        w * math.exp(beta * (m + _quadrature(_density(law, v), beta)))
        for w, m, v, law in zip(weights, means, variances, LAWS, strict=True)
    )
    mixture = EllipticalMixture(beta, LAWS)
    return abs(float(mixture.mixture(weights, means, variances)) - math.log(moment) / beta)


def _projection_error(beta: float) -> float:
    """Return |closed form - quadrature| of the utility of a projection of a 2-D Laplace distribution.

    A Laplace distribution is a normal distribution whose covariance is multiplied by an exponentially distributed
    factor. A Gauss-Laguerre rule integrates over the factor.
    """
    Sigma, w = np.array([[0.5, 0.2], [0.2, 0.4]]), np.array([0.7, -1.1])
    variance = float(w @ Sigma @ w)
    nodes, weights = special.roots_laguerre(60)
    moment = float(np.sum(weights * np.exp(beta**2 / 2 * nodes * variance)))
    return abs(float(Elliptical(beta, "laplace").moments(0.0, variance)) - math.log(moment) / beta)


def _random_mdp(rng: np.random.Generator, gamma: float = 1.0) -> FiniteMDP:
    """Return a random MDP with 2 to 5 states, 2 or 3 actions and 2 features. Some MDPs are nearly deterministic."""
    S, A, d = int(rng.integers(2, 6)), int(rng.integers(2, 4)), 2
    P = rng.dirichlet(np.full(S, rng.choice([0.2, 1.0])), size=(S, A))
    P = np.maximum(P, 1e-12)
    return FiniteMDP(P / P.sum(axis=2, keepdims=True), rng.normal(size=(S, A, S, d)), (), gamma)


def _random_policies(rng: np.random.Generator, mdp: FiniteMDP, count: int, steps: int | None) -> list[Ints]:
    """Return random deterministic policies (S,), or (steps, S) with a row for each step."""
    shape = (mdp.n_states,) if steps is None else (steps, mdp.n_states)
    return [rng.integers(mdp.n_actions, size=shape) for _ in range(count)]


def _random_beta(rng: np.random.Generator) -> float:
    """Return a beta of either sign, with a magnitude from 0.01 to 10."""
    return float(rng.choice([-1, 1]) * 10 ** rng.uniform(-2, 1))


def _perturbed(rng: np.random.Generator, exact: Floats, epsilon: float) -> Floats:
    """Add random errors to utilities: all errors uniform in [-epsilon, epsilon], or every error -epsilon or epsilon."""
    noise = rng.uniform(-1, 1, exact.shape) if rng.random() < 0.5 else rng.choice([-1.0, 1.0], exact.shape)
    return exact + epsilon * noise


def bounds(instances: int, seed: int, optimal_sources: bool, discounted: bool, tick: Tick) -> Numbers:
    """Return how many random instances violate a theorem's bound on the gap, and the largest gap / bound.

    Args:
        instances: the number of instances.
        seed: seed of the instances.
        optimal_sources: True tests Theorem 2, with optimal policies of near tasks as sources; False tests Theorem 1,
            with random sources.
        discounted: True tests the discounted form; False the form for a finite horizon.
        tick: called after each instance.
    """
    ratios, violations = [], 0
    for rng in _instances(instances, seed, tick):
        bound = _random_certificate(rng, optimal_sources, discounted)
        which = "optimality" if optimal_sources else "source"
        gap, limit = getattr(bound, f"{which}_gap"), getattr(bound, f"{which}_bound")
        violations += bool((gap > limit + _GAP_SLACK).any())
        ratios.append(float((gap / limit).max()))
    return {"instances": instances, "violations": violations, "largest_gap_over_bound": max(ratios)}


def _random_certificate(rng: np.random.Generator, optimal_sources: bool, discounted: bool) -> Certificate:
    gamma = float(rng.uniform(0.5, 0.95)) if discounted else 1.0
    horizon = None if discounted else int(rng.integers(1, 7))
    mdp, risk = _random_mdp(rng, gamma), Entropic(_random_beta(rng))
    w = rng.normal(size=mdp.n_features)
    count = int(rng.integers(1, 4))
    if optimal_sources:
        # the tasks are near the target, because the bound is loose for distant tasks
        tasks = [w + rng.choice([0.03, 0.3]) * rng.normal(size=mdp.n_features) for _ in range(count)]
        sources: list[Plan | Ints] = [plan(mdp, task, risk, horizon, tolerance=_TOLERANCE) for task in tasks]
    else:
        sources = list(_random_policies(rng, mdp, count, horizon))
    exact = certificate(mdp, sources, w, risk, horizon, tolerance=_TOLERANCE)
    epsilon = float(10 ** rng.uniform(-2, 0))
    scores = _perturbed(rng, exact.source_utilities, epsilon)
    return certificate(mdp, sources, w, risk, horizon, scores=scores, epsilon=epsilon, tolerance=_TOLERANCE)


def forgetful_scoring(instances: int, seed: int, tick: Tick) -> Numbers:
    """Count the MDPs in which GPI with z = 1 is worse than its best source; also find the largest loss of utility.

    Args:
        instances: the number of random MDPs.
        seed: seed of the MDPs.
        tick: called after each MDP.
    """
    worse, worst = 0, {"loss": 0.0}
    for instance, rng in enumerate(_instances(instances, seed, tick)):
        gamma = float(rng.uniform(0.5, 0.95))
        mdp, beta = _random_mdp(rng, gamma), _random_beta(rng)
        w = rng.normal(size=mdp.n_features)
        sources = _random_policies(rng, mdp, 2, None)
        utilities = np.stack([evaluate_policy(mdp, s, w, Entropic(beta), tolerance=_TOLERANCE) for s in sources])
        stationary = gpi(utilities).policy
        attained = evaluate_policy(mdp, stationary, w, Entropic(beta), tolerance=_TOLERANCE)
        loss = float((utilities.max(axis=0) - attained).max())
        worse += loss > _GAP_SLACK
        if loss > worst["loss"]:
            worst = {"loss": loss, "instance": instance, "beta": beta, "gamma": gamma}
    return {"instances": instances, "worse_than_best_source": worse, "worst": worst}


def backup_errors(instances: int, seed: int, discounted: bool, tick: Tick) -> Numbers:
    """Count the errors of the backup of Sigma that exceed 3 eps, and find the largest error / eps.

    There is an error for each instance, step h, state s and action a. The count and the largest error are returned for
    each reading of Sigma~' in the spectral norm, and for the proof's reading in the induced infinity norm.

    Args:
        instances: the number of random MDPs.
        seed: seed of the MDPs.
        discounted: True tests the discounted form; False the form for a finite horizon.
        tick: called after each MDP.
    """
    broken = dict.fromkeys((*READINGS, INFINITY), 0)
    largest = dict.fromkeys((*READINGS, INFINITY), 0.0)
    checks = 0
    for rng in _instances(instances, seed, tick):
        mdp = _random_mdp(rng, float(rng.uniform(0.5, 0.95)) if discounted else 1.0)
        steps = int(rng.integers(2, 5))
        policy = _random_policies(rng, mdp, 1, steps)[0]
        for reading, ratio in _ratios(rng, mdp, policy).items():
            broken[reading] += int((ratio > 3 + _SLACK).sum())
            largest[reading] = max(largest[reading], float(ratio.max()))
        checks += (steps - 1) * mdp.n_states * mdp.n_actions
    found = {name: {"broken": broken[name], "largest_error_over_eps": largest[name]} for name in broken}
    readings = {name: found[name] for name in READINGS}
    return {"instances": instances, "checks": checks, "readings": readings, INFINITY: found[INFINITY]}


def one_step(features: int = 13) -> Numbers:
    """Return error / eps in each norm for one deterministic last step, with psi~ off by 1 in every feature.

    The step is deterministic, so Sigma = 0. No step follows, so Sigma~' = 0 and eps = |e|^2 in every reading. The size
    of e cancels in the ratio.

    Args:
        features: the number of features. Default: 13, as in the reacher.
    """
    mdp = FiniteMDP.from_transitions([(0, 0, 1, 1.0, np.ones(features))], n_states=2, n_actions=1, terminal=[1])
    psi, Sigma = successor_moments(mdp, [0, 0], horizon=1)
    e = np.ones((1, features))
    delta = mdp.phi - (psi[0, 0] + e)
    miss = Sigma[0, 0] - _outer(delta, delta)
    ratio = {name: float(_norm(miss, order)[0] / _squared(e, order)[0]) for name, order in NORMS.items()}
    return {"features": features, "error_over_eps": ratio}


def _ratios(rng: np.random.Generator, mdp: FiniteMDP, policy: Ints) -> dict[str, Floats]:
    """Return |Sigma_h - backup| / eps_h for all (h, s, a), for READINGS and INFINITY. Errors of psi~ are random."""
    psi, Sigma = successor_moments(mdp, policy, len(policy))
    if rng.random() < 0.5:  # normal errors, with a random size for each step
        noise = 10 ** rng.uniform(-2, 0, (len(psi), 1, 1, 1)) * rng.normal(size=psi.shape)
    else:
        noise = _adverse_errors(rng, mdp, policy, psi)
    ratios: dict[str, list[Floats]] = {name: [] for name in (*READINGS, INFINITY)}
    states = np.arange(mdp.n_states)
    rows = np.repeat(np.arange(mdp.n_states * mdp.n_actions), np.diff(mdp.indptr))
    d, square = mdp.n_features, mdp.gamma**2
    for h in range(len(policy) - 1):
        e = noise[h].reshape(-1, d)
        e_next = noise[h + 1][states, policy[h + 1]][mdp.successor]
        psi_next = psi[h + 1][states, policy[h + 1]][mdp.successor]
        Sigma_next = Sigma[h + 1][states, policy[h + 1]][mdp.successor]
        delta = mdp.phi + mdp.gamma * (psi_next + e_next) - (psi[h].reshape(-1, d) + e)[rows]
        C = mdp.gamma * _expect(mdp, rows, _outer(delta, e_next))
        eps, eps_infinity = (np.maximum(_squared(e, order), _norm(C, order)) for order in (2, math.inf))
        eps_next = np.zeros(len(eps))
        np.maximum.at(eps_next, rows, (e_next**2).sum(axis=1))
        slip = rng.normal(size=(d, d))
        slip = slip + slip.T

        def error(Sigma_guess: Floats, order: Order = 2, h: int = h, delta: Floats = delta) -> Floats:
            backup = _expect(mdp, rows, _outer(delta, delta) + square * Sigma_guess)
            return _norm(Sigma[h].reshape(-1, d, d) - backup, order)

        about_guess = Sigma_next + _outer(e_next, e_next)
        ratios[PROOF].append(error(about_guess) / eps)
        ratios[TRUE].append(error(Sigma_next) / eps)
        ratios[UNIFORM].append(error(Sigma_next) / np.maximum(eps, square * eps_next))
        ratios[LEARNED].append((error(about_guess + slip) - square * _norm(slip[None])) / eps)
        ratios[INFINITY].append(error(about_guess, math.inf) / eps_infinity)
    return {name: np.concatenate(values) for name, values in ratios.items()}


def _adverse_errors(rng: np.random.Generator, mdp: FiniteMDP, policy: Ints, psi: Floats) -> Floats:
    """Return errors of psi that cancel the residual at one random (h, s, a), so that delta~ and eps are near 0."""
    noise = 1e-3 * rng.normal(size=psi.shape)
    h, row = int(rng.integers(len(psi) - 1)), int(rng.integers(mdp.n_states * mdp.n_actions))
    entries = slice(mdp.indptr[row], mdp.indptr[row + 1])
    after, own = mdp.successor[entries], policy[h + 1][mdp.successor[entries]]
    delta = mdp.phi[entries] + mdp.gamma * psi[h + 1][after, own] - psi[h].reshape(-1, mdp.n_features)[row]
    noise[h + 1][after, own] -= delta / mdp.gamma
    return noise


def _expect(mdp: FiniteMDP, rows: Ints, values: Floats) -> Floats:
    """Return the expectation of `values` over successors, for each pair (s, a): (S A, d, d).

    Args:
        mdp: the MDP, with n transitions.
        rows: the index of the pair (s, a) of each transition (n,).
        values: a matrix for each transition (n, d, d).
    """
    total = np.zeros((mdp.n_states * mdp.n_actions, *values.shape[1:]))
    np.add.at(total, rows, mdp.probability[:, None, None] * values)
    return total


def _outer(x: Floats, y: Floats) -> Floats:
    return x[:, :, None] * y[:, None, :]


def _norm(matrices: Floats, order: Order = 2) -> Floats:
    return np.linalg.norm(matrices, ord=order, axis=(1, 2))


def _squared(vectors: Floats, order: Order) -> Floats:
    """Return |e|^2 for each vector, by the maximum norm if `order` is infinity, otherwise by the Euclidean norm."""
    squares = vectors**2
    return squares.max(axis=1) if order == math.inf else squares.sum(axis=1)
