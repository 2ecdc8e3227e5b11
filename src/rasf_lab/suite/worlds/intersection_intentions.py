"""The same crossing, where everyone is told where the others are going, as by their indicators."""

from dataclasses import replace

from rasf_lab.suite.worlds.intersection import CASE as AS_IT_IS

_SEEN = ["presence", "x", "y", "vx", "vy", "cos_h", "sin_h", "cos_d", "sin_d"]
_OBSERVATION = {
    "type": "Kinematics",
    "vehicles_count": 15,
    "features": _SEEN,
    "features_range": {"x": [-100, 100], "y": [-100, 100], "vx": [-20, 20], "vy": [-20, 20]},
    "absolute": True,
    "observe_intentions": True,
}
CASE = replace(
    AS_IT_IS,
    about="the intersection, with highway-env's observe_intentions: the direction of everybody's destination is seen",
    env_kwargs={"config": {"observation": _OBSERVATION}},
    settings={**AS_IT_IS.settings, "objects": len(_SEEN)},
)
