"""Training of tables by single steps of any environment. Each different observation has a row in the tables.

There is one policy for each risk and task. In each task, the policies of the risks act one after the other, for equal
shares of the steps, and the policies of all risks learn from every step. The share of one risk in one task is called a
stretch. The frozen policies of a base library may take part in GPI: if a base policy scores higher than all learning
policies, its action is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Protocol

import numpy as np

from rasf.agents import acting_risk
from rasf.arrays import Floats
from rasf.envs.gymnasium.single import FeatureEnvironment
from rasf.envs.tabular_world import TabularWorld
from rasf.library.frozen_policies import FrozenPolicies
from rasf.library.greedy import Greedy
from rasf.library.progress import EpisodeMeter
from rasf.library.training import Training
from rasf.risk import Risk
from rasf.tabular.stretch import TaskOutcome
from rasf.transfer import gpi_actions

# a report: (step, sum of rewards, failures, further values) -> whether to stop
Show = Callable[[int, float, float, Mapping[str, float]], bool]
_SHOWN_EVERY = 500  # steps between two reports
_LOOKING = 43  # part of the seed of the random numbers for evaluations of the greedy policy


class TableLearner(Protocol):
    """A learner for one or several risks. Row i of its tables belongs to the i-th state that was visited, from 0."""

    leader: int  # index of the risk whose policy acts

    @property
    def weights(self) -> Floats:
        """The weights (d,) of the current task: given, or the learner's estimate."""

    def begin_task(self, w: Floats) -> None:
        """Begin the next task, with the weights w (d,)."""

    def enter(self, world: TabularWorld) -> None:
        """Switch to a compiled world: a `TabularWorld`, whose steps run in compiled code."""

    def lead(self, world: TabularWorld, w: Floats, steps: int) -> TaskOutcome:
        """Learn the current task for some steps in a compiled world, with rewards phi . w."""

    def keys(self) -> Floats:
        """Return the observations (S, n) of the S rows. Call `enter` first."""

    def prepare(self) -> None:
        """Prepare for steps in which the policy of the risk `leader` acts."""

    def add_row(self, key: Floats) -> None:
        """Add a state with the observation key (n,)."""

    def greedy(self, row: int) -> int:
        """Return the greedy action at a row, for the policy of the risk `leader`."""

    def best_score(self, row: int) -> float:
        """Return the score of the action that `greedy` returned last."""

    def follow_advice(self) -> None:
        """Record that a policy of the base library chose the action of the current step."""

    def explore(self, row: int, action: int, rng: np.random.Generator) -> int:
        """Return `action`, or with some probability another action, to explore."""

    def learn(self, row: int, action: int, phi: Floats, reward: float, next_row: int | None) -> None:
        """Learn from one transition; `next_row` is None if the episode terminated."""


