"""Draw the paper's figures in docs/figures from the shipped results: `python docs/paper_figures.py` (needs Pillow).

The maps of Figures 13 and 14 are in lab/results/reacher.npz. Pictures are saved with 256 colours, a third of the bytes;
`rasf reproduce` draws the same figures in full colour.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from PIL import Image

from rasf_lab.common.archive import load_archive
from rasf_lab.common.results import shipped
from rasf_lab.paper.reproduce import draw_result

DOCS = Path(__file__).parent
RESULTS = DOCS.parent / "lab" / "results"


def draw() -> list[Path]:
    """Draw all figures and return their files."""
    results = shipped()
    maps = load_archive(RESULTS / "reacher.npz").shared
    drawn = [results[name] for name in ("grid", "theory", "four-room")] + [replace(results["reacher"], arrays=maps)]
    return [path for result in drawn for path in draw_result(result, DOCS / "figures")]


def reduce_colours(path: Path) -> None:
    """Save a picture again with 256 colours; k-means keeps rare ones, such as the red of a mark."""
    with Image.open(path) as picture:
        picture.convert("RGB").quantize(256, kmeans=3).save(path, optimize=True)


if __name__ == "__main__":
    for figure in draw():
        reduce_colours(figure)
