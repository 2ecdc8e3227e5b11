"""Which scene shows a library: the map or the arm it was trained in, else the generic view."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rasf.explorer.scenes.four_room import ENVIRONMENT as FOUR_ROOM
from rasf.explorer.scenes.four_room import FourRoomScene
from rasf.explorer.scenes.library import LibraryScene
from rasf.library.policy_library import PolicyLibrary

if TYPE_CHECKING:
    from rasf.explorer.scenes.reacher import ReacherScene

_REACHER = "rasf/Reacher-v0"  # `reacher_scene.ENVIRONMENT`, without loading jax
_SHIPPED = Path(__file__).parent / "shipped" / "reacher.rasf"


def scene_of(library: PolicyLibrary, env: str | None = None) -> FourRoomScene | ReacherScene | LibraryScene:
    """The most telling scene; the generic one where a library does not fit its environment's own, or acts in `env`."""
    environment = library.environment
    if env not in (None, environment["id"]):
        return LibraryScene(library, env)
    is_table = library.sources.describe()["law"] == "table"
    try:
        if environment["phi"] is None and environment["id"] == FOUR_ROOM and is_table:
            return FourRoomScene(library)
        if environment["phi"] is None and environment["id"] == _REACHER and not is_table:
            from rasf.explorer.scenes.reacher import ReacherScene

            return ReacherScene(library)
    except (ValueError, TypeError, AttributeError):  # a file may hold settings of any kind
        pass
    return LibraryScene(library)


def shipped_reacher() -> PolicyLibrary:
    """The networks that come with rasf."""
    from rasf.library.file import load

    return load(_SHIPPED)
