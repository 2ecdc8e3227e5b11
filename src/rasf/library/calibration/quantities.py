"""The quantities that are predicted and realised for a query, and the scale on which their errors are comparable.

    error of mean, CVaR       (realised - predicted) / (predicted spread + typical spread)
    error of spread, costs    sqrt(realised) - sqrt(predicted)

The spread is the standard deviation of the discounted return. The typical spread is the mean spread over queries. In
shapes, c is the number of costs, and q = 3 + 2 c is the number of quantities.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rasf.arrays import Array, Floats, Ints
from rasf.library.acting.rule import ActingRule

RETURNS = ("mean", "spread", "cvar")
AN_EPISODE = " an episode"
NO_SPREAD = 1e-12  # smallest divisor of the errors of mean and CVaR, for deterministic returns, whose spread is 0
_NORMAL_CVAR = 1.7549833193  # mean of a standard normal distribution minus the mean of its worst tenth


class Quantities(NamedTuple):
    """Mean, spread and CVaR (..) of the discounted return; sums (.., c) of the c costs, discounted and undiscounted.

    In arrays (.., q), the q = 3 + 2 c quantities are in this order.
    """

    mean: Array
    spread: Array
    cvar: Array
    costs: Array
    episode_costs: Array

    @classmethod
    def read(cls, array: Floats) -> Quantities:
        """Return the quantities of an array (.., q)."""
        c = (array.shape[-1] - len(RETURNS)) // 2
        mean, spread, cvar = np.moveaxis(array[..., :3], -1, 0)
        return cls(mean, spread, cvar, array[..., 3 : 3 + c], array[..., 3 + c :])

    def array(self) -> Floats:
        """Return the quantities as an array (.., q)."""
        returns = np.stack(np.broadcast_arrays(self.mean, self.spread, self.cvar), axis=-1)
        return np.concatenate([returns, self.costs, self.episode_costs], axis=-1)


class Scale(NamedTuple):
    """The scale of errors: the typical spread of the discounted return, and the signs (c,) that make costs positive."""

    spread: float
    signs: Floats

    def width(self, predicted: Quantities) -> Array:
        """Return the divisors (..) of the errors of mean and CVaR."""
        return np.maximum(predicted.spread + self.spread, NO_SPREAD)

    def errors(self, realised: Quantities, predicted: Quantities) -> Floats:
        """Return realised minus predicted values (.., q), scaled as in the module's header."""
        width = self.width(predicted)
        return self._scaled(realised, width) - self._scaled(predicted, width)

    def outcomes(self, predicted: Quantities, errors: Floats) -> Floats:
        """Return the quantities (.., q) whose scaled differences from the predictions are `errors` (q,)."""
        width = self.width(predicted)
        scaled = Quantities.read(self._scaled(predicted, width) + errors)
        roots = (scaled.spread, scaled.costs, scaled.episode_costs)
        spread, costs, episode_costs = (np.maximum(part, 0.0) ** 2 for part in roots)
        outcomes = (scaled.mean * width, spread, scaled.cvar * width, costs * self.signs, episode_costs * self.signs)
        return Quantities(*outcomes).array()

    def _scaled(self, values: Quantities, width: Array) -> Floats:
        costs, of_episodes = (
            np.sqrt(np.maximum(part * self.signs, 0.0)) for part in (values.costs, values.episode_costs)
        )
        return Quantities(values.mean / width, np.sqrt(values.spread), values.cvar / width, costs, of_episodes).array()


def predicted_quantities(rule: ActingRule, obs: npt.NDArray[Any], costs: Ints) -> Quantities:
    """Return the predictions of a rule for episodes that begin at some observations.

    Args:
        rule: the acting rule.
        obs: first observations (B, n), each equally likely.
        costs: the indices (c,) of the features that are costs.

    Returns:
        The quantities. Undiscounted sums of costs are predicted by discounted sums.
    """
    found = rule.predict(obs, features=costs)
    mean, spread = found.overall()
    known, sums = float(np.nan_to_num(spread)), np.array([part.mean() for part in found.sums.T])
    return Quantities(mean, known, mean - _NORMAL_CVAR * known, sums, sums)
