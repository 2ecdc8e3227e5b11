"""The deep agents stepped from Python, for worlds that jax cannot compile: any Gymnasium environment.

The same `Agent.scores` and `Agent.update` as in the fused loop (`train`), driven by a caller who owns the environments:

    act       GPI over all policies on the active task, epsilon-greedy, for n environments in one compiled call
    observe   n transitions into the replay, which is rows of numbers in host memory (layout: `replay`)
    learn     several updates in one compiled scan, on batches drawn beforehand; target networks copied on time

An episode that terminated has no future; one that was cut (truncated) is bootstrapped from its true last observation.
Exploration and sampling have a generator each, so how often one learns does not change what is explored. The same seed
and the same calls give the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from rasf.arrays import Array, Floats, Ints
from rasf.deep import replay
from rasf.deep.agent import Agent, Learner, Tasks
from rasf.deep.laws import Networks
from rasf.risk.base import check_beta

Elders = Callable[[npt.NDArray[np.float32]], npt.NDArray[Any]]  # obs (n, m) -> best scores (n, A) of older policies
_FIRST_ROWS = 1_024
_LONGEST_SCAN = 256
_TOGETHER = 4  # on a CPU a scan of four updates takes two thirds of the time of four calls; more gain little


class Outcome(Protocol):
    """What n environments answered to n actions; `next_obs` is the true successor, also where an episode ended."""

    @property
    def next_obs(self) -> npt.NDArray[Any]:
        """(n, m)."""

    @property
    def phi(self) -> npt.NDArray[Any]:
        """(n, d)."""

    @property
    def terminated(self) -> npt.NDArray[Any]:
        """(n,): nothing follows. A cut is no termination."""

    @property
    def valid(self) -> npt.NDArray[Any]:
        """(n,): False for the empty step by which some vector environments reset."""


class Learned(NamedTuple):
    """Mean loss and mean clipped mass (2,), below and above the support, of some updates."""

    loss: float
    clipped: Floats
    updates: int


class SteppedLearner:
    """An agent that learns task after task from `num_envs` environments at once.

    `tasks` are those the agent was created for. The replay holds the last `capacity` transitions; give the number of
    steps planned, and it forgets nothing. `learn` owes `updates_per_step` updates for each transition and does them
    `together`, a power of two, in one call (by default 4, or the next below what all environments owe after a step).
    """

    def __init__(
        self,
        agent: Agent,
        tasks: Tasks,
        beta: float,
        seed: int,
        num_envs: int,
        capacity: int,
        *,
        updates_per_step: float = 1.0,
        together: int | None = None,
    ) -> None:
        check_beta(beta)
        n_tasks, self._features = np.shape(tasks.weights)
        if not agent.settings.conditioned and n_tasks != agent.policies:
            raise ValueError(f"tasks must be the {agent.policies} the agent was created for, got {n_tasks}")
        if not 1 <= num_envs <= capacity:
            raise ValueError(f"num_envs must be at least 1 and at most capacity, got {num_envs} and {capacity}")
        if not 0 <= updates_per_step < math.inf:
            raise ValueError(f"updates_per_step must be finite and not negative, got {updates_per_step}")
        if together is None:
            together = max(_TOGETHER, _power_of_two(max(1, int(num_envs * updates_per_step))))
        if together < 1 or together != _power_of_two(together):
            raise ValueError(f"together must be a power of two, got {together}")
        self.agent, self.beta, self.updates, self.task = agent, float(beta), 0, 0
        self._tasks = Tasks(*(jnp.asarray(part, jnp.float32) for part in tasks))
        self._size = agent.inputs - (self._tasks.inputs.shape[1] if agent.settings.conditioned else 0)
        self._num_envs, self._updates_per_step, self._together = num_envs, updates_per_step, together
        self._programs = _programs(agent, self._size)
        self._learner: Learner = self._programs.init(jax.random.key(seed))
        self._exploring, self._sampling = map(np.random.default_rng, np.random.SeedSequence(seed).spawn(2))
        self._rows = _Rows(capacity, 2 * self._size + self._features + 3)
        self._elders: Elders | None = None
        self._no_elders = jnp.full((num_envs, agent.actions), -jnp.inf)
        self._acted: tuple[npt.NDArray[np.float32], Ints] | None = None
        self._owed = 0.0

    @property
    def networks(self) -> Networks:
        """A copy of the online networks, in numpy."""
        copy: Networks = jax.tree.map(np.array, self._learner.online)  # a view would keep updates from working in place
        return copy

    @property
    def transitions(self) -> int:
        """How many the replay holds."""
        return self._rows.size

    def begin_task(self, task: int, elders: Elders | None = None) -> None:
        """Make a task the active one; `elders` scores older policies on it, which then take part in GPI."""
        if not 0 <= task < len(self._tasks.weights):
            raise ValueError(f"task must be from 0 to {len(self._tasks.weights) - 1}, got {task}")
        self.task, self._elders, self._acted = task, elders, None

    def act(self, obs: npt.ArrayLike) -> Ints:
        """Actions (n,) for observations (n, m)."""
        seen = np.array(obs, np.float32)  # a copy: environments reuse their arrays
        if seen.shape != (self._num_envs, self._size):
            raise ValueError(f"obs must have shape {(self._num_envs, self._size)}, got {seen.shape}")
        explore = self._exploring.random(self._num_envs) < self.agent.settings.epsilon
        action = self._exploring.integers(self.agent.actions, size=self._num_envs)
        if not explore.all():
            elders = self._no_elders if self._elders is None else self._scores_of_elders(seen)
            greedy = self._programs.act(self._learner.online, self._tasks, self.task, self.beta, seen, elders)
            action = np.where(explore, action, greedy)
        self._acted = seen, action
        return action

    def observe(self, step: Outcome) -> None:
        """Store what followed the last `act`."""
        if self._acted is None:
            raise ValueError("observe must follow act, once for each")
        (obs, action), self._acted, n = self._acted, None, self._size
        rows = np.empty((self._num_envs, 2 * n + self._features + 3), np.float32)
        with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite, and is refused below
            rows[:, :n], rows[:, n : 2 * n], rows[:, 2 * n : -3] = obs, step.next_obs, step.phi
        rows[:, -3], rows[:, -2], rows[:, -1] = action, 1.0 - np.asarray(step.terminated), self.task
        rows = rows[np.asarray(step.valid, bool)]
        if not np.isfinite(rows).all():
            culprit = "an observation" if np.isfinite(rows[:, 2 * n : -3]).all() else "features"
            raise ValueError(f"the environment gave {culprit} not finite in float32 after {self.transitions} steps")
        self._rows.store(rows)
        self._owed += len(rows) * self._updates_per_step

    def learn(self, updates: int | None = None) -> Learned | None:
        """Do `updates` updates, or those that are owed; None where there are none to do."""
        if updates is None:
            updates = int(self._owed + 1e-9) // self._together * self._together
        self._owed = max(0.0, self._owed - updates)
        if updates < 1:
            return None
        if not self.transitions:
            raise ValueError("learn needs a transition at least: act and observe first")
        period, left, found = self.agent.settings.target_period, updates, []
        while left:
            until_copy = period - self.updates % period if period else left
            span = _power_of_two(min(left, until_copy, _LONGEST_SCAN))  # so that few lengths compile
            rows = self._rows.sample(self._sampling, (span, self.agent.settings.batch))
            self._learner, loss, clipped = self._programs.update(self._learner, self._tasks, self.beta, rows)
            found.append((loss, clipped))
            left, self.updates = left - span, self.updates + span
            if span == until_copy and period:
                self._learner = self._programs.copy_target(self._learner)
        total = sum(float(loss) for loss, _ in found)
        if not math.isfinite(total):
            raise ValueError(f"the loss was not finite by update {self.updates}; a smaller learning rate may help")
        return Learned(
            total / updates, np.sum([clipped for _, clipped in found], axis=0, dtype=float) / updates, updates
        )

    def _scores_of_elders(self, obs: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        assert self._elders is not None
        scores = np.asarray(self._elders(obs), np.float32)
        if scores.shape != (self._num_envs, self.agent.actions) or np.isnan(scores).any():
            raise ValueError(
                f"elders must give numbers of shape {(self._num_envs, self.agent.actions)}, got shape {scores.shape}"
                + " with nan" * bool(np.isnan(scores).any())
            )
        return scores


class _Rows:
    """The last `capacity` rows, in memory that grows as they come."""

    def __init__(self, capacity: int, columns: int) -> None:
        self._rows = np.empty((min(capacity, _FIRST_ROWS), columns), np.float32)
        self._capacity, self._stored = capacity, 0

    @property
    def size(self) -> int:
        return min(self._stored, self._capacity)

    def store(self, rows: npt.NDArray[np.float32]) -> None:
        end = self._stored + len(rows)
        while len(self._rows) < min(end, self._capacity):
            more = min(len(self._rows), self._capacity - len(self._rows))
            self._rows = np.concatenate([self._rows, np.empty((more, self._rows.shape[1]), np.float32)])
        self._rows[np.arange(self._stored, end) % self._capacity] = rows
        self._stored = end

    def sample(self, rng: np.random.Generator, shape: tuple[int, int]) -> npt.NDArray[np.float32]:
        """Rows (*shape, columns), uniform with replacement."""
        return self._rows[rng.integers(self.size, size=shape)]


class _Programs(NamedTuple):
    """What is compiled for an agent, once for all learners that have it."""

    init: Callable[..., Any]
    act: Callable[..., Any]
    update: Callable[..., Any]
    copy_target: Callable[..., Any]


@lru_cache(maxsize=16)
def _programs(agent: Agent, observation_size: int) -> _Programs:
    risk = agent.settings.risk

    def act(online: Networks, tasks: Tasks, task: Array, beta: Array, obs: Array, elders: Array) -> Array:
        task_heads = agent.task_heads(online, tasks.weights[task])
        scores = agent.scores(task_heads, obs, tasks.inputs[task], risk(beta))
        return jnp.argmax(jnp.maximum(jnp.max(scores, axis=0), elders), axis=-1)  # ties go to the lowest index

    def update(learner: Learner, tasks: Tasks, beta: Array, rows: Array) -> tuple[Learner, Array, Array]:
        """Updates on rows (updates, B, ..); the sums of losses and of clipped mass."""
        each = jnp.arange(rows.shape[1], dtype=jnp.uint32)  # they are drawn already

        def one(learner: Learner, drawn: Array) -> tuple[Learner, tuple[Array, Array]]:
            batch = replay.sample(drawn, jnp.uint32(len(drawn)), each, observation_size)
            learner, loss, clipped = agent.update(learner, batch, tasks, risk(beta))
            return learner, (loss, clipped)

        learner, (loss, clipped) = jax.lax.scan(one, learner, rows)
        return learner, jnp.sum(loss), jnp.sum(clipped, axis=0)

    donated = partial(jax.jit, donate_argnums=0)
    return _Programs(jax.jit(agent.init), jax.jit(act), donated(update), donated(agent.copy_target))


def _power_of_two(most: int) -> int:
    """The largest that is not above `most`."""
    return 1 << most.bit_length() - 1
