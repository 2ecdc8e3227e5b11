"""Electricity from a contract, a spot market that is calm or tense, and a battery (`rasf.envs.operations`)."""

from rasf.envs.operations import POWER_FEATURES, power
from rasf_lab.suite.cases import Case, best_return

_HOURS = 48

CASE = Case(
    env="rasf/Power-v0",
    about="a unit of electricity an hour, from a contract, a spot market that is calm or tense, or a battery",
    features=POWER_FEATURES,
    tasks=((-0.9, -1, -0.05), (-1, -1, -0.02), (-0.75, -1, -0.1), (-0.85, -1.1, 0)),
    unseen=(
        (-0.95, -1, -0.05), (-0.88, -1.05, -0.02), (-1.1, -1, -0.05), (-0.9, -1.05, 0), (-1, -1.1, -0.1),
        (-0.85, -1, -0.03), (-1.2, -1.2, -0.05), (-0.92, -1.1, -0.01), (-1.05, -1, 0), (-0.98, -1.15, -0.04),
    ),
    steps_per_task=20_000,
    failures="hours with more than 2.5 paid at spot",
    failure=lambda step: bool(step.phi[1] > 2.5),
    priced=1,
    agent="rasf-model",
    risk=("neutral", "mean-variance:-1"),
    settings={"gamma": 0.95},
    actings=(
        "neutral", "mean-variance:-0.05", "mean-variance:-0.1", "mean-variance:-0.2", "mean-variance:-0.5",
        "mean-variance:-1", "cvar:0.1", "static cvar:0.1", "price 0.02", "price 0.05", "price 0.1", "price 0.2",
        "price 0.5",
    ),
    episodes=100,
    max_steps=_HOURS,
    optimum=lambda w, gamma: best_return(power(gamma=gamma), w, _HOURS),
)  # fmt: skip
