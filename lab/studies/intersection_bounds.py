"""What is possible at the intersection: drivers who see nothing, one who sees the future, and two who can compute it.

    python lab/studies/intersection_bounds.py --episodes 400 --clairvoyant 40 --planned 40

Constant drivers slow down for some seconds, then go. The clairvoyant tries plans in the very episode that it then
drives, with all that the others will do: a beam over actions, the best `--beam` at each second that differ in speed or
distance, for the weights (0.5, 1, -4) of speed, arrival and collision. It is a reference and no bound: a beam may miss
the best plan, and others are asked for other weights. Returns are means over the case's ten unseen weightings.

The planners have highway-env's own traffic to compute with, but nothing that is drawn later: who else comes is not
known to them. At each second they try every plan of `PLANS` to the end of the episode, in `--worlds` copies of the
road, which differ in where those who have not yet begun to turn are going (any way is as likely; one of the planners
is told). They take the first action of the plan with the largest mean return for the weighting that is asked for, and
plan again. They begin as the suite does, `--planned` times for each of its five seeds and each weighting. They know
more than drivers see: cars far behind, all drivers' constants, who is giving way. They are no bound either: whoever
waits for news would also count on it.
"""

import argparse
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import numpy as np

from rasf.compiled import compiled
from rasf.envs.gymnasium.single import open_environment, seeds_from
from rasf_lab.driving.road_map import local
from rasf_lab.driving.simulation import RightOfWay
from rasf_lab.driving.simulation import drive as frames_of_traffic
from rasf_lab.driving.traffic import Scene
from rasf_lab.suite import find_case
from rasf_lab.suite.trials import TRYING

SLOWER, IDLE, FASTER = 0, 1, 2
CASE = find_case("intersection")
PLANNED_FOR = np.array([0.5, 1.0, -4.0])
LONGEST = 20  # seconds; an episode has at most 13
AHEAD = 13
BEGIN = [
    *((SLOWER,) * n for n in range(7)), *((SLOWER, *(IDLE,) * n) for n in range(1, 5)),
    *((FASTER, *(SLOWER,) * n) for n in range(1, 5)), *((IDLE, *(SLOWER,) * n) for n in range(3)),
]  # fmt: skip
PLANS = np.array([(*begin, *(FASTER,) * (AHEAD - len(begin))) for begin in BEGIN])  # then fast
FAST, SCALE, ARRIVED = 7.0, 2.0, 25.0  # highway-env's speed feature is (m/s - FAST) / SCALE; m behind the crossing


def drive(env, seed, actions):
    """Features (t, d) and speeds (t,) of these actions from the beginning, and whether the episode is over."""
    env.reset(seed)
    features, speeds = [], []
    for action in actions:
        step = env.step(action)
        features.append(step.phi)
        speeds.append(step.info["speed"])
        if step.terminated or step.truncated:
            return np.array(features), np.array(speeds), True
    return np.array(features), np.array(speeds), False


def clairvoyant(env, seed, beam):
    """The features and speeds of the best plan that the beam finds."""
    plans, best = [()], None
    while plans:
        going = []
        for plan in plans:
            for action in range(env.n_actions):
                features, speeds, over = drive(env, seed, (*plan, action))
                value = float((features @ PLANNED_FOR).sum())
                if not over:
                    like = round(float(speeds[-1]), 1), round(float(speeds.sum()))
                    going.append((value, like, (*plan, action)))
                elif best is None or value > best[0]:
                    best = value, features, speeds
        different = {}
        for _, like, plan in sorted(going, key=lambda one: -one[0]):
            different.setdefault(like, plan)
        plans = list(different.values())[:beam]
    return best[1:]


@compiled()
def foresee(network, cars, routes, n, connected, seconds, dt, ego, every, frame, wait, speeds, exits, plan):
    """Features (3,) of a plan in a world, whose cars are moved."""
    features, size = np.zeros(3), (len(cars), len(network.lanes))
    scene = Scene(network, cars, routes, np.empty(size), np.empty(size), connected)
    for second in range(min(len(plan), seconds)):
        at = np.round((cars[ego].speed - speeds[0]) / (speeds[-1] - speeds[0]) * (len(speeds) - 1))
        index = int(min(max(at, 0), len(speeds) - 1)) + plan[second] - IDLE
        if plan[second] != IDLE:
            cars[ego].target_speed = speeds[min(max(index, 0), len(speeds) - 1)]
        per = round(1 / dt)
        rules = RightOfWay(every, frame + second * per, wait)
        frames_of_traffic(scene, n, per, dt, ego, 0, rules)
        car = cars[ego]
        features[0] += min(max((car.speed - FAST) / SCALE, 0.0), 1.0)
        features[2] = car.crashed
        features[1] = exits[car.lane] and local(network.lanes[car.lane], car.x, car.y)[0] >= ARRIVED
        if features[1] or features[2]:
            break
    return features


