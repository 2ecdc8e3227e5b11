"""`Calibration`: the errors of a library's predictions, and bounds that allow for these errors.

A *query* is a task and a risk, with or without a limit. At the first observations of its episodes, the selected source
policy predicts mean, standard deviation (spread) and CVaR of the discounted return, and sums of the features that are
costs. The episodes give the realised values. Predictions have errors because they ignore that GPI switches between
policies, because the best of several predictions is biased upwards, and because return distributions are learned.
Errors are converted to one scale (`quantities.py`), and bounds are order statistics of the errors (`bounds.py`). With
fewer than 19 queries, the bound is the largest error, and a remark says so.

The expected value is the prediction corrected by the median error. The expected value always lies within its bounds,
while a prediction may lie outside. If the mean error of a quantity is significant and large enough to matter,
`remarks` gives the size of the error and advice.

Each risk has its own bounds, because strong aversion selects policies whose predicted spread is too small. A risk
between two calibrated risks has the wider bounds of the two. A risk outside the calibrated range has the bounds at the
nearest end of the range, and a remark says so.
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
from rasf.risk import CVaR, MeanVariance, Risk
from rasf.risk.base import BetaRisk
from rasf.risk.names import is_neutral, risk_to_text, stored_risk

_STRICT = 0.975  # limits are tightened to this level, so that 95 % are kept despite sampling noise
_LIMITED = "within limits"
_OFF_SPREADS = 0.25  # tolerated error of mean and CVaR, as a multiple of the realised spread
_OFF_TIMES = 1.5  # tolerated ratio of predicted and realised spread, and of predicted and realised costs
_NEGLIGIBLE = 0.02  # errors below this share of the return, or of the largest cost, do not count
_TRY = (
    "to reduce errors, try more steps_per_task, training tasks nearer to the queries, n_step=1 for networks (a longer "
    "n-step return contains actions of other policies), or a gamma for which 1 / (1 - gamma) is at least the length of "
    "an episode; bounds and expected values allow for these errors"
)
_TRY_GAMMA = (
    "discounted sums predict the undiscounted sums of an episode; the two differ less with a gamma for which "
    "1 / (1 - gamma) is at least the length of an episode; bounds and expected values allow for the difference"
)


class _Errors(NamedTuple):
    """Lower bounds, upper bounds and medians of the errors of q quantities, (q,) each, and remarks on the bounds."""

    low: Floats
    high: Floats
    middle: Floats
    remarks: tuple[str, ...]


@dataclass(frozen=True, repr=False)
class Calibration:
    """J queries with predictions and realised values of q quantities, and the resulting bounds.

    Attributes:
        risks: The risk of each query, as text.
        limited: Whether each query has a limit (J,).
        w: The weights of the queries (J, d).
        predicted: Predictions (J, q).
        realised: Realised values (J, q).
        error: Standard errors (J, q) of the realised values, on the scale of `Scale.errors`.
        names: The names of the c features that are costs.
        costs: The indices (c,) of these features.
        signs: The signs (c,) of these features: 1 if the feature is never negative, -1 if it is never positive.
        spread: The standard deviation of the discounted return, averaged over queries.
        episodes: The total number of episodes.
        seed: The seed of the tasks and the episodes.
    """

    risks: tuple[str, ...]
    limited: Bools
    w: Floats
    predicted: Floats
    realised: Floats
    error: Floats
    names: tuple[str, ...]
    costs: Ints
    signs: Floats
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
        return f"<Calibration: {len(self.risks)} queries at {', '.join(self.covered)}, {self.episodes} episodes in all>"

    def groups(self) -> dict[str, Bools]:
        """Return the groups of queries that share bounds, as masks (J,) by name.

        A group consists of the queries without limits at one risk, or of all queries with limits. Groups of fewer than
        two queries are left out.
        """
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
        """Lower and upper bounds (q,) of the errors, by level and group."""
        return {
            (level, name): bounds_of_errors(self._errors[mask], self.error[mask], level)
            for name, mask in self.groups().items()
            for level in (LEVEL, _STRICT)
        }

    def bounds_of(self, rule: ActingRule, obs: npt.NDArray[Any]) -> Bounds:
        """Return the bounds for episodes that begin at given observations.

        Args:
            rule: The acting rule.
            obs: First observations (B, n), encoded for the policies.

        Returns:
            Bounds for episodes whose first observation is drawn uniformly from `obs`.
        """
        predicted = predicted_quantities(rule, obs, self.costs)
        errors = self._errors_of(rule.risk, rule.limits is not None)
        remarks = errors.remarks
        if not rule.per_state:
            remarks = (*remarks, "the calibration is for per-state risks without a model, unlike this acting rule")
        ends = np.sort([self._scale.outcomes(predicted, part) for part in (errors.low, errors.high)], axis=0)
        # despite rounding, the expected value must lie within its bounds
        expected = np.clip(self._scale.outcomes(predicted, errors.middle), *ends)
        bounds = (Bound(float(mean), *map(float, pair)) for mean, pair in zip(expected, ends.T, strict=True))
        return Bounds(dict(zip(self.quantities, bounds, strict=True)), remarks)

    def bounds(self, group: str) -> Floats:
        """Return for each query the lower bounds of mean and CVaR and the upper bounds of the other quantities.

        Args:
            group: The name (in `groups`) of the group whose errors give the bounds.

        Returns:
            Bounds (J, q).
        """
        predicted = Quantities.read(self.predicted)
        low, high = (self._scale.outcomes(predicted, part) for part in self._bounds[LEVEL, group])
        return np.where(np.isin(self.quantities, AT_LEAST), low, high)

    def _errors_of(self, risk: Risk, limited: bool, sure: float = LEVEL) -> _Errors:
        """Return the bounds of errors at a risk; for an uncalibrated risk, the widest bounds of the nearest risks."""
        name, groups = risk_to_text(risk), self.groups()
        known = [text for text in self.covered if text in groups] or list(groups)
        kind, level = _kind(risk)
        levels = {
            text: own
            for text in known
            for of, own in [_kind(stored_risk(text))]
            if of is kind is not None or own == 0.0
        }
        remarks: tuple[str, ...] = ()
        if limited and _LIMITED in groups:
            chosen = [_LIMITED]  # queries with limits form one group for all risks
            if not _between(level, levels.values()):
                remarks = (f"{name} within limits was not calibrated: bounds of other risks within limits are shown",)
        elif name in known:
            chosen = [name]
        elif not any(own != 0.0 for own in levels.values()):  # except neutral, no risk of this class was calibrated
            chosen = known
            remarks = (f"{name} was not calibrated: the widest bounds of {', '.join(known)} are shown",)
        else:
            least, most = min(levels.values()), max(levels.values())
            near = {max((own for own in levels.values() if own <= level), default=least)}
            near |= {min((own for own in levels.values() if own >= level), default=most)}
            chosen = [text for text, own in levels.items() if own in near]
            if not _between(level, levels.values()):
                ends = " to ".join(sorted(levels, key=lambda text: levels[text])[:: max(1, len(levels) - 1)])
                remarks = (f"{name} is outside the calibrated range, {ends}: bounds of the nearest end are shown",)
        fewest = min(int(groups[text].sum()) for text in chosen)
        if fewest < enough(sure):
            tried = f"only {fewest} queries at {', '.join(chosen)} were tried"
            needed = f"bounds of {sure:.1%} need {enough(sure)}"
            remarks = (*remarks, f"{tried}, but {needed}: the bounds are the largest errors")
        low, high = zip(*(self._bounds[sure, text] for text in chosen), strict=True)
        middles = [np.median(shrunk(self._errors[groups[text]], self.error[groups[text]]), axis=0) for text in chosen]
        return _Errors(np.min(low, axis=0), np.max(high, axis=0), np.mean(middles, axis=0), remarks)

    def tightened(self, limits: Limits, risk: Risk, gamma: float) -> Limits:
        """Return limits on predictions, tightened so that realised values keep the given limits.

        Args:
            limits: The given limits. Limits on features that were not calibrated are not tightened.
            risk: The risk to act for.
            gamma: The discount of the library.
        """
        high = Quantities.read(self._errors_of(risk, True, _STRICT).high)
        at_most, features = limits.at_most.copy(), self.costs.tolist()
        for k, (feature, limit) in enumerate(zip(limits.features.tolist(), limits.given, strict=True)):
            if feature not in features or limits.signs[k] != self.signs[features.index(feature)]:
                if limit.per_episode and gamma < 1:
                    raise ValueError(
                        f"the limit of {limits.names[k]} must be discounted: its sum per episode was not calibrated"
                    )
                continue
            errors = high.episode_costs if limit.per_episode else high.costs
            root = np.sqrt(max(at_most[k], 0.0)) - errors[features.index(feature)]
            at_most[k] = root**2 if root >= 0 else -1.0  # -1: a limit that no predicted cost can keep
        return limits._replace(at_most=at_most)

    def rows(self) -> list[list[str]]:
        """Return a table with mean predictions, mean realised values, and the share of queries that keep their bound.

        There is a row for each quantity of each group of queries. The bound of a query is computed from the errors of
        all other queries of its group.
        """
        body = []
        for name, mask in self.groups().items():
            means = zip(self.predicted[mask].T, self.realised[mask].T, strict=True)
            for quantity, each, kept in zip(self.quantities, means, self.coverage(mask), strict=True):
                shown = (f"{part.copy().mean():.4g}" for part in each)
                share = "-" if np.isnan(kept) else f"{kept:.0%}"  # nan: too few queries
                body.append([name, quantity, str(int(mask.sum())), *shown, share])
        return [["acting", "quantity", "queries", "predicted", "realised", "within its bound"], *body]

    def remarks(self) -> list[str]:
        """Return a sentence for each quantity whose predictions are off, and advice.

        A sentence gives the risk at which the error is largest. Predictions are off if the mean error over queries is
        more than two standard errors, and is also large. For mean and CVaR, large is more than a quarter of the
        realised spread; for spread and costs, a ratio of predicted and realised means above 1.5. Errors below 2 % of
        the return, or of the largest cost, do not count, because otherwise all errors would count in a deterministic
        environment, where the spread is 0.
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
                size, words = _misfit(quantity, predicted[mask].mean(), outcomes[mask].mean(), spread, scale)
                if size > max(1.0, worst.get(quantity, (1.0, ""))[0]):
                    at = name if name == _LIMITED else f"at {name}"
                    worst[quantity] = size, f"predictions of {quantity} are off: {at}, {words}"
        if not worst:
            return []
        of_episodes = all(quantity.endswith(AN_EPISODE) for quantity in worst)
        return [*(words for _, words in worst.values()), _TRY_GAMMA if of_episodes else _TRY]

    def coverage(self, mask: Bools) -> Floats:
        """Return the share of queries whose realised value keeps the bound that follows from the other queries.

        Args:
            mask: The queries (J,).

        Returns:
            Shares (q,); nan for fewer than three queries.
        """
        errors, by_chance, inside = self._errors[mask], self.error[mask], []
        from_below = np.isin(self.quantities, AT_LEAST)
        for j in range(len(errors)):
            others = np.arange(len(errors)) != j
            if others.sum() < 2:
                return np.full(errors.shape[1], np.nan)
            low, high = bounds_of_errors(errors[others], by_chance[others], LEVEL)
            slack = AT_THE_LEVEL * by_chance[j]  # allowance for the standard error of the realised value
            inside.append(np.where(from_below, errors[j] >= low - slack, errors[j] <= high + slack))
        return np.mean(inside, axis=0)

    def __str__(self) -> str:
        return "\n".join([*aligned(self.rows()), *self.remarks()])

    def describe(self) -> Header:
        """Return the calibration without its arrays, as JSON."""
        return {
            "risks": list(self.risks),
            "names": list(self.names),
            "spread": self.spread,
            "episodes": self.episodes,
            "seed": self.seed,
        }

    def arrays(self) -> Arrays:
        """Return the arrays to store."""
        return {name: getattr(self, name) for name in _ARRAYS}

    @classmethod
    def restore(cls, header: Mapping[str, Any], arrays: Arrays, n_features: int) -> Calibration:
        """Return the calibration of a file, after validation.

        Args:
            header: The result of `describe`.
            arrays: The result of `arrays`.
            n_features: The number of features d.

        Returns:
            The calibration.

        Raises:
            ValueError: The description or an array is invalid.
        """
        if {*header} != {f.name for f in fields(cls)} - {*_ARRAYS} or {*arrays} != {*_ARRAYS}:
            raise ValueError("its calibration must have exactly the fields of a calibration")
        risks, names = header["risks"], header["names"]
        for words in (risks, names):
            if type(words) is not list or not all(type(word) is str for word in words):
                raise ValueError(f"risks and names of its calibration must be lists of text, got {words!r:.60}")
        J, c = len(risks), len(names)
        q = len(RETURNS) + 2 * c
        shapes = {"limited": (J,), "w": (J, n_features), "costs": (c,), "signs": (c,)}
        for name in _ARRAYS:
            wanted, kind = shapes.get(name, (J, q)), {"limited": np.bool_, "costs": np.int64}.get(name, np.float64)
            if arrays[name].shape != wanted or arrays[name].dtype != kind or not np.isfinite(arrays[name]).all():
                raise ValueError(f"{name} of its calibration must be finite numbers of shape {wanted}")
        if c and not (arrays["costs"].min() >= 0 and arrays["costs"].max() < n_features):
            raise ValueError("the costs of its calibration must be indices of features")
        if J < 2 or not np.isin(arrays["signs"], (-1.0, 1.0)).all():
            raise ValueError("its calibration must have at least two queries, and signs of 1 or -1")
        predicted, realised = (Quantities.read(arrays[name]) for name in ("predicted", "realised"))
        if min(predicted.spread.min(), realised.spread.min(), arrays["error"].min()) < 0:
            raise ValueError("the spreads of its calibration must not be negative")
        spread = number("spread", header["spread"], 0.0)
        numbers: Header = {name: whole(name, header[name], 0) for name in ("episodes", "seed")}
        found = cls(risks=tuple(risks), names=tuple(names), spread=spread, **numbers | arrays)
        if not found.groups():
            raise ValueError("its calibration must have two queries at the same risk")
        with np.errstate(all="ignore"):
            comparable = np.isfinite([*found._bounds.values()]).all()
        if len({*found.quantities}) < q or not comparable:
            raise ValueError("its calibration must give finite bounds, and its quantities must have different names")
        return found


