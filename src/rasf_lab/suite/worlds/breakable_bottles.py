"""MO-Gymnasium's breakable bottles: carry two at once and one may drop, for good."""

from rasf.envs.gymnasium.single import Step
from rasf_lab.suite.cases import Case


def dropped(step: Step) -> bool:
    """A bottle."""
    return bool(step.phi[2] < 0)


CASE = Case(
    env="breakable-bottles-v0",
    about="deliver two bottles; whoever carries both at once drops one with probability 0.1 a step",
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
