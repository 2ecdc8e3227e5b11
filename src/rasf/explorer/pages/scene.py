"""What the map and the arm have in common: draw at once, act when the dial rests, then look along the frontier.

    a slider moves       the picture and the scores follow, in a thread, the newest first
    it rests             rollouts of the chosen risk and of the neutral one; the link and the spoken line follow
    nothing else to do   the frontier, in the background; it gives way to all of this

Elements carry what they show, `data-shows`, as the link says it.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar, cast

import numpy as np
from nicegui import background_tasks, ui

from rasf.explorer.drawing.charts import draw_scores, scores_rows
from rasf.explorer.exports import Sheet, numbers_csv
from rasf.explorer.frontier_job import FrontierJob
from rasf.explorer.jobs import CancelPrevious, Coalesce
from rasf.explorer.pages.controls import Picture, Words
from rasf.explorer.pages.numbers_panel import NumbersPanel
from rasf.explorer.pages.task_panel import TaskPanel
from rasf.explorer.pages.words import risk_words, scores_table, summary
from rasf.explorer.scenes.scene import ArmOutcome, Family, Layout, MapOutcome, Outcome, Point, Scores, Shown, Stop
from rasf.explorer.state import MOST, State

_REST = 0.12  # seconds without a change, then rollouts begin
_ROLLED = ("w", "family", "level", "seed")  # a change of these asks for new rollouts


S = TypeVar("S", bound=Shown)
O = TypeVar("O", bound=Outcome)


@dataclass(frozen=True)
class PageContext:
    """What a page asks of the shell around it."""

    say: Callable[[str], object]  # a sentence that must be seen
    announce: Callable[[str], object]  # a sentence for those who listen
    remember: Callable[[State], object]  # the state, for the link


class ScenePage(ABC, Generic[S, O]):
    """Builds itself into the present slot; `close` ends its work."""

    episodes: int
    actions: tuple[str, ...]
    brief: tuple[str, ...]  # the actions as a narrow table has them
    picture: Picture

    def __init__(self, scene: S, state: State, desk: PageContext, provenance: dict[str, str]) -> None:
        self.scene, self.state, self.desk, self.provenance = scene, state, desk, provenance
        self.chosen: O | None = None
        self.neutral: O | None = None
        self._neutral_for: tuple[Any, ...] = ()
        self._pictures, self._scorings = Coalesce(desk.say), Coalesce(desk.say)
        self._rollouts = CancelPrevious(desk.say)
        self._resting: asyncio.TimerHandle | None = None
        self._open = True
        self._rolled = ""  # what the numbers are of, as `State.rolled` says it
        self._told = (state.cell, state.tip)  # the place that was spoken of last
        self.svg: str | None = None
        self.scores: Scores | None = None
        self._build()
        background_tasks.create(self.redraw())
        self._soon(0.0)

    # what a scene's own page provides

    @abstractmethod
    def build_picture(self) -> None:
        """The middle: picture, layers, playback."""

    @abstractmethod
    def draw(self, state: State) -> str:
        """Compute and draw the picture, in a thread."""

    @abstractmethod
    def scores_of(self, state: State) -> tuple[str, Scores | None]:
        """The chosen place in words, and the scores there, in a thread."""

    @abstractmethod
    def show_more(self) -> None:
        """What is said below the picture."""

    @abstractmethod
    def load_rollout(self) -> None:
        """Give the player the rollout of the state."""

    # the shared flow

    @property
    def family(self) -> Family:
        """The chosen one."""
        return self.family_of(self.state)

    def family_of(self, state: State) -> Family:
        """The one a state names."""
        return next(family for family in self.scene.families if family.name == state.family)

    def _build(self) -> None:
        scene = self.scene
        with ui.element("div").classes("intro"):
            Words(scene.title, "", "h1")
            Words(scene.about, "soft")
        with ui.element("div").classes("columns"):
            self._task = TaskPanel(scene, self.state, self.change)
            with ui.element("section").classes("panel picture-panel").props('aria-label="Picture"'):
                self.build_picture()
            self._numbers = NumbersPanel(lambda: self._frontier.again(), lambda: self._frontier.cancel())
            self._frontier = FrontierJob(scene, self.episodes, self._numbers, self.desk.say)
            with ui.element("section").classes("panel scores-panel").props('aria-label="Scores at the chosen place"'):
                self._where = Words("Scores", "panel-title", "h2")
                self._driver = Words("", "soft")
                with ui.element("div").classes("two"):
                    self._chart = ui.html("", sanitize=False).classes("chart")
                    self._rows = (
                        ui.html("", sanitize=False)
                        .classes("table-place scroll")
                        .props('tabindex=0 role=region aria-label="Table of scores"')
                    )

    def change(self, **changes: Any) -> None:
        """Something was set; after the last seed that a link accepts comes the first."""
        if "seed" in changes:
            changes["seed"] %= MOST + 1
        self.state = replace(self.state, **changes)
        self._task.show(self.state)
        if any(name in changes for name in _ROLLED):
            self._rollouts.stop()
            self._numbers.wait()
            self._frontier.pause()
            self._soon(_REST)
        else:
            self.desk.remember(self.state)
        background_tasks.create(self.redraw())

    async def redraw(self) -> None:
        """The picture of the present state at once, the scores after it."""
        state = self.state
        svg = await self._pictures.run(self.draw, state)
        if svg is not None and self._open:
            self.svg = svg
            self.picture.show(svg, state.to_query())
            self.show_more()
        found = await self._scorings.run(self._score, state)
        if found is None or not self._open:
            return
        self.scores, self._where.text, chart, table = found
        seen = self.scores is not None
        self._driver.text = self.who() if seen else why_nobody(state, getattr(self.scene, "layout", None))
        self._chart.content, self._rows.content = chart, table
        if self._told != (state.cell, state.tip):
            self._told = (state.cell, state.tip)
            self.tell_place()

    def tell_place(self) -> None:
        """Say where the scores are, and who drives there."""
        self.desk.announce(f"{self._where.text}. {self._driver.text}")

    def _score(self, state: State) -> tuple[Scores | None, str, str, str]:
        where, scores = self.scores_of(state)
        if scores is None or not scores.seen:
            return None, where, "", ""
        label, policies = risk_words(self.family_of(state), state.level), self.scene.policies
        chart = draw_scores(scores, policies, self.actions, families_label=label)
        return scores, where, chart, scores_table(scores_rows(scores, policies, self.brief))

    def who(self) -> str:
        """Who drives at the chosen place, in words."""
        return "" if self.scores is None else f"Policy {self.scores.driver} drives: {self.actions[self.scores.action]}."

    def _soon(self, seconds: float) -> None:
        if self._resting is not None:
            self._resting.cancel()
        loop = asyncio.get_running_loop()
        self._resting = loop.call_later(seconds, lambda: background_tasks.create(self._settled()))

    async def _settled(self) -> None:
        state, family = self.state, self.family
        self.desk.remember(state)
        chosen = await self._rollouts.run(self._roll, state, state.level)
        if chosen is None or not self._open:
            return
        self.chosen, self._rolled = chosen, ""
        last = _kept(chosen) - 1
        if self.state.rollout > last:  # a link may ask for any
            self.change(rollout=last)
        self.load_rollout()
        neutral = self._known_neutral(state, family)
        if neutral is None:
            self._numbers.show_chosen(chosen)
            background_tasks.create(self.redraw())
            neutral = await self._rollouts.run(self._roll, state, family.neutral)
            if neutral is None or not self._open:
                return
        self.neutral, self._neutral_for = neutral, (state.w, state.family, state.seed)
        self._rolled = state.rolled()
        self._numbers.show(chosen, neutral, family, state, self.episodes)
        await self.redraw()
        if not self._open or state.rolled() != self.state.rolled():
            return
        self.desk.announce(summary(self.who(), chosen, neutral))
        if family.has_dial:
            found = chosen.measures
            self._frontier.follow(state, family, Point(state.level, found["return"], found["failures"]))

    def _roll(self, state: State, level: float, stop: Stop) -> O:
        risk = self.family_of(state).make(level)
        return cast(O, self.scene.roll_out(np.array(state.w), risk, self.episodes, state.seed, stop))

    def _known_neutral(self, state: State, family: Family) -> O | None:
        """The rollouts of the neutral risk, if they need not be made."""
        if state.level == family.neutral:
            return self.chosen
        return self.neutral if self._neutral_for == (state.w, state.family, state.seed) else None

    # saving

    def csv(self) -> str:
        """The numbers as a file."""
        rows = [] if self.scores is None else scores_rows(self.scores, self.scene.policies, self.actions)
        sheet = Sheet(
            self.provenance | {"rollouts": str(self.episodes)},
            self.state,
            tuple(weight.name for weight in self.scene.weights),
            scores=rows,
        )
        if self._rolled == self.state.rolled() and self.chosen is not None and self.neutral is not None:
            # else they are numbers of another state, that are still shown
            frontier = self._numbers.frontier
            neutral = self.neutral.measures if self.family.has_dial else {}
            sheet = replace(sheet, chosen=self.chosen.measures, neutral=neutral, frontier=frontier)
        return numbers_csv(sheet)

    def close(self) -> None:
        """End all work."""
        self._open = False
        if self._resting is not None:
            self._resting.cancel()
        self._rollouts.stop()
        self._frontier.pause()
        self._pictures.close()
        self._scorings.close()


def why_nobody(state: State, layout: Layout | None) -> str:
    """Why the chosen place has no scores, in words; nothing before one is chosen."""
    if state.cell is None and state.tip is None:
        return ""
    if layout is not None and state.cell in layout.walls:
        return "A wall."
    ends = () if layout is None else (*layout.goals, *(layout.hazards if layout.hazards_end else ()))
    return "The episode ends here." if state.cell in ends else "Nothing was learned here."


def _kept(outcome: Outcome) -> int:
    """How many rollouts can be played back."""
    if isinstance(outcome, MapOutcome):
        return len(outcome.paths)
    return len(outcome.tips) if isinstance(outcome, ArmOutcome) else 0
