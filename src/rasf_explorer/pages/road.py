"""The page of a road: a rollout at the chosen risk and a risk-neutral rollout, from the same start state."""

from __future__ import annotations

import numpy as np

from rasf_explorer.drawing.road import Acted, draw_road, moves
from rasf_explorer.pages.controls import Frames
from rasf_explorer.pages.page import PageContext, RolloutPage
from rasf_explorer.scenes.driving import DrivingScene
from rasf_explorer.scenes.scene import Drive, RoadOutcome, SceneScores
from rasf_explorer.state import State


class RoadPage(RolloutPage[RoadOutcome]):
    """The page of a road. Two rollouts play together. The scores are of the chosen risk at the current step."""

    scene: DrivingScene
    kind, rate, plays_neutral = "road", 3.0, True
    episodes = 60  # rollouts; together they take about a second
    label = "Road"
    help = (
        "The cars at the chosen and at the neutral risk start in the same traffic. Broken lines are their paths. Play "
        "the rollout, or choose a step. The scores below are for the chosen risk at this step."
    )

    def __init__(self, scene: DrivingScene, state: State, context: PageContext) -> None:
        self.actions = self.brief = scene.actions
        super().__init__(scene, state, context)

    def draw(self, state: State) -> str:
        own = self._drive(self.chosen, state.rollout)
        acted = [Acted("chosen", self.risk_words(self.chosen_at), own)]
        if self.scene.family(state.family).has_dial:
            acted.append(Acted("neutral", "risk-neutral", self._drive(self.neutral, state.rollout)))
        return draw_road(self.scene.road, acted, state.step)

    def scores_of(self, state: State) -> tuple[str, SceneScores | str]:
        drive = self._drive(self.chosen, state.rollout)
        if drive is None:
            return "Scores", ""
        where = "Scores at the first observation" if state.step == 0 else f"Scores at step {state.step}"
        if state.step >= drive.steps:
            return where, "The episode is over."
        obs = drive.observations[state.step]
        return where, self.scene.scores_at(obs, np.array(state.w), self.risk_of(state), state.ways, state.step)

    def frames(self, outcome: RoadOutcome, rollout: int) -> tuple[Frames, list[int]]:
        drives = [drive for drive in (outcome.drives[rollout], self._drive(self.neutral, rollout)) if drive is not None]
        if not self.scene.families[0].has_dial:
            drives = drives[:1]
        steps = range(max(drive.steps for drive in drives) + 1)
        rows = [moves(self.scene.road, drives, step).round(2).ravel().tolist() for step in steps]
        return [[None if np.isnan(value) else value for value in row] for row in rows], [0] * len(steps)

    def _drive(self, outcome: RoadOutcome | None, rollout: int) -> Drive | None:
        return None if outcome is None else outcome.drives[min(rollout, outcome.played - 1)]
