"""The four-room world with a tabular library: GPI in every cell, scores in one cell, rollouts.

The context is a bit mask of the objects collected so far. An agent collects an object by entering its cell, so this
cell is always scored with the object's bit set. No action is taken in walls and at the goal. Visits include the start
and the last cell, so the visits of a goal are the share of episodes that reach the goal. A failure is a trap that
fires.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from rasf.arrays import Floats, Ints
from rasf.checks import whole
from rasf.envs.four_room import CLASSES, GOAL, START, TRAP, WALL, FourRoom
from rasf.envs.gymnasium.description import EnvironmentDescription
from rasf.library.policy_library import PolicyLibrary, SourcePolicy
from rasf.library.tables.policies import TablePolicies
from rasf.risk import MeanVariance, Risk
from rasf_explorer.scenes.families import cvar, mean_variance, served, trained_for
from rasf_explorer.scenes.limits import is_sure, limits_of, notes_of
from rasf_explorer.scenes.scene import (
    PLAIN,
    Layout,
    MapOutcome,
    MapPolicy,
    MapScene,
    SceneScores,
    Stop,
    Stopped,
    Ways,
    Weight,
    measures,
)
from rasf_lab.rollouts.four_room import Walks, chances, check_rooms, walk_by_rule, walk_four_room

ENVIRONMENT = "rasf/FourRoom-v0"
_LONGEST, _MOST_CELLS = 5_000, 2_500
_PLAYED = 12  # number of rollouts whose paths are kept
_TASKS, _STEPS = 24, 30_000  # number of training tasks, each with a neutral and an averse policy; steps of each task
_TRAINED_FOR = (MeanVariance(0.0), MeanVariance(-4.0))
_PAPER_ENDS = (1.0, -2.0)  # weights of goal and failure in the paper's tasks
# at these weights, the share of episodes that fail depends on the level of risk: 0 to 20 % for the library of seed 0
_DEFAULT_CLASSES, _DEFAULT_GOAL, _DEFAULT_FAILURE = (1.0, 0.5, 0.0), 1.0, -2.0


class FourRoomScene(MapScene):
    """The scene of `rasf/FourRoom-v0`; see the module's header."""

    title = "Four rooms"
    offers_static = True
    about = (
        "The reward of an object depends on its class, and is set by a slider. The goal ends the episode. A trap may "
        "fire after each step that ends on it. A trap that fires ends the episode and counts as a failure. Nothing is "
        "trained here: the library's policies are scored for every task and risk."
    )

    def __init__(self, library: PolicyLibrary) -> None:
        sources = library.sources
        if library.environment.id != ENVIRONMENT or not isinstance(sources, TablePolicies):
            raise ValueError(f"library must be a tabular library of {ENVIRONMENT}, got {library!r}")
        self.library, self.rooms, self._sources = library, rooms_of(library.environment), sources
        check_rooms(sources, self.rooms)
        cells = self.rooms.cells
        self._object_at = self.rooms.world().object_at
        self._acts = np.array([symbol not in (WALL, GOAL) for symbol in cells])
        meaning = {START: "start", GOAL: "goal", TRAP: "trap"}
        meaning |= {symbol: f"object of class {symbol}" for symbol in CLASSES if symbol in cells} | {WALL: "wall"}
        self.layout = Layout.of(self.rooms.shape, cells, meaning, WALL, TRAP, GOAL, CLASSES)
        self.weights = _weights(self.rooms)
        self.families = served(sources, (mean_variance(-4.0, 1.0, 0.1, -2.0), cvar(0.2)))
        self.policies = tuple(_in_words(policy) for policy in library.policies)
        self._failure = self.rooms.n_features - 1
        label = (
            "failures at most, in 95 % of tasks" if is_sure(library, self._failure) else "failures at most, expected"
        )
        self.limit = Weight(label, 0.0, 0.2, 0.005, 0.2)

    def policy(self, w: Floats, risk: Risk, context: int = 0, ways: Ways = PLAIN) -> MapPolicy:
        cells = np.flatnonzero(self._acts)
        limits = limits_of(self.library, self._failure, ways)
        found = self.library.scores(self._observations(cells, context), w, risk, limits)
        action, driver = np.full((2, len(self._acts)), -1)
        seen = cells[found.seen]
        action[seen], driver[seen] = found.action[found.seen], found.source[found.seen]
        return MapPolicy(action, driver)

    def cell(self, cell: int, w: Floats, risk: Risk, context: int = 0, ways: Ways = PLAIN) -> SceneScores:
        """Return the scores in one cell. `seen` is False in walls and at the goal."""
        self.check_place(cell, context)
        limits = limits_of(self.library, self._failure, ways)
        found = self.library.scores(self._observations(np.array([cell]), context)[0], w, risk, limits)
        seen = bool(found.seen and self._acts[cell])
        action, driver = int(found.action), int(found.source)
        return SceneScores(found.values, found.mean, found.std, action, driver, seen, self.library.gamma)

    def roll_out(
        self, w: Floats, risk: Risk, episodes: int, seed: int, stop: Stop = lambda: False, ways: Ways = PLAIN
    ) -> MapOutcome:
        draws = chances(self.rooms, whole("episodes", episodes), whole("seed", seed, 0))
        weights, walks = np.asarray(w, np.float64), None
        rule = self.library.rule(weights, risk, static=ways.static, limits=limits_of(self.library, self._failure, ways))
        threshold, earned, memory = float("nan"), np.zeros((episodes, 0)), None
        if ways == PLAIN:
            walks = walk_four_room(self._sources, self.rooms, weights, risk, draws, stop)
        else:
            ruled = walk_by_rule(rule, self.rooms, draws, stop)
            if ruled is not None:
                walks, earned, memory = ruled
                threshold = float(memory.own.get("threshold", [0.0])[0]) if ways.static else threshold
        if walks is None:
            raise Stopped
        start = self._observations(np.array([self.layout.start]), 0).astype(np.float64)
        notes = notes_of(self.library, rule, start, memory)
        return replace(self._outcome(walks, weights, earned if ways.static else None), threshold=threshold, notes=notes)

    def _outcome(self, walks: Walks, weights: Floats, earned: Floats | None) -> MapOutcome:
        episodes = len(walks.lengths)
        failures, returns = walks.phi[:, -1].copy(), walks.phi @ weights
        there = np.arange(walks.cells.shape[1]) <= walks.lengths[:, None]
        visits = np.bincount(walks.cells[there], minlength=len(self._acts)) / episodes
        found = measures(returns, failures, walks.lengths)
        ends = list(enumerate(walks.lengths[:_PLAYED] + 1))
        paths = tuple(walks.cells[e, :end].astype(np.int64) for e, end in ends)
        contexts = tuple(walks.flags[e, :end].copy() for e, end in ends)
        so_far = () if earned is None else tuple(earned[e, :end].copy() for e, end in ends)
        return MapOutcome(returns, failures, walks.lengths, found, visits, paths, contexts, so_far)

    def _observations(self, cells: Ints, context: int) -> Ints:
        """Return the observations of `rasf/FourRoom-v0` in cells (B,). In an object's cell, the object's flag is 1."""
        self.check_place(self.layout.start, context)
        n_objects = len(self.layout.objects)
        flags = np.tile(context >> np.arange(n_objects) & 1, (len(cells), 1))
        own = self._object_at[cells]
        flags[own >= 0, own[own >= 0]] = 1
        return np.column_stack([*divmod(cells, self.layout.columns), flags])


