"""Rules that decide claims, as data: measured values, intervals of these values, and tests of these intervals.

A label, such as "rasfc51 -3" (algorithm and beta), names a set of runs that differ only in the seed. A measure is a
function that computes numbers from the runs of a label. `claims.toml` has one table for each rule, with these fields:

    values      a table from names to texts "MEASURE of LABEL". A value is the array (seeds,) or (seeds, columns) that
                the measure returns for the label. A label that ends in alternatives, such as "rasfc51 0|-1|-2", gives
                one column for each alternative. A name in braces, such as {noise}, is replaced, see `names`.
    intervals   a table from names to expressions of the values. An expression with a division is evaluated on means
                over seeds. Every other expression is evaluated for each seed. "slope(x)" is the least-squares slope
                over the columns. "x > y" is the probability that x is larger than y of the same seed.
    holds       tests of intervals, all of which must hold: "gap > 0", "ratio < 1.1", "0.15 <= drop <= 0.35"
    told        tests that are reported but do not count for the verdict
    enough      for tests with columns: a test must hold on at least this many columns. Default: all columns.
    refuted_by  for tests with columns: if the test fails on this many columns, the claim does not hold. Default: 1.
    exactly     for tests with columns: a test must hold on exactly this many columns, and fail on all others. Replaces
                `enough` and `refuted_by`. Default: not required.
    positive    names of values. If the mean of one is not above 0, the verdict is "not decided", because a ratio with
                such a denominator means nothing. Default: none.
    measured    format string of the report. In it, the name of a value stands for the value's mean, the name of an
                interval for its estimate and ends, and "seeds" for the number of seeds. verdicts[n] is the verdict of
                test n, held[n] the number of columns on which test n holds, and refuted[n] the number of columns on
                which test n fails.
    number      format string of the short form of the report, for a table
    names       replacements for names in braces, which take precedence over those that the experiment gives
    also        further rules. If the runs of such a rule exist, its report is appended to the report of this rule

Intervals use only the seeds that all labels of a rule have. Entries with the same seed are compared.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, Self, TypeVar

import numpy as np
import numpy.typing as npt

from rasf.arrays import Floats
from rasf.statistics import Interval, joint_interval, mean_interval, probability_of_improvement, slopes
from rasf_lab.common.results import Reading, Verdict
from rasf_lab.common.verdicts import below, side, within, worst

_OPERATORS: dict[type[ast.operator], np.ufunc] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.divide,
}


class Runs(Protocol):
    """Finished runs by label. Axis 0 of every array is the seed."""

    @property
    def arrays(self) -> Mapping[str, Mapping[str, Floats]]:
        """The arrays by label and name."""

    def of_common_seeds(self, *names: str) -> Self:
        """Return the runs with these labels, restricted to the seeds that all these labels have."""

    def seeds(self, name: str) -> int:
        """Return the number of seeds of a label."""


AnyRuns = TypeVar("AnyRuns", bound=Runs)
Measure = Callable[[AnyRuns, str], Floats]


class Told(Interval):
    """An interval whose format specification applies to the estimate and to both ends."""

    def __format__(self, spec: str) -> str:
        return "{} [{}, {}]".format(*(format(number, spec) for number in self)) if spec else str(self)


class Columns(tuple[Interval, ...]):
    """One interval for each column, and the `names` of the columns; () without names.

    With a format specification, the text has only the estimates.
    """

    names: tuple[str, ...] = ()

    def __format__(self, spec: str) -> str:
        if spec:
            return " ".join(format(one.estimate, spec) for one in self)
        names = (f"{name}: " for name in self.names) if self.names else ("" for _ in self)
        return ", ".join(f"{name}{one}" for name, one in zip(names, self, strict=True))

    @property
    def least(self) -> float:
        """The smallest estimate."""
        return min(self).estimate


class Means(tuple[float, ...]):
    """One mean for each column. A format specification applies to every mean."""

    def __format__(self, spec: str) -> str:
        return ", ".join(format(one, spec) for one in self)

    @property
    def least(self) -> float:
        """The smallest mean."""
        return min(self)

    @property
    def most(self) -> float:
        """The largest mean."""
        return max(self)


@dataclass(frozen=True)
class ClaimRule:
    """A rule that decides one reading (interpretation) of a claim. The module's header describes the fields."""

    values: Mapping[str, str]
    intervals: Mapping[str, str]
    measured: str
    holds: tuple[str, ...] = ()
    number: str = ""
    told: tuple[str, ...] = ()
    enough: int | None = None
    refuted_by: int = 1
    exactly: int | None = None
    positive: tuple[str, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    also: tuple[Mapping[str, object], ...] = ()

    def takes(self, name: str) -> bool:
        """Return whether the text of a value contains `name` in braces."""
        return any(f"{{{name}}}" in value for value in self.values.values())

    def quantities(self, **names: str) -> dict[str, tuple[str, list[str]]]:
        """Return the measure and the labels of every value, by the name of the value.

        Args:
            **names: replacements for names in braces.
        """
        found = {}
        for key, text in self.values.items():
            measure, _, label = text.format(**{**names, **self.names}).rpartition(" of ")
            start, _, last = label.rpartition(" ")
            found[key] = (measure, [f"{start} {one}".strip() for one in last.split("|")])
        return found

    def labels(self, **names: str) -> list[str]:
        """Return the labels of all runs that the rule reads, without repetitions; `names` as in `quantities`."""
        return list(dict.fromkeys(label for _, labels in self.quantities(**names).values() for label in labels))

    def read(self, runs: AnyRuns, measures: Mapping[str, Measure[AnyRuns]], **names: str) -> Reading | None:
        """Return the verdict of the rule on finished runs, and the measured numbers in words, as a `Reading`.

        Args:
            runs: all finished runs.
            measures: the measures of the experiment, by name.
            **names: replacements for names in braces.

        Returns:
            The `Reading`; None if a label has no runs.
        """
        labels = self.labels(**names)
        if not set(labels) <= runs.arrays.keys():
            return None
        common = runs.of_common_seeds(*labels)
        values: dict[str, Floats] = {}
        columns: dict[str, tuple[str, ...]] = {}
        for key, (measure, each) in self.quantities(**names).items():
            found = [measures[measure](common, label) for label in each]
            values[key] = np.stack(found) if len(found) > 1 else found[0].T  # the last axis is now the seed
            columns[key] = tuple(label.rpartition(" ")[2] for label in each) if len(each) > 1 else ()
        means: dict[str, float | Means] = {
            key: Means(value.mean(axis=1).tolist()) if value.ndim > 1 else float(value.mean())
            for key, value in values.items()
        }
        intervals = {key: _interval(text, values, columns) for key, text in self.intervals.items()}
        tests = [self._test(text, intervals, means) for text in (*self.holds, *self.told)]
        verdicts, held, refuted = zip(*tests, strict=True) if tests else ((), (), ())
        told = {**means, **intervals, "verdicts": verdicts, "held": held, "refuted": refuted}
        seeds = common.seeds(labels[0])
        text = self.measured.format(**told, seeds=seeds)
        more = (as_rule(one).read(common, measures, **names) for one in self.also)
        text += "".join(one.measured for one in more if one)
        is_ratio = all(values[name].mean() > 0 for name in self.positive)
        verdict = worst(verdicts[: len(self.holds)]) if is_ratio else "not decided"
        return Reading(verdict, text, seeds, self.number.format(**told))

    def _test(
        self, text: str, intervals: Mapping[str, Told | Columns], means: Mapping[str, float | Means]
    ) -> tuple[Verdict, int, int]:
        """Return the verdict of a test, and the numbers of columns on which the test holds and fails."""
        tree = ast.parse(text, mode="eval").body
        assert isinstance(tree, ast.Compare)
        parts = [tree.left, *tree.comparators]
        at = next(n for n, part in enumerate(parts) if isinstance(part, ast.Name) and part.id in intervals)
        tested = intervals[ast.unparse(parts.pop(at))]
        judge: Callable[..., Verdict] = within if at else side if isinstance(tree.ops[0], ast.Gt) else below
        bounds = [float(_evaluate(part, means)) for part in parts]
        each = [judge(one, *bounds) for one in (tested if isinstance(tested, Columns) else [tested])]
        held, refuted, n = each.count("holds"), each.count("does not hold"), len(each)
        if self.exactly is not None and n > 1:
            is_refuted, is_enough = held > self.exactly or refuted > n - self.exactly, held + refuted == n
        else:
            is_refuted, is_enough = refuted >= min(n, self.refuted_by), held >= min(n, self.enough or n)
        return "does not hold" if is_refuted else "holds" if is_enough else "not decided", held, refuted


def as_rule(given: Mapping[str, object]) -> ClaimRule:
    """Return the rule that a TOML table describes."""
    fields: dict[str, Any] = {key: tuple(part) if isinstance(part, list) else part for key, part in given.items()}
    return ClaimRule(**fields)


def _interval(text: str, values: Mapping[str, Floats], columns: Mapping[str, tuple[str, ...]]) -> Told | Columns:
    tree = ast.parse(text, mode="eval").body
    names = list(dict.fromkeys(node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id in values))
    if isinstance(tree, ast.Compare):
        return Told(*probability_of_improvement(*(values[name].T for name in names), paired=True, whole_runs=True))
    if any(isinstance(node, ast.Div) for node in ast.walk(tree)):

        def of_means(*drawn: Floats) -> Floats:
            return _evaluate(tree, dict(zip(names, (one.mean(axis=-1) for one in drawn), strict=True)))

        with np.errstate(divide="ignore", invalid="ignore"):  # tiny runs may earn 0; an interval of nan decides nothing
            return Told(*joint_interval(of_means, *(values[name] for name in names)))
    found = _evaluate(tree, values)
    if found.ndim == 1:
        return Told(*mean_interval(found))
    many = Columns(map(mean_interval, found))
    many.names = next((columns[name] for name in names if columns[name]), ())
    return many


def _evaluate(node: ast.expr, names: Mapping[str, npt.ArrayLike]) -> Floats:
    """Evaluate an expression of numbers, names, + - * / and slope(x). The last axis is the seed."""
    match node:
        case ast.Constant(value=float(value) | int(value)):
            return np.asarray(value, np.float64)
        case ast.Name(id=name):
            return np.asarray(names[name])
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_evaluate(operand, names)
        case ast.BinOp(left=left, op=op, right=right):
            return np.asarray(_OPERATORS[type(op)](_evaluate(left, names), _evaluate(right, names)))
        case ast.Call(func=ast.Name(id="slope"), args=[operand]):
            return slopes(_evaluate(operand, names).T)
    raise ValueError(f"a rule must consist of numbers, names, + - * / and slope, got {ast.unparse(node)}")
