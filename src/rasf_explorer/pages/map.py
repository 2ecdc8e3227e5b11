"""The page of a map: four rooms, or the grid."""

from __future__ import annotations

import numpy as np
from nicegui import ui
from nicegui.events import GenericEventArguments

from rasf.envs.grid import MOVES
from rasf_explorer.drawing.map import centre, draw_map
from rasf_explorer.drawing.svg import counted, shown
from rasf_explorer.pages.controls import Frames, Words, button
from rasf_explorer.pages.page import RolloutPage
from rasf_explorer.scenes.scene import ACTIONS, Layout, MapOutcome, MapScene, SceneScores
from rasf_explorer.state import State

# the move of each arrow key, as (rows down, columns to the right)
ARROW_KEYS = {f"Arrow{name.title()}": move for name, move in MOVES.items()}


class MapPage(RolloutPage[MapOutcome]):
    """The page of a map: selected policies, visits and trajectories. A click or arrow keys choose a cell."""

    scene: MapScene
    kind, episodes, rate = "map", 500, 6.0
    actions = brief = ACTIONS
    label = "Map: arrow keys choose a cell"
    help = "Click a cell, or choose a cell with the arrow keys, to see the scores of its actions."
    click_script = "(e) => { const cell = e.target.closest('[data-cell]'); if (cell) emit(cell.dataset.cell); }"

    def build_below(self) -> None:
        with ui.element("div").classes("picture-head") as self._after:
            self._collected = Words("", "small soft")
            hint = "Show the policy for the start of an episode, without collected objects"
            button("As at the start", lambda: self.go_to_start(self.state.rollout), "quiet", hint)
        self._after.visible = False
        self._earned = Words("", "small soft earned")

    def show_below(self) -> None:
        outcome = self.chosen
        self._earned.visible = outcome is not None and bool(outcome.earned)
        if outcome is not None and outcome.earned:
            rollout = outcome.earned[min(self.state.rollout, outcome.played - 1)]
            step = min(self.state.step, len(rollout) - 1)
            so_far = f"Step {step}: discounted return so far {shown(float(rollout[step]))}"
            compares = "the risk compares the discounted return of the whole episode with the threshold"
            self._earned.text = f"{so_far}; {compares} {shown(outcome.threshold)}."
        count = self.state.context.bit_count()
        self._after.visible = count > 0
        collecting = f"the state after collecting {counted(count, 'object')}"
        self._collected.text = f"Arrows and scores are for {collecting}. Collected objects are hollow on the map."

    def draw(self, state: State) -> str:
        scene, outcome, layer = self.scene, self.chosen, state.layer
        path = None
        if outcome is not None and layer == "trajectory":
            path = outcome.paths[min(state.rollout, outcome.played - 1)]
        return draw_map(
            scene.layout,
            scene.policy(np.array(state.w), self.risk_of(state), state.context, state.ways),
            names=scene.policies,
            visits=outcome.visits if outcome is not None and layer == "visits" else None,
            path=path,
            step=None if path is None else min(state.step, len(path) - 1),
            selected=state.cell,
            context=state.context,
            drivers=layer == "drivers",
        )

    def scores_of(self, state: State) -> tuple[str, SceneScores | str]:
        if state.cell is None:
            return "Scores", ""
        row, column = divmod(state.cell, self.scene.layout.columns)
        scores = self.scene.cell(state.cell, np.array(state.w), self.risk_of(state), state.context, state.ways)
        count = state.context.bit_count()
        after = f", after collecting {counted(count, 'object')}" if count else ""
        why = scores if scores.seen else why_no_scores(self.scene.layout, state.cell)
        return f"Scores in row {row + 1}, column {column + 1}{after}", why

    def frames(self, outcome: MapOutcome, rollout: int) -> tuple[Frames, list[int]]:
        places = [list(centre(self.scene.layout, int(cell))) for cell in outcome.paths[rollout]]
        return places, [int(context) for context in outcome.contexts[rollout]]

    def played(self) -> None:
        if self.state.layer != "trajectory":
            self.layers.set("trajectory")
            self.change(layer="trajectory")

    def clicked(self, event: GenericEventArguments) -> None:
        cell = int(event.args)
        if 0 <= cell < len(self.scene.layout.symbols) and cell not in self.scene.layout.walls:
            self.change(cell=cell)

    def key(self, event: GenericEventArguments) -> None:
        layout, move = self.scene.layout, ARROW_KEYS.get(event.args)
        here = layout.start if self.state.cell is None else self.state.cell
        if move is not None:
            here = step_over_walls(here, move, layout.rows, layout.columns, layout.walls)
        self.change(cell=here)
        if move is None:
            self.tell_place()


def why_no_scores(layout: Layout, cell: int) -> str:
    """Return the reason why a cell has no scores, in words."""
    if cell in layout.walls:
        return "A wall."
    ends = (*layout.goals, *(layout.hazards if layout.hazards_end else ()))
    return "The episode ends here." if cell in ends else "Nothing was learned here."


def step_over_walls(cell: int, move: tuple[int, int], rows: int, columns: int, walls: tuple[int, ...]) -> int:
    """Return the next cell in the direction `move` that is not a wall, or `cell` if there is no such cell."""
    i, j = divmod(cell, columns)
    while True:
        i, j = i + move[0], j + move[1]
        if not (0 <= i < rows and 0 <= j < columns):
            return cell
        if i * columns + j not in walls:
            return i * columns + j
