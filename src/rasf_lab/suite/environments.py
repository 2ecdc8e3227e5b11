"""The cases of the suite by name, and the functions that mark failures in their environments."""

from __future__ import annotations

from dataclasses import replace

from rasf.envs.gymnasium.single import Step
from rasf_lab.operations import INVENTORY_FEATURES, MACHINES_FEATURES, POWER_FEATURES, inventory, machines, power
from rasf_lab.suite.cases import DQN_ON_ROADS, DQN_STEPS, ON_ROADS, Case, best_return


def dropped(step: Step) -> bool:
    """Return whether the agent dropped a bottle."""
    return bool(step.phi[2] < 0)


BREAKABLE_BOTTLES = Case(
    env="breakable-bottles-v0",
    about="deliver two bottles; an agent that carries both at once drops one with probability 0.1 a step",
    features=("time (-1)", "delivered", "dropped (-1)"),
    tasks=((1, 1, 1), (1, 1, 10), (1, 0.5, 3)),
    unseen=(
        (1, 1, 2), (1, 1, 5), (1, 0.5, 1), (1, 2, 10), (0.5, 1, 3), (2, 1, 5), (1, 0.7, 7), (0.3, 0.3, 1),
        (1, 1.5, 0.5), (1, 0.4, 4),
    ),
    steps_per_task=30_000,
    failures="bottles dropped",
    failure=dropped,
    priced=2,
    harm=-1,
    agent="rasf-model",
    risk=("neutral", "mean-variance:-0.5"),
    settings={"gamma": 0.95},
    actings=(
        "neutral", "mean-variance:-0.05", "mean-variance:-0.1", "mean-variance:-0.25", "mean-variance:-0.5", "cvar:0.1",
        "static cvar:0.1", "limit 0.05", "price 2", "price 5", "price 10", "price 20", "price 50",
    ),
    episodes=100,
    max_steps=100,
)  # fmt: skip


def out_of_time(step: Step) -> bool:
    """Return whether the time limit ended the episode."""
    return step.truncated and not step.terminated


DEEP_SEA_TREASURE = Case(
    env="deep-sea-treasure-v0",
    about="deeper treasures are larger and take longer; nothing is random",
    features=("treasure", "time (-1)"),
    tasks=((1, 0.1), (1, 1), (1, 3)),
    unseen=(
        (1, 0.4), (1, 0.2), (1, 0.7), (1, 1.5), (1, 2), (1, 4), (0.5, 0.3), (2, 1), (1, 0.9), (0.3, 1),
    ),
    steps_per_task=30_000,
    failures="dives without a treasure",
    failure=out_of_time,
    priced=1,
    harm=-1,
    agent="rasf-model",
    risk=("neutral", "mean-variance:-1"),
    settings={"gamma": 0.98, "epsilon": 0.5, "margin": 100},
    actings=(
        "neutral", "mean-variance:-0.1", "mean-variance:-1", "cvar:0.1", "static cvar:0.1", "price 0.5", "price 2",
    ),
    episodes=10,
    max_steps=100,
)  # fmt: skip


def empty_handed(step: Step) -> bool:
    """Return whether a step brought neither wood nor fish."""
    return not step.phi.any()


FISHWOOD = Case(
    env="fishwood-v0",
    about="200 turns of fetching wood (nine tries of ten succeed) or fish (one of ten)",
    features=("wood", "fish"),
    tasks=((1, 1), (0.1, 1), (0.05, 1)),
    unseen=(
        (1, 2), (1, 5), (1, 8), (1, 9.5), (1, 11), (1, 15), (0.2, 1), (0.5, 6), (0.1, 1.2), (2, 17),
    ),
    steps_per_task=20_000,
    failures="turns that bring nothing",
    failure=empty_handed,
    priced=1,
    harm=1,
    agent="rasf-model",
    risk=("neutral", "mean-variance:-1"),
    settings={"gamma": 0.95},
    actings=(
        "neutral", "mean-variance:-0.05", "mean-variance:-0.2", "mean-variance:-1", "cvar:0.1", "static cvar:0.1",
        "price 1", "price 3", "price 10",
    ),
    episodes=50,
    max_steps=200,
)  # fmt: skip

