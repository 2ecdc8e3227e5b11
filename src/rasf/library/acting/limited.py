"""Acting within limits: the best pair (policy, action) among the pairs whose expected costs are within the budget.

`rasf.limits` defines the budget. After the first choice, the selected policy's own action is always within the budget.
Another acting rule gives the values of the pairs. In shapes, K is the number of policies, B of observations, A of
actions, and m of limits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rasf.agents import acting_risk
from rasf.arrays import Floats, Ints
from rasf.library.acting.rule import NEUTRAL, ActingRule, Choose, Memory, Observations, nearly
from rasf.library.ahead.policies import LookingAhead
from rasf.limits import Limits, best_within, prices_within
from rasf.risk import Risk


@dataclass(frozen=True, eq=False)
class WithinLimits(ActingRule):
    """An acting rule that is restricted by m limits.

    `memory.own` has these arrays, in addition to the arrays of the unrestricted rule `base`:

        source    (B,) the selected policy, -1 before the first choice
        spare     (B, m) the budget that the last choice left unused; before the first choice, the limits
        prices    (B, m) the prices of the limits at the first choice
        costs     (B, m) the expected sums of the limited features after the first choice
        kept      (B,) whether the first choice keeps all limits

    Attributes:
        base: The rule that gives the values.
        given: The limits.
        own: The weights and the risk for which each source policy acts.
    """

    base: ActingRule
    given: Limits
    own: Sequence[tuple[Sequence[float], Risk]]

    @classmethod
    def of(cls, base: ActingRule, limits: Limits, policies: Sequence[tuple[Sequence[float], Risk]]) -> WithinLimits:
        """Return `base` restricted by limits; `policies` are the weights and the risk of each source policy."""
        own = [(w, acting_risk(risk)) for w, risk in policies]
        return cls(base.sources, base.w, base.risk, base.task, base, limits, own)

    def __post_init__(self) -> None:
        """Raise ValueError if a policy's own actions cannot be scored, because the budget depends on these actions."""
        if self.sources.gamma == 0:
            raise ValueError("limits need a library whose gamma is above 0")
        for i, (_, risk) in enumerate(self.own):
            try:
                (self.sources.base if isinstance(self.sources, LookingAhead) else self.sources).check(risk)
            except ValueError:
                raise ValueError(
                    f"limits need policies whose own risk can be scored, but policy {i} has {risk!r}"
                ) from None

    @property
    def limits(self) -> Limits:
        return self.given

    @property
    def per_state(self) -> bool:
        return self.base.per_state

    def begin(self, obs: Observations, choose: Choose | None = None) -> Memory:
        B, m = len(obs), len(self.limits.names)
        spare, prices, costs = np.zeros((3, B, m))
        spare[:] = self.limits.at_most

        def within(values: Floats) -> Ints:
            return best_within(_by_episode(values), _by_episode(self._costs(obs)), spare).chosen

        memory = self.base.begin(obs, choose or within)
        memory.own |= {"source": np.full(B, -1), "spare": spare, "prices": prices, "costs": costs}
        memory.own["kept"] = np.ones(B, np.bool_)
        return memory

    def values(self, obs: Observations, memory: Memory) -> Floats:
        return self.base.values(obs, memory)

    def means(self, obs: Observations) -> Floats | None:
        return self.base.means(obs)

    def choose(self, obs: Observations, memory: Memory, values: Floats) -> Ints:
        rows, seen, own, of_policies = np.arange(len(obs)), self.sources.seen(obs), memory.own, self._costs(obs)
        budget, costs = self._budget(obs, memory, of_policies), _by_episode(of_policies)
        candidates = _by_episode(values)
        chosen, kept = best_within(candidates, costs, budget)
        means = self.means(obs)
        if means is not None:
            equal = candidates >= nearly(candidates[rows, chosen, None])
            chosen = best_within(np.where(equal, _by_episode(means), -np.inf), costs, budget).chosen
        spent, first = costs[rows, chosen], seen & (own["source"] < 0)
        if first.any():
            own["prices"][first] = prices_within(candidates[first], costs[first], budget[first])
            own["costs"][first], own["kept"][first] = spent[first], kept[first]
        # at observations that no policy has seen, keep the selected policy and its budget
        own["spare"][:] = np.where(seen[:, None], np.maximum(budget - spent, 0.0), own["spare"])
        own["source"][seen] = chosen[seen] // self.sources.n_actions
        return chosen

    def prices(self, memory: Memory) -> dict[str, Floats]:
        return dict(zip(self.limits.names, memory.own["prices"].T, strict=True))

    def expected(self, memory: Memory) -> dict[str, Floats]:
        return dict(zip(self.limits.names, (memory.own["costs"] * self.limits.signs).T, strict=True))

    def not_kept(self, memory: Memory) -> list[str]:
        sentences = map(self.limits.not_kept, memory.own["costs"])
        return ["" if kept else sentence for kept, sentence in zip(memory.own["kept"], sentences, strict=True)]

    def _costs(self, obs: Observations) -> Floats:
        """Return the expected sums (K, B, A, m) of the limited features, multiplied by `limits.signs`."""
        each = np.eye(self.sources.n_features)[self.limits.features] * self.limits.signs[:, None]
        return np.stack([self.sources.scores(obs, one, NEUTRAL).mean for one in each], axis=-1)

    def _budget(self, obs: Observations, memory: Memory, costs: Floats) -> Floats:
        """Return the budget (B, m), which is the limits at the first choice.

        At later choices, it is the costs of the selected policy's own action, plus spare / gamma.
        """
        source, spare = memory.own["source"], memory.own["spare"]
        budget, sources = spare.copy(), self.sources
        # policies that look ahead simulate the source policies' own actions, which do not look ahead
        plain, seen = (sources.base, sources.plain(obs)) if isinstance(sources, LookingAhead) else (sources, obs)
        for i in set(source[source >= 0].tolist()):
            rows, (w, risk) = np.flatnonzero(source == i), self.own[i]
            action = plain.scores(seen[rows], np.asarray(w, np.float64), risk).values[i].argmax(axis=1)
            budget[rows] = costs[i, rows, action] + spare[rows] / self.sources.gamma
        return budget


def _by_episode(of_actions: Floats) -> Floats:
    """Reshape (K, B, A, ..) to (B, K A, ..)."""
    K, B, A = of_actions.shape[:3]
    return np.moveaxis(of_actions, 1, 0).reshape(B, K * A, *of_actions.shape[3:])
