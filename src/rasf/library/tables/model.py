"""Policies for a library from a model of counts: learned by `rasf.tabular.model`, then planned and evaluated on it.

Experience is kept: every step of every task stays in the model. While a task is learned, behaviour follows the plan for
it, and all risks learn from one stream. When all is learned, every policy is planned once more on what is known by
then, and its psi and Sigma are the exact ones of that policy on that model. An action that was never tried in a state
takes no part in GPI there; a state in which none was tried has not been seen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from rasf.arrays import Floats, Ints
from rasf.envs.gymnasium.single import FeatureEnvironment
from rasf.envs.gymnasium.tape import Tape
from rasf.library.progress import Trained
from rasf.library.tables.policies import TablePolicies
from rasf.library.tables.train import compiled_rooms
from rasf.library.tables.walk import Stretches, Walk, shares
from rasf.library.training import Training
from rasf.planning.moments import successor_moments
from rasf.risk import Risk
from rasf.tabular.model import ModelLearner, ModelSettings
from rasf.transfer import packed_indices

_EXPLORATION = 6  # its stream of random numbers


def train_model(training: Training, settings: ModelSettings) -> list[Trained]:
    """Learn the tasks (n, d) one after the other on one model; the policies of each risk.

    All risks learn from one stream: each leads for its share of a task's steps, and all that is seen serves all.
    """
    env, tasks, risks, reports = training.world, training.tasks, training.risks, training.reports
    seed, checkpoint, base_library, greedy = training.seed, training.checkpoint, training.base, training.greedy
    assert isinstance(env, FeatureEnvironment)
    learner = ModelLearner(env.n_features, env.n_actions, settings, seed)
    steps = shares(training.steps_per_task, risks)
    rooms = compiled_rooms(env) if base_library is None else None
    stretches, of_steps = Stretches(tasks, len(risks)), _OfModel(learner)
    if rooms is not None:
        walk = None
        learner.enter_four_room(rooms)
        checkpoint.begin(learner=learner, stretches=stretches)
    else:
        walk = Walk(of_steps, env, seed, _EXPLORATION, base_library, greedy, checkpoint.tick)
        tape = Tape(env) if checkpoint.path else None
        checkpoint.begin(learner=learner, stretches=stretches, walk=walk, environment=tape, greedy=greedy)
        of_steps.keys = list(walk.keys)
    for task, r in stretches:
        w, risk = tasks[task], risks[r]
        if stretches.position:
            checkpoint.tick()
        new = stretches.begin()
        if new and r == 0:
            learner.begin_task(None if settings.learn_w else w)

        def show(
            step: int, rewards: float, failed: float, extras: Mapping[str, float], r: int = r, task: int = task
        ) -> bool:
            stretches.total[r, task], stretches.failures[r, task] = rewards, failed
            return reports[r](task, step, rewards, failed, extras)

        if rooms is not None:
            outcome = learner.learn_four_room(rooms, w, risk, steps[r])
            stopped = show(steps[r], outcome.total, outcome.failures, {})
        else:
            assert walk is not None
            if new:
                learner.plan(risk)
            stopped = walk(w, risk, steps[r], len(tasks) * sum(steps), r * len(tasks) + task, show)
        stretches.weights[task] = learner.weights
        if stopped:
            break
    keys = learner.four_room_keys() if walk is None else np.array(walk.keys)
    numbers = f"on the numbers {list(learner.numbers)}" if learner.numbers else "on no number"
    work = f"{learner.planning_seconds:.1f} s, {learner.backups / max(learner.steps, 1):.1f} backups a step"
    training.notes.append(
        f"the model has {learner.states} states after {learner.steps} steps; failures depend {numbers} of an "
        f"observation; planning took {work}"
    )
    found = []
    for r, risk in enumerate(risks):
        begun = int(np.isfinite(stretches.total[r]).sum())
        if begun:
            history = {"return": stretches.total[r, :begun], "failures": stretches.failures[r, :begun]}
            known = stretches.weights[:begun].copy()
            found.append(Trained(evaluated(learner, keys, known, risk), known, history))
    return found


class _OfModel:
    """A model as a learner of steps."""

    def __init__(self, learner: ModelLearner) -> None:
        self._learner, self.keys = learner, list[Floats]()

    @property
    def weights(self) -> Floats:
        return self._learner.weights

    def add_row(self, key: Floats) -> None:
        self.keys.append(key)
        self._learner.add_row(self._learner.group_of(key))

    def greedy(self, row: int) -> int:
        return self._learner.best_action(row)

    def best_score(self, row: int) -> float:
        return self._learner.value(row)

    def follow_advice(self) -> None:
        pass  # whoever chose, what follows is counted

    def explore(self, row: int, action: int, rng: np.random.Generator) -> int:
        return self._learner.explore(row, action, *rng.random(2))

    def learn(self, row: int, action: int, phi: Floats, reward: float, next_row: int | None) -> None:
        self._learner.learn(row, action, phi, next_row)
        self._learner.observe_reward(phi, reward)
        self._learner.regroup(self.keys)


def evaluated(
    learner: ModelLearner,
    keys: Floats,
    tasks: Floats,
    risk: Risk,
    least_tries: int = 1,
    look: Callable[[Floats, Ints], None] | None = None,
) -> TablePolicies:
    """A policy for each task at a risk, planned on the learner's model, with its exact psi and Sigma there.

    look: is shown the weights and actions (S + 1,) of each, while the learner's task is that one.
    """
    tried, S, d = learner.tried(least_tries), learner.states, learner.n_features
    packed = packed_indices(d)
    values = np.zeros((len(tasks), S, learner.n_actions, d + len(packed[0])), np.float32)
    for policy, w in enumerate(tasks):
        actions = learner.policy(w, risk, least_tries)
        if look is not None:
            look(w, actions)
        psi, Sigma = successor_moments(learner.finite_mdp(), actions)
        values[policy] = np.concatenate([psi[:S], Sigma[:S][..., packed[0], packed[1]]], axis=-1)
    return TablePolicies.from_tables(keys, values, tried, d, float(learner.settings.gamma))
