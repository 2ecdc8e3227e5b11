"""Stock whose prices change from day to day (`rasf.envs.operations`), in a larger shop than the book's."""

from rasf.envs.operations import INVENTORY_FEATURES, inventory
from rasf_lab.suite.cases import Case, best_return

_DEMAND = (0.05, 0.1, 0.15, 0.2, 0.2, 0.12, 0.08, 0.06, 0.04)
_CAPACITY, _MONTHS = 12, 36

CASE = Case(
    env="rasf/Inventory-v0",
    env_kwargs={"capacity": _CAPACITY, "demand": list(_DEMAND)},
    about="order stock for random demand; a price list is a weighting (Puterman's problem, in a larger shop)",
    features=INVENTORY_FEATURES,
    tasks=((8, -2, -4, -1, 0), (8, -5, -4, -1, 0), (8, -2, -12, -0.5, 0), (5, -1, -2, -2, -2)),
    unseen=(
        (8, -3, -4, -1, 0), (8, -2, -8, -1, 0), (8, -2, -4, -2, 0), (10, -6, -3, -0.5, -1), (6, -1, -6, -1.5, 0),
        (8, -4, -4, -0.3, -2), (12, -8, -5, -1, 0), (7, -3, -2, -0.8, -1), (9, -2, -15, -0.7, 0),
        (8, -2.5, -5, -1.2, -0.5),
    ),
    steps_per_task=20_000,
    failures="units of demand lost",
    failure=lambda step: bool(step.phi[4] > 0),
    priced=4,
    agent="rasf-model",
    risk=("neutral", "mean-variance:-0.05"),
    # an untried action is worth so many of the largest rewards: here they come for ever, 1 / (1 - gamma) of them
    settings={"gamma": 0.95, "optimism": 20.0},
    actings=(
        "neutral", "mean-variance:-0.005", "mean-variance:-0.01", "mean-variance:-0.02", "mean-variance:-0.05",
        "cvar:0.1", "static cvar:0.1", "limit 5", "price 1", "price 3", "price 10", "price 30",
    ),
    episodes=100,
    max_steps=_MONTHS,
    optimum=lambda w, gamma: best_return(inventory(_CAPACITY, _DEMAND, gamma), w, _MONTHS),
)  # fmt: skip
