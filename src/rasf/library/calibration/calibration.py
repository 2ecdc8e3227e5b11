"""`Calibration`: how far predictions and realised outcomes of a library are apart, and bounds that allow for it.

A *query* is a task, a risk and perhaps a limit. At the first observations of its episodes the selected policy predicts
mean, spread and CVaR of the discounted return, and sums of the features that are costs. Some episodes give outcomes.
Predictions are off because acting switches between policies, which they do not know of, because the choice of the best
prediction is biased upwards, and because return distributions are learned. Errors are compared on one scale
(`quantities.py`), and bounds are their order statistics (`bounds.py`). With fewer than 19 queries the worst error is
taken, and a remark says so.

The expected value is the prediction corrected by the median error: the same order statistic at 50 %, so it lies within
its bounds, which a raw prediction that is always too high does not. Where predictions are off on average, by more than
chance and by enough to matter, a sentence says by how much and what to try.

Each risk has bounds of its own, since strong aversion chooses spreads that are too small. Between two risks the wider
bounds hold, and beyond all of them there is a remark.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rasf.arrays import Bools, Floats, Ints
from rasf.checks import number, whole
from rasf.files import Arrays, Header
from rasf.library.acting.rule import ActingRule
from rasf.library.calibration.bounds import (
    AT_LEAST,
    AT_THE_LEVEL,
    LEVEL,
    Bound,
    Bounds,
    bounds_of_errors,
    enough,
    shrunk,
)
from rasf.library.calibration.quantities import AN_EPISODE, NO_SPREAD, RETURNS, Quantities, Scale, predicted_quantities
from rasf.library.evaluation import aligned
from rasf.limits import Limits
from rasf.risk import CVaR, Entropic, MeanVariance, Risk
from rasf.risk.names import is_neutral, risk_to_text, stored_risk

_STRICT = 0.975  # limits are tightened to this level, so that 95 % are kept despite sampling noise
_LIMITED = "within limits"
_OFF_SPREADS, _OFF_TIMES = 0.25, 1.5  # how far predictions may be off: of returns, in spreads; of others, as a factor
_NEGLIGIBLE = 0.02  # an error of predictions, in units of returns or costs
_TRY = (
    "what may help: more steps_per_task, tasks nearer to those that are asked for, n_step=1 for networks (returns of "
    "several steps are partly those of other policies), a gamma whose 1 / (1 - gamma) steps cover an episode; bounds "
    "and expectations allow for these errors"
)
_TRY_GAMMA = (
    "sums of an episode are predicted by discounted ones: a gamma whose 1 / (1 - gamma) steps cover an episode brings "
    "both together; bounds and expectations allow for the difference"
)


class _Errors(NamedTuple):
    """Lower and upper bounds of errors and their middle, (q,) each; and remarks on them."""

    low: Floats
    high: Floats
    middle: Floats
    remarks: tuple[str, ...]


@dataclass(frozen=True, repr=False)
class Calibration:
    """J queries with predictions and realised outcomes, (J, q) each, and the bounds that follow.

    costs: the features that are costs, each once discounted and once of the whole episode; signs: how they count.
    spread: a typical one of the discounted return. error: what chance does to the outcomes, on the scale of errors.
    """

    risks: tuple[str, ...]  # of the queries
    limited: Bools  # (J,)
    w: Floats  # (J, d)
    predicted: Floats
    realised: Floats
    error: Floats
    names: tuple[str, ...]  # of the costs
    costs: Ints  # (c,)
    signs: Floats  # (c,)
    spread: float
    episodes: int
    seed: int

    @property
    def quantities(self) -> tuple[str, ...]:
        """The names of the q quantities."""
        costs = [f"feature {name}" if name in RETURNS else name for name in self.names]
        return (*RETURNS, *costs, *(f"{name}{AN_EPISODE}" for name in costs))

    @property
    def covered(self) -> tuple[str, ...]:
        """The risks that were calibrated."""
        return tuple(dict.fromkeys(self.risks))

    def __repr__(self) -> str:
        return f"<Calibration: {len(self.risks)} asks of {', '.join(self.covered)}, {self.episodes} episodes in all>"

    def groups(self) -> dict[str, Bools]:
        """Which queries (J,) have bounds of their own: those of each risk, and those within limits."""
        each = {risk: (np.array(self.risks) == risk) & ~self.limited for risk in self.covered}
        found = each | {_LIMITED: self.limited}
        return {name: mask for name, mask in found.items() if mask.sum() > 1}

    @property
    def _scale(self) -> Scale:
        return Scale(self.spread, self.signs)

    @cached_property
    def _errors(self) -> Floats:
        """The errors (J, q) of the predictions."""
        return self._scale.errors(Quantities.read(self.realised), Quantities.read(self.predicted))

    @cached_property
    def _bounds(self) -> dict[tuple[float, str], tuple[Floats, Floats]]:
        """Lower and upper bound (q,) of the errors, by level and group."""
        return {
            (level, name): bounds_of_errors(self._errors[mask], self.error[mask], level)
            for name, mask in self.groups().items()
            for level in (LEVEL, _STRICT)
        }

    def bounds_of(self, rule: ActingRule, obs: npt.NDArray[Any]) -> Bounds:
        """Return the bounds for acting by a rule from observations (B, n) on, on average over them."""
        predicted = predicted_quantities(rule, obs, self.costs)
        errors = self._errors_of(rule.risk, rule.limits is not None)
        remarks = errors.remarks
        if not rule.per_state:
            remarks = (*remarks, "it was calibrated with risks scored afresh at every step, which this is not")
        ends = np.sort([self._scale.outcomes(predicted, part) for part in (errors.low, errors.high)], axis=0)
        expected = np.clip(self._scale.outcomes(predicted, errors.middle), *ends)  # rounding
        bounds = (Bound(float(mean), *map(float, pair)) for mean, pair in zip(expected, ends.T, strict=True))
        return Bounds(dict(zip(self.quantities, bounds, strict=True)), remarks)

    def bounds(self, group: str) -> Floats:
        """The bounds (J, q) of a group at its predictions, on the side that matters."""
        predicted = Quantities.read(self.predicted)
        low, high = (self._scale.outcomes(predicted, part) for part in self._bounds[LEVEL, group])
        return np.where(np.isin(self.quantities, AT_LEAST), low, high)

    def _errors_of(self, risk: Risk, limited: bool, sure: float = LEVEL) -> _Errors:
        """The bounds of the errors for a risk: its own, or the widest of those next to it."""
        asked, groups = risk_to_text(risk), self.groups()
        known = [text for text in self.covered if text in groups] or list(groups)
        kind, level = _kind(risk)
        levels = {text: own for text in known for of, own in [_kind(stored_risk(text))] if of is kind or own == 0.0}
        remarks: tuple[str, ...] = ()
        if limited and _LIMITED in groups:
            chosen = [_LIMITED]  # of all risks together: errors are those of what a limit selects
            if not _between(level, levels.values()):
                remarks = (
                    f"{asked} within limits was not calibrated: the bounds are those of other risks within limits",
                )
        elif asked in known:
            chosen = [asked]
        elif not any(own != 0.0 for own in levels.values()):  # nothing of its kind
            chosen = known
            remarks = (f"{asked} was not calibrated: the widest bounds of {', '.join(known)} are shown",)
        else:
            least, most = min(levels.values()), max(levels.values())
            near = {max((own for own in levels.values() if own <= level), default=least)}
            near |= {min((own for own in levels.values() if own >= level), default=most)}
            chosen = [text for text, own in levels.items() if own in near]
            if not _between(level, levels.values()):
                ends = " to ".join(sorted(levels, key=lambda text: levels[text])[:: max(1, len(levels) - 1)])
                remarks = (f"{asked} lies beyond what was calibrated, {ends}: bounds are those of the end",)
        fewest = min(int(groups[text].sum()) for text in chosen)
        if fewest < enough(sure):
            asks = f"only {fewest} asks of {', '.join(chosen)} were tried"
            remarks = (*remarks, f"{asks}, and {sure:.1%} need {enough(sure)}: the bounds are those of the worst")
        low, high = zip(*(self._bounds[sure, text] for text in chosen), strict=True)
        middles = [np.median(shrunk(self._errors[groups[text]], self.error[groups[text]]), axis=0) for text in chosen]
        return _Errors(np.min(low, axis=0), np.max(high, axis=0), np.mean(middles, axis=0), remarks)

    def tightened(self, limits: Limits, risk: Risk, gamma: float) -> Limits:
        """The limits on predictions that keep limits on outcomes; features that are not calibrated stay as they are."""
        high = Quantities.read(self._errors_of(risk, True, _STRICT).high)
        at_most, features = limits.at_most.copy(), self.costs.tolist()
        for k, (feature, limit) in enumerate(zip(limits.features.tolist(), limits.given, strict=True)):
            if feature not in features or limits.signs[k] != self.signs[features.index(feature)]:
                if limit.per_episode and gamma < 1:
                    raise ValueError(f"{limits.names[k]} an episode was not calibrated: its limit must be discounted")
                continue
            errors = high.episode_costs if limit.per_episode else high.costs
            root = np.sqrt(max(at_most[k], 0.0)) - errors[features.index(feature)]
            at_most[k] = root**2 if root >= 0 else -1.0  # no prediction is low enough
        return limits._replace(at_most=at_most)

    def rows(self) -> list[list[str]]:
        """A table: by risk, means of predictions and outcomes over its queries, and how many keep their bound.

        The bound of a query is that of all others.
        """
        body = []
        for name, mask in self.groups().items():
            means = zip(self.predicted[mask].T, self.realised[mask].T, strict=True)
            for quantity, each, kept in zip(self.quantities, means, self.coverage(mask), strict=True):
                shown = (f"{part.copy().mean():.4g}" for part in each)
                body.append([name, quantity, str(int(mask.sum())), *shown, f"{kept:.0%}"])
        return [["acting", "quantity", "asks", "predicted", "realised", "within its bound"], *body]

    def remarks(self) -> list[str]:
        """Return a sentence for every quantity whose predictions are off, at the risk where they are most, and advice.

        Off are means over queries whose error is more than two of its standard errors, and more than a quarter of the
        realised spread (mean, CVaR) or a factor of 1.5 (spread, costs). An error below a fiftieth of the return, or of
        the largest cost, does not count: where nothing is random, every error is many spreads.
        """
        worst: dict[str, tuple[float, str]] = {}
        for name, mask in self.groups().items():
            errors, realised = self._errors[mask], Quantities.read(self.realised[mask])
            sure = np.abs(errors.mean(axis=0)) > 2 * errors.std(axis=0, ddof=1) / np.sqrt(mask.sum())
            spread, returns = max(float(realised.spread.mean()), NO_SPREAD), float(np.abs(realised.mean).mean())
            columns = zip(self.quantities, self.predicted.T, self.realised.T, sure, strict=True)
            for quantity, predicted, outcomes, is_sure in columns:
                if not is_sure:
                    continue
                scale = returns if quantity in RETURNS else float(np.abs(outcomes).max())
                size, told = _misfit(quantity, predicted[mask].mean(), outcomes[mask].mean(), spread, scale)
                if size > max(1.0, worst.get(quantity, (1.0, ""))[0]):
                    at = name if name == _LIMITED else f"at {name}"
                    worst[quantity] = size, f"predictions of {quantity} are off: {at}, {told}"
        if not worst:
            return []
        of_episodes = all(quantity.endswith(AN_EPISODE) for quantity in worst)
        return [*(told for _, told in worst.values()), _TRY_GAMMA if of_episodes else _TRY]

    def coverage(self, mask: Bools) -> Floats:
        """The share (q,) of some queries whose outcome kept the bound of the others."""
        errors, by_chance, inside = self._errors[mask], self.error[mask], []
        from_below = np.isin(self.quantities, AT_LEAST)
        for j in range(len(errors)):
            others = np.arange(len(errors)) != j
            if others.sum() < 2:
                return np.full(errors.shape[1], np.nan)
            low, high = bounds_of_errors(errors[others], by_chance[others], LEVEL)
            slack = AT_THE_LEVEL * by_chance[j]  # what chance alone may add to so few episodes
            inside.append(np.where(from_below, errors[j] >= low - slack, errors[j] <= high + slack))
        return np.mean(inside, axis=0)

    def __str__(self) -> str:
        return "\n".join([*aligned(self.rows()), *self.remarks()])

    def describe(self) -> Header:
        """All but the arrays, as JSON."""
        return {
            "risks": list(self.risks),
            "names": list(self.names),
            "spread": self.spread,
            "episodes": self.episodes,
            "seed": self.seed,
        }

    def arrays(self) -> Arrays:
        """What must be stored, beside `describe`."""
        return {name: getattr(self, name) for name in _ARRAYS}

    @classmethod
    def restore(cls, header: Mapping[str, Any], arrays: Arrays, n_features: int) -> Calibration:
        """The calibration with this description and these arrays, all of which are checked."""
        if {*header} != {f.name for f in fields(cls)} - {*_ARRAYS} or {*arrays} != {*_ARRAYS}:
            raise ValueError("its calibration must have exactly the parts of one")
        risks, names = header["risks"], header["names"]
        for words in (risks, names):
            if type(words) is not list or not all(type(word) is str for word in words):
                raise ValueError(f"the words of its calibration must be a list of them, got {words!r:.60}")
        J, c = len(risks), len(names)
        q = len(RETURNS) + 2 * c
        shapes = {"limited": (J,), "w": (J, n_features), "costs": (c,), "signs": (c,)}
        for name in _ARRAYS:
            wanted, kind = shapes.get(name, (J, q)), {"limited": np.bool_, "costs": np.int64}.get(name, np.float64)
            if arrays[name].shape != wanted or arrays[name].dtype != kind or not np.isfinite(arrays[name]).all():
                raise ValueError(f"{name} of its calibration must be finite numbers of shape {wanted}")
        if c and not (arrays["costs"].min() >= 0 and arrays["costs"].max() < n_features):
            raise ValueError("the costs of its calibration must be features")
        if J < 2 or not np.isin(arrays["signs"], (-1.0, 1.0)).all():
            raise ValueError("its calibration must have two asks at least, and signs of 1 or -1")
        predicted, realised = (Quantities.read(arrays[name]) for name in ("predicted", "realised"))
        if min(predicted.spread.min(), realised.spread.min(), arrays["error"].min()) < 0:
            raise ValueError("the spreads of its calibration must not be negative")
        spread = number("spread", header["spread"], 0.0)
        numbers: Header = {name: whole(name, header[name], 0) for name in ("episodes", "seed")}
        found = cls(risks=tuple(risks), names=tuple(names), spread=spread, **numbers | arrays)
        if not found.groups():
            raise ValueError("its calibration must have tried some risk twice")
        with np.errstate(all="ignore"):
            comparable = np.isfinite([*found._bounds.values()]).all()
        if len({*found.quantities}) < q or not comparable:
            raise ValueError("its calibration must have numbers that can be compared, each by a name of its own")
        return found


_ARRAYS = ("limited", "w", "predicted", "realised", "error", "costs", "signs")


def _misfit(quantity: str, predicted: float, realised: float, spread: float, scale: float) -> tuple[float, str]:
    """How far a mean prediction is off, 1 being as far as it may be, and in words; 0 below a fiftieth of the scale."""
    said, found = (0.0 if abs(value) < 1e-9 * scale else float(value) for value in (predicted, realised))
    least, most = sorted((abs(said), abs(found)))
    if most - least <= _NEGLIGIBLE * scale:
        return 0.0, ""
    if quantity in AT_LEAST:
        spreads = abs(said - found) / spread
        size, much = spreads / _OFF_SPREADS, "" if spread < _NEGLIGIBLE * scale else f"{spreads:.2g} spreads "
    else:
        times = most / least if least > _NEGLIGIBLE * most else np.inf
        size, much = times / _OFF_TIMES, f"{times:.2g} times " if np.isfinite(times) else ""
    way = "high" if said > found else "low"
    return size, f"{said:.4g} was predicted and {found:.4g} realised, {much}too {way}"


def _between(level: float, levels: Iterable[float]) -> bool:
    known = list(levels)
    return bool(known) and min(known) <= level <= max(known)


def _kind(risk: Risk) -> tuple[type[Risk] | None, float]:
    """What a risk is called and how strong it is, 0 for none."""
    if is_neutral(risk):
        return MeanVariance, 0.0
    if isinstance(risk, MeanVariance | Entropic):
        return type(risk), float(risk.beta)
    if isinstance(risk, CVaR):
        return CVaR, float(risk.alpha) - 1.0  # so that the mean is 0, and strong is far below
    return None, np.nan
