"""A road network as arrays: lanes that are straight, sine-shaped or arcs, and the connections between lanes.

A lane has the coordinates s, along the lane, and r, across the lane. With the lane's start p, its direction u and the
normal n of u, a point p' has the coordinates

    straight    s = (p' - p) . u                              r = (p' - p) . n
    sine        s = (p' - p) . u                              r = (p' - p) . n - amplitude * sin(pulsation * s + phase)
    arc         s = +-(angle from the start) * radius         r = +-(radius - distance from the centre),
                                                              where the sign is the sense of rotation

A road has the parallel lanes from one node to another. Lanes are numbered in the order of highway-env's graph (from,
to, id). So the lanes of a road have consecutive numbers, and so do the roads that leave a node. A vehicle is on the
lane with the smallest distance from the vehicle. The distance is |r|, plus the length by which s is outside [0,
length], plus the angle between the headings of vehicle and lane. Shapes: L lanes, R roads, N nodes.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from highway_env.road.lane import CircularLane, SineLane, StraightLane

from rasf.compiled import compiled

STRAIGHT, SINE, ARC = 0, 1, 2
_KINDS = {StraightLane: STRAIGHT, SineLane: SINE, CircularLane: ARC}

LANE = np.dtype(
    [(name, np.float64) for name in ("x", "y", "ux", "uy", "nx", "ny", "heading", "length", "width", "speed_limit")]
    + [(name, np.float64) for name in ("amplitude", "pulsation", "phase", "radius", "sign", "margin", "priority")]
    + [(name, np.int64) for name in ("kind", "forbidden", "road", "id")]
)
ROAD = np.dtype([(name, np.int64) for name in ("start", "end", "first_lane", "lanes")])

Lane = Any  # a record of dtype LANE; numba infers this type, mypy cannot


class RoadMap(NamedTuple):
    """A road network: lanes `lanes` (L,) with dtype LANE, roads `roads` (R,) with dtype ROAD, and their connections.

    A row of `leaving` (N, 2) has the first road that leaves a node, and the number of roads that leave this node. Lane
    i, its successors and its predecessors are `linked[links[i] : links[i + 1]]`. The coordinate s of a point on lane i
    is its s on the linked lane plus `offset`.
    """

    lanes: npt.NDArray[Any]
    roads: npt.NDArray[Any]
    leaving: npt.NDArray[np.int64]
    links: npt.NDArray[np.int64]
    linked: npt.NDArray[np.int64]
    offset: npt.NDArray[np.float64]


@compiled(_nrt=False)
def wrap(angle: float) -> float:
    """Return the angle in [-pi, pi)."""
    return (angle + math.pi) % (2 * math.pi) - math.pi


@compiled(_nrt=False)
def local(lane: Lane, x: float, y: float) -> tuple[float, float]:
    """Return the lane coordinates (s, r) of a point."""
    dx, dy = x - lane.x, y - lane.y
    if lane.kind == ARC:
        angle = wrap(math.atan2(dy, dx) - lane.phase)
        # add and subtract the phase as highway-env does, for equal rounding errors
        angle = (lane.phase + angle) - lane.phase
        return lane.sign * angle * lane.radius, lane.sign * (lane.radius - math.sqrt(dx * dx + dy * dy))
    s, r = dx * lane.ux + dy * lane.uy, dx * lane.nx + dy * lane.ny
    if lane.kind == SINE:
        r -= lane.amplitude * math.sin(lane.pulsation * s + lane.phase)
    return s, r


@compiled(_nrt=False)
def point(lane: Lane, s: float) -> tuple[float, float]:
    """Return the point (x, y) on the middle line of the lane at coordinate s."""
    if lane.kind == ARC:
        angle = lane.sign * s / lane.radius + lane.phase
        return lane.x + lane.radius * math.cos(angle), lane.y + lane.radius * math.sin(angle)
    r = lane.amplitude * math.sin(lane.pulsation * s + lane.phase) if lane.kind == SINE else 0.0
    return lane.x + s * lane.ux + r * lane.nx, lane.y + s * lane.uy + r * lane.ny


@compiled(_nrt=False)
def heading_at(lane: Lane, s: float) -> float:
    """Return the heading of the lane at coordinate s."""
    if lane.kind == ARC:
        return lane.sign * s / lane.radius + lane.phase + math.pi / 2 * lane.sign
    if lane.kind == SINE:
        slope = lane.amplitude * lane.pulsation * math.cos(lane.pulsation * s + lane.phase)
        return lane.heading + math.atan(slope)
    return lane.heading


@compiled(_nrt=False)
def distance(lane: Lane, s: float, r: float) -> float:
    """Return the distance from a lane to the point (s, r), without the angle between headings."""
    return abs(r) + max(s - lane.length, 0.0) + max(0.0 - s, 0.0)


@compiled(_nrt=False)
def on_lane(lane: Lane, s: float, r: float, width_margin: float) -> bool:
    """Return whether (s, r) is on the lane, with `width_margin` added to both sides and a car length to both ends."""
    return abs(r) <= lane.width / 2 + width_margin and -lane.margin <= s < lane.length + lane.margin


@compiled(_nrt=False)
def reachable(lane: Lane, s: float, r: float) -> bool:
    """Return whether a vehicle at (s, r) may change to the lane."""
    return lane.forbidden == 0 and abs(r) <= 2 * lane.width and 0 <= s < lane.length + lane.margin


@compiled(_nrt=False)
def after_end(lane: Lane, s: float) -> bool:
    """Return whether s is so close to the end of the lane that the next lane becomes the target lane."""
    return s > lane.length - lane.margin / 2


@compiled(_nrt=False)
def locate(
    lanes: npt.NDArray[Any],
    x: float,
    y: float,
    heading: float,
    along: npt.NDArray[np.float64],
    across: npt.NDArray[np.float64],
) -> int:
    """Return the closest lane, and write the point's coordinates s and r in all lanes to `along` and `across` (L,)."""
    closest, least = 0, math.inf
    for i in range(len(lanes)):
        s, r = local(lanes[i], x, y)
        along[i], across[i] = s, r
        far = distance(lanes[i], s, r) + abs(wrap(heading - heading_at(lanes[i], s)))
        if far < least:
            closest, least = i, far
    return closest


