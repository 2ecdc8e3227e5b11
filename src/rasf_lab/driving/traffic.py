"""Compiled traffic: the behaviour of highway-env's vehicles in one frame, for an array of vehicles.

First every vehicle acts, in turn. A driver (highway-env's IDMVehicle) follows the intelligent driver model

    a = a_max (1 - (v / v_wanted)^delta - (gap_wanted / gap)^2),
    gap_wanted = d + v T + v (v - v_front) / (2 sqrt(a_max b)),

with the driver's speed v, the speed v_front of the vehicle in front, an exponent delta, the distance d and the time gap
T that the driver keeps, and a comfortable acceleration a_max and deceleration b. By the model MOBIL, the driver changes
to a lane if the change increases the driver's acceleration enough, and the vehicle that would be behind need not brake
hard. The ego (MDPVehicle), the car that takes the actions, tracks a speed and a lane. Drivers and the ego steer by a
proportional controller. Then every vehicle moves by a bicycle model, and vehicles that overlap crash.

Operations are in highway-env's order, so that trajectories agree to the last digits. Situations that the arrays cannot
represent raise NotImplementedError, and the caller runs highway-env's code in this step. In the arrays, the vehicles
are first, in the road's order, and then the obstacles. Functions that do not allocate memory are compiled without
reference counting (`_nrt=False`), which halves their time.
"""

from __future__ import annotations

import math
import struct
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rasf.arrays import Floats, Ints
from rasf.compiled import compiled
from rasf_lab.driving.road_map import (
    RoadMap,
    after_end,
    distance,
    heading_at,
    local,
    locate,
    on_lane,
    point,
    reachable,
    wrap,
)

OBSTACLE, DRIVER, EGO = 0, 1, 2
NO_CAR = -1
NEVER = -1  # value of `yielding` for vehicles that never give way; for other vehicles it is 0 (not now) or 1 (now)
ANY_LANE = -1  # lane id in a route that allows any lane of the road; None in highway-env

# the state is copied back to the vehicles after a step; the constants of a vehicle are not copied back
_STATE = {
    "d": "x y heading speed target_speed timer steering acceleration impact_x impact_y",
    "q": "lane target route crashed struck yielding yield_timer",
}
_CONSTANTS = {
    "q": "kind route_end checks changes_lane",
    "d": "length width diagonal max_speed min_speed kp_a kp_heading kp_lateral tau_pursuit max_steering "
    "acc_max comfort_acc_max comfort_acc_min distance_wanted time_wanted delta "  # parameters of the driver model
    "politeness min_gain max_braking change_delay "  # parameters of MOBIL
    "cos sin",  # cosine and sine of the heading
}
_FIELDS = [(kind, names.split()) for kind, names in (*_STATE.items(), *_CONSTANTS.items())]
_FORMATS = [f"{len(names)}{kind}" for kind, names in _FIELDS]
CAR = np.dtype([(name, {"d": np.float64, "q": np.int64}[kind]) for kind, names in _FIELDS for name in names])
# `pack` returns the bytes of a car; `unpack` yields the state of each car in a buffer
pack = struct.Struct("".join(_FORMATS)).pack
unpack = struct.Struct(f"{''.join(_FORMATS[:2])}{struct.calcsize(''.join(_FORMATS[2:]))}x").iter_unpack

Cars = npt.NDArray[Any]


class Scene(NamedTuple):
    """All objects on the road (`cars`, dtype CAR), and their coordinates s (`along`) and r (`across`) in all L lanes.

    A row of `routes` (k, 2) is a road and a lane id. A car's route is routes[car.route : car.route_end]. If
    `connected`, the search for neighbours of a car includes the lanes before and after the car's lane.
    """

    network: RoadMap
    cars: Cars  # (n,)
    routes: Ints
    along: Floats  # (n, L)
    across: Floats  # (n, L)
    connected: bool


@compiled(_nrt=False)
def not_zero(x: float) -> float:
    """Return x as a divisor. If |x| <= 0.01, return 0.01 with the sign of x instead."""
    if abs(x) > 1e-2:
        return x
    return 1e-2 if x >= 0 else -1e-2


@compiled(_nrt=False)
def clip(x: float, low: float, high: float) -> float:
    """Return x clipped to [low, high]."""
    return min(max(x, low), high)


@compiled(_nrt=False)
def place(scene: Scene, i: int) -> None:
    """Update a car's lane, lane coordinates and direction from its position and heading."""
    car = scene.cars[i]
    car.lane = locate(scene.network.lanes, car.x, car.y, car.heading, scene.along[i], scene.across[i])
    car.cos, car.sin = math.cos(car.heading), math.sin(car.heading)


