"""MO-Gymnasium's lunar lander, with wind."""

from rasf.envs.gymnasium.single import Step
from rasf_lab.suite.cases import Case


def crashed(step: Step) -> bool:
    """The lander's -100, as it comes to rest on anything but its legs."""
    return bool(step.phi[0] <= -50)


CASE = Case(
    env="mo-lunar-lander-v3",
    env_kwargs={"enable_wind": True, "wind_power": 10.0, "turbulence_power": 1.0},
    about="land between two flags in gusts of wind, with little fuel",
    features=("end (+100, -100)", "shaping", "main engine (-1)", "side engines (-1)"),
    tasks=((1, 1, 0.1, 0.01), (1, 0.5, 0.3, 0.03), (1, 1, 0.6, 0.2)),
    unseen=(
        (1, 0.8, 0.2, 0.1), (1, 1, 0.4, 0.02), (1, 0.7, 0.5, 0.05), (2, 1, 0.3, 0.03), (0.5, 1, 0.5, 0.1), (1, 1, 0, 0),
        (1, 0.6, 0.1, 0.3), (1.5, 0.5, 0.6, 0.1), (0.7, 0.7, 0.3, 0.2), (1, 1, 0.8, 0.1),
    ),
    steps_per_task=100_000,
    failures="crashes",
    failure=crashed,
    priced=0,
    harm=-1,
    actings=(
        "neutral", "mean-variance:-0.002", "mean-variance:-0.005", "mean-variance:-0.02", "cvar:0.1", "static cvar:0.1",
        "price 0.5", "price 1", "price 3",
    ),
    episodes=20,
    max_steps=600,
)  # fmt: skip
