"""The page's own pieces: a slider with its number, one choice of a few, the player, buttons and words.

Native inputs in small Vue components, so that labels, keys and focus are the browser's own. A piece keeps its value
while a person moves it; only `set` overrides it, so an answer that comes late never pulls a slider back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nicegui import ui
from nicegui.element import Element
from nicegui.elements.mixins.text_element import TextElement
from nicegui.events import GenericEventArguments

from rasf_explorer.scenes.scene import RiskFamily, Weight

Frames = Sequence[Sequence[float | None]]  # what moves at every step, as the player's script has it
_OFTEN = 0.03  # seconds between two values of a slider that moves


class Words(TextElement):
    """Text in an element, escaped by the browser."""

    def __init__(self, words: str, classes: str = "", tag: str = "p") -> None:
        super().__init__(tag=tag, text=words)
        self.classes(classes)


def button(words: str, do: Callable[[], object], classes: str = "", hint: str = "") -> Words:
    """A button."""
    made = Words(words, f"button {classes}", "button").on("click", lambda _: do())
    made.props["type"] = "button"
    if hint:
        made.props["title"] = hint
    return made


def panel(label: str, classes: str = "") -> Element:
    """A part of the page with a name."""
    return ui.element("section").classes(f"panel {classes}").props(f'aria-label="{label}"')


def html(classes: str, label: str = "") -> ui.html:
    """A place for markup of ours; with a label it scrolls, and keys reach it."""
    place = ui.html("", sanitize=False).classes(classes)
    return place.props(f'tabindex=0 role=region aria-label="{label}"') if label else place


class Progress(Element):
    """How far work is, and a button that ends it."""

    def __init__(self, label: str, on_cancel: Callable[[], object]) -> None:
        super().__init__("div")
        self.classes("progress-row")
        with self:
            self._bar = ui.element("progress").props(f'max=1 aria-label="{label}"')
            self.cancel = button("Cancel", on_cancel, "quiet cancel")

    def tell(self, share: float) -> None:
        self._bar.props(f"value={share:.3f}")

    def begin(self) -> None:
        self.visible = True

    def end(self) -> None:
        self.visible = False
        self.tell(0.0)


class _Settable(Element):
    """A piece with a value that the server may override."""

    def set(self, value: float | str) -> None:
        self.props["value"] = value
        self.props["stamp"] += 1
        self.update()

    def _begin(self, value: float | str, on_pick: Callable[[object], object], throttle: float = 0.0) -> None:
        self.props["value"] = value
        self.props["stamp"] = 0

        def picked(event: GenericEventArguments) -> object:
            return on_pick(event.args)

        self.on("pick", picked, throttle=throttle)


class SliderField(_Settable, component="../static/slider_field.js"):
    """A slider with a number beside it; that of a family of risks has a mark at neutral, and words below it."""

    def __init__(
        self, label: str, value: float, scale: Weight | RiskFamily, on_pick: Callable[[float], object]
    ) -> None:
        super().__init__()
        self.props.update(label=label, low=scale.low, high=scale.high, step=scale.step)
        if isinstance(scale, RiskFamily):
            ends = [[scale.low, "averse"], [scale.neutral, "neutral"], [scale.high, "seeking"]]
            ends = ends if scale.high > scale.neutral else ends[:2]
            self.props.update(neutral=scale.neutral, ends=ends, parameter=scale.parameter)
        self._begin(value, lambda picked: on_pick(float(str(picked))), _OFTEN)


class ChoiceField(_Settable, component="../static/choice_field.js"):
    """One choice of a few; options are values and their words. A `theme` is set by the browser alone."""

    def __init__(
        self, label: str, options: dict[str, str], value: str, on_pick: Callable[[str], object], *, theme: bool = False
    ) -> None:
        super().__init__()
        self.props.update(label=label, theme=theme)
        self.props["options"] = [list(option) for option in options.items()]
        self._begin(value, lambda picked: on_pick(str(picked)) if picked in options else None)


class Picture(Element, component="../static/picture.js"):
    """An SVG that changes in place."""

    def __init__(self, classes: str) -> None:
        super().__init__()
        self.props["svg"] = ""
        self.classes(f"picture {classes}")

    def show(self, svg: str, shows: str) -> None:
        """Another drawing; `shows` says of what, as the link does."""
        self.props.update({"svg": svg, "data-shows": shows})
        self.update()


class Playback(Element, component="../static/playback.js"):
    """The player of rollouts; it moves a map's agent, an arm or the cars of a road (`kind`) in the browser."""

    def __init__(
        self,
        kind: str,
        picture: Element,
        rate: float,
        on_scrub: Callable[[int], object],
        on_rollout: Callable[[int], object],
        on_play: Callable[[], object],
    ) -> None:
        super().__init__()
        self.props.update(kind=kind, picture=picture.html_id, rate=rate)
        self.props.update(frames=[], contexts=[], rollouts=0, rollout=0, at=0)
        self.props["stamp"] = 0
        self.on("scrub", lambda event: on_scrub(int(event.args)), throttle=0.05)
        self.on("rollout", lambda event: on_rollout(int(event.args)))
        self.on("play", lambda _: on_play())

    def load(self, frames: Frames, contexts: list[int], rollouts: int, rollout: int, at: int) -> None:
        """Take another rollout, at one of its steps."""
        self.props.update(frames=frames, contexts=contexts, rollouts=rollouts, rollout=rollout, at=at)
        self.props["stamp"] += 1
        self.update()
