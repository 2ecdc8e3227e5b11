"""Faster resets of highway-env: roads are kept from episode to episode, and positions of new vehicles are stored.

highway-env makes its roads again in each episode, although the roads depend only on the settings. For each new vehicle
of a highway, highway-env computes the positions of all earlier vehicles again. This module stores roads and positions.
Random numbers are drawn in highway-env's order, so a seed gives the traffic that highway-env gives.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from highway_env.envs.highway_env import HighwayEnv, HighwayEnvFast
from highway_env.envs.intersection_env import IntersectionEnv
from highway_env.envs.merge_env import MergeEnv, MergeGenericEnv
from highway_env.envs.roundabout_env import RoundaboutEnv, RoundaboutGenericEnv
from highway_env.utils import class_from_path, near_split
from highway_env.vehicle.kinematics import Vehicle

_ROADS_OF_THE_SETTINGS = (
    HighwayEnv._create_road,
    MergeEnv._make_road,
    MergeGenericEnv._make_road,
    RoundaboutEnv._make_road,
    RoundaboutGenericEnv._make_road,
    IntersectionEnv._make_road,
)


def road_maker(base: Any) -> str | None:
    """Return the name of the method that makes the road; None if the road may depend on more than the settings."""
    for name in ("_create_road", "_make_road"):
        if getattr(type(base), name, None) in _ROADS_OF_THE_SETTINGS:
            return name
    return None


def copy_road(road: Any, base: Any) -> Any:
    """Return a copy of a road with its network and obstacles, but without vehicles."""
    fresh = type(road)(
        network=road.network,
        np_random=base.np_random,
        record_history=road.record_history,
        neighbour_vehicles_connected_lanes=road.neighbour_vehicles_connected_lanes,
    )
    fresh.objects = [type(thing)(fresh, thing.position, thing.heading, thing.speed) for thing in road.objects]
    return fresh


def fill_highway(base: Any) -> None:
    """Place vehicles as HighwayEnv._create_vehicles does: on a random lane, ahead of all earlier vehicles."""
    config, road, draw = base.config, base.road, base.np_random
    kind = class_from_path(config["other_vehicles_type"])
    ((lanes,),) = (ends.values() for ends in road.network.graph.values())
    closeness = float(np.exp(-5 / 40 * len(lanes)))
    places: list[list[float]] = []

    def start(spacing: float, speed: float | None, lane_id: int | None) -> tuple[Any, float, float]:
        lane = lanes[draw.integers(len(lanes)) if lane_id is None else lane_id]
        if speed is None:
            speed = draw.uniform(0.7 * lane.speed_limit, 0.8 * lane.speed_limit)
        offset = spacing * (12 + 1.0 * speed) * closeness
        (x0, y0), (ux, uy) = lane.start.tolist(), lane.direction.tolist()
        s = max([(x - x0) * ux + (y - y0) * uy for x, y in places]) if places else 3 * offset
        s += offset * draw.uniform(0.9, 1.1)
        position = lane.position(s, 0)
        places.append(position.tolist())
        return position, lane.heading_at(s), speed

    base.controlled_vehicles = []
    for others in near_split(config["vehicles_count"], num_bins=config["controlled_vehicles"]):
        ego = base.action_type.vehicle_class(road, *start(config["ego_spacing"], 25.0, config["initial_lane_id"]))
        base.controlled_vehicles.append(ego)
        road.vehicles.append(ego)
        for _ in range(others):
            vehicle = kind(road, *start(1 / config["vehicles_density"], None, None))
            vehicle.randomize_behavior()
            # HighwayEnvFast checks only the ego's collisions
            vehicle.check_collisions = not isinstance(base, HighwayEnvFast)
            road.vehicles.append(vehicle)


def can_fill_highway(base: Any) -> bool:
    """Return whether `fill_highway` places vehicles as the environment does."""
    known = (HighwayEnv._create_vehicles, HighwayEnvFast._create_vehicles)
    if getattr(type(base), "_create_vehicles", None) not in known:
        return False
    kind = class_from_path(base.config["other_vehicles_type"])
    return kind.create_random.__func__ is Vehicle.create_random.__func__


def has_warm_up(base: Any) -> bool:
    """Return whether vehicles are simulated for some time before the episode, as at the intersection."""
    return getattr(type(base), "_make_vehicles", None) is IntersectionEnv._make_vehicles


@contextlib.contextmanager
def frames_at_once(base: Any, run: Callable[[int, float], None]) -> Iterator[None]:
    """Within the context, delay the road's frames, and simulate several frames by one call of `run(frames, dt)`.

    `run` is called before each new vehicle and at the end, with the number of delayed frames and the seconds per frame.
    """
    road, spawn = base.road, base._spawn_vehicle
    waiting: list[float] = []

    def catch_up() -> None:
        if waiting:
            del road.act, road.step
            run(len(waiting), waiting[0])
            waiting.clear()

    def spawn_later(*args: Any, **options: Any) -> Any:
        catch_up()
        return spawn(*args, **options)

    road.act, road.step, base._spawn_vehicle = lambda: None, waiting.append, spawn_later
    try:
        yield
        catch_up()
    finally:
        for owner, name in ((road, "act"), (road, "step"), (base, "_spawn_vehicle")):
            vars(owner).pop(name, None)
