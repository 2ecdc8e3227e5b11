"""The right side of a scene: what acting leads to, beside risk-neutral acting, and the frontier."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nicegui import ui

from rasf.explorer.drawing.charts import draw_frontier, draw_returns
from rasf.explorer.pages.controls import Words, button
from rasf.explorer.pages.words import MEASURES, at_most_one, numbers_table, risk_words, utility_words
from rasf.explorer.scenes.scene import Family, Frontier, Outcome, Point
from rasf.explorer.state import State


class NumbersPanel:
    """Table, histogram, frontier with its progress."""

    def __init__(self, on_frontier: Callable[[], Any], on_cancel: Callable[[], Any]) -> None:
        self.frontier: Frontier | None = None
        self._share = False  # whether failures are a rate
        with (
            ui.element("section")
            .classes("panel numbers-panel")
            .props('aria-label="What acting leads to"') as self._panel
        ):
            Words("Rollouts", "panel-title", "h2")
            self._about = Words("Acting ...", "small soft")
            self._table = ui.html("", sanitize=False).classes("table-place")
            self._utility = Words("", "small soft")
            self._utility.visible = False
            self._histogram = ui.html("", sanitize=False).classes("chart")
            self._frontier_title = Words("Frontier", "panel-title", "h2")
            self._frontier_about = Words("Return against failures, as the dial runs over its range.", "small soft")
            self._chart = ui.html("", sanitize=False).classes("chart frontier")
            with ui.element("div").classes("progress-row") as self._row:
                self._bar = ui.element("progress").props('max=1 value=0 aria-label="Progress of the frontier"')
                button("Cancel", on_cancel, "quiet cancel")
            self._again = button("Compute the frontier", on_frontier, "quiet compute")
            self.rest(done=True)

    def wait(self) -> None:
        """The numbers shown are those of an earlier state."""
        self._panel.classes(add="stale", remove="half")

    def show_chosen(self, chosen: Outcome) -> None:
        """The first half of the numbers, while the neutral risk is rolled out."""
        self._table.content = numbers_table({"Chosen": chosen.measures, "Neutral": {}}, *_names(chosen), chosen.exact)
        self._panel.classes(add="half")

    def show(self, chosen: Outcome, neutral: Outcome, family: Family, state: State, episodes: int) -> None:
        """The numbers of rollouts."""
        words = risk_words(family, state.level)
        self._share = at_most_one(chosen, neutral)
        exact = " Only CVaR and the histogram are of rollouts, the rest is exact." if chosen.exact else ""
        beside = ", beside risk-neutral" if family.has_dial else ""
        self._about.text = (
            f"{episodes} rollouts of GPI each, seed {state.seed}: {words}{beside}. Returns are not discounted.{exact}"
        )
        self._utility.text = utility_words(chosen.utilities)
        self._utility.visible = bool(chosen.utilities)
        columns = {"Chosen": chosen.measures, "Neutral": neutral.measures}
        if not family.has_dial:
            del columns["Chosen"]
        self._frontier_title.visible = self._frontier_about.visible = family.has_dial
        self._table.content = numbers_table(columns, *_names(chosen, neutral), chosen.exact)
        self._histogram.content = draw_returns(chosen, neutral if family.has_dial else None, label=words)
        self._panel.classes(remove="stale half")
        self._panel.props["data-shows"] = state.rolled()

    def show_frontier(self, frontier: Frontier | None, here: Point | None, family: Family) -> None:
        """The points so far."""
        self.frontier = frontier
        if frontier is None or not frontier.points:
            self._chart.content = ""
        else:
            self._chart.content = draw_frontier(
                frontier, here, parameter=family.parameter, neutral=family.neutral, share=self._share
            )

    def progress(self, share: float | None) -> None:
        """The frontier is under way; None where the share done is not known yet."""
        self._row.visible, self._again.visible = True, False
        if share is not None:
            self._bar.props(f"value={share:.3f}")

    def rest(self, done: bool) -> None:
        """The frontier is not under way."""
        self._row.visible, self._again.visible = False, not done
        self._bar.props("value=0")


def _names(*outcomes: Outcome) -> tuple[dict[str, str], bool]:
    """What the measures are called, and whether failures are a rate."""
    share = at_most_one(*outcomes)
    return MEASURES | {"failures": "Failure rate" if share else "Failures a rollout"}, share
