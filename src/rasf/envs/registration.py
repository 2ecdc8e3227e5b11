"""Gymnasium's ids: which it knows, and those of rasf, registered on `import rasf` since Gymnasium loads no plugins.

A package beside rasf offers environments by an entry point of the group `rasf.environments`: a function without
arguments that registers their ids. It runs on every `import rasf`, so its module should import nothing but Gymnasium.
"""

from __future__ import annotations

import contextlib
import re
from importlib.metadata import entry_points

import gymnasium
from gymnasium.envs.registration import register, registry

OLDEST_GYMNASIUM = (1, 1)  # as pyproject.toml has it


def require_supported_gymnasium() -> None:
    """Refuse a Gymnasium that is older than the oldest that rasf supports; another package may have downgraded it."""
    if tuple(map(int, re.findall(r"\d+", gymnasium.__version__)[:2])) < OLDEST_GYMNASIUM:
        oldest = ".".join(map(str, OLDEST_GYMNASIUM))
        raise ImportError(
            f"rasf needs Gymnasium {oldest} or newer, but {gymnasium.__version__} is installed, perhaps because "
            f"another package asked for it: pip install 'gymnasium>={oldest}'"
        )


def register_environments() -> None:
    """Register the ids of rasf and of packages beside it. The checker is off, as it does not know vector rewards."""
    register("rasf/Grid-v0", "rasf.envs.grid:GridEnv", max_episode_steps=35, disable_env_checker=True)
    register("rasf/FourRoom-v0", "rasf.envs.four_room:FourRoomEnv", disable_env_checker=True)
    register("rasf/Reacher-v0", "rasf.envs.reacher.env:ReacherEnv", disable_env_checker=True)
    for offered in entry_points(group="rasf.environments"):
        offered.load()()


def is_registered(env_id: str) -> bool:
    """Whether Gymnasium knows an id, or MO-Gymnasium does, without importing anything else."""
    if env_id not in registry:
        with contextlib.suppress(ImportError):
            import mo_gymnasium  # noqa: F401  (registers its ids)
    return env_id in registry


def registered_kwargs(env_id: str) -> dict[str, object]:
    """Give the keyword arguments that an id was registered with; none for an id that is not registered."""
    return registry[env_id].kwargs if is_registered(env_id) else {}
