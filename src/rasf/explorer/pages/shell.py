"""The frame around every view, one for each visitor: header, views, notices, saving, and opening a file."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from nicegui import background_tasks, ui
from nicegui.events import GenericEventArguments, UploadEventArguments

from rasf.explorer.exports import file_name
from rasf.explorer.jobs import sentence_of
from rasf.explorer.pages.arm import ArmPage
from rasf.explorer.pages.controls import ChoiceField, Words, button
from rasf.explorer.pages.library import LibraryPage
from rasf.explorer.pages.map import MapPage
from rasf.explorer.pages.scene import PageContext
from rasf.explorer.state import State, default_state, from_query, kind_of
from rasf.explorer.views import View, Views, is_of_a_file
from rasf.library.file import load
from rasf.library.policy_library import PolicyLibrary

_LARGEST = 2 * 1024**3  # bytes of an uploaded file
_PAGES: dict[str, Any] = {"map": MapPage, "arm": ArmPage, "library": LibraryPage}


class Notice(ui.element):
    """A sentence that stays until it is closed."""

    def __init__(self, sentence: str, on_close: Callable[[Notice], object]) -> None:
        super().__init__("div")
        self.sentence = sentence
        self.classes("notice")

        def close() -> None:
            on_close(self)
            self.delete()

        with self:
            Words(sentence, "", "p")
            button("Close", close, "quiet")


class Shell:
    """Builds itself into the present page."""

    def __init__(self, views: Views, query: Mapping[str, str], seed: int, may_open_paths: bool) -> None:
        self._views, self._query, self._seed = views, query, seed
        self._client = ui.context.client
        self._states: dict[str, State] = {}
        self._shown: list[Notice] = []
        self._tabs: dict[str, Words] = {}
        self._page: Any = None
        self._view = views.first()
        self._build(may_open_paths)
        asked = query.get("view")
        found = self._view if asked is None else views.get(asked)
        if found is None:
            names = ", ".join(view.key for view in views)
            self.say(
                "The link is of a library that is not open here; open its file, and the link again."
                if is_of_a_file(str(asked))
                else f"The link's view must be one of {names}, got {str(asked)[:60]!r}; the first is shown instead."
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
                ChoiceField("Theme", themes, "auto", lambda _: None, hide_label=True, theme=True).classes("theme")
                copy = Words("Copy link", "button quiet copy-link", "button").props("type=button")
                copy.on("click", self._copied, js_handler="async () => emit(await explorer.copyLink())")
                button("SVG", self._save_svg, "quiet save-svg", "Save the picture as SVG").props(
                    'aria-label="Save SVG"'
                )
                button("PNG", self._save_png, "quiet save-png", "Save the picture as PNG").props(
                    'aria-label="Save PNG"'
                )
                button("CSV", self._save_csv, "quiet save-csv", "Save the numbers as CSV").props(
                    'aria-label="Save CSV"'
                )
            # in the bar, which stays in sight on a scrolled page
            self._notices = ui.element("div").classes("notices").props("role=alert")
        header.move(target_index=0)
        ui.skip_link("Skip to the content", target=self._main)

    def _build_open(self, may_open_paths: bool) -> None:
        with ui.element("details").classes("open-file") as self._details:
            Words("Open a library ...", "button quiet", "summary")
            with ui.element("div").classes("open-panel panel"):
                Words("A .rasf file, as rasf train or library.save writes it.", "small soft")
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

    # views

    def _show(self, view: View) -> None:
        """Turn to a view."""
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
        with ui.element("section").classes("panel loading").props("role=status"):
            Words(view.title, "", "h1")
            Words(view.making, "soft")
            with ui.element("div").classes("progress-row"):
                self._bar = ui.element("progress").props('max=1 aria-label="Progress"')
                cancel = button("Cancel", lambda: give_up(), "quiet cancel")
            about = Words("All visitors share this view: Cancel gives it up for all of them.", "small soft")

        def give_up() -> None:
            view.stop()
            cancel.visible, about.text = False, "Giving up, as soon as the present step is done."

    def _build_failed(self, view: View) -> None:
        with ui.element("section").classes("panel loading").props("role=status"):
            Words(view.title, "", "h1")
            Words(str(view.error), "soft")
            button("Start again", lambda: self._show(view))

    def _show_nav(self) -> None:
        """Mark the present view; buttons that are there stay, as one of them may have the focus."""
        for i, view in enumerate(self._views):
            if view.key not in self._tabs:
                with self._nav:
                    tab = button(view.title, lambda view=view: self._show(view), "tab")  # type: ignore[misc]
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
                self._bar.props(f"value={view.share:.3f}")
        if self._view is not view or self._page is not None or self._client.is_deleted:
            return
        self._content.clear()
        with self._content:
            if view.scene is None:
                self._build_failed(view)
                return
            state = self._state_of(view)
            desk = PageContext(self.say, self.announce, self._remember)
            self._page = _PAGES[kind_of(view.scene)](view.scene, state, desk, view.provenance)

    def _state_of(self, view: View) -> State:
        if view.key in self._states:
            return self._states[view.key]
        if self._query.get("view", view.key) != view.key:
            return default_state(view.key, view.scene, self._seed)
        state, complaints = from_query(self._query, view.key, view.scene, self._seed)
        self._query = {"view": view.key}  # a link is for the view it names, once
        if complaints:
            self.say(" ".join(complaints))
        return state

    def _remember(self, state: State) -> None:
        self._states[state.view] = state
        self._run(f"explorer.link({json.dumps(state.to_query())})")

    def close(self) -> None:
        """End the work of the view that is shown."""
        if self._page is not None:
            self._page.close()

    # words

    def say(self, sentence: str) -> None:
        """A sentence that must be seen; it stays until it is closed or the third one after it comes."""
        if self._client.is_deleted or any(notice.sentence == sentence for notice in self._shown):
            return
        while len(self._shown) >= 3:
            self._shown.pop(0).delete()
        with self._notices:
            self._shown.append(Notice(sentence, self._shown.remove))

    def announce(self, sentence: str) -> None:
        """A sentence for those who listen."""
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

    def _save_svg(self) -> None:
        if self._page is None or self._page.svg is None:
            self.say("There is no picture to save yet.")
            return
        self._client.download(self._page.svg.encode(), file_name(self._page.state, "svg"), "image/svg+xml")

    def _save_png(self) -> None:
        if self._page is None or self._page.svg is None:
            self.say("There is no picture to save yet.")
            return
        name = file_name(self._page.state, "png")
        self._run(f"explorer.savePng({json.dumps(self._page.picture.html_id)}, {json.dumps(name)})")

    def _save_csv(self) -> None:
        if self._page is None:
            self.say("There are no numbers to save yet.")
            return
        self._client.download(self._page.csv().encode(), file_name(self._page.state, "csv"), "text/csv")

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
        self.say("The file must be smaller than 2 GB and end in .rasf.")

    async def _open(self, path: Path, name: str) -> None:
        try:
            library: PolicyLibrary = await asyncio.to_thread(load, path)
        except (ValueError, OSError) as error:
            self.say(sentence_of(error).replace(str(path), name))
            return
        finally:
            self._close_panel()
        self._show(self._views.add_library(library, name))

    def _close_panel(self) -> None:
        """It would hide what is said or shown."""
        self._details.run_method("removeAttribute", "open")
