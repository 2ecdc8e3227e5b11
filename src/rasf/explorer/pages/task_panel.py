"""The left side of every view: reward weights, the risk's family and its dial."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from nicegui import ui

from rasf.explorer.pages.controls import ChoiceField, SliderField, Words, button
from rasf.explorer.scenes.scene import Dialled, Family
from rasf.explorer.state import State

_MANY = 6  # sliders from which on they are set closer


class TaskPanel:
    """Sliders and dial; `on_change` is told what was set, by the names of `State`."""

    def __init__(self, scene: Dialled, state: State, on_change: Callable[..., Any]) -> None:
        self._scene, self._state, self._on_change = scene, state, on_change
        self._families = {family.name: family for family in scene.families}
        many = " many" if len(scene.weights) > _MANY else ""
        with ui.element("section").classes("panel task" + many).props('aria-label="Task and risk"'):
            self._build_risk()
            self._build_weights()

    @property
    def family(self) -> Family:
        """The chosen one."""
        return self._families[self._state.family]

    def show(self, state: State) -> None:
        """Follow a change that was made elsewhere; the sliders themselves are left alone."""
        self._state = state

    def _build_risk(self) -> None:
        Words("Risk", "panel-title", "h2")
        if len(self._families) > 1:
            names = {family.name: family.label for family in self._families.values()}
            self._choice = ChoiceField("Measure", names, self._state.family, self._family_picked, hide_label=True)
        self._dial_place = ui.element("div").classes("dial")
        self._build_dial()

    def _build_dial(self) -> None:
        family = self.family
        ends = [(family.low, "averse"), (family.neutral, "neutral")]
        if family.high > family.neutral:
            ends.append((family.high, "seeking"))
        self._dial_place.clear()
        with self._dial_place:
            if family.low == family.high:
                Words("Only the mean is known of these policies, so there is no dial.", "small soft")
                return
            self._dial = SliderField(
                f"Risk dial, {family.parameter}",
                self._state.level,
                family.low,
                family.high,
                family.step,
                lambda level: self._picked(level=level),
                neutral=family.neutral,
                ends=ends,
                parameter=family.parameter,
            )
            button("Neutral", self._neutral, "quiet", "Only the mean counts")

    def _build_weights(self) -> None:
        Words("Reward weights", "panel-title", "h2")
        self._sliders = [
            SliderField(
                weight.name,
                value,
                weight.low,
                weight.high,
                weight.step,
                partial(self._weight_picked, i),
            )
            for i, (weight, value) in enumerate(zip(self._scene.weights, self._state.w, strict=True))
        ]
        with ui.element("div").classes("buttons"):
            button("Random task", self._random, "quiet")
            button("Default task", self._default, "quiet")

    def _picked(self, **changes: Any) -> None:
        self._on_change(**changes)

    def _family_picked(self, name: str) -> None:
        family = self._families[name]
        self._picked(family=name, level=float(family.default))
        self._build_dial()

    def _neutral(self) -> None:
        self._dial.set(self.family.neutral)
        self._picked(level=float(self.family.neutral))

    def _weight_picked(self, i: int, value: float) -> None:
        w = list(self._state.w)
        w[i] = value
        self._picked(w=tuple(w))

    def _take_task(self, w: tuple[float, ...]) -> None:
        for slider, value in zip(self._sliders, w, strict=True):
            slider.set(value)
        self._picked(w=w)

    def _random(self) -> None:
        self._take_task(tuple(self._scene.random_task(np.random.default_rng()).tolist()))

    def _default(self) -> None:
        self._take_task(tuple(float(weight.default) for weight in self._scene.weights))
