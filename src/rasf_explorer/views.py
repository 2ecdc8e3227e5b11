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
from collections.abc import Callable, Iterator
from pathlib import Path

from rasf import __version__
from rasf.agents import Family
from rasf.library.policy_library import PolicyLibrary
from rasf_explorer.jobs import sentence_of
from rasf_explorer.scenes.scene import Scene, Stop, Stopped

_FILE = "file-"
_NETWORKS = Path(__file__).parents[2] / "docs" / "data" / "reacher.rasf"  # 13 MB: too much for a wheel
Make = Callable[[Callable[[float], None], Stop], Scene]


class View:
    """A scene to be: `scene` once it is there, `error` if it was given up or failed, else `share` of the way."""

    def __init__(self, key: str, title: str, making: str, library: str, make: Make) -> None:
        self.key, self.title, self.making = key, title, making
        self.provenance = {"rasf": __version__, "library": library}
        self.scene: Scene | None = None
        self.error: str | None = None
        self.share: float | None = None
        self._make, self._stopped = make, threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Make the scene, unless that is done or under way; what was given up or failed is begun again."""
        if self._thread is None or self.error is not None:
            self.error, self.share, self._stopped = None, None, threading.Event()
            stop = self._stopped.is_set
            self._thread = threading.Thread(target=self._work, args=(stop,), name=f"view {self.key}", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Give it up, for all visitors."""
        self._stopped.set()

    def _work(self, stop: Stop) -> None:
        try:
            scene = self._make(self._tick, stop)
            scene.warm(stop)
            self.scene = scene
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
        self._by_key |= {view.key: view for view in _usual(seed)}

    def __iter__(self) -> Iterator[View]:
        return iter(list(self._by_key.values()))

    def get(self, key: str) -> View | None:
        return self._by_key.get(key)

    def first(self) -> View:
        """What is shown where nothing else is asked for."""
        return next(iter(self))

    def add_library(self, library: PolicyLibrary, name: str, env: str | None = None) -> View:
        """The view of a library from a file, in its own environment or `env`; the first file's comes before all."""
        # from what the library was trained for, with and when; not from its numbers, which may be gigabytes
        key = _FILE + hashlib.sha256(json.dumps(library.describe(), sort_keys=True).encode()).hexdigest()[:8]
        if key not in self._by_key:
            short = (library.environment.id or "library").removeprefix("rasf/").removesuffix("-v0")
            made_from = f"{name}: {library!r}"
            view = View(
                key, f"{short} (file)", "Looking at the library.", made_from, lambda tick, stop: scene_of(library, env)
            )
            is_first = not any(map(is_of_a_file, self._by_key))
            self._by_key = {key: view, **self._by_key} if is_first else {**self._by_key, key: view}
        return self._by_key[key]

    def remove(self, view: View) -> None:
        """Forget a view; who looks at it goes on."""
        view.stop()
        self._by_key = {key: kept for key, kept in self._by_key.items() if kept is not view}

    def close(self) -> None:
        """End all background work."""
        for view in self:
            view.stop()


def is_of_a_file(key: str) -> bool:
    """Whether a view of that key would show a library from a file."""
    return key.startswith(_FILE)


def scene_of(library: PolicyLibrary, env: str | None = None) -> Scene:
    """The most telling scene; the generic one where a library does not fit its environment's own, or acts in `env`."""
    from rasf_explorer.scenes.driving import ROADS, DrivingScene
    from rasf_explorer.scenes.library import LibraryScene

    environment, is_table = library.environment, library.sources.family is Family.TABLES
    try:
        if env in (None, environment.id) and environment.phi is None:
            if environment.id == "rasf/FourRoom-v0" and is_table:
                from rasf_explorer.scenes.four_room import FourRoomScene

                return FourRoomScene(library)
            if environment.id == "rasf/Reacher-v0" and not is_table:
                from rasf_explorer.scenes.reacher import ReacherScene  # which loads jax

                return ReacherScene(library)
            if environment.id in ROADS:
                return DrivingScene(library)
    except (ValueError, TypeError, AttributeError, LookupError):  # a file may hold settings of any kind
        pass
    return LibraryScene(library, env)


def shipped_reacher() -> PolicyLibrary:
    """The networks that lie beside the docs, in a checkout or an unpacked sdist."""
    from rasf.library.file import load

    if not _NETWORKS.exists():
        raise ValueError(
            "The reacher's networks (13 MB) are not in the wheel. They lie beside the docs, as data/reacher.rasf; or "
            "make smaller ones: `rasf reproduce reacher --preset quick --batch rasfdqn --library reacher.rasf`. Then: "
            "`rasf explore reacher.rasf`, or open the file here."
        )
    return load(_NETWORKS)


def _usual(seed: int) -> list[View]:
    def four_room(tick: Callable[[float], None], stop: Stop) -> Scene:
        from rasf_explorer.scenes.four_room import FourRoomScene, train_four_room

        return FourRoomScene(train_four_room(tick, stop, seed))

    def grid(tick: Callable[[float], None], stop: Stop) -> Scene:
        from rasf_explorer.scenes.grid import GridScene

        return GridScene()

    def reacher(tick: Callable[[float], None], stop: Stop) -> Scene:
        from rasf_explorer.scenes.reacher import ReacherScene

        return ReacherScene(shipped_reacher())

    def highway(tick: Callable[[float], None], stop: Stop) -> Scene:
        from rasf_lab.suite.film import shipped_driver

        return scene_of(shipped_driver())

    trained = f"trained on the spot, seed {seed}"
    training = "Training a library on the spot. The grid is there at once, in the meantime."
    loading = "Loading the networks, and asking them what no slider changes."
    return [
        View("four-room", "Four rooms", training, trained, four_room),
        View("grid", "Grid", "Planning the sources.", "planned exactly", grid),
        View("reacher", "Reacher", loading, "shipped reacher networks", reacher),
        View("highway", "Highway", "Loading the networks, and the traffic.", "shipped highway networks", highway),
    ]
