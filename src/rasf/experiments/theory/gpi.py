"""Theorems 1 and 2 and their discounted forms on random MDPs (claims T2, T3, T5).

For each instance: sources, a target task, utilities perturbed by up to eps, GPI over them, and the true gaps beside the
bounds. The separate finding of T5: sources scored with z = 1 for ever, as Algorithms 1 and 2 score them, with exact
utilities, can give a policy that is worse than its best source on the discounted return.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rasf.experiments.theory.random_mdps import perturbed, random_beta, random_mdp, random_policies, random_task
from rasf.planning.certificate import Certificate, certificate
from rasf.planning.plan import evaluate_policy, plan
from rasf.risk import Entropic
from rasf.transfer import gpi

Progress = Callable[[], None]
_SLACK = 1e-7
_TOLERANCE = 1e-9


def bounds(instances: int, seed: int, optimal_sources: bool, discounted: bool, tick: Progress) -> dict[str, Any]:
    """Violations and the largest gap / bound over random instances, for the bound that the sources entitle to."""
    ratios, violations = [], 0
    for instance in range(instances):
        rng = np.random.default_rng([seed, instance])
        bound = _random_certificate(rng, optimal_sources, discounted)
        gap, limit = (
            (bound.optimality_gap, bound.optimality_bound)
            if optimal_sources
            else (bound.source_gap, bound.source_bound)
        )
        violations += bool((gap > limit + _SLACK).any())
        ratios.append(float((gap / limit).max()))
        tick()
    return {"instances": instances, "violations": violations, "largest_gap_over_bound": max(ratios)}


def _random_certificate(rng: np.random.Generator, optimal_sources: bool, discounted: bool) -> Certificate:
    gamma = float(rng.uniform(0.5, 0.95)) if discounted else 1.0
    horizon = None if discounted else int(rng.integers(1, 7))
    mdp, risk = random_mdp(rng, gamma), Entropic(random_beta(rng))
    w = random_task(rng, mdp)
    count = int(rng.integers(1, 4))
    if optimal_sources:
        # near the target, so that the bound is not idle
        tasks = [w + rng.choice([0.03, 0.3]) * random_task(rng, mdp) for _ in range(count)]
        sources: list[Any] = [plan(mdp, task, risk, horizon, tolerance=_TOLERANCE) for task in tasks]
    else:
        sources = list(random_policies(rng, mdp, count, horizon))
    exact = certificate(mdp, sources, w, risk, horizon, tolerance=_TOLERANCE)
    epsilon = float(10 ** rng.uniform(-2, 0))
    scores = perturbed(rng, exact.source_utilities, epsilon)
    return certificate(mdp, sources, w, risk, horizon, scores=scores, epsilon=epsilon, tolerance=_TOLERANCE)


def forgetful_scoring(instances: int, seed: int, tick: Progress) -> dict[str, Any]:
    """How often GPI scored with z = 1 for ever falls below its best source, and by how much at worst."""
    worse, worst = 0, {"loss": 0.0}
    for instance in range(instances):
        rng = np.random.default_rng([seed, instance])
        gamma = float(rng.uniform(0.5, 0.95))
        mdp, beta = random_mdp(rng, gamma), random_beta(rng)
        w = random_task(rng, mdp)
        sources = random_policies(rng, mdp, 2, None)
        utilities = np.stack([evaluate_policy(mdp, s, w, Entropic(beta), tolerance=_TOLERANCE) for s in sources])
        stationary = gpi(utilities).policy
        attained = evaluate_policy(mdp, stationary, w, Entropic(beta), tolerance=_TOLERANCE)
        loss = float((utilities.max(axis=0) - attained).max())
        worse += loss > _SLACK
        if loss > worst["loss"]:
            worst = {"loss": loss, "instance": instance, "beta": beta, "gamma": gamma}
        tick()
    return {"instances": instances, "worse_than_best_source": worse, "worst": worst}
