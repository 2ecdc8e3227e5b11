"""Limits: "at most 5 % failures", and what they cost.

A limit bounds the expected sum C of a feature: choose the largest V with C <= L. Its *price* is the smallest penalty
p >= 0 per unit of the feature at which the choice of the largest V - p C keeps it. Of finitely many candidates it is
found exactly by a walk along the upper hull of the points (C, V), from the best value down to the first point that
keeps the limit; the slope of the last edge is the price. Several limits take turns.

Through an episode a limit becomes a *budget*. Action a of policy i in s has the expected cost C_i(s, a). The spare part
of the budget stays spare, and in the next state

    budget' = C_i(s', pi_i(s')) + (budget - C_i(s, a)) / gamma

so that following i is always within it, and any better choice within it may be taken instead. With exact distributions
the expected cost of the episode is then at most L, and the mean return, where choices are by it, never below that of
policy i (docs/theory.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rasf.arrays import Bools, Floats, Ints
from rasf.checks import is_whole, number

_TURNS = 30  # that several limits take
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Limit:
    """A bound on the expected sum of a feature: discounted as the library's returns are, or of a whole episode.

    Costs that are counted as negative features have an `at_least`. per_episode: of the undiscounted sum, which needs a
    calibrated library.
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
        """As in the heading of a table."""
        side = ">=" if self.at_most is None else "<="
        return f"{side} {self.bound:g}" + ("/episode" if self.per_episode else "")

    def __str__(self) -> str:
        side = "at least" if self.at_most is None else "at most"
        return f"{side} {self.bound:g}" + (" an episode" if self.per_episode else "")


class Limits(NamedTuple):
    """Limits on m features of d: costs are sign times the feature, and at most so much."""

    names: tuple[str, ...]
    features: Ints  # (m,)
    signs: Floats  # (m,) 1, or -1 where the limit is at_least
    at_most: Floats  # (m,)
    given: tuple[Limit, ...]

    def costs(self, psi: Floats) -> Floats:
        """Costs (.., m) of expected features (.., d)."""
        return psi[..., self.features] * self.signs

    def prices_of(self, prices: Floats, d: int) -> Floats:
        """What prices (.., m) subtract from the weights, (.., d)."""
        taken = np.zeros((*prices.shape[:-1], d))
        for i, feature in enumerate(self.features):
            taken[..., feature] += prices[..., i] * self.signs[i]
        return taken

    def not_kept(self, costs: Floats) -> str:
        """A sentence on the limits that the costs (m,) break, or keep with too little certainty."""
        broken = []
        for name, limit, sign, cost, most in zip(self.names, self.given, self.signs, costs, self.at_most, strict=True):
            if cost > most + _ROUNDING * (1.0 + abs(most)):
                sure = cost > sign * limit.bound
                why = f"kept: the nearest is {sign * cost:.4g}" if sure else "promised: the nearest is too uncertain"
                broken.append(f"{name} {limit} cannot be {why}")
        return "; ".join(broken)


def read_limits(
    given: Mapping[str | int, float | Limit], n_features: int, names: Sequence[str] | None = None
) -> Limits:
    """Limits by the name or the index of a feature, each a number (at most so much) or a `Limit`."""
    if not isinstance(given, Mapping) or not given:
        raise ValueError(f"limits must be a dict such as {{'failure': 0.05}}, by feature, got {given!r:.80}")
    found: list[tuple[str, int, Limit]] = []
    for key, value in given.items():
        limit = value if isinstance(value, Limit) else Limit(number(f"the limit of {key}", value))
        feature = feature_index("limits", key, n_features, names)
        label = names[feature] if names else str(feature)
        found.append((label, feature, limit))
    labels, features, limits = zip(*found, strict=True)
    if len(set(features)) < len(features):
        raise ValueError(f"limits must name a feature once, got {', '.join(map(str, given))}")
    signs = np.array([1.0 if limit.at_least is None else -1.0 for limit in limits])
    return Limits(labels, np.array(features), signs, signs * [limit.bound for limit in limits], limits)


