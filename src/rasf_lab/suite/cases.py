"""Cases of the suite as data: an environment, the training tasks, the queries, and a rule for failures.

`environments.py` has the suite's cases. A case of another module is named MODULE:CASE. Rivals are other agents, trained
for comparison (`rivals.py`). A *way to act* is a rule by which a library acts for a weighting, written as text:

    neutral                  maximises the mean return
    mean-variance:-1, ..     maximises this risk measure of the remaining return, in every state (per-state risk)
    static cvar:0.1          maximises this risk measure of the whole episode's return (static risk)
    limit 0.05               neutral, but the expected discounted sum of the failure feature is at most 0.05
    price 4                  the *control*: neutral, with 4 added to the cost of a unit of the failure feature

The failure feature (`Case.priced`) counts failures, or is the feature that comes closest to a count of failures. A
higher cost of failures can also avoid failures, without a risk measure. The comparison with the control shows whether a
risk measure does better.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, cast

import numpy as np

from rasf.arrays import Floats
from rasf.checks import one_of, task_weights
from rasf.limits import Limit, repriced
from rasf.risk import Entropic, MeanVariance, Risk
from rasf.risk.names import risk_from_text
from rasf_lab.sweep.runs import Run

if TYPE_CHECKING:
    from rasf.envs.gymnasium.single import FailureRule
    from rasf.mdp import FiniteMDP

Weightings = tuple[tuple[float, ...], ...]
Settings = Mapping[str, object]  # JSON values or tuples, by name
NEUTRAL = "neutral"
_STATIC, _LIMIT, _PRICE = "static ", "limit ", "price "
# the ways to act in all driving cases
ON_ROADS = (
    "neutral", "mean-variance:-0.3", "mean-variance:-1", "mean-variance:-2", "mean-variance:-4", "cvar:0.1",
    "static cvar:0.1", "limit 0.02", "price 0.5", "price 1", "price 2", "price 4", "price 10",
)  # fmt: skip
# the training steps and settings of DQN in highway-env's documentation
DQN_STEPS = 20_000
DQN_ON_ROADS: Settings = {
    "policy_kwargs": {"net_arch": [256, 256]},
    "learning_rate": 5e-4,
    "buffer_size": 15_000,
    "learning_starts": 200,
    "batch_size": 32,
    "gamma": 0.8,
    "train_freq": 1,
    "gradient_steps": 1,
    "target_update_interval": 50,
}


class Training(TypedDict, total=False):
    """The parameters of a training, without the seed.

    A rival has `env`, `env_kwargs`, `steps` and `settings`. A library has all parameters except `steps`.
    """

    env: str
    env_kwargs: dict[str, object]
    tasks: list[list[float]]
    steps_per_task: int
    agent: str
    risk: list[str]
    settings: dict[str, object]
    steps: int


class Asked(TypedDict):
    """The queries of a run: unseen weightings, ways to act, episodes per query, and the step limit of an episode."""

    unseen: list[list[float]]
    actings: list[str]
    episodes: int
    max_steps: int


class Given(TypedDict):
    """The parameters of a run of the suite."""

    case: str
    agent: str
    training: Training
    asked: Asked


def given(run: Run) -> Given:
    """Return the parameters of a run of the suite."""
    return cast(Given, run.parameters)


class SuiteSize(NamedTuple):
    """The size of the suite.

    Attributes:
        seeds: the number of seeds.
        steps: a factor that multiplies the training steps of a case.
        episodes: a factor that multiplies the episodes of a case.
        unseen: the number of unseen weightings.
    """

    seeds: int
    steps: float
    episodes: float
    unseen: int


PRESETS = {"quick": SuiteSize(2, 0.25, 0.25, 3), "full": SuiteSize(5, 1.0, 1.0, 10)}


@dataclass(frozen=True)
class Case:
    """One environment of the suite.

    Attributes:
        env, env_kwargs: the environment's id and its arguments.
        about: one sentence on the environment.
        features: the names of the d features.
        tasks: the training weightings (n, d).
        unseen: the weightings (m, d) of the queries.
        steps_per_task: the training steps for each of `tasks`.
        failures: the name of the failures in the plural, such as "collisions".
        actings: ways to act, as in the module's header; "neutral" and at least one per-state risk are required.
        failure: failure(step) returns whether a step is a failure. Default: None, the environment marks failures.
        priced: the index of the failure feature. Default: the last feature.
        harm: 1 if a larger failure feature means more failures, -1 if it means fewer failures. The control lowers the
            weight of the failure feature if `harm` is 1, and raises this weight if `harm` is -1. Default: 1.
        agent, risk, settings: arguments of `rasf.learn`, with risks as text.
        episodes: the number of episodes for each weighting and way to act, in the preset "full". Default: 100.
        max_steps: the number of steps after which an episode is truncated. Default: 1,000.
        gauge: the name of a number in `info`, such as the speed, whose mean over steps is also measured. Default: none.
        rival: the settings of rivals that differ from the defaults of Stable-Baselines3.
        rival_steps: the training steps of DQN in the environment's documentation. Default: None, it has no recipe.
        optimum: optimum(w, gamma) returns the best possible discounted return. Default: None, the optimum is unknown.
    """

    env: str
    about: str
    features: tuple[str, ...]
    tasks: Weightings
    unseen: Weightings
    steps_per_task: int
    failures: str
    actings: tuple[str, ...]
    failure: FailureRule | None = None
    priced: int = -1
    harm: int = 1
    agent: str = "auto"
    risk: tuple[str, ...] = ("neutral",)
    settings: Settings = field(default_factory=dict)
    env_kwargs: Settings = field(default_factory=dict)
    episodes: int = 100
    max_steps: int = 1_000
    gauge: str | None = None
    rival: Settings = field(default_factory=dict)
    rival_steps: int | None = None
    optimum: Callable[[Floats, float], float] | None = None

    def __post_init__(self) -> None:
        d = len(self.features)
        for name in ("tasks", "unseen"):
            task_weights(name, getattr(self, name), d)
        for text in self.actings:
            Acting.read(text, self, np.zeros(d))
        if NEUTRAL not in self.actings or not any(is_dial(text) and text != NEUTRAL for text in self.actings):
            raise ValueError(f"actings must have {NEUTRAL!r} and a risk such as 'mean-variance:-1', got {self.actings}")

    def training(self, preset: SuiteSize) -> Training:
        """Return the parameters of the library's training, without the seed, as JSON values."""
        return {
            "env": self.env,
            "env_kwargs": dict(self.env_kwargs),
            "tasks": [list(w) for w in self.tasks],
            "steps_per_task": max(1, round(preset.steps * self.steps_per_task)),
            "agent": self.agent,
            "risk": list(self.risk),
            "settings": lists_for_tuples(self.settings),
        }

    def asked(self, preset: SuiteSize) -> Asked:
        """Return the queries at the size of a preset, as JSON values."""
        return {
            "unseen": [list(w) for w in self.unseen[: preset.unseen]],
            "actings": list(self.actings),
            "episodes": max(2, round(preset.episodes * self.episodes)),
            "max_steps": self.max_steps,
        }


