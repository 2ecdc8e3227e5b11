"""Return against failures as the dial of a family runs over its range, every level on the same chances.

A level is one set of rollouts. Levels are even over the dial, rounded to its steps, and neutral is added where it is
not among them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rasf.arrays import Floats
from rasf.explorer.scenes.scene import ArmScene, Family, Frontier, MapScene, Point, Stop, Stopped

LEVELS = 13


def levels(family: Family, count: int = LEVELS) -> tuple[float, ...]:
    """So many levels of the dial, ends included, and neutral, from low to high."""
    even = np.linspace(family.low, family.high, count)
    on_steps = family.low + family.step * np.round((even - family.low) / family.step)
    inside = np.clip(on_steps, family.low, family.high)
    # as a person would write them: 0.1, not 0.1 + 1e-17, so that equal levels have one name
    return tuple(sorted({round(float(level), 9) + 0.0 for level in (*inside, family.neutral)}))


def frontier(
    scene: MapScene | ArmScene,
    w: Floats,
    family: Family,
    seed: int,
    episodes: int,
    report: Callable[[float, Frontier], None],
    stop: Stop = lambda: False,
) -> Frontier:
    """The whole frontier; `report` is told the share done and the points so far after each level."""
    points: list[Point] = []
    wanted = levels(family)
    for level in wanted:
        if stop():
            raise Stopped
        found = scene.roll_out(w, family.make(level), episodes, seed, stop).measures
        points.append(Point(level, found["return"], found["failures"]))
        report(len(points) / len(wanted), Frontier(family.name, tuple(points)))
    return Frontier(family.name, tuple(points))
