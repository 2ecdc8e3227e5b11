"""The four-room world under a tabular library: GPI on every cell, scores in one, rollouts.

The context is the objects collected so far. Whoever stands on an object has collected it, so an object's own cell is
always asked with its own bit set. Nobody acts in walls and at the goal. Visits count the start and the last cell too,
so that a goal's visits are the share of the episodes that reach it. A failure is a trap that fired.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from rasf.arrays import Floats, Ints
from rasf.envs.four_room import CLASSES, GOAL, START, TRAP, WALL, FourRoom
from rasf.explorer.scenes.families import cvar, mean_variance, neutral_only, served, trained_for
from rasf.explorer.scenes.outcomes import check_request, measures
from rasf.explorer.scenes.scene import Family, Layout, MapOutcome, MapPolicy, Scores, Stop, Stopped, Weight, draw_task
from rasf.library.policy_library import PolicyLibrary, SourcePolicy
from rasf.library.tables.four_room import chances, check_rooms, walk_four_room
from rasf.library.tables.policies import TablePolicies
from rasf.risk import MeanVariance, Risk

ENVIRONMENT = "rasf/FourRoom-v0"
_LONGEST, _MOST_CELLS = 5_000, 2_500
_PLAYED = 12  # rollouts whose paths are kept
# a neutral and an averse policy for each task; the paper's alpha, 0.5, leaves psi too noisy to act by it greedily
_TASKS, _STEPS, _ALPHA = 32, 50_000, 0.15
_TRAINED_FOR = (MeanVariance(0.0), MeanVariance(-4.0))
# the library trained here with seed 0 has three ways with this task, as the dial turns: 0, 10 and 18 % failures
_PAPER_ENDS = (1.0, -2.0)  # what goal and failure earn in the paper's tasks
_DEFAULT_CLASSES, _DEFAULT_GOAL, _DEFAULT_FAILURE = (1.0, -0.75, 0.0), 0.5, -3.0


class FourRoomScene:
    """A `MapScene`; see the module's header."""

    key = "four-room"
    title = "Four rooms"
    about = (
        "Objects earn what the sliders say for their class, the goal ends the episode, and a trap may fire whenever it "
        "is stepped on. Nothing is trained here: the library's policies are judged anew for every task and risk. "
        "A trap that fires ends the episode and counts as a failure."
    )

    def __init__(self, library: PolicyLibrary) -> None:
        sources = library.sources
        if library.environment["id"] != ENVIRONMENT or not isinstance(sources, TablePolicies):
            raise ValueError(f"library must be a tabular one of {ENVIRONMENT}, got {library!r}")
        self.library, self.rooms = library, rooms_of(library.environment)
        self._sources = sources
        check_rooms(sources, self.rooms)
        self._world = self.rooms.world()
        self._acts = np.array([symbol not in (WALL, GOAL) for symbol in self.rooms.cells])
        self.layout = _layout(self.rooms)
        self.weights = _weights(self.rooms)
        dials = served(sources, (mean_variance(-4.0, 1.0, 0.1, -2.0), cvar(0.2)))
        self.families: tuple[Family, ...] = dials or (neutral_only(),)
        self.policies = tuple(_in_words(policy) for policy in library.policies)

    def random_task(self, rng: np.random.Generator) -> Floats:
        """Other rewards for the classes; goal and trap as they are."""
        return draw_task(self.weights, range(self.rooms.n_classes), rng)

    def policy(self, w: Floats, risk: Risk, context: int = 0) -> MapPolicy:
        """GPI on the whole map."""
        cells = np.flatnonzero(self._acts)
        found = self.library.scores(self._observations(cells, context), w, risk)
        action, driver = np.full((2, len(self._acts)), -1)
        seen = cells[found.seen]
        action[seen], driver[seen] = found.action[found.seen], found.driver[found.seen]
        return MapPolicy(action, driver)

    def cell(self, cell: int, w: Floats, risk: Risk, context: int = 0) -> Scores:
        """Why GPI does what it does in one cell; nothing was learned where nobody acts."""
        if not 0 <= cell < len(self._acts):
            raise ValueError(f"cell must be 0 to {len(self._acts) - 1}, got {cell}")
        found = self.library.scores(self._observations(np.array([cell]), context)[0], w, risk)
        return Scores(
            found.values, found.mean, found.spread, int(found.action), int(found.driver),
            bool(found.seen) and bool(self._acts[cell]), self.library.gamma,
        )  # fmt: skip

    def roll_out(self, w: Floats, risk: Risk, episodes: int, seed: int, stop: Stop = lambda: False) -> MapOutcome:
        """Act from the start; the same seed gives the same chances."""
        check_request(episodes, seed)
        weights = np.asarray(w, np.float64)
        draws = chances(self.rooms, episodes, seed)
        walks = walk_four_room(self._sources, self.rooms, weights, risk, draws, stop)
        if walks is None:
            raise Stopped
        failures, returns = walks.phi[:, -1].copy(), walks.phi @ weights
        there = np.arange(walks.cells.shape[1]) <= walks.lengths[:, None]
        visits = np.bincount(walks.cells[there], minlength=len(self._acts)) / episodes
        played = range(min(_PLAYED, episodes))
        return MapOutcome(
            returns, failures, walks.lengths, measures(returns, failures, walks.lengths), visits,
            tuple(walks.cells[e, : walks.lengths[e] + 1].astype(np.int64) for e in played),
            tuple(walks.flags[e, : walks.lengths[e] + 1].copy() for e in played),
        )  # fmt: skip

    def _observations(self, cells: Ints, context: int) -> Ints:
        """What `rasf/FourRoom-v0` shows in these cells (B,), each object's own flag set."""
        n_objects = len(self.layout.objects)
        if not 0 <= context < 1 << n_objects:
            raise ValueError(
                f"context must be flags of {n_objects} objects, 0 to {(1 << n_objects) - 1}, got {context}"
            )
        flags = np.tile(context >> np.arange(n_objects) & 1, (len(cells), 1))
        own = self._world.object_at[cells]
        flags[own >= 0, own[own >= 0]] = 1
        columns = self.rooms.shape[1]
        return np.column_stack([cells // columns, cells % columns, flags])


def rooms_of(environment: dict[str, Any]) -> FourRoom:
    """The map that a library's environment was made with."""
    kept = {name: environment["kwargs"][name] for name in FourRoom.__match_args__ if name in environment["kwargs"]}
    rooms, limit = FourRoom(**kept), environment["max_episode_steps"]
    if limit is not None:
        rooms = replace(rooms, step_limit=min(rooms.step_limit, limit))
    # a stranger's file may ask for any size
    for name, number, most in (("step_limit", rooms.step_limit, _LONGEST), ("cells", len(rooms.cells), _MOST_CELLS)):
        if number > most:
            raise ValueError(f"{name} must be at most {most} to be shown, got {number}")
    return rooms


def _layout(rooms: FourRoom) -> Layout:
    def where(symbols: str) -> tuple[int, ...]:
        return tuple(cell for cell, symbol in enumerate(rooms.cells) if symbol in symbols)

    meaning = {START: "start", GOAL: "goal", TRAP: "trap"}
    meaning |= {symbol: f"object of class {symbol}" for symbol in CLASSES if symbol in rooms.cells}
    meaning |= {WALL: "wall"} if WALL in rooms.cells else {}
    return Layout(
        *rooms.shape,
        rooms.cells,
        meaning,
        rooms.cells.index(START),
        where(WALL),
        where(TRAP),
        where(GOAL),
        where(CLASSES),
    )


def _weights(rooms: FourRoom) -> tuple[Weight, ...]:
    rewards = [_DEFAULT_CLASSES[k % len(_DEFAULT_CLASSES)] for k in range(rooms.n_classes)]
    classes = [Weight(f"class {k + 1}", -1.0, 1.0, 0.05, reward) for k, reward in enumerate(rewards)]
    return (
        *classes,
        Weight("goal", 0.0, 2.0, 0.05, _DEFAULT_GOAL),
        Weight("failure", -4.0, 0.0, 0.1, _DEFAULT_FAILURE),
    )


def _in_words(policy: SourcePolicy) -> str:
    *classes, goal, failure = policy.w
    risk = trained_for(policy.risk).replace("mean-variance", "beta")  # legends are narrow
    ends = "" if (goal, failure) == _PAPER_ENDS else f", goal {goal:g}, failure {failure:g}"
    return f"classes {', '.join(f'{w:+.2f}' for w in classes)}{ends}; {risk}"


def train_four_room(tick: Callable[[float], None], stop: Stop, seed: int = 0) -> PolicyLibrary:
    """The library made on the spot, in a few seconds; `tick` is told the share done after each policy."""
    from rasf.library.learn import learn
    from rasf.library.progress import TrainingProgress

    stopped = False

    def callback(record: TrainingProgress) -> bool:
        nonlocal stopped
        tick((record.policy + 1) / (_TASKS * len(_TRAINED_FOR)))
        stopped = stop()
        return stopped

    library = learn(
        ENVIRONMENT, tasks=_TASKS, risk=_TRAINED_FOR, agent="rasfql", steps_per_task=_STEPS, seed=seed, callback=callback,
        alpha=_ALPHA,
    )  # fmt: skip
    if stopped:
        raise Stopped
    return library
