"""Settings of the agents that learn by networks: frozen dataclasses, one for each kind of return distribution.

    MeanSettings          sfdqn           the mean of the feature return (the discounted sum of the features)
    CovarianceSettings    sfdqn-residual  mean and covariance; the covariance is learned from temporal differences
    HistogramSettings     sfc51, rasfc51  a histogram of every feature
    MomentSettings        rasfdqn         mean and covariance; the covariance is a diagonal plus a matrix of low rank
    ActorSettings         rasftd3         the same as MomentSettings, for continuous actions

Each class has only the settings that have an effect on its agents.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rasf import checks
from rasf.agents import AGENTS, Family, LawKind

DEEP_AGENTS = tuple(name for name, one in AGENTS.items() if one.family is Family.NETWORKS and one.makes_library)
_MOST_ATOMS = 100_000
_COUNTS = {"batch": 1, "n_step": 1, "target_period": 0, "average": 0, "warmup": 0, "replay": 0, "objects": 0,
           "episode_length": 0}  # fmt: skip
_HORIZONS = ("episode", "continuing")
_SHARES = ("epsilon", "exploration", "freeze", "prioritised")
_SWITCHES = ("decay", "shared", "interleaved", "epsilon_z")


@dataclass(frozen=True)
class NetworkSettings:
    """Settings of all agents that learn by networks. The defaults are those of the paper.

    Attributes:
        gamma: Discount. 1 is allowed if the horizon is "episode". Default: 0.9.
        horizon: "episode": returns end at the time limit, and the time left is an input of the networks. "continuing":
            returns are learned as if there were no limit. Default: "continuing".
        episode_length: The time limit in steps; 0 for the limit that the environment declares. If neither gives a
            limit, the horizon is "continuing". Default: 0.
        widths: Number of units of each hidden layer. Default: (256, 256).
        shared: Whether all policies share the hidden layers. Default: False.
        objects: How many numbers describe one object, if an observation is a list of objects. The first object is the
            agent, an object of zeros is absent, and the order of the other objects has no effect. 0 for other
            observations. Default: 0.
        frequency: Standard deviation of the initial frequencies of a first layer of sines. Such a layer can fit
            functions of the state that change quickly. 0 for a first layer of tanh. Default: 0.
        batch: Number of transitions in an update. Default: 32.
        updates: Number of updates for each step of the environment; 0.25 is one update in four steps. In a world
            written in jax, every interleaved task and risk takes one step in a round, and the number of updates in a
            round must be a whole number. Default: 1.
        learning_rate: Learning rate of Adam. Default: 1e-3.
        decay: Whether the learning rate decreases linearly, to 2 % at the end of training. Default: False.
        target_period: Number of updates between two copies of the online networks to the target networks; 0 for no
            target networks. Default: 1000.
        average: Number of updates over which the weights of the acting networks are averaged; 0 to act with the
            networks of the last update. Default: 0.
        freeze: Share of training, at its end, in which policies are frozen and only their distributions are learned.
            Default: 0.
        epsilon: Probability of a random action. Default: 0.1.
        exploration: Share of training, at its start, in which the probability of a random action decreases from 1 to
            epsilon. Default: 0.
        epsilon_z: Whether a random action is repeated for n steps. n is at most 1,000 and drawn with probability
            proportional to 1 / n^2 (epsilon-z-greedy exploration, Dabney and others, 2021). Default: False.
        n_step: Maximum number of steps over which features are summed before bootstrapping. Default: 1.
        warmup: Number of random steps before the first update, which determine the scale of inputs and features.
            Default: 0.
        prioritised: Share of a batch that is drawn by priority. The other transitions are drawn uniformly. Default: 0.
        replay: Number of steps that the replay keeps; 0 to keep all steps. Default: 0.
        interleaved: Whether tasks are interleaved instead of trained in sequence. Default: False.
    """

    kind: ClassVar[LawKind] = LawKind.MEAN

    gamma: float = 0.9
    horizon: str = "continuing"
    episode_length: int = 0
    widths: tuple[int, ...] = (256, 256)
    shared: bool = False
    objects: int = 0
    frequency: float = 0.0
    batch: int = 32
    updates: float = 1.0
    learning_rate: float = 1e-3
    decay: bool = False
    target_period: int = 1_000
    average: int = 0
    freeze: float = 0.0
    epsilon: float = 0.1
    exploration: float = 0.0
    epsilon_z: bool = False
    n_step: int = 1
    warmup: int = 0
    prioritised: float = 0.0
    replay: int = 0
    interleaved: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.widths, tuple) or not self.widths:
            raise ValueError(f"widths must be a tuple of layer sizes such as (64, 64), got {self.widths!r}")
        for width in self.widths:
            checks.whole("widths", width)
        for name, least in _COUNTS.items():
            checks.whole(name, getattr(self, name), least)
        for name in _SHARES:
            checks.number(name, getattr(self, name), 0.0, 1.0)
        for name in _SWITCHES:
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name} must be True or False, got {getattr(self, name)!r}")
        checks.number("learning_rate", self.learning_rate, 0.0, np.inf)
        checks.number("frequency", self.frequency, 0.0, np.inf)
        if checks.number("updates", self.updates, 0.0, 1_000.0) == 0:
            raise ValueError("updates must be above 0, such as 0.25 for one update in four steps, got 0")
        checks.one_of("horizon", self.horizon, _HORIZONS)
        if checks.number("gamma", self.gamma, 0.0, 1.0) == 1 and self.horizon != "episode":
            raise ValueError("gamma must be below 1 unless horizon is 'episode', got 1")
        if self.objects and self.frequency:
            raise ValueError(f"objects cannot be combined with frequency, got {self.frequency!r}")


@dataclass(frozen=True)
class MeanSettings(NetworkSettings):
    """Settings of `sfdqn`, which learns the mean of the feature return; fields as in `NetworkSettings`."""


@dataclass(frozen=True)
class CovarianceSettings(NetworkSettings):
    """Settings of `sfdqn-residual`, which learns mean and covariance; fields as in `NetworkSettings`."""

    kind: ClassVar[LawKind] = LawKind.MEAN_COVARIANCE


@dataclass(frozen=True)
class HistogramSettings(NetworkSettings):
    """Settings of `sfc51` and `rasfc51`, which learn a histogram of every feature.

    The class has the fields of `NetworkSettings` and one more field.

    Attributes:
        atoms: Number of atoms of each histogram. Default: 51.
    """

    kind: ClassVar[LawKind] = LawKind.HISTOGRAM

    atoms: int = 51

    def __post_init__(self) -> None:
        super().__post_init__()
        if checks.whole("atoms", self.atoms, 2) > _MOST_ATOMS:
            raise ValueError(f"atoms must be at most {_MOST_ATOMS:,}, got {self.atoms}")


@dataclass(frozen=True)
class MomentSettings(NetworkSettings):
    """Settings of `rasfdqn`, which learns the mean and a covariance of low rank.

    The class has the fields of `NetworkSettings`, with other defaults, and two more fields.

    Attributes:
        events: Indices of rare features that are never negative, such as a crash. For these features the networks
            output the logarithm of the mean. Default: none; `rasf.learn` then uses the features in its argument `once`,
            or else the events that the environment declares.
        averse_episodes: Share of training episodes in which the behaviour policy is risk-averse, so that the results of
            averse acting are learned from experience. For each such episode, a number c from 0 to 2 is drawn, and
            scores are reduced by c standard deviations of the return. Default: 0.5.

    The defaults differ from the paper's: gamma 0.99, horizon "episode", widths (64, 64), shared, batch 64,
    learning_rate 2e-3, decay, target_period 250, average 1000, freeze 0.2, epsilon 0.05, exploration 0.2, n_step 5,
    warmup 500, prioritised 0.5, interleaved.
    """

    kind: ClassVar[LawKind] = LawKind.MEAN_LOW_RANK

    gamma: float = 0.99
    horizon: str = "episode"
    widths: tuple[int, ...] = (64, 64)
    shared: bool = True
    batch: int = 64
    learning_rate: float = 2e-3
    decay: bool = True
    target_period: int = 250
    average: int = 1_000
    freeze: float = 0.2
    epsilon: float = 0.05
    exploration: float = 0.2
    n_step: int = 5
    warmup: int = 500
    prioritised: float = 0.5
    interleaved: bool = True
    events: tuple[int, ...] = ()
    averse_episodes: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.events, tuple) or len(set(self.events)) < len(self.events):
            raise ValueError(f"events must be a tuple of different feature indices such as (2,), got {self.events!r}")
        for event in self.events:
            checks.whole("events", event, 0)
        checks.number("averse_episodes", self.averse_episodes, 0.0, 1.0)


@dataclass(frozen=True)
class ActorSettings(MomentSettings):
    """Settings of `rasftd3`, which learns policies with continuous actions.

    The class adds fields to `MomentSettings`, and has other defaults.

    Attributes:
        actor_learning_rate: Learning rate of Adam for the policies. Default: 3e-4.
        noise: Standard deviation of the Gaussian noise that is added to actions in training, where actions range from
            -1 to 1. Default: 0.2.
        policies_per_update: Largest number of policies that learn in an update. If there are more, they take turns.
            Default: 8.

    The defaults differ from those of `MomentSettings`: widths (256, 256), batch 256, updates 0.25, learning_rate 1e-3,
    target_period 200, average 2500, exploration 0.05, n_step 1, warmup 1000. n_step must be 1, and objects must be 0.
    In a world written in jax, the number of updates in a round is rounded up to a whole number.
    """

    widths: tuple[int, ...] = (256, 256)
    batch: int = 256
    updates: float = 0.25
    learning_rate: float = 1e-3
    target_period: int = 200
    average: int = 2_500
    exploration: float = 0.05
    n_step: int = 1
    warmup: int = 1_000
    actor_learning_rate: float = 3e-4
    noise: float = 0.2
    policies_per_update: int = 8

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.number("actor_learning_rate", self.actor_learning_rate, 0.0, 1.0)
        checks.number("noise", self.noise, 0.0, 1.0)
        checks.whole("policies_per_update", self.policies_per_update)
        for name, only in (("n_step", 1), ("objects", 0)):
            if getattr(self, name) != only:
                raise ValueError(f"{name} must be {only} for continuous actions, got {getattr(self, name)}")


_CLASSES = {one.kind: one for one in (MeanSettings, CovarianceSettings, HistogramSettings, MomentSettings)}


def network_settings(agent: str) -> NetworkSettings:
    """Return the default settings of an agent that learns by networks.

    Args:
        agent: The name of the agent, such as "rasfdqn".
    """
    checks.one_of("agent", agent, DEEP_AGENTS)
    return ActorSettings() if AGENTS[agent].continuous else _CLASSES[AGENTS[agent].law]()
