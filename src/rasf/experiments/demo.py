"""`rasf demo`: the grid of Figure 1 told as a story, with a table and a picture."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rich.console import Group
from rich.table import Table
from rich.text import Text

from rasf.envs.grid import Grid
from rasf.experiments import drawing, grid, grid_figure

STAGES = 2


def run(seed: int, picture: Path, tick: Callable[[], None]) -> Group:
    """Compute, save the picture, and say in words what happened."""
    result = grid.run("paper", seed)
    tick()
    drawing.save(grid_figure.draw(result), picture)
    tick()
    numbers = result.numbers
    rollouts = numbers["rollouts"]
    start = Grid(numbers["layout"]).start
    table = Table(title=f"The new task, {rollouts:,} rollouts each", title_justify="left")
    for heading in ("transfer", "utility", "mean return", "variance", "ends in costly X", "ends in free Y"):
        table.add_column(heading, justify="left" if heading == "transfer" else "right")
    for name in ("neutral", "averse"):
        returns, hits = numbers["returns"][name], numbers["trap_hits"][name]
        table.add_row(
            {"neutral": "risk-neutral", "averse": "risk-aware"}[name],
            f"{numbers['utility'][name][start]:.2f}",
            f"{returns['mean']:.2f}",
            f"{returns['variance']:.1f}",
            *(f"{100 * hits[trap] / rollouts:.1f} %" for trap in ("X", "Y")),
        )
    best = numbers["optimal_utility"][start]
    fewer = numbers["trap_hits"]["neutral"]["X"] / max(numbers["trap_hits"]["averse"]["X"], 1)
    return Group(
        Text(
            "Two policies were planned for other tasks: one where both kinds of trap are costly, one where both are "
            "free. Now a new task comes: trap X costs 20, trap Y nothing. Nothing is retrained. Both agents choose, "
            "state by state, the better of the two old policies; they differ only in how they judge them.\n"
        ),
        table,
        Text(
            "\nJudged by the mean alone, transfer takes the short way past the costly traps. Judged with risk, it goes "
            f"round them and ends there {fewer:.1f} times less often, for a somewhat lower mean. Utility is what a "
            f"cautious person (beta = {numbers['beta']:g}) would accept instead of the gamble; the best that any "
            f"policy reaches is {best:.2f}. The picture is in {picture}."
        ),
    )
