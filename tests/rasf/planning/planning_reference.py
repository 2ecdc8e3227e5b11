"""Plain twins of the planning layer: loops over the table of a `Problem`, written to be read, not to be fast."""

from __future__ import annotations

import math
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import product
from types import FrameType

import mpmath
import numpy as np

import rasf
from random_mdps import Problem

Law = list[tuple[float, float]]


def utility(law: Law, beta: float) -> float:
    """(1 / beta) log E exp(beta X) of a law [(probability, x)]."""
    mean = sum(p * x for p, x in law)
    exponents = [(p, beta * (x - mean)) for p, x in law if p > 0]
    if beta == 0 or not exponents:
        return mean
    top = max(t for _, t in exponents)
    if max(abs(t) for _, t in exponents) < 1:  # a logarithm near 1 would lose the digits that beta then magnifies
        return mean + math.log1p(sum(p * math.expm1(t) for p, t in exponents)) / beta
    return mean + (top + math.log(sum(p * math.exp(t - top) for p, t in exponents))) / beta


def feature_law(problem: Problem, policy: np.ndarray, s: int, a: int, h: int = 0) -> list[tuple[float, np.ndarray]]:
    """Every trajectory from (s, a) at decision h to the end of policy (n, S): its probability and feature return."""
    if s in problem.terminal:
        return [(1.0, np.zeros(problem.n_features))]
    law = []
    for p, successor, phi in problem.outcomes[s][a]:
        if h + 1 == len(policy):
            law.append((p, phi))
            continue
        for p_rest, rest in feature_law(problem, policy, successor, policy[h + 1, successor], h + 1):
            law.append((p * p_rest, phi + problem.gamma * rest))
    return law


def return_law(problem: Problem, policy: np.ndarray, w: np.ndarray, s: int, a: int, h: int = 0) -> Law:
    return [(p, float(features @ w)) for p, features in feature_law(problem, policy, s, a, h)]


def all_policies(problem: Problem, steps: int) -> Iterator[np.ndarray]:
    """All deterministic policies (steps, S); terminal states always take action 0."""
    options = [1 if s in problem.terminal else problem.n_actions for s in range(problem.n_states)] * steps
    for actions in product(*map(range, options)):
        yield np.array(actions).reshape(steps, problem.n_states)


def backup(
    problem: Problem, w: np.ndarray, values: np.ndarray, beta: float, gamma: float, z: float = 1.0
) -> np.ndarray:
    """U_beta[z r + gamma value(s')] for every (s, a), 0 in terminal states."""
    q = np.zeros((problem.n_states, problem.n_actions))
    for s, row in enumerate(problem.outcomes):
        for a, outcomes in enumerate(row):
            q[s, a] = utility([(p, z * float(phi @ w) + gamma * values[s2]) for p, s2, phi in outcomes], beta)
    return q


def own_values(q: np.ndarray, policy: np.ndarray | None) -> np.ndarray:
    return q.max(axis=1) if policy is None else np.array([q[s, action] for s, action in enumerate(policy)])


def value_iteration(
    problem: Problem, w: np.ndarray, beta: float, sweeps: int, policy: np.ndarray | None = None
) -> np.ndarray:
    """Algorithm 3, a fixed number of times: Q(s, a) <- U_beta[r + gamma max_b Q(s', b)], or b = policy(s')."""
    q = np.zeros((problem.n_states, problem.n_actions))
    for _ in range(sweeps):
        q = backup(problem, w, own_values(q, policy), beta, problem.gamma)
    return q


def augmented_utilities(
    problem: Problem, w: np.ndarray, beta: float, steps: int, policy: np.ndarray | None = None
) -> np.ndarray:
    """J(s, a, z) / z at z = gamma^k, (steps, S, A), by the paper's recursion in z; nothing is earned after `steps`.

    `policy` is (S,), or (K + 1, S) with the last row going on for ever; without it the recursion maximises.
    """
    q = np.zeros((steps + 1, problem.n_states, problem.n_actions))
    for k in range(steps - 1, -1, -1):
        z = problem.gamma**k
        rows = None if policy is None else np.atleast_2d(policy)
        actions = None if rows is None else rows[min(k + 1, len(rows) - 1)]
        later = problem.gamma * z * own_values(q[k + 1], actions)
        q[k] = backup(problem, w, later, beta, 1.0, z) / z
    return q[:steps]


def horizon_utilities(
    problem: Problem, w: np.ndarray, beta: float, n: int, policy: np.ndarray | None = None
) -> np.ndarray:
    """The same with n decisions and a policy (n, S)."""
    padded = None if policy is None else np.concatenate([policy, policy[-1:]])
    return augmented_utilities(problem, w, beta, n, padded)


def improved_policy(scores: np.ndarray) -> np.ndarray:
    """GPI of scores (K, .., S, A) by loops: the first action with the greatest score of any source."""
    policy = np.zeros(scores.shape[1:-1], int)
    for where in np.ndindex(*policy.shape):
        best = [max(scores[(i, *where, a)] for i in range(len(scores))) for a in range(scores.shape[-1])]
        policy[where] = best.index(max(best))
    return policy


