"""The picture that the README opens with: `python docs/driving_picture.py`, from the shipped results and library.

Left: collisions against speed, on weightings that nobody trained for. Right: the same traffic, met by the neutral car
and by the averse one, as the first collides; which episode is decided by the rule of
`rasf demo --driving`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from rasf import drawing
from rasf.envs.gymnasium.single import seeds_from
from rasf_lab.common.provenance import provenance
from rasf_lab.common.results import shipped
from rasf_lab.suite import film
from rasf_lab.suite.figures import front


def frames() -> dict[str, np.ndarray]:
    """A picture of each car, at the same time of the same episode."""
    library = film.shipped_driver()
    for seed in seeds_from(0, film.EPISODES):
        drives = {name: film.drive(library, risk, seed, "rgb_array") for name, risk in film.RISKS.items()}
        if drives["neutral"].crashed:
            at = drives["neutral"].steps
            return {name: drive.frames[min(at, len(drive.frames) - 1)] for name, drive in drives.items()}
    raise ValueError("the neutral car never collides")


def draw() -> None:
    """Write docs/figures/driving.png."""
    result = shipped()["suite"]
    drawn = drawing.figure(10.5, 4.0)
    left, right = drawn.subfigures(1, 2, width_ratios=[1.15, 1])
    axes = left.subplots()
    front(axes, result.numbers["highway"], "gauge")
    axes.set_ylabel("mean speed, m/s", fontsize=8)
    axes.set_xlabel("collisions, share of episodes", fontsize=8)
    for axes, (name, frame) in zip(right.subplots(2, 1), frames().items(), strict=True):
        axes.imshow(frame)
        axes.set_title(f"{name}", fontsize=9, loc="left")
        axes.axis("off")
    drawing.save(provenance(drawn, result), Path(__file__).parent / "figures" / "driving.png")


if __name__ == "__main__":
    draw()
