"""The settings of a visitor's page, and the link that stores these settings.

    ?view=grid&w=-1.0,20.0,-20.0,0.0&risk=entropic:-0.1&seed=0&cell=20&layer=drivers

A link restores a state exactly, because numbers are written by Python's `repr`. Links are untrusted text: a value that
does not fit the scene is replaced by the scene's default, with a message. The module `rasf_explorer.scenes.scene`
explains the words level and context.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar
from urllib.parse import urlencode

from rasf_explorer.scenes.scene import ArmScene, MapScene, Scene, Ways

MOST = 2**31  # largest accepted seed, rollout and step
T = TypeVar("T")


@dataclass(frozen=True)
class State:
    """Everything that a link restores."""

    view: str
    w: tuple[float, ...]
    family: str
    level: float
    cell: int | None = None  # on a map: the cell whose scores are shown
    tip: tuple[float, float] | None = None  # for an arm: the tip position (m) whose scores are shown
    context: int = 0
    seed: int = 0
    layer: str = ""
    rollout: int = 0  # the rollout that is played back
    step: int = 0  # the shown step of this rollout
    limit: float | None = None
    static: bool = False  # whether the risk is of the whole return, instead of the remaining return
    ahead: int = 0  # the number of steps that are simulated before an action is scored

    @property
    def ways(self) -> Ways:
        return Ways(self.limit, self.static, self.ahead)

    def to_query(self) -> str:
        """Return the query of the link, without values that are not set."""
        said = {
            "view": self.view,
            "w": ",".join(map(repr, self.w)),
            "risk": f"{self.family}:{self.level!r}",
            "limit": self.limit,
            "static": 1 if self.static else None,
            "ahead": self.ahead or None,
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
        """Return the query with only the values on which rollouts depend."""
        task = State(self.view, self.w, self.family, self.level)
        return replace(task, seed=self.seed, limit=self.limit, static=self.static, ahead=self.ahead).to_query()


def default_state(view: str, scene: Scene, seed: int = 0) -> State:
    """Return the initial state of a scene."""
    family, layer = scene.families[0], next(iter(scene.layers))
    cell = int(scene.layout.start) if isinstance(scene, MapScene) else None
    return State(
        view, tuple(scene.default_task.tolist()), family.name, float(family.default), cell, seed=seed, layer=layer
    )


def from_query(query: Mapping[str, str], view: str, scene: Scene, seed: int = 0) -> tuple[State, list[str]]:
    """Return the state that a link stores.

    Args:
        query: Values of the link's query, by name.
        view: Key of the view.
        scene: The scene of the view.
        seed: Seed for a link without a seed. Default: 0.

    Returns:
        The state, and a message for each value that was replaced by its default.
    """
    usual = default_state(view, scene, seed)
    complaints: list[str] = []

    def read(name: str, accepted: str, reader: Callable[[str], T | None], otherwise: T) -> T:
        """Return a value of the link, or `otherwise` if the link lacks the value or `reader` does not accept it."""
        if name not in query:
            return otherwise
        try:
            found = reader(query[name])
        except (ValueError, OverflowError):
            found = None
        if found is not None:
            return found
        got = query[name] if len(query[name]) <= 60 else query[name][:60] + "..."
        complaints.append(f"The link's {name} must be {accepted}, got {got!r}; the default is shown instead.")
        return otherwise

    def weights(text: str) -> tuple[float, ...] | None:
        found = _numbers(text, len(scene.weights))
        fits = all(weight.low <= number <= weight.high for weight, number in zip(scene.weights, found, strict=True))
        return found if fits else None

    def risk(text: str) -> tuple[str, float] | None:
        name, _, number = text.partition(":")
        fits = any(family.name == name and family.low <= float(number) <= family.high for family in scene.families)
        return (name, float(number)) if fits else None

    def tip(text: str) -> tuple[float, float] | None:
        x, y = _numbers(text, 2)
        return (x, y) if max(abs(x), abs(y)) <= 1 else None

    def limit(text: str) -> float | None:
        (found,), slider = _numbers(text, 1), scene.limit
        return found if slider is not None and slider.low <= found < slider.high else None

    def static(text: str) -> bool | None:
        held = any(one.name == family and one.can_be_static for one in scene.families)
        return True if text == "1" and scene.offers_static and held else None

    most_ahead = 0 if scene.ahead is None else int(scene.ahead.high)
    steps = f"a whole number from 0 to {most_ahead}" if most_ahead else "left out in this view"
    ranges = ", ".join(f"{weight.name} in [{weight.low:g}, {weight.high:g}]" for weight in scene.weights)
    dials = " or ".join(f"{dial.name}:{dial.parameter} in [{dial.low:g}, {dial.high:g}]" for dial in scene.families)
    family, level = read("risk", dials, risk, (usual.family, usual.level))
    state, most_context = usual, 0
    if isinstance(scene, MapScene):
        layout = scene.layout
        most, most_context = layout.rows * layout.columns - 1, 2 ** len(layout.objects) - 1
        free = f"the number of a cell, 0 to {most}, that is not a wall"
        state = replace(state, cell=read("cell", free, lambda text: _whole(text, most, layout.walls), usual.cell))
    elif isinstance(scene, ArmScene):
        state = replace(state, tip=read("tip", "two numbers from -1 to 1, in metres", tip, usual.tip))
    state = replace(
        state,
        w=read("w", f"{len(scene.weights)} numbers ({ranges})", weights, usual.w),
        family=family,
        level=level,
        limit=read("limit", _range_of(scene), limit, None),
        static=read("static", "1, with a risk that can be static, such as cvar", static, False),
        ahead=read("ahead", steps, lambda text: None if scene.ahead is None else _whole(text, most_ahead), 0),
        context=read("context", f"a whole number from 0 to {most_context}", lambda t: _whole(t, most_context), 0),
        seed=read("seed", f"a whole number from 0 to {MOST}", lambda text: _whole(text, MOST), seed),
        layer=read(
            "layer", f"one of {', '.join(scene.layers)}", {name: name for name in scene.layers}.get, usual.layer
        ),
        rollout=read("rollout", "a whole number", lambda text: _whole(text, MOST), 0),
        step=read("step", "a whole number", lambda text: _whole(text, MOST), 0),
    )
    return state, complaints


def _range_of(scene: Scene) -> str:
    """Return the limits that a link may set, in words."""
    slider = scene.limit
    return "left out in this view" if slider is None else f"a number from {slider.low:g} to below {slider.high:g}"


def _numbers(text: str, count: int) -> tuple[float, ...]:
    numbers = tuple(float(part) for part in text.split(","))
    if len(numbers) != count or not all(map(math.isfinite, numbers)):
        raise ValueError
    return numbers


def _whole(text: str, most: int, barred: tuple[int, ...] = ()) -> int | None:
    fits = text.isascii() and text.isdigit() and len(text) <= 10 and int(text) <= most and int(text) not in barred
    return int(text) if fits else None
