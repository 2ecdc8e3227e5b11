"""The page of the reacher, an arm with two joints."""

from __future__ import annotations

import math

import numpy as np
from nicegui.events import GenericEventArguments

from rasf.arrays import Floats
from rasf_explorer.drawing.arm import draw_arm, from_view, to_view
from rasf_explorer.pages.controls import Frames, Words
from rasf_explorer.pages.map import ARROW_KEYS
from rasf_explorer.pages.page import RolloutPage
from rasf_explorer.scenes.scene import ArmOutcome, ArmScene, SceneScores
from rasf_explorer.state import State

_MOVE = 0.02  # distance in metres by which an arrow key moves the tip
_WAYS = ("−", "0", "+")  # signs of a joint's torque


class ArmPage(RolloutPage[ArmOutcome]):
    """The page of an arm: the objective (GPI's largest score), the arm in motion, and a chosen tip position."""

    scene: ArmScene
    kind, rate = "arm", 25.0
    episodes = 8  # rollouts of 500 steps each; together they take a quarter of a second on two cores
    actions = tuple(f"shoulder {first}, elbow {second}" for first in _WAYS for second in _WAYS)
    brief = tuple(f"{first} / {second}" for first in _WAYS for second in _WAYS)
    label = "Arm: arrow keys move the tip"
    help = "Click a position, or move the chosen position with the arrow keys, to see the scores there."
    click_script = "(e) => emit(explorer.place(e))"

    def build_below(self) -> None:
        self._circle = Words("", "small soft")

    def show_below(self) -> None:
        """Show the share of time in risky circles, and the distance to the target with the largest weight."""
        if self.chosen is not None:
            inside, away = self.chosen.in_circle.estimate, self.chosen.distance.estimate
            from_target = f"its mean distance from the target with the largest weight is {100 * away:.1f} cm"
            near = "" if math.isnan(away) else f" In the second half of a rollout, {from_target}."
            self._circle.text = f"The tip is in risky circles {100 * inside:.0f} % of the time.{near}"

    def draw(self, state: State) -> str:
        """Draw the objective, the arm, and the chosen tip position."""
        scene, arm, outcome = self.scene, self.scene.arm, self.chosen
        w, rollout, step = np.array(state.w), None, 0
        if outcome is not None:
            which, step = min(state.rollout, outcome.played - 1), min(state.step, outcome.tips.shape[1] - 1)
            rollout = outcome.elbows[which], outcome.tips[which], outcome.failed[which]
        return draw_arm(
            arm,
            scene.field(w, self.risk_of(state)) if state.layer == "objective" else None,
            rollout=rollout,
            step=step,
            target=heaviest(w[: len(arm.targets)]),
            selected=None if state.tip is None else scene.posture(state.tip, w, self.risk_of(state)),
        )

    def scores_of(self, state: State) -> tuple[str, SceneScores | str]:
        if state.tip is None:
            return "Scores: click a position", ""
        where = f"Scores with the tip at rest at ({state.tip[0]:.2f}, {state.tip[1]:.2f}) m"
        return where, self.scene.at(state.tip, np.array(state.w), self.risk_of(state))

    def frames(self, outcome: ArmOutcome, rollout: int) -> tuple[Frames, list[int]]:
        """Return the positions of shoulder, elbow and tip at every step."""
        elbows, tips = outcome.elbows[rollout], outcome.tips[rollout]
        places = [to_view(self.scene.arm, joint) for joint in (np.zeros_like(tips), elbows, tips)]
        return np.concatenate(places, axis=1).round(2).tolist(), [0] * len(tips)

    def clicked(self, event: GenericEventArguments) -> None:
        if event.args is not None:
            self._choose(from_view(self.scene.arm, np.array(event.args, float)))

    def key(self, event: GenericEventArguments) -> None:
        down, right = ARROW_KEYS.get(event.args, (0, 0))
        x, y = self.state.tip or (0.1, 0.1)
        self._choose(np.array([x + _MOVE * right, y - _MOVE * down]))

    def _choose(self, tip: Floats) -> None:
        """Choose a tip position. If it is out of reach, choose the nearest position within reach."""
        reach = sum(self.scene.arm.links)
        tip = tip * min(1.0, reach / max(float(np.hypot(*tip)), 1e-9))
        if all(map(math.isfinite, tip)):
            self.change(tip=(round(float(tip[0]), 4), round(float(tip[1]), 4)))


def heaviest(weights: Floats) -> int | None:
    """Return the target with the largest weight, or None if no target has a positive weight."""
    return int(np.argmax(weights)) if weights.max() > 0 else None
