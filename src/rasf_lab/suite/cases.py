"""An environment of the suite, as data: what a library is trained on, what it is asked, and what counts as a failure.

`environments.py` has the suite's own; an environment of one's own is named MODULE:CASE. Ways to act are text:

    neutral                  by the mean
    mean-variance:-1, ..     at a risk, scored afresh at every step
    static cvar:0.1          at a risk of the whole return, held fixed from the first observation
    limit 0.05               the failure feature's expected discounted sum is at most so much
    price 4                  the control: neutrally, with the failure feature weighed by so much more

The control asks what risk adds over prices: whoever fears failures may simply charge more for them.
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
Settings = Mapping[str, object]  # by name, as JSON knows them or with tuples
NEUTRAL = "neutral"
_STATIC, _LIMIT, _PRICE = "static ", "limit ", "price "
# ways to act that all roads share
ON_ROADS = (
    "neutral", "mean-variance:-0.3", "mean-variance:-1", "mean-variance:-2", "mean-variance:-4", "cvar:0.1",
    "static cvar:0.1", "limit 0.02", "price 0.5", "price 1", "price 2", "price 4", "price 10",
)  # fmt: skip
# highway-env's documentation trains DQN so, for so many steps
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
    """What determines a library or a rival, but for the seed; a rival has `steps` in place of what a library has."""

    env: str
    env_kwargs: dict[str, object]
    tasks: list[list[float]]
    steps_per_task: int
    agent: str
    risk: list[str]
    settings: dict[str, object]
    steps: int


class Asked(TypedDict):
    """What is asked of it: unseen weightings, ways to act, episodes of each and their most steps."""

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
    """The parameters of a run, as `runs_of` made them."""
    return cast(Given, run.parameters)


class SuiteSize(NamedTuple):
    """How much of a case is run: seeds, shares of its training steps, episodes and unseen weightings."""

    seeds: int
    steps: float
    episodes: float
    unseen: int


PRESETS = {"quick": SuiteSize(2, 0.25, 0.25, 3), "full": SuiteSize(5, 1.0, 1.0, 10)}


@dataclass(frozen=True)
class Case:
    """One environment.

    about: a sentence. features: their names. tasks: weightings (n, d) that policies are trained for; unseen: those that
    the library is then asked. failure(step) says on which steps there was one, and failures is what they are called.
    priced: the feature that is failure, or nearest to it, whose price the control raises; lower weights charge for it
    where it counts failures, higher ones where it is negative on them (harm 1 or -1). actings: see the module's header.
    gauge: a number of `info` whose mean over steps is measured too, such as the speed. settings: of `rasf.learn`.
    rival: settings of Stable-Baselines3's DQN that differ from its defaults, such as a documented recipe; and that
    recipe's steps, where there is one.
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
    optimum: Callable[[Floats, float], float] | None = None  # of weights and gamma: the best discounted return

    def __post_init__(self) -> None:
        d = len(self.features)
        for name in ("tasks", "unseen"):
            task_weights(name, getattr(self, name), d)
        for text in self.actings:
            Acting.read(text, self, np.zeros(d))
        if NEUTRAL not in self.actings or not any(is_dial(text) and text != NEUTRAL for text in self.actings):
            raise ValueError(f"actings must have {NEUTRAL!r} and a risk such as 'mean-variance:-1', got {self.actings}")

    def training(self, preset: SuiteSize) -> Training:
        """What determines the library, but for the seed, as plain values."""
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
        """What determines what is asked of it."""
        return {
            "unseen": [list(w) for w in self.unseen[: preset.unseen]],
            "actings": list(self.actings),
            "episodes": max(2, round(preset.episodes * self.episodes)),
            "max_steps": self.max_steps,
        }


def lists_for_tuples(settings: Settings) -> dict[str, object]:
    """Settings as JSON has them."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in settings.items()}


def tuples_for_lists(settings: Settings) -> dict[str, Any]:
    """Settings as they were given."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in settings.items()}


class Acting(NamedTuple):
    """How to act: the weights to act for, at which risk, and the other arguments of `evaluate`."""

    w: Floats
    risk: Risk
    ways: dict[str, Any]

    @classmethod
    def read(cls, text: str, case: Case, w: Floats) -> Acting:
        """What a text means for a task."""
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
    """The exact optimum from the first state of a model, discounted, for a case's `optimum`."""
    from rasf.planning.plan import plan

    planned = plan(mdp, w, Entropic(0.0), horizon=horizon)
    return float(np.asarray(planned.q[0]).max(axis=1)[0])


def is_price(text: str) -> bool:
    """Whether a way to act is the control."""
    return text.startswith(_PRICE)


def is_dial(text: str) -> bool:
    """Whether it is a risk scored afresh at every step, or neutral."""
    return not text.startswith((_PRICE, _STATIC, _LIMIT))


def case_names() -> list[str]:
    """Return the names of the suite's own environments."""
    from rasf_lab.suite.environments import CASES

    return sorted(CASES)


def find_case(name: str) -> Case:
    """The case with this name, or at this MODULE:CASE."""
    if ":" in name:
        from rasf.library.arguments.readers import imported

        module, _, attribute = name.rpartition(":")
        found = getattr(imported(module, f"the case {name!r} cannot be imported"), attribute, None)
        if not isinstance(found, Case):
            raise ValueError(f"case must be a rasf_lab.suite.Case, and {name!r} is {found!r:.60}")
        return found
    from rasf_lab.suite.environments import CASES

    one_of("case", name, case_names())
    return CASES[name]
