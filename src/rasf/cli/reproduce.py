"""`rasf demo`, `rasf reproduce` and `rasf claims`: the paper's story, its experiments, and what they found."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from rasf.cli.terminal import check_folder, check_writable, console, counted, interruptible

_COLOURS = {"holds": "green", "does not hold": "red", "not decided": "yellow", "not measured": "dim"}


class ExperimentName(StrEnum):
    """What can be reproduced."""

    grid = "grid"
    theory = "theory"
    four_room = "four-room"
    reacher = "reacher"
    all = "all"


class Preset(StrEnum):
    """How large a run is."""

    quick = "quick"
    paper = "paper"


class Device(StrEnum):
    """Where deep agents are trained."""

    any = "any"
    cpu = "cpu"
    gpu = "gpu"


def demo(
    out: Annotated[Path, typer.Option(help="Where to save the picture.")] = Path("rasf-demo.png"),
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything random.")] = 0,
) -> None:
    """Train a library of policies, meet 27 new tasks: risk-neutral against risk-aware transfer.

    Example: `rasf demo --out picture.png`
    """
    check_folder("out", out.parent)
    from rasf.experiments import demo as show

    with counted() as bar:
        task = bar.add_task("compiling (once), training, meeting new tasks", total=show.total_ticks())
        report = show.run(seed, out, partial(bar.advance, task))
    console.print(report)


def reproduce(
    experiment: Annotated[ExperimentName, typer.Argument(help="Which part of the paper.")],
    preset: Annotated[Preset, typer.Option(help="quick: smaller; paper: the paper's size.")] = Preset.paper,
    out: Annotated[Path, typer.Option(help="Folder for results and figures.")] = Path("rasf-results"),
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything random.")] = 0,
    batch: Annotated[list[str] | None, typer.Option(help="Reacher: only this batch; may be repeated.")] = None,
    device: Annotated[Device, typer.Option(help="Reacher: the device that must be there.")] = Device.any,
    tensorboard: Annotated[Path | None, typer.Option(help="Reacher: folder for TensorBoard scalars.")] = None,
    library: Annotated[
        Path | None, typer.Option(help="Reacher: also keep the policies of its most averse run, as FILE.rasf.")
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
            raise ValueError(f"{name} is for the experiment reacher, got it for {experiment.value}")
    check_folder("out", out)
    if tensorboard is not None:
        check_folder("tensorboard", tensorboard)
    if library is not None:
        check_writable("library", library)
    from rasf.experiments import reproduce as experiments

    options: dict[str, dict[str, object]] = {name: {} for name in names}
    if "reacher" in names:
        from rasf.experiments.reacher.runs import Options

        options["reacher"] = {"options": Options(tuple(batch or ()), device.value, tensorboard, library)}
    # what an experiment refuses, such as a batch that there is not, is refused before any work
    ticks = {name: experiments.total_ticks(name, preset.value, **options[name]) for name in names}
    for name in names:
        if name in ("four-room", "reacher"):
            interruptible()  # there are workers
        with counted() as bar:
            tick = partial(bar.advance, bar.add_task(f"{name}, preset {preset.value}", total=ticks[name]))
            result, files = experiments.reproduce(name, preset.value, seed, out, tick, **options[name])
        if isinstance(result, str):
            console.print(f"the runs are kept; {result}", highlight=False, soft_wrap=True)
            continue
        _print_claims([{"id": key, **vars(finding)} for key, finding in result.findings.items()], f"{name}: findings")
        for path in files:
            console.print(f"wrote {path}", highlight=False)


def claims(
    as_json: Annotated[bool, typer.Option("--json", help="A JSON list instead of a table.")] = False,
    results: Annotated[Path | None, typer.Option(help="Folder with results of your own; ours by default.")] = None,
) -> None:
    """Every claim of the paper, and what our runs say about it.

    Example: `rasf claims --json`
    """
    from rasf.experiments.common.claims import table
    from rasf.experiments.common.results import in_folder, shipped

    rows = table(shipped() if results is None else in_folder(results))
    if as_json:
        sys.stdout.write(json.dumps(rows, indent=1) + "\n")
    else:
        _print_claims(rows, "The paper's claims in our runs")


def _print_claims(rows: Sequence[dict[str, object]], title: str) -> None:
    if not rows:
        return  # some batches alone decide no claim
    headings = [name for name in ("id", "claim", "verdict", "measured", "seeds") if name in rows[0]]
    shown = Table(title=title, title_justify="left", show_lines=True)
    for heading in headings:
        shown.add_column(heading, justify="right" if heading == "seeds" else "left", overflow="fold")
    for row in rows:
        colour = _COLOURS[str(row["verdict"])]
        cells = dict(row) | {"verdict": f"[{colour}]{row['verdict']}[/]", "seeds": row["seeds"] or ""}
        cells["measured"] = str(row["measured"]).replace("[", "\\[")
        shown.add_row(*(str(cells[heading]) for heading in headings))
    console.print(shown)
