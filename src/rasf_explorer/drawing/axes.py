"""Axes of the charts: round ticks that cover the data, scales, and grid lines."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rasf_explorer.drawing.svg import element, picture, shown, text

SIZE = 12.5  # font size of charts


def round_ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Return evenly spaced round numbers that cover a range.

    Args:
        low: Lower end of the range.
        high: Upper end of the range.
        about: Approximate number of intervals into which the numbers divide the range. Default: 5.

    Returns:
        The numbers; the first is at most `low`, the last at least `high`.

    Raises:
        ValueError: An end is not finite, or `low` is above `high`.
    """
    if not (math.isfinite(low) and math.isfinite(high)) or low > high:
        raise ValueError(f"low and high must be finite and in order, got {low} and {high}")
    if high - low < 1e-9 * max(abs(low), abs(high), 1e-3):
        pad = abs(low) * 0.1 or 1.0
        low, high = low - pad, high + pad
    rough = (high - low) / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(step for step in (power, 2 * power, 2.5 * power, 5 * power, 10 * power) if step >= rough * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [float(f"{place * step:.12g}") for place in range(first, last + 1)]


def finite_range(values: npt.ArrayLike) -> tuple[float, float] | None:
    """Return the smallest and the largest finite value, or None without finite values."""
    every = np.asarray(values, np.float64)
    every = every[np.isfinite(every)]
    return (float(every.min()), float(every.max())) if every.size else None


@dataclass(frozen=True)
class Scale:
    """A linear map from values to coordinates of the viewBox."""

    ticks: Sequence[float]
    start: float  # coordinate of the first tick
    end: float  # coordinate of the last tick

    def __call__(self, value: float) -> float:
        """Return the coordinate of a value, clipped to the axis."""
        first, last = self.ticks[0], self.ticks[-1]
        share = (min(max(value, first), last) - first) / (last - first)
        return self.start + share * (self.end - self.start)


def tick_words(ticks: Sequence[float]) -> list[str]:
    """Return ticks as text. All ticks have as many decimals as the distance between two ticks needs."""
    step = abs(ticks[1] - ticks[0])
    largest = max(abs(ticks[0]), abs(ticks[-1]))
    if largest >= 1e6 or largest < 1e-4:
        return [shown(tick) for tick in ticks]
    decimals = next((count for count in range(8) if round(step, count) == float(f"{step:.9g}")), 8)
    return [f"{tick:.{decimals}f}".replace("-", "−") for tick in ticks]


def x_axis(scale: Scale, y: float, top: float, label: str, middle: float) -> str:
    """Draw an x axis.

    Args:
        scale: The map from values to x coordinates.
        y: y coordinate of the axis, where the grid lines begin.
        top: y coordinate where the grid lines end.
        label: Label below the numbers.
        middle: x coordinate of the label's centre.

    Returns:
        Markup.
    """
    parts = [element("line", class_="axis", x1=scale.start, x2=scale.end, y1=y, y2=y)]
    for tick, word in zip(scale.ticks, tick_words(scale.ticks), strict=True):
        x = scale(tick)
        parts.append(element("line", class_="grid", x1=x, x2=x, y1=top, y2=y))
        parts.append(text(word, x, y + 16, class_="tick soft", text_anchor="middle", data_value=shown(tick, 12)))
    parts.append(text(label, middle, y + 34, text_anchor="middle"))
    return element("g", *parts, class_="x-axis")


def y_axis(scale: Scale, x: float, right: float, label: str, said: Callable[[float], str] | None = None) -> str:
    """Draw a y axis.

    Args:
        scale: The map from values to y coordinates.
        x: Left end of the grid lines. The numbers are left of this end.
        right: Right end of the grid lines.
        label: Label above the axis.
        said: A function that returns a tick as text. Default: the texts of `tick_words`.

    Returns:
        Markup.
    """
    words = tick_words(scale.ticks) if said is None else [said(tick) for tick in scale.ticks]
    parts = []
    for tick, word in zip(scale.ticks, words, strict=True):
        y = scale(tick)
        parts.append(element("line", class_="grid", x1=x, x2=right, y1=y, y2=y))
        parts.append(text(word, x - 7, y + 4, class_="tick soft", text_anchor="end", data_value=shown(tick, 12)))
    parts.append(text(label, 8, scale.end - 13, class_="halo"))
    return element("g", *parts, class_="y-axis")


def empty_chart(width: float, note: str, title: str, id_prefix: str) -> str:
    """Draw a chart without data. The note says why there is no data."""
    body = text(note, width / 2, 60, class_="soft", text_anchor="middle")
    return picture(width, 110, body, kind="chart", title=title, description=note, id_prefix=id_prefix)
