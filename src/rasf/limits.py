"""Limits such as "at most 5 % failures", and their prices.

A limit L bounds the expected sum C of a feature: the best choice has the largest value V among the choices with C <= L.
The *price* of the limit is the smallest penalty p >= 0 per unit of the feature at which the choice with the largest
V - p C keeps the limit. For finitely many candidates the price is found exactly by a walk along the upper hull of the
points (C, V), from the point with the largest V to the first point with C <= L. The slope of the last edge is the
price. With several limits, the prices are computed in turn, while the other prices are fixed, until no price changes.

Within an episode a limit becomes a *budget*, the largest allowed expected cost of the remaining episode. Let C_i(s, a)
be the expected cost if action a is taken in state s and policy i acts from then on, with actions pi_i. If the action a
of policy i is taken and s' is the next state, the unused part of the budget is carried over:

    budget' = C_i(s', pi_i(s')) + (budget - C_i(s, a)) / gamma

So policy i is always within the budget. Another action with a higher score is taken if its cost is within the budget
too. With exact distributions the expected cost of the episode is then at most L. If choices are by the mean return, the
mean return of the episode is at least the mean return predicted for the first choice (docs/theory.md).

Shapes: d features, m limits, B choices (one for each observation), N candidates of a choice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rasf.arrays import Bools, Floats, Ints
from rasf.checks import is_whole, number

_TURNS = 30  # largest number of rounds, in each of which every price is computed once
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Limit:
    """A bound on the expected sum of a feature, discounted like the library's returns, or undiscounted.

    Exactly one of `at_most` and `at_least` must be given.

    Attributes:
        at_most: The largest accepted expected sum. Default: none.
        at_least: The smallest accepted expected sum, for a cost whose feature is 0 or negative, such as -1 for a
            collision. Default: none.
        per_episode: Whether the limit is on the undiscounted sum of an episode, which needs a calibrated library.
            Default: False.
    """

    at_most: float | None = None
    at_least: float | None = None
    per_episode: bool = False

    def __post_init__(self) -> None:
        if (self.at_most is None) == (self.at_least is None):
            raise ValueError("a limit must have either at_most or at_least")
        number("a limit", self.at_least if self.at_most is None else self.at_most)
        if not isinstance(self.per_episode, bool | np.bool_):
            raise ValueError(f"per_episode must be True or False, got {self.per_episode!r:.80}")

    @property
    def bound(self) -> float:
        return float(self.at_least if self.at_most is None else self.at_most)  # type: ignore[arg-type]

    def short(self) -> str:
        """Return the limit as text for a table's heading, such as "<= 0.05"."""
        side = ">=" if self.at_most is None else "<="
        return f"{side} {self.bound:g}" + ("/episode" if self.per_episode else "")

    def __str__(self) -> str:
        side = "at least" if self.at_most is None else "at most"
        return f"{side} {self.bound:g}" + (" an episode" if self.per_episode else "")


class Limits(NamedTuple):
    """Checked limits on m of d features. `at_most` bounds costs. A cost is sign times the expected sum of a feature."""

    names: tuple[str, ...]
    features: Ints  # (m,) indices of the limited features
    signs: Floats  # (m,) 1, or -1 where the limit is at_least
    at_most: Floats  # (m,) largest accepted costs
    given: tuple[Limit, ...]

    def costs(self, psi: Floats) -> Floats:
        """Return costs (.., m), given expected sums of features (.., d)."""
        return psi[..., self.features] * self.signs

    def prices_of(self, prices: Floats, d: int) -> Floats:
        """Return the amounts (.., d) by which the prices (.., m) of the m limited features reduce the weights."""
        taken = np.zeros((*prices.shape[:-1], d))
        for i, feature in enumerate(self.features):
            taken[..., feature] += prices[..., i] * self.signs[i]
        return taken

    def not_kept(self, costs: Floats) -> str:
        """Return a sentence on the limits that the costs (m,) exceed, or "" if they exceed none.

        Calibration lowers `at_most` below the given limits. A cost between both is reported as not guaranteed.
        """
        broken = []
        for name, limit, sign, cost, most in zip(self.names, self.given, self.signs, costs, self.at_most, strict=True):
            if cost > most + _ROUNDING * (1.0 + abs(most)):
                sure = cost > sign * limit.bound
                nearest = f"kept: the nearest attainable sum is {sign * cost:.4g}"
                why = nearest if sure else "guaranteed: the nearest attainable sum is too uncertain"
                broken.append(f"{name} {limit} cannot be {why}")
        return "; ".join(broken)


def read_limits(
    given: Mapping[str | int, float | Limit], n_features: int, names: Sequence[str] | None = None
) -> Limits:
    """Return checked limits.

    Args:
        given: The largest expected sum or a `Limit` for each limited feature, by name or index.
        n_features: The number d of features.
        names: The names of the features, if they have any. Default: none.
    """
    if not isinstance(given, Mapping) or not given:
        raise ValueError(f"limits must be a dict by feature, such as {{'failure': 0.05}}, got {given!r:.80}")
    found: list[tuple[str, int, Limit]] = []
    for key, value in given.items():
        limit = value if isinstance(value, Limit) else Limit(number(f"the limit of {key}", value))
        feature = feature_index("limits", key, n_features, names)
        label = names[feature] if names else str(feature)
        found.append((label, feature, limit))
    labels, features, limits = zip(*found, strict=True)
    if len(set(features)) < len(features):
        raise ValueError(f"limits must name each feature only once, got {', '.join(map(str, given))}")
    signs = np.array([1.0 if limit.at_least is None else -1.0 for limit in limits])
    return Limits(labels, np.array(features), signs, signs * [limit.bound for limit in limits], limits)


