"""The best policy for the total reward: gamma = 1, no horizon, terminal states.

Policy iteration with exact evaluation. It starts from a policy that surely ends (each state moves towards an end with
positive probability) and changes an action only for a strict gain. Then every policy on the way has a utility at least
that of the one before, and a policy that may never end appears only where it earns infinity: an improved class without
gain would have been there before. Value iteration, in contrast, cannot tell a free loop from the end it never reaches.

For beta < 0 the first policy may be worth -inf although others are not. As |beta| grows from 0, the optimum changes
continuously and PI leaves a policy before its utility diverges, so beta is lowered in steps, halved where the present
policy would diverge; states where no step is small enough are worth -inf under every policy.

Staying for ever where nothing is paid is worth 0, and is taken where everything else is worth less.
"""

from __future__ import annotations

import numpy as np

from rasf.arrays import Floats, Ints
from rasf.mdp import FiniteMDP
from rasf.planning.bellman import Backup
from rasf.planning.undiscounted import DIRECT_SOLVE_STATES, Mask, evaluate, require_reachable_end

_STEP_LIMIT = 1e-9  # of beta: a smaller step that still diverges is the edge


def optimise(backup: Backup, beta: float, tolerance: float) -> tuple[Floats, Ints, int]:
    """Optimal utilities (S,), infinite ones included, a policy (S,) that earns them, and the rounds it took."""
    require_reachable_end(backup.mdp)
    policy = _ending_policy(backup.mdp)
    stay, can_stay = _free_stay(backup)
    reached, rounds = 0.0, 0
    if beta >= 0:
        value, policy, rounds = _improve(backup, beta, policy, stay, can_stay, tolerance)
        return value, _lowest_actions(backup, beta, value, policy, tolerance), rounds
    doomed = np.zeros(backup.mdp.n_states, bool)
    while True:
        wanted = beta
        while (_diverges(backup, wanted, policy, tolerance) & ~doomed).any():
            if reached - wanted <= _STEP_LIMIT * abs(beta):
                doomed |= _diverges(backup, wanted, policy, tolerance)
                break
            wanted = (reached + wanted) / 2
        value, policy, more = _improve(backup, wanted, policy, stay, can_stay, tolerance)
        rounds += more
        if wanted == beta:
            return value, _lowest_actions(backup, beta, value, policy, tolerance), rounds
        doomed &= value == -np.inf
        reached = wanted


def _diverges(backup: Backup, beta: float, policy: Ints, tolerance: float) -> Mask:
    return evaluate(backup, beta, policy, tolerance) == -np.inf


def _improve(
    backup: Backup, beta: float, policy: Ints, stay: Ints, can_stay: Mask, tolerance: float
) -> tuple[Floats, Ints, int]:
    """Policy iteration at one beta."""
    rounds = 0
    while True:
        rounds += 1
        value = evaluate(backup, beta, policy, tolerance)
        q = backup.q(value, beta, 1.0)
        slack = _slack(value, tolerance)
        better = (q.max(axis=1) > value + slack) & (value < np.inf)
        rest = can_stay & ~better & (value < -slack)
        if not (better.any() or rest.any()):
            return value, policy, rounds
        improved = np.where(better, q.argmax(axis=1), np.where(rest, stay, policy))
        if (improved == policy).all():  # what looked like a gain is the error of an iterated evaluation
            return value, policy, rounds
        policy = improved


def _slack(value: Floats, tolerance: float) -> Floats:
    """What counts as no gain; relative above 1, and not below the error of an iterated evaluation."""
    finite = np.where(np.isfinite(value), value, 0.0)
    least = min(tolerance, 1e-10) if len(value) <= DIRECT_SOLVE_STATES else 2 * tolerance
    return least * np.maximum(1.0, np.abs(finite).max(initial=0.0)) * np.ones_like(value)


def _lowest_actions(backup: Backup, beta: float, value: Floats, policy: Ints, tolerance: float) -> Ints:
    """The policy with ties broken towards the lowest action, if that earns the same."""
    q = backup.q(value, beta, 1.0)
    lowest = (q >= (value - _slack(value, tolerance))[:, None]).argmax(axis=1)
    lowest = np.where(np.isfinite(value), lowest, policy)
    try:
        earned = evaluate(backup, beta, lowest, tolerance)
    except ValueError:  # broken towards a loop whose total reward has no limit
        return policy
    same = np.isclose(earned, value, rtol=1e-9, atol=float(_slack(value, tolerance)[0])) | (earned == value)
    return lowest if same.all() else policy


def _ending_policy(mdp: FiniteMDP) -> Ints:
    """A policy that ends with probability one: every state moves nearer to an end with positive probability."""
    state = np.repeat(np.arange(mdp.n_states * mdp.n_actions), np.diff(mdp.indptr)) // mdp.n_actions
    action = np.repeat(np.arange(mdp.n_states * mdp.n_actions), np.diff(mdp.indptr)) % mdp.n_actions
    policy = np.zeros(mdp.n_states, np.int64)
    near = mdp.terminal.copy()
    while not near.all():
        leads = near[mdp.successor] & ~near[state]
        policy[state[leads][::-1]] = action[leads][::-1]  # reversed: the lowest action is written last
        near[state[leads]] = True
    return policy


def _free_stay(backup: Backup) -> tuple[Ints, Mask]:
    """For every state an action that stays, unpaid, among such states for ever; and which states have one."""
    mdp = backup.mdp
    row = np.repeat(np.arange(mdp.n_states * mdp.n_actions), np.diff(mdp.indptr))
    inside = ~mdp.terminal
    while True:
        broken = np.zeros(mdp.n_states * mdp.n_actions, bool)
        broken[row[(backup.rewards != 0) | ~inside[mdp.successor]]] = True
        free = ~broken.reshape(mdp.n_states, mdp.n_actions) & inside[:, None]
        if (free.any(axis=1) == inside).all():
            return free.argmax(axis=1), inside
        inside = np.asarray(free.any(axis=1))
