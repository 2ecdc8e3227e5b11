"""Made-up measures: normalised returns and failures that rules of the reacher's claims are tried on."""

import numpy as np

from rasf.envs.reacher.world import Reacher
from rasf_lab.paper.reacher.beliefs import grid
from rasf_lab.paper.reacher.measures import RISKS, Measures, derived

SEEDS, EVALUATIONS = 6, 21
NAMES = [f"{agent} {risk}" for agent in ("rasfc51", "rac51") for risk in RISKS] + ["sfdqn 0"]


def by_risk(agent, values):
    return {f"{agent} {risk}": value for risk, value in zip(RISKS, values, strict=True)}


def several(first, second, n=SEEDS):
    """A number a seed, the same for all, or two by turns: an interval in between."""
    return np.where(np.arange(n) % 2, first, second)


def measured_of(arrays, **given):
    """Measures of these arrays, which are normalised already."""
    named = {name: {"seed": np.arange(SEEDS)} | derived(one) for name, one in arrays.items()}
    return Measures(named, **({"begin": np.zeros(12), "end": np.ones(12), "steps": np.arange(2.0)} | given))


def made_up(levels, failures, noise=0.01, evaluations=EVALUATIONS):
    """Measures whose normalised return and failures a task are these levels by name, with a little noise."""
    rng = np.random.default_rng(0)
    arrays = {}
    for name in NAMES:
        given = (levels.get(name, 0.5), failures.get(name, 1.0))
        curve = {
            key: np.full((SEEDS, evaluations, 12), level) + noise * rng.normal(size=(SEEDS, evaluations, 12))
            for key, level in zip(("return", "failures"), given, strict=True)
        }
        arrays[name] = curve | {
            "final_return": curve["return"][:, -1].copy(),
            "final_failures": curve["failures"][:, -1].copy(),
            "final_in_circle": np.full((SEEDS, 12), 0.8 if name == "rasfc51 0" else 0.1),
            "final_distance": np.full((SEEDS, 12), 0.2 if name.startswith("rac51") else 0.05),
        }
    return measured_of(arrays, steps=np.linspace(0, 1000, evaluations))


def without_seeds(measured, name, missing):
    """The same, but a label lacks these seeds."""
    arrays = measured.arrays[name]
    there = ~np.isin(arrays["seed"], missing)
    kept = {key: values[there] for key, values in arrays.items()}
    return Measures(measured.arrays | {name: kept}, measured.begin, measured.end, measured.steps)


def peaked_maps(wanted, inside=None, points=31):
    """Objective maps (seeds, 2 policies, 12, P) that peak so far from each risky target, a number a seed.

    inside (seeds, 12): whether in a circle. What safe targets have must not matter.
    """
    world, where = Reacher(), grid(points)
    tips = where.tips[where.reached]
    away = np.linalg.norm(tips - world.target_positions()[:, None], axis=-1)  # (12, P)
    safe = ~np.isin(np.arange(12), world.risky)
    best = -np.abs(away - np.where(safe, 0.2, wanted[:, None])[..., None])  # (seeds, 12, P)
    if inside is not None:
        in_circle = np.min(away[list(world.risky)], axis=0) <= world.radius
        best = np.where(in_circle == inside[..., None], best, best - 1.0)
    elsewhere = np.full_like(best, -0.05)  # of a policy that is nowhere the better one at its peak
    return np.stack([elsewhere, best], axis=1)
