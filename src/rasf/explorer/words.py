"""What the page says of numbers: sentences, and tables as HTML. Everything from outside is escaped here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from math import isnan

import numpy as np

from rasf.explorer.scene import Family, Outcome
from rasf.explorer.svg import shown
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


def fails(outcome: Outcome) -> str:
    """How often it fails: a share of the rollouts, or a count where one rollout can fail more than once."""
    estimate = outcome.measures["failures"].estimate
    return f"{shown(100 * estimate, 2)} %" if at_most_one(outcome) else f"{shown(estimate)} times a rollout"


def at_most_one(*outcomes: Outcome) -> bool:
    """Whether no rollout failed twice, so that failures are a rate."""
    return all(bool(np.isin(outcome.failures, (0.0, 1.0)).all()) for outcome in outcomes)


def summary(who: str, chosen: Outcome, neutral: Outcome) -> str:
    """What changed, in words, for those who hear the page."""
    of = "of rollouts" if at_most_one(chosen) else ""
    return (
        f"{who} Fails in {fails(chosen)} {of}".rstrip()
        + f", risk-neutral {fails(neutral)}; mean return {shown(chosen.measures['return'].estimate)},"
        + f" risk-neutral {shown(neutral.measures['return'].estimate)}."
    )


def numbers_table(columns: Mapping[str, Mapping[str, Interval]], names: Mapping[str, str], share: bool) -> str:
    """Measures down, risks across, each with its interval; `share` shows failures in per cent."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in columns)
    body = []
    for key, words in names.items():
        cells = "".join(_cell(found.get(key), share and key == "failures") for found in columns.values())
        body.append(f'<tr data-measure="{escape(key)}"><th scope="row">{escape(words)}</th>{cells}</tr>')
    return (
        f'<table class="numbers"><thead><tr><td></td>{head}</tr></thead><tbody>{"".join(body)}</tbody></table>'
        '<p class="small soft">Below each number its 95 % interval.</p>'
    )


def _cell(interval: Interval | None, share: bool) -> str:
    if interval is None:
        return "<td>–</td>"
    scale, unit = (100.0, " %") if share else (1.0, "")
    # closed-form intervals of nothing end at 1e-17, which nobody wants to read
    estimate, low, high = (shown(scale * number if abs(number) > 1e-12 else 0.0) for number in interval)
    ends = "too few to say" if isnan(interval.low) else f"{low} to {high}"
    return f'<td><b>{estimate}{unit}</b><span class="interval">{ends}</span></td>'


def scores_table(rows: Sequence[Scored], most: int = 40) -> str:
    """The best rows as a table; the winner is said in words, too."""
    head = "".join(f'<th scope="col">{name}</th>' for name in ("Policy", "Action", "Mean", "Spread", "Value", ""))
    body = "".join(
        f'<tr class="{"wins" if wins else ""}"><td class="policy" title="{escape(policy)}">{escape(policy)}</td>'
        + f"<td>{escape(action)}</td>"
        + "".join(f'<td class="right">{shown(number)}</td>' for number in (mean, spread, value))
        + ('<td><span role="img" aria-label="wins" title="wins">★</span></td></tr>' if wins else "<td></td></tr>")
        for policy, action, mean, spread, value, wins in rows[:most]
    )
    more = f'<p class="small soft">and {len(rows) - most} more in the CSV file</p>' if len(rows) > most else ""
    return f'<table class="scores"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}'


def facts_list(facts: Iterable[tuple[str, str]]) -> str:
    """Names and what is known of them."""
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(what)}</dd>" for name, what in facts)
    return f'<dl class="facts">{rows}</dl>'
