"""Theorem 3 and its discounted form on random MDPs (claim T4, and its part of T5).

With approximate psi~, residual delta~ = phi + gamma psi~' - psi~ and errors e = psi~ - psi, e' at the successor, let

    eps = max(|e(s, a)|^2, gamma |E[delta~ e'']|).

The claim is |Sigma - E[delta~ delta~' + gamma^2 Sigma~']| <= 3 eps in a matrix norm (spectral here). What Sigma~' is
decides it:

    about psi~'   Sigma~' = E[(Psi' - psi~')(Psi' - psi~')'], what the proof uses: holds
    true Sigma'   leaves gamma^2 E[e' e''] over, which eps does not bound: fails, unless |e'|^2 <= eps too
    learned       the proof's Sigma~' with an error of its own, which adds to 3 eps as it is
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rasf.arrays import Floats, Ints
from rasf.experiments.theory.random_mdps import random_mdp, random_policies
from rasf.mdp import FiniteMDP
from rasf.planning.moments import successor_moments

_SLACK = 1e-9
PROOF, TRUE, UNIFORM, LEARNED = "about psi~'", "true Sigma'", "true Sigma', uniform eps", "learned, less its own error"
READINGS = (PROOF, TRUE, UNIFORM, LEARNED)


def backup_errors(instances: int, seed: int, discounted: bool, tick: Callable[[], None]) -> dict[str, Any]:
    """For each reading: how many (instance, h, s, a) break 3 eps, of how many, and the largest error / eps."""
    broken = dict.fromkeys(READINGS, 0)
    largest = dict.fromkeys(READINGS, 0.0)
    checks = 0
    for instance in range(instances):
        rng = np.random.default_rng([seed, instance])
        mdp = random_mdp(rng, float(rng.uniform(0.5, 0.95)) if discounted else 1.0)
        steps = int(rng.integers(2, 5))
        policy = random_policies(rng, mdp, 1, steps)[0]
        for reading, ratio in _ratios(rng, mdp, policy).items():
            broken[reading] += int((ratio > 3 + _SLACK).sum())
            largest[reading] = max(largest[reading], float(ratio.max()))
        checks += (steps - 1) * mdp.n_states * mdp.n_actions
        tick()
    return {
        "instances": instances,
        "checks": checks,
        "readings": {
            reading: {"broken": broken[reading], "largest_error_over_eps": largest[reading]} for reading in READINGS
        },
    }


def _ratios(rng: np.random.Generator, mdp: FiniteMDP, policy: Ints) -> dict[str, Floats]:
    """|Sigma_h - backup| / eps_h (h, s, a) under each reading, for random errors of psi."""
    psi, Sigma = successor_moments(mdp, policy, len(policy))
    noise = _random_errors(rng, psi) if rng.random() < 0.5 else _adverse_errors(rng, mdp, policy, psi)
    ratios: dict[str, list[Floats]] = {reading: [] for reading in READINGS}
    states = np.arange(mdp.n_states)
    rows = np.repeat(np.arange(mdp.n_states * mdp.n_actions), np.diff(mdp.indptr))
    d, square = mdp.n_features, mdp.gamma**2
    for h in range(len(policy) - 1):
        e = noise[h].reshape(-1, d)
        e_next = noise[h + 1][states, policy[h + 1]][mdp.successor]
        psi_next = psi[h + 1][states, policy[h + 1]][mdp.successor]
        Sigma_next = Sigma[h + 1][states, policy[h + 1]][mdp.successor]
        delta = mdp.phi + mdp.gamma * (psi_next + e_next) - (psi[h].reshape(-1, d) + e)[rows]
        eps = np.maximum((e**2).sum(axis=1), mdp.gamma * _norm(_expect(mdp, rows, _outer(delta, e_next))))
        eps_next = np.zeros(len(eps))
        np.maximum.at(eps_next, rows, (e_next**2).sum(axis=1))
        slip = rng.normal(size=(d, d))
        slip = slip + slip.T

        def error(Sigma_guess: Floats, h: int = h, delta: Floats = delta) -> Floats:
            backup = _expect(mdp, rows, _outer(delta, delta) + square * Sigma_guess)
            return _norm(Sigma[h].reshape(-1, d, d) - backup)

        about_guess = Sigma_next + _outer(e_next, e_next)
        ratios[PROOF].append(error(about_guess) / eps)
        ratios[TRUE].append(error(Sigma_next) / eps)
        ratios[UNIFORM].append(error(Sigma_next) / np.maximum(eps, square * eps_next))
        ratios[LEARNED].append((error(about_guess + slip) - square * _norm(slip[None])) / eps)
    return {reading: np.concatenate(values) for reading, values in ratios.items()}


def _random_errors(rng: np.random.Generator, psi: Floats) -> Floats:
    """Normal errors whose size differs from step to step."""
    scale = 10 ** rng.uniform(-2, 0, (len(psi), 1, 1, 1))
    return scale * rng.normal(size=psi.shape)


def _adverse_errors(rng: np.random.Generator, mdp: FiniteMDP, policy: Ints, psi: Floats) -> Floats:
    """Errors at one step that hide the residual of the step before: there delta~ ~ 0, and eps ~ 0 with it."""
    noise = 1e-3 * rng.normal(size=psi.shape)
    h, row = int(rng.integers(len(psi) - 1)), int(rng.integers(mdp.n_states * mdp.n_actions))
    entries = slice(mdp.indptr[row], mdp.indptr[row + 1])
    after, own = mdp.successor[entries], policy[h + 1][mdp.successor[entries]]
    delta = mdp.phi[entries] + mdp.gamma * psi[h + 1][after, own] - psi[h].reshape(-1, mdp.n_features)[row]
    noise[h + 1][after, own] -= delta / mdp.gamma
    return noise


def _expect(mdp: FiniteMDP, rows: Ints, values: Floats) -> Floats:
    """E over successors (S A, d, d) of values (n, d, d)."""
    total = np.zeros((mdp.n_states * mdp.n_actions, *values.shape[1:]))
    np.add.at(total, rows, mdp.probability[:, None, None] * values)
    return total


def _outer(x: Floats, y: Floats) -> Floats:
    return x[:, :, None] * y[:, None, :]


def _norm(matrices: Floats) -> Floats:
    return np.linalg.norm(matrices, ord=2, axis=(1, 2))
