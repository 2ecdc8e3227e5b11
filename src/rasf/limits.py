"""Limits: "at most 5 % failures", and what they cost.

A limit bounds the expected sum C of a feature: choose the largest V with C <= L. It has a *price*, the smallest p >= 0
for which the choice of the largest V - p C keeps it: what a unit of the feature is worth to who has to keep to it. Of
finitely many candidates it is found exactly by a walk along the upper hull of the points (C, V), from the best value
down to the first point that keeps the limit; the slope of the last edge is the price. Several limits take turns.

Through an episode a limit becomes a *budget*. Whoever takes action a of policy i in s expects the cost C_i(s, a); what
the budget has to spare stays spare, and in the next state

    budget' = C_i(s', pi_i(s')) + (budget - C_i(s, a)) / gamma

so that following i always is within it, and anything better that is within it may be taken instead. With exact laws the
expected cost of the episode is then at most L, and the mean return, where choices are by it, never below that of policy
i (docs/theory.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rasf.arrays import Bools, Floats, Ints
from rasf.checks import is_whole, number
from rasf.compiled import compiled

_TURNS = 30  # that several limits take
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Limit:
    """A bound on the expected sum of a feature: discounted as the library's laws are, or of a whole episode.

    Costs that are counted as negative features have an `at_least`. per_episode: of the plain sum, which laws do not
    know; a library that was calibrated does.
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
        """The number itself."""
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
        """What prices (.., m) take from the weights, (.., d)."""
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
        feature = _feature(key, n_features, names)
        label = names[feature] if names else str(feature)
        found.append((label, feature, limit))
    labels, features, limits = zip(*found, strict=True)
    if len(set(features)) < len(features):
        raise ValueError(f"limits must name a feature once, got {', '.join(map(str, given))}")
    signs = np.array([1.0 if limit.at_least is None else -1.0 for limit in limits])
    return Limits(labels, np.array(features), signs, signs * [limit.bound for limit in limits], limits)


def _feature(key: object, n_features: int, names: Sequence[str] | None) -> int:
    if names and isinstance(key, str) and key in names:
        return list(names).index(key)
    if isinstance(key, str) and key.isascii() and key.isdigit():
        key = int(key)
    if is_whole(key) and 0 <= int(key) < n_features:  # type: ignore[call-overload]
        return int(key)  # type: ignore[call-overload]
    known = f"one of {', '.join(names)}, or " if names else ""
    raise ValueError(f"limits must be on a feature, {known}a number from 0 to {n_features - 1}, got {key!r}")


class Choices(NamedTuple):
    """For B choices: which candidate (B,), the prices (B, m), and whether (B,) the limits are kept."""

    chosen: Ints
    prices: Floats
    kept: Bools


def best_within(values: Floats, costs: Floats, at_most: Floats) -> Choices:
    """Of N candidates, values (B, N) and costs (B, N, m), the best that keeps limits (B, m), or the nearest to that.

    The prices are the smallest at which the best of value - prices . cost keeps the limits; where that cannot be, at
    which it is as near as can be. Candidates whose value is -inf take no part; where all are, the first is chosen.
    """
    B, _, m = costs.shape
    chosen, prices, kept = np.zeros(B, np.int64), np.zeros((B, m)), np.zeros(B, np.bool_)
    given = (np.ascontiguousarray(part, np.float64) for part in (values, costs, at_most))
    _choose(*given, chosen, prices, kept)
    return Choices(chosen, prices, kept)


@compiled()
def _choose(values: Floats, costs: Floats, at_most: Floats, chosen: Ints, prices: Floats, kept: Bools) -> None:
    for b in range(len(values)):
        v, c, most, price = values[b], costs[b], at_most[b], prices[b]
        best, nearest, least, some = -1, 0, np.inf, False
        for j in range(len(v)):
            if v[j] == -np.inf:
                continue
            some = True
            excess = 0.0
            for k in range(len(most)):
                over = c[j, k] - most[k] - _ROUNDING * (1.0 + abs(most[k]))
                excess += 0.0 if over <= 0.0 else over if over > 0.0 else np.inf  # what is not a number is not kept
            if excess == 0.0 and (best < 0 or v[j] > v[best] or (v[j] == v[best] and c[j].sum() < c[best].sum())):
                best = j
            if excess < least or (excess == least and v[j] > v[nearest]):
                nearest, least = j, excess
        chosen[b], kept[b] = (best, True) if best >= 0 else (nearest, not some)
        turn, moved = 0, least < np.inf
        while moved and turn < (_TURNS if len(most) > 1 else 1):
            moved, turn = False, turn + 1
            for k in range(len(most)):
                before, price[k] = price[k], 0.0
                price[k] = _one_price(v - c @ price, c[:, k], most[k])
                moved = moved or abs(price[k] - before) > 1e-9 * (abs(before) + 1e-9)


@compiled(forceinline=True)
def _one_price(v: Floats, c: Floats, at_most: float) -> float:
    """Down the hull from the best value, to the first point within the limit or to the least cost."""
    here, price = 0, 0.0
    for j in range(1, len(v)):
        if v[j] > v[here] or (v[j] == v[here] and c[j] < c[here]):
            here = j
    while c[here] > at_most + _ROUNDING * (1.0 + abs(at_most)):
        there, flattest = -1, np.inf
        for j in range(len(v)):
            if c[j] < c[here] and v[j] > -np.inf:
                slope = (v[here] - v[j]) / (c[here] - c[j])
                if slope < flattest or (slope == flattest and c[j] < c[there]):
                    there, flattest = j, slope
        if there < 0 or not np.isfinite(flattest):
            break
        here, price = there, max(flattest, 0.0)
    return price
