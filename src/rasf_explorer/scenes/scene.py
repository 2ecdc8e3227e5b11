"""Scenes of the explorer. A scene does the computations for one world, and returns numbers without pictures.

    Scene          sliders for the reward weights w, and families of risks
    RolloutScene   a scene with rollouts from the start states, on a map, with an arm, or on a road

A family of risks has one parameter, beta or alpha. The slider of this parameter is the *dial*, and a value of the
parameter is a *level*. The *driver* of a state is the source policy that GPI selects there. On a map, GPI's choice may
depend on the cell and on the objects collected so far. A bit mask of these objects is the *context*. At the start of an
episode the context is 0.

A scene accepts any w and any risk of its families. `policy`, `cell`, `field` and `at` are called while a slider moves.
`roll_out` is called in another thread once the slider rests. A running call of `roll_out` can be stopped.

Shapes: d features, K source policies, A actions, n rollouts, T steps, C cells of a map, P tip positions of an arm.
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
Stop = Callable[[], bool]  # long work calls this function repeatedly, and raises `Stopped` if the result is True


class Stopped(Exception):
    """An error that ends work whose result is no longer needed."""


@dataclass(frozen=True)
class Weight:
    """A slider for the weight of one feature. In a random task, this weight is random if `drawn`, else the default."""

    name: str
    low: float
    high: float
    step: float
    default: float
    drawn: bool = True


@dataclass(frozen=True)
class RiskFamily:
    """A family of risks and its dial, from `low`, the most averse level, to `high`; `neutral` is the neutral level."""

    name: str  # as in `rasf.risk.names` and in links
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
        """Whether static risk, the risk of the whole return, is possible for this family."""
        return isinstance(self.make(self.low), CertaintyEquivalent)

    @property
    def has_dial(self) -> bool:
        """Whether the dial has more than one level. Some policies support only the neutral risk."""
        return self.low < self.high


@dataclass(frozen=True)
class Ways:
    """Options of acting, in addition to task and risk: a limit, whether the risk is static, and simulated steps."""

    limit: float | None = None
    static: bool = False
    ahead: int = 0


PLAIN = Ways()


@dataclass(frozen=True)
class Proposals:
    """The scored actions if actions are vectors of P entries. Action i is the action of policy i."""

    actions: Floats  # (A, P)
    low: Floats  # (P,) the smallest value of each entry
    high: Floats  # (P,) the largest value of each entry
    entries: tuple[str, ...] = ()  # a name for each entry; empty: entries are numbered from 1

    @property
    def entry_names(self) -> tuple[str, ...]:
        return self.entries or tuple(f"entry {i + 1}" for i in range(self.actions.shape[1]))


@dataclass(frozen=True)
class SceneScores:
    """Scores of K source policies and A actions in one state, and the choice of GPI."""

    values: Floats  # (K, A) scores under the risk, -inf where a policy cannot be scored
    mean: Floats  # (K, A) mean of the return
    std: Floats  # (K, A) standard deviation of the return, nan where it was not learned
    action: int  # GPI's choice
    driver: int  # the selected source policy
    seen: bool  # whether anything was learned in this state
    gamma: float = 1.0  # discount of the scored returns; returns of rollouts are not discounted
    proposals: Proposals | None = None  # the scored actions if they are vectors, else None

    def names(self, numbered: tuple[str, ...], *, brief: bool = False) -> tuple[str, ...]:
        """Return the names of the A actions.

        Args:
            numbered: The names if actions are not vectors.
            brief: Whether to name a vector only by its policy, and not also by its entries. Default: False.

        Returns:
            A name for each action.
        """
        if self.proposals is None:
            return numbered
        entries = ("" if brief else f"{vector_in_words(one)}, " for one in self.proposals.actions)
        return tuple(f"{said}of policy {i}" for i, said in enumerate(entries))


def vector_in_words(action: Floats) -> str:
    """Return the entries of an action (P,), at most six of them, as text."""
    said = ", ".join(f"{entry:+.2f}" for entry in action[:6])
    return f"({said}{', ..' if len(action) > 6 else ''})"


@dataclass(frozen=True)
class SceneOutcome:
    """Results of rollouts from the start states. `measures` are the measures of `rasf evaluate`, with intervals."""

    returns: Floats  # (n,) undiscounted
    failures: Floats  # (n,) failures of each rollout
    lengths: Ints  # (n,) steps of each rollout
    measures: dict[str, Interval]  # return, return_variance, return_cvar, failures, length; speed on a road
    exact: frozenset[str] = field(default=frozenset(), kw_only=True)  # measures that are not estimated from rollouts
    utilities: dict[str, float] = field(default_factory=dict, kw_only=True)  # utilities of the start state, if known
    notes: tuple[str, ...] = field(default=(), kw_only=True)  # sentences, as `scenes.limits.notes_of` returns them

    @property
    def played(self) -> int:
        """The number of rollouts that can be played back."""
        return 0


O_co = TypeVar("O_co", bound=SceneOutcome, covariant=True)


def measures(returns: Floats, failures: Floats, lengths: Ints) -> dict[str, Interval]:
    """Return the measures of n rollouts, with intervals in closed form. CVaR is the mean of the worst tenth."""
    return {
        "return": normal_mean(returns),
        "return_variance": normal_variance(returns),
        "return_cvar": normal_tail(returns, WORST),
        "failures": event_interval(failures),
        "length": normal_mean(lengths.astype(np.float64)),
    }


def within(interval: Interval, low: float, high: float = np.inf) -> Interval:
    """Return an interval with its ends clipped to [low, high]."""
    return Interval(interval.estimate, max(interval.low, low), min(interval.high, high))


class Scene(ABC):
    """The parts of every scene: sliders, dials and the names of the source policies."""

    layers: ClassVar[dict[str, str]]  # labels of the layers of the picture, by the layer's name in links
    title: str
    about: str  # a few sentences on the picture and on failures
    failure: ClassVar[str] = "failure"  # the word for a failure
    weights: tuple[Weight, ...]  # one slider per feature
    families: tuple[RiskFamily, ...]  # the available risks; the first is the default
    policies: tuple[str, ...]  # task and risk of each source policy, in words
    limit: Weight | None = None  # a slider for a limit, whose right end means no limit; None for no slider
    offers_static: bool = False  # whether the scene supports static risk
    ahead: Weight | None = None  # a slider for the number of steps that are simulated before an action is scored

    @property
    def default_task(self) -> Floats:
        return np.array([weight.default for weight in self.weights], np.float64)

    def random_task(self, rng: np.random.Generator) -> Floats:
        """Return weights: uniformly random for each slider with `drawn`, and the default for all others."""
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
        """Do in advance what would make the first calls slow, such as compilation."""
        if stop():
            raise Stopped


class RolloutScene(Scene, Generic[O_co]):
    """A scene with rollouts."""

    @abstractmethod
    def roll_out(
        self, w: Floats, risk: Risk, episodes: int, seed: int, stop: Stop = lambda: False, ways: Ways = PLAIN
    ) -> O_co:
        """Act from the start states, and return the results.

        Args:
            w: Weights (d,).
            risk: A risk of one of the scene's families.
            episodes: Number of rollouts.
            seed: Seed of the random numbers, which do not depend on w, risk and ways.
            stop: Called repeatedly; if the result is True, `Stopped` is raised. Default: a function that returns False.
            ways: A limit, static risk and simulated steps, if the scene offers these options. Default: none.

        Returns:
            The results.

        Raises:
            ValueError: An argument is wrong.
            Stopped: `stop` returned True.
        """


@dataclass(frozen=True)
class Layout:
    """A map: one symbol for each cell, row by row, and the meaning of the symbols."""

    rows: int
    columns: int
    symbols: str
    meaning: dict[str, str]  # symbol -> words, in the order of a legend
    start: int
    walls: tuple[int, ...]
    hazards: tuple[int, ...]
    goals: tuple[int, ...]
    objects: tuple[int, ...]  # cells of objects, in the order of their bits in the context
    hazards_end: bool = False  # whether every hazard ends the episode, so that no action is taken in hazards

    @classmethod
    def of(
        cls, shape: tuple[int, int], symbols: str, meaning: dict[str, str], *kinds: str, hazards_end: bool = False
    ) -> Layout:
        """Return a layout made from symbols.

        Args:
            shape: Rows and columns.
            symbols: One symbol for each cell, row by row; S is the start.
            meaning: Words for each symbol, in the order of the legend.
            *kinds: The symbols of walls, hazards, goals and objects, in this order.
            hazards_end: Whether every hazard ends the episode. Default: False.

        Returns:
            The layout.
        """
        walls, hazards, goals, objects = (
            tuple(cell for cell, symbol in enumerate(symbols) if symbol in kind) for kind in kinds
        )
        return cls(*shape, symbols, meaning, symbols.index(START), walls, hazards, goals, objects, hazards_end)


@dataclass(frozen=True)
class MapPolicy:
    """GPI's choices in all cells in one context; -1 where no action is taken or nothing was learned."""

    action: Ints  # (C,)
    driver: Ints  # (C,) the selected source policy


