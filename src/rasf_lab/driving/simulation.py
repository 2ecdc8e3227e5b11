"""`drive`: several frames of traffic in one compiled call. Vehicles act, give way, move and collide.

The right of way is that of highway-env's regulated roads, and is checked at intervals. A check predicts the positions
of all vehicles in the next 2.75 seconds, at constant speed along their routes. Predictions use rectangles that are
longer and narrower than the vehicles. If two rectangles touch, the vehicle on the lane of lower priority stops. If the
priorities are equal, the vehicle further behind stops. A stopped vehicle drives on after a number of checks.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from rasf.arrays import Floats, Ints
from rasf.compiled import compiled
from rasf_lab.driving.road_map import RoadMap, heading_at, point
from rasf_lab.driving.traffic import ANY_LANE, DRIVER, NO_CAR, Scene, act, act_as_ego, collide, move, place

_STEP, _LOOKS = 0.25, 11  # seconds between predicted positions, and the number of predicted positions
_LONGER, _NARROWER = 1.5, 0.9  # predictions multiply length and width of vehicles by these factors


class RightOfWay(NamedTuple):
    """The times of the checks of the right of way.

    Attributes:
        every: the number of frames from one check to the next. Default: 0, no checks.
        frame: the number of frames that the road has simulated so far. Default: 0.
        wait: the number of checks after which a stopped vehicle drives on. Default: 0.
    """

    every: int = 0
    frame: int = 0
    wait: float = 0.0


@compiled(_nrt=False)
def lane_of_route(net: RoadMap, routes: Ints, k: int, lane_id: int) -> int:
    """Return the lane of row k of the routes. If the row allows any lane of the road, return the lane `lane_id`."""
    road = net.roads[routes[k, 0]]
    i = lane_id if routes[k, 1] == ANY_LANE else routes[k, 1]
    if i >= road.lanes:
        raise NotImplementedError
    return road.first_lane + i


@compiled()
def path(scene: Scene, i: int) -> Floats:
    """Return the predicted path (_LOOKS, 3) of car i: x, y and heading."""
    car, net = scene.cars[i], scene.network
    ahead = np.empty((_LOOKS, 3))
    for t in range(_LOOKS):
        s = scene.along[i, car.lane] + car.speed * (_STEP * (t + 1))
        lane = car.lane
        if car.route < car.route_end:
            k, lane_id = car.route, net.lanes[car.lane].id
            lane = lane_of_route(net, scene.routes, k, lane_id)
            while k + 1 < car.route_end and s > net.lanes[lane].length:
                s -= net.lanes[lane].length
                k += 1
                lane = lane_of_route(net, scene.routes, k, lane_id)
        ahead[t, 0], ahead[t, 1] = point(net.lanes[lane], s)
        ahead[t, 2] = heading_at(net.lanes[lane], s)
    return ahead


@compiled(_nrt=False)
def touches(a: Floats, length_a: float, width_a: float, b: Floats, length_b: float, width_b: float) -> bool:
    """Return whether a corner, the middle of a side or the centre of rectangle a is in rectangle b.

    A rectangle is (x, y, heading) with a length and a width. The points are rotated by b's heading. A rotation by the
    negative heading would be correct, but this function reproduces highway-env's results.
    """
    cos_a, sin_a, cos_b, sin_b = math.cos(a[2]), math.sin(a[2]), math.cos(b[2]), math.sin(b[2])
    for along in (-length_a / 2, 0.0, length_a / 2):
        for across in (-width_a / 2, 0.0, width_a / 2):
            dx = cos_a * along - sin_a * across + a[0] - b[0]
            dy = sin_a * along + cos_a * across + a[1] - b[1]
            x, y = cos_b * dx - sin_b * dy, sin_b * dx + cos_b * dy
            if -length_b / 2 <= x <= length_b / 2 and -width_b / 2 <= y <= width_b / 2:
                return True
    return False


@compiled(_nrt=False)
def conflict(a: Any, path_a: Floats, b: Any, path_b: Floats) -> bool:
    """Return whether two cars touch on their predicted paths (_LOOKS, 3) at the same time."""
    length_a, width_a = _LONGER * a.length, _NARROWER * a.width
    length_b, width_b = _LONGER * b.length, _NARROWER * b.width
    for t in range(_LOOKS):
        dx, dy = path_b[t, 0] - path_a[t, 0], path_b[t, 1] - path_a[t, 1]
        if math.sqrt(dx * dx + dy * dy) > a.length:
            continue
        if touches(path_a[t], length_a, width_a, path_b[t], length_b, width_b) or touches(
            path_b[t], length_b, width_b, path_a[t], length_a, width_a
        ):
            return True
    return False


@compiled(_nrt=False)
def yields(scene: Scene, i: int, j: int) -> int:
    """Return the car that gives way, i or j."""
    a, b, lanes = scene.cars[i], scene.cars[j], scene.network.lanes
    if lanes[a.lane].priority != lanes[b.lane].priority:
        return j if lanes[a.lane].priority > lanes[b.lane].priority else i
    dx, dy = b.x - a.x, b.y - a.y
    return i if a.cos * dx + a.sin * dy > b.cos * -dx + b.sin * -dy else j


@compiled()
def regulate(scene: Scene, n_vehicles: int, wait: float) -> None:
    """Stop cars that must give way, and restart cars that have been stopped for `wait` checks."""
    cars = scene.cars
    paths = np.empty((n_vehicles, _LOOKS, 3))
    for i in range(n_vehicles):
        car = cars[i]
        if car.yielding > 0:
            if car.yield_timer >= wait:
                car.target_speed, car.yielding = scene.network.lanes[car.lane].speed_limit, 0
                if math.isnan(car.target_speed):
                    raise NotImplementedError
            else:
                car.yield_timer += 1
        paths[i] = path(scene, i)
    for i in range(n_vehicles):
        for j in range(i + 1, n_vehicles):
            if conflict(cars[i], paths[i], cars[j], paths[j]):
                waits = cars[yields(scene, i, j)]
                if waits.kind == DRIVER:
                    waits.target_speed, waits.yielding, waits.yield_timer = 0.0, 1, 0


@compiled()
def drive(
    scene: Scene, n_vehicles: int, frames: int, dt: float, ego: int, shift: int, right_of_way: RightOfWay
) -> None:
    """Move all cars in place by several frames.

    Args:
        scene: the traffic.
        n_vehicles: the number of vehicles. In `scene.cars`, the vehicles are before the obstacles.
        frames: the number of frames.
        dt: the seconds of a frame.
        ego: the index of the car that takes an action before the first frame, or NO_CAR.
        shift: the number of lanes by which the ego's target lane moves to the right; negative for the left.
        right_of_way: the times of the checks of the right of way.
    """
    cars = scene.cars
    for i in range(len(cars)):
        lane = cars[i].lane
        place(scene, i)
        # `place` sets the closest lane; restore the caller's lane, which can be another lane
        cars[i].lane = lane
    if ego != NO_CAR:
        act_as_ego(scene, ego, shift)
    for frame in range(frames):
        for i in range(n_vehicles):
            act(scene, i)
        if right_of_way.every > 0 and (right_of_way.frame + frame + 1) % right_of_way.every == 0:
            regulate(scene, n_vehicles, right_of_way.wait)
        for i in range(n_vehicles):
            move(scene, i, dt)
        for i in range(n_vehicles):
            for j in range(i + 1, len(cars)):
                collide(cars[i], cars[j], dt)
