"""Figure 7: entropic utility minus mean at beta = 1 of parametric distributions, against the return's variance."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from rasf import drawing
from rasf_lab.common.provenance import provenance
from rasf_lab.common.results import Result

_STYLES = {"normal": (drawing.BLUE, "-"), "laplace": (drawing.RED, "--"), "logistic": (drawing.GREEN, "-.")}


def draw(result: Result) -> Figure:
    """Draw one curve for each distribution. From the grey line on, the Laplace utility is infinite."""
    curves = result.numbers["figure 7"]
    drawn = drawing.figure(5.0, 3.6)
    axes = drawn.subplots()
    for law, (colour, line) in _STYLES.items():
        axes.plot(curves["variance"], np.asarray(curves[law]), line, color=colour, label=law, linewidth=2)
    grey = drawing.GREY
    axes.axvline(2.0, color=grey, linewidth=0.8)
    axes.text(1.98, 2.9, "Laplace: infinite from here on", ha="right", va="top", rotation=90, fontsize=7, color=grey)
    axes.set(xlabel="variance w' Sigma w of the return", ylabel="utility minus mean, beta = 1", ylim=(0, 3.0))
    axes.legend(frameon=False)
    drawing.plain(axes)
    return provenance(drawn, result)


FIGURES = {"figure_7": draw}
