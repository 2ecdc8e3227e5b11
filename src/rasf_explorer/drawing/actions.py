"""The chart of actions that are vectors: a frame for the action of every policy, with a bar for each entry.

The bottom of a frame is the smallest, the top is the largest value of every entry. A bar begins at the zero line. If 0
is not within the bounds of an entry, the zero line is at the nearest bound. The frame of GPI's choice has a star and a
tint. Policies keep their places while the actions change.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rasf_explorer.drawing.svg import element, number, picture, shown, star, text, tooltip
from rasf_explorer.scenes.scene import Proposals

_WIDTH, _LEFT, _TOP = 440.0, 8.0, 66.0
_HIGH, _HEAD, _GAP = 44.0, 19.0, 8.0  # height of a frame, of the words above it, and the space between frames
_LEAST, _WIDEST = 76.0, 26.0  # smallest width of a frame, because of the words above it; largest width of an entry
_NARROWEST = 7.5  # smallest width of an entry, so that its bar is visible
_POLICIES, _ENTRIES = 40, 56  # numbers of policies and of entries that are drawn


class _Sizes(NamedTuple):
    """The number of entries that are drawn, width of an entry and of a frame, and number of frames in a line."""

    entries: int
    entry: float
    frame: float
    across: int

    @classmethod
    def of(cls, entries: int) -> _Sizes:
        drawn, room = min(entries, _ENTRIES), _WIDTH - 2 * _LEFT
        entry = float(np.clip(_LEAST / drawn, _NARROWEST, _WIDEST))
        frame = max(_LEAST, entry * drawn)
        return cls(drawn, entry, frame, int((room + _GAP) / (frame + _GAP)))


def draw_actions(proposals: Proposals, chosen: int | None, *, id_prefix: str = "actions") -> str:
    """Draw the actions of all policies, at most forty of them.

    Args:
        proposals: The actions, with their bounds.
        chosen: Index of the action that GPI takes; None if nothing was learned in the state, so that none is marked.
        id_prefix: Start of all ids in the picture. Default: "actions".

    Returns:
        The picture, as SVG text.
    """
    count, sizes = len(proposals.actions), _Sizes.of(len(proposals.low))
    policies = list(range(min(count, _POLICIES)))
    if chosen is not None and chosen not in policies:
        policies[-1] = chosen
    body = text("Actions of the policies", _LEFT, 18, class_="strong")
    body += text(_of_entries(proposals, sizes), _LEFT, 37, class_="soft")
    body += text(_of_bounds(proposals, count - len(policies)), _LEFT, 55, class_="soft")
    for place, policy in enumerate(policies):
        row, column = divmod(place, sizes.across)
        x, y = _LEFT + column * (sizes.frame + _GAP), _TOP + row * (_HEAD + _HIGH + _GAP)
        kind, where = "proposal chosen" if policy == chosen else "proposal", f"translate({number(x)} {number(y)})"
        inside = _proposal(proposals, policy, policy == chosen, sizes)
        body += element("g", *inside, class_=kind, data_policy=policy, transform=where)
    said = f"A frame for the action of each policy; policies: {count}."
    if chosen is not None:
        said += f" GPI takes the action of policy {chosen}: {_in_words(proposals, chosen)}."
    return picture(
        _WIDTH,
        _TOP + -(-len(policies) // sizes.across) * (_HEAD + _HIGH + _GAP),
        body,
        kind="chart",
        title="Actions of the policies here",
        description=said,
        id_prefix=id_prefix,
    )


def _proposal(proposals: Proposals, policy: int, chosen: bool, sizes: _Sizes) -> list[str]:
    """Draw the action of one policy in a frame, with the policy's number above it."""
    low, high = proposals.low[: sizes.entries], proposals.high[: sizes.entries]
    ends = np.clip([np.zeros(sizes.entries), proposals.actions[policy][: sizes.entries]], low, high)
    heights = _HEAD + _HIGH * (high - ends) / (high - low)  # of the zero lines and of the other ends of the bars
    parts = [tooltip(f"policy {policy}: {_in_words(proposals, policy)}")]
    if chosen:
        tint = {"x": -3, "y": 0, "width": sizes.frame + 6, "height": _HEAD + _HIGH + 3, "rx": 3}
        parts.append(element("rect", class_="row-wins", **tint))
        parts.append(star(6, 10))
    parts.append(text(f"policy {policy}", 16 if chosen else 0, 14.5, class_="strong" if chosen else "soft"))
    left = (sizes.frame - sizes.entry * sizes.entries) / 2
    for i, (zero, end) in enumerate(heights.T.tolist()):
        x = left + i * sizes.entry
        bar = {"x": x + 0.15 * sizes.entry, "y": min(zero, end), "width": 0.7 * sizes.entry, "height": abs(end - zero)}
        parts.append(element("rect", class_="action-bar", data_entry=i, **bar))
        parts.append(element("path", class_="zero", d=f"M{number(x)} {number(zero)}h{number(sizes.entry)}"))
    frame = {"x": left, "y": _HEAD, "width": sizes.entry * sizes.entries, "height": _HIGH}
    return [*parts, element("rect", class_="frame", **frame)]


def _of_entries(proposals: Proposals, sizes: _Sizes) -> str:
    """Return the meaning of the bars, from left to right, in words."""
    names = proposals.entry_names
    if len(names) > sizes.entries:
        return f"Bars: the first {sizes.entries} of {len(names)} entries"
    return f"Bars: {', '.join(names)}" if len(names) <= 4 else f"Bars: {names[0]} to {names[-1]}"


def _of_bounds(proposals: Proposals, left_out: int) -> str:
    """Return the bounds of the frames in words, and the number of policies without a frame."""
    low, high = proposals.low, proposals.high
    same = (low == low[0]).all() and (high == high[0]).all()
    ends = (
        f"from {shown(float(low[0]))} to {shown(float(high[0]))}"
        if same
        else "from the low to the high bound of an entry"
    )
    return f"Frames reach {ends}, with a line at 0" + (f"; policies not shown: {left_out}" if left_out else "")


def _in_words(proposals: Proposals, policy: int) -> str:
    pairs = list(zip(proposals.entry_names, proposals.actions[policy].tolist(), strict=True))[:_ENTRIES]
    return ", ".join(f"{name} {shown(value)}" for name, value in pairs)
