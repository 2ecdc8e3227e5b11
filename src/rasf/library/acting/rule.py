"""Acting rules: how policies choose actions for a task, and what they predict.

A rule is immutable. The state of episodes is in a `Memory`:

    memory = rule.begin(obs)                        at the first observations (B, n) of B episodes
    actions = rule.act(obs, memory)                 at every step
    memory.advance(rewards, gamma)                  after the step, with its rewards (B,)

In shapes, K is the number of policies, B of observations or episodes, and A of actions. A new way to act is a subclass
of `ActingRule` that defines `values`, and overrides other methods if needed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rasf.arrays import Bools, Floats, Ints
from rasf.library.frozen_policies import FrozenPolicies
from rasf.limits import Limits
from rasf.risk import MeanVariance, Risk
from rasf.transfer import gpi

NEUTRAL = MeanVariance(0.0)
Observations = npt.NDArray[np.generic]  # (B, n), encoded for the policies
Choose = Callable[[Floats], Ints]  # maps values (K, B, A) to choices (B,), numbered policy * A + action


@dataclass
class Memory:
    """State of B episodes.

    accrued: Accrued return (B,) for the weights `w` of the rule.
    discount: gamma^t after t steps (B,).
    own: Further arrays (B, ..) of the rule, by name.
    """

    accrued: Floats
    discount: Floats
    own: dict[str, npt.NDArray[Any]] = field(default_factory=dict)

    @classmethod
    def fresh(cls, episodes: int, **own: npt.NDArray[Any]) -> Memory:
        """Return the state before the first action."""
        return cls(np.zeros(episodes), np.ones(episodes), own)

    @classmethod
    def joined(cls, parts: Sequence[Memory]) -> Memory:
        """Return one memory with the episodes of all `parts`."""
        own = {name: np.concatenate([part.own[name] for part in parts]) for name in parts[0].own}
        accrued, discount = zip(*((part.accrued, part.discount) for part in parts), strict=True)
        return cls(np.concatenate(accrued), np.concatenate(discount), own)

    def of(self, rows: Ints | Bools) -> Memory:
        """Return a copy that has only the episodes `rows`."""
        own = {name: part[rows] for name, part in self.own.items()}
        return replace(self, accrued=self.accrued[rows], discount=self.discount[rows], own=own)

    def put(self, rows: Ints | Bools, others: Memory) -> None:
        """Replace the state of the episodes `rows` by the state `others`."""
        self.accrued[rows], self.discount[rows] = others.accrued, others.discount
        for name, part in self.own.items():
            part[rows] = others.own[name]

    def advance(self, rewards: Floats, gamma: float, rows: Ints | slice = slice(None)) -> None:
        """Add the rewards of one step to the accrued return of the episodes `rows`, by default of all episodes."""
        self.accrued, self.discount = self.accrued.copy(), self.discount.copy()
        self.accrued[rows] += self.discount[rows] * rewards
        self.discount[rows] *= gamma


class Prediction(NamedTuple):
    """Predictions at B observations.

    Attributes:
        mean: Mean of the task's discounted return (B,).
        std: Standard deviation (B,) of this return; nan if the policies have learned means only.
        sums: Expected discounted sums (B, m) of the m features that were given to `predict`.
    """

    mean: Floats
    std: Floats
    sums: Floats

    def overall(self) -> tuple[float, float]:
        """Return mean and standard deviation of the return if each observation is equally likely."""
        return float(self.mean.mean()), float(np.sqrt((self.std**2).mean() + self.mean.var()))


@dataclass(frozen=True, eq=False)
class ActingRule(ABC):
    """How policies act for one task; see the module's header. Choices are numbered policy * A + action.

    Args:
        sources: the policies.
        w: weights (d,) with which actions are chosen.
        risk: the risk to act for.
        task: weights (d,) of the task, with which returns are computed. They differ from `w` if features have prices.
    """

    sources: FrozenPolicies
    w: Floats
    risk: Risk
    task: Floats

    def __post_init__(self) -> None:
        """Raise ValueError if the policies cannot score the risk."""
        self.sources.check(self.risk)

    @property
    def limits(self) -> Limits | None:
        """The limits that the rule keeps, or None."""
        return None

    @property
    def per_state(self) -> bool:
        """Whether the rule acts for a per-state risk. Calibrations use only such rules."""
        return False

    def begin(self, obs: Observations, choose: Choose | None = None) -> Memory:
        """Return the memory of episodes that begin at observations (B, n).

        Args:
            obs: first observations (B, n).
            choose: function from the values (K, B, A) at `obs` to the first choices (B,), for rules whose memory
                depends on these choices. Default: the rule's own choices.

        Returns:
            The memory before the first action.
        """
        return Memory.fresh(len(obs))

    @abstractmethod
    def values(self, obs: Observations, memory: Memory) -> Floats:
        """Return values (K, B, A), to be maximised, at observations (B, n); -inf where a policy has no data."""

    def means(self, obs: Observations) -> Floats | None:
        """Return mean returns (K, B, A), which break ties between values; None if ties go to the lowest index."""
        return None

    def choose(self, obs: Observations, memory: Memory, values: Floats) -> Ints:
        """Return the choices (B,) with the largest `values` (K, B, A), and update the memory."""
        means, rows = self.means(obs), np.arange(len(obs))
        if means is None:
            choice = gpi(values)
            return np.asarray(choice.source * self.sources.n_actions + choice.policy)
        action = np.where(is_best(values.max(axis=0), axis=1), means.max(axis=0), -np.inf).argmax(axis=1)
        best = is_best(values[:, rows, action], axis=0)
        source = np.where(best, means[:, rows, action], -np.inf).argmax(axis=0)
        return source * self.sources.n_actions + action

    def select(self, obs: Observations, memory: Memory) -> Ints:
        """Return the choices (B,) at observations (B, n), and update the memory."""
        return self.choose(obs, memory, self.values(obs, memory))

    def act(self, obs: Observations, memory: Memory) -> npt.NDArray[Any]:
        """Return the actions (B,), or (B, P) if they are vectors, at observations (B, n), and update the memory."""
        return self.sources.actions(obs, self.select(obs, memory) % self.sources.n_actions)

    def predict(
        self, obs: Observations, memory: Memory | None = None, features: Sequence[int] | Ints = ()
    ) -> Prediction:
        """Return predictions for the policy and the action that the rule selects at each observation.

        Args:
            obs: observations (B, n).
            memory: the memory of the episodes, which may be updated. Default: the memory of episodes that begin at
                `obs`.
            features: indices of the features whose expected sums are predicted. Default: none.

        Returns:
            The predictions. They assume that the selected policy acts after the selected action.
        """
        chosen, rows = self.select(obs, self.begin(obs) if memory is None else memory), np.arange(len(obs))
        at = (chosen // self.sources.n_actions, rows, chosen % self.sources.n_actions)
        found = self.sources.scores(obs, self.task, NEUTRAL)
        each = np.eye(self.sources.n_features)[np.asarray(features, np.int64)]
        sums = [self.sources.scores(obs, one, NEUTRAL).mean[at] for one in each]
        return Prediction(found.mean[at], found.std[at], np.stack(sums, axis=1) if sums else np.zeros((len(obs), 0)))

    def prices(self, memory: Memory) -> dict[str, Floats]:
        """Return the prices (B,) of the limits, by the name of the feature."""
        return {}

    def expected(self, memory: Memory) -> dict[str, Floats]:
        """Return the expected sums (B,) of the limited features after the first choice, by name."""
        return {}

    def not_kept(self, memory: Memory) -> list[str]:
        """Return a sentence for each episode whose limits cannot all be kept, and an empty text for other episodes."""
        return []


def is_best(values: Floats, axis: int) -> Bools:
    """Return where values are the largest along an axis, up to rounding."""
    return values >= nearly(values.max(axis=axis, keepdims=True))


def nearly(best: Floats) -> Floats:
    """Return the smallest value that counts as equal to `best` despite rounding."""
    return best - 1e-9 * np.maximum(np.abs(best), 1e-300)
