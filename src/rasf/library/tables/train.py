"""Tabular policies for a library: (Ra)SFQL on any environment with few observations, in the compiled loop where it can.

`rasf/FourRoom-v0`, unwrapped, is learned by the compiled loop of its world; everything else is stepped from Python, one
call of the same kernels per transition. The policies of a base library, which learn no more, take part in GPI: where
one of them scores higher than all policies that learn, its action is taken.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rasf.arrays import Floats
from rasf.envs.four_room import FourRoom, FourRoomEnv
from rasf.envs.gymnasium.single import FeatureEnvironment
from rasf.library.frozen_policies import FrozenPolicies
from rasf.library.progress import Reporter, Trained
from rasf.library.tables.policies import TablePolicies
from rasf.tabular.learner import SuccessorLearner, SuccessorSettings
from rasf.transfer import gpi_actions

_SHOWN_EVERY = 500  # steps
_EXPLORATION = 5  # its stream of random numbers


def train_tables(
    env: FeatureEnvironment,
    tasks: Floats,
    settings: SuccessorSettings,
    steps_per_task: int,
    seed: int,
    report: Reporter,
    base_library: FrozenPolicies | None = None,
) -> Trained:
    """Learn the tasks (n, d) one after the other."""
    learner = SuccessorLearner(env.n_features, env.n_actions, settings, seed, len(tasks))
    total, failures = np.full((2, len(tasks)), np.nan)

    def show(task: int, step: int, rewards: float, failed: float) -> bool:
        total[task], failures[task] = rewards, failed
        return report(task, step, rewards, failed)

    rooms = compiled_rooms(env)
    if rooms is not None and base_library is None:
        for task, w in enumerate(tasks):
            outcome = learner.learn_four_room(rooms, w, steps_per_task)
            if show(task, steps_per_task, outcome.total, outcome.failures):
                break
        keys = learner.four_room_keys(rooms)
    else:
        keys = learn_by_steps(learner, env, tasks, steps_per_task, seed, show, base_library)
    begun = learner.task + 1
    history = {"return": total[:begun], "failures": failures[:begun]}
    return Trained(TablePolicies.from_learner(learner, keys), learner.memory.w[:begun].copy(), history)


def compiled_rooms(env: FeatureEnvironment) -> FourRoom | None:
    """The `FourRoom` of an environment that is just that, or None."""
    from gymnasium.wrappers import OrderEnforcing

    inner = env.env.env if type(env.env) is OrderEnforcing else env.env
    return inner.rooms if type(inner) is FourRoomEnv and not env.has_phi else None


def learn_by_steps(
    learner: SuccessorLearner,
    env: FeatureEnvironment,
    tasks: Floats,
    steps_per_task: int,
    seed: int,
    show: Callable[[int, int, float, float], bool],
    base_library: FrozenPolicies | None = None,
) -> Floats:
    """Learn the tasks on any environment, one step after the other; the keys (S, n) of the learner's rows."""
    settings, rng = learner.settings, np.random.default_rng([seed, _EXPLORATION])
    keys: list[Floats] = []
    rows: dict[bytes, int] = {}

    def row_of(obs: Any) -> int:
        key = env.encoder.key(obs)
        row = rows.setdefault(key.tobytes(), len(keys))
        if row == len(keys):
            keys.append(key)
            learner.add_row()
        return row

    obs = env.reset(seed)
    for task, w in enumerate(tasks):
        if task > 0:
            obs = env.reset()
        learner.begin_task(None if settings.learn_w else w)
        total, failures = 0.0, 0
        for step in range(1, steps_per_task + 1):
            row = row_of(obs)
            action, driver, slot = learner.choose(row)
            if base_library is not None:
                found = base_library.scores(keys[row][None], learner.weights, settings.risk)
                lead = int(gpi_actions(found.values)[0])
                if found.seen[0] and found.values[:, 0, lead].max() > learner.best_score(row):
                    action, driver = lead, task
            if rng.random() < settings.epsilon:
                action = int(rng.integers(env.n_actions))
            after = env.step(action)
            reward = float(after.phi @ w)
            next_row = None if after.terminated else row_of(after.obs)
            learner.learn(row, action, driver, slot, after.phi, reward, next_row)
            total, failures = total + reward, failures + after.failure
            obs = env.reset() if after.terminated or after.truncated else after.obs
            if step == steps_per_task or step % _SHOWN_EVERY == 0:
                named = float(failures) if env.reports_failures else np.nan
                if show(task, step, total, named):
                    return np.array(keys)
    return np.array(keys)
