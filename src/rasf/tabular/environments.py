"""Tabular learners on any Gymnasium environment with few, hashable observations and a vector reward phi.

The same compiled kernels as in the four-room world, stepped from Python one transition at a time. An agent is told of
tasks, asked for actions and shown transitions:

    SuccessorAgent    (Ra)SFQL
    ReuseAgent        (Ra)PRQL, and Q-learning without reuse

`horizon=n` makes the tables time-indexed: the state is (h, observation), the n-th decision is the last, and gamma may
be 1. That is the episodic, total-reward form that Algorithms 1 and 4 print.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from rasf.arrays import Floats
from rasf.tabular import prql
from rasf.tabular.learner import SuccessorLearner, SuccessorSettings


class Agent(Protocol):
    """What `learn_environment` asks of a learner."""

    def begin_task(self, w: Floats) -> None:
        """A new task with these true weights begins."""

    def act(self, key: Hashable) -> int:
        """An action for a state, exploring."""

    def observe(self, phi: Floats, reward: float, key: Hashable, terminated: bool) -> None:
        """What the last action led to."""

    def end_episode(self, total: float) -> None:
        """The episode is over, with this total reward."""


Elders = Callable[[Hashable, Floats], tuple[int, float]]  # (state, w) -> best action of older policies, its score
Callback = Callable[[int, int, float, float], bool]  # (task, step, total reward, failures in it) -> whether to stop
_WATCHED_EVERY = 500


class SuccessorAgent:
    """(Ra)SFQL as an `Agent`; `elders`, which no longer learn, take part in GPI."""

    def __init__(
        self,
        n_features: int,
        n_actions: int,
        settings: SuccessorSettings,
        seed: int,
        max_tasks: int,
        elders: Elders | None = None,
    ) -> None:
        self.learner = SuccessorLearner(n_features, n_actions, settings, seed, max_tasks)
        self._elders = elders
        self._rng = np.random.default_rng([seed, 5])
        self._last = (0, 0, 0, 0)

    def begin_task(self, w: Floats) -> None:
        """Add a policy; the weights are told only if they are not to be learned."""
        self.learner.begin_task(None if self.learner.settings.learn_w else w)

    def act(self, key: Hashable) -> int:
        """GPI, epsilon-greedy."""
        row = self.learner.row(key)
        action, driver, slot = self.learner.choose(row)
        if self._elders is not None:
            wiser, score = self._elders(key, self.learner.weights)
            if score > self.learner.best_score(row):
                action, driver = wiser, self.learner.task
        if self._rng.random() < self.learner.settings.epsilon:
            action = int(self._rng.integers(self.learner.n_actions))
        self._last = (row, action, driver, slot)
        return action

    def observe(self, phi: Floats, reward: float, key: Hashable, terminated: bool) -> None:
        """Update the current and the driving policy."""
        self.learner.learn(*self._last, phi, reward, None if terminated else self.learner.row(key))

    def end_episode(self, total: float) -> None:
        """Nothing to do."""


class ReuseAgent:
    """(Ra)PRQL as an `Agent`, or Q-learning with `reuse=False` and omega = 0; `rule` comes from `prql.make_rule`."""

    def __init__(self, n_actions: int, rule: prql.Rule, max_tasks: int) -> None:
        self.rule = rule
        self.memory = prql.new_memory(max_tasks, n_actions)
        self.scores = prql.Scores(np.zeros(max_tasks), np.zeros(max_tasks, np.int64), np.zeros(max_tasks))
        self.task, self._driver, self._last = -1, 0, (0, 0)
        self._numbers: dict[Hashable, int] = {}
        self._rng = np.random.default_rng([rule.seed, 6])

    def begin_task(self, w: Floats) -> None:
        """Fresh Q and C, fresh scores; the weights are not looked at."""
        if self.task + 1 == len(self.scores.score):
            raise ValueError(f"the agent was made for {len(self.scores.score)} tasks")
        self.task += 1
        self._driver = self.task
        for row in range(int(self.memory.used[0])):
            prql.begin(self.memory, self.rule, self.task, row)
        self.scores.score[:], self.scores.used[:] = 0.0, 0

    def act(self, key: Hashable) -> int:
        """The driver's action with probability eta, else epsilon-greedy on the current policy."""
        row = self._row(key)
        if self._driver != self.task and self._rng.random() < self.rule.eta:
            action = int(self.memory.choice[self._driver, row])
        elif self._rng.random() < self.rule.epsilon:
            action = int(self._rng.integers(self.memory.value.shape[2]))
        else:
            action = int(self.memory.choice[self.task, row])
        self._last = (row, action)
        return action

    def observe(self, phi: Floats, reward: float, key: Hashable, terminated: bool) -> None:
        """Update Q and C of the current policy."""
        next_row = -1 if terminated else self._row(key)
        prql.learn(self.memory, self.rule, self.task, *self._last, reward, next_row)

    def end_episode(self, total: float) -> None:
        """Score the driver and draw the next."""
        self._driver = int(
            prql.finish_episode(self.scores, self.rule, self.task, self._driver, total, self._rng.random())
        )

    def _row(self, key: Hashable) -> int:
        number = self._numbers.setdefault(key, len(self._numbers))
        self.memory = prql.reserve(self.memory, 1)
        return int(prql.row_of(self.memory, self.rule, self.task, number))


