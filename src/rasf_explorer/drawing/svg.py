"""Building blocks of pictures: escaped SVG elements, short numbers, legends, and the outer element.

A picture is one string, an SVG document that can also be embedded in a page. The functions escape untrusted text (names
of policies, labels). A picture contains its style sheet (`palette`), a title and a description in words. So a picture
is complete in a file, in a page, and for a screen reader.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from xml.sax.saxutils import escape, quoteattr

import numpy as np

from rasf_explorer.drawing import palette

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_PREFIX = re.compile("[A-Za-z][A-Za-z0-9_-]*")
_NARROW, _WIDE = set("fijlrtI.,:;!|'()[] -"), set("mwMW%@")

SIZE = 13  # font size outside charts
Attribute = str | float | int | None


@lru_cache(maxsize=4096)  # a picture is redrawn at every move of a slider, with nearly the same numbers
def number(value: float) -> str:
    """Return a coordinate as text with at most two decimals."""
    short = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if short in ("-0", "") else short


def shown(value: float, digits: int = 3) -> str:
    """Return a quantity as text with `digits` digits. Negative numbers begin with "−", infinity is ∞, nan is a dash."""
    if np.isnan(value):
        return "–"
    if np.isinf(value):
        return "∞" if value > 0 else "−∞"
    rounded = f"{value:.{digits}g}"
    if "e" in rounded and 1e-4 <= abs(value) < 1e6:
        rounded = f"{float(rounded):.0f}"
    return "0" if float(rounded) == 0 else rounded.replace("-", "−")


def counted(number_of: int, thing: str) -> str:
    """Return a number with its noun: 1 cell, 2 cells."""
    return f"{number_of} {thing}" if number_of == 1 else f"{number_of} {thing}s"


def element(name: str, *children: str, **attributes: Attribute) -> str:
    """Return an element with its attributes.

    Args:
        name: The tag.
        *children: Markup inside.
        **attributes: Attributes. `class_` and `font_size` become class and font-size. None omits an attribute.

    Returns:
        Markup.
    """
    given = "".join(
        [
            f" {_written(key)}={_quoted(value)}" if isinstance(value, str) else f' {_written(key)}="{number(value)}"'
            for key, value in attributes.items()
            if value is not None
        ]
    )
    inside = "".join(children)
    return f"<{name}{given}>{inside}</{name}>" if inside else f"<{name}{given}/>"


def edged(name: str, kind: str, **attributes: Attribute) -> str:
    """Return an element of class `kind` on top of an equal element of class `kind-edge`, which gives it an outline."""
    return element(name, class_=f"{kind}-edge", **attributes) + element(name, class_=kind, **attributes)


def hatch(id: str, size: int, marks: str) -> str:
    """Return markup that defines a pattern: a tile of `size` by `size` units, with `marks`, that is repeated."""
    return element("defs", element("pattern", marks, id=id, width=size, height=size, patternUnits="userSpaceOnUse"))


def text(words: str, x: float, y: float, **attributes: Attribute) -> str:
    """Return a text element with escaped words."""
    return element("text", escape(_clean(words)), x=x, y=y, **attributes)


def tooltip(words: str) -> str:
    """Return a tooltip with escaped words, to be put inside the element that it explains."""
    return element("title", escape(_clean(words)))


def points(places: Iterable[tuple[float, float]]) -> str:
    """Return coordinates as text for polylines and polygons."""
    return " ".join(f"{number(x)},{number(y)}" for x, y in places)


def star(x: float, y: float) -> str:
    """Return a star with its centre at a place. It marks GPI's choice."""
    radii = (6.5, 2.7) * 5
    corners = [
        (x + radius * math.sin(math.pi * tip / 5), y - radius * math.cos(math.pi * tip / 5))
        for tip, radius in enumerate(radii)
    ]
    return element("polygon", class_="star", points=points(corners))


def text_width(words: str, size: float) -> float:
    """Return an estimate of the width of words. It is rather too large, because fonts differ."""
    narrow = sum(letter in _NARROW for letter in words)
    wide = sum(letter in _WIDE for letter in words)
    return size * (0.6 * len(words) - 0.2 * narrow + 0.3 * wide)


