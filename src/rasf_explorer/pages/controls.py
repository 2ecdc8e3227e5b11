"""The elements of the page: a slider with its number, a choice of few options, the player, buttons and words.

Inputs are native HTML inputs in small Vue components, so that labels, keys and focus work as usual in the browser. An
input keeps the value that the user sets. Only `set` overrides the value, so a late response of the server never moves a
slider back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nicegui import ui
from nicegui.element import Element
from nicegui.elements.mixins.text_element import TextElement
from nicegui.events import GenericEventArguments

from rasf_explorer.scenes.scene import RiskFamily, Weight

Frames = Sequence[Sequence[float | None]]  # positions of the moving elements at every step; see playback.js
_THROTTLE = 0.03  # smallest time between two events of a moving slider, in seconds


class Words(TextElement):
    """Text in an element, escaped by the browser."""

    def __init__(self, words: str, classes: str = "", tag: str = "p") -> None:
        super().__init__(tag=tag, text=words)
        self.classes(classes)


def button(words: str, do: Callable[[], object], classes: str = "", hint: str = "") -> Words:
    """Return a button that calls `do` on a click, with `hint` as an optional tooltip."""
    made = Words(words, f"button {classes}", "button").on("click", lambda _: do())
    made.props["type"] = "button"
    if hint:
        made.props["title"] = hint
    return made


def panel(label: str, classes: str = "") -> Element:
    """Return a section of the page, with a name for screen readers."""
    return ui.element("section").classes(f"panel {classes}").props(f'aria-label="{label}"')


def html(classes: str, label: str = "") -> ui.html:
    """Return an element for trusted markup. An element with a label can be focused and scrolled by keys."""
    place = ui.html("", sanitize=False).classes(classes)
    return place.props(f'tabindex=0 role=region aria-label="{label}"') if label else place


class Progress(Element):
    """A progress bar and a button to cancel."""

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
    """An input whose value the server can override."""

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
    """A slider with its value as a number. A dial of risks also has a mark at the neutral level, and words below."""

    def __init__(
        self, label: str, value: float, scale: Weight | RiskFamily, on_pick: Callable[[float], object]
    ) -> None:
        super().__init__()
        self.props.update(label=label, low=scale.low, high=scale.high, step=scale.step)
        if isinstance(scale, RiskFamily):
            ends = [[scale.low, "averse"], [scale.neutral, "neutral"], [scale.high, "seeking"]]
            ends = ends if scale.high > scale.neutral else ends[:2]
            self.props.update(neutral=scale.neutral, ends=ends, parameter=scale.parameter)
        self._begin(value, lambda picked: on_pick(float(str(picked))), _THROTTLE)


class ChoiceField(_Settable, component="../static/choice_field.js"):
    """A choice of few options, given as values and labels.

    With `theme`, the choice is the light or dark theme, which the browser applies and stores.
    """

    def __init__(
        self, label: str, options: dict[str, str], value: str, on_pick: Callable[[str], object], *, theme: bool = False
    ) -> None:
        super().__init__()
        self.props.update(label=label, theme=theme)
        self.props["options"] = [list(option) for option in options.items()]
        self._begin(value, lambda picked: on_pick(str(picked)) if picked in options else None)


class Picture(Element, component="../static/picture.js"):
    """An SVG that is updated in place."""

    def __init__(self, classes: str) -> None:
        super().__init__()
        self.props["svg"] = ""
        self.classes(f"picture {classes}")

    def show(self, svg: str, shows: str) -> None:
        """Show another drawing. `shows` is the state of this drawing, as the query string of a link."""
        self.props.update({"svg": svg, "data-shows": shows})
        self.update()


class Playback(Element, component="../static/playback.js"):
    """The player of rollouts. Depending on `kind`, the browser moves a map's agent, an arm, or the cars of a road."""

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
        """Load a rollout.

        Args:
            frames: Positions of the moving elements at every step.
            contexts: The context at every step: the objects collected so far, as a bit mask.
            rollouts: Number of rollouts that can be played.
            rollout: Index of this rollout.
            at: The step that is shown first.
        """
        self.props.update(frames=frames, contexts=contexts, rollouts=rollouts, rollout=rollout, at=at)
        self.props["stamp"] += 1
        self.update()
