"""Training the policies of a library: the same few words for tables and networks.

A `Watch` is shown where training stands, now and then; if it answers True, training stops and what was learned so far
is kept. `Elders` are the policies of an older library, which go on acting by GPI beside the new ones, unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rasf.library.sources import Sources
from rasf.mdp import Floats

STEPS_OF_TABLES, STEPS_OF_NETWORKS = 20_000, 200_000  # a task, as in the paper
_ROUNDING = 1e-5  # of float32, relative, after a few operations


@dataclass(frozen=True)
class Record:
    """Where training stands: in which policy, after how many of its steps, with what reward and failures so far.

    failures: nan where the environment has not named any.
    w, risk: what the policy learns for, the risk in words; `learn` fills them in.
    """

    policy: int
    step: int
    total: float
    failures: float
    extras: dict[str, float] = field(default_factory=dict)
    w: tuple[float, ...] = ()
    risk: str = ""


Watch = Callable[[Record], bool]


class Trained(NamedTuple):
    """Policies trained on the first tasks: their laws, weights (n, d) as used, and history, one entry a policy."""

    sources: Sources
    weights: Floats
    history: dict[str, npt.NDArray[Any]]


class DeclaredBounds:
    """Holds features to the bounds (d, 2) that are declared for a step, infinite where open; None declares nothing.

    For histograms whose support follows from them: whatever came from outside would be clipped.
    """

    def __init__(self, bounds: Floats | None) -> None:
        self._is_open = bounds is None or not np.isfinite(bounds).any()
        self._bounds = np.array([[-np.inf, np.inf]]) if bounds is None else bounds
        slack = _ROUNDING * np.max(np.abs(self._bounds), axis=1, where=np.isfinite(self._bounds), initial=0.0)
        self._low, self._high = self._bounds[:, 0] - slack, self._bounds[:, 1] + slack

    def check(self, phi: npt.NDArray[Any]) -> None:
        """Refuse features (.., d) that are outside; 0, which every support has, may come undeclared, as at an end."""
        if self._is_open:
            return
        outside = ((phi < self._low) | (phi > self._high)) & (phi != 0)
        if outside.any():
            i = int(np.argwhere(outside)[0, -1])
            low, high = self._bounds[i]
            raise ValueError(
                f"feature {i} of a step must be within its declared bounds [{low:g}, {high:g}], the environment gave "
                f"{phi[outside][0]:.7g}; reward_space (its own or a wrapper's) or phi.bounds can declare wider "
                "ones, or give support"
            )