_ARRAYS = ("limited", "w", "predicted", "realised", "error", "costs", "signs")


def _misfit(quantity: str, predicted: float, realised: float, spread: float, scale: float) -> tuple[float, str]:
    """Return a mean prediction's error as a multiple of the tolerated error (0 if negligible), and in words."""
    said, found = (0.0 if abs(value) < 1e-9 * scale else float(value) for value in (predicted, realised))
    least, most = sorted((abs(said), abs(found)))
    if most - least <= _NEGLIGIBLE * scale:
        return 0.0, ""
    if quantity in AT_LEAST:
        spreads = abs(said - found) / spread
        size = spreads / _OFF_SPREADS
        much = "" if spread < _NEGLIGIBLE * scale else f"{spreads:.2g} standard deviations "
    else:
        times = most / least if least > _NEGLIGIBLE * most else np.inf
        size, much = times / _OFF_TIMES, f"{times:.2g} times " if np.isfinite(times) else ""
    way = "high" if said > found else "low"
    return size, f"the prediction {said:.4g} is {much}too {way}, {found:.4g} was realised"


def _between(level: float, levels: Iterable[float]) -> bool:
    known = list(levels)
    return bool(known) and min(known) <= level <= max(known)


def _kind(risk: Risk) -> tuple[type[Risk] | None, float]:
    """Return the class of a risk and its level of aversion: beta, or alpha - 1 for CVaR; 0 for neutral.

    Risks without a level have no class.
    """
    if is_neutral(risk):
        return MeanVariance, 0.0
    if isinstance(risk, BetaRisk):
        return type(risk), float(risk.beta)
    if isinstance(risk, CVaR):
        return CVaR, float(risk.alpha) - 1.0  # 0 is the mean, -1 the strongest aversion
    return None, np.nan
