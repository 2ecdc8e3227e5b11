"""`rasf sweep SPEC` runs a sweep, or what is left of it; `rasf sweep status DIR` says how it stands."""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperGroup

from rasf.cli.terminal import check_folder, console, printable, say

if TYPE_CHECKING:
    from rasf.sweep.engines.base import Engine
    from rasf.sweep.spec import Spec
    from rasf.sweep.store import Store

_SHOWN = 20  # runs that are listed; the rest is counted
_RUN = "run"
_INTERRUPTED = 130


class EngineName(StrEnum):
    """Where runs are executed."""

    local = "local"
    ray = "ray"


class _RunUnlessNamed(TyperGroup):
    """A group whose first word may be left out: what names none of its commands is for `run`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in (*self.commands, "--help"):
            args = [_RUN, *args]
        return super().parse_args(ctx, args)


def register(app: typer.Typer, kinds: Mapping[str, str] | None = None) -> None:
    """Add `sweep` to a command line; `kinds` gives "module:attribute" for names in sweep files."""
    group = typer.Typer(
        cls=_RunUnlessNamed,
        no_args_is_help=True,
        rich_markup_mode="markdown",
        help="Run many runs, declared in a file; start it again and it goes on. Example: `rasf sweep risks.toml`",
    )

    @group.command(_RUN)
    def run(
        spec: Annotated[Path, typer.Argument(help="A sweep file (TOML).")],
        folder: Annotated[
            Path | None, typer.Option("--dir", help="Folder of the sweep; rasf-sweeps/NAME by default.")
        ] = None,
        engine: Annotated[EngineName, typer.Option(help="local: processes here; ray: a cluster.")] = EngineName.local,
        address: Annotated[str | None, typer.Option(help="Ray: the cluster's; else one is started here.")] = None,
        workers: Annotated[int | None, typer.Option(min=1, help="Runs at a time; one a core by default.")] = None,
        dry_run: Annotated[bool, typer.Option("--dry-run", help="Check the file, list the runs, start none.")] = False,
        limit: Annotated[int | None, typer.Option(min=1, help="Execute at most so many runs.")] = None,
        retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Try runs that failed again.")] = False,
    ) -> None:
        """Run a sweep, or what is left of it: `run` may be left out.

        Example: `rasf sweep risks.toml --dir results/risks --workers 8`
        """
        from rasf.sweep.engines.machine import memory_gb
        from rasf.sweep.spec import read_spec
        from rasf.sweep.store import Store

        if address is not None and engine is not EngineName.ray:
            raise ValueError("address is for --engine ray")
        here = engine is EngineName.local
        declared = read_spec(spec, kinds or {}, memory_gb() if here else math.inf)
        store = Store(folder or Path("rasf-sweeps") / declared.name)
        if dry_run:
            _list(declared, store, limit, retry_failed)
        else:
            check_folder("dir", store.folder)
            _sweep(declared, store, (engine, address, workers), limit, retry_failed)

    @group.command("status")
    def status(folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a sweep.")]) -> None:
        """Say how a sweep stands: done, running, failed and why, rate, time left.

        Example: `rasf sweep status results/risks`
        """
        from rasf.sweep.drive import progress_of
        from rasf.sweep.progress import as_table
        from rasf.sweep.store import Store

        store = Store(folder)
        console.print(as_table(store.declared()["name"], progress_of(store)))
        driver = store.driver()
        say(f"driven by {driver}" if driver else "nobody drives it")
        _list_failures(store)

    app.add_typer(group, name="sweep")


def _sweep(
    spec: Spec, store: Store, where: tuple[EngineName, str | None, int | None], limit: int | None, retry: bool
) -> None:
    from rasf.sweep.drive import drive, jobs_of
    from rasf.sweep.progress import live
    from rasf.sweep.table import check_arrow, write_table

    check_arrow()
    with store.driving():
        store.declare(spec)
        if retry:
            store.clear_failures(spec.runs)
        engine = _engine(spec, store, *where)
        try:
            with live(spec.name, Console(stderr=True)) as show:
                progress = drive(spec, store, engine, jobs_of(spec, store, engine.gpus, limit), show)
        except KeyboardInterrupt:
            done = sum(map(store.is_finished, spec.runs))
            say(f"stopped: {done} of {len(spec.runs)} runs are done; the same command goes on from there")
            raise typer.Exit(_INTERRUPTED) from None
        path = write_table(store)
    say(f"{progress.done} of {len(spec.runs)} runs are done; wrote {path}")
    if progress.failed:
        _list_failures(store)
        say("try them again with --retry-failed")
        raise typer.Exit(1)


def _engine(spec: Spec, store: Store, name: EngineName, address: str | None, workers: int | None) -> Engine:
    from rasf.sweep.engines import machine
    from rasf.sweep.engines.local import LocalEngine
    from rasf.sweep.engines.ray import RayEngine
    from rasf.sweep.runs import kind_of

    use_gpus = any(kind_of(kind).uses_gpus for kind in {run.kind for run in spec.runs})
    if name is EngineName.ray:
        return RayEngine(store.folder, workers, spec.limits, address, use_gpus)
    gpus = machine.gpus()[:workers] if use_gpus else []
    return LocalEngine(store.folder, workers or machine.cores(), spec.limits, gpus)


def _list(spec: Spec, store: Store, limit: int | None, retry: bool) -> None:
    """What would be run."""
    failed = store.failures(spec.runs)
    missing = [run for run in spec.runs if not store.is_finished(run) and (retry or run.id not in failed)][:limit]
    say(f"{spec.name}: {len(spec.runs)} runs, {len(missing)} would be executed into {store.folder}")
    for run in missing[:_SHOWN]:
        say(f"  {run.id}  {run}")
    if len(missing) > _SHOWN:
        say(f"  and {len(missing) - _SHOWN} more")


def _list_failures(store: Store) -> None:
    runs = {run.id: run for run in store.runs()}
    failures = store.failures(list(runs.values()))
    if failures:
        say(f"{len(failures)} failed:")
    for key, reason in list(failures.items())[:_SHOWN]:
        say(f"  {key}  {runs[key]}: {printable(reason)}")
    if len(failures) > _SHOWN:
        say(f"  and {len(failures) - _SHOWN} more; all are in {store.folder / 'failed'}")