def perturbed(seed: int, exact: np.ndarray, eps: float, noise: str) -> np.ndarray:
    """Scores within eps of the exact ones (K, .., S, A)."""
    rng = np.random.default_rng([seed, 3])
    if noise == "uniform":
        return exact + rng.uniform(-eps, eps, size=exact.shape)
    if noise == "signs":
        return exact + eps * rng.choice([-1.0, 1.0], size=exact.shape)
    # the best action looks as bad as it may, every other one as good
    best = exact.max(axis=0)
    is_best = best == best.max(axis=-1, keepdims=True)
    return exact + np.where(is_best, -eps, eps)


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Turns an endless loop into a failure; kernels are compiled beforehand, outside the limit.

    It counts the process's own time: on a busy machine an answer may take long by the clock.
    """
    warm = rasf.FiniteMDP(np.array([[[0.5, 0.5]], [[0.0, 1.0]]]), np.ones((2, 1, 1)), terminal=[1])
    rasf.plan(warm, [1.0], rasf.Entropic(-0.1))

    def stop(signum: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"no answer within {seconds} s of computing")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def total_utility(problem: Problem, w: np.ndarray, beta: float, policy: np.ndarray) -> np.ndarray:
    """U_beta (S,) of the total reward of a policy that ends surely, from the linear system in E exp(beta R).

    Infinite, by the sign of beta, for the states from which P exp(beta r) has a spectral radius of 1 or more.
    """
    n = problem.n_states
    onward, ending = np.zeros((n, n)), np.zeros(n)
    for s in set(range(n)) - problem.terminal:
        for p, successor, phi in problem.outcomes[s][policy[s]]:
            weight = p * math.exp(beta * float(phi @ w))
            if successor in problem.terminal:
                ending[s] += weight
            else:
                onward[s, successor] += weight
    steps_away = np.linalg.matrix_power(np.eye(n) + (onward > 0), n)
    value = np.zeros(n)
    for s in set(range(n)) - problem.terminal:
        within = np.flatnonzero(steps_away[s])
        block = onward[np.ix_(within, within)]
        radius = np.abs(np.linalg.eigvals(block)).max()
        if radius >= 1:
            value[s] = math.copysign(math.inf, beta)
        else:
            moment = np.linalg.solve(np.eye(len(within)) - block, ending[within])
            value[s] = math.log(moment[list(within).index(s)]) / beta
    return value


def precise_total_utility(problem: Problem, w: np.ndarray, beta: float, policy: np.ndarray) -> np.ndarray:
    """`total_utility` of any policy and of exponents of any size, by elimination with 80 digits; beta is not 0.

    A matrix I - M with M >= 0 has positive pivots if and only if the spectral radius of M is below 1.
    """
    states = range(problem.n_states)
    with mpmath.workdps(80):
        rows = [
            [] if s in problem.terminal else [(p, to, float(phi @ w)) for p, to, phi in problem.outcomes[s][policy[s]]]
            for s in states
        ]
        edges = np.array([[any(to == t for _, to, _ in row) for t in states] for row in rows], int)
        reach = np.linalg.matrix_power(np.eye(len(rows), dtype=int) + edges, len(rows)) > 0
        classes = [[t for t in states if reach[s, t] and reach[t, s]] for s in states]

        def weight(s: int, to: Iterable[int]) -> mpmath.mpf:
            ends = [(p, r) for p, t, r in rows[s] if t in to]
            return sum((mpmath.mpf(p) * mpmath.exp(mpmath.mpf(beta) * mpmath.mpf(r)) for p, r in ends), mpmath.mpf(0))

        def eliminated(among: list[int], ends: Iterable[int] = ()) -> list[list[mpmath.mpf]] | None:
            table = [[int(s == t) - weight(s, [t]) for t in among] + [weight(s, ends)] for s in among]
            for k, pivot in enumerate(table):
                if pivot[k] <= mpmath.mpf(10) ** -40:
                    return None
                for i in range(k + 1, len(table)):
                    factor = table[i][k] / pivot[k]
                    table[i] = [x - factor * y for x, y in zip(table[i], pivot, strict=True)]
            return table

        def over(members: list[int]) -> bool:
            return all(to in members and r == 0 for s in members for _, to, r in rows[s])

        ended = np.array([over(members) for members in classes])
        explodes = np.array([not ended[s] and eliminated(classes[s]) is None for s in states])
        exploding, ends = (reach & explodes).any(axis=1), (reach & ended).any(axis=1)
        value = np.where(exploding, math.copysign(math.inf, beta), np.where(ends, 0.0, math.copysign(math.inf, -beta)))
        among = [s for s in states if ends[s] and not exploding[s] and not ended[s]]
        moments: dict[int, mpmath.mpf] = {}
        for k, pivot in reversed(list(enumerate(eliminated(among, np.flatnonzero(ended)) or []))):
            onward = sum((pivot[j] * moments[among[j]] for j in range(k + 1, len(among))), mpmath.mpf(0))
            moments[among[k]] = (pivot[-1] - onward) / pivot[k]
            value[among[k]] = float(mpmath.log(moments[among[k]]) / mpmath.mpf(beta))
        return value
