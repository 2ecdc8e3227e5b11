"""The command line: `rasf demo`, `reproduce`, `claims`, and from files of their own `train`, `evaluate`,
`explore`, `sweep` and `bench`.

Bad input ends in one sentence on standard error and a non-zero exit, never in a traceback. Ctrl-C ends a command with
130, at once unless there is something to stop or to keep.
"""

from __future__ import annotations

import json
import os
import sys
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.table import Table

import rasf
from rasf.cli.bench import bench
from rasf.cli.evaluate import evaluate
from rasf.cli.explore import explore
from rasf.cli.sweep import register
from rasf.cli.terminal import check_folder, console, counted, interruptible, leaving_at_once
from rasf.cli.train import train
from rasf.experiments.kinds import KINDS

app = typer.Typer(
    help="Risk-aware transfer in reinforcement learning.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)


class ExperimentName(StrEnum):
    """What can be reproduced so far."""

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


def _version(asked: bool) -> None:
    if asked:
        console.print(f"rasf {rasf.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    ctx: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    if ctx.invoked_subcommand in ("bench", "explore", "sweep"):
        interruptible()


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Where to save the picture.")] = Path("rasf-demo.png"),
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything random.")] = 0,
) -> None:
    """Train two libraries of policies, meet 27 new tasks: risk-neutral against risk-aware transfer.

    Example: `rasf demo --out picture.png`
    """
    check_folder("out", out.parent)
    from rasf.experiments import demo as show

    with counted() as bar:
        task = bar.add_task("compiling (once), training, meeting new tasks", total=show.TICKS)
        report = show.run(seed, out, partial(bar.advance, task))
    console.print(report)


@app.command()
def reproduce(
    experiment: Annotated[ExperimentName, typer.Argument(help="Which part of the paper.")],
    preset: Annotated[Preset, typer.Option(help="quick: smaller; paper: the paper's size.")] = Preset.paper,
    out: Annotated[Path, typer.Option(help="Folder for results and figures.")] = Path("rasf-results"),
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything random.")] = 0,
    batch: Annotated[list[str] | None, typer.Option(help="Reacher: only this batch; may be repeated.")] = None,
    device: Annotated[Device, typer.Option(help="Reacher: the device that must be there.")] = Device.any,
    tensorboard: Annotated[Path | None, typer.Option(help="Reacher: folder for TensorBoard scalars.")] = None,
) -> None:
    """Run the paper's experiments and draw its figures.

    Example: `rasf reproduce grid --preset paper --out results`
    """
    if experiment not in (ExperimentName.reacher, ExperimentName.all):
        for name, given in (("batch", batch), ("device", device is not Device.any), ("tensorboard", tensorboard)):
            if given:
                raise ValueError(f"{name} is for the experiment reacher, got it for {experiment.value}")
    check_folder("out", out)
    if tensorboard is not None:
        check_folder("tensorboard", tensorboard)
    from rasf.experiments.reacher.experiment import Options
    from rasf.experiments.reproduce import experiments
    from rasf.experiments.reproduce import reproduce as run

    known = experiments(Options(tuple(batch or ()), device.value, tensorboard))
    names = list(known) if experiment is ExperimentName.all else [experiment.value]
    ticks = {name: known[name].ticks(preset.value) for name in names}  # a batch that is none is refused before any work
    for name in names:
        if name in ("four-room", "reacher"):
            interruptible()  # there are workers
        with counted() as bar:
            task = bar.add_task(f"{name}, preset {preset.value}", total=ticks[name])
            result, files = run(known[name], preset.value, seed, out, partial(bar.advance, task))
        if isinstance(result, str):
            console.print(f"the runs are kept; {result}", highlight=False, soft_wrap=True)
            continue
        _print_claims([{"id": key, **vars(finding)} for key, finding in result.findings.items()], f"{name}: findings")
        for path in files:
            console.print(f"wrote {path}", highlight=False)


@app.command()
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


app.command()(train)
app.command()(evaluate)
app.command()(explore)
app.command()(bench)
register(app, KINDS)


def _print_claims(rows: list[dict[str, object]], title: str) -> None:
    if not rows:
        return  # some batches alone decide no claim
    colours = {"holds": "green", "does not hold": "red", "not decided": "yellow", "not measured": "dim"}
    with_claim = "claim" in rows[0]
    shown = Table(title=title, title_justify="left", show_lines=True)
    for heading in ("id", *(("claim",) if with_claim else ()), "verdict", "measured", "seeds"):
        shown.add_column(heading, justify="right" if heading == "seeds" else "left", overflow="fold")
    for row in rows:
        verdict = str(row["verdict"])
        cells = [str(row["id"]), *([str(row["claim"])] if with_claim else []), f"[{colours[verdict]}]{verdict}[/]"]
        shown.add_row(*cells, str(row["measured"]).replace("[", "\\["), str(row["seeds"] or ""))
    console.print(shown)


def main() -> None:
    """Run the command line; errors become one sentence."""
    try:
        with leaving_at_once():
            app()
    except OSError as error:
        _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except ValueError as error:
        _fail(str(error))
    except Exception as error:  # an environment of the user's may raise anything
        if "RASF_TRACEBACK" in os.environ:
            raise
        _fail(f"{type(error).__name__}: {' '.join(str(error).split())}; RASF_TRACEBACK=1 shows where")


def _fail(sentence: str) -> NoReturn:
    Console(stderr=True).print(f"rasf: {sentence}", style="red", markup=False, highlight=False, soft_wrap=True)
    sys.exit(1)
