"""Lemma 1 on random laws (claim T1); the parametric laws of appendix A.4 against quadrature (T6); Figure 7's curves."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special, stats

from rasf.arrays import Floats
from rasf.risk import Elliptical, EllipticalMixture, Entropic, SkewNormal
from rasf.risk.elliptical import Law

_SLACK = 1e-9
BETAS = (-2.0, -0.7, -0.01, 0.01, 0.5, 1.3)
VARIANCES = (0.05, 0.3, 0.9)


def lemma_1(instances: int, seed: int, tick: Callable[[], None]) -> dict[str, Any]:
    """Violations of each property over random pairs of discrete random variables on a common space."""
    broken = dict.fromkeys(("monotone", "cash-invariant", "concave or convex", "non-expansive"), 0)
    for instance in range(instances):
        rng = np.random.default_rng([seed, instance])
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
        tick()
    return {"instances": instances, "violations": broken}


def penalties(tick: Callable[[], None]) -> dict[str, float]:
    """Largest |closed form - quadrature| for each law, over BETAS and VARIANCES; and for the lemma in 2-D."""
    errors: dict[str, float] = {}
    laws: dict[Law, Callable[[float], Any]] = {
        "normal": lambda v: stats.norm(scale=math.sqrt(v)),
        "laplace": lambda v: stats.laplace(scale=math.sqrt(v / 2)),
        "logistic": lambda v: stats.logistic(scale=math.sqrt(3 * v) / math.pi),
    }
    for law, density in laws.items():
        errors[law] = max(
            abs(float(Elliptical(b, law).moments(0.4, v)) - (0.4 + _quadrature(density(v), b)))
            for b in BETAS
            for v in VARIANCES
            if _inside(law, b, v)
        )
        tick()
    errors["skew-normal"] = max(_skew_error(b, v, s) for b in BETAS for v in VARIANCES for s in (-0.8, 0.5))
    tick()
    errors["mixture"] = max(_mixture_error(b) for b in (-1.2, -0.3, 0.4, 1.1))
    tick()
    errors["projection of a 2-D Laplace law"] = max(_projection_error(b) for b in (-0.8, 0.3, 0.9))
    tick()
    return errors


def figure_7(points: int = 200) -> dict[str, Floats]:
    """Penalty U - mean at beta = 1 against the variance, for the laws of the table."""
    variance = np.linspace(0.0, 1.9, points)
    laws: tuple[Law, ...] = ("normal", "laplace", "logistic")
    return {"variance": variance} | {law: Elliptical(1.0, law).moments(0.0, variance) for law in laws}


def _inside(law: Law, beta: float, variance: float) -> bool:
    """Well inside the law's domain, where quadrature converges."""
    return {"normal": True, "laplace": beta**2 * variance < 1.6, "logistic": 3 * beta**2 * variance < 7}[law]


def _quadrature(law: Any, beta: float) -> float:
    """U_beta of a law with mean near zero: E expm1(beta X) by 20-point Gauss-Legendre rules on widening panels."""
    reach = 300 * float(law.std())  # tails that exp(beta x) nearly cancels are long
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
    parts = (stats.norm, stats.laplace, stats.logistic)
    scales = (math.sqrt(0.3), math.sqrt(0.2 / 2), math.sqrt(3 * 0.9) / math.pi)
    moment = sum(
        w * math.exp(beta * (m + _quadrature(part(scale=scale), beta)))
        for w, m, part, scale in zip(weights, means, parts, scales, strict=True)
    )
    mixture = EllipticalMixture(beta, ("normal", "laplace", "logistic"))
    return abs(float(mixture.mixture(weights, means, variances)) - math.log(moment) / beta)


def _projection_error(beta: float) -> float:
    """A multivariate Laplace law is normal with an exponential scale: integrate over the scale by Gauss-Laguerre."""
    Sigma, w = np.array([[0.5, 0.2], [0.2, 0.4]]), np.array([0.7, -1.1])
    variance = float(w @ Sigma @ w)
    nodes, weights = special.roots_laguerre(60)
    moment = float(np.sum(weights * np.exp(beta**2 / 2 * nodes * variance)))
    return abs(float(Elliptical(beta, "laplace").moments(0.0, variance)) - math.log(moment) / beta)
