"""The numbers of a page as sentences, HTML tables and a CSV file. This module escapes untrusted text.

The CSV file is a table with one number per row and these columns:

    section, name, at, value, low, high

`at` is the risk (chosen or neutral) of a measure, the level of a point of the frontier, or the action of a score. `low`
and `high` are the ends of the 95 % interval. Text that a spreadsheet would read as a formula begins with an additional
single quote.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from math import isnan

import numpy as np

from rasf.statistics import Interval
from rasf_explorer.drawing.scores import ScoreRow
from rasf_explorer.drawing.svg import shown
from rasf_explorer.scenes.frontier import Frontier
from rasf_explorer.scenes.scene import ArmOutcome, RiskFamily, SceneOutcome
from rasf_explorer.state import State

MEASURES = {
    "return": "Mean return",
    "return_variance": "Variance",
    "return_cvar": "CVaR, worst tenth",
    "discounted": "Discounted return",
    "failures": "Failures per episode",
    "length": "Steps",
    "speed": "Mean speed, m/s",
}
HEADER = ("section", "name", "at", "value", "low", "high")


def risk_words(family: RiskFamily, level: float) -> str:
    """Return a risk in words, such as "mean-variance, beta −4"."""
    return f"{family.name}, {family.parameter} {shown(level)}"


def at_most_one(*outcomes: SceneOutcome) -> bool:
    """Return whether every rollout has at most one failure, so that mean failures are a rate. False for an arm."""
    return all(
        not isinstance(outcome, ArmOutcome) and bool(np.isin(outcome.failures, (0.0, 1.0)).all())
        for outcome in outcomes
    )


def utility_words(utilities: Mapping[str, float]) -> str:
    """Return utilities in words, such as "Utility at the start: GPI 3.48, best source −1.72.", or an empty string."""
    said = ", ".join(f"{name} {shown(value)}" for name, value in utilities.items())
    return f"Utility at the start: {said}." if said else ""


def summary(who: str, chosen: SceneOutcome, neutral: SceneOutcome) -> str:
    """Return a summary of rollouts in words, for screen readers.

    Args:
        who: The first sentence of the summary, on GPI's choice.
        chosen: Rollouts at the chosen risk.
        neutral: Risk-neutral rollouts.

    Returns:
        The summary.
    """
    own, other = (outcome.measures["failures"].estimate for outcome in (chosen, neutral))
    if at_most_one(chosen, neutral):
        fails = f"GPI fails in {shown(100 * own, 2)} % of rollouts, at the neutral risk in {shown(100 * other, 2)} %."
    else:
        fails = f"GPI has {shown(own)} failures per rollout, at the neutral risk {shown(other)}."
    own, other = (outcome.measures["return"].estimate for outcome in (chosen, neutral))
    return f"{who} {fails} The mean return is {shown(own)}, at the neutral risk {shown(other)}."


def numbers_table(
    columns: Mapping[str, Mapping[str, Interval]], share: bool, exact: Collection[str] = (), failure: str = "failure"
) -> str:
    """Return a table of measures, with a column for each risk.

    Args:
        columns: For each risk (the head of a column), its measures with intervals, by name.
        share: Whether to show failures as a rate, in per cent of rollouts.
        exact: Names of measures that are exact and have no interval. Default: none.
        failure: The word for a failure. Default: "failure".

    Returns:
        HTML.
    """
    name = failure.capitalize()
    named = MEASURES | {"failures": f"{name} rate" if share else f"{name}s per episode"}
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in columns)
    body = ""
    for key, words in named.items():
        if any(key in found for found in columns.values()):
            rate, known = share and key == "failures", key in exact
            cells = "".join(_cell(found.get(key), rate, known) for found in columns.values())
            body += f'<tr data-measure="{key}"><th scope="row">{words}</th>{cells}</tr>'
    return (
        f'<table class="numbers"><thead><tr><td></td>{head}</tr></thead><tbody>{body}</tbody></table>'
        f'<p class="small soft">Each number{" that is not exact" if exact else ""} has its 95 % interval below it.</p>'
    )


def _cell(interval: Interval | None, share: bool, exact: bool) -> str:
    if interval is None:
        return "<td>–</td>"
    scale, unit = (100.0, " %") if share else (1.0, "")
    # show rounding errors of closed forms, such as 1e-17, as 0
    estimate, low, high = (shown(scale * number if abs(number) > 1e-12 else 0.0) for number in interval)
    ends = "exact" if exact else "too few rollouts" if isnan(interval.low) else f"{low} to {high}"
    return f'<td><b>{estimate}{unit}</b><span class="interval">{ends}</span></td>'


def scores_table(rows: Sequence[ScoreRow], most: int = 40) -> str:
    """Return the first `most` rows as an HTML table. Policies are shown by number, and GPI's choice has a star."""
    head = '<th scope="col">Policy</th><th scope="col">Action</th>'
    head += "".join(f'<th scope="col" class="right">{name}</th>' for name in ("Value", "Mean", "Std"))
    star = '<span role="img" aria-label="GPI\'s choice" title="GPI\'s choice">★</span> '
    body = ""
    for row in rows[:most]:
        std = "&lt;0.001" if 0 < row.std < 1e-3 else shown(row.std)
        body += f'<tr class="{"wins" if row.wins else ""}"><td class="policy" title="{escape(row.name)}">'
        body += f"{star if row.wins else ''}{row.source}</td><td>{escape(row.action)}</td>"
        body += "".join(f'<td class="right">{said}</td>' for said in (shown(row.value), shown(row.mean), std)) + "</tr>"
    more = f'<p class="small soft">and {len(rows) - most} more in the CSV file</p>' if len(rows) > most else ""
    return f'<table class="scores"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}'


