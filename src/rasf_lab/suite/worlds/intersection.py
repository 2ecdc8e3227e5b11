"""Turning left at a crossing without lights."""

from rasf_lab.suite.cases import DQN_ON_ROADS, DQN_STEPS, ON_ROADS, Case

CASE = Case(
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
    settings={"gamma": 0.9, "n_step": 1, "once": (2,), "objects": 7, "widths": (64, 64, 64, 64), "surprise": 0.0},
    actings=ON_ROADS,
    episodes=40,
    max_steps=40,
    gauge="speed",
    rival=DQN_ON_ROADS,
    rival_steps=DQN_STEPS,
)  # fmt: skip
