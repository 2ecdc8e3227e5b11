"""The paper's grid (Figure 1), exact: sources are planned, their utilities solved, visits those of the absorbing chain.

Total reward without discount, so utilities could be infinite; the sliders and dials are kept where none is: steps cost
something, moves slip (so that every policy ends surely), and aversion is mild enough for the expectation of
exp(beta return) to exist. Mean, variance, failure rate and length of acting are solved for, too. Only the return's
distribution, and so CVaR, is one of rollouts, for it has no short exact law; they are cut after `STEPS` moves. Visits
count the start and the last cell too: a goal's visits are the share of episodes that reach it. A failure is an end in a
trap that costs something.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rasf.arrays import Floats, Ints
from rasf.envs.grid import GOAL, START, WALL, Grid
from rasf.explorer.scenes.families import entropic, mean_variance
from rasf.explorer.scenes.outcomes import check_request, measures
from rasf.explorer.scenes.scene import Family, Layout, MapOutcome, MapPolicy, Scores, Stop, Stopped, Weight, draw_task
from rasf.mdp import FiniteMDP
from rasf.planning.bellman import follow
from rasf.planning.moments import successor_moments
from rasf.planning.plan import evaluate_policy, plan
from rasf.planning.simulate import simulate
from rasf.risk import Entropic, MeanVariance, Risk
from rasf.statistics import Interval
from rasf.transfer import Choice, gpi

STEPS = 100  # of a rollout; the chance of a longer one is far below a thousandth
_SOURCE_BETA, _SOURCE_COSTS = -0.1, (20.0, 0.0)  # Figure 1: one source fears all traps, the other none
_PLAYED = 12  # rollouts whose paths are kept
_KEPT = 16  # (w, risk) whose utilities are kept


class Judged(NamedTuple):
    """All sources on one (w, risk): utilities (K, S, A), and what GPI makes of them."""

    values: Floats
    choice: Choice


class GridScene:
    """A `MapScene`; see the module's header."""

    key = "grid"
    title = "The paper's grid"
    about = (
        "Two policies were planned for other trap costs; moves slip now and then, and goal and traps end the episode. "
        "All is exact but CVaR and the histogram, which come from rollouts. "
        "An end in a trap with a cost counts as a failure; a trap that costs 0 ends the episode but does not count."
    )

    def __init__(self, grid: Grid | None = None) -> None:
        self.grid = grid or Grid()
        if self.grid.slip == 0:
            raise ValueError("grid must slip, so that every policy ends surely, got slip 0")
        self.mdp: FiniteMDP = self.grid.mdp()
        traps = self.grid.traps
        self.layout = _layout(self.grid)
        self.weights = (
            Weight("step", -2.0, -0.1, 0.1, -1.0),
            Weight("goal", 0.0, 40.0, 1.0, 20.0),
            *(Weight(f"trap {name}", -40.0, 0.0, 1.0, -20.0 if k == 0 else 0.0) for k, name in enumerate(traps)),
        )
        self.families: tuple[Family, ...] = (
            entropic(-0.2, 0.1, 0.01, -0.1),
            mean_variance(-0.2, 0.1, 0.01, -0.1),
        )
        tasks = [self.grid.task(np.full(len(traps), cost)) for cost in _SOURCE_COSTS]
        self._sources = [plan(self.mdp, w, Entropic(_SOURCE_BETA)).policy for w in tasks]
        self._moments = [successor_moments(self.mdp, policy) for policy in self._sources]
        self.policies = tuple(
            f"traps cost {cost:g}, the goal earns 20; entropic {_SOURCE_BETA:g}" for cost in _SOURCE_COSTS
        )
        self._judged: dict[tuple[bytes, Risk], Judged] = {}

    def random_task(self, rng: np.random.Generator) -> Floats:
        """Other costs of the traps; goal and steps as they are."""
        return draw_task(self.weights, range(2, len(self.weights)), rng)

    def policy(self, w: Floats, risk: Risk, context: int = 0) -> MapPolicy:
        """GPI on the whole map; there is one context only."""
        _check_context(context)
        choice = self._judge(w, risk).choice
        acts = ~self.mdp.terminal
        return MapPolicy(np.where(acts, choice.policy, -1), np.where(acts, choice.source, -1))

    def cell(self, cell: int, w: Floats, risk: Risk, context: int = 0) -> Scores:
        """Why GPI does what it does in one cell; nobody acts where it is over."""
        _check_context(context)
        if not 0 <= cell < self.mdp.n_states:
            raise ValueError(f"cell must be 0 to {self.mdp.n_states - 1}, got {cell}")
        judged, weights = self._judge(w, risk), np.asarray(w, np.float64)
        mean, variance = self._of_moments(weights, slice(cell, cell + 1))
        return Scores(
            judged.values[:, cell],
            mean[:, 0],
            np.sqrt(variance[:, 0]),
            int(judged.choice.policy[cell]),
            int(judged.choice.source[cell]),
            not self.mdp.terminal[cell],
        )

    def roll_out(self, w: Floats, risk: Risk, episodes: int, seed: int, stop: Stop = lambda: False) -> MapOutcome:
        """Act from the start; the same seed gives the same chances."""
        check_request(episodes, seed)
        policy, weights = self._judge(w, risk).choice.policy, np.asarray(w, np.float64)
        if stop():
            raise Stopped
        rolled = simulate(self.mdp, policy, self.grid.start, STEPS, episodes, seed)
        lengths = np.minimum((~self.mdp.terminal[rolled.states]).sum(axis=1), STEPS)
        costly = weights[2:] < 0
        returns, failures = rolled.features @ weights, rolled.features[:, 2:][:, costly].sum(axis=1)
        paths = tuple(
            path[: length + 1].copy() for path, length in zip(rolled.states[:_PLAYED], lengths[:_PLAYED], strict=True)
        )
        visits = self.visits(policy)
        exact = {name: Interval(value, value, value) for name, value in self._acting(policy, weights, visits).items()}
        return MapOutcome(
            returns,
            failures,
            lengths,
            measures(returns, failures, lengths) | exact,
            visits,
            paths,
            tuple(np.zeros_like(path) for path in paths),
            exact=frozenset(exact),
            utilities=self.exact(weights, risk),
        )

    def _acting(self, policy: Ints, w: Floats, visits: Floats) -> dict[str, float]:
        """What a policy leads to from the start, exactly."""
        at = (self.grid.start, policy[self.grid.start])
        psi, Sigma = successor_moments(self.mdp, policy)
        costly = [name for name, cost in zip(self.grid.traps, w[2:], strict=True) if cost < 0]
        fails = [cell for cell, symbol in enumerate(self.grid.cells) if symbol in costly]
        return {
            "return": float(psi[at] @ w),
            "variance": max(float(w @ Sigma[at] @ w), 0.0),
            "failures": float(visits[fails].sum()),
            "length": float(visits[~self.mdp.terminal].sum()),
        }

    def visits(self, policy: Ints) -> Floats:
        """How often (S,) an episode of a policy (S,) is in each state, in the mean, exactly: n = e_start + P' n."""
        P = self._transitions(policy)
        begin = np.zeros(self.mdp.n_states)
        begin[self.grid.start] = 1.0
        return np.asarray(np.linalg.solve(np.eye(len(P)) - P.T, begin), np.float64)

    def exact(self, w: Floats, risk: Risk) -> dict[str, float]:
        """Utilities at the start: "GPI", "best source" and, where there is a plan for the risk, "optimum"."""
        judged, start = self._judge(w, risk), self.grid.start
        of_sources = [
            float(values[start, policy[start]]) for values, policy in zip(judged.values, self._sources, strict=True)
        ]
        of_gpi = follow(evaluate_policy(self.mdp, judged.choice.policy, w, risk), judged.choice.policy)
        found = {"GPI": float(of_gpi[start]), "best source": max(of_sources)}
        if isinstance(risk, Entropic):
            found["optimum"] = float(plan(self.mdp, w, risk).value[start])
        return found

    def _judge(self, w: Floats, risk: Risk) -> Judged:
        """The remembered (w, risk), or a new one."""
        weights = self.mdp.task(w)
        key = (weights.tobytes(), risk)
        found = self._judged.get(key)
        if found is None:
            values = self._values(weights, risk)
            found = self._judged[key] = Judged(values, gpi(values))
            for oldest in list(self._judged)[:-_KEPT]:  # a list, since another thread may ask meanwhile
                self._judged.pop(oldest, None)
        return found

    def _values(self, w: Floats, risk: Risk) -> Floats:
        if isinstance(risk, MeanVariance):
            return np.asarray(risk.moments(*self._of_moments(w, slice(None))))
        values = np.stack([evaluate_policy(self.mdp, policy, w, risk) for policy in self._sources])
        if not np.isfinite(values).all():
            raise ValueError(f"risk must be milder: at {risk!r} the utility of a source is infinite for these weights")
        return values

    def _of_moments(self, w: Floats, states: slice) -> tuple[Floats, Floats]:
        """Mean and variance (K, .., A) of every source at some states."""
        mean = np.stack([one.psi[states] @ w for one in self._moments])
        variance = np.stack([np.einsum("...ij,i,j->...", one.Sigma[states], w, w) for one in self._moments])
        return mean, np.maximum(variance, 0.0)

    def _transitions(self, policy: Ints) -> Floats:
        """P (S, S) of a policy, zero where it is over."""
        mdp, P = self.mdp, np.zeros((self.mdp.n_states, self.mdp.n_states))
        for s in np.flatnonzero(~mdp.terminal):
            row = s * mdp.n_actions + policy[s]
            entries = slice(mdp.indptr[row], mdp.indptr[row + 1])
            np.add.at(P[s], mdp.successor[entries], mdp.probability[entries])
        return P


def _layout(grid: Grid) -> Layout:
    def where(symbols: str) -> tuple[int, ...]:
        return tuple(cell for cell, symbol in enumerate(grid.cells) if symbol in symbols)

    meaning = {START: "start", GOAL: "goal"} | {name: f"trap {name}" for name in grid.traps}
    meaning |= {WALL: "wall"} if WALL in grid.cells else {}
    traps = "".join(grid.traps)
    return Layout(*grid.shape, grid.cells, meaning, grid.start, where(WALL), where(traps), where(GOAL), (), True)


def _check_context(context: int) -> None:
    if context != 0:
        raise ValueError(f"context must be 0, since nothing is collected on the grid, got {context}")