FOUR_ROOMS = Case(
    env="four-room-v0",
    about="collect shapes of three kinds on the way to the goal; nothing is random",
    features=("triangles", "squares", "circles"),
    tasks=((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    unseen=(
        (1, 0.5, -0.5), (-0.5, 1, 1), (0.3, 0.6, 0.9), (1, 1, 1), (1, -1, 0), (0, 1, -0.5), (-1, 0, 1), (0.5, 0.5, -1),
        (0.2, 1, 0.2), (1, 0, 1),
    ),
    steps_per_task=40_000,
    failures="walks that do not arrive",
    failure=out_of_time,
    agent="rasf-model",
    risk=("neutral", "mean-variance:-1"),
    settings={"gamma": 0.9},
    actings=("neutral", "mean-variance:-0.5", "mean-variance:-2", "cvar:0.1", "static cvar:0.1"),
    episodes=10,
    max_steps=200,
)  # fmt: skip

_POOR = 15.0  # fruits whose nutrients sum to less than this are poor; the sums of the richest fruits are over 20


def poor_fruit(step: Step) -> bool:
    """Return whether the episode ended with a fruit that has few nutrients."""
    return step.terminated and bool(step.phi.sum() < _POOR)


FRUIT_TREE = Case(
    env="fruit-tree-v0",
    about="six branchings lead to one of 64 fruits with six nutrients; nothing is random",
    features=("protein", "carbohydrates", "fats", "vitamins", "minerals", "water"),
    tasks=((1, 0, 0, 0, 0, 0), (0, 1, 0, 0, 0, 0), (0, 0, 1, 0, 0, 0), (0, 0, 0, 1, 0, 0), (0, 0, 0, 0, 1, 0),
           (0, 0, 0, 0, 0, 1), (1, 1, 1, 1, 1, 1)),
    unseen=(
        (1, 1, 0, 0, 0, 0), (0, 0, 1, 1, 0, 0), (0, 0, 0, 0, 1, 1), (1, 0, 0.5, 0, 0.5, 0),
        (0.2, 0.3, 0.1, 0.2, 0.1, 0.1), (0.1, 0.1, 0.1, 0.1, 0.1, 0.5), (0, 1, 0, 1, 0, 1),
        (1, 0, 1, 0, 1, 0), (0.5, 0.5, 0.2, 0.1, 0, 0), (0, 0.1, 0.4, 0.4, 0.1, 0),
    ),
    steps_per_task=10_000,
    failures="poor fruits",
    failure=poor_fruit,
    agent="rasf-model",
    risk=("neutral", "mean-variance:-1"),
    settings={"gamma": 0.95, "epsilon": 0.3},
    actings=("neutral", "mean-variance:-0.5", "mean-variance:-2", "cvar:0.1", "static cvar:0.1"),
    episodes=10,
    max_steps=20,
)  # fmt: skip

HIGHWAY = Case(
    env="rasf/Highway-v0",
    about="thirty seconds among twenty cars on three lanes (MO-Gymnasium's mo-highway-fast-v0)",
    features=("speed", "right lane", "collision"),
    tasks=((1, 0.2, -1), (0.4, 0.6, -1), (0.3, 0.1, -2), (1, 0, -4)),
    unseen=(
        (0.4, 0.1, -1), (1, 0.2, -3), (0.2, 0.8, -0.5), (0.8, 0, -0.5), (0.6, 0.3, -2), (1, 0, -1), (0.5, 0.5, -1),
        (0.3, 0.3, -3), (0.7, 0.1, -0.2), (0.2, 0.2, -0.5),
    ),
    steps_per_task=30_000,
    failures="collisions",
    priced=2,
    settings={"gamma": 0.9, "n_step": 1, "once": (2,)},
    actings=ON_ROADS,
    episodes=50,
    max_steps=40,
    gauge="speed",
    rival=DQN_ON_ROADS,
    rival_steps=DQN_STEPS,
)  # fmt: skip

INTERSECTION = Case(
    env="rasf/Intersection-v0",
    about="turn left across a busy road without lights, by speed alone (highway-env's intersection-v2)",
    features=("speed", "arrived", "collision"),
    tasks=((1, 1, -1), (0.3, 1, -2), (0.2, 2, -5)),
    unseen=(
        (0.5, 1, -1), (1, 1, -3), (0.2, 1, -0.5), (1, 0.5, -0.5), (0.4, 2, -2), (0.3, 0.5, -1), (0.5, 1.5, -4),
        (0.8, 0.2, -2), (0.1, 1, -1), (0.6, 3, -3),
    ),
    steps_per_task=30_000,
    failures="collisions",
    priced=2,
    settings={"gamma": 0.9, "n_step": 1, "once": (2,), "objects": 7, "widths": (64, 64, 64, 64), "prioritised": 0.0},
    actings=ON_ROADS,
    episodes=40,
    max_steps=40,
    gauge="speed",
    rival=DQN_ON_ROADS,
    rival_steps=DQN_STEPS,
)  # fmt: skip

_SEEN = ["presence", "x", "y", "vx", "vy", "cos_h", "sin_h", "cos_d", "sin_d"]
_OBSERVATION = {
    "type": "Kinematics",
    "vehicles_count": 15,
    "features": _SEEN,
    "features_range": {"x": [-100, 100], "y": [-100, 100], "vx": [-20, 20], "vy": [-20, 20]},
    "absolute": True,
    "observe_intentions": True,
}
INTERSECTION_INTENTIONS = replace(
    INTERSECTION,
    about="the intersection, where the agent also observes the destinations of cars (highway-env's observe_intentions)",
    env_kwargs={"config": {"observation": _OBSERVATION}},
    settings={**INTERSECTION.settings, "objects": len(_SEEN)},
)

_DEMAND = (0.05, 0.1, 0.15, 0.2, 0.2, 0.12, 0.08, 0.06, 0.04)
_CAPACITY, _MONTHS = 12, 36
INVENTORY = Case(
    env="rasf/Inventory-v0",
    env_kwargs={"capacity": _CAPACITY, "demand": list(_DEMAND)},
    about="order stock for random demand; the weights are prices and costs (Puterman's problem, in a larger shop)",
    features=INVENTORY_FEATURES,
    tasks=((8, -2, -4, -1, 0), (8, -5, -4, -1, 0), (8, -2, -12, -0.5, 0), (5, -1, -2, -2, -2)),
    unseen=(
        (8, -3, -4, -1, 0), (8, -2, -8, -1, 0), (8, -2, -4, -2, 0), (10, -6, -3, -0.5, -1), (6, -1, -6, -1.5, 0),
        (8, -4, -4, -0.3, -2), (12, -8, -5, -1, 0), (7, -3, -2, -0.8, -1), (9, -2, -15, -0.7, 0),
        (8, -2.5, -5, -1.2, -0.5),
    ),
    steps_per_task=20_000,
    failures="months with lost demand",
    failure=lambda step: bool(step.phi[4] > 0),
    priced=4,
    agent="rasf-model",
    risk=("neutral", "mean-variance:-0.05"),
    # an untried action is scored as if every later step gave the largest reward: 1 / (1 - gamma) = 20 times this reward
    settings={"gamma": 0.95, "optimism": 20.0},
    actings=(
        "neutral", "mean-variance:-0.005", "mean-variance:-0.01", "mean-variance:-0.02", "mean-variance:-0.05",
        "cvar:0.1", "static cvar:0.1", "limit 5", "price 1", "price 3", "price 10", "price 30",
    ),
    episodes=100,
    max_steps=_MONTHS,
    optimum=lambda w, gamma: best_return(inventory(_CAPACITY, _DEMAND, gamma), w, _MONTHS),
)  # fmt: skip


def crashed(step: Step) -> bool:
    """Return whether the lander crashed, which gives a reward of -100."""
    return bool(step.phi[0] <= -50)


LUNAR_LANDER = Case(
    env="mo-lunar-lander-v3",
    env_kwargs={"enable_wind": True, "wind_power": 10.0, "turbulence_power": 1.0},
    about="land between two flags in gusts of wind, with little fuel",
    features=("end (+100, -100)", "shaping", "main engine (-1)", "side engines (-1)"),
    tasks=((1, 1, 0.1, 0.01), (1, 0.5, 0.3, 0.03), (1, 1, 0.6, 0.2)),
    unseen=(
        (1, 0.8, 0.2, 0.1), (1, 1, 0.4, 0.02), (1, 0.7, 0.5, 0.05), (2, 1, 0.3, 0.03), (0.5, 1, 0.5, 0.1), (1, 1, 0, 0),
        (1, 0.6, 0.1, 0.3), (1.5, 0.5, 0.6, 0.1), (0.7, 0.7, 0.3, 0.2), (1, 1, 0.8, 0.1),
    ),
    steps_per_task=100_000,
    failures="crashes",
    failure=crashed,
    priced=0,
    harm=-1,
    actings=(
        "neutral", "mean-variance:-0.002", "mean-variance:-0.005", "mean-variance:-0.02", "cvar:0.1", "static cvar:0.1",
        "price 0.5", "price 1", "price 3",
    ),
    episodes=20,
    max_steps=600,
)  # fmt: skip

_WEEKS = 52
MACHINES = Case(
    env="rasf/Machines-v0",
    about="three machines wear out; one crew overhauls or replaces them (Hillier and Lieberman's problem, times three)",
    features=MACHINES_FEATURES,
    tasks=((-1, -2, -4, -2, 0), (-2, -1, -4, -3, 0), (-0.5, -3, -6, -1, 0), (-1, -2, -3, -4, -5)),
    unseen=(
        (-1.5, -2, -4, -2, 0), (-1, -1, -5, -2, 0), (-0.7, -2, -3, -3, -1), (-1, -4, -4, -1, 0), (-2, -2, -8, -2, -2),
        (-1, -2, -4, -5, 0), (-0.5, -1, -2, -1, -3), (-3, -2, -4, -2, 0), (-1, -1.5, -6, -3, -4),
        (-1.2, -2.5, -5, -1.5, 0),
    ),
    steps_per_task=20_000,
    failures="weeks with a breakdown",
    failure=lambda step: bool(step.phi[4] > 0),
    priced=4,
    agent="rasf-model",
    risk=("neutral", "mean-variance:-0.05"),
    settings={"gamma": 0.95},
    actings=(
        "neutral", "mean-variance:-0.005", "mean-variance:-0.01", "mean-variance:-0.02", "mean-variance:-0.05",
        "cvar:0.1", "static cvar:0.1", "limit 2", "price 1", "price 3", "price 10", "price 30",
    ),
    episodes=100,
    max_steps=_WEEKS,
    optimum=lambda w, gamma: best_return(machines(gamma=gamma), w, _WEEKS),
)  # fmt: skip

MERGE = Case(
    env="rasf/Merge-v0",
    about="two lanes with some cars, and one car that joins from a ramp (highway-env's merge-v1)",
    features=("speed", "right lane", "lane changes", "slowed mergers", "collision"),
    tasks=((1, 0, -0.1, -0.5, -1), (0.5, 0.5, -0.2, 0, -1), (0.3, 0, 0, -1, -2), (1, 0.2, -0.05, -0.2, -4)),
    unseen=(
        (0.5, 0.1, -0.05, -0.5, -1), (1, 0, -0.1, 0, -0.5), (1, 0.3, -0.1, -0.3, -3), (0.2, 0.4, -0.1, -0.5, -1),
        (0.7, 0.2, 0, -1, -2), (0.3, 0.3, -0.3, 0, -0.5), (1, 0.1, -0.02, -0.1, -1), (0.6, 0, -0.2, -0.8, -3),
        (0.8, 0.4, -0.1, 0, -0.2), (0.4, 0.2, -0.05, -0.2, -2),
    ),
    steps_per_task=30_000,
    failures="collisions",
    priced=4,
    settings={"gamma": 0.9, "n_step": 1, "once": (4,)},
    actings=ON_ROADS,
    episodes=40,
    max_steps=40,
    gauge="speed",
    rival=DQN_ON_ROADS,
    rival_steps=DQN_STEPS,
)  # fmt: skip


def sold_nothing(step: Step) -> bool:
    """Return whether the episode ended without a sale."""
    return (step.terminated or step.truncated) and bool(step.phi[:2].sum() == 0)


MINECART = Case(
    env="minecart-v0",
    env_kwargs={"max_episode_steps": 300},  # instead of 1,000: a cart that is not home by then sells nothing
    about="dig two ores and sell them at home; the amount found is random",
    features=("ore 1", "ore 2", "fuel (-1)"),
    tasks=((1, 0, 0.1), (0, 1, 0.1), (1, 1, 0.05)),
    unseen=(
        (0.7, 0.3, 0.2), (0.3, 0.7, 0.2), (0.5, 0.5, 0.05), (1, 0.5, 0.1), (0.5, 1, 0.1), (0.9, 0.1, 0.05),
        (0.1, 0.9, 0.05), (0.6, 0.4, 0.3), (1, 1, 0.2), (0.4, 0.8, 0.02),
    ),
    steps_per_task=60_000,
    failures="trips that sell nothing",
    failure=sold_nothing,
    priced=2,
    harm=-1,
    actings=(
        "neutral", "mean-variance:-0.5", "mean-variance:-2", "mean-variance:-8", "cvar:0.1", "static cvar:0.1",
        "price 0.1", "price 0.3",
    ),
    episodes=20,
    max_steps=300,
)  # fmt: skip

_FAR = 0.5  # the arm is far from a target if the target's feature, which grows with closeness, is below 0.5


def far_off(step: Step) -> bool:
    """Return whether the arm is far from every target at the time limit."""
    return step.truncated and bool(step.phi.max() < _FAR)


MO_REACHER = Case(
    env="mo-reacher-v5",
    about="hold an arm near one of four targets, of which each has its weight; only the start is random",
    features=("right", "left", "up", "down"),
    tasks=((1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1)),
    unseen=(
        (1, 1, 0, 0), (0, 1, 1, 0), (0, 0, 1, 1), (1, 0, 0, 1), (1, 0.5, 0.2, 0), (0.2, 1, 0.5, 0), (0, 0.2, 1, 0.5),
        (0.5, 0, 0.2, 1), (1, 0, 1, 0), (0.7, 0.7, 0.7, 0),
    ),
    steps_per_task=15_000,
    failures="arms that end far from all targets",
    failure=far_off,
    settings={"gamma": 0.9},
    actings=(
        "neutral", "mean-variance:-0.5", "mean-variance:-2", "mean-variance:-8", "cvar:0.1", "static cvar:0.1",
    ),
    episodes=20,
    max_steps=50,
)  # fmt: skip


def stranded(step: Step) -> bool:
    """Return whether the time limit ended the episode before the car was at the top."""
    return step.truncated and not step.terminated


MOUNTAIN_CAR = Case(
    env="mo-mountaincar-v0",
    about="swing up a hill with a weak engine; only the start is random",
    features=("time (-1)", "reverse (-1)", "forward (-1)"),
    tasks=((1, 0.1, 0.1), (1, 1, 0), (1, 0, 1)),
    unseen=(
        (1, 0, 0), (1, 0.5, 0.1), (1, 0.1, 0.5), (1, 0.3, 0.3), (0.5, 0.2, 0.2), (1, 0.7, 0), (1, 0, 0.7),
        (2, 0.5, 0.5), (1, 0.2, 0.4), (1, 0.4, 0.2),
    ),
    steps_per_task=40_000,
    failures="cars that do not arrive",
    failure=stranded,
    priced=0,
    harm=-1,
    settings={"epsilon_z": True},  # single random actions do not swing the car up the hill
    actings=(
        "neutral", "mean-variance:-0.01", "mean-variance:-0.05", "mean-variance:-0.2", "cvar:0.1", "static cvar:0.1",
        "price 1", "price 3",
    ),
    episodes=20,
    max_steps=200,
)  # fmt: skip

_HOURS = 48
POWER = Case(
    env="rasf/Power-v0",
    about="get a unit of electricity every hour: by contract, on a calm or tense spot market, or from a battery",
    features=POWER_FEATURES,
    tasks=((-0.9, -1, -0.05), (-1, -1, -0.02), (-0.75, -1, -0.1), (-0.85, -1.1, 0)),
    unseen=(
        (-0.95, -1, -0.05), (-0.88, -1.05, -0.02), (-1.1, -1, -0.05), (-0.9, -1.05, 0), (-1, -1.1, -0.1),
        (-0.85, -1, -0.03), (-1.2, -1.2, -0.05), (-0.92, -1.1, -0.01), (-1.05, -1, 0), (-0.98, -1.15, -0.04),
    ),
    steps_per_task=20_000,
    failures="hours in which over 2.5 is paid on the spot market",
    failure=lambda step: bool(step.phi[1] > 2.5),
    priced=1,
    agent="rasf-model",
    risk=("neutral", "mean-variance:-1"),
    settings={"gamma": 0.95},
    actings=(
        "neutral", "mean-variance:-0.05", "mean-variance:-0.1", "mean-variance:-0.2", "mean-variance:-0.5",
        "mean-variance:-1", "cvar:0.1", "static cvar:0.1", "price 0.02", "price 0.05", "price 0.1", "price 0.2",
        "price 0.5",
    ),
    episodes=100,
    max_steps=_HOURS,
    optimum=lambda w, gamma: best_return(power(gamma=gamma), w, _HOURS),
)  # fmt: skip


def killed(step: Step) -> bool:
    """Return whether an enemy killed the agent."""
    return bool(step.phi[0] < 0)


RESOURCE_GATHERING = Case(
    env="resource-gathering-v0",
    about="fetch gold and a gem, past enemies that kill with probability 0.1",
    features=("killed (-1)", "gold", "gem"),
    tasks=((1, 1, 1), (1, 1, 0.2), (0.2, 0.5, 1)),
    unseen=(
        (0.5, 1, 1), (0.2, 1, 0.2), (1, 2, 1), (0.5, 1, 2), (0.1, 1, 1), (2, 1, 1), (1, 0.3, 1), (0.3, 0.6, 0.3),
        (0.05, 0.2, 1), (0.8, 1.5, 1.5),
    ),
    steps_per_task=50_000,
    failures="deaths",
    failure=killed,
    priced=0,
    harm=-1,
    agent="rasf-model",
    risk=("neutral", "mean-variance:-4"),
    settings={"gamma": 0.9},
    actings=(
        "neutral", "mean-variance:-0.5", "mean-variance:-1", "mean-variance:-2", "mean-variance:-4", "cvar:0.1",
        "static cvar:0.1", "limit 0.02", "price 0.5", "price 1", "price 2", "price 4", "price 10",
    ),
    episodes=200,
    max_steps=100,
)  # fmt: skip

ROUNDABOUT = Case(
    env="rasf/Roundabout-v0",
    about="eleven seconds into and out of a roundabout with two lanes (highway-env's roundabout-v1)",
    features=("speed", "lane changes", "collision"),
    tasks=((1, -0.1, -1), (0.3, -0.3, -1), (0.5, -0.05, -4)),
    unseen=(
        (0.5, -0.1, -1), (1, -0.05, -3), (0.2, -0.05, -0.5), (1, 0, -0.5), (0.4, -0.2, -2), (0.7, -0.1, -0.2),
        (0.3, -0.1, -3), (0.6, -0.3, -1), (0.8, -0.02, -2), (0.2, -0.2, -1),
    ),
    steps_per_task=30_000,
    failures="collisions",
    priced=2,
    settings={"gamma": 0.9, "n_step": 1, "once": (2,)},
    actings=ON_ROADS,
    episodes=40,
    max_steps=40,
    gauge="speed",
    rival=DQN_ON_ROADS,
    rival_steps=DQN_STEPS,
)  # fmt: skip

CASES: dict[str, Case] = {
    "breakable-bottles": BREAKABLE_BOTTLES,
    "deep-sea-treasure": DEEP_SEA_TREASURE,
    "fishwood": FISHWOOD,
    "four-rooms": FOUR_ROOMS,
    "fruit-tree": FRUIT_TREE,
    "highway": HIGHWAY,
    "intersection": INTERSECTION,
    "intersection-intentions": INTERSECTION_INTENTIONS,
    "inventory": INVENTORY,
    "lunar-lander": LUNAR_LANDER,
    "machines": MACHINES,
    "merge": MERGE,
    "minecart": MINECART,
    "mo-reacher": MO_REACHER,
    "mountain-car": MOUNTAIN_CAR,
    "power": POWER,
    "resource-gathering": RESOURCE_GATHERING,
    "roundabout": ROUNDABOUT,
}
