"""The laboratory's environments as ids of Gymnasium, registered on `import rasf`: an entry point of rasf."""

from __future__ import annotations

from gymnasium.envs.registration import register


def register_environments() -> None:
    """Register the worlds of operations and the roads. The checker is off, as it does not know vector rewards."""
    for name, steps in (("Inventory", 36), ("Machines", 52), ("Power", 48)):
        env = f"rasf_lab.operations:{name}Env"
        register(f"rasf/{name}-v0", env, max_episode_steps=steps, disable_env_checker=True)
    for road in ("highway", "merge", "roundabout", "intersection"):
        made = {"entry_point": "rasf_lab.driving.roads:DrivingEnv", "kwargs": {"road": road}}
        register(f"rasf/{road.title()}-v0", **made, disable_env_checker=True)
