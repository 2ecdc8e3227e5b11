"""Base classes of the pages. A page with rollouts updates in three stages:

    a slider moves      A thread updates the picture and the scores. States that a newer state replaces are skipped.
    the slider rests    The page updates its address, makes rollouts at the chosen and at the neutral risk, and gives a
                        summary to screen readers.
    rollouts are done   The frontier is computed in the background. This computation pauses while another stage runs.

The modules `scene` and `frontier` in `rasf_explorer.scenes` explain the words dial, level, context and frontier. The
attribute `data-shows` of an element is the state that the element shows, as the query string of a link.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from nicegui import background_tasks, ui
from nicegui.element import Element
from nicegui.events import GenericEventArguments

from rasf.risk import Risk
from rasf_explorer.drawing.actions import draw_actions
from rasf_explorer.drawing.scores import ScoreRow, draw_scores, scores_rows
from rasf_explorer.jobs import CancelPrevious, Coalesce
from rasf_explorer.pages.controls import ChoiceField, Frames, Picture, Playback, Words, button, html, panel
from rasf_explorer.pages.numbers import Sheet, at_most_one, numbers_csv, risk_words, scores_table, summary
from rasf_explorer.pages.panels import FrontierPanel, NumbersPanel, TaskPanel
from rasf_explorer.scenes.frontier import Point
from rasf_explorer.scenes.scene import PLAIN, RolloutScene, Scene, SceneOutcome, SceneScores, Stop, Ways
from rasf_explorer.state import MOST, State

_REST = 0.12  # seconds without a change after which rollouts begin
# a change of one of these fields requires new rollouts
_ROLLED = ("w", "family", "level", "seed", "limit", "static", "ahead")

O = TypeVar("O", bound=SceneOutcome)


@dataclass(frozen=True)
class PageContext:
    """Functions and facts that the shell provides to a page."""

    say: Callable[[str], object]  # shows a sentence as a notice
    announce: Callable[[str], object]  # gives a sentence to screen readers
    remember: Callable[[State], object]  # stores the state in the address of the page
    provenance: Mapping[str, str]  # the origin of the numbers, such as version and library, by name


class DrawnScores(NamedTuple):
    """The scores in one state as a chart (SVG), as a table (HTML), and vector actions as a chart, else ""."""

    chart: str = ""
    table: str = ""
    actions: str = ""


class Page(ABC):
    """A page of a scene, built into NiceGUI's current slot. `close` ends the work of the page."""

    actions: tuple[str, ...]
    brief: tuple[str, ...]  # short names of the actions, for a narrow table
    picture: Element  # the element that shows `svg`, the drawing that can be saved

    def __init__(self, scene: Scene, state: State, context: PageContext) -> None:
        self.scene, self.state, self.context = scene, state, context
        self.svg: str | None = None
        self.scores: SceneScores | None = None  # the scores that are shown
        self._scorings, self._open = Coalesce(context.say), True

    def risk_of(self, state: State) -> Risk:
        return self.scene.family(state.family).make(state.level)

    def build_intro(self) -> None:
        with ui.element("div").classes("intro"):
            Words(self.scene.title, "", "h1")
            Words(self.scene.about, "soft")

    def risk_words(self, state: State) -> str:
        return risk_words(self.scene.family(state.family), state.level)

    def draw_scores(self, scores: SceneScores, state: State) -> DrawnScores:
        """Return the scores as a chart and as a table, and the actions that are scored if they are vectors."""
        policies, proposals = self.scene.policies, scores.proposals
        chart = draw_scores(scores, policies, scores.names(self.actions), families_label=self.risk_words(state))
        table = scores_table(scores_rows(scores, policies, scores.names(self.brief, brief=True)))
        chosen = scores.action if scores.seen else None
        return DrawnScores(chart, table, "" if proposals is None else draw_actions(proposals, chosen))

    def who(self) -> str:
        """Return GPI's choice in the state whose scores are shown, in words."""
        scores = self.scores
        if scores is None:
            return ""
        return f"GPI takes {scores.names(self.actions)[scores.action]}, by policy {scores.driver}."

    def csv(self) -> str:
        """Return the numbers of the page as a CSV file."""
        rows = [] if self.scores is None else self._rows_of(self.scores)
        names = tuple(weight.name for weight in self.scene.weights)
        return numbers_csv(self.complete(Sheet(self.context.provenance, self.state, names, scores=rows)))

    def _rows_of(self, scores: SceneScores) -> list[ScoreRow]:
        return scores_rows(scores, self.scene.policies, scores.names(self.actions))

    @abstractmethod
    def complete(self, sheet: Sheet) -> Sheet:
        """Return the sheet with the numbers of the shown rollouts, if these rollouts belong to the current state."""

    def close(self) -> None:
        self._open = False
        self._scorings.close()


