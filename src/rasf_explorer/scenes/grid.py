"""The paper's grid (Figure 1), computed exactly. Source policies are planned, and linear systems give utilities and
visits.

The reward is undiscounted, so utilities could be infinite. The ranges of sliders and dials exclude infinite utilities:
each step has a cost, moves slip (so that every policy terminates with probability 1), and aversion is mild enough for
the expectation of exp(beta return) to exist. Mean, variance, failure rate and length of episodes are also exact. Only
the distribution of the return has no simple exact form, so CVaR is estimated from rollouts. Rollouts are truncated
after `STEPS` moves. Visits include the start and the last cell, so the visits of a goal are the share of episodes that
reach the goal. A failure is an episode that ends in a trap with a cost.

Shapes: S states (the cells), K source policies, A actions.
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

STEPS = 100  # largest length of a rollout; the probability of a longer episode is far below 0.001
_SOURCE_BETA, _SOURCE_COSTS = -0.1, (20.0, 0.0)  # Figure 1: traps cost 20 for the first source policy, 0 for the second
_PLAYED = 12  # number of rollouts whose paths are kept
_KEPT = 16  # number of pairs (w, risk) whose utilities are cached


class GridScene(MapScene):
    """The scene of the paper's grid; see the module's header."""

    title = "The paper's grid"
    about = (
        "Two source policies were planned for fixed trap costs. Moves slip at random; the goal and the traps end the "
        "episode. All numbers are exact except CVaR and the histogram, which come from rollouts. "
        "A trap with a cost counts as a failure; a trap that costs 0 ends the episode but does not count."
    )

    def __init__(self, grid: Grid | None = None) -> None:
        self.grid = grid = grid or Grid()
        if grid.slip == 0:
            raise ValueError("grid must have slip above 0, so that every policy terminates, got slip 0")
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
        self._cached_scores = lru_cache(_KEPT)(self._compute_scores)

    def policy(self, w: Floats, risk: Risk, context: int = 0, ways: Ways = PLAIN) -> MapPolicy:
        """Return GPI's choice in every cell; the only context is 0."""
        self.check_place(self.layout.start, context)
        _, choice = self._scores(w, risk)
        acts = ~self.mdp.terminal
        return MapPolicy(np.where(acts, choice.policy, -1), np.where(acts, choice.source, -1))

    def cell(self, cell: int, w: Floats, risk: Risk, context: int = 0, ways: Ways = PLAIN) -> SceneScores:
        """Return the scores in one cell. `seen` is False in cells that end the episode."""
        self.check_place(cell, context)
        values, choice = self._scores(w, risk)
        mean, variance = self._psi[:, cell] @ w, np.einsum("...ij,i,j->...", self._Sigma[:, cell], w, w)
        action, driver = int(choice.policy[cell]), int(choice.source[cell])
        std = np.sqrt(np.maximum(variance, 0.0))
        return SceneScores(values[:, cell], mean, std, action, driver, not self.mdp.terminal[cell])

    def roll_out(
        self, w: Floats, risk: Risk, episodes: int, seed: int, stop: Stop = lambda: False, ways: Ways = PLAIN
    ) -> MapOutcome:
        whole("episodes", episodes)
        whole("seed", seed, 0)
        policy, weights = self._scores(w, risk)[1].policy, np.asarray(w, np.float64)
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
        """Return the exact measures of a policy's episodes, given its actions (S,) and its visits (S,)."""
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
        """Return the exact mean number of visits n (S,) of each state in an episode.

        The visits solve n = e + P^T n. e is 1 at the start and 0 elsewhere, and P is the policy's transition matrix.
        """
        mdp, begin = self.mdp, np.eye(self.mdp.n_states)[self.grid.start]
        indptr, entries = mdp.under_policy(policy)
        P = np.zeros((mdp.n_states, mdp.n_states))  # rows of terminal states stay zero
        states = np.repeat(np.arange(mdp.n_states), np.diff(indptr))
        np.add.at(P, (states, mdp.successor[entries]), mdp.probability[entries])
        return np.asarray(np.linalg.solve(np.eye(len(P)) - P.T, begin), np.float64)

    def exact(self, w: Floats, risk: Risk) -> dict[str, float]:
        """Return the utilities of the start by name: "GPI", "best source" and, for an entropic risk, "optimum"."""
        (values, choice), start = self._scores(w, risk), self.grid.start
        of_sources = [float(own[start, policy[start]]) for own, policy in zip(values, self._sources, strict=True)]
        of_gpi = follow(evaluate_policy(self.mdp, choice.policy, w, risk), choice.policy)
        found = {"GPI": float(of_gpi[start]), "best source": max(of_sources)}
        if isinstance(risk, Entropic):
            found["optimum"] = float(plan(self.mdp, w, risk).value[start])
        return found

    def _scores(self, w: Floats, risk: Risk) -> tuple[Floats, Choice]:
        """Return utilities (K, S, A) of all source policies for one (w, risk), and GPI's choice."""
        return self._cached_scores(tuple(self.mdp.task(w).tolist()), risk)

    def _compute_scores(self, w: tuple[float, ...], risk: Risk) -> tuple[Floats, Choice]:
        weights = np.array(w)
        if isinstance(risk, MeanVariance):
            values = np.asarray(gpe(self._psi, self._Sigma, weights, risk))
        else:
            values = np.stack([evaluate_policy(self.mdp, policy, weights, risk) for policy in self._sources])
        if not np.isfinite(values).all():
            what = f"at {risk!r} the utility of a source policy is infinite for these weights"
            raise ValueError(f"risk must be milder: {what}")
        return values, gpi(values)
