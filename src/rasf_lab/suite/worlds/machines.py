"""Machines that wear out, one crew, prices that change from week to week (`rasf.envs.operations`)."""

from rasf.envs.operations import MACHINES_FEATURES, machines
from rasf_lab.suite.cases import Case, best_return

_WEEKS = 52

CASE = Case(
    env="rasf/Machines-v0",
    about="three machines wear out, one crew overhauls or replaces (Hillier and Lieberman's problem, three at once)",
    features=MACHINES_FEATURES,
    tasks=((-1, -2, -4, -2, 0), (-2, -1, -4, -3, 0), (-0.5, -3, -6, -1, 0), (-1, -2, -3, -4, -5)),
    unseen=(
        (-1.5, -2, -4, -2, 0), (-1, -1, -5, -2, 0), (-0.7, -2, -3, -3, -1), (-1, -4, -4, -1, 0), (-2, -2, -8, -2, -2),
        (-1, -2, -4, -5, 0), (-0.5, -1, -2, -1, -3), (-3, -2, -4, -2, 0), (-1, -1.5, -6, -3, -4),
        (-1.2, -2.5, -5, -1.5, 0),
    ),
    steps_per_task=20_000,
    failures="machines that break down",
    failure=lambda step: bool(step.phi[4] > 0),
    priced=4,
    agent="rasf-model",
    risk=("neutral", "mean-variance:-0.05"),
    settings={"gamma": 0.95},
    actings=(
        "neutral", "mean-variance:-0.005", "mean-variance:-0.01", "mean-variance:-0.02", "mean-variance:-0.05",
        "cvar:0.1", "static cvar:0.1", "limit 2", "price 1", "price 3", "price 10", "price 30",
    ),
    episodes=100,
    max_steps=_WEEKS,
    optimum=lambda w, gamma: best_return(machines(gamma=gamma), w, _WEEKS),
)  # fmt: skip
