"""Where the numbers of a figure come from, as one small line under it."""

from __future__ import annotations

from matplotlib.figure import Figure

from rasf.drawing import GREY
from rasf_lab.common.results import Result


def provenance(drawn: Figure, result: Result) -> Figure:
    """Return the figure with a line of version, experiment, preset, seed, wall time and device under it."""
    made = f"{result.wall_time_s:.0f} s on {result.device}, {result.date}"
    run = f"rasf {result.version}, {result.experiment}, preset {result.preset}, seed {result.seed}"
    drawn.supxlabel(f"{run}, {made}", fontsize=6, color=GREY)
    return drawn
