"""`rasf demo`, `rasf reproduce` and `rasf claims`: a demonstration, the paper's experiments, and its claims."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import partial
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from rasf.checks import one_of
from rasf.cli.terminal import check_folder, check_writable, console, counted, interruptible

if TYPE_CHECKING:
    from rasf_lab.common.results import Numbers

_COLOURS = {"holds": "green", "does not hold": "red", "not decided": "yellow", "not measured": "dim"}
_GLANCE = {"does not hold": "does not", "not decided": "undecided", "not measured": "-"}
_PLURAL = {"holds": "hold", "does not hold": "do not", "not decided": "are not decided", "not measured": "not measured"}


class ExperimentName(StrEnum):
    """The paper's experiments, and `all` for every experiment."""

    grid = "grid"
    theory = "theory"
    four_room = "four-room"
    reacher = "reacher"
    all = "all"


class PaperPreset(StrEnum):
    """Size of a run."""

    quick = "quick"
    paper = "paper"


class Device(StrEnum):
    """The device on which networks are trained."""

    any = "any"
    cpu = "cpu"
    gpu = "gpu"


def demo(
    out: Annotated[
        Path | None, typer.Option(help="File of the picture or film; rasf-demo.png or rasf-drive.gif by default.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of all random numbers.")] = 0,
    driving: Annotated[
        bool, typer.Option("--driving", help="Film the shipped driving library at two risks. Needs the extra `suite`.")
    ] = False,
) -> None:
    """Train a library of policies, then act on 27 new tasks, risk-neutral and risk-aware.

    Example: `rasf demo --out picture.png`, `rasf demo --driving --out drive.gif`
    """
    out = out or Path("rasf-drive.gif" if driving else "rasf-demo.png")
    check_folder("out", out.parent)
    show = import_module("rasf_lab.suite.film" if driving else "rasf_lab.demo")
    doing = "compiling (once), driving, filming" if driving else "compiling (once), training, acting on new tasks"
    with counted() as bar:
        report = show.run(seed, out, partial(bar.advance, bar.add_task(doing, total=show.total_ticks())))
    console.print(report)


def reproduce(
    experiment: Annotated[ExperimentName, typer.Argument(help="The experiment, or all.")],
    preset: Annotated[
        PaperPreset, typer.Option(help="quick: small runs; paper: the paper's size.")
    ] = PaperPreset.paper,
    out: Annotated[Path, typer.Option(help="Folder for results and figures.")] = Path("rasf-results"),
    seed: Annotated[int, typer.Option(min=0, help="Seed of all random numbers.")] = 0,
    batch: Annotated[
        list[str] | None, typer.Option(help="Reacher: execute only this batch of runs; may be repeated.")
    ] = None,
    device: Annotated[Device, typer.Option(help="Reacher: the required device.")] = Device.any,
    tensorboard: Annotated[Path | None, typer.Option(help="Reacher: folder for TensorBoard scalars.")] = None,
    library: Annotated[
        Path | None, typer.Option(help="Reacher: also save the policies of the most averse run, as FILE.rasf.")
    ] = None,
) -> None:
    """Run the paper's experiments and draw its figures.

    Example: `rasf reproduce grid --preset paper --out results`
    """
    given = {"batch": batch, "device": device is not Device.any, "tensorboard": tensorboard, "library": library}
    every = [name.value for name in ExperimentName if name is not ExperimentName.all]
    names = every if experiment is ExperimentName.all else [experiment.value]
    for name, value in given.items():
        if value and "reacher" not in names:
            raise ValueError(f"{name} needs the experiment reacher, got {experiment.value}")
    check_folder("out", out)
    if tensorboard is not None:
        check_folder("tensorboard", tensorboard)
    if library is not None:
        check_writable("library", library)
    from rasf_lab.common.claims import table
    from rasf_lab.paper import reproduce as experiments

    options: dict[str, dict[str, object]] = {name: {} for name in names}
    if "reacher" in names:
        from rasf_lab.paper.reacher.runs import Options

        options["reacher"] = {"options": Options(tuple(batch or ()), device.value, tensorboard, library)}
    # this call raises the error for a wrong option, such as an unknown batch, before any work
    ticks = {name: experiments.total_ticks(name, preset.value, **options[name]) for name in names}
    for name in names:
        if name in ("four-room", "reacher"):
            interruptible()  # Ctrl-C must stop the workers
        with counted() as bar:
            tick = partial(bar.advance, bar.add_task(f"{name}, preset {preset.value}", total=ticks[name]))
            result, files = experiments.reproduce(name, preset.value, seed, out, tick, **options[name])
        if isinstance(result, str):
            console.print(f"the runs are kept; {result}", highlight=False, soft_wrap=True)
            continue
        _print_claims([row for row in table({name: result}) if row["id"] in result.findings])
        for path in files:
            console.print(f"wrote {path}", highlight=False)


