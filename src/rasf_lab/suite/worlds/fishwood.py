"""MO-Gymnasium's fishwood: wood comes in nine of ten tries, a fish in one."""

from rasf.envs.gymnasium.single import Step
from rasf_lab.suite.cases import Case


def empty_handed(step: Step) -> bool:
    """A step that brought nothing."""
    return not step.phi.any()


CASE = Case(
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
