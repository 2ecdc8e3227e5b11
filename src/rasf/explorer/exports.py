"""Numbers as a file: one tidy table, a number a row, that any spreadsheet or data frame reads.

    section, name, at, value, low, high

`at` says where a number belongs: chosen or neutral for a measure, the dial's level for a point of the frontier, the
action for a score. Text from files is kept from being taken for a formula by a spreadsheet.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rasf.explorer.pages.words import Scored
from rasf.explorer.scenes.scene import Frontier
from rasf.explorer.state import State
from rasf.statistics import Interval

HEADER = ("section", "name", "at", "value", "low", "high")


@dataclass(frozen=True)
class Sheet:
    """What the page shows, to be written down."""

    provenance: Mapping[str, str]
    state: State
    weights: Sequence[str]
    chosen: Mapping[str, Interval] = field(default_factory=dict)
    neutral: Mapping[str, Interval] = field(default_factory=dict)
    frontier: Frontier | None = None
    scores: Sequence[Scored] = ()


def numbers_csv(sheet: Sheet) -> str:
    """The table."""
    state = sheet.state
    rows: list[Sequence[object]] = [("provenance", name, "", value) for name, value in sheet.provenance.items()]
    rows += [("state", name, "", value) for name, value in _state_rows(state)]
    rows += [("weight", name, "", value) for name, value in zip(sheet.weights, state.w, strict=True)]
    for at, measures in (("chosen", sheet.chosen), ("neutral", sheet.neutral)):
        rows += [("measure", name, at, *interval) for name, interval in measures.items()]
    for point in () if sheet.frontier is None else sheet.frontier.points:
        rows.append(("frontier", "return", point.level, *point.returns))
        rows.append(("frontier", "failures", point.level, *point.failures))
    for policy, action, mean, spread, value, wins in sheet.scores:
        for name, number in (("mean", mean), ("spread", spread), ("value", value)):
            rows.append(("score" if not wins else "winning score", f"{policy}: {name}", action, number))
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow(HEADER)
    for row in rows:
        cells = [_safe(cell) for cell in row]
        writer.writerow(cells + [""] * (len(HEADER) - len(cells)))
    return written.getvalue()


def _state_rows(state: State) -> list[tuple[str, object]]:
    said: dict[str, object] = {
        "view": state.view,
        "family": state.family,
        "level": state.level,
        "cell": state.cell,
        "tip": None if state.tip is None else f"{state.tip[0]!r} {state.tip[1]!r}",
        "context": state.context,
        "seed": state.seed,
        "link": "?" + state.to_query(),
    }
    return [(name, value) for name, value in said.items() if value is not None]


def _safe(cell: object) -> str:
    if isinstance(cell, float):
        return repr(float(cell))
    text = str(cell)
    return "'" + text if isinstance(cell, str) and text[:1] in tuple("=+-@\t\r") else text


def file_name(state: State, ending: str) -> str:
    """A name that says what is in the file: rasf-grid-entropic--0.1.svg."""
    said = f"rasf-{state.view}-{state.family}-{state.level:g}"
    return re.sub(r"[^A-Za-z0-9.-]+", "-", said) + "." + ending
