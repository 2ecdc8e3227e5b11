"""Discounted problems, gamma < 1. U_beta is the entropic utility. The module computes three quantities:

1. The stationary fixed point of the nested recursion Q = U_beta[r + gamma Q'], where Q' is the utility in the next
   state (`nested`). At beta = 0 the fixed point is the expected discounted return.
2. U_beta of a policy's discounted return (`augmented`).
3. The largest U_beta of the discounted return, over all policies that may depend on the decision k (`augmented`).

Quantities 2 and 3 are computed in an augmented MDP with states (s, z), where z = gamma^k is the discount after k
decisions. The utility in this MDP is z q_k(s, a), where pi_k is the policy at decision k and

    q_k(s, a) = U_{beta gamma^k}[r + gamma q_{k+1}(s', pi_{k+1}(s'))].

The parameter beta gamma^k vanishes as k grows, so the backward sweep starts from the risk-neutral fixed point at k = K.
The error at k = 0 is at most |beta| gamma^{2K} range^2 / 8 (Hoeffding), where range is the range of the discounted
return.

The Bellman operator T of the recursion in 1 is monotone, and T(v + c) = Tv + gamma c for a constant c. So if the
changes of one sweep v -> Tv lie between lo and hi, the fixed point lies in Tv + gamma / (1 - gamma) [lo, hi]. `nested`
returns the middle of this interval. Half the width of the interval is a proven bound on the error. This stopping rule
needs far fewer sweeps than iterating until the changes vanish.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from rasf.arrays import Floats, Ints
from rasf.checks import MOST_DECISIONS
from rasf.planning import kernels
from rasf.planning.bellman import Backup, follow, sweep_back

Step = Callable[[Floats], Floats]
_LARGEST_EXPONENT = 600.0  # exponents up to this size are safe: exp(600) and exp(-600) are normal float64 numbers
_EPS = float(np.finfo(np.float64).eps)


def nested(backup: Backup, beta: float, policy: Ints | None, tolerance: float) -> tuple[Floats, float, int]:
    """Return values (S,) of the nested recursion, a bound on their error, and the number of sweeps.

    The values belong to `policy` (S,). If `policy` is None, they are the optimal values.
    """
    gamma, mdp = backup.mdp.gamma, backup.mdp
    low, high = backup.reward_range
    rounding = 8 * _EPS * max(abs(low), abs(high), high - low) / (1 - gamma) ** 2
    tolerance = max(tolerance, rounding)
    if rounding > max(abs(low), abs(high)) / (1 - gamma) > 0:
        raise ValueError(
            f"gamma = {gamma!r} is too near 1 for double precision; use a horizon, or gamma = 1 with terminal states"
        )
    step = _step(backup, beta, policy, tolerance)
    horizon = gamma / (1 - gamma)
    value = np.zeros(mdp.n_states)
    sweeps = 0
    while True:
        new = step(value)
        sweeps += 1
        change = new - value
        least, most = float(change.min()), float(change.max())
        error = horizon * (most - least) / 2
        if error <= tolerance:
            new += np.where(mdp.terminal, 0.0, horizon * (most + least) / 2)
            return new, error, sweeps
        value = new


def _step(backup: Backup, beta: float, policy: Ints | None, tolerance: float) -> Step:
    """Return a function v -> Tv: the fastest implementation that is accurate enough."""
    gamma = backup.mdp.gamma
    low, high = backup.reward_range
    if policy is not None:
        return lambda value: follow(backup.q(value, beta), policy)
    if beta == 0:
        return _linear_step(backup)
    exponent = abs(beta) * (high - low) / (1 - gamma)
    # the logarithm of a sum near 1 has an error of a few _EPS; this error is divided by beta and grows over the sweeps
    lost_digits = 16 * _EPS / abs(beta) / (1 - gamma)
    if exponent < _LARGEST_EXPONENT and lost_digits < tolerance / 10:
        return _exponential_step(backup, beta)
    return lambda value: backup.q(value, beta).max(axis=1)


def _linear_step(backup: Backup) -> Step:
    """Return the risk-neutral step v -> max_a (E r + gamma P v), which uses one computation of E r for all steps."""
    mdp = backup.mdp
    mean_reward = backup.q(np.zeros(mdp.n_states), 0.0).reshape(-1)
    return lambda value: kernels.best_linear(mdp, mdp.probability, mean_reward, value, mdp.gamma, smallest=False)


def _exponential_step(backup: Backup, beta: float) -> Step:
    """Return the entropic step, computed by exp(beta Q) = sum p exp(beta r) exp(beta gamma v).

    exp(beta r) is computed once for all steps. So a step takes only one exp and one log for each state.
    """
    mdp = backup.mdp
    low, high = backup.reward_range
    # rewards are shifted so that no exponent is above zero
    shift = low if beta < 0 else high
    weight = mdp.probability * np.exp(beta * (backup.rewards - shift))
    none = np.zeros(mdp.n_states * mdp.n_actions)

    def step(value: Floats) -> Floats:
        centre = value.min() if beta < 0 else value.max()
        scaled = np.exp((beta * mdp.gamma) * (value - centre))
        best = kernels.best_linear(mdp, weight, none, scaled, 1.0, smallest=beta < 0)
        best[mdp.terminal] = 1.0
        new = np.log(best, out=best)
        new /= beta
        new += shift + mdp.gamma * centre
        new[mdp.terminal] = 0.0
        return new

    return step


def truncation_depth(backup: Backup, beta: float, tolerance: float) -> int:
    """Return the smallest K with |beta| gamma^{2K} range^2 / 8 <= tolerance; raise ValueError above MOST_DECISIONS."""
    worst = truncation_error(backup, beta, 0)
    if worst <= tolerance:
        return 0
    depth = math.log(max(tolerance / worst, math.ulp(0.0))) / (2 * math.log(backup.mdp.gamma))
    if depth > MOST_DECISIONS:
        raise ValueError(
            f"gamma = {backup.mdp.gamma!r} is too near 1 for Entropic without a horizon: {depth:.2g} decisions "
            "are needed; use a horizon, a larger tolerance, or gamma = 1 with terminal states"
        )
    return math.ceil(depth)


def truncation_error(backup: Backup, beta: float, depth: int) -> float:
    """Return the bound |beta| gamma^{2K} range^2 / 8 on the error of a sweep that starts at k = K = `depth`."""
    low, high = backup.reward_range
    spread = (high - low) / (1 - backup.mdp.gamma)
    return abs(beta) * backup.mdp.gamma ** (2 * depth) * spread**2 / 8


def augmented(
    backup: Backup, beta: float, policy: Ints | None, tolerance: float, all_tables: bool = False, depth: int = 0
) -> tuple[Floats, Ints, float]:
    """Compute the entropic utility of the discounted return of a given policy, or of the optimal policy.

    Args:
        backup: The backup of the task.
        beta: The parameter of the utility.
        policy: Actions (S,) for all decisions, or a row for each decision (.., S), where the last row applies to all
            later decisions. None to compute the optimal policy.
        tolerance: The largest error of the utilities.
        all_tables: Whether to return all tables q_k. Default: False, to return only q_0.
        depth: A lower bound on K. Default: 0, so that K follows from the tolerance and the rows of `policy`.

    Returns:
        The tables q_k (K + 1, S, A), or only q_0 (1, S, A); the policy (K + 1, S); a bound on the error of the tables.
    """
    mdp = backup.mdp
    depth = max(depth, truncation_depth(backup, beta, tolerance / 2))
    followed = None
    if policy is not None:
        given = np.atleast_2d(policy)
        depth = max(depth, len(given) - 1)
        followed = given[np.minimum(np.arange(depth + 1), len(given) - 1)]
    tail = None if followed is None else followed[-1]
    last, tail_error, _ = nested(backup, 0.0, tail, tolerance / 2)
    last_q = backup.q(last, 0.0)
    last_policy = last_q.argmax(axis=1) if tail is None else tail
    betas = np.float64(beta) * np.power(mdp.gamma, np.arange(depth))
    keep = depth if all_tables else min(depth, 1)
    before = None if followed is None else followed[:-1]
    tables, chosen = sweep_back(backup, betas, follow(last_q, last_policy), before, keep)
    if all_tables or depth == 0:
        tables = np.concatenate([tables, last_q[None]])
    return (
        tables,
        np.concatenate([chosen, last_policy[None].astype(np.int32)]),
        (truncation_error(backup, beta, depth) + tail_error),
    )
