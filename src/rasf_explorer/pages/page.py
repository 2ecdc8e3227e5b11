"""What pages have in common; those that act: draw at once, act when the dial rests, then follow the frontier.

    a slider moves       the picture and the scores follow, in a thread, the newest first
    it rests             rollouts of the chosen risk and of the neutral one; the link and the spoken line follow
    nothing else to do   the frontier, in the background; it gives way to all of this

Elements carry what they show, `data-shows`, as the link says it.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import numpy as np
from nicegui import background_tasks, ui
from nicegui.element import Element
from nicegui.events import GenericEventArguments

from rasf.risk import Risk
from rasf_explorer.drawing.scores import draw_scores, scores_rows
from rasf_explorer.jobs import CancelPrevious, Coalesce
from rasf_explorer.pages.controls import ChoiceField, Frames, Picture, Playback, Words, button, html, panel
from rasf_explorer.pages.numbers import Sheet, at_most_one, numbers_csv, risk_words, scores_table, summary
from rasf_explorer.pages.panels import FrontierPanel, NumbersPanel, TaskPanel
from rasf_explorer.scenes.frontier import Point
from rasf_explorer.scenes.scene import PLAIN, RolloutScene, Scene, SceneOutcome, SceneScores, Stop, Ways
from rasf_explorer.state import MOST, State

_REST = 0.12  # seconds without a change, then rollouts begin
_ROLLED = ("w", "family", "level", "seed", "limit", "static")  # a change of these asks for new rollouts

O = TypeVar("O", bound=SceneOutcome)


@dataclass(frozen=True)
class PageContext:
    """What a page asks of the shell around it."""

    say: Callable[[str], object]  # a sentence that must be seen
    announce: Callable[[str], object]  # a sentence for those who listen
    remember: Callable[[State], object]  # the state, for the link
    provenance: Mapping[str, str]  # where the numbers come from


class Page(ABC):
    """Builds itself into the present slot; `close` ends its work."""

    actions: tuple[str, ...]
    brief: tuple[str, ...]  # the actions as a narrow table has them
    picture: Element  # holds `svg`, which can be saved

    def __init__(self, scene: Scene, state: State, context: PageContext) -> None:
        self.scene, self.state, self.context = scene, state, context
        self.svg: str | None = None
        self.scores: SceneScores | None = None  # those that are shown
        self._scorings, self._open = Coalesce(context.say), True

    def risk_of(self, state: State) -> Risk:
        return self.scene.family(state.family).make(state.level)

    def build_intro(self) -> None:
        with ui.element("div").classes("intro"):
            Words(self.scene.title, "", "h1")
            Words(self.scene.about, "soft")

    def risk_words(self, state: State) -> str:
        return risk_words(self.scene.family(state.family), state.level)

    def draw_scores(self, scores: SceneScores, state: State) -> tuple[str, str]:
        """Scores as a chart and as a table."""
        policies = self.scene.policies
        chart = draw_scores(scores, policies, self.actions, families_label=self.risk_words(state))
        return chart, scores_table(scores_rows(scores, policies, self.brief))

    def who(self) -> str:
        """Who drives where the scores are, in words."""
        return "" if self.scores is None else f"Policy {self.scores.driver} drives: {self.actions[self.scores.action]}."

    def csv(self) -> str:
        """The numbers as a file."""
        rows = [] if self.scores is None else scores_rows(self.scores, self.scene.policies, self.actions)
        names = tuple(weight.name for weight in self.scene.weights)
        return numbers_csv(self.complete(Sheet(self.context.provenance, self.state, names, scores=rows)))

    @abstractmethod
    def complete(self, sheet: Sheet) -> Sheet:
        """With the numbers of acting, where those that are shown are of the present state."""

    def close(self) -> None:
        self._open = False
        self._scorings.close()


class RolloutPage(Page, Generic[O]):
    """The page of a map, an arm or a road."""

    scene: RolloutScene[O]
    kind: str  # "map", "arm" or "road"
    episodes: int
    label: str  # of the picture, for those who listen
    help: str
    rate: float  # steps per second that the player shows
    click_script: str | None = None  # what a click on the picture tells `clicked`, where places can be chosen
    plays_neutral: bool = False  # whether the player shows the neutral rollout, too

    def __init__(self, scene: RolloutScene[O], state: State, context: PageContext) -> None:
        super().__init__(scene, state, context)
        self.chosen: O | None = None  # rollouts at the chosen risk, the newest
        self.chosen_at = state
        self.neutral: O | None = None  # those beside them, once they are there
        self._acted: tuple[State, O, O] | None = (
            None  # rollouts whose numbers are shown, at the chosen and neutral risk
        )
        self._contexts: list[int] = []  # what was collected at every step of the rollout that is played back
        self._pictures, self._rollouts = Coalesce(context.say), CancelPrevious(context.say)
        self._resting: asyncio.TimerHandle | None = None
        self._told = (state.cell, state.tip)  # the place that was spoken of last
        self._build()
        background_tasks.create(self.redraw())
        self._soon(0.0)

    # what a scene's own page provides

    def build_below(self) -> None:
        """What stands below the picture, if anything."""

    def show_below(self) -> None:
        """What is said there now."""

    @abstractmethod
    def draw(self, state: State) -> str:
        """Compute and draw the picture, in a thread."""

    @abstractmethod
    def scores_of(self, state: State) -> tuple[str, SceneScores | str]:
        """The chosen place, and the scores there or a sentence that says why there are none; in a thread."""

    @abstractmethod
    def frames(self, outcome: O, rollout: int) -> tuple[Frames, list[int]]:
        """What the player shows at every step of a rollout, and what was collected by then."""

    def clicked(self, event: GenericEventArguments) -> None:
        """Choose the place that was clicked."""

    def key(self, event: GenericEventArguments) -> None:
        """Move the chosen place by an arrow key."""

    def played(self) -> None:
        """The player began."""

    # the shared flow

    def _build(self) -> None:
        self.build_intro()
        with ui.element("div").classes("columns"):
            TaskPanel(self.scene, self.state, self.change)
            with panel("Picture", "picture-panel"):
                self._build_picture()
            self._numbers = NumbersPanel(self.scene.failure)
            with self._numbers.place:
                self._frontier = FrontierPanel(self.scene, self.episodes, self.context.say)
            with panel("Scores at the chosen place", "scores-panel"):
                self._where = Words("Scores", "panel-title", "h2")
                self._driver = Words("", "soft")
                with ui.element("div").classes("two"):
                    self._chart, self._rows = html("chart"), html("table-place scroll", "Table of scores")

    def _build_picture(self) -> None:
        with ui.element("div").classes("picture-head"):
            self.layers = ChoiceField(
                "Layer", self.scene.layers, self.state.layer, lambda layer: self.change(layer=layer)
            )
            self.layers.visible = len(self.scene.layers) > 1
            button("Next seed", lambda: self.change(seed=self.state.seed + 1), "quiet", "Roll out with other chances")
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
        """Something was set; after the last seed that a link accepts comes the first."""
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
        """The picture of the present state at once, the scores after it."""
        state = self.state
        svg = await self._pictures.run(self.draw, state)
        if svg is not None and self._open:
            self.svg = svg
            self._picture.show(svg, state.to_query())
            self.show_below()
        found = await self._scorings.run(self._score, state)
        if found is None or not self._open:
            return
        self.scores, self._where.text, why, self._chart.content, self._rows.content = found
        self._driver.text = self.who() or why
        if self._told != (state.cell, state.tip):
            self._told = (state.cell, state.tip)
            self.tell_place()

    def tell_place(self) -> None:
        """Say where the scores are, and who drives there."""
        self.context.announce(f"{self._where.text}. {self._driver.text}")

    def _score(self, state: State) -> tuple[SceneScores | None, str, str, str, str]:
        where, scores = self.scores_of(state)
        if isinstance(scores, str):
            return None, where, scores, "", ""
        return scores, where, "", *self.draw_scores(scores, state)

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
        plainly = state.level == family.neutral and state.ways == PLAIN
        neutral, before = chosen if plainly else None, self._acted
        if before is not None and _plainly(before[0], state) == _plainly(state, state):
            neutral = before[2]
        self.chosen, self.chosen_at, self.neutral = chosen, state, neutral
        if self.state.rollout >= chosen.played:  # a link may ask for any
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

    # playing a rollout back

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
        """Show a rollout from its beginning."""
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


def _plainly(state: State, like: State) -> str:
    """What neutral rollouts depend on; the dial and the ways of acting are set alike."""
    return replace(state, level=like.level, limit=None, static=False).rolled()