class MappedNetwork:
    """The arrays of a highway-env network. `numbers` maps highway-env's lane indices (from, to, id) to lane numbers."""

    def __init__(self, network: Any) -> None:
        self.network, graph = network, network.graph
        names = dict.fromkeys([*graph, *(end for ends in graph.values() for end in ends)])
        nodes = {name: i for i, name in enumerate(names)}
        self.roads: dict[tuple[str, str], int] = {}
        self.indices: list[tuple[str, str, int]] = []
        self.lanes: list[Any] = []
        roads: list[tuple[int, ...]] = []
        lanes: list[tuple[Any, ...]] = []
        leaving = np.zeros((len(nodes), 2), np.int64)
        for start, ends in graph.items():
            leaving[nodes[start]] = len(roads), len(ends)
            for end, parallel in ends.items():
                road = self.roads[start, end] = len(roads)
                roads.append((nodes[start], nodes[end], len(lanes), len(parallel)))
                for i, lane in enumerate(parallel):
                    lanes.append(_record(lane, road, i))
                    self.lanes.append(lane)
                    self.indices.append((start, end, i))
        self.numbers = {index: i for i, index in enumerate(self.indices)}
        linked = [self._linked(network, index) for index in self.indices]
        self.arrays = RoadMap(
            np.array(lanes, LANE),
            np.array(roads, ROAD),
            leaving,
            np.cumsum([0, *map(len, linked)]),
            np.array([lane for links in linked for lane, _ in links], np.int64),
            np.array([offset for links in linked for _, offset in links], np.float64),
        )
        self._coordinates = np.empty((2, len(lanes)))

    def closest(self, position: npt.NDArray[np.float64], heading: float | None = None) -> tuple[str, str, int]:
        """Return the index of the closest lane, as highway-env's RoadNetwork.get_closest_lane_index does."""
        if heading is None:
            return type(self.network).get_closest_lane_index(self.network, position)
        x, y = position.tolist()
        return self.indices[locate(self.arrays.lanes, x, y, float(heading), *self._coordinates)]

    def _linked(self, network: Any, index: tuple[str, str, int]) -> list[tuple[int, float]]:
        """Return the lane, its successors and its predecessors, with offsets, in highway-env's order of search."""
        start, end, i = index

        def same(a: str, b: str) -> tuple[str, str, int]:
            return a, b, i if i < len(network.graph[a][b]) else 0

        length = network.get_lane(index).length
        links = [(self.numbers[index], 0.0)]
        links += [(self.numbers[same(end, after)], length) for after in network.graph.get(end, {})]
        before = [same(origin, start) for origin, ends in network.graph.items() if start in ends]
        return links + [(self.numbers[lane], -network.get_lane(lane).length) for lane in before]


def _record(lane: Any, road: int, i: int) -> tuple[Any, ...]:
    kind = _KINDS.get(type(lane))
    if kind is None:
        raise TypeError(f"lanes must be straight, sine or circular, got {type(lane).__name__}")
    limit = math.nan if lane.speed_limit is None else lane.speed_limit
    common = (lane.length, lane.width, limit)
    last = (lane.VEHICLE_LENGTH, lane.priority, kind, lane.forbidden, road, i)
    if kind == ARC:
        return (*lane.center, 0, 0, 0, 0, 0, *common, 0, 0, lane.start_phase, lane.radius, lane.direction, *last)
    wave = (lane.amplitude, lane.pulsation, lane.phase) if kind == SINE else (0, 0, 0)
    return (*lane.start, *lane.direction, *lane.direction_lateral, lane.heading, *common, *wave, 0, 0, *last)
