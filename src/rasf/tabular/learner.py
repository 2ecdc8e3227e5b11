"""`SuccessorLearner`: (Ra)SFQL with its tables, for compiled worlds and for any environment with hashable observations.

The learner owns the policies; a task begins with `begin_task`, which adds one. The four-room world runs inside the
compiled loop (`learn_four_room`). Other environments are stepped from Python: `row(key)`, `choose`, `learn` call the
same kernels, one transition at a time. With keys (h, observation) and an end after the last decision the same learner
is the episodic, time-indexed form that Algorithm 1 prints.

Same seed, same bits: every random number is a function of (seed, task) or (seed, state, policy).
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from rasf.arrays import Floats, Ints
from rasf.envs.four_room import ACTIONS, FourRoom
from rasf.risk import MeanVariance
from rasf.tabular import sfql
from rasf.tabular.table import (
    DIAGONAL_SIGMA,
    FULL_SIGMA,
    NO_SIGMA,
    Rule,
    add_row,
    find_policy,
    learned_sigma,
    new_table,
    read,
    reserve,
    set_coefficients,
)

_TRAINING, _WEIGHTS = 0, 1  # streams of random numbers
_MOST_TASKS = 2**15 - 1  # policies are numbered in 16 bits
_LARGEST_FEATURE = 1e9  # its square, discounted over time, stays a float32


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
        for name in ("alpha", "alpha_sigma", "alpha_w", "epsilon", "noise_scale"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} must be in [0, 1], got {getattr(self, name)}")
        if not 0 < self.gamma <= 1:
            raise ValueError(f"gamma must be in (0, 1], got {self.gamma}")
        if not isinstance(self.risk, MeanVariance):
            raise ValueError(f"risk must be MeanVariance, the risk of the paper's table, got {self.risk!r}")
        for name, accepted in (("covariance", ("full", "diagonal")), ("initial_noise", ("independent", "shared"))):
            if getattr(self, name) not in accepted:
                raise ValueError(f"{name} must be {' or '.join(accepted)}, got {getattr(self, name)!r}")

    @property
    def sigma(self) -> int:
        """Which entries of Sigma are learned; none where risk does not ask for them, unless they are wanted always."""
        if self.risk.beta == 0 and not self.always_covariance:
            return NO_SIGMA
        return FULL_SIGMA if self.covariance == "full" else DIAGONAL_SIGMA


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

    def __init__(self, n_features: int, n_actions: int, settings: SuccessorSettings, seed: int, max_tasks: int) -> None:
        if seed < 0:
            raise ValueError(f"seed must not be negative, got {seed}")
        if not 1 <= max_tasks <= _MOST_TASKS:
            raise ValueError(f"max_tasks must be 1 to {_MOST_TASKS}, got {max_tasks}")
        self.settings, self.seed = settings, seed
        self.n_features, self.n_actions = n_features, n_actions
        m = n_features + learned_sigma(n_features, settings.sigma)
        self.rule = Rule(
            float(settings.gamma),
            float(settings.alpha),
            float(settings.alpha_sigma),
            float(settings.risk.beta) / 2,
            settings.sigma,
            float(settings.noise_scale),
            settings.initial_noise == "shared",
            seed,
        )
        self.table = new_table(n_features, n_actions, settings.sigma)
        self.learner = sfql.Learner(
            np.zeros((max_tasks, n_features)),
            np.zeros((max_tasks, m)),
            np.zeros(5),
            np.zeros(m),
            np.zeros(n_features),
            np.zeros(n_features),
        )
        self.rows = sfql.Rows(np.full(1, -1), np.zeros(1, np.int32), np.empty((0, n_actions), np.int32))
        self.task = -1
        self._row_of_key: dict[Hashable, int] = {}
        self._rooms: FourRoom | None = None

    def begin_task(self, w: npt.ArrayLike | None = None) -> None:
        """Add a policy, a copy of the last, and learn it from now on; `w` (d,) if the weights are given."""
        if self.task + 1 == len(self.learner.w):
            raise ValueError(f"the learner was made for {len(self.learner.w)} tasks")
        if w is None:
            small = self.settings.noise_scale
            weights = np.random.default_rng([self.seed, self.task + 1, _WEIGHTS]).uniform(
                -small, small, self.n_features
            )
        else:
            weights = self._weights(w)
        self.task += 1
        sfql.start_task(self.learner, self.rule, self.task, weights)

    def learn_four_room(self, rooms: FourRoom, w: npt.ArrayLike, steps: int) -> TaskOutcome:
        """Begin a task of the four-room world with weights w (d,), and learn it for `steps` transitions."""
        rewards = self._weights(w)
        self._check_rooms(rooms)
        self.begin_task(None if self.settings.learn_w else rewards)
        world = rooms.world()
        draws = np.random.default_rng([self.seed, self.task, _TRAINING]).random((steps, 3))
        progress, total = np.zeros(6, np.int64), np.zeros(1)
        progress[sfql.CELL] = world.start
        alpha_w = self.settings.alpha_w if self.settings.learn_w else 0.0
        while progress[sfql.STEP] < steps:
            self._make_room()
            sfql.run_task(
                world,
                rooms.step_limit,
                self.table,
                self.rows,
                self.learner,
                self.rule,
                self.task,
                rewards,
                float(self.settings.epsilon),
                float(alpha_w),
                draws,
                progress,
                total,
            )
        return TaskOutcome(float(total[0]), int(progress[sfql.FAILURES]), int(progress[sfql.EPISODES]))

    def row(self, key: Hashable) -> int:
        """The row of a state of a Python environment."""
        self._check_begun()
        known = self._row_of_key.get(key)
        if known is None:
            self._make_room()
            known = self._row_of_key[key] = int(add_row(self.table, self.rule, self.task))
        return known

    def choose(self, row: int) -> tuple[int, int, int]:
        """Greedy action at a row, the policy that drives it, and its slot (to be handed to `learn`)."""
        return sfql.choose(self.table, self.rule, self.learner, self.task, row)

    def best_score(self, row: int) -> float:
        """The score of the greedy action at a row that `choose` has just looked at."""
        return float(self.table.best[row].max())

    @property
    def weights(self) -> Floats:
        """The current task's weights (d,), as they are known."""
        return self.learner.w[self.task]

    @property
    def row_of_key(self) -> dict[Hashable, int]:
        """Rows of the states of a Python environment."""
        return self._row_of_key

    def learn(
        self, row: int, action: int, driver: int, slot: int, phi: npt.ArrayLike, reward: float, next_row: int | None
    ) -> None:
        """One transition; next_row is None after the end (not after a truncation)."""
        self._make_room()
        features = np.asarray(phi, np.float64)
        if features.shape != (self.n_features,):
            raise ValueError(f"phi must have shape ({self.n_features},), got {features.shape}")
        if not (np.abs(features).max(initial=0.0) <= _LARGEST_FEATURE and np.isfinite(reward)):
            raise ValueError(
                f"features and reward must be finite and below {_LARGEST_FEATURE:g}, got {features}, {reward}"
            )
        if self.settings.learn_w:
            sfql.learn_weights(self.learner, self.rule, self.task, features, float(reward), self.settings.alpha_w)
        arrival = -1 if next_row is None else next_row
        sfql.learn(self.table, self.learner, self.rule, self.task, row, action, driver, slot, features, arrival)

    def moments(self, policy: int, row: int) -> Moments:
        """What `policy` has learned at a row."""
        d, sigma = self.n_features, self.settings.sigma
        psi, Sigma = np.zeros((self.n_actions, d)), np.zeros((self.n_actions, d, d))
        slot = find_policy(self.table, row, policy)
        numbers = np.zeros(len(self.learner.after))
        upper = np.triu_indices(d)
        for a in range(self.n_actions):
            read(self.table, self.rule, row, slot, a, numbers)
            psi[a] = numbers[:d]
            if sigma == DIAGONAL_SIGMA:
                Sigma[a] = np.diag(numbers[d:])
            elif sigma == FULL_SIGMA:
                Sigma[a][upper] = numbers[d:]
                Sigma[a].T[upper] = numbers[d:]
        return Moments(psi, Sigma)

    def coefficients(self, w: npt.ArrayLike, risk: MeanVariance) -> Floats:
        """The scores' coefficients (m,) under a task and a risk of one's own."""
        coef = np.zeros(self.learner.coef.shape[1])
        set_coefficients(self._weights(w), self.rule._replace(half_beta=float(risk.beta) / 2), coef)
        return coef

    def roll_out(self, rooms: FourRoom, coefs: Floats, epsilon: float, draws: Floats) -> tuple[Floats, Ints, Ints]:
        """Episodes without learning, draws (episodes, steps, 3): features (episodes, d), lengths, visits (cells,).

        coefs (1, m) score every step, coefs (steps, m) each its own, as discount-aware GPI does.
        """
        self._check_begun()
        self._check_rooms(rooms)
        if coefs.shape not in ((1, self.learner.coef.shape[1]), (draws.shape[1], self.learner.coef.shape[1])):
            raise ValueError(
                f"coefs must have 1 or {draws.shape[1]} rows of {self.learner.coef.shape[1]}, got {coefs.shape}"
            )
        if draws.ndim != 3 or draws.shape[2] != 3:
            raise ValueError(f"draws must have shape (episodes, steps, 3), got {draws.shape}")
        world = rooms.world()
        # a copy, so that scoring a new task leaves what was learned alone
        scratch = self.learner._replace(coef=self.learner.coef.copy(), now=self.learner.now.copy())
        features = np.zeros((len(draws), self.n_features))
        lengths, visits = np.zeros(len(draws), np.int64), np.zeros(len(rooms.cells), np.int64)
        for episode in range(len(draws)):
            while True:
                seen, earned = np.zeros_like(visits), np.zeros(self.n_features)
                length = sfql.roll_out(
                    world,
                    self.table,
                    self.rows,
                    scratch,
                    self.rule,
                    self.task,
                    coefs,
                    epsilon,
                    draws[episode],
                    seen,
                    earned,
                )
                if length >= 0:
                    break
                self._make_room()
            visits += seen
            features[episode], lengths[episode] = earned, length
        self.learner.now[:2] = scratch.now[0] + 1  # cached scores are of other weights now
        return features, lengths, visits

    def _weights(self, w: npt.ArrayLike) -> Floats:
        weights = np.asarray(w, np.float64)
        if weights.shape != (self.n_features,) or not np.isfinite(weights).all():
            raise ValueError(f"w must hold {self.n_features} finite weights, one per feature, got {weights}")
        return weights

    def _check_rooms(self, rooms: FourRoom) -> None:
        """Compiled code does not check bounds, so what it indexes by must fit; and rows belong to one map."""
        if (rooms.n_features, len(ACTIONS)) != (self.n_features, self.n_actions):
            raise ValueError(
                f"the world has {rooms.n_features} features and {len(ACTIONS)} actions, "
                f"the learner {self.n_features} and {self.n_actions}"
            )
        if self._rooms is None:
            self._rooms = rooms
        if rooms.cells != self._rooms.cells or self._row_of_key:
            raise ValueError("the learner has learned in another world; make a new one for this")

    def _check_begun(self) -> None:
        if self.task < 0:
            raise ValueError("no task has begun; call begin_task first")

    def _make_room(self) -> None:
        """Enlarge what the next step might overflow; doubling keeps this rare."""
        policies = self.task + 1
        if sfql.has_room(self.table, self.rows, self.task):
            return
        self.table = reserve(self.table, 64, 16 * (policies + 1), 64 * policies)
        self.rows = _larger(self.rows, len(self.table.row))


def _larger(rows: sfql.Rows, n_rows: int) -> sfql.Rows:
    """The map with room for n_rows states, at most a quarter full."""
    if len(rows.successor) >= n_rows:
        return rows
    successor = np.full((n_rows, rows.successor.shape[1]), -1, np.int32)
    successor[: len(rows.successor)] = rows.successor
    size = 1 << int(4 * n_rows - 1).bit_length()
    larger = sfql.Rows(np.full(size, -1), np.zeros(size, np.int32), successor)
    sfql.put_all(larger, rows)
    return larger
