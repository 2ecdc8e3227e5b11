"""An acting rule: how policies choose actions for a task, what they carry through an episode, and what they predict.

A rule is a frozen object. What changes in an episode is its `Memory`:

    memory = rule.begin(obs)                        at the first observations (B, n) of B episodes
    actions = rule.act(obs, memory)                 at every step; then, with the rewards (B,) of the step,
    memory.advance(rewards, gamma)

A further way to act is a further subclass of `ActingRule` that has `values`, and whatever else differs from here.
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
Observations = npt.NDArray[np.generic]  # (B, n), as the policies see them
Choose = Callable[[Floats], Ints]  # of values (K, B, A), choices (B,) as policy A + action


@dataclass
class Memory:
    """State of B episodes: accrued return (by `w`) and gamma^t, (B,) each; own: further arrays (B, ..) of the rule."""

    accrued: Floats
    discount: Floats
    own: dict[str, npt.NDArray[Any]] = field(default_factory=dict)

    @classmethod
    def fresh(cls, episodes: int, **own: npt.NDArray[Any]) -> Memory:
        """The state before the first action."""
        return cls(np.zeros(episodes), np.ones(episodes), own)

    @classmethod
    def joined(cls, parts: Sequence[Memory]) -> Memory:
        """The episodes of all parts, one after the other."""
        own = {name: np.concatenate([part.own[name] for part in parts]) for name in parts[0].own}
        accrued, discount = zip(*((part.accrued, part.discount) for part in parts), strict=True)
        return cls(np.concatenate(accrued), np.concatenate(discount), own)

    def of(self, rows: Ints | Bools) -> Memory:
        """Some of the episodes, copied."""
        own = {name: part[rows] for name, part in self.own.items()}
        return replace(self, accrued=self.accrued[rows], discount=self.discount[rows], own=own)

    def put(self, rows: Ints | Bools, others: Memory) -> None:
        """Overwrite some of the episodes."""
        self.accrued[rows], self.discount[rows] = others.accrued, others.discount
        for name, part in self.own.items():
            part[rows] = others.own[name]

    def advance(self, rewards: Floats, gamma: float, rows: Ints | slice = slice(None)) -> None:
        """Take in the rewards of a step, of all episodes or of some."""
        self.accrued, self.discount = self.accrued.copy(), self.discount.copy()
        self.accrued[rows] += self.discount[rows] * rewards
        self.discount[rows] *= gamma


class Prediction(NamedTuple):
    """Of B observations: mean and standard deviation (B,) of the task's discounted return, sums (B, n) of features.

    The standard deviation is nan where the policies have learned means only.
    """

    mean: Floats
    std: Floats
    sums: Floats

    def overall(self) -> tuple[float, float]:
        """The mean over the observations, and the spread of each with that between them."""
        return float(self.mean.mean()), float(np.sqrt((self.std**2).mean() + self.mean.var()))


@dataclass(frozen=True, eq=False)
class ActingRule(ABC):
    """How policies act for one task; see the module's header. Choices are numbered as policy A + action.

    Args:
        sources: the policies.
        w: weights (d,) by which actions are chosen.
        risk: the risk to act for.
        task: weights (d,) by which returns are counted; others than `w` where features are re-priced.
    """

    sources: FrozenPolicies
    w: Floats
    risk: Risk
    task: Floats

    def __post_init__(self) -> None:
        """Refuse a risk that the policies cannot score."""
        self.sources.check(self.risk)

    @property
    def limits(self) -> Limits | None:
        """The limits that are kept, if there are any."""
        return None

    @property
    def per_state(self) -> bool:
        """Whether the risk is that of the remaining return, scored in every state alike, as in calibrations."""
        return False

    def begin(self, obs: Observations, choose: Choose | None = None) -> Memory:
        """Return the memory of episodes that begin at observations (B, n).

        Args:
            obs: first observations (B, n).
            choose: which of the values (K, B, A) there are chosen, where that is not left to the rule.

        Returns:
            The memory before the first action.
        """
        return Memory.fresh(len(obs))

    @abstractmethod
    def values(self, obs: Observations, memory: Memory) -> Floats:
        """What orders policies and actions at observations (B, n): values (K, B, A), -inf where a policy knows none."""

    def means(self, obs: Observations) -> Floats | None:
        """What decides between values (K, B, A) that are equal but for rounding; None: the lowest index."""
        return None

    def choose(self, obs: Observations, memory: Memory, values: Floats) -> Ints:
        """Return the choices (B,) by values (K, B, A), and update the memory."""
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

    def act(self, obs: Observations, memory: Memory) -> Ints:
        """Return the actions (B,) at observations (B, n), and update the memory."""
        return self.select(obs, memory) % self.sources.n_actions

    def predict(
        self, obs: Observations, memory: Memory | None = None, features: Sequence[int] | Ints = ()
    ) -> Prediction:
        """Return what is predicted from observations on, by the policy that the rule selects at each of them.

        Args:
            obs: observations (B, n).
            memory: of the episodes; by default they begin here. It may be updated.
            features: those whose expected discounted sums are wanted.

        Returns:
            The prediction: that the selected policy follows the selected action.
        """
        chosen, rows = self.select(obs, self.begin(obs) if memory is None else memory), np.arange(len(obs))
        at = (chosen // self.sources.n_actions, rows, chosen % self.sources.n_actions)
        found = self.sources.scores(obs, self.task, NEUTRAL)
        each = np.eye(self.sources.n_features)[np.asarray(features, np.int64)]
        sums = [self.sources.scores(obs, one, NEUTRAL).mean[at] for one in each]
        return Prediction(found.mean[at], found.std[at], np.stack(sums, axis=1) if sums else np.zeros((len(obs), 0)))

    def prices(self, memory: Memory) -> dict[str, Floats]:
        """The prices (B,) of the limits, by name."""
        return {}

    def expected(self, memory: Memory) -> dict[str, Floats]:
        """What the first choice was expected to sum up (B,) of the limited features, by name."""
        return {}

    def not_kept(self, memory: Memory) -> list[str]:
        """For every episode a sentence on the limits that cannot be kept, empty where they can."""
        return []


def is_best(values: Floats, axis: int) -> Bools:
    """Where values are the largest along an axis, but for rounding."""
    return values >= nearly(values.max(axis=axis, keepdims=True))


def nearly(best: Floats) -> Floats:
    """The least value that equals the best but for rounding."""
    return best - 1e-9 * np.maximum(np.abs(best), 1e-300)
