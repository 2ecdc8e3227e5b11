"""Static risk: the risk of the whole return, fixed at the start, for policies that depend on the accrued return.

Let X be the return and rho[X] = max_b b + E u(X - b) a certainty equivalent with a concave function u. For a fixed
threshold b, maximising E u(X - b) is an ordinary problem in an MDP with states (t, s, c), where t is the step, s the
state and c the accrued return. The only reward of this MDP is u(c - b) at the end. GPI in this MDP,

    a = argmax_a max_i E u(c + gamma^t G_i(s, a) - b),        where G_i(s, a) is the remaining return of source i,

is never below the best source: for every b, b + E u(X - b) of GPI is at least that of every source. If b is the
threshold of the best source, rho(GPI) >= max_i rho(source i) follows (proof: lab/notes/proofs.md). This b is safe
but often too low: GPI does better than its sources, so its own threshold is higher. At another b, the guarantee is only
about b + E u(X - b) for this b. So other thresholds are tried too, and the policy with the best risk is kept.

Values depend on c and b only through the *excess* y = c - b. The excess is stored in one of two ways:

    exact   all accrued returns that can be reached; equal values are merged. Thresholds are tried one by one. The exact
            solution is used if there are at most `_MOST_ACCRUED` pairs of a state and an accrued return
    grid    evenly spaced levels of the excess for each step and state, between the smallest and the largest excess that
            can be reached. One solution covers all thresholds. An excess between two levels moves to one of the two at
            random, with probabilities that keep its mean

The grid is itself an MDP, in which all guarantees hold exactly for a policy that acts by the excess on the grid. The
true return X of this policy and its return X' on the grid differ by a rounding error N, X' = X + N. `StaticPlan.error`
bounds the difference of their risks. For each level of the last grid, the mean m and the variance v of X given this
level are computed. For every b,

    above    E u(X - b) <= E u(m - b), by Jensen's inequality, so that rho[X] <= rho[m]
    below    E u(X - b) >= E u(m - b) - E cost(m - b, v). If u has a kink at 0, cost(x, v) is (sqrt(v + x^2) - |x|) / 2
             times the change of the slope of u at 0 (Scarf's bound). For `MonotoneMeanVariance` it is abs(beta) v / 2
    sources  act independently of the excess, so E[N | states] = 0, and Jensen's inequality gives
             E u(X' - b) <= E u(X - b). So rho[X'] <= rho[X] <= rho[m] for a source

`StaticPlan.action` rounds the true excess to the nearest level. If two actions have close scores, the rounded excess
can lead to another action than the excess on the grid. This action has the guarantee of GPI with approximate scores,
whose error is the slope of u times the spacing of the levels.

For entropic utility, u is exponential, so the accrued return is only a factor and choices do not depend on the excess.
If there are too many accrued returns, the policy and all utilities are still exact, and only the return distribution is
computed on a grid.

Shapes: S states, A actions, I sources, L levels, n stored transitions (of rewards) or n decisions (of policies).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from rasf.arrays import Floats, Ints
from rasf.checks import MOST_DECISIONS, decisions, is_whole, number, shown, table, whole
from rasf.mdp import FiniteMDP, require_mdp
from rasf.planning import kernels
from rasf.planning.bellman import Backup, sweep_back
from rasf.risk import Entropic, Risk
from rasf.risk.certainty import CertaintyEquivalent, static_risk

_MOST_ACCRUED = 20_000  # largest number of pairs of a state and an accrued return, over all steps, in an exact solution
_TRIED, _TRIED_ON_GRID = 64, 3  # numbers of thresholds that a search tries: in an exact solution, and on a grid
_MERGED = 1e-10  # accrued returns count as equal if they differ by less than this share of the largest reward or return
_LEVELS, _MOST_LEVELS = 200, 100_000  # default and largest number of levels of a grid
_LARGEST_EXPONENT = 600.0  # exponents up to this size are safe: exp(600) and exp(-600) are normal float64 numbers
_ROUNDING = 1e-12  # rounding error of the risk, relative to the largest return
# Discounted problems are truncated where later rewards can change the return by at most this share of its range.
_TOLERANCE = 1e-3

Choose = Callable[[int, int, float], int]  # (step, state, excess) -> action


class Law(NamedTuple):
    """A return distribution: values (n,) in increasing order, and their probabilities."""

    values: Floats
    probabilities: Floats


@dataclass(frozen=True, repr=False)
class StaticPlan:
    """A policy that depends on (step, state, accrued return), with the static risk of its return from the start state.

    Attributes:
        risk: The static risk of the return.
        threshold: The threshold b by which the policy acts.
        sources: The static risk (I,) of each source policy, empty without sources.
        law: The return distribution. If the solution is on a grid, this is the distribution of the return on the grid.
        measure: The risk measure.
        error: A proven bound on the errors of `sources` and of `risk`, for a policy that acts by the excess on the
            grid; 0 if both are exact up to rounding.
        levels: The number of levels of the grid, or None for an exact solution.
        horizon: The number of decisions. Later rewards do not count.
    """

    risk: float
    threshold: float
    sources: Floats
    law: Law
    measure: Risk
    error: float
    levels: int | None
    horizon: int
    _choose: Choose = field(compare=False)

    def action(self, step: int, state: int, accrued: float) -> int:
        """Return the action in a state, given the accrued return.

        Args:
            step: The step, from 0.
            state: The state.
            accrued: The discounted return so far, the sum of gamma^t r_t over the steps t before this one.

        Raises:
            ValueError: The step is out of range, or the state cannot be reached at this step.
        """
        if not is_whole(step) or not 0 <= step < self.horizon:
            raise ValueError(f"step must be from 0 to {self.horizon - 1}, got {shown(step)}")
        return self._choose(step, state, number("accrued", accrued) - self.threshold)

    def __repr__(self) -> str:
        accuracy = "exact" if self.levels is None else f"{self.levels} levels, error {self.error:.2g}"
        beside = f", best source {self.sources.max():.4g}" if len(self.sources) else ""
        return f"<StaticPlan for {self.measure}: {self.risk:.4g}{beside}, threshold {self.threshold:.4g}, {accuracy}>"


def static_gpi(
    mdp: FiniteMDP,
    policies: Sequence[npt.ArrayLike],
    w: npt.ArrayLike,
    risk: Risk,
    *,
    start: int,
    horizon: int | None = None,
    search: bool = True,
    levels: int | None = None,
) -> StaticPlan:
    """Compute GPI over source policies for the static risk of the return from one state.

    Args:
        mdp: The dynamics and features.
        policies: The source policies, of shape (S,) or (horizon, S).
        w: The weights of the task (d,).
        risk: A certainty equivalent: `CVaR`, `Entropic` with beta <= 0, `MonotoneMeanVariance` or
            `rasf.risk.PiecewiseLinear`.
        start: The start state.
        horizon: The number of decisions. Default: none, which needs gamma below 1. Episodes are then truncated at the
            step after which rewards can change the return by at most a thousandth of its range.
        search: Whether to try further thresholds besides the threshold of the best source. Default: True.
        levels: The number of levels of the grid for accrued returns. Default: exact accrued returns if there are at
            most 20,000 pairs of a state and an accrued return, else 200 levels.

    Returns:
        The policy with its static risk, and the static risks of the sources.

    Raises:
        ValueError: An argument is invalid.
    """
    if not isinstance(search, bool | np.bool_):
        raise ValueError(f"search must be True or False, got {shown(search)}")
    problem = _Problem.of(mdp, w, risk, start, horizon)
    followed = np.stack(mdp.policies(policies, problem.horizon), axis=1).astype(np.int32)  # (n, I, S)
    return _solve(problem, followed, search, levels)


def plan_static(
    mdp: FiniteMDP,
    w: npt.ArrayLike,
    risk: Risk,
    *,
    start: int,
    horizon: int | None = None,
    levels: int | None = None,
) -> StaticPlan:
    """Compute the optimal policy for the static risk of the return from one state.

    If the utility of the risk has one kink (`CVaR`, `PiecewiseLinear`), accrued returns are exact, and there are at
    most 512 different final returns, then all thresholds that can be optimal are tried, and the optimum is exact.
    Otherwise only some thresholds are tried, and the result is the best of the policies for these thresholds.

    Args:
        mdp: The dynamics and features.
        w: The weights of the task (d,).
        risk: A certainty equivalent, as for `static_gpi`.
        start: The start state.
        horizon: The number of decisions, as for `static_gpi`. Default: none, which needs gamma below 1.
        levels: The number of levels of the grid, as for `static_gpi`. Default: exact accrued returns if possible.

    Returns:
        The policy with its static risk.

    Raises:
        ValueError: An argument is invalid.
    """
    return _solve(_Problem.of(mdp, w, risk, start, horizon), None, True, levels)


@dataclass(frozen=True)
class _Problem:
    """The task, risk, start state and number of decisions of a problem."""

    mdp: FiniteMDP
    rewards: Floats
    measure: CertaintyEquivalent
    start: int
    horizon: int
    cut: float  # upper bound on the size of the return that truncation leaves out

    @classmethod
    def of(cls, mdp: FiniteMDP, w: npt.ArrayLike, risk: Risk, start: int, horizon: int | None) -> _Problem:
        require_mdp(mdp)
        measure = static_risk(risk)
        mdp.state("start", start)
        rewards, cut = mdp.rewards(w), 0.0
        if horizon is None:
            if mdp.gamma == 1:
                raise ValueError("horizon must be given at gamma = 1: static risk needs the number of decisions")
            horizon = max(1, int(np.ceil(np.log(_TOLERANCE / 2) / np.log(mdp.gamma))))
            if horizon > MOST_DECISIONS:
                raise ValueError(
                    f"horizon must be given at gamma = {mdp.gamma!r}: the default would be {horizon:.2g} decisions"
                )
            cut = mdp.gamma**horizon * float(np.abs(rewards).max(initial=0.0)) / (1 - mdp.gamma)
        problem = cls(mdp, rewards, measure, start, decisions("horizon", horizon), cut)
        if isinstance(risk, Entropic):
            for low, high in _accrued_ranges(problem):
                spread = float(high.max() - low.min())
            if abs(risk.beta) * spread > _LARGEST_EXPONENT:
                raise ValueError(
                    f"beta must be at least {-_LARGEST_EXPONENT / spread:.3g} for returns in a range of {spread:.3g}, "
                    f"got {risk.beta}; rasf.plan has no such limit"
                )
        return problem


def _solve(problem: _Problem, followed: Ints | None, search: bool, levels: int | None) -> StaticPlan:
    if levels is None:
        layers = _layers(problem)
        if layers is not None:
            return _Exact(problem, layers).solve(followed, search)
    levels = _LEVELS if levels is None else whole("levels", levels, 3)
    sources = 1 if followed is None else followed.shape[1]
    if levels > _MOST_LEVELS:
        raise ValueError(f"levels must be at most {_MOST_LEVELS:,}, got {levels}")
    # memory: values before and after a step (S, L, I + 1) in float64, and a policy (n, S, L) in bytes
    table("levels", levels, problem.mdp.n_states * (2 * (sources + 1) + problem.horizon // 8))
    if isinstance(problem.measure, Entropic):
        return _entropic(problem, float(problem.measure.beta), followed, levels)
    return _on_grid(problem, followed, search, levels)


class _Layer(NamedTuple):
    """The m pairs of a state and an accrued return that can be reached at a step.

    `moves` (m A, m') contains the probabilities of the m' pairs of the next layer, after each pair and action.
    """

    state: Ints
    accrued: Floats
    moves: sp.csr_array


def _layers(problem: _Problem) -> list[_Layer] | None:
    """Return the layers from the first to the last step, or None if they have too many pairs or transitions."""
    mdp, n_actions = problem.mdp, problem.mdp.n_actions
    unit = _MERGED * max(1e-300, float(np.abs(problem.rewards).max(initial=0.0)))
    state, accrued = np.array([problem.start]), np.zeros(1)
    layers, total = [], 1
    for step in range(problem.horizon):
        rows = (state[:, None] * n_actions + np.arange(n_actions)).ravel()
        begin, count = mdp.indptr[rows], np.diff(mdp.indptr)[rows]
        if len(mdp.successor) == 0 or np.maximum(count, 1).sum() > 20 * _MOST_ACCRUED:
            return None
        ended = count == 0  # rows of terminal states, whose pairs stay the same
        owner = np.repeat(np.arange(len(rows)), np.maximum(count, 1))
        first = np.concatenate([[0], np.cumsum(np.maximum(count, 1))[:-1]])
        entry = np.minimum(begin[owner] + np.arange(len(owner)) - first[owner], len(mdp.successor) - 1)
        stays = ended[owner]
        to = np.where(stays, state[owner // n_actions], mdp.successor[entry])
        gained = np.where(stays, 0.0, problem.mdp.gamma**step * problem.rewards[entry])
        reached = accrued[owner // n_actions] + gained
        key = np.stack([to, np.rint(reached / unit)], axis=1)
        _, index, child = np.unique(key, axis=0, return_index=True, return_inverse=True)
        total += len(index)
        if total > _MOST_ACCRUED:
            return None
        probability = np.where(stays, 1.0, mdp.probability[entry])
        moves = sp.csr_array((probability, (owner, child.ravel())), shape=(len(rows), len(index)))
        layers.append(_Layer(state, accrued, moves))
        state, accrued = to[index], reached[index]
    return [*layers, _Layer(state, accrued, sp.csr_array((0, 0)))]


class _Exact:
    """The exact solution on layers; a policy is a list that contains, for each layer, the actions (m,) of its pairs."""

    def __init__(self, problem: _Problem, layers: list[_Layer]) -> None:
        self._problem, self._layers = problem, layers

    def solve(self, followed: Ints | None, search: bool) -> StaticPlan:
        measure, ends = self._problem.measure, np.unique(self._layers[-1].accrued)
        sources, wanted = np.empty(0), list(ends[np.unique(np.linspace(0, len(ends) - 1, _TRIED).astype(int))])
        if followed is None:
            if len(ends) <= 8 * _TRIED:
                wanted = list(ends)  # if u has one kink, the best threshold is one of the values of the return
        else:
            laws = [self._law(self._own(followed[:, i])) for i in range(followed.shape[1])]
            found = [measure.with_threshold(law.probabilities, law.values) for law in laws]
            sources = np.array([float(value) for value, _ in found])
            first = float(found[int(sources.argmax())][1])
            wanted = [first, *(b for b in wanted if b > first)] if search else [first]
        best: tuple[float, float, list[Ints], Law] | None = None
        for b in wanted:
            best = self._better(best, b, followed)
        if search and best is not None:
            for _ in range(_TRIED):  # try the threshold of the best return distribution so far
                again = self._better(best, float(measure.threshold(best[3].probabilities, best[3].values)), followed)
                if again is best:
                    break
                best = again
        assert best is not None
        risk, b, policy, law = best
        about = (law, measure, self._problem.cut, None, self._problem.horizon)
        return StaticPlan(risk, b, sources, *about, self._chooser(policy, b))

    def _better(
        self, best: tuple[float, float, list[Ints], Law] | None, b: float, followed: Ints | None
    ) -> tuple[float, float, list[Ints], Law]:
        policy = self._policy(b, followed)
        law = self._law(policy)
        risk = float(self._problem.measure.with_threshold(law.probabilities, law.values)[0])
        return (risk, b, policy, law) if best is None or risk > best[0] + 1e-12 * abs(best[0]) else best

    def _policy(self, b: float, followed: Ints | None) -> list[Ints]:
        """Return the GPI policy over sources `followed` (n, I, S) for threshold b; if None, the optimal policy."""
        last, n_actions = self._layers[-1].accrued, self._problem.mdp.n_actions
        several = 1 if followed is None else followed.shape[1]
        value = np.repeat(self._problem.measure.utility(last - b)[:, None], several, axis=1)  # (m, I)
        policy = []
        for step in range(self._problem.horizon - 1, -1, -1):
            layer = self._layers[step]
            q = (layer.moves @ value).reshape(-1, n_actions, several)
            chosen = q.max(axis=2).argmax(axis=1)
            own = chosen[:, None] if followed is None else followed[step][:, layer.state].T
            value = np.take_along_axis(q, own[:, None, :], axis=1)[:, 0]
            policy.append(chosen)
        return policy[::-1]

    def _own(self, actions: Ints) -> list[Ints]:
        """Return the actions of a source policy (n, S) in each layer."""
        return [actions[step][layer.state] for step, layer in enumerate(self._layers[:-1])]

    def _law(self, policy: list[Ints]) -> Law:
        mass, n_actions = np.ones(1), self._problem.mdp.n_actions
        for layer, chosen in zip(self._layers, policy, strict=False):
            rows = np.arange(len(layer.state)) * n_actions + chosen
            mass = layer.moves[rows].T @ mass
        return _merged(self._layers[-1].accrued, mass)

    def _chooser(self, policy: list[Ints], b: float) -> Choose:
        layers, mdp = self._layers, self._problem.mdp

        def choose(step: int, state: int, excess: float) -> int:
            mdp.state("state", state)
            there = np.flatnonzero(layers[step].state == state)
            if not len(there):
                raise _unreachable(state, step)
            nearest = there[np.abs(layers[step].accrued[there] - (excess + b)).argmin()]
            return int(policy[step][nearest])

        return choose


def _merged(values: Floats, mass: Floats) -> Law:
    """Return the distribution of `values` with probabilities `mass`; nearly equal values are merged."""
    order = np.argsort(values)
    values, mass = values[order][mass[order] > 0], mass[order][mass[order] > 0]
    apart = np.diff(values) > _MERGED * np.abs(values).max()
    first = np.concatenate([[0], np.flatnonzero(apart) + 1])
    return Law(values[first], np.add.reduceat(mass, first))


def _entropic(problem: _Problem, beta: float, followed: Ints | None, levels: int) -> StaticPlan:
    """Return the exact solution for entropic utility, whose choices do not depend on the accrued return."""
    mdp, n, start = problem.mdp, problem.horizon, problem.start
    backup, nothing = Backup(mdp, problem.rewards), np.zeros(mdp.n_states)
    betas = np.float64(beta) * np.power(mdp.gamma, np.arange(n))
    sources = np.empty(0)
    if followed is None:
        tables, policy = sweep_back(backup, betas, nothing, keep=1)
    else:
        each = [sweep_back(backup, betas, nothing, followed[:, i])[0] for i in range(followed.shape[1])]
        sources = np.array([q[0, start, first] for q, first in zip(each, followed[0, :, start], strict=True)])
        policy = np.max(each, axis=0).argmax(axis=-1)
        tables, _ = sweep_back(backup, betas, nothing, policy, keep=1)
    risk = float(tables[0, start, policy[0, start]])
    grid = _Grid.of(problem, levels, thresholds=False)
    last = grid.follow(lambda step: np.repeat(policy[step][:, None], levels, axis=1), 0)
    law = _merged(grid.points(n, start), last.mass)

    def choose(step: int, state: int, excess: float) -> int:
        grid.require_reached(step, state)
        return int(policy[step, state])

    error = problem.cut + _ROUNDING * float(np.abs(law.values).max())
    return StaticPlan(risk, risk, sources, law, problem.measure, error, levels, n, choose)


def _on_grid(problem: _Problem, followed: Ints | None, search: bool, levels: int) -> StaticPlan:
    mdp, n, measure = problem.mdp, problem.horizon, problem.measure
    grid = _Grid.of(problem, levels)
    several = 1 if followed is None else followed.shape[1]
    ends = grid.points(n, problem.start)  # all states have the same last grid
    # for each state and level, the values of the sources, followed by the value of the policy
    value = np.broadcast_to(measure.utility(ends)[None, :, None], (mdp.n_states, levels, several + 1)).copy()
    policy = np.zeros((n, mdp.n_states, levels), np.uint8 if mdp.n_actions < 256 else np.int32)
    none = np.full((1, mdp.n_states), -1, np.int32)  # the optimal policy follows no source
    for step in range(n - 1, -1, -1):
        own = none if followed is None else followed[step]
        value = kernels.excess_step(mdp, *grid.move(step), value, own, policy[step])
    b, at_start = -grid.points(0, problem.start), value[problem.start]
    by_source = b[:, None] + at_start[:, :several]
    tried = {int(by_source.max(axis=1).argmax())}
    if search:
        own = int((b + at_start[:, -1]).argmax())
        tried |= set(np.linspace(min(tried), own, _TRIED_ON_GRID).astype(int).tolist())
    levels_tried = sorted(tried)
    sources, at = (by_source.max(axis=0), by_source.argmax(axis=0)) if followed is not None else (np.empty(0), [])

    def followed_by(i: int) -> Callable[[int], Ints]:
        return lambda step: np.repeat(followed[step, i][:, None], levels, axis=1).astype(policy.dtype)  # type: ignore[index]

    walks: list[tuple[Callable[[int], Ints], int]] = [(lambda step: policy[step], level) for level in levels_tried]
    walks += [(followed_by(i), int(level)) for i, level in enumerate(at)]
    with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:  # the kernel releases the GIL, Python's global lock
        walked = list(pool.map(lambda walk: grid.follow(*walk), walks))
    best: tuple[float, int, Law, _LastLevels] | None = None
    for level, last in zip(levels_tried, walked, strict=False):
        law = _merged(ends + b[level], last.mass)
        risk = float(measure.with_threshold(law.probabilities, law.values)[0])
        if best is None or risk > best[0]:
            best = risk, level, law, last
    assert best is not None
    risk, chosen, law, last = best
    least, most = last.bounds(measure, float(b[chosen]))
    off = max(most - risk, risk - least)
    for source, level, last in zip(sources, at, walked[len(levels_tried) :], strict=True):
        off = max(off, last.bounds(measure, float(b[level]))[1] - source)
    rounding = _ROUNDING * (1 + measure.steepest(float(ends[0]))) * float(np.abs(law.values).max())

    def choose(step: int, state: int, excess: float) -> int:
        grid.require_reached(step, state)
        level = int(np.clip(np.rint((excess - grid.low[step, state]) / grid.spacing[step, state]), 0, levels - 1))
        return int(policy[step, state, level])

    error = float(off + rounding + problem.cut)
    return StaticPlan(risk, float(b[chosen]), sources, law, measure, error, levels, n, choose)


@dataclass(frozen=True)
class _Grid:
    """L evenly spaced levels of the excess for each step and state.

    The arrays (n + 1, S) contain the lowest level, the spacing, and whether the state can be reached at the step.
    """

    problem: _Problem
    levels: int
    low: Floats
    spacing: Floats
    reached: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, problem: _Problem, levels: int, *, thresholds: bool = True) -> _Grid:
        """Return a grid for all thresholds in the range of returns, or for the threshold 0 if `thresholds` is False."""
        least, most = (np.array(side) for side in zip(*_accrued_ranges(problem), strict=True))
        reached = np.isfinite(least)
        low, high = float(least[-1].min()), float(most[-1].max())
        least[-1], most[-1] = low, high  # all states have the same last grid, on which the return distribution is given
        used = np.isfinite(least)
        start, end = (least - high, most - low) if thresholds else (least, most)
        width = np.where(used, end - start, 0.0)
        spacing = np.where(width > 0, width, 1.0) / (levels - 1)
        if thresholds and high > low:  # 0 is a level of the last grid, because u may have a kink at 0
            spacing[-1] = (high - low) / ((levels - 1) // 2)
        return cls(problem, levels, np.where(used, start, 0.0), spacing, reached)

    def require_reached(self, step: int, state: int) -> None:
        if not self.reached[step, self.problem.mdp.state("state", state)]:
            raise _unreachable(state, step)

    def points(self, step: int, state: int) -> Floats:
        return self.low[step, state] + self.spacing[step, state] * np.arange(self.levels)

    def move(self, step: int) -> tuple[Floats, kernels.Grids]:
        """Return the amounts (n,) that transitions add to the excess at a step, and the grids before and after it."""
        gain = self.problem.mdp.gamma**step * self.problem.rewards
        return gain, kernels.Grids(self.low[step], self.spacing[step], self.low[step + 1], self.spacing[step + 1])

    def follow(self, policy: Callable[[int], Ints], level: int) -> _LastLevels:
        """Start at a level of the first grid, follow the actions `policy(step)` (S, L), and return the last levels."""
        moments = np.zeros((self.problem.mdp.n_states, self.levels, 3))
        moments[self.problem.start, level, 0] = 1.0
        for step in range(self.problem.horizon):
            moments = kernels.excess_moments(self.problem.mdp, *self.move(step), moments, policy(step))
        mass, first, second = moments.sum(axis=0).T
        some = np.where(mass > 0, mass, 1.0)
        threshold = -self.points(0, self.problem.start)[level]
        returns = self.points(self.problem.horizon, self.problem.start) + threshold - first / some
        return _LastLevels(mass, returns, np.maximum(second / some - (first / some) ** 2, 0.0))


class _LastLevels(NamedTuple):
    """For each level (L,) of the last grid: the probability, and the mean and variance of the true return at it."""

    mass: Floats
    mean: Floats
    variance: Floats

    def bounds(self, measure: CertaintyEquivalent, threshold: float) -> tuple[float, float]:
        """Return a lower and an upper bound of the risk rho of the true return."""
        some = self.mass > 0
        mass, mean, variance = self.mass[some], self.mean[some], self.variance[some]
        order = np.argsort(mean)
        most, best = measure.with_threshold(mass[order], mean[order])

        def least(b: float) -> float:
            return b + float(mass @ (measure.utility(mean - b) - measure.spread_cost(mean - b, variance)))

        return max(least(threshold), least(float(best))), float(most)


def _accrued_ranges(problem: _Problem) -> Iterator[tuple[Floats, Floats]]:
    """Yield the smallest and largest accrued returns (S,) at each step and at the end.

    For states that cannot be reached, these are inf and -inf.
    """
    mdp = problem.mdp
    state = np.repeat(np.arange(len(mdp.indptr) - 1), np.diff(mdp.indptr)) // mdp.n_actions
    least, most = np.full(mdp.n_states, np.inf), np.full(mdp.n_states, -np.inf)
    least[problem.start] = most[problem.start] = 0.0
    yield least, most
    for step in range(problem.horizon):
        gain = mdp.gamma**step * problem.rewards
        new_least, new_most = np.where(mdp.terminal, least, np.inf), np.where(mdp.terminal, most, -np.inf)
        np.minimum.at(new_least, mdp.successor, least[state] + gain)
        np.maximum.at(new_most, mdp.successor, most[state] + gain)
        least, most = new_least, new_most
        yield least, most


def _unreachable(state: int, step: int) -> ValueError:
    return ValueError(f"state {state} cannot be reached from the start in {step} steps")