@compiled(_nrt=False)
def next_lane(scene: Scene, i: int) -> int:
    """Return the lane after the target lane: that of the route, else the closest next lane, else the target lane."""
    car, net = scene.cars[i], scene.network
    lane = net.lanes[car.target]
    road = net.roads[lane.road]
    next_road, wanted = -1, ANY_LANE
    if car.route < car.route_end:
        if scene.routes[car.route, 0] == lane.road:
            car.route += 1
        if car.route < car.route_end:
            if net.roads[scene.routes[car.route, 0]].start != road.end:
                raise NotImplementedError  # highway-env warns of such a gap in the route
            next_road, wanted = scene.routes[car.route, 0], scene.routes[car.route, 1]
    x, y = point(lane, scene.along[i, car.target])
    if next_road >= 0:
        return entry(net, lane, net.roads[next_road], wanted, x, y)[0]
    first, count = net.leaving[road.end]
    best, least = car.target, math.inf
    for k in range(first, first + count):
        found, far = entry(net, lane, net.roads[k], wanted, x, y)
        if far < least:
            best, least = found, far
    return best


@compiled(_nrt=False)
def entry(net: RoadMap, lane: Any, road: Any, wanted: int, x: float, y: float) -> tuple[int, float]:
    """Return the lane of `road` to enter from the point (x, y) of `lane`, and its distance from the point."""
    best, least = road.first_lane, math.inf
    if net.roads[lane.road].lanes == road.lanes:
        best = road.first_lane + (lane.id if wanted == ANY_LANE else wanted)
        if best >= road.first_lane + road.lanes:
            raise NotImplementedError
        s, r = local(net.lanes[best], x, y)
        return best, distance(net.lanes[best], s, r)
    for k in range(road.first_lane, road.first_lane + road.lanes):
        s, r = local(net.lanes[k], x, y)
        far = distance(net.lanes[k], s, r)
        if far < least:
            best, least = k, far
    return best, least


@compiled(_nrt=False)
def neighbours(scene: Scene, i: int, lane: int) -> tuple[int, int]:
    """Return the next cars in front of and behind car i on a lane. Car i may be on another lane."""
    net = scene.network
    here, first = scene.along[i, lane], net.links[lane]
    last = net.links[lane + 1] if scene.connected else first + 1
    front, rear, s_front, s_rear = NO_CAR, NO_CAR, 0.0, 0.0
    for other in range(len(scene.cars)):
        if other == i:
            continue
        for k in range(first, last):
            searched = net.linked[k]
            s = scene.along[other, searched]
            if not on_lane(net.lanes[searched], s, scene.across[other, searched], 1.0):
                continue
            s += net.offset[k]
            if here <= s and (front == NO_CAR or s <= s_front):
                front, s_front = other, s
            if s < here and (rear == NO_CAR or s > s_rear):
                rear, s_rear = other, s
            break
    return front, rear


@compiled(_nrt=False)
def gap_wanted(cars: Cars, i: int, ego: int, front: int) -> float:
    """Return the gap that car `ego` (here any car) should keep to car `front`, by the parameters of driver i."""
    driver, a, b = cars[i], cars[ego], cars[front]
    dvx, dvy = a.speed * a.cos - b.speed * b.cos, a.speed * a.sin - b.speed * b.sin
    faster = dvx * a.cos + dvy * a.sin
    braking = math.sqrt(-driver.comfort_acc_max * driver.comfort_acc_min)
    return driver.distance_wanted + a.speed * driver.time_wanted + a.speed * faster / (2 * braking)


@compiled(_nrt=False)
def idm(scene: Scene, i: int, ego: int, front: int) -> float:
    """Return the acceleration of `ego` (any car) behind `front`, by driver i's parameters; 0 if `ego` is no vehicle."""
    cars = scene.cars
    if ego == NO_CAR or cars[ego].kind == OBSTACLE:
        return 0.0
    driver, a = cars[i], cars[ego]
    limit, target = scene.network.lanes[a.lane].speed_limit, a.target_speed
    if not math.isnan(limit):
        target = clip(target, 0.0, limit)
    free = 1 - (max(a.speed, 0.0) / abs(not_zero(target))) ** driver.delta
    acceleration = driver.comfort_acc_max * free
    if front != NO_CAR:
        gap = scene.along[front, a.lane] - scene.along[ego, a.lane]
        acceleration -= driver.comfort_acc_max * (gap_wanted(cars, i, ego, front) / not_zero(gap)) ** 2
    return acceleration