class History(NamedTuple):
    """What training saw, per task begun (n,): total reward, failures named in info["failure"] (nan if none was)."""

    total: Floats
    failures: Floats


def learn_environment(
    env: Any,
    agent: Agent,
    tasks: npt.ArrayLike,
    steps_per_task: int,
    seed: int,
    horizon: int | None = None,
    callback: Callback | None = None,
) -> History:
    """Learn the tasks (n, d) one after the other on a Gymnasium environment whose reward is the vector phi.

    `callback` is called now and then, and at the end of every task; if it says so, learning stops.
    """
    weights = np.asarray(tasks, np.float64)
    if weights.ndim != 2 or not np.isfinite(weights).all():
        raise ValueError(f"tasks must be finite, of shape (n, d), got shape {weights.shape}")
    if steps_per_task < 1 or (horizon is not None and horizon < 1):
        raise ValueError(f"steps_per_task and horizon must be positive, got {steps_per_task} and {horizon}")
    total, failures = np.zeros(len(weights)), np.full(len(weights), np.nan)
    observation, _ = env.reset(seed=seed)
    for t, w in enumerate(weights):
        if t > 0:
            observation, _ = env.reset()
        agent.begin_task(w)
        gained, taken = 0.0, 0
        for step in range(1, steps_per_task + 1):
            action = agent.act(state_key(observation, taken, horizon))
            observation, phi, terminated, truncated, info = env.step(action)
            features = np.asarray(phi, np.float64)
            if features.shape != w.shape:
                raise ValueError(f"the environment must return {len(w)} features as its reward, got {features.shape}")
            reward, taken = float(features @ w), taken + 1
            over = horizon is not None and taken == horizon
            agent.observe(features, reward, state_key(observation, taken, horizon), bool(terminated) or over)
            gained += reward
            total[t] += reward
            if "failure" in info:
                if np.isnan(failures[t]):  # the first that is named: there were none before
                    failures[:] = 0.0
                failures[t] += bool(info["failure"])
            if terminated or truncated or over:
                agent.end_episode(gained)
                observation, _ = env.reset()
                gained, taken = 0.0, 0
            due = step == steps_per_task or step % _WATCHED_EVERY == 0
            if callback is not None and due and callback(t, step, float(total[t]), float(failures[t])):
                return History(total[: t + 1], failures[: t + 1])
    return History(total, failures)


def state_key(observation: Any, step: int, horizon: int | None) -> Hashable:
    """What identifies a state in the tables; arrays by their bytes, the decision's number with a horizon."""
    key = observation.tobytes() if isinstance(observation, np.ndarray) else observation
    try:
        hash(key)
    except TypeError:
        raise ValueError(f"observations must be hashable or arrays, got {type(observation).__name__}") from None
    return key if horizon is None else (step, key)
