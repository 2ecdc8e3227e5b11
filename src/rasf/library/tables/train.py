"""Training of tables for a library: the loop over tasks and risks, and the paper's agents SFQL and RaSFQL.

An environment that is a `TabularWorld` without wrappers, such as `rasf/FourRoom-v0`, is learned by compiled loops. Any
other environment is stepped from Python (`rasf.library.tables.walk`), with one call of the same compiled functions for
each transition. In each task, the policies of the risks act one after the other, for equal shares of the steps, and the
policies of all risks learn from every step. The steps in which the policy of one risk acts in one task are a *stretch*.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from rasf.arrays import Floats
from rasf.envs.gymnasium.single import FeatureEnvironment
from rasf.envs.gymnasium.tape import Tape
from rasf.envs.tabular_world import TabularWorld
from rasf.library.progress import Trained
from rasf.library.tables.policies import TablePolicies
from rasf.library.tables.walk import Stretches, TableLearner, Walk, shares
from rasf.library.training import Training
from rasf.tabular.learner import SuccessorLearner
from rasf.tabular.settings import TableSettings
from rasf.tabular.stretch import TaskOutcome, outcome

_EXPLORATION = 5  # part of the seed of the random numbers for exploration


def run_tasks(
    training: Training, learner: TableLearner, parts: Mapping[str, object], stream: int
) -> tuple[Stretches, Floats]:
    """Learn all tasks. In each task, the policy of every risk acts for its share of the steps.

    Args:
        training: World, tasks, risks, checkpoint and reports.
        learner: The learner, which learns from every step.
        parts: The learner's objects to store in checkpoints, by name.
        stream: Part of the seed of the random numbers for exploration.

    Returns:
        The rewards, failures and weights of all stretches, and the observation of each row of the tables, (S, n).
    """
    env, tasks, checkpoint = training.world, training.tasks, training.checkpoint
    assert isinstance(env, FeatureEnvironment)
    steps = shares(training.steps_per_task, training.risks)
    stretches, walk = Stretches(tasks, len(steps)), None
    compiled = compiled_world(env) if training.base is None else None
    if compiled is not None:
        learner.enter(compiled)
        checkpoint.begin(**parts, stretches=stretches)
    else:
        walk = Walk(learner, training, stream)
        tape = Tape(env) if checkpoint.path else None
        checkpoint.begin(**parts, stretches=stretches, walk=walk, environment=tape, greedy=training.greedy)
    for task, r in stretches:
        if stretches.position:
            checkpoint.tick()
        new = stretches.begin()
        if new and r == 0:
            learner.begin_task(tasks[task])
        learner.leader = r

        def show(
            step: int, rewards: float, failed: float, extras: Mapping[str, float], r: int = r, task: int = task
        ) -> bool:
            stretches.total[r, task], stretches.failures[r, task] = rewards, failed
            return training.reports[r](task, step, rewards, failed, extras)

        if compiled is not None:
            seen = learner.lead(compiled, tasks[task], steps[r])
            stopped = show(steps[r], seen.total, seen.failures, {})
        else:
            assert walk is not None
            if new:
                learner.prepare()
            stopped = walk(task, r, show)
        stretches.weights[task] = learner.weights
        if stopped:
            break
    return stretches, learner.keys() if walk is None else np.array(walk.keys)


def train_tables(training: Training, settings: TableSettings) -> list[Trained]:
    """Learn the tasks by SFQL for neutral risks, and by RaSFQL for other risks.

    Args:
        training: World, tasks, risks and seed.
        settings: Settings of tables.

    Returns:
        The policies of each risk, with their history of training.
    """
    env = training.world
    given = (env.n_features, env.n_actions, settings, training.seed, len(training.tasks))
    learners = [SuccessorLearner(*given, risk) for risk in training.risks]  # type: ignore[arg-type]
    stretches, keys = run_tasks(training, _ParallelLearners(learners), {"learners": learners}, _EXPLORATION)
    found = []
    for r, learner in enumerate(learners):
        begun = learner.task + 1  # equal for all risks, because the policies of all risks learn from every step
        history = {"return": np.nan_to_num(stretches.total[r, :begun]), "failures": stretches.failures[r, :begun]}
        found.append(Trained(TablePolicies.from_learner(learner, keys), learner.memory.w[:begun].copy(), history))
    return found


class _ParallelLearners:
    """One learner for each risk. A row number stands for the same state in all learners."""

    def __init__(self, learners: Sequence[SuccessorLearner]) -> None:
        self._learners, self.leader = learners, 0
        self._chosen: list[tuple[int, int, int]] = []  # results of `choose` in the current row, one for each learner

    @property
    def weights(self) -> Floats:
        return self._learners[self.leader].weights

    def enter(self, world: TabularWorld) -> None:
        for learner in self._learners:
            learner.enter(world)

    def begin_task(self, w: Floats) -> None:
        for learner in self._learners:
            learner.begin_task(None if learner.settings.learn_w else w)

    def prepare(self) -> None:
        pass  # tables need no preparation

    def lead(self, world: TabularWorld, w: Floats, steps: int) -> TaskOutcome:
        stretch = self._learners[self.leader].lead(world, w, steps, number=self.leader)
        for r, learner in enumerate(self._learners):
            if r != self.leader:
                learner.follow(world, stretch)
        return outcome(world, stretch)

    def keys(self) -> Floats:
        return self._learners[0].keys()  # all learners visit the same states in the same order

    def add_row(self, key: Floats) -> None:
        for learner in self._learners:
            learner.add_row()

    def greedy(self, row: int) -> int:
        self._chosen = [learner.choose(row) for learner in self._learners]
        return self._chosen[self.leader][0]

    def best_score(self, row: int) -> float:
        return self._learners[self.leader].best_score(row)

    def follow_advice(self) -> None:
        action, _, slot = self._chosen[self.leader]
        self._chosen[self.leader] = action, self._learners[self.leader].task, slot

    def explore(self, row: int, action: int, rng: np.random.Generator) -> int:
        leader = self._learners[self.leader]
        return int(rng.integers(leader.n_actions)) if rng.random() < leader.settings.epsilon else action

    def learn(self, row: int, action: int, phi: Floats, reward: float, next_row: int | None) -> None:
        for learner, chosen in zip(self._learners, self._chosen, strict=True):
            learner.learn(row, action, chosen, phi, reward, next_row)


def compiled_world(env: FeatureEnvironment) -> TabularWorld | None:
    """Return the `TabularWorld` of an environment; None if it has none, or if a subclass or wrapper may change it."""
    from gymnasium.wrappers import OrderEnforcing

    inner = env.env.env if type(env.env) is OrderEnforcing else env.env
    is_plain = "tabular_world" in vars(type(inner)) and not (env.has_phi or env.counts_failures)
    return inner.tabular_world if is_plain else None
