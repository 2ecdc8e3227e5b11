"""highway-env's roads as environments with a vector reward of named features, and with collisions as failures.

    rasf/Highway-v0        MO-Gymnasium's mo-highway-fast-v0: three lanes, 20 cars, 30 s
    rasf/Merge-v0          highway-env's merge-v1: a car joins from a ramp
    rasf/Roundabout-v0     roundabout-v1
    rasf/Intersection-v0   intersection-v2, without lights; actions only choose the speed

The features are those of highway-env's info["rewards"]. Features other than collision are 0 while the car is off the
road. This module adds the names of features and the signs of their weights: costs are positive features, and need
negative weights. An action is taken every second. The traffic is compiled (`CompiledTraffic`) and agrees with
highway-env's traffic in every step. The extra `suite` installs the requirements.

highway-env's intersection changes constants of the driver class, and thus the drivers of all environments in the same
Python process. Here, the reset of any other road restores the constants. If an intersection is reset during an episode
on another road, the remaining steps of this episode have the intersection's drivers.
"""

from __future__ import annotations

import math
import os
import warnings
from typing import Any, ClassVar, NamedTuple

import gymnasium
import numpy as np

from rasf.arrays import Floats
from rasf.checks import one_of


class Road(NamedTuple):
    """An environment, and for each feature: name, name in highway-env, bounds in a step, and sign of the weight."""

    env: str
    features: tuple[tuple[str, str, tuple[float, float], int], ...]


# IDMVehicle's defaults, in m and m/s^2
_DRIVERS = {"DISTANCE_WANTED": 10.0, "COMFORT_ACC_MAX": 3.0, "COMFORT_ACC_MIN": -5.0}
_SPEED, _COLLISION = ("speed", "high_speed_reward"), ("collision", "collision_reward", (0.0, 1.0), -1)
_CHANGES = ("lane changes", "lane_change_reward", (0.0, 1.0), -1)
ROADS = {
    "highway": Road(
        "mo-highway-fast-v0",
        ((*_SPEED, (0.0, 1.0), 1), ("right lane", "right_lane_reward", (0.0, 1.0), 1), _COLLISION),
    ),
    "merge": Road(
        "merge-v1",
        (
            (*_SPEED, (-2.0, 2.0), 1),
            ("right lane", "right_lane_reward", (0.0, 2.0), 1),
            _CHANGES,
            ("slowed mergers", "merging_speed_reward", (-1.0, 1.5), -1),
            _COLLISION,
        ),
    ),
    "roundabout": Road("roundabout-v1", ((*_SPEED, (0.0, 1.0), 1), _CHANGES, _COLLISION)),
    "intersection": Road(
        "intersection-v2", ((*_SPEED, (0.0, 1.0), 1), ("arrived", "arrived_reward", (0.0, 1.0), 1), _COLLISION)
    ),
}


class DrivingEnv(gymnasium.Env[Any, Any]):
    """A road of highway-env with a vector reward of features and with collisions as failures.

    Args:
        road: "highway", "merge", "roundabout" or "intersection". Default: "highway".
        config: settings of highway-env's environment, such as {"vehicles_count": 10}. Default: None, no changes.
        render_mode: None, "human" or "rgb_array". Default: None.
        compiled: whether the traffic is compiled; if False, highway-env's code runs, for comparison. Default: True.

    Raises:
        ValueError: the road is unknown, or highway-env or MO-Gymnasium is not installed.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["human", "rgb_array"], "render_fps": 5}  # as in highway-env

    def __init__(
        self,
        road: str = "highway",
        config: dict[str, Any] | None = None,
        render_mode: str | None = None,
        compiled: bool = True,
    ) -> None:
        one_of("road", road, ROADS)
        self._road, self.render_mode, self._usual_drivers = ROADS[road], render_mode, road != "intersection"
        self._env = _made(self._road.env, config, render_mode, compiled)
        self.observation_space, self.action_space = self._env.observation_space, self._env.action_space
        self.feature_names, names, bounds, self.signs = zip(*self._road.features, strict=True)
        self._names: tuple[str, ...] = names
        low, high = np.array(bounds).T
        self.reward_space = gymnasium.spaces.Box(low, high, dtype=np.float64)

    @property
    def max_episode_steps(self) -> int | None:
        """The number of steps after which highway-env truncates an episode; None for roads without a time limit."""
        config = self._env.unwrapped.config
        seconds = config.get("duration") if self._road.env != "merge-v1" else None
        return None if seconds is None else math.ceil(seconds * config["policy_frequency"])

    @property
    def highway_env(self) -> Any:
        """The wrapped environment of highway-env, with its road, vehicles and time."""
        return self._env.unwrapped

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        if self._usual_drivers:
            from highway_env.vehicle.behavior import IDMVehicle

            for name, value in _DRIVERS.items():
                setattr(IDMVehicle, name, value)
        obs, info = self._env.reset(seed=seed, options=options)
        return obs, info | {"failure": False}

    def step(self, action: Any) -> tuple[Any, Floats, bool, bool, dict[str, Any]]:
        obs, _, terminated, truncated, info = self._env.step(action)
        rewards = info["rewards"]
        phi = np.array([rewards[name] for name in self._names], np.float64) * float(rewards.get("on_road_reward", 1.0))
        crashed = bool(info["crashed"])
        phi[-1] = crashed  # the product is 0 if the collision pushed the car off the road
        return obs, phi, bool(terminated), bool(truncated), info | {"failure": crashed}

    def render(self) -> Any:
        return self._env.render()

    def close(self) -> None:
        self._env.close()


def _made(env: str, config: dict[str, Any] | None, render_mode: str | None, compiled: bool) -> gymnasium.Env[Any, Any]:
    # switch sound off; do not set SDL_VIDEODRIVER to "dummy", because highway-env then draws nothing
    os.environ.setdefault("SDL_AUDIODRIVER", "dummy")
    try:
        import highway_env  # noqa: F401  (registers highway-env's ids)
        import mo_gymnasium  # noqa: F401

        from rasf_lab.driving.wrapper import CompiledTraffic
    except ImportError as error:
        raise ValueError(f"driving needs highway-env and MO-Gymnasium: pip install 'rasf[suite]' ({error})") from None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings that spaces have single precision, or that an id has a newer version
        made = gymnasium.make(env, render_mode=render_mode, disable_env_checker=True, config=config)
    return CompiledTraffic(made) if compiled else made
