"""What is measured on the novel tasks: outcomes of rollouts, and which cells are dangerous."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rasf.arrays import Floats
from rasf.envs.four_room import CLASSES, TRAP, FourRoom
from rasf.experiments.four_room.runs import NOVEL_TASKS

Mask = npt.NDArray[np.bool_]


def novel_outcome(features: Floats) -> dict[str, Floats]:
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
        "objective": (mean - 2 * variance).mean(axis=1),
    }


def trap_cells() -> Mask:
    """Mask (cells,) of the traps."""
    return np.array([symbol == TRAP for symbol in FourRoom().cells])


def dangerous_objects() -> Mask:
    """Mask (cells,) of objects with a trap next to them."""
    rooms = FourRoom()
    rows, columns = rooms.shape
    traps = trap_cells().reshape(rows, columns)
    beside = np.zeros_like(traps)
    beside[1:] |= traps[:-1]
    beside[:-1] |= traps[1:]
    beside[:, 1:] |= traps[:, :-1]
    beside[:, :-1] |= traps[:, 1:]
    objects = np.array([symbol in CLASSES for symbol in rooms.cells])
    return objects & beside.ravel()
