"""`SuccessorLearner`: (Ra)SFQL with its tables, for the compiled four-room world and for any environment.

The learner owns the policies; a task begins with `begin_task`, which adds one. The four-room world runs inside the
compiled loop (`learn_four_room`). Other environments are stepped from Python: `add_row`, `choose`, `learn` call the
same kernels, one transition at a time. With a row for every (h, observation) and an end after the last decision the
same learner is the episodic, time-indexed form that Algorithm 1 prints.

Same seed, same bits: every random number is a function of (seed, task) or (seed, row, policy).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from rasf import checks
from rasf.arrays import Floats, Ints
from rasf.envs.four_room import ACTIONS, FourRoom
from rasf.risk import MeanVariance
from rasf.tabular import sfql
from rasf.tabular.table import Rule, SigmaForm, add_row, find_policy, read, set_coefficients, used_part
from rasf.transfer import unpack_sigma

_TRAINING, _WEIGHTS = 0, 1  # streams of random numbers
_MOST_TASKS = 2**15 - 1  # policies are numbered in 16 bits
_LARGEST_FEATURE = 1e9  # its square, discounted over time, stays a float32
_OTHER_WORLD = "the learner has learned in another world; make a new one for this"


@dataclass(frozen=True)
class SuccessorSettings:
    """Constants of (Ra)SFQL; the defaults are the paper's. SFQL is `risk=MeanVariance(0)`."""

    risk: MeanVariance = field(default_factory=lambda: MeanVariance(0.0))
    gamma: float = 0.95
    alpha: float = 0.5
    alpha_sigma: float = 0.1
    alpha_w: float = 0.5
    learn_w: bool = True
    epsilon: float = 0.12
    covariance: Literal["full", "diagonal"] = "full"
    always_covariance: bool = False
    initial_noise: Literal["independent", "shared"] = "independent"
    noise_scale: float = 0.01

    def __post_init__(self) -> None:
        for name in ("alpha", "alpha_sigma", "alpha_w", "epsilon", "noise_scale", "gamma"):
            checks.number(name, getattr(self, name), 0.0, 1.0)
        if self.gamma == 0:
            raise ValueError("gamma must be above 0, got 0")
        if not isinstance(self.risk, MeanVariance):
            raise ValueError(f"risk must be MeanVariance, the risk of the paper's table, got {self.risk!r}")
        checks.one_of("covariance", self.covariance, ("full", "diagonal"))
        checks.one_of("initial_noise", self.initial_noise, ("independent", "shared"))

    @property
    def sigma(self) -> SigmaForm:
        """Which entries of Sigma are learned; none where risk does not ask for them, unless they are wanted always."""
        if self.risk.beta == 0 and not self.always_covariance:
            return SigmaForm.NONE
        return SigmaForm.FULL if self.covariance == "full" else SigmaForm.DIAGONAL


class TaskOutcome(NamedTuple):
    """What one task of training saw: total reward, failures, finished episodes."""

    total: float
    failures: int
    episodes: int


class Moments(NamedTuple):
    """What a policy holds at a row: psi (A, d) and Sigma (A, d, d), zeros where it is not learned."""

    psi: Floats
    Sigma: Floats