@compiled(_nrt=False)
def mobil(scene: Scene, i: int, lane: int) -> bool:
    """Return whether driver i should change to the lane, by the model MOBIL."""
    driver = scene.cars[i]
    new_front, new_rear = neighbours(scene, i, lane)
    new_rear_now = idm(scene, i, new_rear, new_front)
    new_rear_then = idm(scene, i, new_rear, i)
    if new_rear_then < -driver.max_braking:
        return False
    old_front, old_rear = neighbours(scene, i, driver.lane)
    then = idm(scene, i, i, new_front)
    if driver.route < driver.route_end and scene.routes[driver.route, 1] != ANY_LANE:
        lanes, wanted = scene.network.lanes, scene.routes[driver.route, 1]
        here = lanes[driver.target].id
        return np.sign(lanes[lane].id - here) == np.sign(wanted - here) and not then < -driver.max_braking
    now = idm(scene, i, i, old_front)
    old_rear_now = idm(scene, i, old_rear, i)
    old_rear_then = idm(scene, i, old_rear, old_front)
    for_others = new_rear_then - new_rear_now + old_rear_then - old_rear_now
    return not then - now + driver.politeness * for_others < driver.min_gain


@compiled(_nrt=False)
def choose_lane(scene: Scene, i: int) -> None:
    """Choose the target lane by MOBIL at intervals. Abort a change if a car close ahead changes to the same lane."""
    cars, lanes = scene.cars, scene.network.lanes
    driver = cars[i]
    if driver.lane != driver.target:
        if lanes[driver.lane].road != lanes[driver.target].road:
            return
        for k in range(len(cars)):
            other = cars[k]
            if k == i or other.kind == OBSTACLE or other.lane == driver.target or other.target != driver.target:
                continue
            gap = scene.along[k, driver.lane] - scene.along[i, driver.lane]
            if 0 < gap < gap_wanted(cars, i, i, k):
                driver.target = driver.lane
                return
        return
    if not driver.change_delay < driver.timer:
        return
    driver.timer = 0.0
    here = lanes[driver.lane]
    for side in (-1, 1):
        if not 0 <= here.id + side < scene.network.roads[here.road].lanes:
            continue
        lane = driver.lane + side
        if not reachable(lanes[lane], scene.along[i, lane], scene.across[i, lane]) or abs(driver.speed) < 1:
            continue
        if mobil(scene, i, lane):
            driver.target = lane


@compiled(_nrt=False)
def follow_road(scene: Scene, i: int) -> None:
    """Make the next lane the target lane if the car is near the end of its target lane."""
    car = scene.cars[i]
    if after_end(scene.network.lanes[car.target], scene.along[i, car.target]):
        car.target = next_lane(scene, i)


@compiled(_nrt=False)
def steer(scene: Scene, i: int) -> None:
    """Set the steering angle that leads to the middle of the target lane."""
    car = scene.cars[i]
    s, r = scene.along[i, car.target], scene.across[i, car.target]
    future_heading = heading_at(scene.network.lanes[car.target], s + car.speed * car.tau_pursuit)
    towards = math.asin(clip(-car.kp_lateral * r / not_zero(car.speed), -1.0, 1.0))
    heading = future_heading + clip(towards, -math.pi / 4, math.pi / 4)
    rate = car.kp_heading * wrap(heading - car.heading)
    slip = math.asin(clip(car.length / 2 / not_zero(car.speed) * rate, -1.0, 1.0))
    car.steering = clip(math.atan(2 * math.tan(slip)), -car.max_steering, car.max_steering)


@compiled(_nrt=False)
def act_as_ego(scene: Scene, i: int, shift: int) -> None:
    """Shift the target lane `shift` lanes to the right, if that lane is reachable, then track target speed and lane."""
    car, net = scene.cars[i], scene.network
    follow_road(scene, i)
    if shift != 0:
        road = net.roads[net.lanes[car.target].road]
        lane = min(max(car.target + shift, road.first_lane), road.first_lane + road.lanes - 1)
        if reachable(net.lanes[lane], scene.along[i, lane], scene.across[i, lane]):
            car.target = lane
    steer(scene, i)
    car.acceleration = car.kp_a * (car.target_speed - car.speed)


@compiled(_nrt=False)
def act_as_driver(scene: Scene, i: int) -> None:
    """Set a driver's steering and acceleration by MOBIL and the intelligent driver model."""
    car = scene.cars[i]
    if car.crashed:
        return
    follow_road(scene, i)
    if car.changes_lane:
        choose_lane(scene, i)
    steer(scene, i)
    acceleration = idm(scene, i, i, neighbours(scene, i, car.lane)[0])
    if car.lane != car.target:
        acceleration = min(acceleration, idm(scene, i, i, neighbours(scene, i, car.target)[0]))
    car.acceleration = clip(acceleration, -car.acc_max, car.acc_max)


@compiled(_nrt=False)
def act(scene: Scene, i: int) -> None:
    """Set the steering and the acceleration of a vehicle for a frame."""
    if scene.cars[i].kind == EGO:
        act_as_ego(scene, i, 0)
    else:
        act_as_driver(scene, i)


