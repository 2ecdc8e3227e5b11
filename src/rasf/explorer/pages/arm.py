"""The view of an arm: the reacher."""

from __future__ import annotations

import math

import numpy as np
from nicegui import ui
from nicegui.events import GenericEventArguments

from rasf.arrays import Floats
from rasf.explorer.drawing.arm import draw_arm, from_view, to_view
from rasf.explorer.drawing.svg import element
from rasf.explorer.pages.controls import ChoiceField, Picture, Playback, Words, button
from rasf.explorer.pages.map import MOVES
from rasf.explorer.pages.scene import ScenePage
from rasf.explorer.scenes.scene import ArmOutcome, ArmScene, Scores
from rasf.explorer.state import LAYERS, State

_MOVE = 0.02  # metres that an arrow key moves the tip
_WAYS = ("−", "0", "+")  # of a joint's torque


class ArmPage(ScenePage[ArmScene, ArmOutcome]):
    """The arm in motion over the objective; a resting tip is chosen by a click or by arrow keys."""

    episodes = 8  # of 500 steps: what two cores do in a quarter of a second
    actions = tuple(f"shoulder {first}, elbow {second}" for first in _WAYS for second in _WAYS)
    brief = tuple(f"{first} / {second}" for first in _WAYS for second in _WAYS)

    def build_picture(self) -> None:
        """Layers, the arm, the player."""
        with ui.element("div").classes("picture-head"):
            ChoiceField("Layer", LAYERS["arm"], self.state.layer, self._layer_picked, hide_label=True)
            button("Next seed", self._next_seed, "quiet", "Roll out with other chances")
        player = ui.element("div")
        self.picture = Picture("arm")
        self.picture.props(
            'tabindex=0 role=application aria-describedby=arm-help aria-label="Arm: arrow keys move the tip"'
        )
        self.picture.on("click", self._clicked, js_handler="(e) => emit(explorer.place(e))")
        self.picture.on("keydown", self._key, js_handler="(e) => explorer.key(e, emit)")
        x, y = to_view(self.scene.arm, (0.0, 0.0)).tolist()
        with player:
            self._player = Playback(
                self.picture, 25.0, self._scrubbed, self._rollout_picked, lambda: None, origin=(x, y)
            )
        self._circle = Words("", "small soft")
        Words("Click a place, or move with the arrow keys, to see the scores there.", "small soft").props("id=arm-help")

    def draw(self, state: State) -> str:
        """The objective, the arm, and the chosen tip."""
        scene, arm = self.scene, self.scene.arm
        w, risk = np.array(state.w), self.family_of(state).make(state.level)
        outcome, elbow, tip, trail, failed = self.chosen, None, None, None, None
        if outcome is not None:
            rollout = min(state.rollout, len(outcome.tips) - 1)
            step = min(state.step, outcome.tips.shape[1] - 1)
            elbow, tip = outcome.elbows[rollout, step], outcome.tips[rollout, step]
            trail, failed = outcome.tips[rollout], outcome.failed[rollout]
        names = [weight.name for weight in scene.weights]
        picture = draw_arm(
            arm, scene.field(w, risk), elbow=elbow, tip=tip, trail=trail, failed=failed, names=names,
            target=heaviest(w[: len(arm.targets)]), show_field=state.layer == "objective",
        )  # fmt: skip
        return picture if state.tip is None else _marked(picture, to_view(arm, state.tip))

    def scores_of(self, state: State) -> tuple[str, Scores | None]:
        """At the chosen tip."""
        if state.tip is None:
            return "Scores: click a place", None
        risk = self.family_of(state).make(state.level)
        where = f"Scores with the tip at rest at ({state.tip[0]:.2f}, {state.tip[1]:.2f}) m"
        return where, self.scene.at(state.tip, np.array(state.w), risk)

    def show_more(self) -> None:
        """Where the arm spends its time."""
        if self.chosen is not None:
            inside, away = self.chosen.in_circle, self.chosen.distance
            near = f"; in the second half {100 * away.estimate:.1f} cm from the heaviest target"
            near = "" if math.isnan(away.estimate) else near
            self._circle.text = f"In risky circles {100 * inside.estimate:.0f} % of the time{near}."

    def load_rollout(self) -> None:
        """Elbows and tips of a rollout, as places in the picture."""
        if self.chosen is None or not len(self.chosen.tips):
            return
        rollout = min(self.state.rollout, len(self.chosen.tips) - 1)
        arm = self.scene.arm
        places = np.concatenate([to_view(arm, self.chosen.elbows[rollout]), to_view(arm, self.chosen.tips[rollout])], 1)
        step = min(self.state.step, len(places) - 1)
        self._player.load(places.round(2).tolist(), None, len(self.chosen.tips), rollout, step)

    def _layer_picked(self, layer: str) -> None:
        self.change(layer=layer)

    def _scrubbed(self, step: int, context: int) -> None:
        if step >= 0:
            self.change(step=step)

    def _rollout_picked(self, rollout: int) -> None:
        if self.chosen is not None and 0 <= rollout < len(self.chosen.tips):
            self.change(rollout=rollout, step=0)
            self.load_rollout()

    def _next_seed(self) -> None:
        self.change(seed=self.state.seed + 1)

    def _clicked(self, event: GenericEventArguments) -> None:
        if event.args is not None:
            self._choose(from_view(self.scene.arm, np.array(event.args, float)))

    def _key(self, event: GenericEventArguments) -> None:
        down, right = MOVES.get(event.args, (0, 0))
        x, y = self.state.tip or (0.1, 0.1)
        self._choose(np.array([x + _MOVE * right, y - _MOVE * down]))

    def _choose(self, tip: Floats) -> None:
        """The place itself, or the nearest one that the arm reaches."""
        reach = sum(self.scene.arm.links)
        tip = tip * min(1.0, reach / max(float(np.hypot(*tip)), 1e-9))
        if all(map(math.isfinite, tip)):
            self.change(tip=(round(float(tip[0]), 4), round(float(tip[1]), 4)))


def heaviest(weights: Floats) -> int | None:
    """The target that counts most, if one does."""
    return int(np.argmax(weights)) if weights.max() > 0 else None


def _marked(picture: str, place: Floats) -> str:
    left, top = float(place[0]) - 8, float(place[1]) - 8
    halo, square = (
        element("rect", x=left, y=top, width=16, height=16, fill="none", stroke=f"var(--{colour})", stroke_width=width)
        for colour, width in (("paper", 5.0), ("ink", 2.5))
    )
    before, end, _ = picture.rpartition("</svg>")
    return before + element("g", halo, square, class_="chosen-tip") + end