def claims(
    ids: Annotated[list[str] | None, typer.Argument(help="Ids of claims to show in full, such as R1.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list instead of a table.")] = False,
    results: Annotated[Path | None, typer.Option(help="Folder of results; the shipped results by default.")] = None,
) -> None:
    """Show the claims of the paper and whether our runs support them.

    Some claims can be read in two or three ways. These claims have a verdict for each reading.

    Example: `rasf claims`, `rasf claims R1`, `rasf claims --json`
    """
    from rasf_lab.common.claims import table
    from rasf_lab.common.results import in_folder, shipped

    rows = table(shipped() if results is None else in_folder(results))
    known = {row["id"]: row for row in rows}
    for name in ids or ():
        one_of("id", name, known)
    chosen = [known[name] for name in ids] if ids else rows
    if as_json:
        sys.stdout.write(json.dumps(chosen, indent=1) + "\n")
    elif ids:
        for row in chosen:
            _print_claim(row)
    else:
        _print_claims(rows)
        console.print("`rasf claims R1` shows one claim in full: the paper's words, rules and numbers", style="dim")


def _print_claims(rows: Sequence[Numbers]) -> None:
    """Print one line for each claim, and the number of claims with each verdict."""
    from rasf_lab.common.claims import further_readings, is_ours

    if not rows:
        return  # a call that executes only some batches of the reacher may decide no claim
    has_second = any(row["second_reading"] for row in rows)
    shown = Table(box=None, pad_edge=False, header_style="bold")
    widths = {"id": 3, "verdict": 9} | ({"2nd": 9} if has_second else {}) | {"measured": 22}
    left = console.width - sum(widths.values()) - 2 * len(widths)
    widths = {"id": 3, "claim": max(12, min(left, max(len(row["short"]) for row in rows)))} | widths
    for heading, width in widths.items():
        shown.add_column(heading, no_wrap=True, overflow="ellipsis", width=width)
    for row in rows:
        second, third = row["second_reading"], row["third_reading"]
        verdicts = [_coloured(row["verdict"], _GLANCE)]
        if has_second:
            verdicts.append(_coloured(second["verdict"], _GLANCE) if second else "")
        shown.add_row(row["id"], escape(row["short"]), *verdicts, escape(row["number"]))
        if third:
            shown.add_row("", "  third reading", _coloured(third["verdict"], _GLANCE), "", escape(third["number"]))
    console.print(shown)
    totals = []
    for whose, own in (("the paper's claims", False), ("our claims", True)):
        some = [row for row in rows if is_ours(row) is own]
        totals += [f"{whose}: {_counted(some)}"] * bool(some)
        for name in ("second", "third"):
            again = [readings[name] for readings in map(further_readings, some) if name in readings]
            totals += [f"by a {name} reading of {len(again)}: {_counted(again)}"] * bool(again)
    console.print("; ".join(totals), highlight=False)


def _counted(readings: Sequence[Numbers]) -> str:
    counts = Counter(reading["verdict"] for reading in readings)
    return ", ".join(f"{counts[verdict]} {words}" for verdict, words in _PLURAL.items() if counts[verdict])


def _coloured(verdict: str, words: Mapping[str, str] = MappingProxyType({})) -> str:
    return f"[{_COLOURS[verdict]}]{words.get(verdict, verdict)}[/]"


def _print_claim(row: Numbers) -> None:
    """Print one claim in full."""
    from rasf_lab.common.claims import further_readings

    lines = [
        ("", f"[bold]{row['id']}[/], {row['where']}: {escape(row['claim'])}"),
        ("the paper", escape(f'"{row["sentence"]}"')),
        ("measured as", escape(row["metric"])),
        ("rule", escape(row["rule"])),
        ("verdict", _coloured(row["verdict"])),
        ("measured", escape(row["measured"])),
        ("from", escape(row["sample"])),
    ]
    for name, reading in further_readings(row).items():
        lines += [
            (f"{name} reading", escape(reading["rule"])),
            ("why", escape(reading["reason"])),
            ("verdict", _coloured(reading["verdict"])),
            ("measured", escape(reading["measured"])),
            ("from", f"{reading['seeds']} seeds" if reading["seeds"] else ""),
        ]
    lines.append(("figure", f"docs/figures/{row['figure']}.png, drawn by `rasf reproduce`" if row["figure"] else ""))
    shown = Table(box=None, pad_edge=False, show_header=False)
    shown.add_column(style="dim", no_wrap=True)
    shown.add_column(overflow="fold")
    for heading, text in lines:
        if text:
            shown.add_row(heading, text)
    console.print(shown, highlight=False)
    console.print()
