"""A road with a library of driving policies: rollouts in traffic, with speeds and collisions.

`rasf.library.trials.run_rule` makes the rollouts. Traffic has the same start states at every risk, and then reacts to
the own car, which the agent drives. The environments stay open, because making an environment takes longer than an
episode. A lock ensures that only one call of `roll_out` uses the environments at a time.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from rasf.arrays import Floats
from rasf.checks import whole
from rasf.envs.gymnasium.single import FeatureEnvironment, Step, make, seeds_from
from rasf.envs.gymnasium.vector import SyncEnvs
from rasf.library.policy_library import PolicyLibrary
from rasf.library.trials import run_rule
from rasf.risk import Risk
from rasf.statistics.intervals import normal_mean
from rasf_explorer.scenes.library import LibraryScene
from rasf_explorer.scenes.limits import is_sure, notes_of
from rasf_explorer.scenes.scene import (
    PLAIN,
    Drive,
    Road,
    RoadOutcome,
    RolloutScene,
    Stop,
    Stopped,
    Ways,
    Weight,
    measures,
    within,
)
from rasf_lab.driving import roads

ROADS = frozenset(f"rasf/{road.title()}-v0" for road in roads.ROADS)
_AT_ONCE = 16  # number of environments that are stepped together
_LONGEST = 200  # largest number of steps of an episode; a time limit from an untrusted library file may be larger
_PLAYED = 10  # number of rollouts that can be played back
# in metres: length of the visible part of a long road, side of the visible square of other roads, margin around lanes
_AHEAD, _AROUND, _VERGE = 120.0, 104.0, 3.0
_BEND = 2.0  # distance in metres between neighbouring points of a curved lane


class DrivingScene(LibraryScene, RolloutScene[RoadOutcome]):
    """The scene of the driving environments; see the module's header."""

    layers: ClassVar[dict[str, str]] = {"road": "Road"}
    failure: ClassVar[str] = "collision"

    def __init__(self, library: PolicyLibrary) -> None:
        super().__init__(library)
        env_id, settings = self._checked_env(), self._env_kwargs()
        self._environments = [_Watched(make(env_id, settings)) for _ in range(_AT_ONCE)]
        first = self._environments[0]
        library.check_environment(first.describe())
        self.road = road_of(first.traffic)
        self.actions = tuple(name.replace("_", " ").lower() for name in first.traffic.action_type.actions.values())
        self._acting = threading.Lock()
        self.title = str(library.environment.id).removeprefix("rasf/").removesuffix("-v0")
        self.about = (
            f"{self._world}The rollouts at the chosen and at the neutral risk begin in the same traffic, which then "
            "reacts to the car. Nothing is trained here: the library's policies are scored for every task and risk. A "
            "collision ends the episode and counts as a failure."
        )
        tasks = np.array([policy.w for policy in library.policies])
        self.weights = tuple(map(_signed, self.weights, first.env.unwrapped.signs, tasks.T))
        self._cost, self._sign = library.n_features - 1, 1.0
        kind = "in 95 % of tasks" if is_sure(library, self._cost) else "expected, discounted"
        self.limit = Weight(f"collisions at most, {kind}", 0.0, 0.5, 0.01, 0.5)

    def warm(self, stop: Stop) -> None:
        self.roll_out(self.default_task, self.families[0].make(self.families[0].default), 2, 0, stop)

    def roll_out(
        self, w: Floats, risk: Risk, episodes: int, seed: int, stop: Stop = lambda: False, ways: Ways = PLAIN
    ) -> RoadOutcome:
        seeds = seeds_from(whole("seed", seed, 0), whole("episodes", episodes))
        rule = self.library.rule(w, risk, static=ways.static, limits=self.limits(ways))
        logs = {one: _Log(is_played=i < _PLAYED) for i, one in enumerate(seeds)}

        def callback(over: int) -> None:
            if stop():
                raise Stopped

        with self._acting:
            callback(0)
            for environment in self._environments:
                environment.logs = logs
            report = run_rule(self.library, SyncEnvs(self._environments), rule, seeds, _LONGEST, callback)
        assert report.failures is not None  # the driving environments report failures
        speeds = np.array([np.mean(log.speeds[1:]) for log in logs.values()])
        found = measures(report.returns, report.failures, report.lengths)
        return RoadOutcome(
            report.returns,
            report.failures,
            report.lengths,
            found | {"speed": within(normal_mean(speeds), 0.0)},
            tuple(log.drive() for log in logs.values() if log.is_played),
            notes=notes_of(self.library, rule, report.starts, report.memory),
        )


