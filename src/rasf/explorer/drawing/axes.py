"""Axes of the charts: round ticks that cover the data, scales, grid lines, and labels that keep clear of each other."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from rasf.explorer.drawing.svg import element, shown, text, text_width

SIZE = 12.5  # of words in charts
_ASCENT, _DESCENT = 0.8, 0.25  # of the size


def round_ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers at equal steps, the first at or below low, the last at or above high."""
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
    """The smallest and the largest finite value, if there is any."""
    every = np.asarray(values, np.float64)
    every = every[np.isfinite(every)]
    return (float(every.min()), float(every.max())) if every.size else None


@dataclass(frozen=True)
class Scale:
    """A map from values to the viewBox."""

    ticks: Sequence[float]
    start: float  # where the first tick lies
    end: float

    def __call__(self, value: float) -> float:
        """The place of a value, kept within the axis."""
        first, last = self.ticks[0], self.ticks[-1]
        share = (min(max(value, first), last) - first) / (last - first)
        return self.start + share * (self.end - self.start)


def tick_words(ticks: Sequence[float]) -> list[str]:
    """The ticks' numbers, all with as many decimals as their distance needs."""
    step = abs(ticks[1] - ticks[0])
    largest = max(abs(ticks[0]), abs(ticks[-1]))
    if largest >= 1e6 or largest < 1e-4:
        return [shown(tick) for tick in ticks]
    decimals = next((count for count in range(8) if round(step, count) == float(f"{step:.9g}")), 8)
    return [f"{tick:.{decimals}f}".replace("-", "−") for tick in ticks]


def x_axis(scale: Scale, y: float, top: float, label: str, middle: float) -> str:
    """Numbers below, thin lines through the chart, the label in words."""
    words = tick_words(scale.ticks)
    parts = [element("line", class_="axis", x1=scale.start, x2=scale.end, y1=y, y2=y)]
    for tick, word in zip(scale.ticks, words, strict=True):
        x = scale(tick)
        parts.append(element("line", class_="grid", x1=x, x2=x, y1=top, y2=y))
        parts.append(text(word, x, y + 16, class_="tick soft", text_anchor="middle", data_value=shown(tick, 12)))
    parts.append(text(label, middle, y + 34, text_anchor="middle"))
    return element("g", *parts, class_="x-axis")


def y_axis(scale: Scale, x: float, right: float, label: str, said: Callable[[float], str] | None = None) -> str:
    """Numbers at the left, thin lines through the chart, the label above."""
    words = tick_words(scale.ticks) if said is None else [said(tick) for tick in scale.ticks]
    parts = []
    for tick, word in zip(scale.ticks, words, strict=True):
        y = scale(tick)
        parts.append(element("line", class_="grid", x1=x, x2=right, y1=y, y2=y))
        parts.append(text(word, x - 7, y + 4, class_="tick soft", text_anchor="end", data_value=shown(tick, 12)))
    parts.append(text(label, 8, scale.end - 13, class_="halo"))
    return element("g", *parts, class_="y-axis")


Box = tuple[float, float, float, float]  # left, top, right, bottom


def _distance(x: float, y: float, box: Box) -> float:
    """From a point to a box."""
    return math.hypot(max(box[0] - x, 0.0, x - box[2]), max(box[1] - y, 0.0, y - box[3]))


@dataclass
class Labels:
    """Words beside points, each at the first of eight places around its point that is free, or the nearest one."""

    within: Box
    taken: list[Box] = field(default_factory=list)

    def keep_free(self, x: float, y: float, radius: float) -> None:
        """No words here."""
        self.taken.append((x - radius, y - radius, x + radius, y + radius))

    def keep_line_free(self, here: tuple[float, float], there: tuple[float, float]) -> None:
        """No words on this line."""
        far = math.dist(here, there)
        for share in np.linspace(0.0, 1.0, int(far // 6) + 2):
            x, y = here[0] + share * (there[0] - here[0]), here[1] + share * (there[1] - here[1])
            self.keep_free(float(x), float(y), 2)

    def put(self, words: str, x: float, y: float, away: float = 10.0, **attributes: str) -> str:
        """The words near the point, with a thin line to it where they had to go further."""
        bold = 1.12 if "strong" in attributes.get("class_", "") else 1.0
        wide = bold * text_width(words, SIZE) + 4
        for reach in (away, 2.2 * away, 3.8 * away, 5.6 * away):
            for box in self._around(x, y, wide, reach):
                if self._free(box):
                    return self._put(words, x, y, box, reach > away, attributes)
        anywhere = sorted(self._everywhere(wide), key=lambda box: _distance(x, y, box))
        near = next((box for box in anywhere if self._free(box)), None)
        return self._put(words, x, y, near or self._inside(x, y, wide, away), near is not None, attributes)

    def _around(self, x: float, y: float, wide: float, reach: float) -> Iterable[Box]:
        high = SIZE * (_ASCENT + _DESCENT)
        for dx, dy in ((1, 0), (-1, 0), (0, -1), (0, 1), (1, -1), (-1, -1), (1, 1), (-1, 1)):
            left = x + reach if dx > 0 else x - reach - wide if dx < 0 else x - wide / 2
            top = y - high / 2 + dy * (reach + high / 2)
            yield left, top, left + wide, top + high

    def _everywhere(self, wide: float) -> Iterable[Box]:
        left, top, right, bottom = self.within
        high = SIZE * (_ASCENT + _DESCENT)
        for up in np.arange(top, bottom - high, 4.0).tolist():
            for at in np.arange(left, right - wide, 8.0).tolist():
                yield at, up, at + wide, up + high

    def _inside(self, x: float, y: float, wide: float, reach: float) -> Box:
        left, top, right, bottom = self.within
        high = SIZE * (_ASCENT + _DESCENT)
        at = max(min(x + reach, right - wide), left)
        up = max(min(y - high / 2, bottom - high), top)
        return at, up, at + wide, up + high

    def _free(self, box: Box) -> bool:
        left, top, right, bottom = self.within
        inside = box[0] >= left and box[1] >= top and box[2] <= right and box[3] <= bottom
        return inside and all(
            box[2] <= other[0] or box[0] >= other[2] or box[3] <= other[1] or box[1] >= other[3] for other in self.taken
        )

    def _put(self, words: str, x: float, y: float, box: Box, line: bool, attributes: dict[str, str]) -> str:
        self.taken.append(box)
        near = min(max(x, box[0]), box[2]), min(max(y, box[1]), box[3])
        leader = element("line", class_="leader", x1=x, y1=y, x2=near[0], y2=near[1]) if line else ""
        return leader + text(words, box[0], box[1] + SIZE * _ASCENT, **attributes)
