"""highway-env's Kinematics observation, compiled: a row for the ego, then rows for the closest visible objects.

The ego is the car that observes. An object is visible if it is nearer than the perception distance and at most two car
lengths behind the ego. With `see_behind`, vehicles that are further behind are visible, too, but obstacles are not. The
closest objects have the smallest |distance along the ego's lane|. Features with a range are mapped from it to [-1, 1]
and, with `clip`, clipped. Rows without an object are 0.

The features cos_d and sin_d are the direction from a car to the end of its route, or 0 without a route. For cars other
than the ego, cos_d and sin_d are 0 unless `intentions` is set (highway-env's observe_intentions).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from rasf.arrays import Floats, Ints
from rasf.compiled import compiled
from rasf_lab.driving.road_map import RoadMap, local, point
from rasf_lab.driving.traffic import ANY_LANE, OBSTACLE, Cars

FEATURES = ("presence", "x", "y", "vx", "vy", "cos_h", "sin_h", "cos_d", "sin_d")
_X, _VY, _COS_D = (FEATURES.index(name) for name in ("x", "vy", "cos_d"))


class View(NamedTuple):
    """Settings of the observation, as in highway-env's KinematicObservation, with F features per row."""

    features: Ints  # (F,) indices into FEATURES
    ranges: Floats  # (F, 2), nan for features that are not scaled
    rows: int
    distance: float
    absolute: bool
    sort: bool
    clip: bool
    see_behind: bool
    obstacles: bool
    intentions: bool


@compiled(_nrt=False)
def destination(network: RoadMap, routes: Ints, car: Any) -> tuple[float, float]:
    """Return the direction (cos, sin) from a car to the end of its route; (0, 0) without a route."""
    if car.kind == OBSTACLE or car.route == car.route_end:
        return 0.0, 0.0
    road, wanted = routes[car.route_end - 1]
    lane = network.lanes[network.roads[road].first_lane + (0 if wanted == ANY_LANE else wanted)]
    x, y = point(lane, lane.length)
    dx, dy = x - car.x, y - car.y
    far = math.sqrt(dx * dx + dy * dy)
    return (dx / far, dy / far) if far > 0 else (0.0, 0.0)


@compiled(_nrt=False)
def feature(car: Any, number: int) -> float:
    """Return the feature FEATURES[number] of an object, not relative to the ego; cos_d and sin_d are not supported."""
    if number == 0:
        return 1.0
    if number == 1:
        return car.x
    if number == 2:
        return car.y
    direction = math.cos(car.heading) if number == 3 or number == 5 else math.sin(car.heading)
    if number >= 5:
        return direction
    return 0.0 if car.kind == OBSTACLE else car.speed * direction


@compiled()
def observe(view: View, network: RoadMap, cars: Cars, routes: Ints, ego: int) -> Floats:
    """Return the observation (rows, F) of car `ego`."""
    here, lanes = cars[ego], network.lanes
    s_ego, _ = local(lanes[here.lane], here.x, here.y)
    seen, gaps, count = np.empty(len(cars), np.int64), np.empty(len(cars)), 0
    for i in range(len(cars)):
        if i == ego or (cars[i].kind == OBSTACLE and not view.obstacles):
            continue
        dx, dy = cars[i].x - here.x, cars[i].y - here.y
        if not math.sqrt(dx * dx + dy * dy) < view.distance:
            continue
        gap = local(lanes[here.lane], cars[i].x, cars[i].y)[0] - s_ego
        if not -2 * here.length < gap and not (view.see_behind and cars[i].kind != OBSTACLE):
            continue
        at = count
        # objects with equal gaps stay in the order of `cars`
        while view.sort and at > 0 and gaps[at - 1] > abs(gap):
            seen[at], gaps[at] = seen[at - 1], gaps[at - 1]
            at -= 1
        seen[at], gaps[at] = i, abs(gap)
        count += 1
    table = np.zeros((view.rows, len(view.features)))
    for row in range(min(count + 1, view.rows)):
        car = here if row == 0 else cars[seen[row - 1]]
        towards = destination(network, routes, car) if row == 0 or view.intentions else (0.0, 0.0)
        for k in range(len(view.features)):
            number = view.features[k]
            value = feature(car, number) if number < _COS_D else towards[number - _COS_D]
            if row > 0 and not view.absolute and _X <= number <= _VY:
                value -= feature(here, number)
            low, high = view.ranges[k]
            if not math.isnan(low):
                value = -1 + (value - low) * 2 / (high - low)
                if view.clip:
                    value = min(max(value, -1.0), 1.0)
            table[row, k] = value
    return table
