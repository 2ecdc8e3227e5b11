"""The view of any library: what is in it, what it thinks at the beginning, and what acting with it leads to."""

from __future__ import annotations

from dataclasses import dataclass, replace
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from nicegui import background_tasks, ui
from nicegui.events import GenericEventArguments

from rasf.explorer.drawing.charts import draw_returns, draw_scores, scores_rows
from rasf.explorer.exports import Sheet, numbers_csv
from rasf.explorer.jobs import CancelPrevious, Coalesce, Reports
from rasf.explorer.pages.controls import Words, button
from rasf.explorer.pages.scene import PageContext
from rasf.explorer.pages.task_panel import TaskPanel
from rasf.explorer.pages.words import facts_list, numbers_table, risk_words, scores_table
from rasf.explorer.scenes.scene import Family, Outcome, Scores, Stop
from rasf.explorer.state import State
from rasf.library.evaluation import Comparison, Report

if TYPE_CHECKING:
    from rasf.explorer.scenes.library import LibraryScene

_NAMES = {
    "return": "Mean return",
    "return variance": "Variance",
    "return CVaR": "CVaR, worst tenth",
    "discounted": "Discounted return",
    "failures": "Failures an episode",
    "length": "Steps",
}
_LEAST, _MOST = 2, 100_000  # episodes


@dataclass(frozen=True)
class _Evaluated:
    """What an evaluation found, and of what."""

    state: State
    family: Family
    episodes: int
    reports: tuple[Report, ...]  # of the chosen risk, then of the neutral one; of one risk where there is no dial


