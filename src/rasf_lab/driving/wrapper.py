"""`CompiledTraffic`: a wrapper of highway-env's environments that runs the same episodes with compiled traffic.

At each step, the vehicles are copied to arrays, all frames run in compiled code, and the vehicles are copied back. So
rewards, rendering and spawning use highway-env's objects. All inputs are read at each step, even constants of
vehicles, because highway-env's intersection sets some constants on the class of the vehicles. With or without this
wrapper, the intersection thus changes the traffic of every other environment in the same Python process.

The arrays cannot represent steps with other vehicles than IDMVehicle and MDPVehicle, with a recorded history, or with
rendering of every frame. highway-env's own code runs these steps, and `plain_steps` counts them.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
from operator import attrgetter
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from highway_env.envs.common.abstract import AbstractEnv
from highway_env.envs.common.action import DiscreteMetaAction, action_factory
from highway_env.envs.common.observation import KinematicObservation, observation_factory
from highway_env.road.lane import AbstractLane
from highway_env.road.regulation import RegulatedRoad
from highway_env.road.road import Road
from highway_env.vehicle.behavior import IDMVehicle
from highway_env.vehicle.controller import MDPVehicle
from highway_env.vehicle.kinematics import Vehicle
from highway_env.vehicle.objects import Obstacle

from rasf_lab.driving.observation import FEATURES, View, observe
from rasf_lab.driving.road_map import MappedNetwork
from rasf_lab.driving.scenes import can_fill_highway, copy_road, fill_highway, frames_at_once, has_warm_up, road_maker
from rasf_lab.driving.simulation import RightOfWay, drive
from rasf_lab.driving.traffic import ANY_LANE, CAR, DRIVER, EGO, NEVER, NO_CAR, OBSTACLE, Scene, pack, unpack

_state = attrgetter(
    "position", "heading", "speed", "target_speed", "action", "impact", "lane_index", "target_lane_index", "route",
    "crashed", "check_collisions", "solid", "collidable",
)  # fmt: skip
_constants = attrgetter(
    "LENGTH", "WIDTH", "diagonal", "MAX_SPEED", "MIN_SPEED",
    "KP_A", "KP_HEADING", "KP_LATERAL", "TAU_PURSUIT", "MAX_STEERING_ANGLE",
)  # fmt: skip
_driver_constants = attrgetter(
    "ACC_MAX", "COMFORT_ACC_MAX", "COMFORT_ACC_MIN", "DISTANCE_WANTED", "TIME_WANTED", "DELTA",
    "POLITENESS", "LANE_CHANGE_MIN_ACC_GAIN", "LANE_CHANGE_MAX_BRAKING_IMPOSED", "LANE_CHANGE_DELAY",
)  # fmt: skip
_NO_DRIVER = (0.0,) * 10
_NO_IMPACT = (0.0, 0.0)
_SHIFTS = {"LANE_LEFT": -1, "LANE_RIGHT": 1}
_FASTER = {"SLOWER": -1, "FASTER": 1}


class _Unknown(Exception):
    """Raised if the arrays cannot represent the scene."""


class _Cars(NamedTuple):
    cars: npt.NDArray[Any]  # (n,) with dtype CAR
    buffer: bytearray  # the memory of `cars`
    routes: npt.NDArray[np.int64]  # (k, 2), as in `Scene`


class CompiledTraffic(gym.Wrapper[Any, Any, Any, Any], gym.utils.RecordConstructorArgs):
    """A highway-env environment with compiled traffic, which is many times faster: `CompiledTraffic(gym.make(...))`.

    Args:
        env: an environment of highway-env with actions of type `DiscreteMetaAction`.

    Raises:
        TypeError: `env` is another environment or has other actions.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        gym.utils.RecordConstructorArgs.__init__(self)
        super().__init__(env)
        base = env.unwrapped
        if not isinstance(base, AbstractEnv):
            raise TypeError(f"env must be an environment of highway-env, got {type(base).__name__}")
        if type(base.action_type) is not DiscreteMetaAction:
            raise TypeError(f"env must have actions of type DiscreteMetaAction, got {type(base.action_type).__name__}")
        self.plain_steps = 0
        self._base: Any = base
        self._network: MappedNetwork | None = None
        self._road: Any = None
        self._road_of: dict[str, Any] | None = None  # the settings with which `_road` was made
        self._spaces_of: dict[str, Any] | None = None
        self._view: View | None = None
        self._after: _Cars | None = None  # the cars after the last step; None after they have been observed
        # bound methods are stored, because a deep copy of the environment binds methods to the copy
        self._plain_simulate, base._simulate = base._simulate, self._simulate
        self._plain_define_spaces, base.define_spaces = base.define_spaces, self._define_spaces
        maker = road_maker(base)
        if maker is not None:
            self._plain_make_road = getattr(base, maker)
            setattr(base, maker, self._make_road)
        if can_fill_highway(base):
            self._plain_fill, base._create_vehicles = base._create_vehicles, self._fill_highway
        elif has_warm_up(base):
            self._plain_fill, base._make_vehicles = base._make_vehicles, self._fill_intersection

    def _simulate(self, action: Any = None) -> None:
        """Run a step: the action, then all frames."""
        self._after = None
        try:
            self._after = self._drive(action)
        except (_Unknown, NotImplementedError):
            self.plain_steps += 1
            self._plain_simulate(action)

    def _drive(self, action: Any) -> _Cars:
        base, config = self._base, self._base.config
        frames = int(config["simulation_frequency"] // config["policy_frequency"])
        if (
            frames < 1
            or (base.viewer is not None and base.enable_auto_render)
            or config["manual_control"]
            or base.steps % frames
            or type(base.action_type) is not DiscreteMetaAction
        ):
            raise _Unknown
        ego, shift = NO_CAR, 0
        if action is not None:
            vehicle, label = base.action_type.controlled_vehicle, base.action_type.actions[int(action)]
            if type(vehicle) is not MDPVehicle or vehicle not in base.road.vehicles:
                raise _Unknown
            ego, shift = base.road.vehicles.index(vehicle), _SHIFTS.get(label, 0)
            if label in _FASTER:
                index = vehicle.speed_to_index(vehicle.speed) + _FASTER[label]
                vehicle.speed_index = int(min(max(index, 0), vehicle.target_speeds.size - 1))
                vehicle.target_speed = vehicle.index_to_speed(vehicle.speed_index)
        after = self._run(frames, 1 / config["simulation_frequency"], ego, shift)
        base.steps += frames
        base.enable_auto_render = False
        return after

    def _run(self, frames: int, dt: float, ego: int = NO_CAR, shift: int = 0) -> _Cars:
        """Move the target lane of car `ego` by `shift` lanes, then simulate `frames` frames of `dt` seconds."""
        road = self._base.road
        regulated = type(road) is RegulatedRoad
        if not (regulated or type(road) is Road) or road.record_history:
            raise _Unknown
        rules = RightOfWay()
        if regulated:
            wait = float(road.YIELD_DURATION * road.REGULATION_FREQUENCY)
            rules = RightOfWay(int(1 / dt / road.REGULATION_FREQUENCY), road.steps, wait)
            if rules.every == 0:
                raise _Unknown
        network, packed = self._lanes(road.network), self._read(road)
        connected = bool(road.neighbour_vehicles_connected_lanes)
        along, across = np.empty((2, len(packed.cars), len(network.lanes)))
        scene = Scene(network.arrays, packed.cars, packed.routes, along, across, connected)
        drive(scene, len(road.vehicles), frames, dt, ego, shift, rules)
        self._write(road, packed.buffer, network)
        if regulated:
            road.steps += frames
        return packed

    def _lanes(self, network: Any) -> MappedNetwork:
        """Return the network's arrays, which are made once for each network."""
        if self._network is None or self._network.network is not network:
            try:
                self._network = MappedNetwork(network)
            except TypeError as error:
                raise _Unknown from error
        return self._network

    def _read(self, road: Any) -> _Cars:
        """Return the vehicles and obstacles as arrays."""
        network = self._lanes(road.network)
        numbers, roads = network.numbers, network.roads
        buffer, routes = bytearray(), list[tuple[int, int]]()
        try:
            for vehicle in road.vehicles:
                kind = type(vehicle)
                if kind is not IDMVehicle and kind is not MDPVehicle:
                    raise _Unknown
                (position, heading, speed, target_speed, action, impact, lane, target, route, crashed, checks, solid,
                 collidable) = _state(vehicle)  # fmt: skip
                if not (solid and collidable):
                    raise _Unknown
                driver = kind is IDMVehicle
                start = len(routes)
                if route:
                    routes += [(roads[a, b], ANY_LANE if i is None else i) for a, b, i in route]
                buffer += pack(
                    *position.tolist(), heading, speed, target_speed, vehicle.timer if driver else 0.0,
                    action["steering"], action["acceleration"], *(_NO_IMPACT if impact is None else impact),
                    numbers[lane], numbers[target], start, crashed, impact is not None,
                    getattr(vehicle, "is_yielding", NEVER), getattr(vehicle, "yield_timer", 0),
                    DRIVER if driver else EGO, len(routes), checks, driver and vehicle.enable_lane_change,
                    *_constants(vehicle), *(_driver_constants(vehicle) if driver else _NO_DRIVER), 0.0, 0.0,
                )  # fmt: skip
            for thing in road.objects:
                if type(thing) is not Obstacle or not (thing.solid and thing.collidable):
                    raise _Unknown
                lane = numbers[thing.lane_index]
                buffer += pack(
                    *thing.position, thing.heading, thing.speed, 0.0, 0.0, 0.0, 0.0, *_NO_IMPACT,
                    lane, lane, 0, thing.crashed, False, NEVER, 0,
                    OBSTACLE, 0, thing.check_collisions, False,
                    thing.LENGTH, thing.WIDTH, thing.diagonal, *(0.0,) * 7, *_NO_DRIVER, 0.0, 0.0,
                )  # fmt: skip
        except KeyError as error:
            raise _Unknown from error
        return _Cars(np.frombuffer(buffer, CAR), buffer, np.array(routes or np.empty((0, 2)), np.int64))

    def _write(self, road: Any, buffer: bytearray, network: MappedNetwork) -> None:
        """Copy the state from the arrays to the vehicles and obstacles."""
        indices, lanes = network.indices, network.lanes
        route_start = 0
        for vehicle, (
            x, y, heading, speed, target_speed, timer, steering, acceleration, impact_x, impact_y,
            lane, target, route, crashed, struck, yielding, yield_timer,
        ) in zip(itertools.chain(road.vehicles, road.objects), unpack(buffer), strict=True):  # fmt: skip
            vehicle.crashed = bool(crashed)
            if type(vehicle) is Obstacle:
                continue
            vehicle.position[0], vehicle.position[1] = x, y
            vehicle.heading, vehicle.speed = heading, speed
            vehicle.lane_index, vehicle.lane = indices[lane], lanes[lane]
            vehicle.target_lane_index = indices[target]
            vehicle.action = {"steering": steering, "acceleration": acceleration}
            vehicle.impact = np.array([impact_x, impact_y]) if struck else None
            if type(vehicle) is IDMVehicle:
                vehicle.timer, vehicle.target_speed = timer, target_speed
            if yielding != NEVER:
                vehicle.is_yielding, vehicle.yield_timer = bool(yielding), yield_timer
                if yielding:
                    vehicle.color = road.YIELDING_COLOR
                else:
                    vehicle.__dict__.pop("color", None)
            if vehicle.route:
                length = len(vehicle.route)
                del vehicle.route[: route - route_start]
                route_start += length

    def _make_road(self) -> None:
        """Copy the last episode's road without its vehicles, or make a road if the settings have changed."""
        base = self._base
        if _same(base.config, self._road_of):
            base.road = copy_road(self._road, base)
            return
        self._plain_make_road()
        self._road, self._road_of = base.road, copy.deepcopy(base.config)
        with contextlib.suppress(_Unknown):
            base.road.network.get_closest_lane_index = self._lanes(base.road.network).closest

    def _fill_highway(self) -> None:
        fill_highway(self._base) if can_fill_highway(self._base) else self._plain_fill()

    def _fill_intersection(self, n_vehicles: int = 10) -> None:
        base, road = self._base, self._base.road

        def run(frames: int, dt: float) -> None:
            try:
                self._run(frames, dt)
            except (_Unknown, NotImplementedError):
                for _ in range(frames):
                    road.act()
                    road.step(dt)

        with frames_at_once(base, run):
            self._plain_fill(n_vehicles)

    def _define_spaces(self) -> None:
        """Make the spaces only if the settings have changed. In each reset, highway-env calls this method twice."""
        base = self._base
        self._after = None
        if _same(base.config, self._spaces_of):
            base.observation_type = observation_factory(base, base.config["observation"])
            base.action_type = action_factory(base, base.config["action"])
        else:
            self._plain_define_spaces()
            self._spaces_of = None
        kind = base.observation_type
        if type(kind) is not KinematicObservation or type(base.action_type) is not DiscreteMetaAction:
            return
        self._spaces_of = self._spaces_of or copy.deepcopy(base.config)
        self._view = None
        if kind.vehicles_count > 1 and set(kind.features) <= set(FEATURES):
            kind.observe = self._observe

    def _observe(self) -> npt.NDArray[np.float32]:
        """Return the observation that KinematicObservation.observe would return."""
        base, kind = self._base, self._base.observation_type
        after, self._after = self._after, None
        try:
            packed = after or self._read(base.road)
            ego = base.road.vehicles.index(kind.observer_vehicle)
        except (_Unknown, ValueError):
            return KinematicObservation.observe(kind)
        self._view = self._view or self._new_view(kind)
        table = observe(self._view, self._lanes(base.road.network).arrays, packed.cars, packed.routes, ego)
        if kind.order == "shuffled":
            base.np_random.shuffle(table[1:])
        return table.astype(np.float32)

    def _new_view(self, kind: Any) -> View:
        if kind.normalize and not kind.features_range:
            width = AbstractLane.DEFAULT_WIDTH * len(
                self._base.road.network.all_side_lanes(kind.observer_vehicle.lane_index)
            )
            far, fast = 5.0 * Vehicle.MAX_SPEED, 2 * Vehicle.MAX_SPEED
            kind.features_range = {"x": [-far, far], "y": [-width, width], "vx": [-fast, fast], "vy": [-fast, fast]}
        ranges = kind.features_range if kind.normalize else {}
        return View(
            np.array([FEATURES.index(name) for name in kind.features], np.int64),
            np.array([ranges.get(name, (np.nan, np.nan)) for name in kind.features], np.float64),
            kind.vehicles_count,
            float(self._base.PERCEPTION_DISTANCE),
            bool(kind.absolute),
            kind.order == "sorted",
            bool(kind.clip),
            bool(kind.see_behind),
            bool(kind.include_obstacles),
            bool(kind.observe_intentions),
        )


def _same(settings: dict[str, Any], others: dict[str, Any] | None) -> bool:
    """Return whether two settings are equal. Settings with arrays count as different."""
    try:
        return settings == others
    except ValueError:
        return False
