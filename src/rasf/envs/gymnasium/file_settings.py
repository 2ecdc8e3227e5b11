"""Settings of environments that may be taken from a file: a list of environments, settings and accepted values.

The file of a library or a log contains the id of its environment and the keyword arguments of `gymnasium.make`. The
file is not trusted. Some arguments of known environments import a module (`other_vehicles_type` of highway-env), open a
file (`config` of minecart, `xml_file` of MuJoCo) or allow unlimited work (`vehicles_count`). Therefore, `refused`
compares the settings of a file with a list of accepted values. All other settings must come from the user.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TypeAlias

Rule: TypeAlias = Callable[[object], bool]
Rules: TypeAlias = "dict[str, Rule | Rules]"


def refused(env_id: str | None, settings: Mapping[str, object]) -> tuple[str, object] | None:
    """Return the first setting that a file may not choose, or None if a file may choose all of them.

    Args:
        env_id: the environment's id, or None.
        settings: keyword arguments of the environment, as read from JSON.

    Returns:
        The name of the setting, such as config.vehicles_count, and its value.
    """
    name = re.sub(r"-v\d+$", "", env_id or "")
    return _first_refused(_ANY | _ENVIRONMENTS.get(name, {}), settings)


def _first_refused(rules: Rules, settings: Mapping[str, object], inside: str = "") -> tuple[str, object] | None:
    for name, value in settings.items():
        rule = rules.get(name)
        if isinstance(rule, dict):
            found = _first_refused(rule, value, f"{inside}{name}.") if isinstance(value, dict) else (name, value)
            if found is not None:
                return found
        elif rule is None or not rule(value):
            return f"{inside}{name}", value
    return None


def _flag(value: object) -> bool:
    return type(value) is bool


def _number(low: float, high: float) -> Rule:
    return lambda value: isinstance(value, int | float) and type(value) is not bool and low <= value <= high


def _whole(low: int, high: int) -> Rule:
    return lambda value: isinstance(value, int) and type(value) is not bool and low <= value <= high


def _one_of(*words: str | None) -> Rule:
    return lambda value: (value is None or type(value) is str) and value in words


def _list_of(rule: Rule, least: int, most: int) -> Rule:
    return lambda value: isinstance(value, list) and least <= len(value) <= most and all(map(rule, value))


def _or_none(rule: Rule) -> Rule:
    return lambda value: value is None or rule(value)


def _text(most: int) -> Rule:
    return lambda value: isinstance(value, str) and len(value) <= most


_SHARE, _ANY_NUMBER = _number(0.0, 1.0), _number(-1e9, 1e9)
_RANGE = _list_of(_ANY_NUMBER, 2, 2)
_MAP = _text(10_000)
_ANY: Rules = {"render_mode": _one_of(None, "ansi", "rgb_array")}  # "human" is not accepted, because it opens windows

_VEHICLES = "highway_env.vehicle.behavior."
_KINEMATICS = (
    "presence", "x", "y", "vx", "vy", "heading", "cos_h", "sin_h", "cos_d", "sin_d", "long_off", "lat_off", "ang_off",
)  # fmt: skip
_REWARDS = ("collision", "right_lane", "high_speed", "lane_change", "merging_speed", "arrived")
_OBSERVATION: Rules = {
    "type": _one_of("Kinematics"),
    "vehicles_count": _whole(1, 100),
    "features": _list_of(_one_of(*_KINEMATICS), 1, len(_KINEMATICS)),
    "features_range": dict.fromkeys(_KINEMATICS, _RANGE),
    "order": _one_of("sorted", "shuffled"),
    **dict.fromkeys(
        ("absolute", "normalize", "clip", "see_behind", "observe_intentions", "include_obstacles", "flatten"), _flag
    ),
}
_ACTION: Rules = {
    "type": _one_of("DiscreteMetaAction"),
    "longitudinal": _flag,
    "lateral": _flag,
    "target_speeds": _list_of(_number(-100, 100), 2, 20),
}
_CONFIG: Rules = {  # the settings of highway-env
    "observation": _OBSERVATION,
    "action": _ACTION,
    "other_vehicles_type": _one_of(
        *(f"{_VEHICLES}{kind}Vehicle" for kind in ("IDM", "Linear", "Aggressive", "Defensive"))
    ),
    "lanes_count": _whole(1, 10),
    "vehicles_count": _whole(0, 60),
    "initial_vehicle_count": _whole(0, 50),
    "controlled_vehicles": _whole(1, 1),
    "initial_lane_id": _or_none(_whole(0, 9)),
    "duration": _number(1, 1_000),
    "simulation_frequency": _whole(1, 30),
    "policy_frequency": _whole(1, 30),
    "ego_spacing": _number(0.1, 100),
    "vehicles_density": _number(0.1, 10),
    "spawn_probability": _SHARE,
    "destination": _one_of(None, "o0", "o1", "o2", "o3"),
    "incoming_vehicle_destination": _or_none(_whole(0, 3)),
    "reward_speed_range": _RANGE,
    **{f"{reward}_reward": _ANY_NUMBER for reward in _REWARDS},
    **dict.fromkeys(
        ("normalize_reward", "offroad_terminal", "neighbour_vehicles_connected_lanes", "offscreen_rendering"), _flag
    ),
    "screen_width": _whole(1, 4_000),
    "screen_height": _whole(1, 4_000),
    "centering_position": _RANGE,
    "scaling": _number(0.1, 100),
}
_HIGHWAY: Rules = {"config": _CONFIG}
_LAKE: Rules = {
    "desc": _or_none(_list_of(lambda row: isinstance(row, str) and len(row) <= 64 and {*row} <= {*"SFHG"}, 1, 64)),
    "map_name": _one_of(None, "4x4", "8x8"),
    "is_slippery": _flag,
    "success_rate": _SHARE,
    "reward_schedule": _list_of(_ANY_NUMBER, 3, 3),
}
_LANDER: Rules = {
    "continuous": _flag,
    "gravity": _number(-12, 0),
    "enable_wind": _flag,
    "wind_power": _number(0, 20),
    "turbulence_power": _number(0, 2),
}
_MOUNTAIN_CAR: Rules = {
    "goal_velocity": _ANY_NUMBER,
    **dict.fromkeys(("add_speed_objective", "remove_move_penalty", "merge_move_penalty"), _flag),
}
_ENVIRONMENTS: dict[str, Rules] = {  # keys are ids without their versions
    "rasf/Grid": {"layout": _MAP, "slip": _SHARE},
    "rasf/FourRoom": {"layout": _MAP, "trap_probability": _SHARE, "step_limit": _whole(1, 100_000)},
    "rasf/Inventory": {"capacity": _whole(1, 30), "demand": _list_of(_SHARE, 1, 30)},
    "rasf/Machines": {"count": _whole(1, 4)},
    "rasf/Power": {"capacity": _whole(1, 50)},
    "rasf/Reacher": {
        "engine": _one_of("closed_form", "mujoco"),
        "targets": _list_of(_list_of(_number(-10, 10), 2, 2), 1, 100),
        "risky": _list_of(_whole(0, 99), 0, 100),
        "radius": _number(0, 10),
        "failure_probability": _SHARE,
        "failure_cost": _number(0, 1e9),
        "action_noise": _number(0, 10),
        "episode_length": _whole(1, 100_000),
        "observation": _one_of("raw", "wrapped", "sincos"),
        "continuous": _flag,
    },
    **{f"rasf/{road}": _HIGHWAY | {"compiled": _flag} for road in ("Highway", "Merge", "Roundabout", "Intersection")},
    **dict.fromkeys(
        ("mo-highway", "mo-highway-fast", "highway", "highway-fast", "merge", "roundabout", "intersection"), _HIGHWAY
    ),
    "FrozenLake": _LAKE,
    "FrozenLake8x8": _LAKE,
    "CliffWalking": {"is_slippery": _flag},
    "CliffWalkingSlippery": {"is_slippery": _flag},
    "Taxi": {
        "is_rainy": _flag, "fickle_passenger": _flag, "rainy_probability": _SHARE, "fickle_probability": _SHARE,
    },
    "Blackjack": {"natural": _flag, "sab": _flag},
    "CartPole": {"sutton_barto_reward": _flag},
    "MountainCar": {"goal_velocity": _ANY_NUMBER},
    "LunarLander": _LANDER,
    "mo-lunar-lander": _LANDER,
    "breakable-bottles": {
        "size": _whole(3, 20), "prob_drop": _SHARE, "time_penalty": _ANY_NUMBER, "bottle_reward": _ANY_NUMBER,
        "unbreakable_bottles": _flag,
    },
    "deep-sea-treasure": {"float_state": _flag},
    "fishwood": {"fishproba": _SHARE, "woodproba": _SHARE},
    "fruit-tree": {"depth": _whole(5, 7)},
    "minecart": {"image_observation": _flag, "frame_skip": _whole(1, 100), "incremental_frane_skip": _flag},
    **dict.fromkeys((f"mo-mountaincar{kind}" for kind in ("", "-3d", "-timemove", "-timespeed")), _MOUNTAIN_CAR),
}  # fmt: skip
