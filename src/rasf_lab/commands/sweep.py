"""`rasf sweep SPEC` runs or continues a sweep; `rasf sweep status DIR` shows its progress."""

from __future__ import annotations

import math
from datetime import timedelta
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.live import Live
from rich.table import Table
from typer.core import TyperGroup

from rasf.cli.options import silence_box_warnings
from rasf.cli.terminal import INTERRUPTED, check_folder, console, interruptible, on_stderr, say

if TYPE_CHECKING:
    from rasf_lab.sweep.drive import Engine, SweepProgress
    from rasf_lab.sweep.spec import Spec
    from rasf_lab.sweep.store import Store

_SHOWN = 20  # largest number of printed lines of a list; further lines are only counted
_RUN = "run"


class EngineName(StrEnum):
    """The place where runs are executed: local processes or a Ray cluster."""

    local = "local"
    ray = "ray"


class _RunUnlessNamed(TyperGroup):
    """A command group that executes `run` if the first argument is not the name of a command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in (*self.commands, "--help"):
            args = [_RUN, *args]
        return super().parse_args(ctx, args)


sweep = typer.Typer(
    cls=_RunUnlessNamed,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="Execute the runs of a sweep, which a file declares. A run is `rasf.learn` on any environment (kind learn), "
    "an experiment of the paper (kind four-room or reacher), or an experiment of your own. The same command "
    "continues an interrupted sweep.\n\n"
    "Example: `rasf sweep risks.toml`",
)


@sweep.command(_RUN)
def run(
    spec: Annotated[Path, typer.Argument(help="A sweep file (TOML).")],
    folder: Annotated[
        Path | None, typer.Option("--dir", help="Folder of the sweep; rasf-sweeps/NAME by default.")
    ] = None,
    engine: Annotated[
        EngineName, typer.Option(help="local: processes on this machine; ray: a Ray cluster.")
    ] = EngineName.local,
    address: Annotated[
        str | None, typer.Option(help="Ray: address of the cluster; by default a cluster is started on this machine.")
    ] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Runs executed at once; one per core by default.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check the file and list the runs; start no run.")] = False,
    limit: Annotated[int | None, typer.Option(min=1, help="Largest number of runs to execute.")] = None,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Try failed runs again.")] = False,
) -> None:
    """Run or continue a sweep; the word `run` may be left out.

    Example: `rasf sweep risks.toml --dir results/risks --workers 8`
    """
    interruptible()  # Ctrl-C must stop the workers
    from rasf_lab.sweep.drive import drive, jobs_of
    from rasf_lab.sweep.engines.machine import memory_gb
    from rasf_lab.sweep.spec import read_spec
    from rasf_lab.sweep.store import Store
    from rasf_lab.sweep.table import check_arrow, write_table

    if address is not None and engine is not EngineName.ray:
        raise ValueError("address is only for the engine ray; add --engine ray")
    silence_box_warnings()
    declared = read_spec(spec, memory_gb() if engine is EngineName.local else math.inf)
    store = Store(folder or Path("rasf-sweeps") / declared.name)
    if dry_run:
        return _list(declared, store, limit, retry_failed)
    check_folder("dir", store.folder)
    check_arrow()
    with store.driving():
        store.declare(declared)
        if retry_failed:
            store.clear_failures(declared.runs)
        place = _engine(declared, store, engine, address, workers)
        jobs, live = jobs_of(declared, store, place.gpus, limit), Live(console=on_stderr(), auto_refresh=False)
        try:
            with live:
                show = partial(progress_table, declared.name)
                progress = drive(declared, store, place, jobs, lambda now: live.update(show(now), refresh=True))
        except KeyboardInterrupt:
            done = sum(map(store.is_finished, declared.runs))
            say(f"stopped: {done} of {len(declared.runs)} runs are done; the same command continues the sweep")
            raise typer.Exit(INTERRUPTED) from None
        path = write_table(store)
    say(f"{progress.done} of {len(declared.runs)} runs are done; wrote {path}")
    if progress.failed:
        _list_failures(store)
        say("--retry-failed tries failed runs again")
        raise typer.Exit(1)


@sweep.command()
def status(folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a sweep.")]) -> None:
    """Show the progress of a sweep: runs done, running and failed, the reasons of failures, rate and time left.

    Example: `rasf sweep status results/risks`
    """
    from rasf_lab.sweep.drive import progress_of
    from rasf_lab.sweep.store import Store

    store = Store(folder)
    console.print(progress_table(store.declared()["name"], progress_of(store)))
    driver = store.driver()
    say(f"run by {driver}" if driver else "the sweep is not running")
    _list_failures(store)


def _engine(spec: Spec, store: Store, name: EngineName, address: str | None, workers: int | None) -> Engine:
    from rasf_lab.sweep.engines import machine
    from rasf_lab.sweep.engines.local import LocalEngine
    from rasf_lab.sweep.engines.ray import RayEngine
    from rasf_lab.sweep.runs import experiment_of

    use_gpus = experiment_of(spec.runs[0].kind).uses_gpus(spec.runs)
    if name is EngineName.ray:
        return RayEngine(store.folder, workers, spec.limits, address, use_gpus)
    gpus = machine.gpus()[:workers] if use_gpus else []
    return LocalEngine(store.folder, workers or machine.cores(), spec.limits, gpus)


def progress_table(name: str, progress: SweepProgress) -> Table:
    """Return the progress of a sweep as a table with one row."""
    cells = {
        "done": f"{progress.done} of {progress.total}",
        "running": f"{progress.running}" + (f" ({progress.begun / progress.running:.0%})" if progress.begun else ""),
        "waiting": str(progress.waiting),
        "failed": str(progress.failed),
        "workers lost": str(progress.losses),
        "rate": "-" if progress.rate is None else _rate(progress.rate),
        "time left": "-" if progress.seconds_left is None else str(timedelta(seconds=round(progress.seconds_left))),
    }
    table = Table(title=name, title_justify="left")
    for heading in cells:
        table.add_column(heading, justify="right", style="red" if heading == "failed" and progress.failed else "")
    table.add_row(*cells.values())
    return table


def _rate(rate: float) -> str:
    """Return a rate, given in runs per second, as text. The unit is the first of s, min and h that gives at least 1."""
    for unit, seconds in (("s", 1), ("min", 60)):
        if rate * seconds >= 1:
            return f"{rate * seconds:.1f}/{unit}"
    return f"{rate * 3600:.1f}/h"


def _list(spec: Spec, store: Store, limit: int | None, retry: bool) -> None:
    """List the runs that would be executed."""
    failed = store.failures(spec.runs)
    missing = [run for run in spec.runs if not store.is_finished(run) and (retry or run.id not in failed)][:limit]
    say(f"{spec.name}: {len(spec.runs)} runs, {len(missing)} would be executed into {store.folder}")
    _say_some([f"{one.id}  {one}" for one in missing])


def _list_failures(store: Store) -> None:
    runs = {run.id: run for run in store.runs()}
    failures = store.failures(list(runs.values()))
    if failures:
        say(f"failed runs ({len(failures)}), with details in {store.folder / 'failed'}:")
    _say_some([f"{key}  {runs[key]}: {reason}" for key, reason in failures.items()])


def _say_some(lines: list[str]) -> None:
    for line in lines[:_SHOWN]:
        say(f"  {line}")
    if len(lines) > _SHOWN:
        say(f"  and {len(lines) - _SHOWN} more")
