"""The paper's grid (Figure 1), exact: sources are planned, their utilities solved, visits those of the absorbing chain.

Total reward without discount, so utilities could be infinite; the sliders and dials are kept where none is: steps cost
something, moves slip (so that every policy ends surely), and aversion is mild enough for the expectation of
exp(beta return) to exist. Mean, variance, failure rate and length of acting are solved for, too. Only the return's
distribution, and so CVaR, is one of rollouts, for it has no short exact law; they are cut after `STEPS` moves. Visits
count the start and the last cell too: a goal's visits are the share of episodes that reach it. A failure is an end in a
trap that costs something.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from rasf.arrays import Floats, Ints
from rasf.checks import whole
from rasf.envs.grid import GOAL, START, WALL, Grid
from rasf.planning.bellman import follow
from rasf.planning.moments import successor_moments
from rasf.planning.plan import evaluate_policy, plan
from rasf.planning.simulate import simulate
from rasf.risk import Entropic, MeanVariance, Risk
from rasf.statistics import Interval
from rasf.transfer import Choice, gpe, gpi
from rasf_explorer.scenes.families import entropic, mean_variance
from rasf_explorer.scenes.scene import (
    PLAIN,
    Layout,
    MapOutcome,
    MapPolicy,
    MapScene,
    SceneScores,
    Stop,
    Stopped,
    Ways,
    Weight,
    measures,
)

STEPS = 100  # of a rollout; the chance of a longer one is far below a thousandth
_SOURCE_BETA, _SOURCE_COSTS = -0.1, (20.0, 0.0)  # Figure 1: one source fears all traps, the other none
_PLAYED = 12  # rollouts whose paths are kept
_KEPT = 16  # (w, risk) whose utilities are kept


class GridScene(MapScene):
    """See the module's header."""

    title = "The paper's grid"
    about = (
        "Two policies were planned for other trap costs; moves slip now and then, and goal and traps end the episode. "
        "All is exact but CVaR and the histogram, which come from rollouts. "
        "An end in a trap with a cost counts as a failure; a trap that costs 0 ends the episode but does not count."
    )

    def __init__(self, grid: Grid | None = None) -> None:
        self.grid = grid = grid or Grid()
        if grid.slip == 0:
            raise ValueError("grid must slip, so that every policy ends surely, got slip 0")
        self.mdp, traps = grid.mdp(), grid.traps
        meaning = {START: "start", GOAL: "goal"} | {name: f"trap {name}" for name in traps} | {WALL: "wall"}
        self.layout = Layout.of(grid.shape, grid.cells, meaning, WALL, "".join(traps), GOAL, "", hazards_end=True)
        self.weights = (
            Weight("step", -2.0, -0.1, 0.1, -1.0, drawn=False),
            Weight("goal", 0.0, 40.0, 1.0, 20.0, drawn=False),
            *(Weight(f"trap {name}", -40.0, 0.0, 1.0, -20.0 if k == 0 else 0.0) for k, name in enumerate(traps)),
        )
        self.families = (entropic(-0.2, 0.1, 0.01, -0.1), mean_variance(-0.2, 0.1, 0.01, -0.1))
        tasks = [grid.task(np.full(len(traps), cost)) for cost in _SOURCE_COSTS]
        self._sources = [plan(self.mdp, w, Entropic(_SOURCE_BETA)).policy for w in tasks]
        moments = [successor_moments(self.mdp, policy) for policy in self._sources]
        self._psi, self._Sigma = np.stack([one.psi for one in moments]), np.stack([one.Sigma for one in moments])
        self.policies = tuple(
            f"traps cost {cost:g}, the goal earns 20; entropic {_SOURCE_BETA:g}" for cost in _SOURCE_COSTS
        )
        self._remembered = lru_cache(_KEPT)(self._judge_anew)

    def policy(self, w: Floats, risk: Risk, context: int = 0, ways: Ways = PLAIN) -> MapPolicy:
        """GPI on the whole map; there is one context only."""
        self.check_place(self.layout.start, context)
        _, choice = self._judge(w, risk)
        acts = ~self.mdp.terminal
        return MapPolicy(np.where(acts, choice.policy, -1), np.where(acts, choice.source, -1))

    def cell(self, cell: int, w: Floats, risk: Risk, context: int = 0, ways: Ways = PLAIN) -> SceneScores:
        """Why GPI does what it does in one cell; nobody acts where it is over."""
        self.check_place(cell, context)
        values, choice = self._judge(w, risk)
        mean, variance = self._psi[:, cell] @ w, np.einsum("...ij,i,j->...", self._Sigma[:, cell], w, w)
        action, driver = int(choice.policy[cell]), int(choice.source[cell])
        std = np.sqrt(np.maximum(variance, 0.0))
        return SceneScores(values[:, cell], mean, std, action, driver, not self.mdp.terminal[cell])

    def roll_out(
        self, w: Floats, risk: Risk, episodes: int, seed: int, stop: Stop = lambda: False, ways: Ways = PLAIN
    ) -> MapOutcome:
        whole("episodes", episodes)
        whole("seed", seed, 0)
        policy, weights = self._judge(w, risk)[1].policy, np.asarray(w, np.float64)
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
            "return_variance": max(float(w @ Sigma[at] @ w), 0.0),
            "failures": float(visits[fails].sum()),
            "length": float(visits[~self.mdp.terminal].sum()),
        }

    def visits(self, policy: Ints) -> Floats:
        """How often (S,) an episode of a policy (S,) is in each state, in the mean, exactly: n = e_start + P' n."""
        mdp, begin = self.mdp, np.eye(self.mdp.n_states)[self.grid.start]
        indptr, entries = mdp.under_policy(policy)
        P = np.zeros((mdp.n_states, mdp.n_states))  # zero where it is over
        states = np.repeat(np.arange(mdp.n_states), np.diff(indptr))
        np.add.at(P, (states, mdp.successor[entries]), mdp.probability[entries])
        return np.asarray(np.linalg.solve(np.eye(len(P)) - P.T, begin), np.float64)

    def exact(self, w: Floats, risk: Risk) -> dict[str, float]:
        """Utilities at the start: "GPI", "best source" and, where there is a plan for the risk, "optimum"."""
        (values, choice), start = self._judge(w, risk), self.grid.start
        of_sources = [float(own[start, policy[start]]) for own, policy in zip(values, self._sources, strict=True)]
        of_gpi = follow(evaluate_policy(self.mdp, choice.policy, w, risk), choice.policy)
        found = {"GPI": float(of_gpi[start]), "best source": max(of_sources)}
        if isinstance(risk, Entropic):
            found["optimum"] = float(plan(self.mdp, w, risk).value[start])
        return found

    def _judge(self, w: Floats, risk: Risk) -> tuple[Floats, Choice]:
        """Utilities (K, S, A) of all sources on one (w, risk), and what GPI makes of them."""
        return self._remembered(tuple(self.mdp.task(w).tolist()), risk)

    def _judge_anew(self, w: tuple[float, ...], risk: Risk) -> tuple[Floats, Choice]:
        weights = np.array(w)
        if isinstance(risk, MeanVariance):
            values = np.asarray(gpe(self._psi, self._Sigma, weights, risk))
        else:
            values = np.stack([evaluate_policy(self.mdp, policy, weights, risk) for policy in self._sources])
        if not np.isfinite(values).all():
            raise ValueError(f"risk must be milder: at {risk!r} the utility of a source is infinite for these weights")
        return values, gpi(values)