def lists_for_tuples(settings: Settings) -> dict[str, object]:
    """Return settings with lists in place of tuples, as JSON has no tuples."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in settings.items()}


def tuples_for_lists(settings: Settings) -> dict[str, Any]:
    """Return settings with tuples in place of lists."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in settings.items()}


class Acting(NamedTuple):
    """A way to act for a task: weights (d,), risk measure, and further arguments `ways` of `PolicyLibrary.evaluate`."""

    w: Floats
    risk: Risk
    ways: dict[str, Any]

    @classmethod
    def read(cls, text: str, case: Case, w: Floats) -> Acting:
        """Return the way to act with this text, for a task with weights w (d,)."""
        neutral = MeanVariance(0.0)
        if text.startswith(_PRICE):
            price, feature = float(text.removeprefix(_PRICE)), case.priced % len(case.features)
            return cls(repriced(w, {feature: case.harm * price}), neutral, {})
        if text.startswith(_LIMIT):
            most, feature = float(text.removeprefix(_LIMIT)), case.priced % len(case.features)
            return cls(w, neutral, {"limits": {feature: _limit(most, case.harm)}})
        static = text.startswith(_STATIC)
        return cls(w, risk_from_text(text.removeprefix(_STATIC)), {"static": True} if static else {})


def _limit(most: float, harm: int) -> Limit:
    return Limit(at_most=most) if harm > 0 else Limit(at_least=-most)


def best_return(mdp: FiniteMDP, w: Floats, horizon: int) -> float:
    """Return the exact optimal discounted return from state 0 of a model, for `Case.optimum`.

    Args:
        mdp: the model.
        w: weights (d,).
        horizon: the number of steps of an episode.
    """
    from rasf.planning.plan import plan

    planned = plan(mdp, w, Entropic(0.0), horizon=horizon)
    return float(np.asarray(planned.q[0]).max(axis=1)[0])


def is_price(text: str) -> bool:
    """Return whether a way to act, as text, is the control."""
    return text.startswith(_PRICE)


def is_dial(text: str) -> bool:
    """Return whether a way to act, as text, is neutral or a per-state risk."""
    return not text.startswith((_PRICE, _STATIC, _LIMIT))


def case_names() -> list[str]:
    """Return the names of the suite's cases."""
    from rasf_lab.suite.environments import CASES

    return sorted(CASES)


def find_case(name: str) -> Case:
    """Return the suite's case with this name, or the `Case` at MODULE:CASE.

    Raises:
        ValueError: there is no such case, or the object is not a `Case`.
    """
    if ":" in name:
        from rasf.library.arguments.readers import imported

        module, _, attribute = name.rpartition(":")
        found = getattr(imported(module, f"the case {name!r} cannot be imported"), attribute, None)
        if not isinstance(found, Case):
            raise ValueError(f"case must be a rasf_lab.suite.Case, got {name!r}, which is {found!r:.60}")
        return found
    from rasf_lab.suite.environments import CASES

    one_of("case", name, case_names())
    return CASES[name]
