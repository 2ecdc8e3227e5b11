"""What a visitor has set, and the link that says so.

    ?view=grid&w=-1.0,20.0,-20.0,0.0&risk=entropic:-0.1&seed=0&cell=20&layer=drivers

A state goes into a link and comes back exactly: numbers are written as Python writes them. A link is a stranger's text:
what does not fit the scene is left at the scene's own default, and a sentence says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import urlencode

from rasf.explorer.scenes.scene import Dialled, Family, Weight

LAYERS = {
    "map": {"drivers": "Who drives", "visits": "Visits", "trajectory": "Trajectory"},
    "arm": {"objective": "Objective", "plain": "Arm only"},
    "library": {"scores": "Scores"},
}
MOST = 2**31  # larger seeds, steps and contexts are nobody's
T = TypeVar("T")


def kind_of(scene: Dialled) -> str:
    """Which page shows a scene: map, arm or library."""
    return "map" if hasattr(scene, "layout") else "arm" if hasattr(scene, "arm") else "library"


@dataclass(frozen=True)
class State:
    """Everything that a link restores."""

    view: str
    w: tuple[float, ...]
    family: str
    level: float
    cell: int | None = None  # on a map: the one whose scores are shown
    tip: tuple[float, float] | None = None  # of an arm, in metres, likewise
    context: int = 0
    seed: int = 0
    layer: str = ""
    rollout: int = 0  # the one played back, and how far
    step: int = 0

    def to_query(self) -> str:
        """The link's query; what is not set is left out."""
        said = {
            "view": self.view,
            "w": ",".join(map(repr, self.w)),
            "risk": f"{self.family}:{self.level!r}",
            "seed": self.seed,
            "cell": self.cell,
            "tip": None if self.tip is None else ",".join(map(repr, self.tip)),
            "layer": self.layer or None,
            "context": self.context or None,
            "rollout": self.rollout or None,
            "step": self.step or None,
        }
        return urlencode({name: value for name, value in said.items() if value is not None}, safe=",:")

    def rolled(self) -> str:
        """The beginning of the query, on which rollouts depend."""
        return State(self.view, self.w, self.family, self.level, seed=self.seed).to_query()


def default_state(view: str, scene: Dialled, seed: int = 0) -> State:
    """The scene as it is met first."""
    family = scene.families[0]
    layer = next(iter(LAYERS[kind_of(scene)]))
    layout = getattr(scene, "layout", None)
    return State(
        view,
        tuple(float(weight.default) for weight in scene.weights),
        family.name,
        float(family.default),
        cell=None if layout is None else int(layout.start),
        seed=seed,
        layer=layer,
    )


def from_query(query: Mapping[str, str], view: str, scene: Dialled, seed: int = 0) -> tuple[State, list[str]]:
    """The state that a link asks for, and a sentence for each thing in it that could not be had."""
    usual = default_state(view, scene, seed)
    complaints: list[str] = []

    def read(name: str, accepted: str, reader: Callable[[str], T], otherwise: T) -> T:
        if name not in query:
            return otherwise
        try:
            return reader(query[name])
        except (ValueError, OverflowError):
            got = query[name] if len(query[name]) <= 60 else query[name][:60] + "..."
            complaints.append(f"The link's {name} must be {accepted}, got {got!r}; the usual is shown instead.")
            return otherwise

    weights, kind = scene.weights, kind_of(scene)
    ranges = ", ".join(f"{weight.name} in [{weight.low:g}, {weight.high:g}]" for weight in weights)
    dials = " or ".join(f"{dial.name}:{dial.parameter} in [{dial.low:g}, {dial.high:g}]" for dial in scene.families)
    family, level = read("risk", dials, lambda text: _risk(text, scene.families), (usual.family, usual.level))
    cell, tip = usual.cell, usual.tip
    most_context = 0
    if kind == "map":
        layout = scene.layout  # type: ignore[attr-defined]
        places = layout.rows * layout.columns
        free = f"a whole number from 0 to {places - 1} that is no wall"
        cell = read("cell", free, lambda text: _whole(text, places - 1, layout.walls), cell)
        most_context = 2 ** len(layout.objects) - 1
    elif kind == "arm":
        tip = read("tip", "two numbers of at most 1 metre", _tip, tip)
    state = State(
        view,
        read("w", f"{len(weights)} numbers ({ranges})", lambda text: _weights(text, weights), usual.w),
        family,
        level,
        cell,
        tip,
        context=read("context", f"a whole number from 0 to {most_context}", lambda t: _whole(t, most_context), 0),
        seed=read("seed", f"a whole number from 0 to {MOST}", lambda text: _whole(text, MOST), seed),
        layer=read("layer", f"one of {', '.join(LAYERS[kind])}", lambda text: _one_of(text, LAYERS[kind]), usual.layer),
        rollout=read("rollout", "a whole number", lambda text: _whole(text, MOST), 0),
        step=read("step", "a whole number", lambda text: _whole(text, MOST), 0),
    )
    return state, complaints


def _numbers(text: str, count: int) -> tuple[float, ...]:
    numbers = tuple(float(part) for part in text.split(","))
    if len(numbers) != count or not all(map(math.isfinite, numbers)):
        raise ValueError
    return numbers


def _weights(text: str, weights: tuple[Weight, ...]) -> tuple[float, ...]:
    found = _numbers(text, len(weights))
    if not all(weight.low <= number <= weight.high for weight, number in zip(weights, found, strict=True)):
        raise ValueError
    return found


def _risk(text: str, families: tuple[Family, ...]) -> tuple[str, float]:
    name, _, number = text.partition(":")
    for family in families:
        if family.name == name and family.low <= float(number) <= family.high:
            return name, float(number)
    raise ValueError


def _tip(text: str) -> tuple[float, float]:
    x, y = _numbers(text, 2)
    if max(abs(x), abs(y)) > 1:
        raise ValueError
    return x, y


def _whole(text: str, most: int, barred: tuple[int, ...] = ()) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 10 or int(text) > most or int(text) in barred:
        raise ValueError
    return int(text)


def _one_of(text: str, known: Mapping[str, str]) -> str:
    if text not in known:
        raise ValueError
    return text
