"""Settings of the agents that learn tables.

Class variables are not settings for users; research code changes class variables in a subclass.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rasf import checks


@dataclass(frozen=True)
class TableSettings:
    """Settings of "sfql" and "rasfql", which learn tables. The defaults are the paper's, except for `learn_w`.

    Attributes:
        gamma: Discount, above 0 and up to 1. Default: 0.95.
        epsilon: Probability of a random action. Default: 0.12.
        alpha: Learning rate of psi, the mean of the discounted sum of features. Default: 0.5.
        alpha_sigma: Learning rate of Sigma, the covariance of this sum. Default: 0.1.
        alpha_w: Learning rate of the weights, if they are learned. Default: 0.5.
        learn_w: Whether the weights of a task are learned from rewards instead of given. Default: False.
        covariance: Whether policies that are trained for the neutral risk also learn Sigma, so that they can act at
            any risk. Default: True; False for "sfql".
    """

    gamma: float = 0.95
    epsilon: float = 0.12
    alpha: float = 0.5
    alpha_sigma: float = 0.1
    alpha_w: float = 0.5
    learn_w: bool = False
    covariance: bool = True

    noise_scale: ClassVar[float] = 0.01  # the initial psi is uniform noise in [-noise_scale, noise_scale)
    shared_noise: ClassVar[bool] = False  # whether all policies start with the same noise, as in Algorithm 1
    diagonal: ClassVar[bool] = False  # whether only the diagonal of Sigma is learned

    def __post_init__(self) -> None:
        for name in ("alpha", "alpha_sigma", "alpha_w", "epsilon", "gamma"):
            checks.number(name, getattr(self, name), 0.0, 1.0)
        if self.gamma == 0:
            raise ValueError("gamma must be above 0, got 0")
        for name in ("learn_w", "covariance"):
            checks.one_of(name, getattr(self, name), (True, False))


@dataclass(frozen=True)
class ModelSettings:
    """Settings of "rasf-model", which counts transitions and plans on the counts; see `rasf.tabular.model`.

    Attributes:
        gamma: Discount, between 0 and 1. Default: 0.95.
        epsilon: Probability of exploring. Default: 0.03.
        margin: Actions are explored if their scores differ from the best score by at most `margin` times the largest
            known absolute reward. A large value explores all actions. Default: 0.1.
        optimism: Value of an untried action, in units of the largest known absolute reward. A higher value explores
            more. In these units, no return exceeds 1 / (1 - gamma). Default: 0.3.
        prior: Largest number of virtual tries that are added to the tries of an action in a state. Virtual tries fail
            at the rate of similar states. With 0, only the tries in a state itself count. Default: 20.
        learn_w: Whether the weights of a task are learned from rewards instead of given. Default: False.
    """

    gamma: float = 0.95
    epsilon: float = 0.03
    margin: float = 0.1
    optimism: float = 0.3
    prior: float = 20.0
    learn_w: bool = False

    doubt: ClassVar[float] = 1.0  # while learning, a tried action has this many virtual tries of an untried action
    tolerance: ClassVar[float] = 1e-3  # value changes up to this share of the largest reward are not propagated
    curiosity: ClassVar[float] = 1.0  # uncertain rewards are estimated this many standard deviations above their mean

    def __post_init__(self) -> None:
        for name in ("gamma", "epsilon"):
            checks.number(name, getattr(self, name), 0.0, 1.0)
        if not 0 < self.gamma < 1:
            raise ValueError(f"gamma must be above 0 and below 1, got {self.gamma}")
        for name in ("margin", "prior"):
            checks.number(name, getattr(self, name), 0.0)
        checks.number("optimism", self.optimism)
        checks.one_of("learn_w", self.learn_w, (True, False))
