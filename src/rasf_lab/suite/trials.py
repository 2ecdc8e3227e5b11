"""Measures of evaluation episodes, computed in the same way for libraries and for rivals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from rasf.arrays import Floats, Ints
from rasf.library.evaluation import WORST
from rasf.statistics import mean_of_the_worst
from rasf_lab.suite.cases import Case

if TYPE_CHECKING:
    from rasf.envs.gymnasium.single import Step

TRYING = 10_000  # the smallest seed of evaluation episodes, far above the seeds of training
Trial = Mapping[str, float | Floats]  # the measures of one way to act for one weighting, by name


class Gauge:
    """A case's rule for failures. It also computes the mean over steps of `info[Case.gauge]`."""

    def __init__(self, case: Case) -> None:
        self._rule, self._name = case.failure, case.gauge
        self.total, self.steps = 0.0, 0

    def __call__(self, step: Step) -> bool:
        self.steps += 1
        self.total += 0.0 if self._name is None else float(step.info[self._name])
        return step.failure if self._rule is None else bool(self._rule(step))

    @property
    def mean(self) -> float:
        return np.nan if self._name is None else self.total / self.steps


def outcome_of(phi: Floats, failures: Floats | None, lengths: Floats | Ints, w: Floats, gauge: float) -> Trial:
    """Return the measures of an agent's episodes for one weighting.

    Args:
        phi: the sum of the d features of each of n episodes (n, d).
        failures: the number of failures in each episode (n,); None if the environment marks no failures.
        lengths: the number of steps of each episode (n,).
        w: weights (d,).
        gauge: the mean over steps of the number that `Case.gauge` names; nan without a gauge.
    """
    returns = phi @ w
    return {
        "return": returns.mean(),
        "cvar": mean_of_the_worst(returns, WORST),
        "failures": 0.0 if failures is None else failures.mean(),
        "length": float(np.mean(lengths)),
        "gauge": gauge,
        "phi": phi.mean(axis=0),
    }


def stacked(found: Sequence[Sequence[Trial]]) -> dict[str, Floats]:
    """Return arrays (ways, weightings, ..) by name, from the measures of each way to act for each weighting."""
    return {name: np.array([[one[name] for one in row] for row in found]) for name in found[0][0]}
