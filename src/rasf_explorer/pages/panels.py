"""The panels beside a picture: the task and its risk, results of rollouts, and the frontier (`scenes.frontier`)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from nicegui import background_tasks, ui

from rasf_explorer.drawing.frontier import draw_frontier
from rasf_explorer.drawing.returns import draw_returns
from rasf_explorer.jobs import CancelPrevious, Reports, Say
from rasf_explorer.pages.controls import ChoiceField, Progress, SliderField, Words, button, html, panel
from rasf_explorer.pages.numbers import at_most_one, numbers_table, risk_words, utility_words
from rasf_explorer.scenes.frontier import Frontier, Point, frontier
from rasf_explorer.scenes.scene import RiskFamily, RolloutScene, Scene, SceneOutcome, Stop, Weight
from rasf_explorer.state import State

_MANY = 6  # if there are more sliders than this, they are closer together


class TaskPanel:
    """Reward weights, a family of risks and its dial. `on_change` is called with the changed fields of `State`."""

    def __init__(self, scene: Scene, state: State, on_change: Callable[..., object]) -> None:
        self._scene, self._on_change = scene, on_change
        self._family, self._w = scene.family(state.family), list(state.w)
        with panel("Task and risk", "task many" if len(scene.weights) > _MANY else "task"):
            Words("Risk", "panel-title", "h2")
            if len(scene.families) > 1:
                names = {family.name: family.label for family in scene.families}
                ChoiceField("Measure", names, state.family, self._family_picked)
            self._dial_place = ui.element("div").classes("dial")
            self._build_dial(state.level)
            self._static_place = ui.element("div")
            self._build_static(state.static)
            if scene.limit is not None:
                self._build_limit(scene.limit, state.limit)
            if scene.ahead is not None:
                Words("Looking ahead", "panel-title", "h2")
                with ui.element("div").classes("dial"):
                    SliderField(scene.ahead.name, state.ahead, scene.ahead, lambda h: on_change(ahead=int(h)))
            Words("Reward weights", "panel-title", "h2")
            self._sliders = [
                SliderField(weight.name, value, weight, partial(self._weight_picked, i))
                for i, (weight, value) in enumerate(zip(scene.weights, state.w, strict=True))
            ]
            with ui.element("div").classes("buttons"):
                button(
                    "Random task", lambda: self._take_task(scene.random_task(np.random.default_rng()).tolist()), "quiet"
                )
                button("Default task", lambda: self._take_task(scene.default_task.tolist()), "quiet")

    def _build_dial(self, level: float) -> None:
        family = self._family
        self._dial_place.clear()
        with self._dial_place:
            if not family.has_dial:
                Words("These policies learned only the mean of returns, so there is no risk dial.", "small soft")
                return
            label = f"Risk dial, {family.parameter}"
            self._dial = SliderField(label, level, family, lambda level: self._on_change(level=level))
            button("Neutral", self._neutral, "quiet", "Set the dial to neutral: only the mean counts")

    def _build_static(self, static: bool) -> None:
        self._static_place.clear()
        self._static_place.visible = self._scene.offers_static and self._family.can_be_static
        if not self._static_place.visible:
            return
        with self._static_place:
            words = {"rest": "the remaining return", "whole": "the whole return"}
            picked = "whole" if static else "rest"
            ChoiceField("Risk of", words, picked, lambda of: self._on_change(static=of == "whole"))

    def _build_limit(self, slider: Weight, limit: float | None) -> None:
        Words("Limit", "panel-title", "h2")
        with ui.element("div").classes("dial"):
            shown = slider.high if limit is None else limit
            self._limit = SliderField(slider.name, shown, slider, self._limit_picked)
            button("No limit", self._no_limit, "quiet")

    def _no_limit(self) -> None:
        if self._scene.limit is not None:
            self._limit.set(self._scene.limit.high)
            self._on_change(limit=None)

    def _limit_picked(self, value: float) -> None:
        slider = self._scene.limit
        self._on_change(limit=None if slider is None or value >= slider.high else value)

    def _neutral(self) -> None:
        self._dial.set(self._family.neutral)
        self._on_change(level=float(self._family.neutral))

    def _family_picked(self, name: str) -> None:
        self._family = self._scene.family(name)
        self._on_change(family=name, level=float(self._family.default), static=False)
        self._build_dial(self._family.default)
        self._build_static(False)

    def _weight_picked(self, i: int, value: float) -> None:
        self._w[i] = value
        self._on_change(w=tuple(self._w))

    def _take_task(self, w: list[float]) -> None:
        for slider, value in zip(self._sliders, w, strict=True):
            slider.set(value)
        self._w = w
        self._on_change(w=tuple(w))


class NumbersPanel:
    """Results of rollouts at the chosen and the neutral risk. `place` is the panel, which also has the frontier."""

    def __init__(self, failure: str) -> None:
        self._failure = failure
        with panel("Results of rollouts", "numbers-panel") as self.place:
            Words("Rollouts", "panel-title", "h2")
            self._about = Words("Computing rollouts ...", "small soft")
            self._table = html("table-place")
            self._utility = Words("", "small soft")
            self._utility.visible = False
            self._notes = Words("", "small soft notes")
            self._histogram = html("chart")

    def wait(self) -> None:
        """Mark the numbers as numbers of an earlier state."""
        self.place.classes(add="stale", remove="half")

    def show_chosen(self, chosen: SceneOutcome) -> None:
        """Show the numbers of the chosen risk, while the rollouts at the neutral risk are computed."""
        self._show_table({"Chosen": chosen, "Neutral": None})
        self.place.classes(add="half")

    def show(
        self, chosen: SceneOutcome, neutral: SceneOutcome, family: RiskFamily, state: State, episodes: int
    ) -> None:
        """Show the numbers of both risks.

        Args:
            chosen: Rollouts at the chosen risk.
            neutral: Risk-neutral rollouts.
            family: The family of the risk.
            state: The state of the page.
            episodes: Number of rollouts for each risk.
        """
        words = risk_words(family, state.level)
        exact = " Only CVaR and the histogram are from rollouts, the other numbers are exact." if chosen.exact else ""
        beside = ", and as many risk-neutral rollouts" if family.has_dial else ""
        words += " of the whole return" if state.static else ""
        words += "" if state.limit is None else ", within the limit"
        self._about.text = (
            f"{episodes} rollouts of GPI at {words}{beside}; seed {state.seed}. Returns are not discounted.{exact}"
        )
        self._utility.text = utility_words(chosen.utilities)
        self._utility.visible = bool(chosen.utilities)
        self._notes.text = " ".join(chosen.notes)
        self._notes.visible = bool(chosen.notes)
        self._show_table({"Chosen": chosen, "Neutral": neutral} if family.has_dial else {"Neutral": neutral})
        self._histogram.content = draw_returns(chosen, neutral if family.has_dial else None, label=words)
        self.place.classes(remove="stale half")
        self.place.props["data-shows"] = state.rolled()

    def _show_table(self, columns: dict[str, SceneOutcome | None]) -> None:
        known = [outcome for outcome in columns.values() if outcome is not None]
        measures = {name: {} if outcome is None else outcome.measures for name, outcome in columns.items()}
        self._table.content = numbers_table(measures, at_most_one(*known), known[0].exact, self._failure)


class FrontierPanel:
    """The frontier, computed in the background. The computation pauses while a slider moves.

    Points are kept until weights, family or seed change, so moving the dial only pauses the computation. A visitor may
    cancel the computation, and start the computation again with a button.
    """

    def __init__(self, scene: RolloutScene[SceneOutcome], episodes: int, say: Say) -> None:
        self._scene, self._episodes, self._work = scene, episodes, CancelPrevious(say)
        self.frontier: Frontier | None = None
        self._key: tuple[object, ...] = ()  # weights, family and seed of the known points
        self._known: dict[float, Point] = {}
        self._state: State | None = None
        self._turn = 0  # number of the current run, by which late reports of earlier runs are recognised
        self._done = self._cancelled = self._share = False
        self._title = Words("Frontier", "panel-title", "h2")
        self._about = Words(f"Mean return against {scene.failure}s, over the range of the risk dial.", "small soft")
        self._chart = html("chart frontier")
        self._progress = Progress("Progress of the frontier", self._cancel)
        self._compute = button("Compute the frontier", self._again, "quiet compute")
        self._title.visible = self._about.visible = scene.families[0].has_dial
        self._rest(done=True)

    def pause(self) -> None:
        self._turn += 1
        self._work.stop()

    def follow(self, state: State, here: Point, share: bool) -> None:
        """Show the frontier of a state, and compute missing points.

        Args:
            state: The state of the page.
            here: The point of this state, which the chart marks.
            share: Whether to show failures as a rate, in per cent of rollouts.
        """
        key = (state.w, state.family, state.seed)
        if key != self._key:
            self._key, self._known, self._done, self._cancelled, self.frontier = key, {}, False, False, None
        self._state, self._here, self._share = state, here, share
        self._draw()
        if not self._done and not self._cancelled:
            background_tasks.create(self._run(state))

    def _draw(self) -> None:
        if self.frontier is None or not self.frontier.points or self._state is None:
            self._chart.content = ""
            return
        family = self._scene.family(self._state.family)
        named = {"parameter": family.parameter, "failure": self._scene.failure}
        self._chart.content = draw_frontier(
            self.frontier, self._here, neutral=family.neutral, share=self._share, **named
        )

    def _cancel(self) -> None:
        self.pause()
        self._cancelled = True
        self._rest(done=False)

    def _again(self) -> None:
        self._cancelled = False
        if self._state is not None:
            background_tasks.create(self._run(self._state))

    def _rest(self, done: bool) -> None:
        self._progress.end()
        self._compute.visible = not done

    async def _run(self, state: State) -> None:
        self._turn += 1
        mine, known = self._turn, self._known

        def show(share: float, so_far: Frontier) -> None:
            if self._turn == mine:
                self._progress.tell(share)
                self.frontier = so_far
                self._draw()

        reports = Reports(show)
        self._progress.begin()
        self._compute.visible = False
        w, family = np.array(state.w), self._scene.family(state.family)

        def work(stop: Stop) -> Frontier:
            return frontier(self._scene, w, family, state.seed, self._episodes, reports, stop, known)

        found = await self._work.run(work)
        if self._turn != mine:
            return
        self._turn += 1
        self._done, self.frontier = found is not None, found or self.frontier
        self._draw()
        self._rest(done=self._done)
