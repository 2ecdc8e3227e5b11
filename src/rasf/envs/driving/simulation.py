"""`drive`: some frames of traffic, in one call: all act, give way, move and collide."""

from __future__ import annotations

import numpy as np

from rasf.arrays import Ints
from rasf.compiled import compiled
from rasf.envs.driving.network import Network
from rasf.envs.driving.priority import Rules, regulate
from rasf.envs.driving.traffic import EGO, NOBODY, Cars, Scene, act_as_driver, act_as_ego, collide, move, place


@compiled()
def drive(
    network: Network,
    cars: Cars,
    routes: Ints,
    n_vehicles: int,
    connected: bool,
    frames: int,
    dt: float,
    ego: int,
    shift: int,
    rules: Rules,
) -> None:
    """Move all cars in place by `frames` frames of `dt` seconds; car `ego` first acts with a lane change, or NOBODY."""
    size = (len(cars), len(network.lanes))
    scene = Scene(network, cars, routes, np.empty(size), np.empty(size), connected)
    for i in range(len(cars)):
        lane = cars[i].lane
        place(scene, i)
        # as it was found, should somebody have moved the vehicle by hand
        cars[i].lane = lane
    if ego != NOBODY:
        act_as_ego(scene, ego, shift)
    for frame in range(frames):
        for i in range(n_vehicles):
            if cars[i].kind == EGO:
                act_as_ego(scene, i, 0)
            else:
                act_as_driver(scene, i)
        if rules.every > 0 and (rules.frame + frame + 1) % rules.every == 0:
            regulate(scene, n_vehicles, rules.wait)
        for i in range(n_vehicles):
            move(scene, i, dt)
        for i in range(n_vehicles):
            for j in range(i + 1, len(cars)):
                collide(cars[i], cars[j], dt)
