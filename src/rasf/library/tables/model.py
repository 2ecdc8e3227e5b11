"""Policies that are planned and evaluated on a model of counted transitions (`rasf.tabular.model`).

There is a policy for each task and risk. All policies are planned on one model, which counts the transitions of all
tasks. While a task is learned, the behaviour policy follows the plan for this task. After the last task, every policy
is planned once more on the final model, and its psi and Sigma are computed exactly for this model. GPI ignores actions
that were never tried in a state. A state in which no action was tried counts as not seen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from rasf.arrays import Floats, Ints
from rasf.envs.tabular_world import TabularWorld
from rasf.library.ahead.counted import counted_model
from rasf.library.progress import Trained
from rasf.library.tables.policies import TablePolicies
from rasf.library.tables.train import run_tasks
from rasf.library.training import Training
from rasf.planning.moments import successor_moments
from rasf.risk import Risk
from rasf.tabular.model import ModelLearner
from rasf.tabular.settings import ModelSettings
from rasf.tabular.stretch import TaskOutcome
from rasf.transfer import packed_indices

_EXPLORATION = 6  # part of the seed of the random numbers for exploration


def train_model(training: Training, settings: ModelSettings) -> list[Trained]:
    """Learn the tasks one after the other on one model.

    Args:
        training: World, tasks, risks and seed.
        settings: Settings of `rasf-model`.

    Returns:
        For each risk whose policy has acted in at least one task: its policies, with the history of training.
    """
    learner = ModelLearner(training.world.n_features, training.world.n_actions, settings, training.seed)
    adapter = _ModelAdapter(learner, training.risks)
    stretches, keys = run_tasks(training, adapter, {"learner": learner, "met": adapter}, _EXPLORATION)
    entries = f"on entries {list(learner.numbers)}, counted from 0," if learner.numbers else "on no entry"
    work = f"{learner.planning_seconds:.1f} s, with {learner.backups / max(learner.steps, 1):.1f} backups per step"
    training.notes.append(
        f"the model has {learner.states} states after {learner.steps} steps; failures depend {entries} of an "
        f"observation; planning took {work}"
    )
    found = []
    for r, risk in enumerate(training.risks):
        begun = int(np.isfinite(stretches.total[r]).sum())
        if begun:
            history = {"return": stretches.total[r, :begun], "failures": stretches.failures[r, :begun]}
            known = stretches.weights[:begun].copy()
            found.append(Trained(evaluated(learner, keys, known, risk), known, history))
    if training.model and found:
        counts = counted_model(learner, keys, np.concatenate([one.weights for one in found]))
        found = [one._replace(model=counts) for one in found]
    return found


class _ModelAdapter:
    """Adapter that gives a `ModelLearner` the interface `TableLearner`, for several risks."""

    STATE = ("known_keys",)  # attributes that a checkpoint stores

    def __init__(self, learner: ModelLearner, risks: Sequence[Risk]) -> None:
        self._learner, self._risks, self.leader = learner, risks, 0
        self.known_keys: list[Floats] = []

    def enter(self, world: TabularWorld) -> None:
        self._learner.enter(world)

    def begin_task(self, w: Floats) -> None:
        self._learner.begin_task(None if self._learner.settings.learn_w else w)

    def prepare(self) -> None:
        self._learner.plan(self._risks[self.leader])

    def lead(self, world: TabularWorld, w: Floats, steps: int) -> TaskOutcome:
        return self._learner.lead(world, w, self._risks[self.leader], steps)

    def keys(self) -> Floats:
        return self._learner.keys()

    @property
    def weights(self) -> Floats:
        return self._learner.weights

    def add_row(self, key: Floats) -> None:
        self.known_keys.append(key)
        self._learner.add_row(self._learner.group_of(key))

    def greedy(self, row: int) -> int:
        return self._learner.best_action(row)

    def best_score(self, row: int) -> float:
        return self._learner.value(row)

    def follow_advice(self) -> None:
        pass  # the model's counts do not depend on which policy chose an action

    def explore(self, row: int, action: int, rng: np.random.Generator) -> int:
        return self._learner.explore(row, action, *rng.random(2))

    def learn(self, row: int, action: int, phi: Floats, reward: float, next_row: int | None) -> None:
        self._learner.learn(row, action, phi, next_row)
        self._learner.observe_reward(phi, reward)
        self._learner.regroup(self.known_keys)


def evaluated(
    learner: ModelLearner,
    keys: Floats,
    tasks: Floats,
    risk: Risk,
    least_tries: int = 1,
    look: Callable[[Floats, Ints], None] | None = None,
) -> TablePolicies:
    """Plan a policy for each task on the learner's model, and evaluate it exactly on that model.

    Args:
        learner: The model, with S states.
        keys: Observations (S, n) of the states.
        tasks: Weights (K, d), one task for each policy.
        risk: The risk that all policies are planned for.
        least_tries: Actions with fewer tries in a state are excluded in this state. If this excludes all actions of
            the state, its most tried actions are kept. Default: 1.
        look: Function that is called for each policy with its weights (d,) and actions (S + 1,); the last action is
            for the terminal state. During the call, the learner's current task has these weights. Default: None.

    Returns:
        The policies with their psi and Sigma on the model.
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
