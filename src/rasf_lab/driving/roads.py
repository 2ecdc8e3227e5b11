"""highway-env's roads with features: a vector reward, names, signs, and a collision as the failure.

    rasf/Highway-v0        MO-Gymnasium's mo-highway-fast-v0: three lanes, 20 cars, 30 s
    rasf/Merge-v0          highway-env's merge-v1: a car joins from a ramp
    rasf/Roundabout-v0     roundabout-v1
    rasf/Intersection-v0   intersection-v2, without lights; the driver chooses speeds only

The features are those that the environment itself tells in info["rewards"], while the car is on the road; only their
names and signs are ours: what costs something is counted as positive and has negative weights. An action is taken every
second. Traffic is compiled (`CompiledTraffic`), step for step the same. The extra `suite` installs what is needed.

highway-env's intersection changes constants of all other drivers in the process. Here the other roads set them back as
an episode begins; only episodes that run at the same time as one at the intersection still meet its drivers.
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
    """An environment, and of each of its features: our name, highway-env's, bounds in a step, and the weight's sign."""

    env: str
    features: tuple[tuple[str, str, tuple[float, float], int], ...]


_DRIVERS = {"DISTANCE_WANTED": 10.0, "COMFORT_ACC_MAX": 3.0, "COMFORT_ACC_MIN": -5.0}  # m, m/s^2; of IDMVehicle
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
    """One of `ROADS`; config: what highway-env's environment takes, such as {"vehicles_count": 10}.

    compiled: False for highway-env's own traffic, to compare.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["human", "rgb_array"], "render_fps": 5}  # highway-env's

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
        """The steps after which highway-env truncates an episode; None on roads that end by themselves."""
        config = self._env.unwrapped.config
        seconds = config.get("duration") if self._road.env != "merge-v1" else None
        return None if seconds is None else math.ceil(seconds * config["policy_frequency"])

    @property
    def highway_env(self) -> Any:
        """highway-env's own object: road, vehicles, time."""
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
        told = info["rewards"]
        phi = np.array([told[name] for name in self._names], np.float64) * float(told.get("on_road_reward", 1.0))
        crashed = bool(info["crashed"])
        phi[-1] = crashed  # a car may be pushed off the road by what it hits
        return obs, phi, bool(terminated), bool(truncated), info | {"failure": crashed}

    def render(self) -> Any:
        return self._env.render()

    def close(self) -> None:
        self._env.close()


def _made(env: str, config: dict[str, Any] | None, render_mode: str | None, compiled: bool) -> gymnasium.Env[Any, Any]:
    # no sound; SDL_VIDEODRIVER must stay as it is, as highway-env draws nothing where it is "dummy"
    os.environ.setdefault("SDL_AUDIODRIVER", "dummy")
    try:
        import highway_env  # noqa: F401  (registers its ids)
        import mo_gymnasium  # noqa: F401

        from rasf_lab.driving.wrapper import CompiledTraffic
    except ImportError as error:
        raise ValueError(f"driving needs highway-env and MO-Gymnasium: pip install 'rasf[suite]' ({error})") from None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of spaces in single precision, and of newer versions
        made = gymnasium.make(env, render_mode=render_mode, disable_env_checker=True, config=config)
    return CompiledTraffic(made) if compiled else made
