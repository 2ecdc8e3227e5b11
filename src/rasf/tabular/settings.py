"""Settings of the agents that learn tables.

What is not a field but a constant of the class is not for users: research changes it in a subclass.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rasf import checks


@dataclass(frozen=True)
class TableSettings:
    """Settings of "sfql" and "rasfql", (Ra)SFQL on tables. The defaults are the paper's, but for `learn_w`.

    Attributes:
        gamma: Discount, above 0 and up to 1. Default: 0.95.
        epsilon: Probability of a random action. Default: 0.12.
        alpha: Learning rate of psi, the mean of the feature return. Default: 0.5.
        alpha_sigma: Learning rate of Sigma, its covariance. Default: 0.1.
        alpha_w: Learning rate of the weights, if they are learned. Default: 0.5.
        learn_w: Learn the weights of a task from its rewards instead of being given them. Default: False.
        covariance: Learn Sigma also for policies that are trained for a neutral risk, so that they can act at any.
            Default: True; False for "sfql".
    """

    gamma: float = 0.95
    epsilon: float = 0.12
    alpha: float = 0.5
    alpha_sigma: float = 0.1
    alpha_w: float = 0.5
    learn_w: bool = False
    covariance: bool = True

    noise_scale: ClassVar[float] = 0.01  # psi begins as uniform noise of this size
    shared_noise: ClassVar[bool] = False  # all policies begin with the same noise, as Algorithm 1 prints
    diagonal: ClassVar[bool] = False  # of Sigma, learn the diagonal alone

    def __post_init__(self) -> None:
        for name in ("alpha", "alpha_sigma", "alpha_w", "epsilon", "gamma"):
            checks.number(name, getattr(self, name), 0.0, 1.0)
        if self.gamma == 0:
            raise ValueError("gamma must be above 0, got 0")
        for name in ("learn_w", "covariance"):
            checks.one_of(name, getattr(self, name), (True, False))


@dataclass(frozen=True)
class ModelSettings:
    """Settings of "rasf-model", which counts transitions and plans on the counts; `rasf.tabular.model` has the rules.

    Attributes:
        gamma: Discount, between 0 and 1. Default: 0.95.
        epsilon: Probability of exploring. Default: 0.03.
        margin: By how much an action that is explored may be worse than the best, in units of the largest reward
            known; a large value explores all actions. Default: 0.1.
        optimism: What an untried action is taken to be worth, in units of the largest reward known. A higher value
            explores more; where rewards go on for ever, 1 / (1 - gamma) is the most that there can be. Default: 0.3.
        prior: How many tries, at most, the failures of similar states count for in a state of their own. 0: none.
            Default: 20.
        learn_w: Learn the weights of a task from its rewards instead of being given them. Default: False.
    """

    gamma: float = 0.95
    epsilon: float = 0.03
    margin: float = 0.1
    optimism: float = 0.3
    prior: float = 20.0
    learn_w: bool = False

    doubt: ClassVar[float] = 1.0  # tries as good as the optimism that are added while a task is learned
    tolerance: ClassVar[float] = 1e-3  # of the largest reward, up to which a change of a value is not passed on
    curiosity: ClassVar[float] = 1.0  # standard deviations by which an unknown weight is taken to be good

    def __post_init__(self) -> None:
        for name in ("gamma", "epsilon"):
            checks.number(name, getattr(self, name), 0.0, 1.0)
        if not 0 < self.gamma < 1:
            raise ValueError(f"gamma must be above 0 and below 1, got {self.gamma}")
        for name in ("margin", "prior"):
            checks.number(name, getattr(self, name), 0.0)
        checks.number("optimism", self.optimism)
        checks.one_of("learn_w", self.learn_w, (True, False))
