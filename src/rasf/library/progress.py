"""Training the policies of a library: the same few words for tables and networks.

A `Callback` is shown where training stands, now and then; if it answers True, training stops and what was learned so far
is kept. `Elders` are the policies of an older library, which go on acting by GPI beside the new ones, unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy.typing as npt

from rasf.arrays import Floats
from rasf.library.frozen_policies import FrozenPolicies


@dataclass(frozen=True)
class TrainingProgress:
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


Callback = Callable[[TrainingProgress], bool]


class Trained(NamedTuple):
    """Policies trained on the first tasks: their laws, weights (n, d) as used, and history, one entry a policy."""

    sources: FrozenPolicies
    weights: Floats
    history: dict[str, npt.NDArray[Any]]
