"""Calibration: how far what a library promises and what acting brings lie apart, and bounds that allow for it.

An *ask* is a task, a risk and perhaps a limit. At the first observations of its episodes the laws of the driving policy
give predictions: mean, spread and CVaR of the discounted return, expected sums of the features that are costs. Some
episodes of acting give outcomes. Both are compared on a scale on which errors of all asks are alike,

    mean, CVaR    difference / (predicted spread + typical spread)          spread, costs    difference of roots

because acting switches between policies, which predictions do not know of, chooses what looks good, which is too rosy,
and has learned laws. Bounds are order statistics of the errors, as conformal ones are: of further asks that are drawn
as those of the calibration were, 95 % keep them, whatever the law of the errors is. But errors vary between asks and by
chance within one; the spread of the second part is known, and errors are drawn in by it, so that the bound is about
what is expected of an ask and not about the few episodes that were run. That is a model, and it costs some certainty
where a few asks are far off and chance is large (92 % in a simulation where a tenth are; tests have it). With fewer
than 19 asks the worst error is taken, and a remark says so.

What is expected is the prediction corrected by the median error, drawn in likewise: it is the same order statistic at
50 %, so it lies within its bounds, which a raw prediction that is always too high does not. Where predictions are off
on average, by more than chance and by enough to matter, a sentence says by how much and what to try.

Each risk has bounds of its own, since strong aversion chooses spreads that are too small; between two risks the wider
ones hold, and beyond all of them there is a remark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rasf.arrays import Bools, Floats, Ints
from rasf.checks import is_whole, number, task_weights, whole
from rasf.files import Arrays, Header
from rasf.library.actor import ActingRule
from rasf.limits import Limit, Limits
from rasf.risk import CVaR, Entropic, MeanVariance, Risk
from rasf.risk.names import is_neutral, risk_to_text, stored_risk
from rasf.statistics import mean_of_the_worst

if TYPE_CHECKING:
    from rasf.library.evaluation import Report
    from rasf.library.policy_library import PolicyLibrary

LEVEL = 0.95
STRICT = 0.975  # for limits: of those that are asked for, 95 % are to be seen kept, and chance breaks some
WORST = 0.1  # the share of episodes that CVaR looks at
_NORMAL_CVAR = 1.7549833193  # spreads below the mean, of the worst tenth of a normal law
_AT_THE_LEVEL = 1.6448536270  # spreads above the mean that hold 95 % of a normal law
_RETURNS = ("mean", "spread", "cvar")
_AT_LEAST = ("mean", "cvar")  # what one wants much of
_LIMITED = "within limits"
_EPISODE = " an episode"
_RESAMPLES = 50
_OFF_SPREADS, _OFF_TIMES = 0.25, 1.5  # how far predictions may be off: of returns, in spreads; of others, as a factor
_TRY = (
    "what may help: more steps_per_task, tasks nearer to those that are asked for, n_step=1 for networks (returns of "
    "several steps are partly those of other policies), a gamma whose 1 / (1 - gamma) steps cover an episode; bounds "
    "and expectations allow for these errors"
)
_TRY_GAMMA = (
    "sums of an episode are predicted by discounted ones: a gamma whose 1 / (1 - gamma) steps cover an episode brings "
    "both together; bounds and expectations allow for the difference"
)
_ALIKE = 0.25
_NO_SPREAD = 1e-12  # of worlds without any chance
_NEGLIGIBLE = 0.02  # an error of predictions, in units of returns or costs
_OF_RETURNS = 3  # quantities: mean, spread, CVaR; then come costs
_FEWEST, _ENOUGH = 5, 20  # episodes of an ask
_FEWEST_TASKS, _MOST_TASKS = 10, 60


class Bound(NamedTuple):
    """What is expected, corrected by the calibration, and what holds with 95 % each: not below `low`, not above `high`.

    low <= expected <= high.
    """

    expected: float
    low: float
    high: float


@dataclass(frozen=True)
class Promise:
    """Calibrated bounds for one ask, by quantity: mean, spread, cvar (of the discounted return), costs by feature."""

    bounds: Mapping[str, Bound]
    remarks: tuple[str, ...] = ()

    def sides(self) -> dict[str, str]:
        """The side of each bound that one cares about: at least so much return, at most so much of a cost.

        Costs that are counted below zero are at least so much.
        """
        below = {name for name, bound in self.bounds.items() if bound.low < 0 >= bound.high}
        return {
            name: f"at least {bound.low:.4g}" if name in {*_AT_LEAST, *below} else f"at most {bound.high:.4g}"
            for name, bound in self.bounds.items()
        }

    def lines(self) -> list[str]:
        """A line for each bound."""
        return [
            f"{name:20s} {side} ({LEVEL:.0%}), expected {self.bounds[name].expected:.4g}"
            for name, side in self.sides().items()
        ]

    def __str__(self) -> str:
        return "\n".join([*self.lines(), *self.remarks])

    def sentence(self) -> str:
        """The bounds in one line."""
        return ", ".join(f"{name} {side}" for name, side in self.sides().items()) + f" ({LEVEL:.0%} each)"

    def describe(self) -> Header:
        """As JSON."""
        return {name: bound._asdict() for name, bound in self.bounds.items()} | {"remarks": list(self.remarks)}


class Outcome(NamedTuple):
    """Of one ask: predictions and outcomes (q,), and what chance does to the outcomes, on the scale of comparison."""

    predicted: Floats
    realised: Floats
    error: Floats


@dataclass(frozen=True, repr=False)
class Calibration:
    """Asks with what was predicted and what came, (J, q) each, and the bounds that follow; see the module's header.

    costs: the features that are costs, each once discounted and once of the whole episode; signs: how they count.
    spread: a typical one of the discounted return.
    """

    risks: tuple[str, ...]  # of the asks
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
        costs = [f"feature {name}" if name in _RETURNS else name for name in self.names]
        return (*_RETURNS, *costs, *(f"{name}{_EPISODE}" for name in costs))

    @property
    def covered(self) -> tuple[str, ...]:
        """The risks that were calibrated."""
        return tuple(dict.fromkeys(self.risks))

    def __repr__(self) -> str:
        return f"<Calibration: {len(self.risks)} asks of {', '.join(self.covered)}, {self.episodes} episodes in all>"

    def groups(self) -> dict[str, Bools]:
        """Which asks (J,) have bounds of their own: those of each risk, and those within limits."""
        each = {risk: (np.array(self.risks) == risk) & ~self.limited for risk in self.covered}
        found = each | {_LIMITED: self.limited}
        return {name: mask for name, mask in found.items() if mask.sum() > 1}

    @cached_property
    def _middles(self) -> dict[str, Floats]:
        """The median (q,) of the errors, by group."""
        scaled = self._scaled(self.realised, self.predicted) - self._scaled(self.predicted, self.predicted)
        return {
            name: np.median(_drawn_in(scaled[mask], self.error[mask]), axis=0) for name, mask in self.groups().items()
        }

    @cached_property
    def _errors(self) -> dict[tuple[float, str], tuple[Floats, Floats]]:
        """Lower and upper bound (q,) of the errors, by level and group."""
        scaled = self._scaled(self.realised, self.predicted) - self._scaled(self.predicted, self.predicted)
        return {
            (level, name): _bounds_of_errors(scaled[mask], self.error[mask], level)
            for name, mask in self.groups().items()
            for level in (LEVEL, STRICT)
        }

    def _scaled(self, values: Floats, predicted: Floats) -> Floats:
        """Quantities (.., q) on the scale on which errors are alike."""
        width = np.maximum(predicted[..., 1:2] + self.spread, _NO_SPREAD)
        roots = np.sqrt(np.maximum(self._as_costs(values[..., 3:]), 0.0))
        parts = (values[..., 0:1] / width, np.sqrt(values[..., 1:2]), values[..., 2:3] / width, roots)
        return np.concatenate(parts, axis=-1)

    def _as_costs(self, sums: Floats) -> Floats:
        return sums * np.concatenate([self.signs, self.signs])

    def promise(self, rule: ActingRule, obs: npt.NDArray[Any]) -> Promise:
        """What acting by a rule from observations (B, n) on comes to, on average over them."""
        predicted = predict(rule, obs, self.costs)
        errors, middle, remarks = self._errors_of(rule.risk, rule.limits is not None)
        if rule.certain is not None or rule.discount_aware:
            remarks = (*remarks, "it was calibrated with risks scored afresh at every step, which this is not")
        low, high = (self._outcomes(predicted, part) for part in errors)
        ends = np.sort([low, high], axis=0)
        expected = np.clip(self._outcomes(predicted, middle), *ends)  # rounding
        bounds = (Bound(float(mean), *map(float, pair)) for mean, pair in zip(expected, ends.T, strict=True))
        return Promise(dict(zip(self.quantities, bounds, strict=True)), remarks)

    def bounds(self, group: str) -> Floats:
        """The bounds (J, q) of a group at what was predicted, on the side that one cares about."""
        low, high = (self._outcomes(self.predicted, part) for part in self._errors[LEVEL, group])
        return np.where(np.isin(self.quantities, _AT_LEAST), low, high)

    def _outcomes(self, predicted: Floats, errors: Floats) -> Floats:
        """The quantities (.., q) that differ from predictions by errors (q,)."""
        scaled, width = self._scaled(predicted, predicted) + errors, predicted[..., 1:2] + self.spread
        width = np.maximum(width, _NO_SPREAD)
        squares = np.maximum(scaled, 0.0) ** 2
        parts = (
            scaled[..., 0:1] * width,
            squares[..., 1:2],
            scaled[..., 2:3] * width,
            self._as_costs(squares[..., 3:]),
        )
        return np.concatenate(parts, axis=-1)

    def _errors_of(
        self, risk: Risk, limited: bool, sure: float = LEVEL
    ) -> tuple[tuple[Floats, Floats], Floats, tuple[str, ...]]:
        """Bounds of the errors for a risk, their middle, and what has to be said of them."""
        asked, groups = risk_to_text(risk), self.groups()
        known = [text for text in self.covered if text in groups] or list(groups)
        kind, level = _kind(risk)
        levels = {text: own for text in known for of, own in [_kind(stored_risk(text))] if of is kind or own == 0.0}
        remarks: tuple[str, ...] = ()
        if limited and _LIMITED in groups:
            chosen = [_LIMITED]  # at all risks together: what a limit chooses is what is misjudged
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
        if fewest < _enough(sure):
            asks = f"only {fewest} asks of {', '.join(chosen)} were tried"
            remarks = (*remarks, f"{asks}, and {sure:.1%} need {_enough(sure)}: the bounds are those of the worst")
        found = [self._errors[sure, text] for text in chosen]
        widest = (np.min([low for low, _ in found], axis=0), np.max([high for _, high in found], axis=0))
        return widest, np.mean([self._middles[text] for text in chosen], axis=0), remarks

    def tightened(self, limits: Limits, risk: Risk, gamma: float) -> Limits:
        """The limits on predictions that keep limits on outcomes; features that are not calibrated stay as they are."""
        (_, high), _, _ = self._errors_of(risk, True, STRICT)
        at_most, features = limits.at_most.copy(), self.costs.tolist()
        for k, (feature, limit) in enumerate(zip(limits.features.tolist(), limits.given, strict=True)):
            if feature not in features or limits.signs[k] != self.signs[features.index(feature)]:
                if limit.per_episode and gamma < 1:
                    raise ValueError(f"{limits.names[k]} an episode was not calibrated: its limit must be discounted")
                continue
            place = features.index(feature) + len(features) * limit.per_episode
            root = np.sqrt(max(at_most[k], 0.0)) - high[3 + place]
            at_most[k] = root**2 if root >= 0 else -1.0  # nothing is promised to be so low
        return limits._replace(at_most=at_most)

    def rows(self) -> list[list[str]]:
        """A table: by risk, what was predicted and realised, on average over its asks, and how many keep their bound.

        The bound of an ask is that of all others.
        """
        body = []
        for name, mask in self.groups().items():
            inside = self.coverage(mask)
            for k, quantity in enumerate(self.quantities):
                means = (self.predicted[mask, k].mean(), self.realised[mask, k].mean())
                shown = (f"{mean:.4g}" for mean in means)
                body.append([name, quantity, str(int(mask.sum())), *shown, f"{inside[k]:.0%}"])
        return [["acting", "quantity", "asks", "predicted", "realised", "within its bound"], *body]

    def remarks(self) -> list[str]:
        """Return a sentence for every quantity whose predictions are off, at the risk where they are most, and advice.

        Off are means over asks whose error is more than two of its standard errors, and more than a quarter of the
        realised spread (mean, CVaR) or a factor of 1.5 (spread, costs). An error below a fiftieth of the return, or of
        the largest cost, does not count: where nothing is random, every error is many spreads.
        """
        worst: dict[str, tuple[float, str]] = {}
        scaled = self._scaled(self.realised, self.predicted) - self._scaled(self.predicted, self.predicted)
        for name, mask in self.groups().items():
            sure = np.abs(scaled[mask].mean(axis=0)) > 2 * scaled[mask].std(axis=0, ddof=1) / np.sqrt(mask.sum())
            spread = max(float(self.realised[mask, 1].mean()), _NO_SPREAD)
            returns = float(np.abs(self.realised[mask, 0]).mean())
            for k in np.flatnonzero(sure):
                quantity = self.quantities[k]
                said, came = float(self.predicted[mask, k].mean()), float(self.realised[mask, k].mean())
                scale = returns if k < _OF_RETURNS else float(np.abs(self.realised[:, k]).max())
                said, came = (0.0 if abs(value) < 1e-9 * scale else value for value in (said, came))
                least, most = sorted((abs(said), abs(came)))
                if most - least <= _NEGLIGIBLE * scale:
                    continue
                if quantity in _AT_LEAST:
                    size, much = abs(said - came) / spread / _OFF_SPREADS, f"{abs(said - came) / spread:.2g} spreads "
                    if spread < _NEGLIGIBLE * scale:
                        much = ""
                else:
                    times = most / least if least > _NEGLIGIBLE * most else np.inf
                    size, much = times / _OFF_TIMES, f"{times:.2g} times " if np.isfinite(times) else ""
                if size > max(1.0, worst.get(quantity, (1.0, ""))[0]):
                    at = name if name == _LIMITED else f"at {name}"
                    way = "high" if said > came else "low"
                    told = f"predictions of {quantity} are off: {at}, {said:.4g} was predicted and {came:.4g} realised"
                    worst[quantity] = size, f"{told}, {much}too {way}"
        if not worst:
            return []
        of_episodes = all(quantity.endswith(_EPISODE) for quantity in worst)
        return [*(told for _, told in worst.values()), _TRY_GAMMA if of_episodes else _TRY]

    def coverage(self, mask: Bools) -> Floats:
        """The share (q,) of some asks whose outcome kept the bound of the others."""
        scaled = (self._scaled(self.realised, self.predicted) - self._scaled(self.predicted, self.predicted))[mask]
        error, inside = self.error[mask], []
        from_below = np.isin(self.quantities, _AT_LEAST)
        for j in range(len(scaled)):
            others = np.arange(len(scaled)) != j
            if others.sum() < 2:
                return np.full(scaled.shape[1], np.nan)
            low, high = _bounds_of_errors(scaled[others], error[others], LEVEL)
            slack = _AT_THE_LEVEL * error[j]  # what chance alone may add to so few episodes
            inside.append(np.where(from_below, scaled[j] >= low - slack, scaled[j] <= high + slack))
        return np.mean(inside, axis=0)

    def __str__(self) -> str:
        rows = self.rows()
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ("  ".join(cell.ljust(n) for cell, n in zip(row, widths, strict=True)).rstrip() for row in rows)
        return "\n".join([*lines, *self.remarks()])

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
        """What `describe` and `arrays` gave, or a stranger: all is checked."""
        if {*header} != {f.name for f in fields(cls)} - {*_ARRAYS} or {*arrays} != {*_ARRAYS}:
            raise ValueError("its calibration must have exactly the parts of one")
        risks, names = header["risks"], header["names"]
        for words in (risks, names):
            if type(words) is not list or not all(type(word) is str for word in words):
                raise ValueError(f"the words of its calibration must be a list of them, got {words!r:.60}")
        J, c = len(risks), len(names)
        q = len(_RETURNS) + 2 * c
        shapes = {"limited": (J,), "w": (J, n_features), "costs": (c,), "signs": (c,)}
        for name in _ARRAYS:
            wanted, kind = shapes.get(name, (J, q)), {"limited": np.bool_, "costs": np.int64}.get(name, np.float64)
            if arrays[name].shape != wanted or arrays[name].dtype != kind or not np.isfinite(arrays[name]).all():
                raise ValueError(f"{name} of its calibration must be finite numbers of shape {wanted}")
        if c and not (arrays["costs"].min() >= 0 and arrays["costs"].max() < n_features):
            raise ValueError("the costs of its calibration must be features")
        if J < 2 or not np.isin(arrays["signs"], (-1.0, 1.0)).all():
            raise ValueError("its calibration must have two asks at least, and signs of 1 or -1")
        if min(arrays["predicted"][:, 1].min(), arrays["realised"][:, 1].min(), arrays["error"].min()) < 0:
            raise ValueError("the spreads of its calibration must not be negative")
        spread = number("spread", header["spread"], 0.0)
        numbers: Header = {name: whole(name, header[name], 0) for name in ("episodes", "seed")}
        found = cls(risks=tuple(risks), names=tuple(names), spread=spread, **numbers | arrays)
        if not found.groups():
            raise ValueError("its calibration must have tried some risk twice")
        with np.errstate(all="ignore"):
            comparable = np.isfinite([*found._errors.values()]).all()
        if len({*found.quantities}) < q or not comparable:
            raise ValueError("its calibration must have numbers that can be compared, each by a name of its own")
        return found


_ARRAYS = ("limited", "w", "predicted", "realised", "error", "costs", "signs")


def _bounds_of_errors(errors: Floats, by_chance: Floats, level: float) -> tuple[Floats, Floats]:
    """Bounds (q,) that errors (n, q) of further asks keep in a share `level`, each; by_chance (n, q) are spreads.

    What varies between asks is what is left of the errors' variance without chance, but a quarter at least: where few
    episodes leave all to chance, nothing says that asks are alike.
    """
    n, ordered = len(errors), np.sort(_drawn_in(errors, by_chance), axis=0)
    rank = min(n, int(np.ceil((n + 1) * level)))
    unsure = _AT_THE_LEVEL * np.sqrt(errors.var(axis=0, ddof=1) / n)  # of the centre
    return ordered[n - rank] - unsure, ordered[rank - 1] + unsure


def _drawn_in(errors: Floats, by_chance: Floats) -> Floats:
    """Errors (n, q) drawn in to their mean by the share of chance in them; by_chance (n, q) are spreads."""
    noise, centre, variance = by_chance**2, errors.mean(axis=0), errors.var(axis=0, ddof=1)
    between = np.maximum(variance - noise.mean(axis=0), _ALIKE * variance)
    share = between / np.maximum(between + noise, 1e-300)
    return np.asarray(centre + (errors - centre) * np.sqrt(share))


def _enough(level: float) -> int:
    """Asks of which the worst but one share 1 - level is an order statistic."""
    return int(np.ceil(level / (1 - level) - 1e-9))


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


def predict(rule: ActingRule, obs: npt.NDArray[Any], costs: Ints) -> Floats:
    """Return the quantities (q,) that are predicted for a rule at first observations, on average over them.

    The prediction is that of the policy that the rule selects there, at the action that it chooses.

    Args:
        rule: how to act, with its risk, limits and weights.
        obs: first observations (B, n).
        costs: the features that are costs.

    Returns:
        Mean, spread and CVaR of the task's discounted return, then the expected sums of the costs, twice.
    """
    chosen, sources = rule.first_choice(obs), rule.sources
    mean, spread = predicted_return(rule, obs, chosen)
    source, action = np.divmod(chosen, sources.n_actions)
    each, rows, known = np.eye(sources.n_features)[costs], np.arange(len(obs)), np.nan_to_num(spread)
    sums = [sources.scores(obs, one, MeanVariance(0.0)).mean[source, rows, action].mean() for one in each]
    return np.array([mean, known, mean - _NORMAL_CVAR * known, *sums, *sums])


def predicted_return(rule: ActingRule, obs: npt.NDArray[Any], chosen: Ints | None = None) -> tuple[float, float]:
    """Return mean and spread of the task's discounted return that are predicted for a rule at first observations.

    Args:
        rule: how to act.
        obs: first observations (B, n).
        chosen: the rule's first choices (B,) there, if they are known.

    Returns:
        The mean over the observations, and the spread of each with that between them; nan where none was learned.
    """
    mean, std = rule.expected(obs, rule.first_choice(obs) if chosen is None else chosen)
    return float(mean.mean()), float(np.sqrt((std**2).mean() + mean.var()))


def outcome(rule: ActingRule, report: Report, costs: Ints, spread: float, seed: int) -> Outcome:
    """Predictions and outcomes of one ask; spread is the typical one."""
    assert report.beginnings is not None
    assert report.discounted_phi is not None
    predicted = predict(rule, report.beginnings, costs)
    sums = np.concatenate([report.discounted_phi[:, costs], report.phi[:, costs]], axis=1)
    returns, n = report.discounted, report.episodes
    drawn = returns[np.random.default_rng([seed, 5]).integers(n, size=(_RESAMPLES, n))]
    width, size = max(predicted[1] + spread, _NO_SPREAD), np.abs(sums.mean(axis=0))
    by_chance = [
        drawn.mean(axis=1).std() / width,
        np.sqrt(drawn.std(axis=1, ddof=1)).std(),
        mean_of_the_worst(drawn, WORST).std() / width,
        *sums.std(axis=0, ddof=1) / np.sqrt(4 * n * np.maximum(size, 1e-300)) * (size > 0),
    ]
    came = [returns.mean(), returns.std(ddof=1), float(mean_of_the_worst(returns, WORST)), *sums.mean(axis=0)]
    return Outcome(predicted, np.array(came), np.array(by_chance))


class Ask(NamedTuple):
    """One thing to be tried."""

    w: Floats
    risk: Risk
    limits: dict[str | int, float | Limit] | None


def calibrate(
    library: PolicyLibrary,
    roll: Callable[[ActingRule, int, int], Report],
    tasks: Floats,
    risks: Sequence[Risk],
    episodes: int,
    seed: int,
) -> Calibration:
    """Try every task (n, d) at every risk, and half of them within a limit, too.

    roll: (rule, episodes, seed) -> a report.
    """
    rng = np.random.default_rng([seed, 7])
    asks = [Ask(w, risk, None) for w in tasks for risk in risks]
    if len(tasks) < 2:
        raise ValueError(f"tasks must be two at least, to see how they differ, got {len(tasks)}")
    _check_episodes(episodes, len(tasks), len(risks))
    further = len(tasks) * len(risks) // 2
    per_ask = episodes // (len(asks) + further)
    rules = [library.rule(ask.w, ask.risk) for ask in asks]
    reports = [(rule, roll(rule, per_ask, seed + 1 + i)) for i, rule in enumerate(rules)]
    sums = np.concatenate([report.phi for _, report in reports])
    costs, signs = cost_features(library, sums)
    spread = float(np.mean([report.discounted.std() for _, report in reports]))
    found = [outcome(rule, report, costs, spread, seed) for rule, report in reports]
    for _ in range(further if len(costs) else 0):
        which, at = int(rng.integers(len(tasks) * len(risks))), int(rng.integers(len(costs)))
        most = float(rng.uniform(0.0, 1.2) * found[which].realised[3 + at] * signs[at])
        limit = Limit(at_most=most) if signs[at] > 0 else Limit(at_least=-most)
        asks.append(asks[which]._replace(limits={int(costs[at]): limit}))
        rule = library.rule(*asks[-1][:2], limits=asks[-1].limits, calibrated=False)
        report = roll(rule, per_ask, seed + len(asks))
        found.append(outcome(rule, report, costs, spread, seed))
    names = library.environment.feature_names or tuple(map(str, range(library.n_features)))
    predicted, realised, error = (np.stack(part) for part in zip(*found, strict=True))
    return Calibration(
        tuple(risk_to_text(ask.risk) for ask in asks),
        np.array([ask.limits is not None for ask in asks]),
        np.stack([ask.w for ask in asks]),
        predicted,
        realised,
        error,
        tuple(names[feature] for feature in costs),
        costs,
        signs,
        spread,
        per_ask * len(asks),
        seed,
    )


def _check_episodes(episodes: int, tasks: int, risks: int) -> None:
    """Refuse fewer episodes than each ask needs, half as many asks again being tried within a limit."""
    least = _FEWEST * (tasks * risks + tasks * risks // 2)
    if episodes < least:
        raise ValueError(f"episodes must be at least {least} for {tasks} tasks and {risks} risks, got {episodes}")


def cost_features(library: PolicyLibrary, sums: Floats) -> tuple[Ints, Floats]:
    """The features that nobody wants more of, and the sign that makes them costs.

    Their sums (n, d) over episodes have one sign, and every policy's task counts them against it. What never came is a
    cost if tasks count it below zero.
    """
    w = np.array([policy.w for policy in library.policies])
    positive, negative = (sums >= 0).all(axis=0), (sums <= 0).all(axis=0)
    never = np.where((w <= 0).all(axis=0), 1.0, 0.0)
    sign = np.where(positive & negative, never, np.where(positive, 1.0, np.where(negative, -1.0, 0.0)))
    against = ((w * sign <= 0).all(axis=0)) & (w != 0).any(axis=0) & (sign != 0)
    chosen = np.flatnonzero(against)
    return chosen, sign[chosen]


def calibration_tasks(
    library: PolicyLibrary,
    drawn: Callable[[int, np.random.Generator], Floats | None],
    given: npt.ArrayLike | int | None,
    episodes: int,
    risks: int,
    seed: int,
) -> Floats:
    """Weights (n, d): given, or drawn from the environment's distribution, or between those of the policies."""
    if given is not None and not is_whole(given):
        return task_weights("tasks", given, library.n_features)
    n = min(_MOST_TASKS, max(_FEWEST_TASKS, episodes // (_ENOUGH * risks * 3 // 2))) if given is None else given
    rng, count = np.random.default_rng([seed, 79]), whole("tasks", n, 2)
    _check_episodes(episodes, count, risks)  # before so many are drawn
    found = drawn(count, rng)
    if found is not None:
        return found
    trained = np.unique([policy.w for policy in library.policies], axis=0)
    if len(trained) == 1:
        return np.asarray(trained * np.exp(rng.normal(0.0, 0.3, (count, library.n_features))))
    return np.asarray(rng.dirichlet(np.ones(len(trained)), count) @ trained)
