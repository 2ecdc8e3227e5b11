"""Random small MDPs, policies and tasks for checking theorems."""

from __future__ import annotations

import numpy as np

from rasf.arrays import Floats, Ints
from rasf.mdp import FiniteMDP


def random_mdp(rng: np.random.Generator, gamma: float = 1.0) -> FiniteMDP:
    """2 to 5 states, 2 or 3 actions, 2 features; transitions from near deterministic to diffuse."""
    S, A, d = int(rng.integers(2, 6)), int(rng.integers(2, 4)), 2
    P = rng.dirichlet(np.full(S, rng.choice([0.2, 1.0])), size=(S, A))
    P = np.maximum(P, 1e-12)
    return FiniteMDP(P / P.sum(axis=2, keepdims=True), rng.normal(size=(S, A, S, d)), (), gamma)


def random_policies(rng: np.random.Generator, mdp: FiniteMDP, count: int, steps: int | None) -> list[Ints]:
    """Deterministic policies (S,), or (steps, S)."""
    shape = (mdp.n_states,) if steps is None else (steps, mdp.n_states)
    return [rng.integers(mdp.n_actions, size=shape) for _ in range(count)]


def random_task(rng: np.random.Generator, mdp: FiniteMDP) -> Floats:
    """Weights from the standard normal law."""
    return rng.normal(size=(mdp.n_features,))


def random_beta(rng: np.random.Generator) -> float:
    """Either sign, magnitude from 0.01 to 10."""
    return float(rng.choice([-1, 1]) * 10 ** rng.uniform(-2, 1))


def perturbed(rng: np.random.Generator, exact: Floats, epsilon: float) -> Floats:
    """Exact utilities moved by at most epsilon: uniformly, or to one end or the other."""
    noise = rng.uniform(-1, 1, exact.shape) if rng.random() < 0.5 else rng.choice([-1.0, 1.0], exact.shape)
    return exact + epsilon * noise
