"""MO-Gymnasium's reacher: an arm and four targets; only the start is random."""

from rasf.envs.gymnasium.single import Step
from rasf_lab.suite.cases import Case

_FAR = 0.5  # of the closeness to the best of four targets at an episode's end


def far_off(step: Step) -> bool:
    """Nowhere near any target when time is up."""
    return step.truncated and bool(step.phi.max() < _FAR)


CASE = Case(
    env="mo-reacher-v5",
    about="hold an arm near four targets, each with its price; only the start is random",
    features=("right", "left", "up", "down"),
    tasks=((1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1)),
    unseen=(
        (1, 1, 0, 0), (0, 1, 1, 0), (0, 0, 1, 1), (1, 0, 0, 1), (1, 0.5, 0.2, 0), (0.2, 1, 0.5, 0), (0, 0.2, 1, 0.5),
        (0.5, 0, 0.2, 1), (1, 0, 1, 0), (0.7, 0.7, 0.7, 0),
    ),
    steps_per_task=15_000,
    failures="arms that end far off",
    failure=far_off,
    settings={"gamma": 0.9},
    actings=(
        "neutral", "mean-variance:-0.5", "mean-variance:-2", "mean-variance:-8", "cvar:0.1", "static cvar:0.1",
    ),
    episodes=20,
    max_steps=50,
)  # fmt: skip
