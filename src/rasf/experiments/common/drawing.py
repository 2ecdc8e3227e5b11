"""What all figures share: colours that are told apart without colour vision, and saving."""

from __future__ import annotations

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rasf.experiments.common.results import Result
from rasf.files import write_atomically

BLUE, RED, GREEN, ORANGE, GREY = "#2b6cb0", "#c0392b", "#2e8b57", "#d98200", "#8a8f98"
INK, PALE = "#22262b", "#eef0f3"


def figure(width: float, height: float) -> Figure:
    """An empty figure that needs no display."""
    return Figure(figsize=(width, height), layout="constrained", facecolor="white")


def plain(axes: Axes) -> None:
    """No box, light grid."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color=PALE)
    axes.set_axisbelow(True)


def provenance(drawn: Figure, result: Result) -> None:
    """One small line under the figure: where its numbers come from."""
    drawn.supxlabel(
        f"rasf {result.version}, {result.experiment}, preset {result.preset}, seed {result.seed}, "
        f"{result.wall_time_s:.0f} s on {result.device}, {result.date}",
        fontsize=6,
        color=GREY,
    )


def save(drawn: Figure, path: Path) -> Path:
    """Write a PNG, whole or not at all."""
    write_atomically(path, lambda partial: drawn.savefig(partial, dpi=160, format="png"))
    return path
