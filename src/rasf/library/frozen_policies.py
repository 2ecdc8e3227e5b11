"""Frozen policies of a library: distributions of their discounted sums of features, scored for any weights and risk.

`TablePolicies` holds psi and Sigma of tabular policies, and `NetworkPolicies` holds networks. Both classes have the
interface `FrozenPolicies`. An `Encoder` turns an observation into a table's key or a network's input. In shapes, K is
the number of policies, B of observations in a batch, A of actions, d of features, and P of entries of an action that is
a vector.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from rasf.agents import Family, LawKind
from rasf.arrays import Bools, Floats, Ints
from rasf.files import Arrays, Header
from rasf.risk.base import Risk

if TYPE_CHECKING:
    from rasf.library.calibration.bounds import Bounds


class Scores(NamedTuple):
    """Scores (GPE) of K policies and A actions at B observations, for one task and risk.

    Attributes:
        values: Values (K, B, A) of the risk measure of the return.
        mean: Means (K, B, A) of the return.
        std: Standard deviations (K, B, A) of the return; nan if not learned.
        seen: Whether any policy has data for each observation (B,).
    """

    values: Floats
    mean: Floats
    std: Floats
    seen: Bools


@dataclass(frozen=True, repr=False)
class Explanation:
    """The scores behind a choice, for one observation or a batch of B; `np.asarray` of an explanation is `values`.

    Attributes:
        values: Values of the risk measure of the return, (K, A), or (K, B, A) for a batch.
        mean: Means of the return, of the same shape.
        std: Standard deviations of the return, of the same shape; nan if not learned.
        seen: Whether any policy has data for the observation, () or (B,).
        action: The action as the environment takes it, or actions (B, ..).
        source: The selected source policy, () or (B,).
        prices: The price of each limit, by the name of the feature, () or (B,).
        expected: The expected sum of each limited feature after the chosen action, by name, () or (B,).
        remarks: A sentence for each observation at which a limit cannot be kept, else an empty text.
        bounds: The bounds of a calibrated library for one observation, else None.
        candidate: The index of the action among the A scored actions, () or (B,).
        proposals: If actions are vectors, the A scored actions as the environment takes them, (A, ..) or (B, A, ..).
            Action j is the proposal of policy j. None if actions are numbered.
    """

    values: Floats
    mean: Floats
    std: Floats
    seen: Bools
    action: np.ndarray
    source: Ints
    prices: Mapping[str, Floats] = field(default_factory=dict)
    expected: Mapping[str, Floats] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    bounds: Bounds | None = None
    candidate: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    proposals: np.ndarray | None = None

    def first(self) -> Explanation:
        """Return the explanation of the first observation of a batch."""
        return Explanation(
            values=self.values[:, 0],
            mean=self.mean[:, 0],
            std=self.std[:, 0],
            seen=self.seen[0],
            action=self.action[0],
            source=self.source[0],
            prices={name: part[0] for name, part in self.prices.items()},
            expected={name: part[0] for name, part in self.expected.items()},
            remarks=self.remarks[:1],
            bounds=self.bounds,
            candidate=self.candidate[0],
            proposals=None if self.proposals is None else self.proposals[0],
        )

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.values, dtype=dtype, copy=copy)

    def __repr__(self) -> str:
        said = f"{self.seen.sum()} of {self.seen.size} observations were seen in training"
        if self.values.ndim == 2:
            said = f"action {self.action} by policy {self.source}, worth {self.values.max():.4g}"
            said += "" if self.seen else ", at an observation never seen in training"
            said += "".join(f", {name} priced {price:.4g}" for name, price in self.prices.items())
            said += "".join(f"; {remark}" for remark in self.remarks if remark)
        return f"<Explanation: values {self.values.shape}, {said}>"


class FrozenPolicies(Protocol):
    """The interface of frozen policies.

    Observations `obs` (B, n) are keys of tables or inputs of networks, n numbers each. Callers validate weights w (d,).
    """

    @property
    def family(self) -> Family: ...

    @property
    def law_kind(self) -> LawKind: ...

    @property
    def policies(self) -> int: ...  # K

    @property
    def n_actions(self) -> int: ...  # A, the number of candidates at an observation

    @property
    def action_size(self) -> int: ...  # number of entries of an action that is a vector; 0 if actions are numbered

    @property
    def n_features(self) -> int: ...  # d

    @property
    def n_inputs(self) -> int: ...  # n, the size of an encoded observation

    @property
    def gamma(self) -> float: ...  # the discount of the learned returns

    @property
    def limit(self) -> int: ...  # number of steps after which the learned returns end; 0 for continuing returns

    def check(self, risk: Risk) -> None:
        """Raise a ValueError for a risk that these policies cannot score."""

    def scores(self, obs: np.ndarray, w: Floats, risk: Risk) -> Scores:
        """Return the scores of every policy (GPE)."""

    def laws(self, obs: np.ndarray, w: Floats) -> tuple[Floats, Floats] | None:
        """Return probabilities (K, B, A, M) of M returns (M,), or None if only mean and variance are known."""

    def seen(self, obs: np.ndarray) -> Bools:
        """Return whether any policy has data for each observation (B,); always True for networks."""

    def act(self, obs: np.ndarray, w: Floats, risk: Risk) -> np.ndarray:
        """Return actions (B,), or (B, P) if actions are vectors, by GPI; ties go to the lowest index."""

    def act_one(self, obs: np.ndarray, w: Floats, risk: Risk) -> Any:
        """Return the action for one observation (n,); faster than a batch of one."""

    def actions(self, obs: np.ndarray, chosen: Ints) -> np.ndarray:
        """Return the actions, (B,) or (B, P), of the candidates with indices `chosen` (B,) at observations (B, n)."""

    def proposals(self, obs: np.ndarray) -> np.ndarray | None:
        """Return the candidates (B, A, P) at observations (B, n) if actions are vectors, else None."""

    def arrays(self, precision: str = "single") -> Arrays:
        """Return the arrays of the library's file; `precision` "half" applies to weights of networks."""

    def describe(self) -> Header:
        """Return the sizes and the kind of the policies, as JSON."""

    def shared_settings(self) -> dict[str, Any]:
        """Return the settings of the agent, by name, that must be the same for all policies of a library."""

    def merge(self, parts: Sequence[Any]) -> Any:
        """Return one object with the policies of several objects of this class, concatenated."""
