"""Driving on a highway with three lanes and twenty other cars."""

from rasf_lab.suite.cases import DQN_ON_ROADS, DQN_STEPS, ON_ROADS, Case

CASE = Case(
    env="rasf/Highway-v0",
    about="thirty seconds among twenty cars on three lanes (MO-Gymnasium's mo-highway-fast-v0)",
    features=("speed", "right lane", "collision"),
    tasks=((1, 0.2, -1), (0.4, 0.6, -1), (0.3, 0.1, -2), (1, 0, -4)),
    unseen=(
        (0.4, 0.1, -1), (1, 0.2, -3), (0.2, 0.8, -0.5), (0.8, 0, -0.5), (0.6, 0.3, -2), (1, 0, -1), (0.5, 0.5, -1),
        (0.3, 0.3, -3), (0.7, 0.1, -0.2), (0.2, 0.2, -0.5),
    ),
    steps_per_task=30_000,
    failures="collisions",
    priced=2,
    settings={"gamma": 0.9, "n_step": 1, "once": (2,)},
    actings=ON_ROADS,
    episodes=50,
    max_steps=40,
    gauge="speed",
    rival=DQN_ON_ROADS,
    rival_steps=DQN_STEPS,
)  # fmt: skip
