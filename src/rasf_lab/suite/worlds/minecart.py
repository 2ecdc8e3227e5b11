"""MO-Gymnasium's minecart: two ores, fuel."""

from rasf.envs.gymnasium.single import Step
from rasf_lab.suite.cases import Case


def ran_dry(step: Step) -> bool:
    """The episode is over, and nothing was sold at its end."""
    return (step.terminated or step.truncated) and bool(step.phi[:2].sum() == 0)


CASE = Case(
    env="minecart-v0",
    env_kwargs={"max_episode_steps": 300},  # 1,000 by itself; a cart that is not back by then has sold nothing
    about="dig two ores and sell them at home; how much is found is random",
    features=("ore 1", "ore 2", "fuel (-1)"),
    tasks=((1, 0, 0.1), (0, 1, 0.1), (1, 1, 0.05)),
    unseen=(
        (0.7, 0.3, 0.2), (0.3, 0.7, 0.2), (0.5, 0.5, 0.05), (1, 0.5, 0.1), (0.5, 1, 0.1), (0.9, 0.1, 0.05),
        (0.1, 0.9, 0.05), (0.6, 0.4, 0.3), (1, 1, 0.2), (0.4, 0.8, 0.02),
    ),
    steps_per_task=60_000,
    failures="trips that sell nothing",
    failure=ran_dry,
    priced=2,
    harm=-1,
    actings=(
        "neutral", "mean-variance:-0.5", "mean-variance:-2", "mean-variance:-8", "cvar:0.1", "static cvar:0.1",
        "price 0.1", "price 0.3",
    ),
    episodes=20,
    max_steps=300,
)  # fmt: skip
