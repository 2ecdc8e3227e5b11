"""The utility of a policy's total reward without a horizon: gamma = 1, terminal states.

Let R be the total reward of a stationary policy, and let M = P_pi exp(beta r) contain the transitions between states
that are not terminal. For x = E exp(beta R) in each state, the Bellman equation x = M x + b is linear, where b contains
the transitions to terminal states. The solution of the equation gives the utility U = log(x) / beta only where the
spectral radius of M is below 1. Elsewhere, a linear solver returns finite numbers without meaning. So:

* Each communicating class of states is tested separately. Its radius is the spectral radius of M within the class. In
  a class of radius >= 1, and in every state that can reach such a class, E exp(beta R) counts as inf, so
  U = sign(beta) inf. (In a class of radius exactly 1 that never ends, the expectation over n steps may oscillate within
  bounds as n grows, and has no limit. U is sign(beta) inf there, too.)
* In a state that can reach neither a terminal state (an end) nor a class of radius >= 1, E exp(beta R) = 0, so
  U = -sign(beta) inf.
* A class that never ends and has no rewards counts as terminal.
* The equations of the remaining states are solved, scaled by the utilities so that nothing overflows.

At beta = 0, the mean in a class that never ends is inf or -inf, by the sign of the average reward. If the average
reward is 0, there is no mean. `rasf.planning.optimum` computes the optimum over policies.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import scipy.sparse.csgraph as csgraph
import scipy.sparse.linalg as splinalg

from rasf.arrays import Floats, Ints
from rasf.mdp import FiniteMDP
from rasf.planning.bellman import WINDOW, Backup, follow, remaining_change

Mask = npt.NDArray[np.bool_]
DIRECT_SOLVE_STATES = 5_000  # with more states, evaluation is iterative, because matrix factors may be dense
_RADIUS_TOLERANCE = 1e-12
_RADIUS_SWEEPS = 1_000
_SMALL_BETA = 1e-6  # up to this |beta|, Newton steps start at the risk-neutral values if these are safe
_NEAR_NEUTRAL = 1.0  # risk-neutral values are safe if scaling by them gives exponents up to this size
_TINY_BETA = 1e-290  # below this |beta|, products of beta and values may be subnormal numbers
_ROUNDING = 1e-14


def states_text(states: Mask) -> str:
    """Return the numbers of the first five states of a mask (S,) as text for messages."""
    named = np.flatnonzero(states)
    return ", ".join(map(str, named[:5])) + (f" and {len(named) - 5} more" if len(named) > 5 else "")


def require_reachable_end(mdp: FiniteMDP) -> None:
    """Raise ValueError if there is a state from which no policy can reach a terminal state."""
    if not mdp.terminal.any():
        raise ValueError("gamma = 1 without a horizon needs terminal states, and the MDP has none")
    rows = np.repeat(np.arange(mdp.n_states), np.diff(mdp.indptr[:: mdp.n_actions]))
    endless = ~_can_reach(_graph(rows, mdp.successor, mdp.n_states), mdp.terminal)
    if endless.any():
        raise ValueError(
            "gamma = 1 without a horizon needs a terminal state within reach of every state; "
            f"no terminal state can be reached from states {states_text(endless)}"
        )


def ends_surely(mdp: FiniteMDP, policy: Ints) -> Mask:
    """Return the mask (S,) of states from which `policy` ends with probability one."""
    chain = _Chain.of(mdp, policy, np.zeros(len(mdp.successor)))
    stuck = ~_can_reach(chain.graph, mdp.terminal)
    return ~_can_reach(chain.graph, stuck)


def diverges(backup: Backup, beta: float, policy: Ints) -> Mask:
    """Return the mask (S,) of states where E exp(beta R) of `policy` (S,) is infinite, for beta other than 0."""
    chain = _Chain.of(backup.mdp, policy, backup.rewards)
    return chain.exploding(beta, backup.mdp.terminal | chain.unrewarded())


def evaluate(backup: Backup, beta: float, policy: Ints, tolerance: float) -> Floats:
    """Return the utilities (S,), which may be infinite, of the total reward of `policy` (S,)."""
    chain = _Chain.of(backup.mdp, policy, backup.rewards)
    ended = backup.mdp.terminal | chain.unrewarded()
    value = np.zeros(backup.mdp.n_states)
    if beta == 0:
        infinite = chain.infinite_means(ended)
        value[infinite != 0] = infinite[infinite != 0] * np.inf
        known = ended | (infinite != 0)
    else:
        exploding = chain.exploding(beta, ended)
        endless = ~_can_reach(chain.graph, ended) & ~exploding
        value[exploding], value[endless] = np.sign(beta) * np.inf, -np.sign(beta) * np.inf
        known = ended | exploding | endless
    open_states = np.flatnonzero(~known)
    if len(open_states) > DIRECT_SOLVE_STATES:
        _iterate(backup, beta, policy, open_states, value, tolerance)
    elif len(open_states):
        _solve(chain, beta, open_states, value)
    return value


def _iterate(backup: Backup, beta: float, policy: Ints, open_states: Ints, value: Floats, tolerance: float) -> None:
    """Set the values of the open (unsolved) states by sweeps, until the remaining changes are small in every state."""
    earlier = np.zeros(len(open_states))
    largest = float(np.abs(backup.rewards).max())
    while True:
        for _ in range(WINDOW):
            new = follow(backup.q(value, beta, 1.0), policy)[open_states]
            change = np.abs(new - value[open_states])
            value[open_states] = new
        # a small value can be the difference of large values, with the rounding error of large values
        size = np.full_like(new, largest + np.abs(new).max())
        if (remaining_change(change, earlier, size) <= tolerance).all():
            return
        earlier = change


def _solve(chain: _Chain, beta: float, open_states: Ints, value: Floats) -> None:
    """Set the values v of the open (unsolved) states to the exact values v*, by Newton steps scaled by v.

    The Bellman equation is linear in y = exp(beta (v* - v)): y = M y + b. One step solves it exactly from any v for
    which the scaled exponentials neither overflow nor underflow. The equation is written for u = (y - 1) / beta, so
    that no digits are lost for small beta. In the limit beta = 0 the equation is v* - v = P (v* - v) + residual. The
    first v comes from `dominant_path`. This v is safe for exponents of any size, but of size 1 / beta. So for small
    |beta|, the risk-neutral values are the first v, if scaling by these keeps all exponents small.
    """
    if beta != 0 and not (abs(beta) <= _SMALL_BETA and chain.start_neutral(beta, open_states, value)):
        value[open_states] = chain.dominant_path(beta, open_states, value) / beta
    for _ in range(3):
        step = chain.newton_step(value, beta, open_states)
        value[open_states] += step
        if np.abs(step).max() <= _ROUNDING * max(1.0, float(np.abs(value[open_states]).max())):
            return


@dataclass(frozen=True)
class _Chain:
    """The Markov chain of a policy, with transitions row -> successor; terminal states have no transitions."""

    n_states: int
    row: Ints
    successor: Ints
    probability: Floats
    reward: Floats
    graph: sp.csr_array
    label: Ints  # the index (S,) of each state's communicating class

    @classmethod
    def of(cls, mdp: FiniteMDP, policy: Ints, rewards: Floats) -> _Chain:
        indptr, entries = mdp.under_policy(policy)
        row = np.repeat(np.arange(mdp.n_states), np.diff(indptr))
        graph = _graph(row, mdp.successor[entries], mdp.n_states)
        _, label = csgraph.connected_components(graph, connection="strong")
        return cls(mdp.n_states, row, mdp.successor[entries], mdp.probability[entries], rewards[entries], graph, label)

    def closed(self) -> Mask:
        """Return the mask (C,) of the C classes that are never left, including single states without transitions."""
        leaves = self.label[self.row] != self.label[self.successor]
        open_classes = np.zeros(self.label.max() + 1, bool)
        open_classes[self.label[self.row[leaves]]] = True
        return ~open_classes

    def unrewarded(self) -> Mask:
        """Return the mask (S,) of states in closed classes where every reward is zero."""
        rewarded = np.zeros(self.label.max() + 1, bool)
        rewarded[self.label[self.row[self.reward != 0]]] = True
        return (self.closed() & ~rewarded)[self.label]

    def exploding(self, beta: float, ended: Mask) -> Mask:
        """Return the mask (S,) of states that can reach a class of radius 1 or more outside of `ended`."""
        return _can_reach(self.graph, self.explodes(beta) & ~ended)

    def explodes(self, beta: float) -> Mask:
        """Return the mask (S,) of states in classes where P exp(beta r) has a spectral radius of 1 or more.

        For positive u, the ratios (M u) / u enclose the radius (Collatz-Wielandt). Power iteration runs in log space on
        all classes at once, with the lazy matrix (M + I) / 2, so that periodic classes converge, too. Classes that are
        undecided after `_RADIUS_SWEEPS` sweeps are decided by a linear solve, scaled by the iterate.
        """
        inside = self.label[self.row] == self.label[self.successor]
        states, row = np.unique(self.row[inside], return_inverse=True)
        if not len(states):
            return np.zeros(self.n_states, bool)
        index = np.zeros(self.n_states, np.int64)
        index[states] = np.arange(len(states))
        successor = index[self.successor[inside]]
        starts = np.flatnonzero(np.diff(row, prepend=-1))
        log_weight = np.log(self.probability[inside]) + beta * self.reward[inside]
        _, label = np.unique(self.label[states], return_inverse=True)
        n_classes = label.max() + 1
        u = np.zeros(len(states))
        for _ in range(_RADIUS_SWEEPS):
            terms = log_weight + u[successor]
            top = np.maximum.reduceat(terms, starts)
            new = top + np.log(np.add.reduceat(np.exp(terms - top[row]), starts))
            change = np.logaddexp(new, u) - np.log(2.0) - u
            least, most = np.full(n_classes, np.inf), np.full(n_classes, -np.inf)
            np.minimum.at(least, label, change)
            np.maximum.at(most, label, change)
            at_one = (least > -_RADIUS_TOLERANCE) & (most < _RADIUS_TOLERANCE)
            verdict = np.where((least >= 0) | at_one, 1, np.where(most < 0, -1, 0))
            if (verdict != 0).all():
                break
            u += change
            u -= np.where(verdict != 0, 0.0, most)[label]  # so that u stays in range in undecided classes
        else:
            # (I - M) y = 1 has a positive solution if and only if the radius is below 1
            n = len(states)
            scaled = sp.csc_array((np.exp(log_weight + u[successor] - u[row]), (row, successor)), shape=(n, n))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", splinalg.MatrixRankWarning)
                y = splinalg.spsolve(sp.csc_array(sp.eye_array(n, format="csc") - scaled), np.ones(n))
            lowest, highest = np.full(n_classes, np.inf), np.full(n_classes, -np.inf)
            y = np.where(np.isfinite(y), y, -np.inf)
            np.minimum.at(lowest, label, y)
            np.maximum.at(highest, label, y)
            below = (lowest > 0) & (highest < 1 / _RADIUS_TOLERANCE)
            verdict = np.where(verdict == 0, np.where(below, -1, 1), verdict)
        result = np.zeros(self.n_states, bool)
        result[states] = (verdict > 0)[label]
        return result

    def infinite_means(self, ended: Mask) -> npt.NDArray[np.int8]:
        """Return the sign (S,) of the infinite mean of each state, or 0 if the mean is finite."""
        sign = np.zeros(self.n_states, np.int8)
        for c in np.flatnonzero(self.closed()):
            members = self.label == c
            if ended[members].all():
                continue
            gain = self._average_reward(members)
            if abs(gain) < _RADIUS_TOLERANCE * max(1.0, float(np.abs(self.reward).max())):
                raise ValueError(
                    "the policy never ends and its total reward has no limit from states "
                    f"{states_text(members)}; use a horizon or gamma < 1"
                )
            reaching = _can_reach(self.graph, members)
            direction = 1 if gain > 0 else -1
            if (sign[reaching] == -direction).any():
                raise ValueError(
                    "the policy's total reward may be inf or -inf, and has no mean, from states "
                    f"{states_text(reaching)}; use a horizon or gamma < 1"
                )
            sign[reaching] = direction
        return sign

    def _average_reward(self, members: Mask) -> float:
        index = np.cumsum(members) - 1
        inside = members[self.row]
        n = int(members.sum())
        matrix = sp.csr_array(
            (self.probability[inside], (index[self.row[inside]], index[self.successor[inside]])), shape=(n, n)
        )
        balance = np.vstack([(matrix.T - sp.eye_array(n)).toarray(), np.ones(n)])
        stationary = np.linalg.lstsq(balance, np.append(np.zeros(n), 1.0), rcond=None)[0]
        return float(np.sum(stationary[index[self.row[inside]]] * self.probability[inside] * self.reward[inside]))

    def dominant_path(self, beta: float, open_states: Ints, value: Floats) -> Floats:
        """Return for each open state the log of the largest term of E exp(beta R), by Bellman-Ford.

        Each term belongs to a path to an end. If the equations are scaled by the largest terms, every weight is at most
        1 and every solution is at least 1.
        """
        index = np.full(self.n_states, -1)
        index[open_states] = np.arange(len(open_states))
        mine = index[self.row] >= 0
        exponent = beta * np.where(index[self.successor[mine]] >= 0, 0.0, value[self.successor[mine]])
        weight = np.log(self.probability[mine]) + beta * self.reward[mine] + exponent
        onward = index[self.successor[mine]]
        starts = np.flatnonzero(np.diff(self.row[mine], prepend=-1))
        best = np.full(len(open_states) + 1, -np.inf)
        best[-1] = 0.0  # the value of an end
        for _ in range(len(open_states)):
            new = np.maximum.reduceat(weight + best[onward], starts)
            if (new == best[:-1]).all():
                break
            best[:-1] = new
        return best[:-1]

    def start_neutral(self, beta: float, open_states: Ints, value: Floats) -> bool:
        """If the risk-neutral values are safe for scaling, set them in open states; return whether they were set."""
        mine = np.isin(self.row, open_states)
        row, successor = self.row[mine], self.successor[mine]
        if not np.isfinite(value[successor]).all():
            return False
        start = value.copy()
        start[open_states] = self.newton_step(start, 0.0, open_states)
        exponent = beta * (self.reward[mine] + start[successor] - start[row])
        if not np.abs(exponent).max() <= _NEAR_NEUTRAL:
            return False
        value[open_states] = start[open_states]
        return True

    def newton_step(self, value: Floats, beta: float, open_states: Ints) -> Floats:
        """Return v* - v for the open states, exact up to rounding, for current values v (S,) and exact values v*."""
        index = np.full(self.n_states, -1)
        index[open_states] = np.arange(len(open_states))
        mine = index[self.row] >= 0
        row, successor, p = index[self.row[mine]], self.successor[mine], self.probability[mine]
        target = self.reward[mine] + value[successor] - value[self.row[mine]]
        gone = beta * target == -np.inf  # a successor that never ends has exp(beta U) = 0
        target = np.where(gone, 0.0, target)
        weight = np.where(gone, 0.0, p * np.exp(beta * target))
        rise = target if abs(beta) < _TINY_BETA else np.expm1(beta * target) / beta
        excess = np.where(gone, -p / (beta or 1.0), p * rise)
        residual = np.bincount(row, excess, len(open_states)).astype(np.float64)
        onward = index[successor] >= 0
        n = len(open_states)
        matrix = sp.csc_array((weight[onward], (row[onward], index[successor[onward]])), shape=(n, n))
        u = splinalg.spsolve(sp.csc_array(sp.eye_array(n, format="csc") - matrix), residual)
        if beta == 0:
            return u
        return np.log1p(np.maximum(beta * u, -1 + 1e-300)) / beta


def _graph(row: Ints, successor: Ints, n_states: int) -> sp.csr_array:
    return sp.csr_array((np.ones(len(row)), (row, successor)), shape=(n_states, n_states))


def _can_reach(graph: sp.csr_array, targets: Mask) -> Mask:
    """Return the mask (S,) of states with a path of zero or more steps to a target."""
    n = graph.shape[0]
    goals = np.flatnonzero(targets)
    # node n is added, with an edge to every target in the reversed graph
    hub = sp.csr_array((np.ones(len(goals)), (np.zeros(len(goals), int), goals)), shape=(1, n))
    reversed_graph = sp.block_array([[graph.T.tocsr(), sp.csr_array((n, 1))], [hub, None]], format="csr")
    found = csgraph.breadth_first_order(reversed_graph, n, return_predecessors=False)
    reached = np.zeros(n + 1, bool)
    reached[found] = True
    return reached[:n]
