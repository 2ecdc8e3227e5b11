"""The progress bar of training: share done, steps per second, time left, and returns so far."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from rasf.library.progress import Callback, TrainingProgress

_MUCH_CLIPPED = 0.01  # the bar shows a clipped mass above this share


class _Rate(ProgressColumn):
    """Steps per second."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.0f} steps/s", style="progress.data.speed")


def training_bar(console: Console, transient: bool = False) -> Progress:
    """Return a bar that counts steps, with steps per second and the time left."""
    columns = (BarColumn(bar_width=20), TaskProgressColumn(), _Rate(), TextColumn("left:"), TimeRemainingColumn())
    shown = (SpinnerColumn(), TextColumn("{task.description}", markup=False), *columns)
    return Progress(*shown, console=console, transient=transient)


def in_words(progress: TrainingProgress, policies: int) -> str:
    """Return the text of the bar: the returns of the current policy, and the clipped mass of histograms."""
    known = {name: value for name, value in progress.extras.items() if math.isfinite(value)}
    said = f"policy {progress.policy + 1} of {policies}"
    if "greedy_return" in known:
        failures = f", {known['greedy_failures']:.2g} failures" if "greedy_failures" in known else ""
        random = known.get("random_return", math.nan)
        said += f"; greedy return {known['greedy_return']:.4g}{failures} (random {random:.4g})"
        if "predicted" in known:
            said += f", discounted {known['greedy_discounted']:.4g} (predicted {known['predicted']:.4g})"
    elif "episode_return" in known:
        said += f"; return {known['episode_return']:.4g} per episode"
    clipped = known.get("clipped_below", 0.0) + known.get("clipped_above", 0.0)
    return said + (f"; {clipped:.0%} clipped" if clipped > _MUCH_CLIPPED else "")


@contextmanager
def shown_on_bar(
    callback: Callback | None, progress: bool | None, steps: int, policies: int
) -> Iterator[Callback | None]:
    """Yield a callback that moves a bar on standard error and calls the given callback.

    Args:
        callback: The given callback, or None.
        progress: Whether to show the bar. None shows the bar on a terminal and in a notebook.
        steps: Number of steps of the whole training.
        policies: Number of policies of the whole training.
    """
    console = Console(stderr=True, emoji=False)
    if progress is False or (progress is None and not (console.is_terminal or console.is_jupyter)):
        yield callback
        return
    with training_bar(console, transient=console.is_terminal or console.is_jupyter) as bar:
        task = bar.add_task("compiling", total=steps)

        def shown(seen: TrainingProgress) -> bool | None:
            bar.update(task, completed=round(seen.share * steps), description=in_words(seen, policies))
            return None if callback is None else callback(seen)

        yield shown
