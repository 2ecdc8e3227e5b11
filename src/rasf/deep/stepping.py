"""The deep agents stepped from Python, for worlds that jax cannot compile: any Gymnasium environment.

The same `Agent.scores` and `Agent.update` as in the fused loop (`train`), driven by a caller who owns the environments:

    act       GPI over all policies on the active task, epsilon-greedy, for n environments in one compiled call
    observe   n transitions into the replay, rows of numbers in host memory
    learn     several updates in one compiled scan, on batches drawn beforehand; target networks copied on time

An episode that terminated has no future; one that was truncated is bootstrapped from its true last observation.
Exploration and sampling have a generator each, so how often one learns does not change what is explored. The same seed
and the same calls give the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from rasf import checks
from rasf.arrays import Array, Floats, Ints
from rasf.deep import replay
from rasf.deep.agent import Agent, Learner, Policies, Tasks
from rasf.deep.laws import Networks
from rasf.deep.networks import plain_outputs
from rasf.deep.replay import Batch, HostReplay
from rasf.risk.base import check_beta
from rasf.transfer import gpi_actions

BaseScores = Callable[[npt.NDArray[np.float32]], npt.NDArray[Any]]  # obs (n, m) -> best scores (n, A) of older policies
_LONGEST_SCAN = 256
_TOGETHER = 4  # on a CPU a scan of four updates takes two thirds of the time of four calls; more gain little


class Learned:
    """What some updates showed, read from the device only when it is asked for, so that nobody waits meanwhile."""

    def __init__(self, totals: list[tuple[Array, Array]], updates: int, by: int) -> None:
        self._totals, self.updates, self._by = totals, updates, by

    @property
    def loss(self) -> float:
        """Their mean loss; one that is not finite is refused."""
        total = sum(float(loss) for loss, _ in self._totals)
        if not math.isfinite(total):
            raise ValueError(f"the loss was not finite by update {self._by}; a smaller learning rate may help")
        return total / self.updates

    @property
    def clipped(self) -> Floats:
        """The mean mass (2,) clipped below and above the support."""
        return np.sum([clipped for _, clipped in self._totals], axis=0, dtype=float) / self.updates


class SteppedLearner:
    """An agent that learns task after task from `num_envs` environments at once.

    `tasks` are those the agent was created for, or those of the stream that `policies` learn from. beta: to act by, one
    or (T,) for each task, and to learn by, where no policies are given. The replay holds the last `capacity`
    transitions; give the number of steps planned, and it forgets nothing. `learn` owes an update for each transition
    and does them `together`, a power of two, in one call (by default 4, or the next not above the number of
    environments). act_every: the networks that act are renewed after so many updates; with more than one, acting is in
    numpy and waits for no update.
    """

    def __init__(
        self,
        agent: Agent,
        tasks: Tasks,
        beta: float | npt.ArrayLike,
        seed: int,
        num_envs: int,
        capacity: int,
        together: int | None = None,
        policies: Policies | None = None,
        act_every: int = 1,
    ) -> None:
        n_tasks, n_features = np.shape(tasks.weights)
        betas = np.asarray(beta, np.float64)
        for one in betas.ravel().tolist():
            check_beta(one)
        if betas.shape not in ((), (n_tasks,)) or (betas.ndim and policies is None):
            raise ValueError(
                f"beta must be one number, or, with policies, one for each of {n_tasks} tasks, got {beta!r}"
            )
        learned = n_tasks if policies is None else len(policies.weights)
        if not agent.settings.conditioned and learned != agent.policies:
            raise ValueError(f"tasks must be the {agent.policies} the agent was created for, got {learned}")
        if not 1 <= num_envs <= capacity:
            raise ValueError(f"num_envs must be at least 1 and at most capacity, got {num_envs} and {capacity}")
        if together is None:
            together = max(_TOGETHER, _power_of_two(num_envs))
        if together < 1 or together != _power_of_two(together):
            raise ValueError(f"together must be a power of two, got {together}")
        self.agent, self.updates, self.task = agent, 0, 0
        self._betas = np.broadcast_to(betas, (n_tasks,))
        # what `Agent.update` learns for: a beta, or policies
        self._learned_for = float(betas) if policies is None else Policies(*map(jnp.float32, policies))
        self._tasks = Tasks(*(jnp.asarray(part, jnp.float32) for part in tasks))
        self._weights = np.asarray(tasks.weights, np.float32)
        self._size = agent.inputs - (self._tasks.inputs.shape[1] if agent.settings.conditioned else 0)
        self._num_envs, self._together, self._owed = num_envs, together, 0
        self._programs = _programs(agent, self._size)
        self._learner: Learner = self._programs.init(jax.random.key(seed))
        self._exploring, self._sampling = map(np.random.default_rng, np.random.SeedSequence(seed).spawn(2))
        self._replay = HostReplay(capacity, self._size, n_features)
        self._base_scores: BaseScores | None = None
        self._no_base = jnp.full((num_envs, agent.actions), -jnp.inf)
        self._acted: tuple[npt.NDArray[np.float32], Ints] | None = None
        self._act_every = checks.whole("act_every", act_every)
        if act_every > 1 and agent.settings.conditioned:
            raise ValueError("act_every must be 1 for a network that sees the task")
        self._refresh()

    @property
    def beta(self) -> float:
        """Of the risk that acts."""
        return float(self._betas[self.task])

    @property
    def networks(self) -> Networks:
        """A copy of the networks to act by, in numpy."""
        # a view would keep updates from working in place
        copy: Networks = jax.tree.map(np.array, self.agent.acting(self._learner))
        return copy

    @property
    def transitions(self) -> int:
        """How many the replay holds."""
        return len(self._replay)

    def begin_task(self, task: int, base_scores: BaseScores | None = None) -> None:
        """Make a task the active one; `base_scores` scores older policies on it, which then take part in GPI."""
        if not 0 <= task < len(self._tasks.weights):
            raise ValueError(f"task must be from 0 to {len(self._tasks.weights) - 1}, got {task}")
        self.task, self._base_scores, self._acted = task, base_scores, None

    def act(self, obs: npt.ArrayLike) -> Ints:
        """Actions (n,) for observations (n, m)."""
        seen = np.array(obs, np.float32)  # a copy: environments reuse their arrays
        if seen.shape != (self._num_envs, self._size):
            raise ValueError(f"obs must have shape {(self._num_envs, self._size)}, got {seen.shape}")
        explore = self._exploring.random(self._num_envs) < self.agent.settings.epsilon
        action = self._exploring.integers(self.agent.actions, size=self._num_envs)
        if not explore.all():
            base = None if self._base_scores is None else self._checked(self._base_scores(seen))
            action = np.where(explore, action, self._greedy(seen, base))
        self._acted = seen, action
        return action

    def _greedy(self, obs: npt.NDArray[np.float32], base: npt.NDArray[np.float32] | None) -> Ints:
        """Actions (n,) by GPI over all policies, and over the scores (n, A) of older ones."""
        if self._act_every == 1:
            base = self._no_base if base is None else base
            acting = self.agent.acting(self._learner)
            return np.asarray(self._programs.act(acting, self._tasks, self.task, self.beta, obs, base))
        law = self.agent.law
        outputs = tuple(plain_outputs(one, obs, shape) for one, shape in zip(self._acting, law.shapes(), strict=True))
        scores = law.plain_scores(outputs, self._weights[self.task], self.agent.settings.risk(self.beta))
        return np.asarray(gpi_actions(scores if base is None else np.concatenate([scores, base[None]])))

    def observe(
        self, next_obs: npt.ArrayLike, phi: npt.ArrayLike, terminated: npt.ArrayLike, valid: npt.ArrayLike
    ) -> None:
        """Store what followed the last `act`: the true successors (n, m), also where an episode ended, and phi (n, d).

        terminated (n,): nothing follows. valid (n,): False for the empty step by which some vector environments reset.
        """
        if self._acted is None:
            raise ValueError("observe must follow act, once for each")
        (obs, action), self._acted = self._acted, None
        task, not_terminated = np.full(len(obs), self.task), 1.0 - np.asarray(terminated)
        packed = replay.pack(Batch(obs, action, phi, next_obs, not_terminated, task))
        with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite, and is refused below
            rows = packed[np.asarray(valid, bool)].astype(np.float32)
        if not np.isfinite(rows).all():
            culprit = "an observation" if np.isfinite(replay.unpack(rows, self._size).phi).all() else "features"
            raise ValueError(f"the environment gave {culprit} not finite in float32 after {self.transitions} steps")
        self._replay.store(rows)
        self._owed += len(rows) * self.agent.settings.updates

    def learn(self, updates: int | None = None) -> Learned | None:
        """Do `updates` updates, or those that are owed; None where there are none to do."""
        if updates is None:
            updates = self._owed // self._together * self._together
        self._owed = max(0, self._owed - updates)
        if updates < 1:
            return None
        if not self.transitions:
            raise ValueError("learn needs a transition at least: act and observe first")
        period, left, found = self.agent.settings.target_period, updates, []
        while left:
            until_copy = period - self.updates % period if period else left
            span = _power_of_two(min(left, until_copy, _LONGEST_SCAN))  # so that few lengths compile
            rows = self._replay.sample(self._sampling, (span, self.agent.settings.batch))
            self._learner, loss, clipped = self._programs.update(self._learner, self._tasks, self._learned_for, rows)
            found.append((loss, clipped))
            left, self.updates = left - span, self.updates + span
            if span == until_copy and period:
                self._learner = self._programs.copy_target(self._learner)
        if 1 < self._act_every <= self.updates - self._acting_at:
            self._refresh()
        return Learned(found, updates, self.updates)

    def _refresh(self) -> None:
        """Act by the networks as they are now, in numpy: it then waits for no update, and these go on meanwhile."""
        self._acting_at, self._acting = self.updates, self.networks

    def _checked(self, base_scores: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        scores = np.asarray(base_scores, np.float32)
        if scores.shape != (self._num_envs, self.agent.actions) or np.isnan(scores).any():
            raise ValueError(
                f"base_scores must give numbers of shape {(self._num_envs, self.agent.actions)}, got shape "
                f"{scores.shape}" + " with nan" * bool(np.isnan(scores).any())
            )
        return scores


class _Programs(NamedTuple):
    """What is compiled for an agent, once for all learners that have it."""

    init: Callable[..., Any]
    act: Callable[..., Any]
    update: Callable[..., Any]
    copy_target: Callable[..., Any]


@lru_cache(maxsize=16)
def _programs(agent: Agent, observation_size: int) -> _Programs:
    risk = agent.settings.risk

    def act(online: Networks, tasks: Tasks, task: Array, beta: Array, obs: Array, base: Array) -> Array:
        task_heads = agent.task_heads(online, tasks.weights[task])
        scores = agent.scores(task_heads, obs, tasks.inputs[task], risk(beta))
        return gpi_actions(jnp.concatenate([scores, base[None]]))

    def update(
        learner: Learner, tasks: Tasks, learned_for: Array | Policies, rows: Array
    ) -> tuple[Learner, Array, Array]:
        """Updates on rows (updates, B, ..); the sums of losses and of clipped mass."""
        by = learned_for if isinstance(learned_for, Policies) else risk(learned_for)

        def one(learner: Learner, drawn: Array) -> tuple[Learner, tuple[Array, Array]]:
            batch = replay.unpack(drawn, observation_size)
            learner, loss, clipped = agent.update(learner, batch, tasks, by)
            return learner, (loss, clipped)

        learner, (loss, clipped) = jax.lax.scan(one, learner, rows)
        return learner, jnp.sum(loss), jnp.sum(clipped, axis=0)

    donated = partial(jax.jit, donate_argnums=0)
    return _Programs(jax.jit(agent.init), jax.jit(act), donated(update), donated(agent.copy_target))


def _power_of_two(most: int) -> int:
    """The largest that is not above `most`."""
    return 1 << most.bit_length() - 1
