"""The view of a map: four rooms, or the grid."""

from __future__ import annotations

from typing import Any

import numpy as np
from nicegui import ui
from nicegui.events import GenericEventArguments

from rasf.explorer.drawing.map import centre, draw_map
from rasf.explorer.drawing.map_legend import counted
from rasf.explorer.pages.controls import ChoiceField, Picture, Playback, Words, button
from rasf.explorer.pages.scene import ScenePage
from rasf.explorer.scenes.scene import MapOutcome, MapScene, Scores
from rasf.explorer.state import LAYERS, State

MOVES = {"ArrowLeft": (0, -1), "ArrowUp": (-1, 0), "ArrowRight": (0, 1), "ArrowDown": (1, 0)}
_SHOWN = {"drivers": ("arrows", "drivers"), "visits": ("arrows", "visits"), "trajectory": ("arrows",)}


class MapPage(ScenePage[MapScene, MapOutcome]):
    """Arrows by driver, visits, trajectories; a cell is chosen by a click or by arrow keys."""

    episodes = 500
    actions = brief = ("left", "up", "right", "down")

    def build_picture(self) -> None:
        """Layers, the map, the player."""
        with ui.element("div").classes("picture-head"):
            self._layers = ChoiceField("Layer", LAYERS["map"], self.state.layer, self._layer_picked, hide_label=True)
            self._seed = button("Next seed", self._next_seed, "quiet", "Roll out with other chances")
        player = ui.element("div")
        self.picture = Picture("map")
        self.picture.props(
            'tabindex=0 role=application aria-describedby=map-help aria-label="Map: arrow keys move the cell"'
        )
        self.picture.on(
            "click",
            self._clicked,
            js_handler="(e) => { const cell = e.target.closest('[data-cell]'); if (cell) emit(cell.dataset.cell); }",
        )
        self.picture.on("keydown", self._key, js_handler="(e) => explorer.key(e, emit)")
        with ui.element("div").classes("picture-head") as self._after:
            self._collected = Words("", "small soft")
            button("As at the start", self._as_at_the_start, "quiet", "Show what is done with nothing collected")
        self._after.visible = False
        with player:
            self._player = Playback(self.picture, 6.0, self._scrubbed, self._rollout_picked, self._played)
        Words("Click a cell, or move with the arrow keys, to see why it is chosen.", "small soft").props("id=map-help")

    def draw(self, state: State) -> str:
        """GPI on the map."""
        scene, risk = self.scene, self.family_of(state).make(state.level)
        outcome = self.chosen
        path = None if outcome is None or state.layer != "trajectory" else self._path(outcome, state)
        return draw_map(
            scene.layout,
            scene.policy(np.array(state.w), risk, state.context),
            names=scene.policies,
            visits=None if outcome is None or state.layer != "visits" else outcome.visits,
            path=path,
            step=None if path is None else min(state.step, len(path) - 1),
            selected=state.cell,
            context=state.context,
            show=_SHOWN[state.layer] if outcome is not None or state.layer != "visits" else ("arrows",),
        )

    def scores_of(self, state: State) -> tuple[str, Scores | None]:
        """In the chosen cell."""
        if state.cell is None:
            return "Scores", None
        row, column = divmod(state.cell, self.scene.layout.columns)
        risk = self.family_of(state).make(state.level)
        scores = self.scene.cell(state.cell, np.array(state.w), risk, state.context)
        count = state.context.bit_count()
        after = f", after collecting {counted(count, 'object')}" if count else ""
        return f"Scores in row {row + 1}, column {column + 1}{after}", scores

    def show_more(self) -> None:
        """What was collected."""
        count = self.state.context.bit_count()
        self._after.visible = count > 0
        self._collected.text = (
            f"Arrows and scores are for after collecting {counted(count, 'object')}, hollow on the map."
        )

    def load_rollout(self) -> None:
        """The cells of a rollout, as places in the picture."""
        if self.chosen is None or not self.chosen.paths:
            return
        path = self._path(self.chosen, self.state)
        contexts = self.chosen.contexts[min(self.state.rollout, len(self.chosen.paths) - 1)]
        step = min(self.state.step, len(path) - 1)
        frames = [list(centre(self.scene.layout, int(cell))) for cell in path]
        self._player.load(frames, [int(c) for c in contexts], len(self.chosen.paths), self.state.rollout, step)
        if (step, int(contexts[step])) != (self.state.step, self.state.context):
            self.change(step=step, context=int(contexts[step]))

    def _path(self, outcome: MapOutcome, state: State) -> Any:
        return outcome.paths[min(state.rollout, len(outcome.paths) - 1)]

    def _layer_picked(self, layer: str) -> None:
        self.change(layer=layer)

    def _played(self) -> None:
        if self.state.layer != "trajectory":
            self._layers.set("trajectory")
            self.change(layer="trajectory")

    def _scrubbed(self, step: int, context: int) -> None:
        if 0 <= context < 2 ** len(self.scene.layout.objects) and step >= 0:
            self.change(step=step, context=context)

    def _rollout_picked(self, rollout: int) -> None:
        if self.chosen is not None and 0 <= rollout < len(self.chosen.paths):
            self.change(rollout=rollout, step=0, context=0)
            self.load_rollout()

    def _as_at_the_start(self) -> None:
        self.change(step=0, context=0)
        self.load_rollout()

    def _next_seed(self) -> None:
        self.change(seed=self.state.seed + 1)

    def _clicked(self, event: GenericEventArguments) -> None:
        cell = int(event.args)
        if 0 <= cell < self.scene.layout.rows * self.scene.layout.columns and cell not in self.scene.layout.walls:
            self.change(cell=cell)

    def _key(self, event: GenericEventArguments) -> None:
        layout = self.scene.layout
        here = layout.start if self.state.cell is None else self.state.cell
        if event.args in MOVES:
            here = step_over_walls(here, MOVES[event.args], layout.rows, layout.columns, layout.walls)
        self.change(cell=here)
        if event.args not in MOVES:
            self.tell_place()


def step_over_walls(cell: int, move: tuple[int, int], rows: int, columns: int, walls: tuple[int, ...]) -> int:
    """The next cell in a direction that is no wall; the same cell where there is none."""
    i, j = divmod(cell, columns)
    while True:
        i, j = i + move[0], j + move[1]
        if not (0 <= i < rows and 0 <= j < columns):
            return cell
        if i * columns + j not in walls:
            return i * columns + j
