"""`rasf bench`: the benchmark set on this machine, beside its history."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from rasf.cli.terminal import console, say


def bench(
    as_json: Annotated[bool, typer.Option("--json", help="JSON instead of a table.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes, about a minute.")] = False,
    only: Annotated[list[str] | None, typer.Option(help="Only this benchmark; may be repeated.")] = None,
    history: Annotated[
        Path | None, typer.Option(help="Where earlier runs are kept; benchmarks/history.jsonl by default.")
    ] = None,
) -> None:
    """Measure this machine: planning, tabular kernels, acting, a deep step on its cores and its GPU, files.

    Ratios compare with a reference in the same run; the last column with earlier runs here.

    Example: `rasf bench --quick --only planning`
    """
    from rasf.experiments.bench import checkout, for_this_machine, measure

    names = {benchmark.name: benchmark for benchmark in for_this_machine()}
    unknown = sorted(set(only or ()) - set(names))
    if unknown:
        raise ValueError(f"only must be one of {', '.join(names)}, got {', '.join(unknown)}")
    kept = history or checkout() / "history.jsonl"
    chosen = [benchmark for name, benchmark in names.items() if not only or name in only]
    progress = Console(stderr=True)
    rows, entry = measure(chosen, quick, kept, lambda name: progress.print(f"measuring {name}"))
    if as_json:
        sys.stdout.write(json.dumps(entry | {"rows": [row._asdict() for row in rows]}, indent=1) + "\n")
        return
    shown = Table(title="benchmarks on this machine", title_justify="left")
    for heading in ("benchmark", "measure", "value", "reference / ours", "against earlier"):
        named = heading in ("benchmark", "measure")
        shown.add_column(heading, justify="left" if named else "right", no_wrap=heading == "benchmark")
    for row in rows:
        against = "-" if row.worse is None else f"{row.worse:.2f} x" + (" slower!" if row.slow else "")
        ratio = "-" if row.ratio is None else f"{row.ratio:.1f}"
        shown.add_row(row.benchmark, row.label, f"{_short(row.value)} {row.unit}", ratio, against)
    console.print(shown)
    say(f"kept in {kept}")


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