class SuccessorLearner:
    """All policies learned so far, and the means to learn more."""

    STATE = ("used_memory", "task")  # for checkpoints; in the four-room world call `enter_four_room` first

    def __init__(self, n_features: int, n_actions: int, settings: SuccessorSettings, seed: int, max_tasks: int) -> None:
        if checks.whole("max_tasks", max_tasks) > _MOST_TASKS:
            raise ValueError(f"max_tasks must be at most {_MOST_TASKS}, got {max_tasks}")
        self.settings, self.seed = settings, checks.whole("seed", seed, 0)
        self.n_features, self.n_actions = n_features, n_actions
        rule = Rule(
            gamma=float(settings.gamma),
            alpha=float(settings.alpha),
            alpha_sigma=float(settings.alpha_sigma),
            variance_weight=float(settings.risk.variance_weight),
            sigma=int(settings.sigma),
            noise_scale=float(settings.noise_scale),
            shared_noise=settings.initial_noise == "shared",
            seed=self.seed,
        )
        self.memory = sfql.new_memory(rule, n_features, n_actions, max_tasks)
        self.task = -1
        self._rooms: FourRoom | None = None

    @property
    def states(self) -> int:
        """How many states have a row in the table."""
        return int(self.memory.table.used[0])

    @property
    def used_memory(self) -> sfql.Memory:
        """The memory without the room that is not in use yet."""
        return self.memory._replace(table=used_part(self.memory.table))

    @used_memory.setter
    def used_memory(self, memory: sfql.Memory) -> None:
        self.memory = memory

    def begin_task(self, w: npt.ArrayLike | None = None) -> None:
        """Add a policy, a copy of the last, and learn it from now on; `w` (d,) if the weights are given."""
        if self.task + 1 == len(self.memory.w):
            raise ValueError(f"the learner was made for {len(self.memory.w)} tasks")
        if w is None:
            rng, small = np.random.default_rng([self.seed, self.task + 1, _WEIGHTS]), self.settings.noise_scale
            weights = rng.uniform(-small, small, self.n_features)
        else:
            weights = checks.weights("w", w, self.n_features)
        self.task += 1
        sfql.start_task(self.memory, self.task, weights)

    def learn_four_room(self, rooms: FourRoom, w: npt.ArrayLike, steps: int) -> TaskOutcome:
        """Begin a task of the four-room world with weights w (d,), and learn it for `steps` transitions."""
        rewards = checks.weights("w", w, self.n_features)
        self._check_rooms(rooms)
        self.begin_task(None if self.settings.learn_w else rewards)
        return self.lead_four_room(rooms, rewards, steps)[0]

    def lead_four_room(
        self, rooms: FourRoom, rewards: Floats, steps: int, stretch: int = 0
    ) -> tuple[TaskOutcome, Ints]:
        """Learn the current task, which pays rewards (d,), from the start; and the path (steps, 4), for other learners.

        stretch: which one of the task's this is, so that chances differ.
        """
        self._check_rooms(rooms)
        world = rooms.world()
        stream = [self.seed, self.task, _TRAINING, stretch] if stretch else [self.seed, self.task, _TRAINING]
        draws, path = np.random.default_rng(stream).random((steps, 3)), np.zeros((steps, 4), np.int64)
        progress, total = np.zeros(6, np.int64), np.zeros(1)
        progress[sfql.CELL] = world.start
        constants = (self.task, rewards, float(self.settings.epsilon), self._alpha_w, draws, path)
        while progress[sfql.STEP] < steps:
            self._make_room()
            sfql.run_task(world, rooms.step_limit, self.memory, *constants, progress, total)
        return TaskOutcome(float(total[0]), int(progress[sfql.FAILURES]), int(progress[sfql.EPISODES])), path

    def follow_four_room(self, rooms: FourRoom, rewards: Floats, path: Ints) -> None:
        """Learn the current task from the path (steps, 4) of another learner."""
        self._check_rooms(rooms)
        progress = np.zeros(6, np.int64)
        while progress[sfql.STEP] < len(path):
            self._make_room()
            sfql.follow_path(self.memory, self.task, rewards, self._alpha_w, path, progress)

    @property
    def _alpha_w(self) -> float:
        return float(self.settings.alpha_w) if self.settings.learn_w else 0.0

    def four_room_keys(self) -> Floats:
        """The states of the table's rows as `rasf/FourRoom-v0` shows them (S, n): row, column, collected flags."""
        if self._rooms is None:
            raise ValueError("learner must have learned in the four-room world, got one without states of it")
        rooms = self._rooms
        rows, state = self.memory.rows, np.empty(self.states, np.int64)
        state[rows.values[rows.keys >= 0]] = rows.keys[rows.keys >= 0]
        flags, cell = np.divmod(state, len(rooms.cells))
        collected = flags[:, None] >> np.arange(len(rooms.world().class_of)) & 1
        return np.column_stack([cell // rooms.shape[1], cell % rooms.shape[1], collected]).astype(np.float64)

    def add_row(self) -> int:
        """A row for a state of a Python environment that is seen for the first time; rows are numbered from 0."""
        self._check_begun()
        if self._rooms is not None:
            raise ValueError(_OTHER_WORLD)
        self._make_room()
        return int(add_row(self.memory.table, self.memory.rule, self.task))

    def choose(self, row: int) -> tuple[int, int, int]:
        """Greedy action at a row, the policy that drives it, and its slot (to be handed to `learn`)."""
        return sfql.choose(self.memory, self.task, row)

    def best_score(self, row: int) -> float:
        """The score of the greedy action at a row that `choose` has just looked at."""
        return float(self.memory.table.best[row].max())

    @property
    def weights(self) -> Floats:
        """The current task's weights (d,), as they are known."""
        return self.memory.w[self.task]

    def learn(
        self, row: int, action: int, driver: int, slot: int, phi: npt.ArrayLike, reward: float, next_row: int | None
    ) -> None:
        """One transition; next_row is None after the end (not after a truncation)."""
        self._make_room()
        features = np.asarray(phi, np.float64)
        if features.shape != (self.n_features,):
            raise ValueError(f"phi must have shape ({self.n_features},), got {features.shape}")
        if not (np.abs(features).max(initial=0.0) <= _LARGEST_FEATURE and np.isfinite(reward)):
            raise ValueError(f"phi and reward must be finite, phi up to {_LARGEST_FEATURE:g}, got {features}, {reward}")
        if self.settings.learn_w:
            sfql.learn_weights(self.memory, self.task, features, float(reward), self.settings.alpha_w)
        arrival = -1 if next_row is None else next_row
        sfql.learn(self.memory, self.task, row, action, driver, slot, features, arrival)

    def moments(self, policy: int, row: int) -> Moments:
        """What `policy` has learned at a row."""
        d, sigma = self.n_features, self.settings.sigma
        slot = find_policy(self.memory.table, row, policy)
        numbers = np.zeros((self.n_actions, len(self.memory.after)))
        for a in range(self.n_actions):
            read(self.memory.table, self.memory.rule, row, slot, a, numbers[a])
        psi, packed = numbers[:, :d], numbers[:, d:]
        if sigma is SigmaForm.NONE:
            return Moments(psi, np.zeros((self.n_actions, d, d)))
        return Moments(psi, unpack_sigma(packed, d, diagonal=sigma is SigmaForm.DIAGONAL))

    def coefficients(self, w: npt.ArrayLike, risk: MeanVariance) -> Floats:
        """The scores' coefficients (m,) under a task and a risk of one's own."""
        coef = np.zeros(self.memory.coef.shape[1])
        rule = self.memory.rule._replace(variance_weight=float(risk.variance_weight))
        set_coefficients(checks.weights("w", w, self.n_features), rule, coef)
        return coef

    def roll_out(self, rooms: FourRoom, coefs: Floats, epsilon: float, draws: Floats) -> tuple[Floats, Ints, Ints]:
        """Episodes without learning, draws (episodes, steps, 3): features (episodes, d), lengths, visits (cells,).

        coefs (1, m) score every step, coefs (steps, m) each its own, as discount-aware GPI does.
        """
        self._check_begun()
        self._check_rooms(rooms)
        m = self.memory.coef.shape[1]
        if coefs.shape not in ((1, m), (draws.shape[1], m)):
            raise ValueError(f"coefs must have 1 or {draws.shape[1]} rows of {m}, got {coefs.shape}")
        if draws.ndim != 3 or draws.shape[2] != 3:
            raise ValueError(f"draws must have shape (episodes, steps, 3), got {draws.shape}")
        world = rooms.world()
        # a copy, so that scoring a new task leaves what was learned alone
        scratch = self.memory._replace(coef=self.memory.coef.copy(), now=self.memory.now.copy())
        features = np.zeros((len(draws), self.n_features))
        lengths, visits = np.zeros(len(draws), np.int64), np.zeros(len(rooms.cells), np.int64)
        for episode in range(len(draws)):
            while True:
                seen, earned = np.zeros_like(visits), np.zeros(self.n_features)
                length = sfql.roll_out(world, scratch, self.task, coefs, epsilon, draws[episode], seen, earned)
                if length >= 0:
                    break
                scratch = sfql.with_room(scratch, self.task)
            visits += seen
            features[episode], lengths[episode] = earned, length
        self.memory = self.memory._replace(table=scratch.table, rows=scratch.rows)
        self.memory.now[:2] = scratch.now[0] + 1  # cached scores are of other weights now
        return features, lengths, visits

    def enter_four_room(self, rooms: FourRoom) -> None:
        """Make this the learner's world; the rows of its table are states of it."""
        self._check_rooms(rooms)

    def _check_rooms(self, rooms: FourRoom) -> None:
        """Compiled code does not check bounds, so what it indexes by must fit; and rows belong to one map."""
        if (rooms.n_features, len(ACTIONS)) != (self.n_features, self.n_actions):
            raise ValueError(
                f"the world has {rooms.n_features} features and {len(ACTIONS)} actions, "
                f"the learner {self.n_features} and {self.n_actions}"
            )
        if self._rooms is None and self.states == 0:
            self._rooms = rooms
        if self._rooms is None or rooms.cells != self._rooms.cells:
            raise ValueError(_OTHER_WORLD)

    def _check_begun(self) -> None:
        if self.task < 0:
            raise ValueError("no task has begun; call begin_task first")

    def _make_room(self) -> None:
        self.memory = sfql.with_room(self.memory, self.task)
