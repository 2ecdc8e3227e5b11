"""Registration of the environments of `rasf_lab` with Gymnasium, through an entry point that `import rasf` calls."""

from __future__ import annotations

from gymnasium.envs.registration import register


def register_environments() -> None:
    """Register the environments without Gymnasium's checker, which rejects vector rewards."""
    for name, steps in (("Inventory", 36), ("Machines", 52), ("Power", 48)):
        env = f"rasf_lab.operations:{name}Env"
        register(f"rasf/{name}-v0", env, max_episode_steps=steps, disable_env_checker=True)
    for road in ("highway", "merge", "roundabout", "intersection"):
        made = {"entry_point": "rasf_lab.driving.roads:DrivingEnv", "kwargs": {"road": road}}
        register(f"rasf/{road.title()}-v0", **made, disable_env_checker=True)
