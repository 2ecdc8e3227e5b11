"""The page of any library: its contents, scores at the first observation, and an evaluation on demand."""

from __future__ import annotations

from dataclasses import replace
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from nicegui import background_tasks, ui
from nicegui.events import GenericEventArguments

from rasf.library.evaluation import Comparison, Report
from rasf_explorer.drawing.returns import draw_returns
from rasf_explorer.jobs import CancelPrevious, Reports
from rasf_explorer.pages.controls import Progress, Words, button, html, panel
from rasf_explorer.pages.numbers import Sheet, facts_list, numbers_table
from rasf_explorer.pages.page import DrawnScores, Page, PageContext
from rasf_explorer.pages.panels import TaskPanel
from rasf_explorer.scenes.scene import SceneOutcome, SceneScores, Stop
from rasf_explorer.state import State

if TYPE_CHECKING:
    from rasf_explorer.scenes.library import LibraryScene

_LEAST, _MOST = 2, 100_000  # smallest and largest number of episodes of an evaluation


class LibraryPage(Page):
    """The generic page of a library."""

    scene: LibraryScene

    def __init__(self, scene: LibraryScene, state: State, context: PageContext) -> None:
        super().__init__(scene, state, context)
        # the evaluated state, and the reports for the chosen and the neutral risk, or for the neutral risk alone
        self._found: tuple[State, tuple[Report, ...]] | None = None
        self._episodes, self._evaluations = 100, 0
        self.actions = self.brief = tuple(f"action {i}" for i in range(scene.library.sources.n_actions))
        self._evaluating = CancelPrevious(context.say)
        self._build()
        context.remember(state)
        background_tasks.create(self._score())

    def _build(self) -> None:
        self.build_intro()
        with ui.element("div").classes("columns"):
            TaskPanel(self.scene, self.state, self.change)
            with panel("Scores", "picture-panel"):
                Words("Scores at the first observation", "panel-title", "h2")
                self._driver = Words("", "soft")
                self.picture = self._chart = html("chart")
                self._actions = html("chart actions")
                self._rows = html("table-place scroll", "Table of scores")
            with panel("Evaluation", "numbers-panel") as self._panel:
                self._build_evaluation()
        with ui.element("div").classes("two wide"):
            with panel("The library"):
                Words("The library", "panel-title", "h2")
                html("").content = facts_list(self.scene.facts())
            with panel("Source policies"):
                Words("Source policies", "panel-title", "h2")
                rows = "".join(
                    f"<tr><td class=right>{i}</td><td>{escape(words)}</td></tr>"
                    for i, words in enumerate(self.scene.policies)
                )
                head = "<tr><th scope=col>Policy</th><th scope=col>Trained for</th></tr>"
                table = f'<table class="scores words"><thead>{head}</thead><tbody>{rows}</tbody></table>'
                html("table-place scroll tall", "Table of source policies").content = table

    def _build_evaluation(self) -> None:
        Words("Evaluation", "panel-title", "h2")
        reason = self.scene.can_run()
        if reason is not None:
            Words(reason, "soft")
            return
        with ui.element("div").classes("open-row"):
            Words("Episodes", "", "label").props("for=episodes")
            number = ui.element("input").classes("number")
            number.props(f"type=number id=episodes min={_LEAST} max={_MOST} step=1")
            number.props["defaultValue"] = self._episodes  # a `value` would reset the field while a user types
            number.on("input", self._episodes_set, js_handler="(e) => emit(e.target.value)")
            self._go = button("Evaluate", self._evaluate_pressed, "evaluate")
        self._progress = Progress("Progress of the evaluation", self._cancel)
        self._progress.end()
        self._about = Words("", "small soft evaluated")
        self._table = html("table-place")
        self._notes, self._histogram = Words("", "small soft notes"), html("chart")

    def change(self, **changes: Any) -> None:
        before, self.state = self.state, replace(self.state, **changes)
        if self.state.rolled() != before.rolled() and self.scene.can_run() is None:
            self._cancel()
            self._show_evaluated()
        self.context.remember(self.state)
        background_tasks.create(self._score())

    # scores at the first observation

    def _scored(self, state: State) -> tuple[SceneScores, DrawnScores]:
        scores = self.scene.first_scores(np.array(state.w), self.risk_of(state), state.seed, state.ways)
        return scores, self.draw_scores(scores, state)

    async def _score(self) -> None:
        if self.scene.can_run() is not None:
            self._driver.text = "Without the environment there is no first observation to score."
            return
        found = await self._scorings.run(self._scored, self.state)
        if found is None or not self._open:
            return
        self.scores, (self.svg, self._rows.content, self._actions.content) = found
        self._chart.content = self.svg
        self._driver.text = self.who() if self.scores.seen else "No policy has seen this observation."
        self.context.announce(self._driver.text)

    # evaluation

    def _episodes_set(self, event: GenericEventArguments) -> None:
        text = str(event.args)
        self._episodes = int(text) if text.isascii() and text.isdigit() and len(text) < 9 else -1

    def _evaluate_pressed(self) -> None:
        if not _LEAST <= self._episodes <= _MOST:
            self.context.say(f"Episodes must be a whole number from {_LEAST} to {_MOST}.")
            return
        background_tasks.create(self._evaluate(self.state, self._episodes))

    def _cancel(self) -> None:
        self._evaluating.stop()
        self._rest()

    def _rest(self) -> None:
        self._progress.end()
        self._go.visible = True

    @property
    def _fits(self) -> bool:
        """Whether the shown numbers belong to the current settings."""
        return self._found is not None and self._found[0].rolled() == self.state.rolled()

    def _show_evaluated(self) -> None:
        if self._found is None:
            return
        state, (report, *_) = self._found
        said = f"Evaluated at {self.risk_words(state)}, {report.episodes} episodes"
        other = ", with other weights" if state.w != self.state.w else ""
        self._about.text = f"{said}." if self._fits else f"{said}{other}. The settings have changed since then."
        self._panel.classes(**{"remove" if self._fits else "add": "stale"})

    async def _evaluate(self, state: State, episodes: int) -> None:
        def show(share: float) -> None:
            if self._open:
                self._progress.tell(share)

        self._evaluations += 1
        mine, reports = self._evaluations, Reports(show)
        self._go.visible = False
        self._progress.begin()
        family = self.scene.family(state.family)
        risks = {"Chosen": family.make(state.level)} if family.has_dial else {}
        risks["Neutral"] = family.make(family.neutral)

        def work(stop: Stop) -> Comparison:
            return self.scene.evaluate(np.array(state.w), risks, episodes, state.seed, reports, stop, state.ways)

        found = await self._evaluating.run(work)
        if not self._open:
            return
        if self._evaluations == mine:
            self._rest()
        if found is None:
            return
        self._found = state, tuple(found.reports.values())
        self._show_evaluated()
        columns = {name: report.measures for name, report in found.reports.items()}
        self._table.content = numbers_table(columns, share=False)
        chosen, *neutral = map(_outcome, self._found[1])
        words = self.risk_words(state)
        self._histogram.content = draw_returns(chosen, neutral[0] if neutral else None, label=words)
        self._notes.text = " ".join(chosen.notes)
        self.context.announce(f"Evaluated {episodes} episodes: mean return {chosen.measures['return']}.")

    def complete(self, sheet: Sheet) -> Sheet:
        if self._found is None or not self._fits:
            return sheet
        chosen, *neutral = self._found[1]
        provenance, other = (
            {**sheet.provenance, "episodes": str(chosen.episodes)},
            neutral[0].measures if neutral else {},
        )
        return replace(sheet, provenance=provenance, chosen=chosen.measures, neutral=other)

    def close(self) -> None:
        super().close()
        self._evaluating.stop()


def _outcome(report: Report) -> SceneOutcome:
    failures = np.zeros(report.episodes) if report.failures is None else report.failures
    bounds = () if report.bounds is None else (f"Bounds: {report.bounds.sentence()}.",)
    notes = (*bounds, *(f"{remark}." for remark in report.remarks()))
    return SceneOutcome(report.returns, failures, report.lengths, report.measures, notes=notes)
