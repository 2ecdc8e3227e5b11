"""The shell of the page: the parts around every view, such as header, notices, and buttons to save and open files.

Each visitor has one shell.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from nicegui import background_tasks, ui
from nicegui.events import GenericEventArguments, UploadEventArguments

from rasf.library.file import load
from rasf_explorer.jobs import sentence_of
from rasf_explorer.pages.arm import ArmPage
from rasf_explorer.pages.controls import ChoiceField, Progress, Words, button, panel
from rasf_explorer.pages.library import LibraryPage
from rasf_explorer.pages.map import MapPage
from rasf_explorer.pages.numbers import file_name
from rasf_explorer.pages.page import Page, PageContext
from rasf_explorer.pages.road import RoadPage
from rasf_explorer.scenes.driving import DrivingScene
from rasf_explorer.scenes.library import LibraryScene
from rasf_explorer.scenes.scene import ArmScene, MapScene, Scene
from rasf_explorer.state import State, default_state, from_query
from rasf_explorer.views import View, Views, is_of_a_file

_LARGEST = 2 * 1024**3  # largest size of an uploaded file, in bytes


def page_of(scene: Scene, state: State, context: PageContext) -> Page:
    """Build the page of a scene into NiceGUI's current slot.

    Args:
        scene: The scene.
        state: The state that the page shows first.
        context: Functions of the shell that the page calls, and the origin of the view's numbers.

    Returns:
        The page.
    """
    if isinstance(scene, MapScene):
        return MapPage(scene, state, context)
    if isinstance(scene, ArmScene):
        return ArmPage(scene, state, context)
    if isinstance(scene, DrivingScene):
        return RoadPage(scene, state, context)
    assert isinstance(scene, LibraryScene)
    return LibraryPage(scene, state, context)


class Shell:
    """The shell of one visitor, built into the current page.

    Args:
        views: The views that all visitors share.
        query: The names and values after the "?" of the link.
        seed: Default seed of rollouts.
        may_open_paths: Whether the visitor may open files of this machine by their paths.
    """

    def __init__(self, views: Views, query: Mapping[str, str], seed: int, may_open_paths: bool) -> None:
        self._views, self._query, self._seed = views, query, seed
        self._client = ui.context.client
        self._states: dict[str, State] = {}
        self._shown: dict[str, ui.element] = {}  # notices, by their sentences
        self._tabs: dict[str, Words] = {}
        self._page: Page | None = None
        self._view = views.first()
        self._build(may_open_paths)
        asked = query.get("view")
        found = self._view if asked is None else views.get(asked)
        if found is None:
            names = ", ".join(view.key for view in views)
            self.say(
                "The link belongs to a library that is not open here; open its file, then open the link again."
                if is_of_a_file(str(asked))
                else f"The link's view must be one of {names}, got {str(asked)[:60]!r}; the first view is shown."
            )
            self._query = {}
        self._show(found or self._view)
        self._client.on_delete(self.close)

    def _build(self, may_open_paths: bool) -> None:
        self._main = ui.element("div").classes("page")
        with self._main:
            self._content = ui.element("div").classes("content")
            self._spoken = Words("", "only-heard spoken").props("aria-live=polite role=status")
        with ui.element("header").classes("bar").props("role=banner") as header:
            with ui.element("div").classes("bar-left"):
                Words("rasf explorer", "brand", "span")
                self._nav = ui.element("nav").props('aria-label="Views"').classes("views")
                self._build_open(may_open_paths)
            with ui.element("div").classes("bar-right"):
                themes = {"auto": "Auto", "light": "Light", "dark": "Dark"}
                ChoiceField("Theme", themes, "auto", lambda _: None, theme=True).classes("theme")
                copy = Words("Copy link", "button quiet copy-link", "button").props("type=button")
                copy.on("click", self._copied, js_handler="async () => emit(await explorer.copyLink())")
                for name, what in (("SVG", "picture"), ("PNG", "picture"), ("CSV", "numbers")):
                    save = button(name, partial(self._save, name), "quiet", f"Save the {what} as {name}")
                    save.props(f'aria-label="Save {name}"')
            # notices are in the bar, because the bar stays visible when the page is scrolled
            self._notices = ui.element("div").classes("notices").props("role=alert")
        header.move(target_index=0)
        ui.skip_link("Skip to the content", target=self._main)

    def _build_open(self, may_open_paths: bool) -> None:
        with ui.element("details").classes("open-file") as self._details:
            Words("Open a library ...", "button quiet", "summary")
            with ui.element("div").classes("open-panel panel"):
                Words("A .rasf file, written by rasf train or library.save.", "small soft")
                if may_open_paths:
                    with ui.element("form").classes("open-row") as form:
                        path = ui.element("input").props(
                            'type=text name=path aria-label="Path of a library file on this machine" '
                            'placeholder="path on this machine" autocomplete=off spellcheck=false'
                        )
                        Words("Open", "button", "button").props("type=submit")
                    form.on(
                        "submit",
                        self._path_given,
                        js_handler="(e) => { e.preventDefault(); emit(e.target.elements.path.value); }",
                    )
                    path.classes("path")
                upload = ui.upload(on_upload=self._uploaded, auto_upload=True, max_file_size=_LARGEST)
                upload.classes("only-heard").props("accept=.rasf tabindex=-1 aria-hidden=true")
                upload.on("rejected", self._rejected)
                choose = Words("Choose a file ...", "button quiet", "button").props("type=button")
                choose.on("click", js_handler=f"() => runMethod({upload.id}, 'pickFiles', [])")
                self._close_file = button("Close this file", self._close_view, "quiet", "Close it for all visitors")

    # views

    def _show(self, view: View) -> None:
        """Switch to a view."""
        if self._page is not None:
            self._page.close()
            self._page = None
        self._view = view
        view.begin()
        self._show_nav()
        self._content.clear()
        if view.scene is None:
            with self._content:
                self._build_loading(view)
        background_tasks.create(self._when_ready(view))

    def _build_loading(self, view: View) -> None:
        def cancel() -> None:
            view.stop()
            self._progress.cancel.visible = False
            about.text = "Cancelling after the current step."

        with panel(view.title, "loading").props("role=status"):
            Words(view.title, "", "h1")
            Words(view.making, "soft")
            self._progress = Progress("Progress", cancel)
            about = Words("All visitors share this view: Cancel stops it for all of them.", "small soft")

    def _build_failed(self, view: View) -> None:
        with panel(view.title, "loading").props("role=status"):
            Words(view.title, "", "h1")
            Words(str(view.error), "soft")
            button("Start again", lambda: self._show(view))

    def _show_nav(self) -> None:
        """Mark the button of the current view. Existing buttons are kept, because a button may have the focus."""
        views = list(self._views)
        for key in self._tabs.keys() - {view.key for view in views}:
            self._tabs.pop(key).delete()
        self._close_file.visible = is_of_a_file(self._view.key)
        for i, view in enumerate(views):
            if view.key not in self._tabs:
                with self._nav:
                    tab = button(view.title, partial(self._show, view), "tab")
                    self._tabs[view.key] = tab.props(f"data-view={view.key}")
                tab.move(target_index=i)
            if view is self._view:
                self._tabs[view.key].props("aria-current=page")
            else:
                self._tabs[view.key].props(remove="aria-current")
        with self._client:
            ui.page_title(f"{self._view.title} - rasf explorer")

    async def _when_ready(self, view: View) -> None:
        while view.scene is None and view.error is None:
            await asyncio.sleep(0.1)
            if self._view is not view or self._client.is_deleted:
                return
            if view.share is not None:
                self._progress.tell(view.share)
        if self._view is not view or self._page is not None or self._client.is_deleted:
            return
        self._content.clear()
        with self._content:
            if view.scene is None:
                self._build_failed(view)
                return
            state = self._state_of(view.key, view.scene)
            context = PageContext(self.say, self.announce, self._remember, view.provenance)
            self._page = page_of(view.scene, state, context)

    def _state_of(self, key: str, scene: Scene) -> State:
        if key in self._states:
            return self._states[key]
        if self._query.get("view", key) != key:
            return default_state(key, scene, self._seed)
        state, complaints = from_query(self._query, key, scene, self._seed)
        self._query = {"view": key}  # values of a link are used once, for the view that the link names
        if complaints:
            self.say(" ".join(complaints))
        return state

    def _remember(self, state: State) -> None:
        self._states[state.view] = state
        self._run(f"explorer.link({json.dumps(state.to_query())})")

    def close(self) -> None:
        """Stop the rollouts and other work of the current page."""
        if self._page is not None:
            self._page.close()

    # messages

    def say(self, sentence: str) -> None:
        """Show a notice until the visitor closes it, or until three newer notices are shown."""
        if self._client.is_deleted or sentence in self._shown:
            return
        while len(self._shown) >= 3:
            self._shown.pop(next(iter(self._shown))).delete()
        with self._notices, ui.element("div").classes("notice") as self._shown[sentence]:
            Words(sentence)
            button("Close", lambda: self._shown.pop(sentence).delete(), "quiet")

    def announce(self, sentence: str) -> None:
        """Give a sentence to screen readers."""
        self._spoken.text = sentence

    def _run(self, code: str) -> None:
        if not self._client.is_deleted:
            self._client.run_javascript(code)

    # saving

    def _copied(self, event: GenericEventArguments) -> None:
        if event.args is True:
            self.announce("Link copied.")
            with self._content:
                ui.notify("Link copied", timeout=1500)
        else:
            self.say("The browser did not allow copying; the link is in the address bar.")

    def _save(self, kind: str) -> None:
        page = self._page
        if page is None or (page.svg is None and kind != "CSV"):
            self.say("There is nothing to save yet.")
            return
        name = file_name(page.state, kind.lower())
        if kind == "CSV":
            self._client.download(page.csv().encode(), name, "text/csv")
        elif kind == "SVG":
            self._client.download(str(page.svg).encode(), name, "image/svg+xml")
        else:
            self._run(f"explorer.savePng({json.dumps(page.picture.html_id)}, {json.dumps(name)})")

    # opening

    async def _path_given(self, event: GenericEventArguments) -> None:
        path = Path(str(event.args).strip()).expanduser()
        if not path.name:
            self._close_panel()
            self.say("path must name a library file.")
            return
        await self._open(path, path.name)

    async def _uploaded(self, event: UploadEventArguments) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "uploaded.rasf"
            await event.file.save(path)
            await self._open(path, event.file.name)

    def _rejected(self) -> None:
        self._close_panel()
        self.say("The file must be at most 2 GB large, and its name must end in .rasf.")

    async def _open(self, path: Path, name: str) -> None:
        try:
            library = await asyncio.to_thread(load, path)
        except (ValueError, OSError) as error:
            self.say(sentence_of(error).replace(str(path), name))
            return
        finally:
            self._close_panel()
        self._show(self._views.add_library(library, name))

    def _close_view(self) -> None:
        self._close_panel()
        self._views.remove(self._view)
        self._show(self._views.first())

    def _close_panel(self) -> None:
        """Close the panel for opening files, which would cover notices and the view."""
        self._details.run_method("removeAttribute", "open")
