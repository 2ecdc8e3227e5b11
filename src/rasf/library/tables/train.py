"""Tabular policies for a library: (Ra)SFQL on any environment with few observations, in the compiled loop where it can.

`rasf/FourRoom-v0`, unwrapped, is learned by the compiled loop of its world; everything else is stepped from Python.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from rasf.arrays import Floats
from rasf.envs.gymnasium.single import FeatureEnvironment
from rasf.library.frozen_policies import FrozenPolicies
from rasf.library.progress import Callback, Trained, TrainingProgress
from rasf.library.tables.policies import TablePolicies
from rasf.risk import Risk
from rasf.tabular.environments import SuccessorAgent, learn_environment
from rasf.tabular.learner import SuccessorLearner, SuccessorSettings


def train_tables(
    env: FeatureEnvironment,
    tasks: Floats,
    settings: SuccessorSettings,
    steps_per_task: int,
    seed: int,
    callback: Callback,
    elders: FrozenPolicies | None = None,
) -> Trained:
    """Learn the tasks (n, d) one after the other."""
    rooms = compiled_rooms(env)
    if rooms is not None and elders is None:
        return _train_four_room(rooms, tasks, settings, steps_per_task, seed, callback)
    agent = SuccessorAgent(
        env.n_features,
        env.n_actions,
        settings,
        seed,
        len(tasks),
        None if elders is None else _advice(elders, settings.risk),
    )
    total, failures = learn_environment(
        _Coded(env),
        agent,
        tasks,
        steps_per_task,
        seed,
        callback=lambda task, step, total, failures: callback(TrainingProgress(task, step, total, failures)),
    )
    sources = TablePolicies.from_agent(agent, env.encoder.size)
    weights = agent.learner.learner.w[: len(total)].copy()
    return Trained(sources, weights, {"return": total, "failures": failures})


def compiled_rooms(env: FeatureEnvironment) -> Any:
    """The `FourRoom` of an environment that is just that, or None."""
    from gymnasium.wrappers import OrderEnforcing

    from rasf.envs.four_room_env import FourRoomEnv

    inner = env.env.env if type(env.env) is OrderEnforcing else env.env
    return inner.rooms if type(inner) is FourRoomEnv and not env.has_phi else None


def _train_four_room(
    rooms: Any, tasks: Floats, settings: SuccessorSettings, steps_per_task: int, seed: int, callback: Callback
) -> Trained:
    learner = SuccessorLearner(rooms.n_features, 4, settings, seed, len(tasks))
    outcomes = []
    for task, w in enumerate(tasks):
        outcomes.append(learner.learn_four_room(rooms, w, steps_per_task))
        if callback(TrainingProgress(task, steps_per_task, outcomes[-1].total, outcomes[-1].failures)):
            break
    history = {
        "return": np.array([outcome.total for outcome in outcomes]),
        "failures": np.array([outcome.failures for outcome in outcomes], np.float64),
    }
    return Trained(TablePolicies.from_four_room(learner, rooms), learner.learner.w[: len(outcomes)].copy(), history)


def _advice(elders: FrozenPolicies, risk: Risk) -> Any:
    """Best action and score of the older policies at a state, given as the bytes of its numbers."""

    def best(key: Hashable, w: Floats) -> tuple[int, float]:
        assert isinstance(key, bytes)
        found = elders.scores(np.frombuffer(key, np.float64)[None], w, risk)
        if not found.seen[0]:
            return 0, -np.inf
        scores = found.values[:, 0].max(axis=0)
        action = int(scores.argmax())
        return action, float(scores[action])

    return best


class _Coded:
    """An environment in Gymnasium's words whose observations are the numbers that identify a state."""

    def __init__(self, env: FeatureEnvironment) -> None:
        self._env = env

    def reset(self, seed: int | None = None) -> tuple[Floats, dict[str, Any]]:
        return self._env.encoder.key(self._env.reset(seed)), {}

    def step(self, action: int) -> tuple[Floats, Floats, bool, bool, dict[str, Any]]:
        step = self._env.step(action)
        info = {"failure": step.failure} if self._env.names_failures else {}
        return self._env.encoder.key(step.obs), step.phi, step.terminated, step.truncated, info
