"""Frozen policies of a library: distributions of their feature returns, scored for any weights and risk.

`TablePolicies` holds psi and Sigma of tabular policies, `NetworkPolicies` networks. Both have this interface. The
`Encoder` turns an observation into a table's key or a network's input.
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
    """GPE of K policies at B observations for one task and risk.

    values, mean and std (the standard deviation; nan where it is not learned) have shape (K, B, A); seen (B,) is False
    where no policy has data.
    """

    values: Floats
    mean: Floats
    std: Floats
    seen: Bools


@dataclass(frozen=True, repr=False)
class Explanation:
    """The scores behind a choice; `np.asarray` of it are the values.

    values, mean, std: (K, A), or (K, B, A) for a batch. action, source and seen: one, or (B,). source is the selected
    source policy, whose value is the largest at the action. With limits, by the name of the feature: prices, and the
    expected sum at the choice, one, or (B,) each; and a remark where a limit cannot be kept. bounds: those of a
    calibrated library, for one observation.
    """

    values: Floats
    mean: Floats
    std: Floats
    seen: Bools
    action: Ints
    source: Ints
    prices: Mapping[str, Floats] = field(default_factory=dict)
    expected: Mapping[str, Floats] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    bounds: Bounds | None = None

    def first(self) -> Explanation:
        """Of a batch, the first observation alone."""
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
    """Frozen policies; `obs` (B, n) are numbers for tables and network inputs for networks, w (d,) is valid."""

    @property
    def family(self) -> Family: ...

    @property
    def law_kind(self) -> LawKind: ...

    @property
    def policies(self) -> int: ...  # K

    @property
    def n_actions(self) -> int: ...  # A

    @property
    def n_features(self) -> int: ...  # d

    @property
    def n_inputs(self) -> int: ...  # n, the numbers of an observation

    @property
    def gamma(self) -> float: ...  # the discount of the learned returns

    @property
    def limit(self) -> int: ...  # steps of the episodes whose returns were learned; 0 if returns go on

    def check(self, risk: Risk) -> None:
        """Refuse a risk that these policies cannot score."""

    def scores(self, obs: np.ndarray, w: Floats, risk: Risk) -> Scores:
        """GPE of every policy."""

    def laws(self, obs: np.ndarray, w: Floats) -> tuple[Floats, Floats] | None:
        """Probabilities (K, B, A, M) of returns (M,); None where no more than mean and variance is known."""

    def seen(self, obs: np.ndarray) -> Bools:
        """Where (B,) a policy has data; networks always have an answer."""

    def act(self, obs: np.ndarray, w: Floats, risk: Risk) -> Ints:
        """Actions (B,) by GPI; ties go to the lowest."""

    def act_one(self, obs: np.ndarray, w: Floats, risk: Risk) -> int:
        """The action for one observation (n,), quickly."""

    def arrays(self, precision: str = "single") -> Arrays:
        """The arrays to store, beside `describe`; networks may be stored in precision "half"."""

    def describe(self) -> Header:
        """Sizes and kind, as JSON."""

    def shared_settings(self) -> dict[str, Any]:
        """Settings of the agent, by name, that policies must share to be in one library."""

    def merge(self, parts: Sequence[Any]) -> Any:
        """The policies of several sources of this kind, one after the other."""