def facts_list(facts: Iterable[tuple[str, str]]) -> str:
    """Return pairs of a name and words as an HTML list."""
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(what)}</dd>" for name, what in facts)
    return f'<dl class="facts">{rows}</dl>'


@dataclass(frozen=True)
class Sheet:
    """The contents of a CSV file."""

    provenance: Mapping[str, str]
    state: State
    weights: Sequence[str]
    chosen: Mapping[str, Interval] = field(default_factory=dict)
    neutral: Mapping[str, Interval] = field(default_factory=dict)
    frontier: Frontier | None = None
    scores: Sequence[ScoreRow] = ()


def numbers_csv(sheet: Sheet) -> str:
    """Return a sheet as CSV text."""
    state, tip = sheet.state, sheet.state.tip
    named = {name: getattr(state, name) for name in ("view", "family", "level", "cell", "tip", "context", "seed")}
    named |= {"tip": None if tip is None else f"{tip[0]!r} {tip[1]!r}", "link": "?" + state.to_query()}
    rows: list[Sequence[object]] = [("provenance", name, "", value) for name, value in sheet.provenance.items()]
    rows += [("state", name, "", value) for name, value in named.items() if value is not None]
    rows += [("weight", name, "", value) for name, value in zip(sheet.weights, state.w, strict=True)]
    for at, measures in (("chosen", sheet.chosen), ("neutral", sheet.neutral)):
        rows += [("measure", name, at, *interval) for name, interval in measures.items()]
    for point in () if sheet.frontier is None else sheet.frontier.points:
        rows.append(("frontier", "return", point.level, *point.returns))
        rows.append(("frontier", "failures", point.level, *point.failures))
    for row in sheet.scores:
        section = "winning score" if row.wins else "score"
        rows += [(section, f"{row.name}: {name}", row.action, getattr(row, name)) for name in ("mean", "std", "value")]
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow(HEADER)
    for cells in rows:
        writer.writerow([*map(_safe, cells), *[""] * (len(HEADER) - len(cells))])
    return written.getvalue()


def _safe(cell: object) -> str:
    if isinstance(cell, float):
        return repr(float(cell))
    text = str(cell)
    return "'" + text if isinstance(cell, str) and text[:1] in tuple("=+-@\t\r") else text


def file_name(state: State, ending: str) -> str:
    """Return a file name made from view and risk, such as rasf-grid-entropic--0.1.svg."""
    said = f"rasf-{state.view}-{state.family}-{state.level:g}"
    return re.sub(r"[^A-Za-z0-9.-]+", "-", said) + "." + ending
