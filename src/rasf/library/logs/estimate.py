"""Off-policy evaluation from a log: the return of a policy, with bootstrap intervals.

The counts of transitions in the log are a model (`rasf.tabular.model`). On this model, the return of a policy has an
exact mean and variance. Intervals come from a bootstrap over episodes: the episodes are drawn again with replacement,
and the same policy is evaluated on the model of each draw. An interval contains 95 % of the values of the draws. It
accounts for the sampling error, but not for the error in states and actions with little or no data. `thin` is the share
of time that the policy spends in such states.
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

FEW_TRIES = 10  # a state counts in `thin` if the policy's action was tried fewer times in this state
_LEVEL = 0.95
_ENOUGH = 1e-10  # the sum over time stops when the remaining discounted time is below this number


@dataclass(frozen=True)
class Estimate:
    """The discounted return of a policy from the start states of a log's episodes.

    Attributes:
        risk: The risk of `value`.
        value: Value of the risk measure, computed from mean and variance, with a 95 % interval.
        mean: Mean return, with a 95 % interval.
        std: Standard deviation of the return, with a 95 % interval.
        thin: Share of the discounted time spent in states where the chosen action was tried fewer than ten times.
        best_source: For a GPI policy, the value that the library predicts for the best source policy. Default: None.
    """

    risk: Risk
    value: Interval
    mean: Interval
    std: Interval
    thin: float
    best_source: float | None = None

    def __str__(self) -> str:
        best = "" if self.best_source is None else f" (best source policy {self.best_source:.4g})"
        return (
            f"value {self.value} at {risk_to_text(self.risk)}{best}, mean {self.mean}, standard deviation {self.std}; "
            f"{self.thin:.1%} of the time in states where the action was tried fewer than {FEW_TRIES} times"
        )


class LoggedModel:
    """The model of a log, and bootstrap draws of its episodes.

    Args:
        log: The log.
        settings: Settings of the model.
        resamples: Number of bootstrap draws; 0 for none.
        seed: Seed of the draws.
        max_bytes: Limit in bytes for the memory of the tables. Default: 1 GiB.

    Raises:
        ValueError: The states of the log hardly ever recur, or the tables need more than `max_bytes`.
    """

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
        self._episode = np.cumsum(log.first) - 1  # index of each transition's episode
        self._begins = self.states.row[log.first]
        rng, n = np.random.default_rng([seed, resamples]), log.episodes
        self._draws = rng.multinomial(n, np.full(n, 1 / n), size=resamples)  # how often each episode is drawn
        self._tries = self.states.tries(log)

    def _check_size(self, actions: int, d: int, max_bytes: int) -> None:
        """Raise ValueError if the tables are larger than the limit.

        For every state and action they have psi, Sigma, and counts of MOST_ENDINGS ways in which episodes terminate.
        """
        states = len(self.states.keys) + 1
        needed = 8 * states * actions * (MOST_ENDINGS + d + d * d)
        if needed > max_bytes:
            raise ValueError(
                f"the tables of {states:,} states, {actions:,} actions and {d:,} features take {needed:,} bytes, more "
                f"than max_bytes, {max_bytes:,}; number the actions of a log without gaps, or give a larger max_bytes"
            )

    def estimate(self, actions: Ints, w: Floats, risk: Risk, best_source: float | None = None) -> Estimate:
        """Return an estimate of the return of a policy.

        Args:
            actions: Actions (S + 1,) of the policy in the S states; the last entry is for the end of an episode.
            w: Weights (d,), which must be the weights of the learner's current task.
            risk: The risk of the estimate's `value`.
            best_source: The `best_source` of the estimate. Default: none.

        Returns:
            The estimate, with intervals from the bootstrap.
        """
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
        """Return the share of discounted time in states where the action was tried fewer than FEW_TRIES times."""
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
    """Return mean and variance of the return from the start states `begins`, with frequencies `times`."""
    mean, variance = feature_moments(mdp, mdp.rewards(w)[:, None], actions, None)
    first, spread = mean[begins, actions[begins], 0], variance[begins, actions[begins], 0, 0]
    weight = times / times.sum()
    whole = float(weight @ first)
    return whole, float(weight @ (spread + (first - whole) ** 2))


def _interval(found: Floats) -> Interval:
    """Return an interval from the estimate of the log (the first number) and the estimates of the bootstrap draws."""
    if len(found) == 1:
        return Interval(float(found[0]), float("nan"), float("nan"))
    low, high = np.quantile(found[1:], [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2])
    return Interval(float(found[0]), float(low), float(high))
