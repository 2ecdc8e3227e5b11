"""The optimal policy for the total reward: gamma = 1, no horizon, terminal states.

An end is a terminal state. The method is policy iteration with exact evaluation. The first policy ends with probability
one: in every state, its action moves nearer to an end with positive probability. An action is changed only for a strict
gain, so the utility of each policy is at least the utility of the previous policy. Changed actions can create a set of
states that is never left. In this set at least one action was changed, for a strict gain. A policy that stays in the
set collects this gain again and again, so its utility there is inf. Apart from staying without reward (see below),
policies that may never end arise in no other way. Value iteration, in contrast, may choose a loop without reward and
never reach the end whose value it has estimated.

For beta < 0, changing one action at a time may never make a utility of -inf finite. So the first policy must have a
finite utility in every state in which at least one policy has a finite utility. The utility of a policy pi is -inf
exactly where y = sum_n M^n 1 is infinite, where M = P_pi exp(beta r) contains the transitions between states that are
not terminal. The smallest y of all policies is the limit of the iteration y' <- 1 + min_a M_a y' from y' = 0. A policy
that is greedy for the limit attains this smallest y. So if the y of the first policy is infinite in some state,
policies that are greedy for the iterates y' are tried. Let D be the states in which the y of the policy tried is
infinite. The search stops if D is empty. It also stops if M_a y' >= y' in D for the last iterate y' and every action a.
Here M_a contains only the transitions within D. Then M_pi^n y' >= y' in D for every policy pi, so every policy has
utility -inf in D.

Staying for ever in states without reward has utility 0, and is chosen where all other choices have lower utilities.
"""

from __future__ import annotations

import numpy as np

from rasf.arrays import Floats, Ints
from rasf.mdp import FiniteMDP
from rasf.planning.bellman import Backup
from rasf.planning.undiscounted import DIRECT_SOLVE_STATES, Mask, diverges, evaluate, require_reachable_end

# the search stops after this many sweeps, plus 2 per state; the policy tried last then has utility -inf in D
_MOST_SWEEPS = 2_000
_EDGE = 1e-12  # in M_a y' >= y', a smaller difference of the logarithms counts as rounding


def optimise(backup: Backup, beta: float, tolerance: float) -> tuple[Floats, Ints, int]:
    """Return the optimal utilities (S,), perhaps infinite, an optimal policy (S,), and the number of iterations."""
    require_reachable_end(backup.mdp)
    stay, can_stay = _free_stay(backup)
    policy = _ending_policy(backup.mdp)
    if beta < 0:
        policy = _bounded_policy(backup, beta, policy, stay, can_stay)
    value, policy, rounds = _improve(backup, beta, policy, stay, can_stay, tolerance)
    return value, _lowest_actions(backup, beta, value, policy, tolerance), rounds


def _bounded_policy(backup: Backup, beta: float, policy: Ints, stay: Ints, can_stay: Mask) -> Ints:
    """Return a policy (S,) for beta < 0 with utility -inf only where every policy has utility -inf.

    The given policy is returned if it has this property. The module docstring explains the iterates y'. They are stored
    as log(y') / beta, so that a sweep is an entropic backup. In terminal states y' = 0, which is stored as inf.
    """
    mdp = backup.mdp
    over = mdp.terminal | can_stay
    value = np.where(over, np.inf, 0.0)  # y' = 1, the result of one sweep from y' = 0
    sweeps, next_look = 0, 0
    while True:
        if sweeps == next_look:
            doomed = diverges(backup, beta, policy)
            onward = backup.q(np.where(doomed, value, np.inf), beta, 1.0).max(axis=1)
            if (onward <= value - _EDGE / beta)[doomed].all() or sweeps > _MOST_SWEEPS + 2 * mdp.n_states:
                return policy
            next_look = max(8, 2 * sweeps)
        q = backup.q(value, beta, 1.0)
        policy = np.where(can_stay, stay, q.argmax(axis=1))
        value = np.where(over, np.inf, np.logaddexp(0.0, beta * q.max(axis=1)) / beta)
        sweeps += 1


def _improve(
    backup: Backup, beta: float, policy: Ints, stay: Ints, can_stay: Mask, tolerance: float
) -> tuple[Floats, Ints, int]:
    """Run policy iteration, and return the utilities (S,), the policy (S,) and the number of iterations."""
    rounds = 0
    while True:
        rounds += 1
        value = evaluate(backup, beta, policy, tolerance)
        q = backup.q(value, beta, 1.0)
        slack = _slack(value, tolerance)
        better = (q.max(axis=1) > value + slack) & (value < np.inf)
        staying = can_stay & ~better & (value < -slack)
        if not (better.any() or staying.any()):
            return value, policy, rounds
        improved = np.where(better, q.argmax(axis=1), np.where(staying, stay, policy))
        if (improved == policy).all():  # the gain is only an error of the iterative evaluation
            return value, policy, rounds
        policy = improved


def _slack(value: Floats, tolerance: float) -> Floats:
    """Return the differences (S,) up to which utilities count as equal, proportional to max(1, largest |utility|)."""
    finite = np.where(np.isfinite(value), value, 0.0)
    # the differences must not be below the error of an iterative evaluation
    least = min(tolerance, 1e-10) if len(value) <= DIRECT_SOLVE_STATES else 2 * tolerance
    return least * np.maximum(1.0, np.abs(finite).max(initial=0.0)) * np.ones_like(value)


def _lowest_actions(backup: Backup, beta: float, value: Floats, policy: Ints, tolerance: float) -> Ints:
    """Return `policy` with ties broken towards the action of lowest index, unless this changes the utility."""
    q = backup.q(value, beta, 1.0)
    lowest = (q >= (value - _slack(value, tolerance))[:, None]).argmax(axis=1)
    lowest = np.where(np.isfinite(value), lowest, policy)
    try:
        attained = evaluate(backup, beta, lowest, tolerance)
    except ValueError:  # the lowest actions form a loop whose total reward has no limit
        return policy
    same = np.isclose(attained, value, rtol=1e-9, atol=float(_slack(value, tolerance)[0])) | (attained == value)
    return lowest if same.all() else policy


def _ending_policy(mdp: FiniteMDP) -> Ints:
    """Return a policy (S,) whose action in every state moves nearer to an end with positive probability."""
    state = np.repeat(np.arange(mdp.n_states * mdp.n_actions), np.diff(mdp.indptr)) // mdp.n_actions
    action = np.repeat(np.arange(mdp.n_states * mdp.n_actions), np.diff(mdp.indptr)) % mdp.n_actions
    policy = np.zeros(mdp.n_states, np.int64)
    near = mdp.terminal.copy()
    while not near.all():
        leads = near[mdp.successor] & ~near[state]
        policy[state[leads][::-1]] = action[leads][::-1]  # reversed, so that the lowest action is written last
        near[state[leads]] = True
    return policy


def _free_stay(backup: Backup) -> tuple[Ints, Mask]:
    """Return actions (S,) that for ever avoid ends and rewards, and the mask (S,) of states with such an action."""
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