class _Log:
    """The speeds of the own car in an episode. If `is_played`, the log also has all cars and observations."""

    def __init__(self, is_played: bool) -> None:
        self.is_played, self.speeds = is_played, list[float]()
        self._observations, self._cars = list[Any](), dict[int, Any]()
        self._frames: list[dict[int, tuple[float, float, float, bool]]] = []

    def add(self, obs: Any, traffic: Any) -> None:
        own = traffic.vehicle
        self.speeds.append(float(own.speed))
        if self.is_played:
            cars = {id(car): car for car in (own, *traffic.road.vehicles)}
            self._cars |= cars  # keeps all cars alive, so that Python does not reuse their ids
            self._frames.append({key: (*car.position, car.heading, car.crashed) for key, car in cars.items()})
            self._observations.append(obs)

    def drive(self) -> Drive:
        cars = np.full((len(self._frames), len(self._cars), 4), np.nan)
        for t, frame in enumerate(self._frames):
            for i, key in enumerate(self._cars):
                if key in frame:
                    cars[t, i] = frame[key]
        sizes = np.array([(car.LENGTH, car.WIDTH) for car in self._cars.values()], np.float64)
        return Drive(cars, sizes, np.array(self.speeds), tuple(self._observations))


class _Watched(FeatureEnvironment):
    """A driving environment that records each episode in the log that belongs to the episode's seed."""

    logs: dict[int, _Log]

    @property
    def traffic(self) -> Any:
        """The environment object of highway-env."""
        return self.env.unwrapped.highway_env

    def reset(self, seed: int | None = None) -> Any:
        obs = super().reset(seed)
        assert seed is not None  # evaluation gives each episode its own seed
        self._log = self.logs[seed]
        self._log.add(obs, self.traffic)
        return obs

    def step(self, action: int) -> Step:
        step = super().step(action)
        self._log.add(step.obs, self.traffic)
        return step


def road_of(traffic: Any) -> Road:
    """Return the road of an environment of highway-env.

    On a road that is more than four times as long as wide, the visible part follows the own car.
    """
    from highway_env.road.lane import LineType, StraightLane

    lanes, lines = [], []
    for lane in traffic.road.network.lanes_list():
        count = 2 if type(lane) is StraightLane else 1 + int(np.ceil(lane.length / _BEND))
        places = np.linspace(0.0, lane.length, count)
        lanes.append((np.array([lane.position(s, 0.0) for s in places]), float(lane.width)))
        for side, kind in zip((-0.5, 0.5), lane.line_types, strict=True):
            if kind != LineType.NONE:
                line = np.array([lane.position(s, side * lane.width) for s in places])
                lines.append((line, kind == LineType.STRIPED))
    every = np.concatenate([middle for middle, _ in lanes])
    low, high = every.min(axis=0), every.max(axis=0)
    wide, deep = high - low
    follows = bool(wide > 4 * deep)
    room = 2 * _VERGE + max(width for _, width in lanes)
    obstacles = np.array([thing.position for thing in traffic.road.objects], np.float64).reshape(-1, 2)
    window = (_AHEAD, float(deep) + room) if follows else (_AROUND, _AROUND)
    middle = (low + high) / 2
    return Road(tuple(lanes), tuple(lines), obstacles, window, (float(middle[0]), float(middle[1])), follows)


def _signed(weight: Weight, sign: int, trained: Floats) -> Weight:
    """Return the slider `weight`. If no trained weight (tasks,) has the other sign, limit the slider to `sign`."""
    if sign > 0 and trained.min() >= 0:
        return replace(weight, low=0.0)
    return replace(weight, high=0.0) if sign < 0 and trained.max() <= 0 else weight