@compiled(_nrt=False)
def move(scene: Scene, i: int, dt: float) -> None:
    """Move a vehicle by the bicycle model. Crashed cars brake."""
    car = scene.cars[i]
    if car.kind == DRIVER:
        car.timer += dt
    if car.crashed:
        car.steering, car.acceleration = 0.0, -1.0 * car.speed
    if car.speed > car.max_speed:
        car.acceleration = min(car.acceleration, car.max_speed - car.speed)
    elif car.speed < car.min_speed:
        car.acceleration = max(car.acceleration, car.min_speed - car.speed)
    slip = math.atan(1 / 2 * math.tan(car.steering))
    car.x += car.speed * math.cos(car.heading + slip) * dt
    car.y += car.speed * math.sin(car.heading + slip) * dt
    if car.struck:
        car.x += car.impact_x
        car.y += car.impact_y
        car.crashed, car.struck = 1, 0
    car.heading += car.speed * math.sin(slip) / (car.length / 2) * dt
    car.speed += car.acceleration * dt
    place(scene, i)


@compiled()
def corners(car: Any) -> Floats:
    """Return the corners of a car as a closed outline (5, 2)."""
    outline = np.empty((5, 2))
    for k in range(5):
        along = car.length / 2 if k == 2 or k == 3 else -car.length / 2
        across = car.width / 2 if k == 1 or k == 2 else -car.width / 2
        outline[k, 0] = car.cos * along - car.sin * across + car.x
        outline[k, 1] = car.sin * along + car.cos * across + car.y
    return outline


@compiled(_nrt=False)
def shadow(outline: Floats, nx: float, ny: float) -> tuple[float, float]:
    """Return the smallest and the largest coordinate of an outline in the direction of the unit vector (nx, ny)."""
    low = high = outline[0, 0] * nx + outline[0, 1] * ny
    for k in range(1, len(outline)):
        value = outline[k, 0] * nx + outline[k, 1] * ny
        low, high = min(low, value), max(high, value)
    return low, high


@compiled(_nrt=False)
def between(low_a: float, high_a: float, low_b: float, high_b: float) -> float:
    """Return the distance between two intervals, negative if they overlap."""
    return low_b - high_a if low_a < low_b else low_a - high_b


@compiled()
def overlap(a: Any, b: Any, dt: float) -> tuple[bool, bool, float, float]:
    """Return whether two cars overlap now, whether they will overlap within dt, and the shift of `a` to separate them.

    Two cars are apart if their coordinates along the normal of a side do not overlap (separating-axis test). The shift
    is along the normal that needs the smallest shift.
    """
    first, second = corners(a), corners(b)
    vx, vy = a.speed * a.cos * dt - b.speed * b.cos * dt, a.speed * a.sin * dt - b.speed * b.sin * dt
    now = later = True
    least, shift_x, shift_y = math.inf, 0.0, 0.0
    middle_x = first[:-1, 0].sum() / 4 - second[:-1, 0].sum() / 4
    middle_y = first[:-1, 1].sum() / 4 - second[:-1, 1].sum() / 4
    for outline in (first, second):
        for k in range(4):
            nx, ny = outline[k, 1] - outline[k + 1, 1], outline[k + 1, 0] - outline[k, 0]
            norm = math.sqrt(nx * nx + ny * ny)
            nx, ny = nx / norm, ny / norm
            low_a, high_a = shadow(first, nx, ny)
            low_b, high_b = shadow(second, nx, ny)
            if between(low_a, high_a, low_b, high_b) > 0:
                now = False
            moves = nx * vx + ny * vy
            if moves < 0:
                low_a += moves
            else:
                high_a += moves
            apart = between(low_a, high_a, low_b, high_b)
            if apart > 0:
                later = False
            if not now and not later:
                return False, False, 0.0, 0.0
            if abs(apart) < least:
                least = abs(apart)
                side = 1.0 if middle_x * nx + middle_y * ny > 0 else -1.0
                shift_x, shift_y = side * nx, side * ny
    return now, later, least * shift_x, least * shift_y


@compiled()
def collide(a: Any, b: Any, dt: float) -> None:
    """Mark `a` and `b` as crashed if they overlap. If they will overlap within dt, set the shifts that separate them.

    `move` applies the shifts. The object `b` is an obstacle, or a vehicle that is after `a` in the array.
    """
    if not (a.checks or b.checks):
        return
    dx, dy = b.x - a.x, b.y - a.y
    if math.sqrt(dx * dx + dy * dy) > (a.diagonal + b.diagonal) / 2 + a.speed * dt:
        return
    now, later, x, y = overlap(a, b, dt)
    if later:
        share = 1.0 if b.kind == OBSTACLE else 2.0
        a.impact_x, a.impact_y, a.struck = x / share, y / share, 1
        if b.kind != OBSTACLE:
            b.impact_x, b.impact_y, b.struck = -x / share, -y / share, 1
    if now:
        a.crashed, b.crashed = 1, 1
