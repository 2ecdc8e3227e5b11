"""What the explorer's pages ask of a world, and what they get: numbers. Computing is done below, drawing elsewhere.

    Scene          sliders for the reward weights w, families of risks with their dials
    RolloutScene   a scene that acts from the start: `MapScene` on a map, `ArmScene` with an arm, or on a `Road`

A scene answers for any w and any risk of its families. `policy`, `cell`, `field` and `at` answer while a slider moves;
`roll_out` is asked when it rests, from another thread, and may be asked to stop. A map's policy may depend on more
than the cell: on what was collected, as a bit mask, the `context`; 0 is the beginning.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from rasf.arrays import Floats, Ints
from rasf.envs.grid import MOVES, START
from rasf.library.evaluation import WORST
from rasf.risk import Risk
from rasf.risk.certainty import CertaintyEquivalent
from rasf.statistics.intervals import Interval, event_interval, normal_mean
from rasf_explorer.scenes.closed_forms import normal_tail, normal_variance

ACTIONS = tuple(MOVES)  # on all maps: left, up, right, down
Stop = Callable[[], bool]  # long work asks it now and then, and gives up where it says True


class Stopped(Exception):
    """Work was given up because nobody waits for it any more."""


@dataclass(frozen=True)
class Weight:
    """A slider: the weight of one feature; a random task draws it, or leaves it at its default."""

    name: str
    low: float
    high: float
    step: float
    default: float
    drawn: bool = True


@dataclass(frozen=True)
class RiskFamily:
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
    def can_be_static(self) -> bool:
        """Whether its risks can be held fixed for a whole return."""
        return isinstance(self.make(self.low), CertaintyEquivalent)

    @property
    def has_dial(self) -> bool:
        """Whether there is anything to turn: of some policies only the mean is known."""
        return self.low < self.high


@dataclass(frozen=True)
class Ways:
    """How to act, beside task and risk: within a limit, and for the risk of the whole return."""

    limit: float | None = None
    static: bool = False


PLAIN = Ways()


@dataclass(frozen=True)
class SceneScores:
    """Every source policy and action at one place; action and driver are those that GPI takes."""

    values: Floats  # (K, A), -inf where a policy takes no part
    mean: Floats  # (K, A)
    std: Floats  # (K, A), nan where the law does not know it
    action: int
    driver: int
    seen: bool  # whether anything was learned here
    gamma: float = 1.0  # how the returns scored are discounted; those of rollouts never are


@dataclass(frozen=True)
class SceneOutcome:
    """Rollouts from the start; `measures` are means with intervals, as `rasf evaluate` has them."""

    returns: Floats  # (n,) undiscounted
    failures: Floats  # (n,) failures of each rollout
    lengths: Ints  # (n,)
    measures: dict[str, Interval]  # return, return_variance, return_cvar, failures, length; speed on a road
    exact: frozenset[str] = field(default=frozenset(), kw_only=True)  # measures that are computed, not estimated
    utilities: dict[str, float] = field(default_factory=dict, kw_only=True)  # at the start, where they are known
    notes: tuple[str, ...] = field(default=(), kw_only=True)  # prices of limits, promises, and what cannot be kept

    @property
    def played(self) -> int:
        """How many rollouts can be played back."""
        return 0


O_co = TypeVar("O_co", bound=SceneOutcome, covariant=True)


def measures(returns: Floats, failures: Floats, lengths: Ints) -> dict[str, Interval]:
    """What rollouts (n,) come to, with intervals in closed form; CVaR is the mean of the worst tenth."""
    return {
        "return": normal_mean(returns),
        "return_variance": normal_variance(returns),
        "return_cvar": normal_tail(returns, WORST),
        "failures": event_interval(failures),
        "length": normal_mean(lengths.astype(np.float64)),
    }


def within(interval: Interval, low: float, high: float = np.inf) -> Interval:
    """The part of an interval that is possible."""
    return Interval(interval.estimate, max(interval.low, low), min(interval.high, high))


class Scene(ABC):
    """What every scene has: sliders, dials, and what its source policies were trained for."""

    layers: ClassVar[dict[str, str]]  # what the picture can show: as the link says it, and in words
    title: str
    about: str  # what is seen, and what a failure is, in a few sentences
    failure: ClassVar[str] = "failure"  # what one is called
    weights: tuple[Weight, ...]  # one slider per feature
    families: tuple[RiskFamily, ...]  # the risks it can be asked for; the first is the usual one
    policies: tuple[str, ...]  # what each source policy was trained for, in words
    limit: Weight | None = None  # a slider for a limit, whose right end is none; where the scene offers one
    offers_static: bool = False  # whether it acts for the risk of a whole return, too

    @property
    def default_task(self) -> Floats:
        return np.array([weight.default for weight in self.weights], np.float64)

    def random_task(self, rng: np.random.Generator) -> Floats:
        """Weights as tasks of this world have them: those that are drawn, anywhere on their way."""
        task = self.default_task
        for i, weight in enumerate(self.weights):
            if weight.drawn:
                places = round((weight.high - weight.low) / weight.step)
                place = round(weight.low + weight.step * int(rng.integers(places + 1)), 6)
                task[i] = np.clip(place, weight.low, weight.high)
        return task

    def family(self, name: str) -> RiskFamily:
        return next(family for family in self.families if family.name == name)

    def warm(self, stop: Stop) -> None:
        """Have done before anybody looks what is slow the first time only, as compiling."""
        if stop():
            raise Stopped


class RolloutScene(Scene, Generic[O_co]):
    """A scene that acts."""

    @abstractmethod
    def roll_out(
        self, w: Floats, risk: Risk, episodes: int, seed: int, stop: Stop = lambda: False, ways: Ways = PLAIN
    ) -> O_co:
        """Act from the start, in ways that the scene offers; the same seed gives the same chances, whoever acts."""


@dataclass(frozen=True)
class Layout:
    """A map: one symbol per cell, row by row, and what the symbols mean."""

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

    @classmethod
    def of(
        cls, shape: tuple[int, int], symbols: str, meaning: dict[str, str], *kinds: str, hazards_end: bool = False
    ) -> Layout:
        """A map with its start at S; `kinds` are the symbols of walls, hazards, goals and objects, in this order."""
        walls, hazards, goals, objects = (
            tuple(cell for cell, symbol in enumerate(symbols) if symbol in kind) for kind in kinds
        )
        return cls(*shape, symbols, meaning, symbols.index(START), walls, hazards, goals, objects, hazards_end)


@dataclass(frozen=True)
class MapPolicy:
    """GPI on every cell in one context: action and driver (C,), -1 where nobody acts or nothing was learned."""

    action: Ints
    driver: Ints


@dataclass(frozen=True)
class MapOutcome(SceneOutcome):
    """Rollouts on a map."""

    visits: Floats  # (C,) steps an episode spends in a cell, in the mean
    paths: tuple[Ints, ...]  # cells of the first few rollouts, the start included
    contexts: tuple[Ints, ...]  # what was collected at every step of them
    earned: tuple[Floats, ...] = ()  # the discounted return so far at every step of them, where a static risk minds it
    threshold: float = float("nan")  # and what it is judged by

    @property
    def played(self) -> int:
        return len(self.paths)


class MapScene(RolloutScene[MapOutcome]):
    """Four rooms, or the grid."""

    layers: ClassVar[dict[str, str]] = {"drivers": "Who drives", "visits": "Visits", "trajectory": "Trajectory"}
    layout: Layout

    @abstractmethod
    def policy(self, w: Floats, risk: Risk, context: int = 0, ways: Ways = PLAIN) -> MapPolicy:
        """GPI on the whole map; a limit counts from each cell on."""

    @abstractmethod
    def cell(self, cell: int, w: Floats, risk: Risk, context: int = 0, ways: Ways = PLAIN) -> SceneScores:
        """Why GPI does what it does in one cell."""

    def warm(self, stop: Stop) -> None:
        w, risk = self.default_task, self.families[0].make(self.families[0].default)
        self.policy(w, risk)
        self.cell(self.layout.start, w, risk)
        self.roll_out(w, risk, 2, 0, stop)

    def check_place(self, cell: int, context: int) -> None:
        """Refuse what is not on the map."""
        cells, contexts = len(self.layout.symbols), 2 ** len(self.layout.objects)
        if not 0 <= cell < cells:
            raise ValueError(f"cell must be 0 to {cells - 1}, got {cell}")
        if not 0 <= context < contexts:
            raise ValueError(f"context must be 0 to {contexts - 1}, a bit for each object, got {context}")


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
class ArmOutcome(SceneOutcome):
    """Rollouts of the arm."""

    in_circle: Interval  # share of the time spent in risky circles
    distance: Interval  # metres from the target with the largest weight, over the second half; nan where none has one
    elbows: Floats  # (m, T, 2) of the first few rollouts
    tips: Floats  # (m, T, 2)
    failed: Ints  # (m, T) 1 where a failure happened

    @property
    def played(self) -> int:
        return len(self.tips)


class ArmScene(RolloutScene[ArmOutcome]):
    """The reacher."""

    layers: ClassVar[dict[str, str]] = {"objective": "Objective", "plain": "Arm only"}
    arm: Arm

    @abstractmethod
    def field(self, w: Floats, risk: Risk) -> Field:
        """The objective wherever the tip may rest."""

    @abstractmethod
    def at(self, tip: tuple[float, float], w: Floats, risk: Risk) -> SceneScores:
        """Every policy and action with the arm at rest, its tip here (or at the nearest place it can reach)."""


@dataclass(frozen=True)
class Road:
    """A road from above, in metres; x points right, y down."""

    lanes: tuple[tuple[Floats, float], ...]  # the middle (n, 2) of each, and its width
    lines: tuple[tuple[Floats, bool], ...]  # those painted on it (n, 2), and whether they are broken
    obstacles: Floats  # (m, 2)
    window: tuple[float, float]  # how much is seen at once, across and down
    middle: tuple[float, float]  # of the window
    follows: bool  # whether the window goes across with the own car


@dataclass(frozen=True)
class Drive:
    """One rollout on a road, from the first observation to the last."""

    cars: Floats  # (T + 1, n, 4): x, y, heading, 1 if crashed; the own car first; nan while a car is not on the road
    sizes: Floats  # (n, 2) length and width, in metres
    speeds: Floats  # (T + 1,) of the own car, in m/s
    observations: tuple[Any, ...]  # T + 1, as the environment gives them

    @property
    def steps(self) -> int:
        return len(self.speeds) - 1

    @property
    def collided(self) -> bool:
        return bool(self.cars[-1, 0, 3])


@dataclass(frozen=True)
class RoadOutcome(SceneOutcome):
    """Rollouts on a road."""

    drives: tuple[Drive, ...]  # the first few

    @property
    def played(self) -> int:
        return len(self.drives)
