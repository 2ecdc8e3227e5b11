"""Policies for a library from a model of counts: learned by `rasf.tabular.model`, then planned and evaluated on it.

Experience is kept: every step of every task stays in the model. While a task is learned, behaviour follows the plan for
it, and all risks learn from one stream. When all is learned, every policy is planned once more on what is known by
then, and its psi and Sigma are the exact ones of that policy on that model. An action that was never tried in a state
takes no part in GPI there; a state in which none was tried has not been seen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np

from rasf.arrays import Floats
from rasf.envs.gymnasium.single import FeatureEnvironment
from rasf.library.frozen_policies import FrozenPolicies
from rasf.library.progress import Reporter, Trained
from rasf.library.tables.policies import TablePolicies
from rasf.library.tables.train import compiled_rooms
from rasf.planning.moments import successor_moments
from rasf.risk import MeanVariance, NestedEntropic, Risk
from rasf.tabular.model import ModelLearner, ModelSettings
from rasf.transfer import gpi_actions, packed_indices

_SHOWN_EVERY = 500  # steps
_EXPLORATION = 6  # its stream of random numbers


def train_model(
    env: FeatureEnvironment,
    tasks: Floats,
    risks: Sequence[Risk],
    settings: ModelSettings,
    steps_per_task: int,
    seed: int,
    reports: Sequence[Reporter],
    notes: list[str],
    base_library: FrozenPolicies | None = None,
) -> list[Trained]:
    """Learn the tasks (n, d) one after the other on one model; what came of it for each risk.

    All risks learn from one stream: each leads for its share of a task's steps, and all that is seen serves all.
    """
    learner = ModelLearner(env.n_features, env.n_actions, settings, seed)
    total, failures = np.full((2, len(risks), len(tasks)), np.nan)
    shares = [max(1, steps_per_task // len(risks) + (r < steps_per_task % len(risks))) for r in range(len(risks))]
    rooms = compiled_rooms(env) if base_library is None else None
    walk = None if rooms is not None else _Walk(learner, env, seed, base_library)
    known = np.array(tasks)
    for (task, w), (r, risk) in product(enumerate(tasks), enumerate(risks)):
        if r == 0:
            learner.begin_task(None if settings.learn_w else w)

        def show(step: int, rewards: float, failed: float, r: int = r, task: int = task) -> bool:
            total[r, task], failures[r, task] = rewards, failed
            return reports[r](task, step, rewards, failed)

        if rooms is not None:
            outcome = learner.learn_four_room(rooms, w, risk, shares[r])
            stopped = show(shares[r], outcome.total, outcome.failures)
        else:
            assert walk is not None
            stopped = walk.learn(w, risk, shares[r], show)
        known[task] = learner.weights
        if stopped:
            break
    keys = learner.four_room_keys() if walk is None else np.array(walk.keys)
    numbers = f"on the numbers {list(learner.numbers)}" if learner.numbers else "on no number"
    work = f"{learner.planning_seconds:.1f} s, {learner.backups / max(learner.steps, 1):.1f} backups a step"
    notes.append(
        f"the model has {learner.states} states after {learner.steps} steps; failures depend {numbers} of an "
        f"observation; planning took {work}"
    )
    found = []
    for r, risk in enumerate(risks):
        begun = int(np.isfinite(total[r]).sum())
        if begun:
            history = {"return": total[r, :begun], "failures": failures[r, :begun]}
            found.append(Trained(evaluated(learner, keys, known[:begun], risk), known[:begun].copy(), history))
    return found


class _Walk:
    """One step after the other through any environment; keys (n,) are the numbers of the learner's rows."""

    def __init__(
        self, learner: ModelLearner, env: FeatureEnvironment, seed: int, base_library: FrozenPolicies | None
    ) -> None:
        self._learner, self._env, self._base = learner, env, base_library
        self._rng = np.random.default_rng([seed, _EXPLORATION])
        self._rows: dict[bytes, int] = {}
        self._seed: int | None = seed  # of the first reset
        self.keys: list[Floats] = []

    def learn(self, w: Floats, risk: Risk, steps: int, show: Callable[[int, float, float], bool]) -> bool:
        """A task at a risk, from a start of the environment; whether somebody stopped it."""
        env, learner = self._env, self._learner
        learner.plan(risk)
        obs, self._seed = env.reset(self._seed), None
        total, failures = 0.0, 0
        for step in range(1, steps + 1):
            row = self._row(obs)
            action = learner.choose(row, *self._rng.random(2))
            if self._base is not None:
                action = self._advised(row, learner.weights, risk, action)
            after = env.step(action)
            reward = float(after.phi @ w)
            learner.learn(row, action, after.phi, None if after.terminated else self._row(after.obs))
            learner.observe_reward(after.phi, reward)
            learner.regroup(self.keys)
            total, failures = total + reward, failures + after.failure
            obs = env.reset() if after.terminated or after.truncated else after.obs
            if step == steps or step % _SHOWN_EVERY == 0:
                named = float(failures) if env.reports_failures else np.nan
                if show(step, total, named):
                    return True
        return False

    def _advised(self, row: int, w: Floats, risk: Risk, action: int) -> int:
        """The base library's action where it promises more than the plan."""
        assert self._base is not None
        found = self._base.scores(self.keys[row][None], w, acting_risk(risk))
        lead = int(gpi_actions(found.values)[0])
        promised = found.values[:, 0, lead].max()
        return lead if found.seen[0] and promised > self._learner.value(row) else action

    def _row(self, obs: Any) -> int:
        key = self._env.encoder.key(obs)
        row = self._rows.setdefault(key.tobytes(), len(self.keys))
        if row == len(self.keys):
            self.keys.append(key)
            self._learner.add_row(self._learner.group_of(key))
        return row


def acting_risk(risk: Risk) -> Risk:
    """The risk of mean and variance that is nearest to one by which sources are planned."""
    return MeanVariance(risk.beta) if isinstance(risk, NestedEntropic) else risk


def evaluated(learner: ModelLearner, keys: Floats, tasks: Floats, risk: Risk, least_tries: int = 1) -> TablePolicies:
    """A policy for each task at a risk, planned on the learner's model, with its exact psi and Sigma there."""
    tried, S, d = learner.tried(least_tries), learner.states, learner.n_features
    packed = packed_indices(d)
    values = np.zeros((len(tasks), S, learner.n_actions, d + len(packed[0])), np.float32)
    for policy, w in enumerate(tasks):
        actions = learner.policy(w, risk, least_tries)
        psi, Sigma = successor_moments(learner.finite_mdp(), actions)
        values[policy] = np.concatenate([psi[:S], Sigma[:S][..., packed[0], packed[1]]], axis=-1)
    return TablePolicies.from_tables(keys, values, tried, d, float(learner.settings.gamma))