class Planner:
    """Chooses by what plans come to in worlds that look like this one."""

    def __init__(self, env, worlds, told, seed=0):
        self._traffic = env.env.unwrapped._env
        self._worlds, self._told, self._draw = (1 if told else worlds), told, np.random.default_rng(seed)

    def act(self, w):
        base, traffic = self._traffic.unwrapped, self._traffic
        seconds = round(base.config["duration"] - base.time)
        road, vehicle = base.road, base.vehicle
        lanes, packed = traffic._lanes(road.network), traffic._read(road)
        ego, dt = road.vehicles.index(vehicle), 1 / base.config["simulation_frequency"]
        exits = np.array(["il" in start and "o" in end for start, end, _ in lanes.indices])
        rules = (
            int(1 / dt / road.REGULATION_FREQUENCY),
            road.steps,
            float(road.YIELD_DURATION * road.REGULATION_FREQUENCY),
        )
        connected = bool(road.neighbour_vehicles_connected_lanes)
        speeds = np.array(vehicle.target_speeds, float)
        earned = np.zeros((len(PLANS), 3))
        for _ in range(self._worlds):
            routes = packed.routes if self._told else self._elsewhere(packed, lanes, ego)
            for k, plan in enumerate(PLANS):
                earned[k] += foresee(
                    lanes.arrays, packed.cars.copy(), routes, len(road.vehicles), connected, seconds, dt, ego, *rules,
                    speeds, exits, plan,
                )  # fmt: skip
        return int(PLANS[np.argmax(earned @ w)][0])

    def _elsewhere(self, packed, lanes, ego):
        """The routes, where everyone who is still on the way to the crossing goes anywhere."""
        routes, names = packed.routes.copy(), {number: name for name, number in lanes.roads.items()}
        for i, car in enumerate(packed.cars):
            rest = [names[number] for number, _ in routes[car["route"] : car["route_end"]]]
            if i == ego or len(rest) < 3:  # others have begun to turn
                continue
            here = rest[-2][0][-1]
            there = self._draw.choice([end for end in "0123" if end != here])
            routes[car["route_end"] - 2, 0] = lanes.roads[f"ir{here}", f"il{there}"]
            routes[car["route_end"] - 1, 0] = lanes.roads[f"il{there}", f"o{there}"]
        return routes


def planned(seed, worlds, told, episodes):
    """Features and speeds of every weighting's episodes from a seed's beginnings."""
    env, driven = open_environment(CASE.env, None), []
    planner = Planner(env, worlds, told, seed)
    for w in np.array(CASE.unseen, float):
        found = []
        for beginning in seeds_from(TRYING + seed, CASE.episodes)[:episodes]:
            env.reset(beginning)
            features, speeds, over = [], [], False
            while not over:
                step = env.step(planner.act(w))
                features.append(step.phi)
                speeds.append(step.info["speed"])
                over = step.terminated or step.truncated
            found.append((np.array(features), np.array(speeds)))
        driven.append(found)
    return driven


def tell_planned(name, by_seed):
    """One line; returns are those of the weighting that was planned for, speeds means over its steps."""
    sums = np.array([[[f.sum(axis=0) for f, _ in found] for found in driven] for driven in by_seed])  # (seeds, w, n, 3)
    returns = np.einsum("swnd,wd->swn", sums, np.array(CASE.unseen, float)).mean()
    speed = np.mean([np.concatenate([v for _, v in found]).mean() for driven in by_seed for found in driven])
    print(f"{name:28} collisions {sums[..., 2].mean():.3f}  arrived {sums[..., 1].mean():.3f}  "
          f"{speed:.2f} m/s  return {returns:.2f}", flush=True)  # fmt: skip


def tell(name, driven):
    """One line on episodes' features and speeds."""
    sums = np.array([features.sum(axis=0) for features, _ in driven])
    returns = (sums @ np.array(CASE.unseen, float).T).mean()
    speed = np.concatenate([speeds for _, speeds in driven]).mean()
    print(f"{name:28} collisions {sums[:, 2].mean():.3f}  arrived {sums[:, 1].mean():.3f}  "
          f"{speed:.2f} m/s  return {returns:.2f}", flush=True)  # fmt: skip


def main():
    """Print them all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=400)
    parser.add_argument("--clairvoyant", type=int, default=40, help="episodes that are planned, 3 s each")
    parser.add_argument("--beam", type=int, default=12)
    parser.add_argument("--planned", type=int, default=40, help="episodes of the planners, for each seed and weighting")
    parser.add_argument("--worlds", type=int, default=12)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seed", type=int, default=20_000, help="of the first episode")
    chosen = parser.parse_args()
    env = open_environment(CASE.env, None)
    for slow in range(4):
        plan = (SLOWER,) * slow + (FASTER,) * LONGEST
        name = f"slower for {slow} s, then fast" if slow else "never brakes"
        tell(name, [drive(env, chosen.seed + i, plan)[:2] for i in range(chosen.episodes)])
    tell("stands", [drive(env, chosen.seed + i, (SLOWER,) * LONGEST)[:2] for i in range(chosen.episodes)])
    if chosen.clairvoyant:
        tell("clairvoyant", [clairvoyant(env, chosen.seed + i, chosen.beam) for i in range(chosen.clairvoyant)])
    with ProcessPoolExecutor(chosen.processes) as pool:
        for name, told in (("plans, told destinations", True), ("plans, not told", False)) if chosen.planned else ():
            drive_seed = partial(planned, worlds=chosen.worlds, told=told, episodes=chosen.planned)
            tell_planned(name, list(pool.map(drive_seed, range(5))))


if __name__ == "__main__":
    main()
