"""MO-Gymnasium's mountain car: time, and the two engines."""

from rasf.envs.gymnasium.single import Step
from rasf_lab.suite.cases import Case


def stranded(step: Step) -> bool:
    """Out of time below the top."""
    return step.truncated and not step.terminated


CASE = Case(
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
    settings={"lasting": True},  # single random actions never swing it up
    actings=(
        "neutral", "mean-variance:-0.01", "mean-variance:-0.05", "mean-variance:-0.2", "cvar:0.1", "static cvar:0.1",
        "price 1", "price 3",
    ),
    episodes=20,
    max_steps=200,
)  # fmt: skip
