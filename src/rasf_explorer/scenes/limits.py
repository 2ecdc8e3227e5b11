"""The limit that a user sets on one feature by a slider, and sentences about prices of limits and calibrated bounds.

The price is the smallest penalty per unit of the feature at which the best choice keeps the limit.
"""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from rasf.library.acting.rule import ActingRule, Memory
from rasf.library.policy_library import PolicyLibrary
from rasf.limits import Limit
from rasf_explorer.scenes.scene import Ways


def limits_of(
    library: PolicyLibrary, feature: int, ways: Ways, sign: float = 1.0
) -> dict[str | int, float | Limit] | None:
    """Return the limits for acting.

    Args:
        library: The library.
        feature: Index of the limited feature.
        ways: Options of acting; `ways.limit` is the value of the limit, None for no limit.
        sign: 1 for feature <= limit, -1 for feature >= -limit (a cost stored as a negative feature). Default: 1.

    Returns:
        The limit by the feature's index, or None without a limit. A limit on a calibrated feature is for the sum in an
        episode, and is meant to be kept in 95 % of tasks. Any other limit is for the expected discounted sum.
    """
    if ways.limit is None:
        return None
    side = {"at_most": ways.limit} if sign > 0 else {"at_least": -ways.limit}
    return {feature: Limit(**side, per_episode=is_sure(library, feature))}


def is_sure(library: PolicyLibrary, feature: int) -> bool:
    """Return whether a limit on a feature is meant to be kept in 95 % of tasks, because the feature is calibrated."""
    return library.calibration is not None and feature in library.calibration.costs


def notes_of(library: PolicyLibrary, rule: ActingRule, obs: npt.NDArray[Any], memory: Memory | None) -> tuple[str, ...]:
    """Return sentences about rollouts: prices of limits, limits that cannot be kept, bounds of a calibrated library.

    Args:
        library: The library.
        rule: The acting rule of the rollouts.
        obs: The first observations of the rollouts.
        memory: The memory of the rule, with the prices; None if the rollouts acted without memory.

    Returns:
        The sentences.
    """
    notes = []
    if memory is not None:
        prices = [(name, each.mean()) for name, each in rule.prices(memory).items()]
        notes += [f"The price of the limit is {price:.3g} of return per unit of {name}." for name, price in prices]
        notes += [f"Note: {sentence}." for sentence in rule.not_kept(memory) if sentence][:1]
    if library.calibration is not None:
        bounds = library.calibration.bounds_of(rule, obs)
        notes += [f"Bounds: {bounds.sentence()}.", *(f"Note: {remark}." for remark in bounds.remarks)]
    return tuple(notes)
