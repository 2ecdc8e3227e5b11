"""MO-Gymnasium's deep-sea treasure: nothing in it is random, so risk has nothing to say."""

from rasf.envs.gymnasium.single import Step
from rasf_lab.suite.cases import Case


def ran_dry(step: Step) -> bool:
    """Out of time without a treasure."""
    return step.truncated and not step.terminated


CASE = Case(
    env="deep-sea-treasure-v0",
    about="deeper treasures are larger and take longer; nothing is random",
    features=("treasure", "time (-1)"),
    tasks=((1, 0.1), (1, 1), (1, 3)),
    unseen=(
        (1, 0.4), (1, 0.2), (1, 0.7), (1, 1.5), (1, 2), (1, 4), (0.5, 0.3), (2, 1), (1, 0.9), (0.3, 1),
    ),
    steps_per_task=30_000,
    failures="dives without a treasure",
    failure=ran_dry,
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
