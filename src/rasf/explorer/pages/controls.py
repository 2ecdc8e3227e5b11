"""The page's own pieces: a slider with its number, one choice of a few, the player, buttons and words.

Native inputs in small Vue components, so that labels, keys and focus are the browser's own. A piece keeps its value
while a person moves it; only `set` overrides it, so an answer that comes late never pulls a slider back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nicegui.element import Element
from nicegui.elements.mixins.text_element import TextElement
from nicegui.events import GenericEventArguments

_OFTEN = 0.03  # seconds between two values of a slider that moves


class Words(TextElement):
    """Text in an element, escaped by the browser."""

    def __init__(self, words: str, classes: str = "", tag: str = "p") -> None:
        super().__init__(tag=tag, text=words)
        self.classes(classes)


def button(words: str, do: Callable[[], Any], classes: str = "", hint: str = "") -> Words:
    """A button."""
    made = Words(words, f"button {classes}", "button").on("click", lambda _: do())
    made.props["type"] = "button"
    if hint:
        made.props["title"] = hint
    return made


class _Settable(Element):
    """A piece with a value that the server may override."""

    def set(self, value: Any) -> None:
        """Show another value."""
        self.props["value"] = value
        self.props["stamp"] += 1
        self.update()

    def _begin(self, value: Any, on_pick: Callable[[Any], Any], throttle: float = 0.0) -> None:
        self.props["value"] = value
        self.props["stamp"] = 0

        def picked(event: GenericEventArguments) -> Any:
            return on_pick(event.args)

        self.on("pick", picked, throttle=throttle)


class SliderField(_Settable, component="static/slider_field.js"):
    """A slider with a number beside it; `neutral` marks a place on it, `ends` writes words below it."""

    def __init__(
        self,
        label: str,
        value: float,
        low: float,
        high: float,
        step: float,
        on_pick: Callable[[float], Any],
        *,
        neutral: float | None = None,
        ends: Sequence[tuple[float, str]] | None = None,
        parameter: str = "",
    ) -> None:
        super().__init__()
        self.props.update(label=label, low=low, high=high, step=step, parameter=parameter)
        if neutral is not None:
            self.props["neutral"] = neutral
        if ends is not None:
            self.props["ends"] = [list(end) for end in ends]
        self._begin(value, lambda picked: on_pick(float(picked)), _OFTEN)


class ChoiceField(_Settable, component="static/choice_field.js"):
    """One choice of a few; options are values and their words. A `theme` is set by the browser alone."""

    def __init__(
        self,
        label: str,
        options: dict[str, str],
        value: str,
        on_pick: Callable[[str], Any],
        *,
        hide_label: bool = False,
        theme: bool = False,
    ) -> None:
        super().__init__()
        self.props.update({"label": label, "hide-label": hide_label, "theme": theme})
        self.props["options"] = [list(option) for option in options.items()]
        self._begin(value, lambda picked: on_pick(str(picked)) if picked in options else None)


class Picture(Element, component="static/picture.js"):
    """An SVG that changes in place."""

    def __init__(self, classes: str) -> None:
        super().__init__()
        self.props["svg"] = ""
        self.classes(f"picture {classes}")

    def show(self, svg: str, shows: str) -> None:
        """Another drawing; `shows` says of what, as the link does."""
        self.props.update({"svg": svg, "data-shows": shows})
        self.update()


class Playback(Element, component="static/playback.js"):
    """The player of rollouts; it moves the picture's agent or arm in the browser."""

    def __init__(
        self,
        picture: Element,
        rate: float,
        on_scrub: Callable[[int, int], Any],
        on_rollout: Callable[[int], Any],
        on_play: Callable[[], Any],
        origin: tuple[float, float] = (0.0, 0.0),
    ) -> None:
        super().__init__()
        self.props.update(picture=picture.html_id, rate=rate, origin=list(origin), frames=[], contexts=None)
        self.props.update(rollouts=0, rollout=0, at=0, stamp=0)

        def scrubbed(event: GenericEventArguments) -> Any:
            return on_scrub(int(event.args["step"]), int(event.args["context"]))

        self.on("scrub", scrubbed, throttle=0.05)
        self.on("rollout", lambda event: on_rollout(int(event.args)))
        self.on("play", lambda _: on_play())

    def load(self, frames: list[list[float]], contexts: list[int] | None, rollouts: int, rollout: int, at: int) -> None:
        """Take another rollout, at one of its steps."""
        self.props.update(frames=frames, contexts=contexts, rollouts=rollouts, rollout=rollout, at=at)
        self.props["stamp"] += 1
        self.update()
