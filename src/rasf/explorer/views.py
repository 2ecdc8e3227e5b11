"""The views that all visitors share: scenes that are made in the background, once, when somebody first looks.

A view is made by a function of `tick`, which hears the share done, and `stop`. Visitors see its progress, and each of
them may give it up, for all, or begin it again; what goes wrong is kept as one sentence. Opened files become further
views. Their keys, which links name, follow from what the library is: a link never shows another library's numbers, and
a file that is opened twice is one view.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from rasf import __version__
from rasf.explorer.jobs import sentence_of
from rasf.explorer.scenes.scene import Dialled, Stop, Stopped
from rasf.explorer.state import kind_of
from rasf.library.policy_library import PolicyLibrary

_FILE = "file-"
Make = Callable[[Callable[[float], None], Stop], Dialled]


class View:
    """A scene to be: `scene` once it is there, `error` if it was given up or failed, else `share` of the way."""

    def __init__(self, key: str, title: str, making: str, library: str, make: Make) -> None:
        self.key, self.title, self.making = key, title, making
        self.provenance = {"rasf": __version__, "library": library}
        self.scene: Any = None
        self.error: str | None = None
        self.share: float | None = None
        self._make, self._stopped = make, threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Make the scene, unless that is done or under way; what was given up or failed is begun again."""
        if self._thread is None or self.error is not None:
            self.error, self.share, self._stopped = None, None, threading.Event()
            self._thread = threading.Thread(
                target=self._work, args=(self._stopped.is_set,), name=f"view {self.key}", daemon=True
            )
            self._thread.start()

    def stop(self) -> None:
        """Give it up, for all visitors."""
        self._stopped.set()

    def _work(self, stop: Stop) -> None:
        try:
            self.scene = self._make(self._tick, stop)
        except Stopped:
            self.error = f"{self.title} was given up."
        except Exception as error:
            self.error = f"{self.title} could not be made. {sentence_of(error)}"

    def _tick(self, share: float) -> None:
        self.share = share


class Views:
    """All views by key, those of files first."""

    def __init__(self, library: PolicyLibrary | None, seed: int, env: str | None = None) -> None:
        self._by_key: dict[str, View] = {}
        if library is not None:
            self.add_library(library, "the file given", env)
        for view in _usual(seed):
            self._by_key[view.key] = view

    def __iter__(self) -> Any:
        return iter(list(self._by_key.values()))

    def get(self, key: str) -> View | None:
        """The view of that name."""
        return self._by_key.get(key)

    def first(self) -> View:
        """What is shown where nothing else is asked for."""
        return next(iter(self._by_key.values()))

    def add_library(self, library: PolicyLibrary, name: str, env: str | None = None) -> View:
        """The view of a library from a file, in its own environment or `env`; the first file's comes before all."""
        key = _key(library)
        if key in self._by_key:
            return self._by_key[key]

        def make(tick: Callable[[float], None], stop: Stop) -> Dialled:
            from rasf.explorer.scenes.choose import scene_of

            return _warm(scene_of(library, env), stop)

        environment = library.environment["id"] or "library"
        title = f"{str(environment).removeprefix('rasf/').removesuffix('-v0')} (file)"
        view = View(key, title, "Looking at the library.", f"{name}: {library!r}", make)
        is_first = not any(map(is_of_a_file, self._by_key))
        self._by_key = {key: view, **self._by_key} if is_first else {**self._by_key, key: view}
        return view

    def close(self) -> None:
        """End all background work."""
        for view in self:
            view.stop()


def is_of_a_file(key: str) -> bool:
    """Whether a view of that key would show a library from a file."""
    return key.startswith(_FILE)


def _key(library: PolicyLibrary) -> str:
    """From what the library was trained for, with and when; not from its numbers, which may be gigabytes."""
    said = [library.environment, library.agent, library.policies, library.notes, library.provenance]
    return _FILE + hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:8]


def _warm(scene: Any, stop: Stop) -> Any:
    """Have done before anybody looks what is slow the first time only, as compiling."""
    if hasattr(scene, "warm"):
        scene.warm(stop)
    if kind_of(scene) == "map":
        w, family = np.array([weight.default for weight in scene.weights]), scene.families[0]
        scene.policy(w, family.make(family.default))
        scene.cell(scene.layout.start, w, family.make(family.default))
        scene.roll_out(w, family.make(family.default), 2, 0, stop)
    return scene


def _usual(seed: int) -> list[View]:
    def four_room(tick: Callable[[float], None], stop: Stop) -> Dialled:
        from rasf.explorer.scenes.four_room import FourRoomScene, train_four_room

        return _warm(FourRoomScene(train_four_room(tick, stop, seed)), stop)

    def grid(tick: Callable[[float], None], stop: Stop) -> Dialled:
        from rasf.explorer.scenes.grid import GridScene

        return _warm(GridScene(), stop)

    def reacher(tick: Callable[[float], None], stop: Stop) -> Dialled:
        from rasf.explorer.scenes.choose import shipped_reacher
        from rasf.explorer.scenes.reacher import ReacherScene

        return _warm(ReacherScene(shipped_reacher()), stop)

    trained = f"trained on the spot, seed {seed}"
    training = "Training a library on the spot. The grid is there at once, in the meantime."
    loading = "Loading the networks, and asking them what no slider changes."
    return [
        View("four-room", "Four rooms", training, trained, four_room),
        View("grid", "Grid", "Planning the sources.", "planned exactly", grid),
        View("reacher", "Reacher", loading, "shipped reacher networks", reacher),
    ]
