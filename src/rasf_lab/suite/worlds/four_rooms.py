"""MO-Gymnasium's four rooms: shapes to collect, nothing random."""

from rasf.envs.gymnasium.single import Step
from rasf_lab.suite.cases import Case


def lost(step: Step) -> bool:
    """Out of time before the goal."""
    return step.truncated and not step.terminated


CASE = Case(
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
    failure=lost,
    agent="rasf-model",
    risk=("neutral", "mean-variance:-1"),
    settings={"gamma": 0.9},
    actings=("neutral", "mean-variance:-0.5", "mean-variance:-2", "cvar:0.1", "static cvar:0.1"),
    episodes=10,
    max_steps=200,
)  # fmt: skip
