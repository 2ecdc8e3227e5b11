"""Limits as the explorer's scenes have them, one feature and one slider; and what is said of prices and promises."""

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
    """The limit on a feature: of an episode, with the certainty of the calibration, or else expected and discounted."""
    if ways.limit is None:
        return None
    side = {"at_most": ways.limit} if sign > 0 else {"at_least": -ways.limit}
    return {feature: Limit(**side, per_episode=is_sure(library, feature))}


def is_sure(library: PolicyLibrary, feature: int) -> bool:
    """Whether a limit on a feature is of an episode, and kept with the certainty of a calibration."""
    return library.calibration is not None and feature in library.calibration.costs


def notes_of(library: PolicyLibrary, rule: ActingRule, obs: npt.NDArray[Any], memory: Memory | None) -> tuple[str, ...]:
    """Sentences on rollouts: the price of a limit, what cannot be kept, the bounds of a calibrated library."""
    notes = []
    if memory is not None:
        prices = {name: each.mean() for name, each in rule.prices(memory).items()}
        notes += [f"The price of a unit of {name}: {price:.3g}." for name, price in prices.items()]
        notes += [f"Note: {sentence}." for sentence in rule.not_kept(memory) if sentence][:1]
    if library.calibration is not None:
        bounds = library.calibration.bounds_of(rule, obs)
        notes += [f"Promised: {bounds.sentence()}.", *(f"Note: {remark}." for remark in bounds.remarks)]
    return tuple(notes)