def rooms_of(environment: EnvironmentDescription) -> FourRoom:
    """Return the world of a library's environment.

    Args:
        environment: Description of a four-room environment.

    Returns:
        The world.

    Raises:
        ValueError: The world is too large to be shown.
    """
    given = environment.make_kwargs()
    kept = {name: given[name] for name in FourRoom.__match_args__ if name in given}
    rooms, limit = FourRoom(**kept), environment.max_episode_steps
    if limit is not None:
        rooms = replace(rooms, step_limit=min(rooms.step_limit, limit))
    # an untrusted file may describe a world of any size
    for name, number, most in (("step_limit", rooms.step_limit, _LONGEST), ("cells", len(rooms.cells), _MOST_CELLS)):
        if number > most:
            raise ValueError(f"{name} must be at most {most} to be shown, got {number}")
    return rooms


def _weights(rooms: FourRoom) -> tuple[Weight, ...]:
    rewards = [_DEFAULT_CLASSES[k % len(_DEFAULT_CLASSES)] for k in range(rooms.n_classes)]
    return (
        *(Weight(f"class {k + 1}", -1.0, 1.0, 0.05, reward) for k, reward in enumerate(rewards)),
        Weight("goal", 0.0, 2.0, 0.05, _DEFAULT_GOAL, drawn=False),
        Weight("failure", -4.0, 0.0, 0.1, _DEFAULT_FAILURE, drawn=False),
    )


def _in_words(policy: SourcePolicy) -> str:
    *classes, goal, failure = policy.w
    risk = trained_for(policy.risk).replace("mean-variance", "beta")  # short, because legends are narrow
    ends = "" if (goal, failure) == _PAPER_ENDS else f", goal {goal:g}, failure {failure:g}"
    return f"classes {', '.join(f'{w:+.2f}' for w in classes)}{ends}; {risk}"


def train_four_room(tick: Callable[[float], None], stop: Stop, seed: int = 0) -> PolicyLibrary:
    """Train the library of the four-room view, which takes a few seconds.

    Args:
        tick: Called repeatedly with the share of the training that is done.
        stop: Called repeatedly; if the result is True, `Stopped` is raised.
        seed: Seed of the training. Default: 0.

    Returns:
        The library.
    """
    from rasf.library.learn import learn
    from rasf.library.progress import TrainingProgress

    def callback(record: TrainingProgress) -> bool:
        tick(record.share)
        return stop()

    library = learn(
        ENVIRONMENT, tasks=_TASKS, risk=_TRAINED_FOR, agent="rasf-model", steps_per_task=_STEPS, seed=seed,
        callback=callback,
    )  # fmt: skip
    if stop():
        raise Stopped
    return library
