"""`SuccessorLearner`: SFQL and RaSFQL with tables, for compiled worlds and for environments in Python.

The learner has one policy for each task, and `begin_task` adds a policy. A compiled world is a `TabularWorld`, whose
steps run inside a compiled loop. In a compiled world, `lead` acts and learns in a stretch, a sequence of steps in one
task. Other environments are stepped from Python: `add_row`, `choose` and `learn` call the same compiled functions for
one transition at a time. Algorithm 1 of the paper is written for episodes, with tables indexed by the time step. The
learner equals this algorithm if every row stands for a pair (time step, observation) and the last step of an episode
terminates.

The same seed gives bit-identical results: random numbers depend only on (seed, task, stretch) or (seed, row, policy).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rasf import checks
from rasf.arrays import Floats
from rasf.envs.tabular_world import TabularWorld, loop_for, observations
from rasf.risk import MeanVariance
from rasf.tabular import sfql
from rasf.tabular.settings import TableSettings
from rasf.tabular.stretch import OTHER_WORLD, STEP, Stretch, TaskOutcome, check_world, new_stretch, outcome
from rasf.tabular.table import Rule, SigmaForm, add_row, used_part

_TRAINING, _WEIGHTS = 0, 1  # parts of the seeds of random numbers, one for each purpose
_MOST_TASKS = 2**15 - 1  # policy numbers are stored in 16 bits
_LARGEST_FEATURE = 1e9  # largest absolute feature, so that discounted sums of its square fit in float32
_NEUTRAL = MeanVariance(0.0)


class SuccessorLearner:
    """A learner with one policy for each task so far, trained by SFQL (neutral risk) or RaSFQL (other risks).

    Args:
        n_features: number d of features.
        n_actions: number of actions.
        settings: settings of the agent.
        seed: seed of all random numbers.
        max_tasks: largest number of tasks.
        risk: the risk that policies are trained for. Default: neutral.
    """

    STATE = ("used_memory", "task")  # attributes in a checkpoint; for a compiled world, call `enter` before restoring

    def __init__(
        self,
        n_features: int,
        n_actions: int,
        settings: TableSettings,
        seed: int,
        max_tasks: int,
        risk: MeanVariance = _NEUTRAL,
    ) -> None:
        if checks.whole("max_tasks", max_tasks) > _MOST_TASKS:
            raise ValueError(f"max_tasks must be at most {_MOST_TASKS}, got {max_tasks}")
        if not isinstance(risk, MeanVariance):
            raise ValueError(f"risk must be MeanVariance, the only risk that (Ra)SFQL learns on tables, got {risk!r}")
        self.settings, self.risk, self.seed = settings, risk, checks.whole("seed", seed, 0)
        self.n_features, self.n_actions = n_features, n_actions
        learned = SigmaForm.DIAGONAL if settings.diagonal else SigmaForm.FULL
        self.sigma = learned if settings.covariance or risk.beta != 0 else SigmaForm.NONE
        rule = Rule(
            gamma=float(settings.gamma),
            alpha=float(settings.alpha),
            alpha_sigma=float(settings.alpha_sigma),
            alpha_w=float(settings.alpha_w) if settings.learn_w else 0.0,
            variance_weight=float(risk.variance_weight),
            sigma=int(self.sigma),
            noise_scale=float(settings.noise_scale),
            shared_noise=settings.shared_noise,
            seed=self.seed,
        )
        self.memory = sfql.new_memory(rule, n_features, n_actions, max_tasks)
        self.task = -1
        self.world: TabularWorld | None = None

    @property
    def states(self) -> int:
        """The number of states in the table."""
        return int(self.memory.table.used[0])

    @property
    def used_memory(self) -> sfql.Memory:
        """The memory without the spare room of its arrays."""
        return self.memory._replace(table=used_part(self.memory.table))

    @used_memory.setter
    def used_memory(self, memory: sfql.Memory) -> None:
        self.memory = memory

    def begin_task(self, w: npt.ArrayLike | None = None) -> None:
        """Add a policy, which starts as a copy of the previous policy, and learn the new policy from now on.

        Args:
            w: weights (d,) of the task. Default: None, to learn the weights from rewards, starting at random values.
        """
        if self.task + 1 == len(self.memory.w):
            raise ValueError(
                f"all {len(self.memory.w)} tasks of the learner have begun; make a learner with a larger max_tasks"
            )
        if w is None:
            rng, small = np.random.default_rng([self.seed, self.task + 1, _WEIGHTS]), self.settings.noise_scale
            weights = rng.uniform(-small, small, self.n_features)
        else:
            weights = checks.weights("w", w, self.n_features)
        self.task += 1
        sfql.start_task(self.memory, self.task, weights)

    def enter(self, world: TabularWorld) -> None:
        """Set the compiled world of the learner; rows of the table stand for states of this world."""
        check_world(world, self.n_features, self.n_actions, self.world)
        if self.world is None and self.states > 0:
            raise ValueError(OTHER_WORLD)
        self.world = world

    def learn_task(self, world: TabularWorld, w: npt.ArrayLike, steps: int) -> TaskOutcome:
        """Begin a task in a compiled world, learn it for `steps` transitions, and return its outcome.

        Args:
            world: the world.
            w: weights (d,) that rewards are computed with. They are given to the learner unless `learn_w` is set.
            steps: number of transitions.
        """
        weights = checks.weights("w", w, self.n_features)
        self.enter(world)
        self.begin_task(None if self.settings.learn_w else weights)
        return outcome(world, self.lead(world, weights, steps))

    def lead(self, world: TabularWorld, w: Floats, steps: int, number: int = 0) -> Stretch:
        """Act and learn in the current task from the start of an episode.

        Args:
            world: the world.
            w: weights (d,) that rewards are computed with.
            steps: number of transitions.
            number: index of this stretch within the task, which selects its random numbers. Default: 0.

        Returns:
            The stretch, from which other learners can learn by `follow`.
        """
        self.enter(world)
        stream = [self.seed, self.task, _TRAINING, number] if number else [self.seed, self.task, _TRAINING]
        stretch = new_stretch(world, w, self.settings.epsilon, np.random.default_rng(stream).random((steps, 3)))
        arrays = world.world()
        run_task = loop_for(sfql.run_task, arrays)
        while stretch.progress[STEP] < steps:
            self._make_room()
            run_task(arrays, self.memory, self.task, stretch)
        return stretch

    def follow(self, world: TabularWorld, stretch: Stretch) -> None:
        """Learn the current task off-policy, from the transitions of another learner's stretch."""
        self.enter(world)
        mine = stretch._replace(progress=np.zeros_like(stretch.progress))
        while mine.progress[STEP] < len(mine.path):
            self._make_room()
            sfql.follow_path(self.memory, self.task, mine)

    def keys(self) -> Floats:
        """Return the observations (S, n) of the S states in the table. First call `enter` with the compiled world."""
        if self.world is None:
            raise ValueError("learner must have learned in a compiled world, got one without a world")
        return observations(self.world, self.memory.rows.state[: self.states])

    def add_row(self) -> int:
        """Add a row for a new state of a Python environment, and return the row's number, counted from 0."""
        if self.task < 0:
            raise ValueError("no task has begun; call begin_task first")
        if self.world is not None:
            raise ValueError(OTHER_WORLD)
        self._make_room()
        return int(add_row(self.memory.table, self.memory.rule, self.task))

    def choose(self, row: int) -> tuple[int, int, int]:
        """Return the greedy action at a row, the selected policy and its slot (`rasf.tabular.table`).

        The result is the argument `chosen` of `learn`.
        """
        return sfql.choose(self.memory, self.task, row)

    def best_score(self, row: int) -> float:
        """Return the score of the greedy action at a row; call `choose` for the row first."""
        return float(self.memory.table.best[row].max())

    @property
    def weights(self) -> Floats:
        """The weights (d,) of the current task, given or learned so far."""
        return self.memory.w[self.task]

    def learn(
        self,
        row: int,
        action: int,
        chosen: tuple[int, int, int],
        phi: npt.ArrayLike,
        reward: float,
        next_row: int | None,
    ) -> None:
        """Learn from one transition.

        Args:
            row: row of the state.
            action: the action taken.
            chosen: the result of `choose` at the row.
            phi: features (d,) of the step.
            reward: reward of the step, which is used only if the weights are learned.
            next_row: row of the next state, also at truncation; None at termination.

        Raises:
            ValueError: `phi` has a wrong shape, `phi` or `reward` is not finite, or an absolute feature exceeds 1e9.
        """
        self._make_room()
        features = np.asarray(phi, np.float64)
        if features.shape != (self.n_features,):
            raise ValueError(f"phi must have shape ({self.n_features},), got {features.shape}")
        if not (np.abs(features).max(initial=0.0) <= _LARGEST_FEATURE and np.isfinite(reward)):
            raise ValueError(f"phi and reward must be finite, phi up to {_LARGEST_FEATURE:g}, got {features}, {reward}")
        arrival = -1 if next_row is None else next_row
        sfql.learn(self.memory, self.task, row, action, chosen, features, float(reward), arrival)

    def _make_room(self) -> None:
        self.memory = sfql.with_room(self.memory, self.task)
