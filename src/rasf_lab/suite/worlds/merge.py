"""Driving past a ramp from which a car joins."""

from rasf_lab.suite.cases import DQN_ON_ROADS, DQN_STEPS, ON_ROADS, Case

CASE = Case(
    env="rasf/Merge-v0",
    about="two lanes, some cars, and one that joins from a ramp (highway-env's merge-v1)",
    features=("speed", "right lane", "lane changes", "slowed mergers", "collision"),
    tasks=((1, 0, -0.1, -0.5, -1), (0.5, 0.5, -0.2, 0, -1), (0.3, 0, 0, -1, -2), (1, 0.2, -0.05, -0.2, -4)),
    unseen=(
        (0.5, 0.1, -0.05, -0.5, -1), (1, 0, -0.1, 0, -0.5), (1, 0.3, -0.1, -0.3, -3), (0.2, 0.4, -0.1, -0.5, -1),
        (0.7, 0.2, 0, -1, -2), (0.3, 0.3, -0.3, 0, -0.5), (1, 0.1, -0.02, -0.1, -1), (0.6, 0, -0.2, -0.8, -3),
        (0.8, 0.4, -0.1, 0, -0.2), (0.4, 0.2, -0.05, -0.2, -2),
    ),
    steps_per_task=30_000,
    failures="collisions",
    priced=4,
    settings={"gamma": 0.9, "n_step": 1, "once": (4,)},
    actings=ON_ROADS,
    episodes=40,
    max_steps=40,
    gauge="speed",
    rival=DQN_ON_ROADS,
    rival_steps=DQN_STEPS,
)  # fmt: skip
