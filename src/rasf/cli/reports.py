"""Print the results of `rasf evaluate` and `rasf calibrate` in at most 100 columns."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import starmap
from pathlib import Path
from typing import TYPE_CHECKING

from rich import box
from rich.table import Table

from rasf.cli.terminal import console, counted_policies, printable, say
from rasf.risk.names import short_risk

if TYPE_CHECKING:
    from rasf.library.calibration.calibration import Calibration
    from rasf.library.evaluation import Comparison
    from rasf.library.policy_library import PolicyLibrary
    from rasf.statistics import Interval

_ENDS = ("", "_low", "_high")
_SHOWN = 12  # largest number of rows in the table of policies
_BESIDE = 6  # largest number of features in a table of feature sums, so that the table fits into 100 columns


def print_comparison(compared: Comparison, discounted: bool) -> None:
    """Print tables of measures and of feature sums for one task. A row is a risk; all numbers have 95 % intervals."""
    from rasf.library.evaluation import WORST

    first = next(iter(compared.reports.values()))
    of, earned = ("discounted", "discounted return") if discounted else ("return", "return")
    measures = {earned: of, "variance": f"{of}_variance", f"CVaR {WORST:g}": f"{of}_cvar"}
    measures |= {"failures": "failures"} | {name: name for name in first.limited()} | {"length": "length"}
    shown = {heading: name for heading, name in measures.items() if name in first.measures}
    cells = {risk: [report.measures[name] for name in shown.values()] for risk, report in compared.reports.items()}
    _print_table(f"w = {_weights(first.w)}", "risk", list(shown), cells)
    names = first.feature_names
    for start in range(0, len(names), _BESIDE):
        some = names[start : start + _BESIDE]
        sums = {risk: [report.sums[name] for name in some] for risk, report in compared.reports.items()}
        _print_table(None, "sums of features", some, sums)
    for sentence in _remarks(compared, of):
        say(sentence)


def _print_table(title: str | None, corner: str, heads: Sequence[str], cells: dict[str, list[Interval]]) -> None:
    """Print a table of intervals, with a row for each risk."""
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(corner, no_wrap=True)
    for head in heads:
        table.add_column(printable(head), justify="right")
    for risk, intervals in cells.items():
        table.add_row(printable(short_risk(risk)), *starmap(_interval, intervals))
    console.print(table)


def print_calibration(found: Calibration) -> None:
    """Print a table of predicted and realised values for each risk, and sentences on wrong predictions."""
    heading, *rows = found.rows()
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for i, name in enumerate(heading):
        table.add_column(name, justify="left" if i < 2 else "right")
    before = None
    for row in rows:
        if before not in (None, row[0]):
            table.add_section()
        table.add_row("" if row[0] == before else printable(short_risk(row[0])), *map(printable, row[1:]))
        before = row[0]
    console.print(table)
    for sentence in found.remarks():
        say(sentence)


def _remarks(compared: Comparison, of: str) -> Iterator[str]:
    names = list(compared.reports)
    for risk in names[1:]:
        said = [f"{of} {_signed(compared.difference(risk, of))}"]
        if compared.reports[risk].failures is not None:
            said.append(f"failures {_signed(compared.difference(risk, 'failures'))}")
        yield f"{short_risk(risk)} minus {short_risk(names[0])}, paired by episode: {', '.join(said)}"
    for risk, report in compared.reports.items():
        if report.bounds is not None:
            yield f"{short_risk(risk)}: bounds: {report.bounds.sentence()}"
        for remark in report.remarks():
            yield f"{short_risk(risk)}: {remark}"
    if all(report.failures is None for report in compared.reports.values()):
        yield "failures are not counted: the environment does not report info['failure']"


def print_library(file: Path, library: PolicyLibrary) -> None:
    """Print a description of a library, and how to evaluate it."""
    from rasf.risk.names import risk_to_text

    described = library.environment
    arguments = ", ".join(f"{name}={value!r}" for name, value in described.kwargs.items())
    on = f"{described.title}{f' ({arguments})' if arguments else ''}"
    risks = list(dict.fromkeys(short_risk(risk_to_text(policy.risk)) for policy in library.policies))
    say(f"{file}: {counted_policies(len(library.policies))} of {library.agent} on {on}")
    size = library.sources.action_size
    actions = f"vectors of {size} numbers" if size else library.sources.n_actions
    say(f"features {library.n_features}, actions {actions}, gamma {library.gamma:g}")
    say(f"trained for {', '.join(risks)}")
    for made in _made(library.provenance):
        say(made)
    for note in library.notes:
        say(f"note: {note}")
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    totals = [name for name in ("return", "failures") if name in library.history]
    from_log = all(f"value{end}" in library.history for end in _ENDS)
    for heading in ("policy", "w", "risk", *totals, *["predicted"] * from_log):
        table.add_column(heading, justify="left" if heading in ("w", "risk") else "right")
    for number, policy in enumerate(library.policies[:_SHOWN]):
        seen = [_number(library.history[name][number]) for name in totals]
        if from_log:
            seen.append(_interval(*(float(library.history[f"value{end}"][number]) for end in _ENDS)))
        table.add_row(str(number), _weights(policy.w), printable(short_risk(risk_to_text(policy.risk))), *seen)
    console.print(table)
    if len(library.policies) > _SHOWN:
        say(f"and {len(library.policies) - _SHOWN} more policies")
    if totals:
        over = "the log" if from_log else "training"
        say(f"{' and '.join(totals)} {'are totals' if len(totals) > 1 else 'is a total'} over {over}")
    if from_log:
        say(
            "'predicted': the policy's risk measure of the discounted return from the log's start states, with a 95 % "
            "interval"
        )
    say(_how_to_evaluate(file, library))


def _how_to_evaluate(file: Path, library: PolicyLibrary) -> str:
    """Return a sentence on how to evaluate a library. It names --phi if a function phi computed the features."""
    from rasf.envs.registration import is_registered

    phi, env_id = library.environment.phi, library.environment.id
    if phi is not None:
        return f"To evaluate the library, give --phi MODULE:NAME, because its features come from a function, {phi}"
    known = env_id is not None and is_registered(env_id)
    need = f"weights of {library.n_features} numbers" + ("" if known else " and the module of its environment")
    option = "" if known else f"--env MODULE:{env_id or 'ID'} "
    weights = ",".join(["1", *["0.5"] * (library.n_features - 1)])
    return f"To evaluate the library, give {need}: rasf evaluate {file} {option}--w {weights}"


def _made(provenance: object) -> Iterator[str]:
    """Yield a line for each training that the library comes from. A file may contain a provenance of any type."""
    if not isinstance(provenance, dict):
        return
    parts = provenance.get("merged")
    if isinstance(parts, list):
        for part in parts:
            yield from _made(part)
        return
    made_with = provenance.get("versions")
    version = made_with.get("rasf", "?") if isinstance(made_with, dict) else "?"
    said = f"made {provenance.get('made', '?')} by rasf {version}, seed {provenance.get('seed', '?')}, "
    log = provenance.get("log")
    steps = f"{provenance.get('steps_per_task', '?')} steps per task" if log is None else f"from the log {log}"
    said += f"{steps}, {provenance.get('seconds', '?')} s"
    yield said + ("" if provenance.get("complete", True) else ", stopped early")


def _interval(estimate: float, low: float, high: float) -> str:
    return f"{_number(estimate)}\n[dim]\\[{_number(low)}, {_number(high)}][/]"


def _signed(interval: Interval) -> str:
    return f"{interval.estimate:+.3g} [{_number(interval.low)}, {_number(interval.high)}]"


def _number(value: float) -> str:
    """Return a number as text: three significant digits; from 100 to 99999 a whole number; a dash for nan."""
    if math.isnan(value):
        return "-"
    value += 0.0  # turns -0.0 into 0.0
    return f"{value:.0f}" if 100 <= abs(value) < 1e5 else f"{value:.3g}"


def _weights(w: Iterable[float]) -> str:
    return ", ".join(f"{x:.4g}" for x in w)
