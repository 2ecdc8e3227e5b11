"""The frontier of a family of risks: mean return and failures at levels along its dial.

Rollouts at all levels use the same random numbers. Levels are evenly spaced over the dial and rounded to the
dial's steps. The neutral level is always included. The module `scene` explains the words dial and level.
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
    """Mean return and failures at one level."""

    level: float
    returns: Interval
    failures: Interval

    @classmethod
    def of(cls, level: float, outcome: SceneOutcome) -> Point:
        return cls(level, outcome.measures["return"], outcome.measures["failures"])


@dataclass(frozen=True)
class Frontier:
    """Points of a family of risks, in ascending order of the level."""

    family: str
    points: tuple[Point, ...]


def levels(family: RiskFamily, count: int = LEVELS) -> tuple[float, ...]:
    """Return `count` levels from one end of the dial to the other, and the neutral level, in ascending order."""
    even = np.linspace(family.low, family.high, count)
    on_steps = family.low + family.step * np.round((even - family.low) / family.step)
    inside = np.clip(on_steps, family.low, family.high)
    # round 0.30000000000000004 to 0.3, so that a level is always the same key of `known`
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
    """Return the frontier, and report it level by level.

    Args:
        scene: The scene whose policies act.
        w: Weights (d,).
        family: The family of risks.
        seed: Seed of the rollouts, the same at every level.
        episodes: Rollouts for each level.
        report: Called after each level with the share of levels that are done, and the frontier of these levels.
        stop: Called repeatedly; if the result is True, `Stopped` is raised. Default: a function that returns False.
        known: Points by level, from earlier calls with the same w, family, seed and episodes. New points are added to
            this dict. Default: no points.

    Returns:
        The frontier.
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
