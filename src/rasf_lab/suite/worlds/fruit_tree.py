"""MO-Gymnasium's fruit tree: six branchings to a fruit of six nutrients; nothing random."""

from rasf.envs.gymnasium.single import Step
from rasf_lab.suite.cases import Case

_POOR = 15.0  # all nutrients together; the richest fruits have over 20


def poor_fruit(step: Step) -> bool:
    """A fruit with little in it."""
    return step.terminated and bool(step.phi.sum() < _POOR)


CASE = Case(
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
