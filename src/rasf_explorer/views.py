"""The views that all visitors share. A view makes its scene (the computations of one world, `rasf_explorer.scenes`)
once, in the background, when a visitor first opens the view.

The function that makes a scene has the arguments `tick` and `stop`. It calls `tick` with the share of the work done.
`stop` returns True once a visitor has cancelled the view. Visitors see the progress. Each visitor may cancel the work
for all visitors, or start the work again. An error is stored as one sentence.

Each opened file becomes another view. A link contains the key of its view. The key of a file's view contains a hash of
the library's description. So a link never shows the numbers of another library, and a file opened twice is one view.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from importlib import resources
from pathlib import Path

from rasf import __version__
from rasf.agents import Family
from rasf.library.policy_library import PolicyLibrary
from rasf_explorer.jobs import sentence_of
from rasf_explorer.scenes.scene import Scene, Stop, Stopped

_FILE = "file-"
Make = Callable[[Callable[[float], None], Stop], Scene]


class View:
    """A view, whose scene is made in the background.

    Attributes:
        scene: The scene; None until the scene is ready.
        error: A sentence with the reason if the work was cancelled or failed; None otherwise.
        share: The share of the work done; None if unknown.
    """

    def __init__(self, key: str, title: str, making: str, library: str, make: Make) -> None:
        self.key, self.title, self.making = key, title, making
        self.provenance = {"rasf": __version__, "library": library}
        self.scene: Scene | None = None
        self.error: str | None = None
        self.share: float | None = None
        self._make, self._stopped = make, threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Make the scene in a thread, at the first call and after a cancellation or an error."""
        if self._thread is None or self.error is not None:
            self.error, self.share, self._stopped = None, None, threading.Event()
            stop = self._stopped.is_set
            self._thread = threading.Thread(target=self._work, args=(stop,), name=f"view {self.key}", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Cancel the work on the scene, for all visitors."""
        self._stopped.set()

    def _work(self, stop: Stop) -> None:
        try:
            scene = self._make(self._tick, stop)
            scene.warm(stop)
            self.scene = scene
        except Stopped:
            self.error = f"{self.title} was cancelled."
        except Exception as error:
            self.error = f"{self.title} could not be made. {sentence_of(error)}"

    def _tick(self, share: float) -> None:
        self.share = share


class Views:
    """All views by key. The view of the first opened file, if there is one, comes before all other views."""

    def __init__(self, library: PolicyLibrary | None, seed: int, env: str | None = None) -> None:
        self._by_key: dict[str, View] = {}
        if library is not None:
            self.add_library(library, "the given file", env)
        self._by_key |= {view.key: view for view in _usual(seed)}

    def __iter__(self) -> Iterator[View]:
        return iter(list(self._by_key.values()))

    def get(self, key: str) -> View | None:
        return self._by_key.get(key)

    def first(self) -> View:
        """Return the view that is shown by default."""
        return next(iter(self))

    def add_library(self, library: PolicyLibrary, name: str, env: str | None = None) -> View:
        """Add the view of a library from a file, unless the view exists.

        Args:
            library: The library.
            name: Name of the file, for the line that names the origin of the numbers.
            env: Id of the library's environment. Default: the id that the library stores.

        Returns:
            The view.
        """
        # hash only the description, because the arrays may be gigabytes large
        key = _FILE + hashlib.sha256(json.dumps(library.describe(), sort_keys=True).encode()).hexdigest()[:8]
        if key not in self._by_key:
            short = (library.environment.id or "library").removeprefix("rasf/").removesuffix("-v0")
            made_from = f"{name}: {library!r}"
            view = View(
                key, f"{short} (file)", "Opening the library.", made_from, lambda tick, stop: scene_of(library, env)
            )
            is_first = not any(map(is_of_a_file, self._by_key))
            self._by_key = {key: view, **self._by_key} if is_first else {**self._by_key, key: view}
        return self._by_key[key]

    def remove(self, view: View) -> None:
        """Remove a view. Pages that show the view keep working."""
        view.stop()
        self._by_key = {key: kept for key, kept in self._by_key.items() if kept is not view}

    def close(self) -> None:
        """Stop all background work."""
        for view in self:
            view.stop()


def is_of_a_file(key: str) -> bool:
    """Return whether a key belongs to the view of a file."""
    return key.startswith(_FILE)


def scene_of(library: PolicyLibrary, env: str | None = None) -> Scene:
    """Return the scene that fits a library.

    Args:
        library: The library.
        env: Id of the environment to act in. Default: the id that the library stores.

    Returns:
        The special scene of the library's environment. The generic `LibraryScene` if the environment has no special
        scene, if the library does not fit the special scene, or if `env` is another environment.
    """
    from rasf_explorer.scenes.driving import ROADS, DrivingScene
    from rasf_explorer.scenes.library import LibraryScene

    environment, is_table = library.environment, library.sources.family is Family.TABLES
    try:
        if env in (None, environment.id) and environment.phi is None:
            if environment.id == "rasf/FourRoom-v0" and is_table:
                from rasf_explorer.scenes.four_room import FourRoomScene

                return FourRoomScene(library)
            if environment.id == "rasf/Reacher-v0" and not is_table:
                from rasf_explorer.scenes.reacher import ReacherScene  # this import loads jax

                return ReacherScene(library)
            if environment.id in ROADS:
                return DrivingScene(library)
    except (ValueError, TypeError, AttributeError, LookupError):
        pass  # the special scene may not support the settings in the file
    return LibraryScene(library, env)


def shipped_reacher() -> PolicyLibrary:
    """Return the reacher networks that ship with `rasf_lab`; the script `lab/shipped_reacher.py` trains them."""
    from rasf.library.file import load

    return load(Path(str(resources.files("rasf_lab"))) / "shipped" / "reacher.rasf")


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

    trained = f"trained when the view was first opened, seed {seed}"
    training = "Training a library. In the meantime, the view Grid is ready."
    loading = "Loading the networks, and computing values that do not depend on the sliders."
    return [
        View("four-room", "Four rooms", training, trained, four_room),
        View("grid", "Grid", "Planning the source policies.", "planned exactly", grid),
        View("reacher", "Reacher", loading, "shipped reacher networks", reacher),
        View("highway", "Highway", "Loading the networks and the traffic.", "shipped highway networks", highway),
    ]