@dataclass(frozen=True)
class MapOutcome(SceneOutcome):
    """Rollouts on a map."""

    visits: Floats  # (C,) mean number of visits of each cell per episode
    paths: tuple[Ints, ...]  # cells of the first few rollouts, from the start on
    contexts: tuple[Ints, ...]  # the context at every step of these rollouts
    earned: tuple[Floats, ...] = ()  # the accrued return at every step of these rollouts; empty without static risk
    threshold: float = float("nan")  # the threshold of the static risk (`rasf.library.acting.static`)

    @property
    def played(self) -> int:
        return len(self.paths)


class MapScene(RolloutScene[MapOutcome]):
    """A scene on a map: four rooms, or the grid."""

    layers: ClassVar[dict[str, str]] = {"drivers": "Selected policy", "visits": "Visits", "trajectory": "Trajectory"}
    layout: Layout

    @abstractmethod
    def policy(self, w: Floats, risk: Risk, context: int = 0, ways: Ways = PLAIN) -> MapPolicy:
        """Return GPI's choice in every cell. A limit applies to the sum of the feature from the cell on."""

    @abstractmethod
    def cell(self, cell: int, w: Floats, risk: Risk, context: int = 0, ways: Ways = PLAIN) -> SceneScores:
        """Return the scores of every source policy and action in one cell."""

    def warm(self, stop: Stop) -> None:
        w, risk = self.default_task, self.families[0].make(self.families[0].default)
        self.policy(w, risk)
        self.cell(self.layout.start, w, risk)
        self.roll_out(w, risk, 2, 0, stop)

    def check_place(self, cell: int, context: int) -> None:
        """Raise an error for a cell or a context that the map does not have."""
        cells, contexts = len(self.layout.symbols), 2 ** len(self.layout.objects)
        if not 0 <= cell < cells:
            raise ValueError(f"cell must be 0 to {cells - 1}, got {cell}")
        if not 0 <= context < contexts:
            raise ValueError(f"context must be 0 to {contexts - 1}, a bit for each object, got {context}")


