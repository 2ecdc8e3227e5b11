"""Registration of environment ids in Gymnasium's registry. `import rasf` registers the ids of rasf.

Another package can add environments by an entry point in the group `rasf.environments`. The entry point is a function
without arguments that registers ids. It runs on every `import rasf`, so its module should import only Gymnasium.
"""

from __future__ import annotations

import contextlib
import re
from importlib.metadata import entry_points

import gymnasium
from gymnasium.envs.registration import register, registry

OLDEST_GYMNASIUM = (1, 1)  # the lower bound in pyproject.toml


def require_supported_gymnasium() -> None:
    """Raise ImportError if the installed Gymnasium is older than `OLDEST_GYMNASIUM`."""
    if tuple(map(int, re.findall(r"\d+", gymnasium.__version__)[:2])) < OLDEST_GYMNASIUM:
        oldest = ".".join(map(str, OLDEST_GYMNASIUM))
        raise ImportError(
            f"rasf needs Gymnasium {oldest} or newer, but {gymnasium.__version__} is installed, perhaps because "
            f"another package required it: pip install 'gymnasium>={oldest}'"
        )


def register_environments() -> None:
    """Register the ids of rasf and of other packages."""
    # Gymnasium's checker rejects vector rewards
    register("rasf/Grid-v0", "rasf.envs.grid:GridEnv", max_episode_steps=35, disable_env_checker=True)
    register("rasf/FourRoom-v0", "rasf.envs.four_room:FourRoomEnv", disable_env_checker=True)
    register("rasf/Reacher-v0", "rasf.envs.reacher.env:ReacherEnv", disable_env_checker=True)
    for offered in entry_points(group="rasf.environments"):
        offered.load()()


def is_registered(env_id: str) -> bool:
    """Return whether an id is registered. For an unknown id, first import MO-Gymnasium, which may register the id."""
    if env_id not in registry:
        with contextlib.suppress(ImportError):
            import mo_gymnasium  # noqa: F401  (the import registers ids)
    return env_id in registry


def registered_kwargs(env_id: str) -> dict[str, object]:
    """Return the keyword arguments with which an id is registered, {} for an unknown id."""
    return registry[env_id].kwargs if is_registered(env_id) else {}
