"""Numbers from four-room runs: curves over the training tasks, outcomes on 27 novel tasks, which cells are dangerous.

Curves are kept by name: "sfql independent -2" (algorithm, initial noise, beta), "prql -2" (omega), "q-learning". beta
and omega are the paper's, the bare factor of the variance. After training, beta 0 ("neutral") and -2 ("averse") act on
the novel tasks in three ways: neutrally, with -2, and with -2 where the score knows the discount so far ("aware").
"""

from __future__ import annotations

from itertools import product

import numpy as np

from rasf.arrays import Bools, Floats
from rasf.envs.four_room import CLASSES, TRAP, FourRoom
from rasf.experiments.common.results import Numbers
from rasf.risk import MeanVariance
from rasf.statistics import standard_error

RISKS = (0.0, -0.5, -1.0, -2.0, -4.0)
AVERSE = MeanVariance.from_paper(-2.0)
WAYS = ("neutral", "averse", "aware")
NOVEL_TASKS = np.array(list(product((-1.0, 0.0, 1.0), repeat=3)))

Arrays = dict[str, Floats]


def curve_summary(arrays: Arrays) -> dict[str, Arrays]:
    """Means and standard errors over seeds of return and failures (seeds, tasks), per task and in total."""
    found: dict[str, Arrays] = {"return": {}, "failures": {}}
    for name, shown in found.items():
        for prefix, values in (("", arrays[name]), ("cumulative_", arrays[name].cumsum(axis=1))):
            shown[f"{prefix}mean"] = values.mean(axis=0).round(3)  # no figure shows more digits
            shown[f"{prefix}se"] = standard_error(values).round(3)
    return found


def novel_summary(arrays: Arrays) -> Numbers:
    """For every way of acting: visits per rollout (27, cells), and what the rollouts earned and risked."""
    found: Numbers = {}
    for way in WAYS:
        features = arrays[f"features_{way}"]
        found[way] = {"visits": np.round(arrays[f"visits_{way}"].mean(axis=0) / features.shape[2], 4)}
        for name, values in novel_outcome(features).items():
            found[way][name] = {"mean": float(values.mean()), "se": float(standard_error(values))}
    return found


def novel_outcome(features: Floats) -> Arrays:
    """Per seed, from features (seeds, 27, rollouts, d): mean return, its variance within a task, failures, objective.

    The objective is the paper's, mean - 2 variance, task by task.
    """
    rooms = FourRoom()
    weights = np.stack([rooms.task(rewards) for rewards in NOVEL_TASKS])
    returns = np.einsum("snrd,nd->snr", features, weights)
    mean, variance = returns.mean(axis=2), returns.var(axis=2)
    return {
        "return": mean.mean(axis=1),
        "variance": variance.mean(axis=1),
        "failures": features[..., -1].mean(axis=(1, 2)),
        "objective": np.asarray(AVERSE.moments(mean, variance)).mean(axis=1),
    }


def trap_cells() -> Bools:
    """Mask (cells,) of the traps."""
    return np.array([symbol == TRAP for symbol in FourRoom().cells])


def dangerous_objects() -> Bools:
    """Mask (cells,) of objects with a trap next to them."""
    rooms = FourRoom()
    traps = np.pad(trap_cells().reshape(rooms.shape), 1)
    beside = traps[:-2, 1:-1] | traps[2:, 1:-1] | traps[1:-1, :-2] | traps[1:-1, 2:]
    objects = np.array([symbol in CLASSES for symbol in rooms.cells])
    return objects & beside.ravel()
