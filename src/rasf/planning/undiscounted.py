"""Total reward without a horizon: gamma = 1, terminal states.

For a stationary policy let M = P_pi exp(beta r) between the states that are not terminal, and let R be the total
reward. The Bellman equation of x = E exp(beta R) is linear, x = M x + b, but its solution gives the utility
U = log(x) / beta only where the spectral radius of M is below 1. Elsewhere a linear solver returns finite numbers
without meaning. So:

* each communicating class of states is tested separately. In a class of radius >= 1, and in every state that can reach
  such a class, E exp(beta R) counts as inf, so U = sign(beta) inf. (In a class of radius exactly 1 that never ends, the
  expectation over n steps may oscillate within bounds as n grows, and has no limit. U is set to the same value there.)
* a state that can reach neither an end nor a class of radius >= 1 has E exp(beta R) = 0, so U = -sign(beta) inf;
* a class that never ends and has no rewards counts as terminal;
* the equations of the remaining states are solved, scaled by the utilities so that nothing overflows.

At beta = 0 a class that never ends has a mean of inf or -inf by the sign of its average reward, and no mean if the
average reward is 0. The optimum over policies is in `optimum`.
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
DIRECT_SOLVE_STATES = 5_000  # with more states, sparse factors may fill in, so evaluation iterates
_RADIUS_TOLERANCE = 1e-12
_RADIUS_SWEEPS = 1_000
_SMALL_BETA = 1e-6  # up to this |beta|, Newton steps start at the risk-neutral values if that is safe
_NEAR_NEUTRAL = 1.0  # these are safe if, scaled by them, no exponent is larger than this
_TINY_BETA = 1e-290  # below this, beta x may be subnormal
_ROUNDING = 1e-14


def states_text(states: Mask) -> str:
    """Return the first few states of a mask as text, for messages."""
    named = np.flatnonzero(states)
    return ", ".join(map(str, named[:5])) + (f" and {len(named) - 5} more" if len(named) > 5 else "")


def require_reachable_end(mdp: FiniteMDP) -> None:
    """Refuse an MDP with a state from which no policy can reach a terminal state."""
    if not mdp.terminal.any():
        raise ValueError("gamma = 1 without a horizon needs terminal states, and the MDP has none")
    rows = np.repeat(np.arange(mdp.n_states), np.diff(mdp.indptr[:: mdp.n_actions]))
    endless = ~_can_reach(_graph(rows, mdp.successor, mdp.n_states), mdp.terminal)
    if endless.any():
        raise ValueError(
            "gamma = 1 without a horizon needs a terminal state within reach of every state; "
            f"none can be reached from {states_text(endless)}"
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
    """Return utilities (S,) of the total reward of `policy` (S,), which may be infinite."""
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
    """Sweep until the remaining changes are small in every state."""
    earlier = np.zeros(len(open_states))
    largest = float(np.abs(backup.rewards).max())
    while True:
        for _ in range(WINDOW):
            new = follow(backup.q(value, beta, 1.0), policy)[open_states]
            change = np.abs(new - value[open_states])
            value[open_states] = new
        # a small value may be the difference of large ones, and then has their rounding error
        size = np.full_like(new, largest + np.abs(new).max())
        if (remaining_change(change, earlier, size) <= tolerance).all():
            return
        earlier = change


def _solve(chain: _Chain, beta: float, open_states: Ints, value: Floats) -> None:
    """Set the values of the open (unsolved) states to the exact ones, by Newton steps scaled by the current values v.

    Let v* be the exact values. In y = exp(beta (v* - v)) the Bellman equation is linear, y = M y + b, and one step
    solves it exactly from any v for which the scaled exponentials neither over- nor underflow. The equation is written
    for u = (y - 1) / beta, so that no digits are lost as beta goes to 0, where it becomes
    v* - v = P (v* - v) + residual. The first v is from `dominant_path`, which is safe for exponents of any size. These
    values are of size 1 / beta, so for small |beta| the first v is the risk-neutral values instead, if scaling by these
    keeps all exponents small.
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
    """The Markov chain of a policy: transitions row -> successor, none from terminal states."""

    n_states: int
    row: Ints
    successor: Ints
    probability: Floats
    reward: Floats
    graph: sp.csr_array
    label: Ints  # communicating class of each state

    @classmethod
    def of(cls, mdp: FiniteMDP, policy: Ints, rewards: Floats) -> _Chain:
        indptr, entries = mdp.under_policy(policy)
        row = np.repeat(np.arange(mdp.n_states), np.diff(indptr))
        graph = _graph(row, mdp.successor[entries], mdp.n_states)
        _, label = csgraph.connected_components(graph, connection="strong")
        return cls(mdp.n_states, row, mdp.successor[entries], mdp.probability[entries], rewards[entries], graph, label)

    def closed(self) -> Mask:
        """Return the mask (C,) of classes that are never left, including single states without transitions."""
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
        """Return the mask (S,) of states that can reach a class of radius 1 or more, not counting states in `ended`."""
        return _can_reach(self.graph, self.explodes(beta) & ~ended)

    def explodes(self, beta: float) -> Mask:
        """Return the mask (S,) of states in classes where P exp(beta r) has a spectral radius of 1 or more.

        Collatz-Wielandt: for positive u, the ratios (M u) / u enclose the radius. Power iteration runs in log space on
        all classes at once, with the lazy matrix (M + I) / 2, so that periodic classes converge too. A linear solve,
        scaled by the iterate, decides the remaining classes.
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
            u -= np.where(verdict != 0, 0.0, most)[label]  # keeps undecided classes from drifting
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
        """Return for each state the sign of its infinite mean, or 0 if the mean is finite."""
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
        """Return the log of the largest term of E exp(beta R): the heaviest path to an end, by Bellman-Ford.

        Scaled by this term, every weight is at most 1 and every solution at least 1.
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
        """Set open values to the risk-neutral ones if these are safe to scale by; return whether they were set."""
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
        """Return v* - v for the open states from their current values, exact to rounding."""
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
    """Return the mask (S,) of states with a path to a target, perhaps of zero steps."""
    n = graph.shape[0]
    goals = np.flatnonzero(targets)
    # one more node with an edge to every target in the reversed graph
    hub = sp.csr_array((np.ones(len(goals)), (np.zeros(len(goals), int), goals)), shape=(1, n))
    reversed_graph = sp.block_array([[graph.T.tocsr(), sp.csr_array((n, 1))], [hub, None]], format="csr")
    found = csgraph.breadth_first_order(reversed_graph, n, return_predecessors=False)
    reached = np.zeros(n + 1, bool)
    reached[found] = True
    return reached[:n]
