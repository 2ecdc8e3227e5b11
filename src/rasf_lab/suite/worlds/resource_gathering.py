"""MO-Gymnasium's resource gathering: fetch gold and gem past enemies that kill with probability 0.1."""

from rasf.envs.gymnasium.single import Step
from rasf_lab.suite.cases import Case


def killed(step: Step) -> bool:
    """By an enemy."""
    return bool(step.phi[0] < 0)


CASE = Case(
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
