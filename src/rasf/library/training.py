"""`Training`: what `learn` hands to the trainers of tables, of the model and of networks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from rasf.arrays import Floats
from rasf.library.checkpoint import Checkpoint
from rasf.library.frozen_policies import FrozenPolicies
from rasf.library.progress import Reporter
from rasf.risk import Risk

if TYPE_CHECKING:
    from rasf.envs.gymnasium.single import FeatureEnvironment
    from rasf.envs.gymnasium.vector import FeatureVector
    from rasf.library.greedy import GreedyCheck
    from rasf.library.networks.reacher import ReacherAdapter as WorldAdapter

    Opened: TypeAlias = FeatureEnvironment | FeatureVector | WorldAdapter


@dataclass(frozen=True)
class Training:
    """A training, whichever agent learns.

    world: One environment for tables, several or a compiled world for networks.
    tasks: Weights (n, d), learned in this order or interleaved.
    imagined: Weights (m, d) of additional tasks that networks learn off-policy.
    risks: There is a policy for each task and risk. Each risk acts for its share of `steps_per_task`.
    reports: One for each risk.
    notes: A trainer adds what it decides.
    base: Policies that take part in exploration by GPI and do not change.
    greedy: Measures the greedy policies now and then; None if no second environment can be made.
    """

    world: Opened
    tasks: Floats
    imagined: Floats
    risks: Sequence[Risk]
    steps_per_task: int
    seed: int
    reports: Sequence[Reporter]
    notes: list[str]
    checkpoint: Checkpoint
    base: FrozenPolicies | None
    greedy: GreedyCheck | None
