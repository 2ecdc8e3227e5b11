"""Return against failures as the dial of a family runs over its range, every level on the same chances.

A level is one set of rollouts. Levels are even over the dial, rounded to its steps, and neutral is added where it is
not among them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rasf.arrays import Floats
from rasf.statistics import Interval
from rasf_explorer.scenes.scene import RiskFamily, RolloutScene, SceneOutcome, Stop, Stopped

LEVELS = 13


@dataclass(frozen=True)
class Point:
    """One place on the frontier."""

    level: float
    returns: Interval
    failures: Interval

    @classmethod
    def of(cls, level: float, outcome: SceneOutcome) -> Point:
        return cls(level, outcome.measures["return"], outcome.measures["failures"])


@dataclass(frozen=True)
class Frontier:
    """Points from low levels to high ones."""

    family: str
    points: tuple[Point, ...]


def levels(family: RiskFamily, count: int = LEVELS) -> tuple[float, ...]:
    """So many levels of the dial, ends included, and neutral, from low to high."""
    even = np.linspace(family.low, family.high, count)
    on_steps = family.low + family.step * np.round((even - family.low) / family.step)
    inside = np.clip(on_steps, family.low, family.high)
    # as a person would write them: 0.1, not 0.1 + 1e-17, so that equal levels have one name
    return tuple(sorted({round(float(level), 9) + 0.0 for level in (*inside, family.neutral)}))


def frontier(
    scene: RolloutScene[SceneOutcome],
    w: Floats,
    family: RiskFamily,
    seed: int,
    episodes: int,
    report: Callable[[float, Frontier], None],
    stop: Stop = lambda: False,
    known: dict[float, Point] | None = None,
) -> Frontier:
    """The whole frontier; `report` is told the share done and the points so far after each level.

    `known` remembers the points of earlier calls with the same w, family, seed and episodes, by level.
    """
    known = {} if known is None else known
    points: list[Point] = []
    wanted = levels(family)
    for level in wanted:
        if stop():
            raise Stopped
        if level not in known:
            known[level] = Point.of(level, scene.roll_out(w, family.make(level), episodes, seed, stop))
        points.append(known[level])
        report(len(points) / len(wanted), Frontier(family.name, tuple(points)))
    return Frontier(family.name, tuple(points))
