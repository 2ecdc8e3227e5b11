"""Checks of the tasks and risks that `learn` and `learn_from` train for, and drawing of tasks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from rasf import checks
from rasf.agents import AgentSpec, Family, LawKind
from rasf.arrays import Floats, Ints
from rasf.library.policy_library import NEUTRAL
from rasf.risk import Risk
from rasf.risk.names import is_neutral

if TYPE_CHECKING:
    from rasf.library.training import Opened

_MOST_TASKS = 2**15 - 1  # tables store policy numbers in 16 bits


def checked_risks(given: Risk | Sequence[Risk]) -> list[Risk]:
    """Return the risks as a list; neutral risks become `MeanVariance(0)`, which all agents can train for."""
    if not isinstance(given, Risk | list | tuple) or given in ([], ()):
        raise ValueError(f"risk must be a rasf risk such as MeanVariance(-4.0), or a list of them, got {given!r}")
    risks = [given] if isinstance(given, Risk) else list(given)
    return [NEUTRAL if is_neutral(one) else one for one in risks]


def drawn_tasks(
    tasks: npt.ArrayLike | int,
    d: int,
    of_its_own: Callable[[int, np.random.Generator], Floats | None] | None,
    seed: Sequence[int],
    notes: list[str],
    signs: Ints | None = None,
    name: str = "tasks",
) -> Floats:
    """Return the weights of tasks, given or drawn.

    Args:
        tasks: Weights (n, d), or a number n of tasks to draw.
        d: The number of features.
        of_its_own: A function that draws n weightings (n, d) from the environment's own distribution of tasks, and
            returns None if the environment has no distribution. Without an environment, this argument is None.
        seed: Seed of the drawing.
        notes: A list to which a sentence on drawn weights is appended.
        signs: Signs (d,) of the weights: 1, -1, or 0 for either. None if the signs are not known. Default: None.
        name: The name of the argument, for error messages. Default: "tasks".

    Returns:
        Weights (n, d). Drawn weights come from the environment's distribution, or are uniform with the given signs.

    Raises:
        ValueError: The weights are not (n, d) finite numbers; or weights are to be drawn, and neither a distribution
            nor signs are known, so that a positive weight might reward a cost.
    """
    if not isinstance(tasks, int | np.integer):
        return checks.task_weights(name, tasks, d)
    if checks.whole(name, tasks) > _MOST_TASKS:
        raise ValueError(f"{name} must be at most {_MOST_TASKS}, the largest number of policies, got {tasks}")
    count, rng = int(tasks), np.random.default_rng(seed)
    own = None if of_its_own is None else of_its_own(count, rng)
    if own is not None:
        return checks.task_weights("the environment's random_tasks", own, d)
    if signs is None:
        raise ValueError(
            f"{name}={count} cannot be drawn, because it is unknown which of the {d} features are costs: give weights "
            f"(n, {d}), or the argument `signs` (1: more is better, -1: a cost, 0: either); or define the attribute "
            "`signs` in the environment, in a wrapper, or in the function phi"
        )
    drawn = rng.uniform(-1.0, 1.0, (count, d))
    notes.append(
        f"the environment has no distribution of tasks: {count} weightings were drawn from [0, 1] with the signs "
        f"{signs.tolist()} (1: more is better, -1: a cost, 0: either)"
    )
    return np.where(signs == 0, drawn, np.abs(drawn) * signs)


def additional_tasks(
    given: npt.ArrayLike | int,
    world: Opened,
    spec: AgentSpec,
    seed: Sequence[int],
    notes: list[str],
    signs: Ints | None,
) -> Floats:
    """Return the weights (m, d) of additional tasks, given or drawn by `drawn_tasks`."""
    if checks.is_whole(given) and given == 0:
        return np.zeros((0, world.n_features))
    if spec.family is not Family.NETWORKS:
        raise ValueError(f"extra_tasks is for networks; {spec} learns tables")
    found = drawn_tasks(given, world.n_features, world.random_tasks, seed, notes, signs, "extra_tasks")
    notes.append(f"{len(found)} additional tasks were learned off-policy, from the same steps")
    return found


def checked_once(given: Sequence[int], d: int, spec: AgentSpec) -> list[int]:
    """Return the indices of the features that occur at most once an episode."""
    listed = isinstance(given, list | tuple | np.ndarray) and all(checks.is_whole(i) and 0 <= i < d for i in given)
    if not listed or len({*given}) < len(given):
        raise ValueError(
            f"the argument `once` must list different indices of features, 0 to {d - 1}, got {given!r:.60}"
        )
    if len(given) and spec.law not in (LawKind.HISTOGRAM, LawKind.MEAN_LOW_RANK):
        raise ValueError(
            f"the argument `once` is for agents that learn histograms or means of events; {spec} learns neither"
        )
    return [int(i) for i in given]