class LibraryPage:
    """Builds itself into the present slot; `close` ends its work."""

    def __init__(self, scene: LibraryScene, state: State, desk: PageContext, provenance: dict[str, str]) -> None:
        self.scene, self.state, self.desk, self.provenance = scene, state, desk, provenance
        self.svg: str | None = None
        self._at_first: Scores | None = None
        self._found: _Evaluated | None = None
        self._episodes, self._evaluations = 100, 0
        self._actions = tuple(f"action {i}" for i in range(scene.library.environment["n_actions"]))
        self._scoring, self._evaluating, self._open = Coalesce(desk.say), CancelPrevious(desk.say), True
        self._build()
        desk.remember(state)
        background_tasks.create(self._score())

    @property
    def _family(self) -> Family:
        return next(family for family in self.scene.families if family.name == self.state.family)

    def _build(self) -> None:
        with ui.element("div").classes("intro"):
            Words(self.scene.title, "", "h1")
            Words(self.scene.about, "soft")
        with ui.element("div").classes("columns"):
            self._task = TaskPanel(self.scene, self.state, self.change)
            with ui.element("section").classes("panel picture-panel").props('aria-label="Scores"'):
                Words("Scores at the first observation", "panel-title", "h2")
                self._driver = Words("", "soft")
                self.picture = ui.html("", sanitize=False).classes("chart")
                self._rows = (
                    ui.html("", sanitize=False)
                    .classes("table-place scroll")
                    .props('tabindex=0 role=region aria-label="Table of scores"')
                )
            with ui.element("section").classes("panel numbers-panel").props('aria-label="Evaluation"') as self._panel:
                self._build_evaluation()
        with ui.element("div").classes("two wide"):
            with ui.element("section").classes("panel").props('aria-label="The library"'):
                Words("The library", "panel-title", "h2")
                ui.html(facts_list(self.scene.facts()), sanitize=False)
            with ui.element("section").classes("panel").props('aria-label="Source policies"'):
                Words("Source policies", "panel-title", "h2")
                rows = "".join(
                    f"<tr><td class=right>{i}</td><td>{escape(words)}</td></tr>"
                    for i, words in enumerate(self.scene.policies)
                )
                head = "<tr><th scope=col>Policy</th><th scope=col>Trained for</th></tr>"
                table = f'<table class="scores words"><thead>{head}</thead><tbody>{rows}</tbody></table>'
                place = ui.html(table, sanitize=False).classes("table-place scroll tall")
                place.props('tabindex=0 role=region aria-label="Table of source policies"')

    def _build_evaluation(self) -> None:
        Words("Evaluation", "panel-title", "h2")
        reason = self.scene.can_run()
        if reason is not None:
            Words(reason, "soft")
            return
        with ui.element("div").classes("open-row"):
            Words("Episodes", "", "label").props("for=episodes")
            number = (
                ui.element("input").classes("number").props(f"type=number id=episodes min={_LEAST} max={_MOST} step=1")
            )
            number.props["defaultValue"] = self._episodes  # a value would be put back while a person types
            number.on("input", self._episodes_set, js_handler="(e) => emit(e.target.value)")
            self._go = button("Evaluate", self.evaluate, "evaluate")
        with ui.element("div").classes("progress-row") as self._row:
            self._bar = ui.element("progress").props('max=1 value=0 aria-label="Progress of the evaluation"')
            button("Cancel", self.cancel, "quiet cancel")
        self._row.visible = False
        self._about = Words("", "small soft evaluated")
        self._table = ui.html("", sanitize=False).classes("table-place")
        self._histogram = ui.html("", sanitize=False).classes("chart")

    def change(self, **changes: Any) -> None:
        """Something was set."""
        before, self.state = self.state, replace(self.state, **changes)
        self._task.show(self.state)
        if self.state.rolled() != before.rolled() and self.scene.can_run() is None:
            self.cancel()
            self._say_of_what()
        self.desk.remember(self.state)
        background_tasks.create(self._score())

    def _scores(self, state: State, family: Family) -> tuple[Scores, str, str]:
        scores = self.scene.first_scores(np.array(state.w), family.make(state.level), state.seed)
        label = risk_words(family, state.level)
        picture = draw_scores(scores, self.scene.policies, self._actions, families_label=label)
        return scores, picture, scores_table(scores_rows(scores, self.scene.policies, self._actions))

    async def _score(self) -> None:
        if self.scene.can_run() is not None:
            self._driver.text = "Without the environment there is no first observation to score."
            return
        found = await self._scoring.run(self._scores, self.state, self._family)
        if found is None or not self._open:
            return
        scores, self.svg, table = found
        self._at_first = scores
        self._driver.text = (
            f"Policy {scores.driver} drives: {self._actions[scores.action]}."
            if scores.seen
            else "No policy has met this observation."
        )
        self.picture.content, self._rows.content = self.svg, table
        self.desk.announce(self._driver.text)

    def _episodes_set(self, event: GenericEventArguments) -> None:
        text = str(event.args)
        self._episodes = int(text) if text.isascii() and text.isdigit() and len(text) < 9 else -1

    def evaluate(self) -> None:
        """Act for some episodes."""
        if not _LEAST <= self._episodes <= _MOST:
            self.desk.say(f"Episodes must be a whole number from {_LEAST} to {_MOST}.")
            return
        background_tasks.create(self._evaluate(self.state, self._family, self._episodes))

    def cancel(self) -> None:
        """Give the evaluation up."""
        self._evaluating.stop()
        self._rest()

    @property
    def _fits(self) -> bool:
        """Whether the numbers shown are of the present task and risk."""
        return self._found is not None and self._found.state.rolled() == self.state.rolled()

    def _say_of_what(self) -> None:
        found = self._found
        if found is None:
            return
        said = f"Evaluated at {risk_words(found.family, found.state.level)}, {found.episodes} episodes"
        other = ", with other weights" if found.state.w != self.state.w else ""
        self._about.text = f"{said}." if self._fits else f"{said}{other}: not what is set now."
        self._panel.classes(**{"remove" if self._fits else "add": "stale"})

    def _rest(self) -> None:
        self._row.visible, self._go.visible = False, True

    async def _evaluate(self, state: State, family: Family, episodes: int) -> None:
        def show(share: float) -> None:
            if self._open:
                self._bar.props(f"value={share:.3f}")

        self._evaluations += 1
        mine, reports = self._evaluations, Reports(show)
        self._row.visible, self._go.visible = True, False
        show(0.0)

        def work(stop: Stop) -> Comparison:
            risks = {"Chosen": family.make(state.level), "Neutral": family.make(family.neutral)}
            if not family.has_dial:
                del risks["Chosen"]
            return self.scene.evaluate(np.array(state.w), risks, episodes, state.seed, reports, stop)

        found = await self._evaluating.run(work)
        if not self._open:
            return
        if self._evaluations == mine:
            self._rest()
        if found is None:
            return
        self._found = _Evaluated(state, family, episodes, tuple(found.reports.values()))
        self._say_of_what()
        columns = {name: report.measures for name, report in found.reports.items()}
        names = {key: words for key, words in _NAMES.items() if any(key in found for found in columns.values())}
        self._table.content = numbers_table(columns, names, share=False)
        chosen, *neutral = map(_outcome, self._found.reports)
        label = risk_words(family, state.level)
        self._histogram.content = draw_returns(chosen, neutral[0] if neutral else None, label=label)
        self.desk.announce(f"Evaluated {episodes} episodes: mean return {chosen.measures['return']}.")

    def csv(self) -> str:
        """The numbers as a file."""
        rows = [] if self._at_first is None else scores_rows(self._at_first, self.scene.policies, self._actions)
        names = tuple(weight.name for weight in self.scene.weights)
        sheet = Sheet(self.provenance, self.state, names, scores=rows)
        if self._found is not None and self._fits:
            provenance = self.provenance | {"episodes": str(self._found.episodes)}
            chosen, *neutral = (report.measures for report in self._found.reports)
            sheet = replace(sheet, provenance=provenance, chosen=chosen, neutral=neutral[0] if neutral else {})
        return numbers_csv(sheet)

    def close(self) -> None:
        """End all work."""
        self._open = False
        self._scoring.close()
        self._evaluating.stop()


def _outcome(report: Report) -> Outcome:
    failures = np.zeros(report.episodes) if report.failures is None else report.failures
    measures = {"return": report.measures["return"], "cvar": report.measures["return CVaR"]}
    return Outcome(report.returns, failures, report.lengths, measures)