def feature_index(name: str, key: object, n_features: int, names: Sequence[str] | None) -> int:
    """Return the index of a feature that is given by its name, its index, or its index as text.

    Where there is no such feature, the refusal names the argument `name`.
    """
    if names and isinstance(key, str) and key in names:
        return list(names).index(key)
    if isinstance(key, str) and key.isascii() and key.isdigit():
        key = int(key)
    if is_whole(key) and 0 <= key < n_features:
        return int(key)
    known = f"one of {', '.join(names)}, or " if names else ""
    raise ValueError(f"{name} must be on a feature, {known}a number from 0 to {n_features - 1}, got {key!r}")


def repriced(w: Floats, prices: Mapping[str | int, float], names: Sequence[str] | None = None) -> Floats:
    """Return the weights w - prices (d,), finite or not, of a task in which units of some features cost more.

    prices: by a feature's name or index, what a unit of it costs in addition. A cost that is counted below zero, such
    as -1 for a collision, has a negative price. names: of the features, if they have any.
    """
    if not isinstance(prices, Mapping) or not prices:
        raise ValueError(f"prices must be a dict such as {{'collision': 4}}, by feature, got {prices!r:.80}")
    features = [feature_index("prices", key, len(w), names) for key in prices]
    if len(set(features)) < len(features):
        raise ValueError(f"prices must name a feature once, got {', '.join(map(str, prices))}")
    dearer = w.copy()
    for feature, (key, price) in zip(features, prices.items(), strict=True):
        dearer[feature] -= number(f"the price of {key}", price)
    return dearer


class Choices(NamedTuple):
    """For B choices: which candidate (B,), and whether (B,) the limits are kept."""

    chosen: Ints
    kept: Bools


def best_within(values: Floats, costs: Floats, at_most: Floats) -> Choices:
    """Return the best of N candidates that keeps the limits at_most (B, m), or the nearest to that.

    values: (B, N); candidates of -inf take no part, and where all are -inf the first is chosen. costs: (B, N, m); a
    cost that is not a number keeps no limit. Candidates of equal value go to the lower cost, and then to the first.
    Plain numpy: most calls are for one observation, and a compiled loop would take seconds to compile at the first.
    """
    usable, excess = values > -np.inf, _excess(values, costs, at_most)
    least = excess.min(axis=1, keepdims=True)
    best = usable & (excess == least)
    best &= values == np.where(best, values, -np.inf).max(axis=1, keepdims=True)
    kept = least[:, 0] == 0
    chosen = np.where(best, np.where(kept[:, None], costs.sum(axis=-1), 0.0), np.inf).argmin(axis=1)
    return Choices(chosen, kept | ~usable.any(axis=1))


def prices_within(values: Floats, costs: Floats, at_most: Floats) -> Floats:
    """Return the prices (B, m) of limits, the smallest at which the best of value - prices . cost keeps them.

    Arguments are as for `best_within`. Where no prices keep the limits, those at which the best candidate is as near as
    can be.
    """
    B, _, m = costs.shape
    prices, moved = np.zeros((B, m)), _excess(values, costs, at_most).min(axis=1) < np.inf
    with np.errstate(invalid="ignore"):  # of candidates that take no part
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
    """By how much candidates (B, N) break the limits, in all; inf of those that take no part."""
    over = costs - (at_most + _ROUNDING * (1.0 + np.abs(at_most)))[:, None]
    broken = np.where(np.isnan(over), np.inf, np.maximum(over, 0.0)).sum(axis=-1)
    return np.where(values > -np.inf, broken, np.inf)


def _one_price(v: Floats, c: Floats, at_most: Floats) -> Floats:
    """Down the hull of points (B, N) from the best value, to the first within the limit (B,) or the least cost."""
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