class Stretches:
    """Progress and results of training tables, with one stretch of steps for each task and risk.

    Attributes:
        position: Index of the current stretch.
        begun: Whether the current stretch is prepared.
        total: Sum of rewards (risks, tasks); nan for a stretch that was not begun.
        failures: Number of failures (risks, tasks); nan for a stretch that was not begun.
        weights: Weights (tasks, d), given or estimated by the learner.
    """

    STATE = ("position", "begun", "total", "failures", "weights")  # attributes that a checkpoint stores

    def __init__(self, tasks: Floats, risks: int) -> None:
        self.position, self.begun, self._risks = 0, False, risks
        self.total, self.failures = np.full((2, risks, len(tasks)), np.nan)
        self.weights = np.array(tasks)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Yield the indices (task, risk) of the current stretch and of all later stretches."""
        while self.position < self.total.size:
            yield divmod(self.position, self._risks)
            self.position, self.begun = self.position + 1, False

    def begin(self) -> bool:
        """Return whether the current stretch still has to be prepared, and mark it as prepared."""
        before, self.begun = self.begun, True
        return not before


class Walk:
    """Training by single steps of an environment; `keys` lists the observations (n,) of the learner's rows."""

    STATE = (  # attributes that a checkpoint stores; the next call after a restore continues after the stored step
        "_meter", "_walked", "_rng", "_looking", "_rows", "_seed", "keys", "_step", "_total", "_failures",
    )  # fmt: skip

    def __init__(self, learner: TableLearner, training: Training, stream: int) -> None:
        assert isinstance(training.world, FeatureEnvironment)
        self._learner, self._training, self._env = learner, training, training.world
        self._shares = shares(training.steps_per_task, training.risks)
        self._meter, self._walked = EpisodeMeter(), 0
        self._step, self._total, self._failures = 0, 0.0, 0  # steps, rewards and failures of the current stretch so far
        self._rng, self._looking = (np.random.default_rng([training.seed, one]) for one in (stream, _LOOKING))
        self._rows: dict[bytes, int] = {}
        self._seed: int | None = training.seed  # for the first reset
        self.keys: list[Floats] = []

    def __call__(self, task: int, r: int, show: Show) -> bool:
        """Learn one stretch, in which the policy of risk r acts; return whether `show` stopped training."""
        env, learner, training = self._env, self._learner, self._training
        tasks, w, steps, check = len(training.tasks), training.tasks[task], self._shares[r], training.greedy
        if self._step:  # a checkpoint was restored, which includes the state of the environment
            assert env.tape is not None
            obs = env.tape.obs
        else:
            obs, self._seed = env.reset(self._seed), None
            self._total, self._failures = 0.0, 0
        for step in range(self._step + 1, steps + 1):
            row = self._row(obs)
            action = learner.greedy(row)
            if training.base is not None:
                action = self._advised(training.base, row, training.risks[r], action)
            action = learner.explore(row, action, self._rng)
            after = self._meter.timed(partial(env.step, action))
            reward = float(after.phi @ w)
            self._meter.add(reward, after.terminated or after.truncated)
            learner.learn(row, action, after.phi, reward, None if after.terminated else self._row(after.obs))
            self._total, self._failures = self._total + reward, self._failures + after.failure
            obs = env.reset() if after.terminated or after.truncated else after.obs
            if step == steps or step % _SHOWN_EVERY == 0:
                named, extras = float(self._failures) if env.reports_failures else np.nan, self._meter.read()
                if check is not None:
                    share = (self._walked + step) / (tasks * sum(self._shares))
                    extras |= check.look(share, r * tasks + task, w, Greedy(self._known_or_random))
                if show(step, self._total, named, extras):
                    return True
            self._step = step
            if step < steps:
                training.checkpoint.tick()  # may write: between two steps all parts of the state belong to one step
        self._walked, self._step = self._walked + steps, 0
        return False

    def _known_or_random(self, obs: object, t: int) -> int:
        """Return the greedy action, or a random action in an unknown state. Unknown states get no row here."""
        row = self._rows.get(self._env.encoder.key(obs).tobytes())
        return int(self._looking.integers(self._env.n_actions)) if row is None else self._learner.greedy(row)

    def _advised(self, base: FrozenPolicies, row: int, risk: Risk, action: int) -> int:
        """Return the action of the base library if its score is higher than that of `action`, else `action`."""
        found = base.scores(self.keys[row][None], self._learner.weights, acting_risk(risk))
        lead = int(gpi_actions(found.values)[0])
        if not found.seen[0] or found.values[:, 0, lead].max() <= self._learner.best_score(row):
            return action
        self._learner.follow_advice()
        return lead

    def _row(self, obs: object) -> int:
        key = self._env.encoder.key(obs)
        row = self._rows.setdefault(key.tobytes(), len(self.keys))
        if row == len(self.keys):
            self.keys.append(key)
            self._learner.add_row(key)
        return row


def shares(steps: int, risks: Sequence[Risk]) -> list[int]:
    """Return the number of steps (at least 1) in which the policy of each risk acts in a task."""
    return [max(1, steps // len(risks) + (r < steps % len(risks))) for r in range(len(risks))]
