"""`rasf suite [NAME ..]`: compare libraries at several risks with a risk-neutral control and with other agents."""

from __future__ import annotations

from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from rasf.cli.options import silence_box_warnings
from rasf.cli.terminal import check_folder, console, counted, interruptible, say


class SuitePreset(StrEnum):
    """Size of a run."""

    quick = "quick"
    full = "full"


class RivalName(StrEnum):
    """Other agents to train, for comparison."""

    dqn = "dqn"
    qr_dqn = "qr-dqn"
    dqn_documented = "dqn-documented"
    dqn_batched = "dqn-batched"
    qr_dqn_batched = "qr-dqn-batched"
    dqn_documented_batched = "dqn-documented-batched"
    envelope = "envelope"
    gpi_ls = "gpi-ls"


def suite(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="Cases of the suite, or MODULE:CASE; all by default.")
    ] = None,
    preset: Annotated[
        SuitePreset, typer.Option(help="quick: 2 seeds, 3 weightings; full: 5 seeds, 10 weightings.")
    ] = SuitePreset.quick,
    rival: Annotated[
        list[RivalName] | None,
        typer.Option(help="Also train this other agent; may be repeated. Needs the extra `bench` or morl-baselines."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for runs, results and figures.")] = Path("rasf-suite"),
    listed: Annotated[bool, typer.Option("--list", help="List the cases and run nothing.")] = False,
) -> None:
    """Train libraries on a few tasks, and measure on new tasks whether risk-aware acting helps.

    The same command continues an interrupted run.

    Example: `rasf suite highway --preset full`, `rasf suite --list`, `rasf suite my_world:CASE`
    """
    from rasf_lab.suite.cases import case_names, find_case

    chosen = names or case_names()
    cases = {name: find_case(name) for name in chosen}
    if listed:
        shown = Table(box=None, pad_edge=False, header_style="bold")
        for heading in ("name", "environment", "failures", "description"):
            shown.add_column(heading)
        for name, case in cases.items():
            shown.add_row(name, case.env, case.failures, case.about)
        console.print(shown)
        return
    from rasf_lab.suite.report import sum_up
    from rasf_lab.suite.runs import LIBRARY, all_runs, run_cases

    check_folder("out", out)
    interruptible()
    silence_box_warnings()
    agents = (LIBRARY, *(one.value for one in rival or ()))
    total = len(all_runs(list(cases), preset.value, agents))
    with counted() as bar:
        tick = partial(bar.advance, bar.add_task(f"suite, preset {preset.value}", total=total))
        run_cases(list(cases), preset.value, out, agents, tick)
    rows, files = sum_up(out, preset.value)
    shown = Table(box=None, pad_edge=False, header_style="bold")
    for heading in rows[0]:
        shown.add_column(heading)
    for row in rows[1:]:
        shown.add_row(*row)
    console.print(shown)
    for path in files:
        say(f"wrote {path}")
