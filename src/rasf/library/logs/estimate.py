"""What a policy would earn, from a log alone, and how sure that is.

The log's counts are a model (`rasf.tabular.model`); on it the return of a policy has an exact mean and variance.
How far they would differ with another log of as many episodes: the episodes are drawn again, with replacement, and the
same policy is evaluated on the model of each draw. Intervals hold 95 % of the draws. They tell the error of sampling,
not that of states and actions which the log never saw: `thin` says how much of the time a policy would spend there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from rasf.arrays import Floats, Ints
from rasf.library.logs.log import MAX_BYTES, Log, States
from rasf.mdp import FiniteMDP
from rasf.planning.moments import feature_moments
from rasf.risk import Risk
from rasf.risk.names import risk_to_text
from rasf.statistics import Interval
from rasf.tabular.counts import MOST_ENDINGS
from rasf.tabular.model import ModelLearner
from rasf.tabular.settings import ModelSettings

FEW_TRIES = 10
_LEVEL = 0.95
_ENOUGH = 1e-10  # of the discounted time that is left


@dataclass(frozen=True)
class Estimate:
    """Mean and standard deviation of the discounted return from where the log's episodes began, and the risk's value.

    thin: the share of the (discounted) time in states where the action taken was tried fewer than ten times.
    best_source: of an `Estimate` of GPI, the value of the best source, as the library holds it.
    """

    risk: Risk
    value: Interval
    mean: Interval
    std: Interval
    thin: float
    best_source: float | None = None

    def __str__(self) -> str:
        best = "" if self.best_source is None else f" (the best source {self.best_source:.4g})"
        return (
            f"value {self.value} at {risk_to_text(self.risk)}{best}, mean {self.mean}, standard deviation {self.std}; "
            f"{self.thin:.1%} of the time where the action was tried fewer than {FEW_TRIES} times"
        )


class LoggedModel:
    """The model of a log, and of others that might as well have been recorded."""

    def __init__(
        self, log: Log, settings: ModelSettings, resamples: int, seed: int, max_bytes: int = MAX_BYTES
    ) -> None:
        self.log, self.states = log, States.of(log)
        self.states.check_recurring(log)
        known = log.environment
        self._check_size(known.n_actions, known.n_features, max_bytes)
        self.learner = ModelLearner(known.n_features, known.n_actions, settings, seed)
        rows = (self.states.row, log.actions, log.phi, self.states.next_row)
        self._outcomes = self.learner.learn_all(*rows, self.states.keys)
        self._episode = np.cumsum(log.first) - 1  # of every transition, from 0
        self._begins = self.states.row[log.first]
        rng, n = np.random.default_rng([seed, resamples]), log.episodes
        self._draws = rng.multinomial(n, np.full(n, 1 / n), size=resamples)  # how often each episode, (resamples, n)
        self._tries = self.states.tries(log)

    def _check_size(self, actions: int, d: int, max_bytes: int) -> None:
        """Refuse tables that are larger than the limit: endings, psi and Sigma of every state and action."""
        states = len(self.states.keys) + 1
        needed = 8 * states * actions * (MOST_ENDINGS + d + d * d)
        if needed > max_bytes:
            raise ValueError(
                f"the tables of {states:,} states, {actions:,} actions and {d:,} features take {needed:,} bytes, more "
                f"than max_bytes, {max_bytes:,}; number the actions of a log without gaps, or give a larger max_bytes"
            )

    def estimate(self, actions: Ints, w: Floats, risk: Risk, best_source: float | None = None) -> Estimate:
        """Of a policy (S + 1,), for the learner's task w at a risk."""
        base = self.learner.finite_mdp()
        found = [_moments(base, actions, w, self._begins, np.ones(len(self._begins)))]
        size = int(self._outcomes.max()) + 1
        for draw in self._draws:
            times = np.bincount(self._outcomes, weights=draw[self._episode], minlength=size).astype(np.int64)
            mdp = self.learner.resampled(times).finite_mdp()
            found.append(_moments(mdp, actions, w, self._begins, draw))
        mean, variance = np.array(found).T
        value = np.asarray(risk.moments(mean, variance), float)
        thin, std = self._thin(base, actions), np.sqrt(np.maximum(variance, 0.0))
        return Estimate(risk, _interval(value), _interval(mean), _interval(std), thin, best_source)

    def _thin(self, mdp: FiniteMDP, actions: Ints) -> float:
        """The share of the time where little was tried."""
        rows = np.arange(mdp.n_states) * mdp.n_actions + actions
        shape = (len(mdp.indptr) - 1, mdp.n_states)
        chain = sp.csr_array((mdp.probability, mdp.successor, mdp.indptr), shape=shape)[rows].T.tocsr()
        here = np.bincount(self._begins, minlength=mdp.n_states) / len(self._begins)
        S = len(self.states.keys)
        little = np.append(self._tries[np.arange(S), actions[:S]] < FEW_TRIES, False)
        spent = total = 0.0
        while here[:S].sum() > _ENOUGH:
            spent, total = spent + here[little].sum(), total + here[:S].sum()
            here = mdp.gamma * (chain @ here)
        return float(spent / total)


def _moments(mdp: FiniteMDP, actions: Ints, w: Floats, begins: Ints, times: Floats) -> tuple[float, float]:
    """Mean and variance of the return from states that are begun in so many times."""
    mean, variance = feature_moments(mdp, mdp.rewards(w)[:, None], actions, None)
    first, spread = mean[begins, actions[begins], 0], variance[begins, actions[begins], 0, 0]
    weight = times / times.sum()
    whole = float(weight @ first)
    return whole, float(weight @ (spread + (first - whole) ** 2))


def _interval(found: Floats) -> Interval:
    """The first is of the log itself, the others of its draws."""
    if len(found) == 1:
        return Interval(float(found[0]), float("nan"), float("nan"))
    low, high = np.quantile(found[1:], [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2])
    return Interval(float(found[0]), float(low), float(high))
