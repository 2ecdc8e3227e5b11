"""Generalised policy improvement (GPI): the action with the best score over all policies, for the remaining return."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from rasf.arrays import Floats
from rasf.library.acting.rule import ActingRule, Memory, Observations
from rasf.library.ahead.policies import LookingAhead


class PerStateRisk(ActingRule):
    """Acting for the per-state risk: the risk of the remaining return, as in the paper."""

    @property
    def per_state(self) -> bool:
        return not isinstance(self.sources, LookingAhead)

    def values(self, obs: Observations, memory: Memory) -> Floats:
        return self.sources.scores(obs, self.w, self.risk).values

    def act(self, obs: Observations, memory: Memory) -> npt.NDArray[Any]:
        return self.sources.act(obs, self.w, self.risk)


class DiscountAware(PerStateRisk):
    """Acting at step t for the risk of gamma^t times the remaining return, as in the paper's guarantee."""

    @property
    def per_state(self) -> bool:
        return False

    def values(self, obs: Observations, memory: Memory) -> Floats:
        each = [
            self.sources.scores(obs[[i]], self.w, self.risk.at_discount(float(z))).values
            for i, z in enumerate(memory.discount)
        ]
        return np.concatenate(each, axis=1)

    def act(self, obs: Observations, memory: Memory) -> npt.NDArray[Any]:
        if (memory.discount != memory.discount[:1]).any():
            return super(PerStateRisk, self).act(obs, memory)
        return self.sources.act(obs, self.w, self.risk.at_discount(float(memory.discount[0])))
