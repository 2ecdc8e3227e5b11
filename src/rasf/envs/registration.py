"""Gymnasium ids of rasf's environments; called on `import rasf`, since Gymnasium loads no plugins by itself."""

from __future__ import annotations

from gymnasium.envs.registration import register


def register_environments() -> None:
    """Register every id once. The checker is off because it does not know vector rewards."""
    register("rasf/Grid-v0", "rasf.envs.grid_env:GridEnv", max_episode_steps=35, disable_env_checker=True)
    register("rasf/FourRoom-v0", "rasf.envs.four_room_env:FourRoomEnv", disable_env_checker=True)
    register("rasf/Reacher-v0", "rasf.envs.reacher_env:ReacherEnv", disable_env_checker=True)
