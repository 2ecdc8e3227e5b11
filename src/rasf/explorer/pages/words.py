"""What the page says of numbers: sentences, and tables as HTML. Everything from outside is escaped here."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from html import escape
from math import isnan

import numpy as np

from rasf.explorer.drawing.svg import shown
from rasf.explorer.scenes.scene import ArmOutcome, Family, Outcome
from rasf.statistics import Interval

MEASURES = {
    "return": "Mean return",
    "variance": "Variance",
    "cvar": "CVaR, worst tenth",
    "failures": "Failures",
    "length": "Steps",
}
Scored = tuple[str, str, float, float, float, bool]  # a row of `chart_drawing.scores_rows`


def risk_words(family: Family, level: float) -> str:
    """The chosen risk: "mean-variance, beta −4"."""
    return f"{family.name}, {family.parameter} {shown(level)}"


def at_most_one(*outcomes: Outcome) -> bool:
    """Whether no rollout failed twice, so that failures are a rate; an arm's may, even where none did."""
    return all(
        not isinstance(outcome, ArmOutcome) and bool(np.isin(outcome.failures, (0.0, 1.0)).all())
        for outcome in outcomes
    )


def utility_words(utilities: Mapping[str, float]) -> str:
    """What is known of utilities at the start: "Utility at the start: GPI 3.48, best source −1.72."."""
    said = ", ".join(f"{name} {shown(value)}" for name, value in utilities.items())
    return f"Utility at the start: {said}." if said else ""


def summary(who: str, chosen: Outcome, neutral: Outcome) -> str:
    """What changed, in words, for those who hear the page."""
    own, other = (outcome.measures["failures"].estimate for outcome in (chosen, neutral))
    if at_most_one(chosen, neutral):
        fails = f"Fails in {shown(100 * own, 2)} % of rollouts, risk-neutral {shown(100 * other, 2)} %"
    else:
        fails = f"{shown(own)} failures a rollout, risk-neutral {shown(other)}"
    return (
        f"{who} {fails}; mean return {shown(chosen.measures['return'].estimate)}, "
        f"risk-neutral {shown(neutral.measures['return'].estimate)}."
    )


def numbers_table(
    columns: Mapping[str, Mapping[str, Interval]],
    names: Mapping[str, str],
    share: bool,
    exact: Collection[str] = (),
) -> str:
    """Measures down, risks across, each with its interval or "exact"; `share` shows failures in per cent."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in columns)
    body = []
    for key, words in names.items():
        cells = "".join(_cell(found.get(key), share and key == "failures", key in exact) for found in columns.values())
        body.append(f'<tr data-measure="{escape(key)}"><th scope="row">{escape(words)}</th>{cells}</tr>')
    return (
        f'<table class="numbers"><thead><tr><td></td>{head}</tr></thead><tbody>{"".join(body)}</tbody></table>'
        f'<p class="small soft">Below each number its 95 % interval{", where it is not exact" if exact else ""}.</p>'
    )


def _cell(interval: Interval | None, share: bool, exact: bool) -> str:
    if interval is None:
        return "<td>–</td>"
    scale, unit = (100.0, " %") if share else (1.0, "")
    # closed-form intervals of nothing end at 1e-17, which nobody wants to read
    estimate, low, high = (shown(scale * number if abs(number) > 1e-12 else 0.0) for number in interval)
    ends = "exact" if exact else "too few to say" if isnan(interval.low) else f"{low} to {high}"
    return f'<td><b>{estimate}{unit}</b><span class="interval">{ends}</span></td>'


def scores_table(rows: Sequence[Scored], most: int = 40) -> str:
    """The best rows as a table, a policy by its number; the winner has a star and is said in words, too."""
    head = '<th scope="col">Policy</th><th scope="col">Action</th>' + "".join(
        f'<th scope="col" class="right">{name}</th>' for name in ("Value", "Mean", "Spread")
    )
    star = '<span role="img" aria-label="wins" title="wins">★</span> '
    body = "".join(
        f'<tr class="{"wins" if wins else ""}"><td class="policy" title="{escape(policy)}">'
        + f"{star if wins else ''}{escape(_number_of(policy))}</td><td>{escape(action)}</td>"
        + "".join(f'<td class="right">{said}</td>' for said in (shown(value), shown(mean), _spread(spread)))
        + "</tr>"
        for policy, action, mean, spread, value, wins in rows[:most]
    )
    more = f'<p class="small soft">and {len(rows) - most} more in the CSV file</p>' if len(rows) > most else ""
    return f'<table class="scores"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}'


def _number_of(policy: str) -> str:
    """The number in "policy 3: what it was trained for"."""
    return policy.partition(":")[0].removeprefix("policy ")


def _spread(spread: float) -> str:
    return "&lt;0.001" if 0 < spread < 1e-3 else shown(spread)


def facts_list(facts: Iterable[tuple[str, str]]) -> str:
    """Names and what is known of them."""
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(what)}</dd>" for name, what in facts)
    return f'<dl class="facts">{rows}</dl>'
