"""The line under a figure that describes the run from which the figure is drawn."""

from __future__ import annotations

from matplotlib.figure import Figure

from rasf.drawing import GREY
from rasf_lab.common.results import Result


def provenance(drawn: Figure, result: Result) -> Figure:
    """Add a line with version, experiment, preset, seed, wall time and device to a figure, and return the figure."""
    made = f"{result.wall_time_s:.0f} s on {result.device}, {result.date}"
    run = f"rasf {result.version}, {result.experiment}, preset {result.preset}, seed {result.seed}"
    drawn.supxlabel(f"{run}, {made}", fontsize=6, color=GREY)
    return drawn