@dataclass(frozen=True)
class Arm:
    """The reacher's geometry, in metres."""

    targets: Floats  # (targets, 2) positions
    risky: tuple[int, ...]  # indices of the targets at the centres of risky circles
    radius: float  # radius of a risky circle
    links: tuple[float, float]  # distances from shoulder to elbow and from elbow to tip
    training: int  # number of training targets, which come first in `targets`


@dataclass(frozen=True)
class Posture:
    """The arm at rest with its tip at a position, and the torques of GPI's choice there."""

    elbow: Floats  # (2,) position
    tip: Floats  # (2,) position
    torques: Floats  # (2,) on shoulder and elbow, in [-1, 1]; a positive torque turns anticlockwise


@dataclass(frozen=True)
class Field:
    """The objective, which is GPI's largest score, for the arm at rest with its tip at P positions."""

    tips: Floats  # (P, 2)
    value: Floats  # (P,)
    driver: Ints  # (P,) the selected source policy
    cell: float  # the distance between neighbouring tip positions


@dataclass(frozen=True)
class ArmOutcome(SceneOutcome):
    """Rollouts of the arm. Positions, in metres, are kept for the first m rollouts."""

    in_circle: Interval  # share of time in risky circles
    # mean distance in metres from the target with the largest weight, in the second half of a rollout; nan if no target
    # has a positive weight
    distance: Interval
    elbows: Floats  # (m, T, 2) positions
    tips: Floats  # (m, T, 2) positions
    failed: Ints  # (m, T) 1 at a step with a failure, otherwise 0

    @property
    def played(self) -> int:
        return len(self.tips)


class ArmScene(RolloutScene[ArmOutcome]):
    """A scene with an arm: the reacher."""

    layers: ClassVar[dict[str, str]] = {"objective": "Objective", "plain": "Arm only"}
    arm: Arm

    @abstractmethod
    def field(self, w: Floats, risk: Risk) -> Field:
        """Return the objective at all tip positions."""

    @abstractmethod
    def at(self, tip: tuple[float, float], w: Floats, risk: Risk) -> SceneScores:
        """Return the scores of every policy and action, for the arm at rest with its tip at or near a position."""

    @abstractmethod
    def posture(self, tip: tuple[float, float], w: Floats, risk: Risk) -> Posture:
        """Return the posture that is scored at or near a position, and the torques that GPI takes there."""


@dataclass(frozen=True)
class Road:
    """A road from above, in metres. x points right, y points down."""

    lanes: tuple[tuple[Floats, float], ...]  # centre line (n, 2) and width of each lane
    lines: tuple[tuple[Floats, bool], ...]  # painted lines (n, 2), and whether they are broken
    obstacles: Floats  # (obstacles, 2) positions
    window: tuple[float, float]  # width and height of the visible part
    middle: tuple[float, float]  # centre of the visible part
    follows: bool  # whether the visible part moves along x with the agent's car


@dataclass(frozen=True)
class Drive:
    """One rollout of T steps on a road. The first car is the own car, which the agent drives."""

    cars: Floats  # (T + 1, cars, 4): x, y, heading, 1 if crashed; nan while a car is not on the road
    sizes: Floats  # (cars, 2) length and width, in metres
    speeds: Floats  # (T + 1,) speeds of the own car, in m/s
    observations: tuple[Any, ...]  # T + 1 observations, as the environment returns them

    @property
    def steps(self) -> int:
        return len(self.speeds) - 1

    @property
    def collided(self) -> bool:
        return bool(self.cars[-1, 0, 3])


@dataclass(frozen=True)
class RoadOutcome(SceneOutcome):
    """Rollouts on a road."""

    drives: tuple[Drive, ...]  # the first few rollouts

    @property
    def played(self) -> int:
        return len(self.drives)
