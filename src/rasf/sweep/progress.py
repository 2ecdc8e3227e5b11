"""A sweep's progress on a terminal: done, running, failed, rate, time left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

from rich.console import Console
from rich.live import Live
from rich.table import Table

from rasf.sweep.drive import Progress


def as_table(name: str, progress: Progress) -> Table:
    """One row of numbers."""
    cells = {
        "done": f"{progress.done} of {progress.total}",
        "running": f"{progress.running}" + (f" ({progress.begun / progress.running:.0%})" if progress.begun else ""),
        "waiting": str(progress.waiting),
        "failed": str(progress.failed),
        "workers lost": str(progress.losses),
        "rate": _rate(progress.rate),
        "time left": _duration(progress.seconds_left),
    }
    table = Table(title=name, title_justify="left")
    for heading in cells:
        table.add_column(heading, justify="right", style="red" if heading == "failed" and progress.failed else "")
    table.add_row(*cells.values())
    return table


@contextmanager
def live(name: str, console: Console) -> Iterator[Callable[[Progress], None]]:
    """A function that shows progress in place."""
    with Live(console=console, auto_refresh=False) as shown:
        yield lambda progress: shown.update(as_table(name, progress), refresh=True)


def _rate(rate: float | None) -> str:
    """Runs a second, a minute or an hour: the first that is at least one."""
    if rate is None:
        return "-"
    unit, seconds = next(
        ((unit, seconds) for unit, seconds in (("s", 1), ("min", 60)) if rate * seconds >= 1), ("h", 3600)
    )
    return f"{rate * seconds:.1f}/{unit}"


def _duration(seconds: float | None) -> str:
    return "-" if seconds is None else str(timedelta(seconds=round(seconds)))