class RolloutPage(Page, Generic[O]):
    """The page of a scene with rollouts: a map, an arm or a road."""

    scene: RolloutScene[O]
    kind: str  # "map", "arm" or "road"
    episodes: int
    label: str  # label of the picture, for screen readers
    help: str
    rate: float  # steps per second in playback
    click_script: str | None = None  # JavaScript that turns a click into the event of `clicked`; None: ignore clicks
    plays_neutral: bool = False  # whether the player also shows the neutral rollout

    def __init__(self, scene: RolloutScene[O], state: State, context: PageContext) -> None:
        super().__init__(scene, state, context)
        self.chosen: O | None = None  # the newest rollouts at the chosen risk
        self.chosen_at = state  # the state of these rollouts
        self.neutral: O | None = None  # risk-neutral rollouts to compare with `chosen`; None until these are ready
        # the state whose numbers are shown, and its rollouts at the chosen and at the neutral risk
        self._acted: tuple[State, O, O] | None = None
        self._contexts: list[int] = []  # the context at every step of the played rollout
        self._pictures, self._rollouts = Coalesce(context.say), CancelPrevious(context.say)
        self._resting: asyncio.TimerHandle | None = None
        self._announced = (state.cell, state.tip)  # the cell and the tip position that were announced last
        self._build()
        background_tasks.create(self.redraw())
        self._soon(0.0)

    # provided by subclasses

    def build_below(self) -> None:
        """Build the elements below the picture. The base class has none."""

    def show_below(self) -> None:
        """Update the elements below the picture."""

    @abstractmethod
    def draw(self, state: State) -> str:
        """Return the picture. Called in a thread."""

    @abstractmethod
    def scores_of(self, state: State) -> tuple[str, SceneScores | str]:
        """Return a heading, and the scores or a sentence with the reason why there are none. Called in a thread."""

    @abstractmethod
    def frames(self, outcome: O, rollout: int) -> tuple[Frames, list[int]]:
        """Return the positions that the player shows, and the contexts, at every step of a rollout."""

    def clicked(self, event: GenericEventArguments) -> None:
        """Choose the cell or tip position of a click."""

    def key(self, event: GenericEventArguments) -> None:
        """Move the chosen cell or tip position by an arrow key."""

    def played(self) -> None:
        """React to the start of playback."""

    # shared by all pages

    def _build(self) -> None:
        self.build_intro()
        with ui.element("div").classes("columns"):
            TaskPanel(self.scene, self.state, self.change)
            with panel("Picture", "picture-panel"):
                self._build_picture()
            self._numbers = NumbersPanel(self.scene.failure)
            with self._numbers.place:
                self._frontier = FrontierPanel(self.scene, self.episodes, self.context.say)
            with panel("Scores in the chosen state", "scores-panel"):
                self._where = Words("Scores", "panel-title", "h2")
                self._driver = Words("", "soft")
                with ui.element("div").classes("two"):
                    with ui.element("div"):
                        self._chart, self._actions = html("chart"), html("chart actions")
                    self._rows = html("table-place scroll", "Table of scores")

    def _build_picture(self) -> None:
        with ui.element("div").classes("picture-head"):
            self.layers = ChoiceField(
                "Layer", self.scene.layers, self.state.layer, lambda layer: self.change(layer=layer)
            )
            self.layers.visible = len(self.scene.layers) > 1
            button("Next seed", lambda: self.change(seed=self.state.seed + 1), "quiet", "Use other random numbers")
        player = ui.element("div")
        self.picture = self._picture = Picture(self.kind)
        self.picture.props(f'aria-describedby={self.kind}-help aria-label="{self.label}"')
        if self.click_script is None:
            self.picture.props("role=group")
        else:
            self.picture.props("tabindex=0 role=application")
            self.picture.on("click", self.clicked, js_handler=self.click_script)
            self.picture.on("keydown", self.key, js_handler="(e) => explorer.key(e, emit)")
        self.build_below()
        with player:
            self._player = Playback(
                self.kind, self.picture, self.rate, self._scrubbed, self._rollout_picked, self.played
            )
        Words(self.help, "small soft").props(f"id={self.kind}-help")

    def change(self, **changes: Any) -> None:
        """Change the state. After the largest seed that a link accepts, seeds begin again at 0."""
        if "seed" in changes:
            changes["seed"] %= MOST + 1
        self.state = replace(self.state, **changes)
        if any(name in changes for name in _ROLLED):
            self._rollouts.stop()
            self._numbers.wait()
            self._frontier.pause()
            self._soon(_REST)
        else:
            self.context.remember(self.state)
        background_tasks.create(self.redraw())

    async def redraw(self) -> None:
        """Update the picture for the current state, then the scores."""
        state = self.state
        svg = await self._pictures.run(self.draw, state)
        if svg is not None and self._open:
            self.svg = svg
            self._picture.show(svg, state.to_query())
            self.show_below()
        found = await self._scorings.run(self._score, state)
        if found is None or not self._open:
            return
        self.scores, self._where.text, why, drawn = found
        self._chart.content, self._rows.content, self._actions.content = drawn
        self._driver.text = self.who() or why
        if self._announced != (state.cell, state.tip):
            self._announced = (state.cell, state.tip)
            self.tell_place()

    def tell_place(self) -> None:
        """Announce the cell or tip position whose scores are shown, and GPI's choice there."""
        self.context.announce(f"{self._where.text}. {self._driver.text}")

    def _score(self, state: State) -> tuple[SceneScores | None, str, str, DrawnScores]:
        where, scores = self.scores_of(state)
        if isinstance(scores, str):
            return None, where, scores, DrawnScores()
        return scores, where, "", self.draw_scores(scores, state)

    def _soon(self, seconds: float) -> None:
        if self._resting is not None:
            self._resting.cancel()
        loop = asyncio.get_running_loop()
        self._resting = loop.call_later(seconds, lambda: background_tasks.create(self._settled()))

    async def _settled(self) -> None:
        state, family = self.state, self.scene.family(self.state.family)
        self.context.remember(state)
        chosen = await self._rollouts.run(self._roll, state, state.level, state.ways)
        if chosen is None or not self._open:
            return
        is_neutral = state.level == family.neutral and state.ways == PLAIN
        neutral, before = chosen if is_neutral else None, self._acted
        if before is not None and _neutral_key(before[0], state) == _neutral_key(state, state):
            neutral = before[2]
        self.chosen, self.chosen_at, self.neutral = chosen, state, neutral
        if self.state.rollout >= chosen.played:  # a link may name a rollout that does not exist
            self.change(rollout=chosen.played - 1)
        self._load_rollout()
        if neutral is None:
            self._numbers.show_chosen(chosen)
            background_tasks.create(self.redraw())
            neutral = await self._rollouts.run(self._roll, state, family.neutral, PLAIN)
            if neutral is None or not self._open:
                return
            self.neutral = neutral
            if self.plays_neutral:
                self._load_rollout()
        self._acted = state, chosen, neutral
        self._numbers.show(chosen, neutral, family, state, self.episodes)
        await self.redraw()
        if not self._open or state.rolled() != self.state.rolled():
            return
        self.context.announce(summary(self.who(), chosen, neutral))
        if family.has_dial:
            self._frontier.follow(state, Point.of(state.level, chosen), at_most_one(chosen, neutral))

    def _roll(self, state: State, level: float, ways: Ways, stop: Stop) -> O:
        risk = self.scene.family(state.family).make(level)
        return self.scene.roll_out(np.array(state.w), risk, self.episodes, state.seed, stop, ways)

    # playback of a rollout

    def _load_rollout(self) -> None:
        if self.chosen is None or not self.chosen.played:
            return
        rollout = min(self.state.rollout, self.chosen.played - 1)
        frames, self._contexts = self.frames(self.chosen, rollout)
        step = min(self.state.step, len(frames) - 1)
        self._player.load(frames, self._contexts, self.chosen.played, rollout, step)
        if (step, self._contexts[step]) != (self.state.step, self.state.context):
            self._scrubbed(step)

    def go_to_start(self, rollout: int) -> None:
        """Show the first step of a rollout."""
        self.change(rollout=rollout, step=0, context=0)
        self._load_rollout()

    def _rollout_picked(self, rollout: int) -> None:
        if self.chosen is not None and 0 <= rollout < self.chosen.played:
            self.go_to_start(rollout)

    def _scrubbed(self, step: int) -> None:
        if 0 <= step < len(self._contexts):
            self.change(step=step, context=self._contexts[step])

    def complete(self, sheet: Sheet) -> Sheet:
        sheet = replace(sheet, provenance={**sheet.provenance, "rollouts": str(self.episodes)})
        if self._acted is None or self._acted[0].rolled() != self.state.rolled():
            return sheet
        state, chosen, neutral = self._acted
        other = neutral.measures if self.scene.family(state.family).has_dial else {}
        return replace(sheet, chosen=chosen.measures, neutral=other, frontier=self._frontier.frontier)

    def close(self) -> None:
        super().close()
        if self._resting is not None:
            self._resting.cancel()
        self._rollouts.stop()
        self._frontier.pause()
        self._pictures.close()


def _neutral_key(state: State, like: State) -> str:
    """Return a text that is equal for two states with equal risk-neutral rollouts, if both calls have the same `like`.

    Risk-neutral rollouts do not depend on the level and the ways to act of a state. So the text has no limit, no static
    risk and no simulated steps, and has the level of `like`.
    """
    return replace(state, level=like.level, limit=None, static=False, ahead=0).rolled()
