"""What a library knows about its policies: frozen laws of their feature returns, scored for any weights and risk.

`TablePolicies` holds psi and Sigma of tabular policies, `NetworkPolicies` networks. Both answer the same questions; what
an observation looks like to them (numbers of a table's key, or a network's input) is the `Encoder`'s business.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from rasf.arrays import Floats, Ints
from rasf.risk.base import Risk


class Scores(NamedTuple):
    """GPE of K policies at B observations for one task and risk.

    values, mean and spread (standard deviation; nan where the law does not know it) have shape (K, B, A); seen (B,) is
    False where no policy has data.
    """

    values: Floats
    mean: Floats
    spread: Floats
    seen: npt.NDArray[np.bool_]


@dataclass(frozen=True, repr=False)
class Explanation:
    """Why a library acts as it does; `np.asarray` of it are the values.

    values, mean, spread: (K, A), or (K, B, A) for a batch; action, driver and seen: one, or (B,). The driver is the
    policy whose value is the largest at the action chosen.
    """

    values: Floats
    mean: Floats
    spread: Floats
    seen: npt.NDArray[np.bool_]
    action: Ints
    driver: Ints

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return np.array(self.values, dtype=dtype, copy=copy)

    def __repr__(self) -> str:
        said = f"{self.seen.sum()} of {self.seen.size} observations were seen in training"
        if self.values.ndim == 2:
            said = f"action {self.action} by policy {self.driver}, worth {self.values.max():.4g}"
            said += "" if self.seen else ", at an observation never seen in training"
        return f"<Explanation: values {self.values.shape}, {said}>"


class FrozenPolicies(Protocol):
    """Frozen policies; `obs` (B, n) are numbers for tables and network inputs for networks, w (d,) is valid."""

    @property
    def policies(self) -> int:
        """K."""

    @property
    def n_actions(self) -> int:
        """A."""

    @property
    def n_features(self) -> int:
        """d."""

    @property
    def n_inputs(self) -> int:
        """n, the numbers of an observation."""

    @property
    def gamma(self) -> float:
        """The discount the laws were learned with."""

    def check(self, risk: Risk) -> None:
        """Refuse a risk that these laws cannot serve."""

    def scores(self, obs: npt.NDArray[Any], w: Floats, risk: Risk) -> Scores:
        """GPE of every policy."""

    def seen(self, obs: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """Where (B,) a policy has data; networks always have an answer."""

    def act(self, obs: npt.NDArray[Any], w: Floats, risk: Risk) -> Ints:
        """Actions (B,) by GPI; ties go to the lowest."""

    def act_one(self, obs: npt.NDArray[Any], w: Floats, risk: Risk) -> int:
        """The action for one observation (n,), quickly."""

    def arrays(self, precision: str = "single") -> dict[str, npt.NDArray[Any]]:
        """All that must be stored, beside `describe`; networks may be kept in precision "half"."""

    def describe(self) -> dict[str, Any]:
        """Sizes and kind, as JSON."""

    def merge(self, parts: Any) -> Any:
        """The policies of several sources of this kind, one after the other."""
