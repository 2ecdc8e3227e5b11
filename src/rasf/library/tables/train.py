"""Tabular policies for a library: (Ra)SFQL on any environment with few observations, in the compiled loop where it can.

`rasf/FourRoom-v0`, unwrapped, is learned by the compiled loop of its world; everything else is stepped from Python, one
call of the same kernels per transition. For several risks there is a learner each; whoever leads, all learn every step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from rasf.arrays import Floats
from rasf.envs.four_room import FourRoom, FourRoomEnv
from rasf.envs.gymnasium.single import FeatureEnvironment
from rasf.envs.gymnasium.tape import Tape
from rasf.library.progress import Trained
from rasf.library.tables.policies import TablePolicies
from rasf.library.tables.walk import Stretches, Walk, shares
from rasf.library.training import Training
from rasf.tabular.learner import SuccessorLearner, SuccessorSettings

_EXPLORATION = 5  # its stream of random numbers


def train_tables(training: Training, settings: Sequence[SuccessorSettings]) -> list[Trained]:
    """Learn the tasks (n, d) one after the other, for all risks from one stream; the policies of each risk."""
    env, tasks, reports, checkpoint = training.world, training.tasks, training.reports, training.checkpoint
    seed, base_library, greedy = training.seed, training.base, training.greedy
    assert isinstance(env, FeatureEnvironment)
    learners = [SuccessorLearner(env.n_features, env.n_actions, each, seed, len(tasks)) for each in settings]
    together = _Together(learners)
    stretches = Stretches(tasks, len(settings))
    rooms = compiled_rooms(env) if base_library is None else None
    if rooms is not None:
        walk = None
        for learner in learners:
            learner.enter_four_room(rooms)
        checkpoint.begin(learners=learners, stretches=stretches)
    else:
        walk = Walk(together, env, seed, _EXPLORATION, base_library, greedy, checkpoint.tick)
        tape = Tape(env) if checkpoint.path else None
        checkpoint.begin(learners=learners, stretches=stretches, walk=walk, environment=tape, greedy=greedy)
    steps = shares(training.steps_per_task, [each.risk for each in settings])
    for task, r in stretches:
        w = tasks[task]
        if stretches.position:
            checkpoint.tick()
        if stretches.begin() and r == 0:
            together.begin_task(w)
        together.leader = r

        def show(
            step: int, rewards: float, failed: float, extras: Mapping[str, float], r: int = r, task: int = task
        ) -> bool:
            stretches.total[r, task], stretches.failures[r, task] = rewards, failed
            return reports[r](task, step, rewards, failed, extras)

        if rooms is not None:
            outcome, path = learners[r].lead_four_room(rooms, w, steps[r], stretch=r)
            for other in learners[:r] + learners[r + 1 :]:
                other.follow_four_room(rooms, w, path)
            stopped = show(steps[r], outcome.total, outcome.failures, {})
        else:
            assert walk is not None
            risk, of_all = settings[r].risk, len(tasks) * sum(steps)
            stopped = walk(w, risk, steps[r], of_all, r * len(tasks) + task, show)
        if stopped:
            break
    found = []
    for r, learner in enumerate(learners):
        begun = learner.task + 1  # also where the risk has not led yet: all learn every step
        keys = np.array(walk.keys) if walk is not None else learner.four_room_keys()
        history = {"return": np.nan_to_num(stretches.total[r, :begun]), "failures": stretches.failures[r, :begun]}
        found.append(Trained(TablePolicies.from_learner(learner, keys), learner.memory.w[:begun].copy(), history))
    return found


class _Together:
    """Learners for several risks, on the same rows."""

    def __init__(self, learners: Sequence[SuccessorLearner]) -> None:
        self._learners, self.leader = learners, 0
        self._chosen: list[tuple[int, int, int]] = []  # of every learner: action, driving policy, its slot

    @property
    def weights(self) -> Floats:
        return self._learners[self.leader].weights

    def begin_task(self, w: Floats) -> None:
        for learner in self._learners:
            learner.begin_task(None if learner.settings.learn_w else w)

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
        for learner, (_, driver, slot) in zip(self._learners, self._chosen, strict=True):
            learner.learn(row, action, driver, slot, phi, reward, next_row)


def compiled_rooms(env: FeatureEnvironment) -> FourRoom | None:
    """The `FourRoom` of an environment that is just that, or None."""
    from gymnasium.wrappers import OrderEnforcing

    inner = env.env.env if type(env.env) is OrderEnforcing else env.env
    own = not (env.has_phi or env.counts_failures)
    return inner.rooms if type(inner) is FourRoomEnv and own else None
