"""Driving through a roundabout."""

from rasf_lab.suite.cases import DQN_ON_ROADS, DQN_STEPS, ON_ROADS, Case

CASE = Case(
    env="rasf/Roundabout-v0",
    about="eleven seconds into and out of a roundabout with two lanes (highway-env's roundabout-v1)",
    features=("speed", "lane changes", "collision"),
    tasks=((1, -0.1, -1), (0.3, -0.3, -1), (0.5, -0.05, -4)),
    unseen=(
        (0.5, -0.1, -1), (1, -0.05, -3), (0.2, -0.05, -0.5), (1, 0, -0.5), (0.4, -0.2, -2), (0.7, -0.1, -0.2),
        (0.3, -0.1, -3), (0.6, -0.3, -1), (0.8, -0.02, -2), (0.2, -0.2, -1),
    ),
    steps_per_task=30_000,
    failures="collisions",
    priced=2,
    settings={"gamma": 0.9, "n_step": 1, "once": (2,)},
    actings=ON_ROADS,
    episodes=40,
    max_steps=40,
    gauge="speed",
    rival=DQN_ON_ROADS,
    rival_steps=DQN_STEPS,
)  # fmt: skip