def shorten(words: str, size: float, room: float) -> str:
    """Return words that fit the width `room`. Middle words are left out, because names differ at both ends."""
    if text_width(words, size) <= room:
        return words
    every = words.split(" ")
    head, tail, said = 1, 1, ""
    for turn in range(len(every)):  # add words at the start and at the end, in turn
        ends = (head, tail) if turn == 0 else (head + 1, tail) if turn % 2 else (head, tail + 1)
        longer = " ".join(every[: ends[0]]).rstrip(",;:") + " … " + " ".join(every[len(every) - ends[1] :])
        if sum(ends) < len(every) and text_width(longer, size) <= room:
            (head, tail), said = ends, longer
    if said:
        return said
    kept = words
    while kept and text_width(kept + "…", size) > room:
        kept = kept[:-1]
    return kept.rstrip(" ,;:") + "…"


def legend_lines(items: Iterable[tuple[str, str]], left: float, y: float, width: float) -> tuple[str, float]:
    """Return a legend that is arranged in lines.

    Args:
        items: Marks, each with its words.
        left: Left end of the lines.
        y: y coordinate of the middle of the first line.
        width: Width of a line.

    Returns:
        Markup, and the y coordinate of the middle of the last line.
    """
    parts, x = [], left
    for mark, words in items:
        needed = 26 + text_width(words, SIZE) + 14
        if x > left and x + needed - 14 > left + width:
            x, y = left, y + 23
        said = text(shorten(words, SIZE, width - 26), 16, 4.5)
        parts.append(element("g", mark, said, transform=f"translate({number(x + 9)} {number(y)})"))
        x += needed
    return "".join(parts), y


def heat_legend(title: str, ticks: Sequence[tuple[float, str]], left: float, y: float, width: float) -> str:
    """Return a title and, below it, the scale of heat. Each tick has a position on the scale, in [0, 1], and words."""
    wide = width / palette.HEAT
    parts = [text(title, left, y, class_="strong")]
    for step in range(palette.HEAT):
        x, fill = left + step * wide, palette.heat_colour(step)
        parts.append(element("rect", x=x, y=y + 9, width=wide, height=14, fill=fill))
    parts.append(element("rect", class_="frame", x=left, y=y + 9, width=width, height=14))
    for share, words in ticks:
        anchor = "start" if share == 0 else "end" if share == 1 else "middle"
        parts.append(text(words, left + share * width, y + 38, class_="soft tick", text_anchor=anchor))
    return "".join(parts)


def picture(width: float, height: float, body: str, *, kind: str, title: str, description: str, id_prefix: str) -> str:
    """Return an SVG document.

    Args:
        width: Width of the viewBox.
        height: Height of the viewBox.
        body: The markup inside.
        kind: A CSS class of the document, in addition to the class `rasf`.
        title: The title.
        description: The picture in words, for screen readers.
        id_prefix: Start of the ids, unique among the pictures of a page.

    Returns:
        The document.

    Raises:
        ValueError: `id_prefix` cannot begin an id.
    """
    if not _PREFIX.fullmatch(id_prefix):
        raise ValueError(f"id_prefix must be a letter, then letters, digits, - or _, got {id_prefix!r}")
    return element(
        "svg",
        element("title", escape(_clean(title)), id=f"{id_prefix}-title"),
        element("desc", escape(_clean(description)), id=f"{id_prefix}-desc"),
        element("style", palette.STYLE),
        element("rect", class_="paper", width=width, height=height),
        body,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {number(width)} {number(height)}",
        width="100%",
        role="img",
        class_=f"rasf {kind}",
        aria_labelledby=f"{id_prefix}-title {id_prefix}-desc",
    )


@lru_cache(maxsize=256)
def _written(key: str) -> str:
    return key.rstrip("_").replace("_", "-")


@lru_cache(maxsize=4096)
def _quoted(value: str) -> str:
    return quoteattr(_clean(value))


def _clean(words: str) -> str:
    return _NOT_XML.sub("\ufffd", words)