def feature_index(name: str, key: object, n_features: int, names: Sequence[str] | None) -> int:
    """Return the index of a feature that is given by its name, its index, or its index as text.

    `name` is the name of the argument in the error.
    """
    if names and isinstance(key, str) and key in names:
        return list(names).index(key)
    if isinstance(key, str) and key.isascii() and key.isdigit():
        key = int(key)
    if is_whole(key) and 0 <= key < n_features:
        return int(key)
    known = f"one of {', '.join(names)}, or " if names else ""
    raise ValueError(f"{name} must name a feature: {known}a number from 0 to {n_features - 1}, got {key!r}")


def repriced(w: Floats, prices: Mapping[str | int, float], names: Sequence[str] | None = None) -> Floats:
    """Return the weights (d,) of a task after prices on some features are subtracted. The result may be infinite.

    Args:
        w: The weights (d,).
        prices: The additional cost of one unit of a feature, by the feature's name or index. The price of a feature
            with negative values, such as -1 for a collision, is negative.
        names: The names of the features, if they have any. Default: none.
    """
    if not isinstance(prices, Mapping) or not prices:
        raise ValueError(f"prices must be a dict by feature, such as {{'collision': 4}}, got {prices!r:.80}")
    features = [feature_index("prices", key, len(w), names) for key in prices]
    if len(set(features)) < len(features):
        raise ValueError(f"prices must name each feature only once, got {', '.join(map(str, prices))}")
    dearer = w.copy()
    for feature, (key, price) in zip(features, prices.items(), strict=True):
        dearer[feature] -= number(f"the price of {key}", price)
    return dearer


class Choices(NamedTuple):
    """The indices (B,) of the chosen candidates, and whether the chosen candidates keep the limits (B,)."""

    chosen: Ints
    kept: Bools


def best_within(values: Floats, costs: Floats, at_most: Floats) -> Choices:
    """Choose the best of the N candidates that keep the limits; if none does, the one that exceeds the limits least.

    The excesses over several limits are added.
    Ties in value go to the lower cost, then to the lower index. This is plain numpy, because most calls are for one
    observation, and a compiled loop would take seconds to compile at the first call.

    Args:
        values: Values (B, N). Candidates with value -inf are excluded. If all are excluded, the first is chosen.
        costs: Costs (B, N, m). A cost of nan keeps no limit.
        at_most: Limits (B, m).
    """
    usable, excess = values > -np.inf, _excess(values, costs, at_most)
    least = excess.min(axis=1, keepdims=True)
    best = usable & (excess == least)
    best &= values == np.where(best, values, -np.inf).max(axis=1, keepdims=True)
    kept = least[:, 0] == 0
    chosen = np.where(best, np.where(kept[:, None], costs.sum(axis=-1), 0.0), np.inf).argmin(axis=1)
    return Choices(chosen, kept | ~usable.any(axis=1))


def prices_within(values: Floats, costs: Floats, at_most: Floats) -> Floats:
    """Return the prices (B, m) of limits.

    These are the smallest prices at which the candidate with the largest net value keeps the limits. The net value is
    the value minus prices . costs. If no prices keep the limits, the prices are those at which the candidate with the
    largest net value exceeds the limits least. Arguments are as for `best_within`.
    """
    B, _, m = costs.shape
    prices, moved = np.zeros((B, m)), _excess(values, costs, at_most).min(axis=1) < np.inf
    with np.errstate(invalid="ignore"):  # the net value of an excluded candidate may be nan
        for _ in range(_TURNS if m > 1 else 1):
            rows, before = np.flatnonzero(moved), prices[moved]
            if not len(rows):
                break
            for k in range(m):
                prices[rows, k] = 0.0
                charged = values[rows] - (costs[rows] @ prices[rows, :, None])[..., 0]
                prices[rows, k] = _one_price(charged, costs[rows, :, k], at_most[rows, k])
            moved[rows] = (np.abs(prices[rows] - before) > 1e-9 * (np.abs(before) + 1e-9)).any(axis=1)
    return prices


def _excess(values: Floats, costs: Floats, at_most: Floats) -> Floats:
    """Return by how much each candidate exceeds all limits together (B, N); inf for excluded candidates."""
    over = costs - (at_most + _ROUNDING * (1.0 + np.abs(at_most)))[:, None]
    broken = np.where(np.isnan(over), np.inf, np.maximum(over, 0.0)).sum(axis=-1)
    return np.where(values > -np.inf, broken, np.inf)


def _one_price(v: Floats, c: Floats, at_most: Floats) -> Floats:
    """Return the prices (B,) of one limit (B,), given values v and costs c (B, N).

    The walk along the hull of the points (c, v) goes from the best value to the first point within the limit. If no
    point is within the limit, the walk goes to the lowest cost.
    """
    most = at_most + _ROUNDING * (1.0 + np.abs(at_most))
    v = np.where(np.isnan(c) | np.isnan(v), -np.inf, v)
    here = np.where(v == v.max(axis=1, keepdims=True), c, np.inf).argmin(axis=1)
    price, walking = np.zeros(len(v)), np.arange(len(v))
    while True:
        walking = walking[c[walking, here[walking]] > most[walking]]
        if not len(walking):
            return price
        values, costs, at = v[walking], c[walking], here[walking, None]
        drop, less = (np.take_along_axis(part, at, axis=1) - part for part in (values, costs))
        down = (less > 0) & (values > -np.inf)
        slopes = np.where(down, drop / np.where(down, less, 1.0), np.inf)
        flattest = slopes.min(axis=1)
        there = np.where(slopes == flattest[:, None], costs, np.inf).argmin(axis=1)
        on = np.isfinite(flattest)
        walking = walking[on]
        here[walking], price[walking] = there[on], np.maximum(flattest[on], 0.0)
