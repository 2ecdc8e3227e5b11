"""What the explorer's pages ask of a world, and what they get: numbers. Computing is done below, drawing elsewhere.

A scene answers for any reward weights w and any risk of its families. `policy` and `cell` answer while a slider moves;
`roll_out` is asked when it rests, from another thread, and may be asked to stop. A map's policy may depend on more
than the cell: on what was collected, as a bit mask, the `context`; 0 is the beginning.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from rasf.arrays import Floats, Ints
from rasf.risk import Risk
from rasf.statistics import Interval

Stop = Callable[[], bool]  # long work asks it now and then, and gives up where it says True


class Stopped(Exception):
    """Work was given up because nobody waits for it any more."""


@dataclass(frozen=True)
class Weight:
    """A slider: the weight of one feature."""

    name: str
    low: float
    high: float
    step: float
    default: float


def draw_task(weights: tuple[Weight, ...], drawn: Collection[int], rng: np.random.Generator) -> Floats:
    """The sliders' defaults, but for those drawn: anywhere on their way."""
    task = np.array([weight.default for weight in weights], np.float64)
    for i in drawn:
        places = round((weights[i].high - weights[i].low) / weights[i].step)
        task[i] = round(weights[i].low + weights[i].step * int(rng.integers(places + 1)), 6)
    return np.clip(task, [weight.low for weight in weights], [weight.high for weight in weights])


@dataclass(frozen=True)
class Family:
    """A family of risks and its dial, from `low`, the most averse, to `high`; at `neutral` only the mean counts."""

    name: str  # as `rasf.risk.names` has it, and as the link says it
    label: str
    parameter: str  # "beta" or "alpha"
    low: float
    high: float
    step: float
    neutral: float
    default: float
    make: Callable[[float], Risk]

    @property
    def has_dial(self) -> bool:
        """Whether there is anything to turn: of some policies only the mean is known."""
        return self.low < self.high


@dataclass(frozen=True)
class Scores:
    """Every source policy and action at one place; action and driver are those that GPI takes."""

    values: Floats  # (K, A), -inf where a policy takes no part
    mean: Floats  # (K, A)
    spread: Floats  # (K, A), nan where the law does not know it
    action: int
    driver: int
    seen: bool  # whether anything was learned here
    gamma: float = 1.0  # how the returns scored are discounted; those of rollouts never are


@dataclass(frozen=True)
class Outcome:
    """Rollouts from the start; `measures` are means with intervals, as `rasf evaluate` has them."""

    returns: Floats  # (n,) undiscounted
    failures: Floats  # (n,) failures of each rollout
    lengths: Ints  # (n,)
    measures: dict[str, Interval]  # return, variance, cvar, failures, length
    exact: frozenset[str] = field(default=frozenset(), kw_only=True)  # measures that are computed, not estimated
    utilities: dict[str, float] = field(default_factory=dict, kw_only=True)  # at the start, where they are known


class Dialled(Protocol):
    """What every scene has: sliders and dials."""

    @property
    def weights(self) -> tuple[Weight, ...]:
        """One slider a feature."""

    @property
    def families(self) -> tuple[Family, ...]:
        """The risks it can be asked for; the first is the usual one."""

    def random_task(self, rng: np.random.Generator) -> Floats:
        """Weights as tasks of this world have them."""


class Shown(Dialled, Protocol):
    """What maps and arms have in common."""

    @property
    def key(self) -> str:
        """As the link says it."""

    @property
    def title(self) -> str:
        """A heading."""

    @property
    def about(self) -> str:
        """What is seen, and what a failure is, in a few sentences."""

    @property
    def policies(self) -> tuple[str, ...]:
        """What each source policy was trained for, in words."""

    def roll_out(self, w: Floats, risk: Risk, episodes: int, seed: int, stop: Stop = lambda: False) -> Outcome:
        """Act from the start; the same seed gives the same chances, whatever w and risk are."""


@dataclass(frozen=True)
class Layout:
    """A map: one symbol a cell, row by row, and what the symbols mean."""

    rows: int
    columns: int
    symbols: str
    meaning: dict[str, str]  # symbol -> words, in the order of a legend
    start: int
    walls: tuple[int, ...]
    hazards: tuple[int, ...]
    goals: tuple[int, ...]
    objects: tuple[int, ...]  # cells whose bits, in this order, make the context
    hazards_end: bool = False  # whether every hazard is the end, so that nobody acts there


@dataclass(frozen=True)
class MapPolicy:
    """GPI on every cell in one context: action and driver (C,), -1 where nobody acts or nothing was learned."""

    action: Ints
    driver: Ints


@dataclass(frozen=True)
class MapOutcome(Outcome):
    """Rollouts on a map."""

    visits: Floats  # (C,) steps an episode spends in a cell, in the mean
    paths: tuple[Ints, ...]  # cells of the first few rollouts, the start included
    contexts: tuple[Ints, ...]  # what was collected at every step of them


class MapScene(Shown, Protocol):
    """Four rooms, or the grid. Actions are left, up, right, down."""

    @property
    def layout(self) -> Layout:
        """The map."""

    def policy(self, w: Floats, risk: Risk, context: int = 0) -> MapPolicy:
        """GPI on the whole map."""

    def cell(self, cell: int, w: Floats, risk: Risk, context: int = 0) -> Scores:
        """Why GPI does what it does in one cell."""

    def roll_out(self, w: Floats, risk: Risk, episodes: int, seed: int, stop: Stop = lambda: False) -> MapOutcome:
        """Act from the start; the same seed gives the same chances, whatever w and risk are."""


@dataclass(frozen=True)
class Arm:
    """The reacher's geometry, in metres."""

    targets: Floats  # (12, 2)
    risky: tuple[int, ...]
    radius: float
    links: tuple[float, float]  # shoulder to elbow, elbow to tip
    training: int  # the first so many targets were trained on


@dataclass(frozen=True)
class Field:
    """GPI's objective over tip positions at rest."""

    tips: Floats  # (P, 2)
    value: Floats  # (P,)
    driver: Ints  # (P,)
    cell: float  # the distance of neighbouring tips


@dataclass(frozen=True)
class ArmOutcome(Outcome):
    """Rollouts of the arm."""

    in_circle: Interval  # share of the time spent in risky circles
    distance: Interval  # metres from the target with the largest weight, over the second half; nan where none has one
    elbows: Floats  # (m, T, 2) of the first few rollouts
    tips: Floats  # (m, T, 2)
    failed: Ints  # (m, T) 1 where a failure happened


class ArmScene(Shown, Protocol):
    """The reacher."""

    @property
    def arm(self) -> Arm:
        """The geometry."""

    def field(self, w: Floats, risk: Risk) -> Field:
        """The objective wherever the tip may rest."""

    def at(self, tip: tuple[float, float], w: Floats, risk: Risk) -> Scores:
        """Every policy and action with the arm at rest, its tip here (or at the nearest place it can reach)."""

    def roll_out(self, w: Floats, risk: Risk, episodes: int, seed: int, stop: Stop = lambda: False) -> ArmOutcome:
        """Act from random postures; the same seed gives the same chances."""


@dataclass(frozen=True)
class Point:
    """One place on the frontier."""

    level: float
    returns: Interval
    failures: Interval


@dataclass(frozen=True)
class Frontier:
    """Return against failures as the dial runs over its range."""

    family: str
    points: tuple[Point, ...]
