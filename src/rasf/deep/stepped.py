"""The stepped driver, for environments that jax cannot compile, such as those of Gymnasium.

The algorithm is that of `rasf.deep.algorithm`. The caller steps the environments and calls these methods:

    act       choose an action for each of n environments, for the active task of the environment
    observe   store n steps in the replay, in host memory
    learn     do several updates in one compiled scan, on windows that were sampled before the scan

Because of two differences from the fused driver, environments do not wait for every update. The acting networks are
copied to numpy only every `act_every` updates, and `together` updates are done in one call. If `act_every` and
`together` are 1 and the updates of a round divide `target_period`, both drivers compute the same numbers up to
rounding. The condition on `target_period` is needed because the fused driver copies target networks between rounds
only.

There is no remaining return after an episode terminated or reached the agent's `limit`. An episode that was truncated
earlier is bootstrapped from its last observation. The same seed and the same calls give the same bits.

Shapes: n environments, m numbers per observation, d features, T tasks, K policies, A actions, B windows of a batch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from rasf import checks
from rasf.arrays import Array, Floats, Ints
from rasf.deep import algorithm, replay
from rasf.deep.agent import Agent, Learner, Policies, Tasks
from rasf.deep.algorithm import Goal, Held, Scaling
from rasf.deep.laws import Losses, Networks, Parts, TaskHeads, Within
from rasf.deep.priorities import HostPriorities
from rasf.deep.replay import Drawn, HostReplay, Steps
from rasf.deep.settings import MomentSettings
from rasf.risk import Risk
from rasf.risk.base import check_beta
from rasf.transfer import gpi, gpi_actions

# (obs (n, m), task) -> the best scores (n, A); if actions are vectors, also these A actions (n, A, action_size)
BaseScores = Callable[[npt.NDArray[np.float32], int], npt.NDArray[Any] | tuple[npt.NDArray[Any], npt.NDArray[Any]]]
_TOGETHER = 4  # on a CPU, a scan of 4 updates takes two thirds of the time of 4 calls; longer scans save little more
_BLOCK = 256  # number of rounds or updates for which random numbers are drawn in one call
_Drawn = TypeVar("_Drawn", bound=NamedTuple)


class Learned:
    """Statistics of updates. They are read from jax's device only on demand, so that no step waits for the device.

    Args:
        totals: For each call of the compiled updates, the sum of losses and the sum of clipped mass (2,).
        updates: Number of updates in these sums.
        by: Number of all updates of the learner so far.
    """

    def __init__(self, totals: list[tuple[Array, Array]], updates: int, by: int) -> None:
        self._totals, self.updates, self._by = totals, updates, by

    @property
    def loss(self) -> float:
        """The mean loss.

        Raises:
            ValueError: The loss is not finite.
        """
        total = sum(float(loss) for loss, _ in self._totals)
        if not math.isfinite(total):
            raise ValueError(f"the loss was not finite by update {self._by}; a smaller learning rate may help")
        return total / self.updates

    @property
    def clipped(self) -> Floats:
        """The mean probability (2,) that was clipped below and above the support of histograms."""
        return np.sum([clipped for _, clipped in self._totals], axis=0, dtype=float) / self.updates


@dataclass(frozen=True)
class Pace:
    """The number of environments of a learner, and the schedule of its updates.

    Args:
        num_envs: Number of environments.
        capacity: Number of steps that the replay keeps.
        together: Number of updates in one call, a power of two. Default: the largest power of two that is not above
            `num_envs`, but at least 4.
        act_every: Number of updates between copies of the acting networks to numpy. With a larger number, actions wait
            less often for updates. Default: 1.
        dtype: The type of observations in the replay, which must represent them exactly. Default: float32.
    """

    num_envs: int
    capacity: int
    together: int | None = None
    act_every: int = 1
    dtype: npt.DTypeLike = np.float32

    def __post_init__(self) -> None:
        checks.whole("act_every", self.act_every)
        n, capacity = self.num_envs, self.capacity
        if not 1 <= n <= capacity:
            raise ValueError(f"num_envs must be at least 1 and at most capacity, got {n} and {capacity}")
        if self.at_once < 1 or self.at_once != _power_of_two(self.at_once):
            raise ValueError(f"together must be a power of two, got {self.at_once}")

    @property
    def at_once(self) -> int:
        """The number of updates in one call."""
        return max(_TOGETHER, _power_of_two(self.num_envs)) if self.together is None else self.together


class _Read(NamedTuple):
    """Outputs (K, n, A, ..) of networks that are reduced to a task, and the task's risk.

    candidates: If actions are vectors, the actions (n, A, action_size) to which the outputs belong, else None.
    """

    outputs: Parts
    heads: TaskHeads
    risk: Risk
    candidates: npt.NDArray[np.float32] | None


class SteppedLearner:
    """Trains the policies of an agent in several environments in parallel.

    Args:
        agent: The agent.
        tasks: The tasks in which experience is collected. If `policies` is not given, the number of tasks must be the
            agent's number of policies.
        beta: The beta of acting: one number for all tasks, or (T,) for the T tasks. If `policies` is not given, the
            policies also learn for this beta, which must then be one number.
        seed: The seed of all random numbers.
        pace: The number of environments and the schedule of updates.
        policies: The task and the beta for which each policy learns. Default: policy k learns for task k, at `beta`.
        base_scores: A function from observations (n, m) and the index of a task to the best scores (n, A) over the
            policies of a base library. GPI then includes these scores. Default: none.

    Raises:
        ValueError: Arguments do not fit together, or a number is invalid.
    """

    STATE = (  # attributes that a checkpoint stores, which is made after `learn` and before `act`; see `restored`
        "updates", "active", "_owed", "_learner", "_replay", "_priorities", "_scaling", "_within", "_warm", "_round",
        "_stepped", "_rated", "_held", "_acting", "_acting_at", "_age",
    )  # fmt: skip

    def __init__(
        self,
        agent: Agent,
        tasks: Tasks,
        beta: float | npt.ArrayLike,
        seed: int,
        pace: Pace,
        *,
        policies: Policies | None = None,
        base_scores: BaseScores | None = None,
    ) -> None:
        n_tasks, n_features = np.shape(tasks.weights)
        betas = np.asarray(beta, np.float64)
        for one in betas.ravel().tolist():
            check_beta(one)
        if betas.shape not in ((), (n_tasks,)) or (betas.ndim and policies is None):
            raise ValueError(
                f"beta must be one number, or, if policies are given, {n_tasks} numbers for the tasks, got {beta!r}"
            )
        learned = n_tasks if policies is None else len(policies.weights)
        if learned != agent.policies:
            name = "tasks" if policies is None else "policies"
            raise ValueError(f"{name} must be {agent.policies} in number, one per policy of the agent, got {learned}")
        self._num_envs = num_envs = pace.num_envs
        if agent.activation is not jnp.tanh:
            raise ValueError("activation must be tanh for environments that are stepped, because networks act in numpy")
        self._act_every, self._together = pace.act_every, pace.at_once
        self.agent, self.updates, self.active = agent, 0, np.zeros(num_envs, np.int64)
        self._on_task = {0: np.arange(num_envs)}  # indices of the environments of each active task
        self._betas, size = np.broadcast_to(betas, (n_tasks,)), agent.inputs
        by = jnp.float32(betas) if policies is None else Policies(*map(jnp.float32, policies))
        self._goal, self._weights = Goal(Tasks(*map(jnp.float32, tasks)), by), np.asarray(tasks.weights, np.float32)
        self._size, self._owed = size, 0.0
        init, self._do_updates, self._copy_target = _programs(agent)
        key = jax.random.key(seed)
        self._learner: Learner = init(algorithm.init_keys(key)[0])
        steps = jax.jit(jax.vmap(partial(algorithm.step_chance, agent, key, n=num_envs)))
        samples = jax.jit(jax.vmap(partial(algorithm.sample_chance, agent, key)))
        self._chance, self._samples = _by_index(steps), _by_index(samples)
        columns = replay.row_size(size, n_features, agent.action_size)
        self._replay = HostReplay(pace.capacity, num_envs, size, columns, pace.dtype)
        self._priorities = HostPriorities(pace.capacity) if agent.settings.prioritised else None
        self._scaling = Scaling.none(size, n_features)
        self._within = Within(*np.zeros((3, n_features), np.float32))
        self._warm, self._stepped, self._round = agent.settings.warmup == 0, 0, 0
        self._base_scores = base_scores
        self._heads: dict[int, tuple[Any, Risk]] = {}
        self._rated: tuple[Ints, Array] | None = None
        self._acted: tuple[npt.NDArray[np.float32], npt.NDArray[Any]] | None = None
        self._held = Held.none(agent, num_envs)
        self._age: Ints = np.zeros(num_envs, np.int64)  # number of steps so far in each running episode
        self._refresh()

    @property
    def networks(self) -> Networks:
        """A copy of the acting networks, in numpy, for unscaled inputs and unscaled features."""
        # a view would prevent updates from reusing the memory of the networks
        copy: Networks = jax.tree.map(np.array, self.agent.acting(self._learner))
        return self._scaling.unscaled(self.agent, copy) if self.agent.settings.warmup else copy

    @property
    def transitions(self) -> int:
        """The number of steps in the replay."""
        return len(self._replay)

    def rows(self) -> npt.NDArray[np.float32]:
        """Return the rows (n, R) in the replay, see `rasf.deep.replay`."""
        return self._replay.rows()

    def begin_task(self, task: int | npt.ArrayLike) -> None:
        """Set the active task.

        Args:
            task: The index of the task, one number for all environments or (n,).
        """
        given, most = np.broadcast_to(np.asarray(task, np.int64), (self._num_envs,)), len(self._weights) - 1
        if given.min() < 0 or given.max() > most:
            raise ValueError(f"task must be from 0 to {most}, got {task!r}")
        self.active, self._acted = given.copy(), None
        self._on_task = {int(one): np.flatnonzero(given == one) for one in np.unique(given)}

    def restored(self) -> None:
        """Recompute the attributes that a checkpoint does not store, after a checkpoint was restored."""
        self._heads = {}
        self.begin_task(self.active)

    def cut(self) -> None:
        """End the running episodes of all environments, with their n-step sums and repeated actions."""
        self._held = self._held.ended(np.ones(self._num_envs, bool))
        self._age[:] = 0
        self._replay.cut()

    def act(self, obs: npt.ArrayLike) -> npt.NDArray[Any]:
        """Return actions (n,), or (n, action_size), of the behaviour policy.

        Args:
            obs: Observations (n, m).
        """
        seen = np.array(obs, np.float32)  # a copy, because environments may overwrite their arrays
        wanted = (self._num_envs, self._size - self.agent.time_inputs)
        if seen.shape != wanted:
            raise ValueError(f"obs must have shape {wanted}, got {seen.shape}")
        seen = self.agent.with_time(seen, self._age)
        epsilon = self.agent.epsilon_at(self._stepped) if self._warm else 1.0
        chance, self._round = self._chance(self._round), self._round + 1
        held = self._held.begun(chance, self._age == 0)
        explores, action, self._held = algorithm.explore(self.agent, chance, held, epsilon)
        if np.count_nonzero(explores) < self._num_envs:
            greedy = self._greedy(seen, chance.noise)
            action = np.where(explores.reshape(-1, *(1,) * (greedy.ndim - 1)), action, greedy)
        self._acted = seen, action
        return action

    def _greedy(self, obs: npt.NDArray[np.float32], noise: npt.NDArray[np.float32]) -> npt.NDArray[Any]:
        """Return actions (n, ..) by GPI over the learned policies and, if given, those of the base library."""
        actions = np.empty((self._num_envs, *noise.shape[1:] * bool(self.agent.action_size)), self._action_type)
        for task, rows in self._on_task.items():
            read = self._plain(obs[rows], task)
            found, candidates = self._scores(read, self._held.aversion[rows]), read.candidates
            if self._base_scores is not None:
                base = self._base_scores(obs[rows], task)
                if candidates is None:
                    found = np.concatenate([found, self._checked(base, (len(rows), self.agent.actions))[None]])
                else:  # the actions of the base library are further candidates
                    scores, theirs = base
                    scores = self._checked(scores, theirs.shape[:2])
                    found = np.concatenate([found.max(axis=0), scores], axis=1)[None]
                    candidates = np.concatenate([candidates, theirs], axis=1)
            actions[rows] = self.agent.plain_take(candidates, np.asarray(gpi_actions(found)), noise[rows])
        return actions

    @property
    def _action_type(self) -> type[np.generic]:
        return np.float32 if self.agent.action_size else np.int64

    def greedy(self, obs: npt.ArrayLike, task: int, age: int = 0) -> Any:
        """Return the greedy action of the acting networks for one observation.

        Args:
            obs: The observation (m,).
            task: Index of the task.
            age: Number of steps taken so far in the episode. Default: 0.
        """
        seen = self.agent.with_time(np.asarray(obs, np.float32)[None], np.array([age]))
        read = self._plain(seen, task)
        chosen = np.asarray(gpi_actions(self._scores(read)))
        return self.agent.plain_take(read.candidates, chosen, np.zeros((1, self.agent.action_size)))[0]

    def predict(self, obs: npt.ArrayLike, task: int) -> tuple[float, float]:
        """Return the predicted mean and standard deviation of the discounted return of greedy acting.

        Args:
            obs: The first observation (m,) of an episode.
            task: Index of the task.
        """
        seen = self.agent.with_time(np.asarray(obs, np.float32)[None], np.zeros(1))
        read = self._plain(seen, task)
        chosen = gpi(self._scores(read))
        at = int(chosen.source[0]), 0, int(chosen.policy[0])
        mean, variance = self.agent.law.moments(read.outputs, read.heads)
        return float(mean[at]), float(np.sqrt(max(float(variance[at]), 0.0)))

    def _scores(self, read: _Read, aversion: npt.NDArray[np.float32] | None = None) -> npt.NDArray[Any]:
        """Return scores (K, n, A), in numpy, reduced by `aversion` (n,) standard deviations of the return."""
        law = self.agent.law
        found = np.asarray(law.scores(read.outputs, read.heads, read.risk))
        if aversion is None or not aversion.any():
            return found
        return found - aversion[:, None] * np.sqrt(law.moments(read.outputs, read.heads)[1])

    def _plain(self, obs: npt.NDArray[np.float32], task: int) -> _Read:
        """Return the outputs that the task needs, at observations (n, m), in numpy."""
        if task not in self._heads:
            heads = self.agent.plain_heads(self._acting, self._weights[task])
            self._heads[task] = heads, self.agent.risk(float(self._betas[task]))
        heads, risk = self._heads[task]
        outputs, of_law, candidates = self.agent.plain_outputs(heads, obs)
        return _Read(outputs, of_law, risk, candidates)

    def observe(
        self,
        next_obs: npt.ArrayLike,
        phi: npt.ArrayLike,
        terminated: npt.ArrayLike,
        valid: npt.ArrayLike,
        truncated: npt.ArrayLike = False,
    ) -> None:
        """Store the steps that followed the last `act`.

        Args:
            next_obs: The next observations (n, m). If an episode ended, this is its last observation, not the first
                observation of the next episode.
            phi: Features (n, d).
            terminated: Whether the episode terminated (n,).
            valid: Whether the step is stored (n,); False for the empty step by which some vector environments reset.
            truncated: Whether the episode was truncated (n,). Targets then bootstrap from `next_obs`, except at the
                agent's `limit`. Default: False.

        Raises:
            ValueError: There was no `act`, numbers are not finite, or an event is negative.
        """
        if self._acted is None:
            raise ValueError("observe must be called once after each act")
        (obs, action), self._acted = self._acted, None
        ended, present = np.asarray(terminated, bool), np.asarray(valid).nonzero()[0]
        over, age = ended | np.asarray(truncated, bool), self._age + 1
        if self.agent.limit:  # the remaining return after the last step is 0
            ended = ended | (over & (age >= self.agent.limit))
        after = self.agent.with_time(np.asarray(next_obs), age)
        self._age[present] = np.where(over, 0, age)[present]
        with np.errstate(over="ignore"):  # `_check` finds numbers that become infinite in float32
            packed = replay.pack(Steps(obs, action, phi, after, 1.0 - ended, self.active, over * 1.0), np.float32)
        rows = packed if len(present) == len(packed) else packed[present]
        self._check(rows)
        if len(rows):
            kept = replay.unpack(rows, self._size, action_size=self.agent.action_size)
            self._within = algorithm.widened(self._within, kept.phi, 1 - kept.not_terminated)
        self._stepped += len(rows)
        if self._warm:
            self._owed += len(rows) * self.agent.settings.updates
        self._held = self._held.ended(over)
        stored_at = self._replay.store(rows, present)
        if self._priorities is not None:
            self._priorities.begin(stored_at)
        if not self._warm and self._stepped >= self.agent.settings.warmup:
            self._warm = True
            seen = replay.unpack(self._replay.rows().astype(np.float64), self._size, action_size=self.agent.action_size)
            self._scaling = Scaling.of(self.agent, seen)
            self._refresh()

    def _check(self, rows: npt.NDArray[np.float32]) -> None:
        """Refuse rows (n, R) that are not finite, and negative values of events."""
        phi = replay.unpack(rows, self._size, action_size=self.agent.action_size).phi
        when = f"after {self._stepped} steps"
        if np.count_nonzero(np.isfinite(rows)) < rows.size:
            culprit = "an observation that is" if np.isfinite(phi).all() else "features that are"
            raise ValueError(f"the environment gave {culprit} not finite in float32 {when}")
        settings = self.agent.settings
        if isinstance(settings, MomentSettings) and settings.events and len(rows):
            least = phi[:, list(settings.events)].min()
            if least < 0:
                raise ValueError(f"events must never be negative, got {least:g} {when}")

    def learn(self, updates: int | None = None) -> Learned | None:
        """Do updates.

        Args:
            updates: Number of updates. Default: the number that is due for the steps stored so far, rounded down to a
                multiple of `together`.

        Returns:
            Statistics of the updates, or None if no update was done.
        """
        if updates is None:
            updates = int(self._owed // self._together) * self._together
        self._owed = max(0.0, self._owed - updates)
        if updates < 1:
            return None
        if not self.transitions:
            raise ValueError("learn needs at least one step in the replay: call act and observe first")
        period, left, found = self.agent.settings.target_period, updates, []
        while left:
            until_copy = period - self.updates % period if period else left
            span = _power_of_two(min(left, until_copy, self._together))  # so that few lengths of scans are compiled
            found.append(self._update(span))
            left, self.updates = left - span, self.updates + span
            if span == until_copy and period:
                self._learner = self._copy_target(self._learner)
        if self._act_every <= self.updates - self._acting_at:
            self._refresh()
        return Learned(found, updates, self.updates)

    def _update(self, span: int) -> tuple[Array, Array]:
        """Do `span` updates in one call, and return the sum of losses and the sum of clipped mass."""
        drawn = [self._samples(update) for update in range(self.updates, self.updates + span)]
        bits = np.stack([one.bits for one in drawn])
        size, share = len(self._replay), self.agent.settings.prioritised
        chosen, weight = (bits % np.uint32(size)).astype(np.int64), np.ones(bits.shape, np.float32)
        if self._priorities is not None:
            if self._rated is not None:  # errors are read from the device only now, so that no step waits for it
                self._priorities.rate(self._rated[0].ravel(), np.asarray(self._rated[1]).ravel())
            by_priority = np.stack([one.by_priority for one in drawn]) < share
            shares = np.stack([one.share for one in drawn])
            chosen[by_priority] = self._priorities.draw(shares[by_priority], size)
            frequency = 1 - share + share * self._priorities.frequency(chosen, size)
            weight = algorithm.correction(self.agent, frequency, self.updates).astype(np.float32)
        windows = self._replay.draw(chosen, self.agent.settings.n_step)
        given = (self._learner, self._goal, self._scaling, self._within, windows, weight)
        self._learner, loss, found = self._do_updates(*given)
        if self._priorities is not None:
            self._rated = chosen, found.error
        return loss, found.clipped

    def _refresh(self) -> None:
        """Copy the acting networks to numpy, for `act`."""
        self._acting_at, self._acting = self.updates, self.networks
        self._heads = {}

    def _checked(self, base_scores: npt.ArrayLike, wanted: tuple[int, ...]) -> npt.NDArray[np.float32]:
        scores = np.asarray(base_scores, np.float32)
        if scores.shape != wanted or np.isnan(scores).any():
            given = f"{scores.shape}" + " with nan" * bool(np.isnan(scores).any())
            raise ValueError(f"base_scores must return numbers of shape {wanted}, got shape {given}")
        return scores


def _by_index(draw: Callable[[Ints], _Drawn]) -> Callable[[int], _Drawn]:
    """Return a function from an index to its random numbers, as numpy arrays, which are drawn in blocks of indices."""

    @lru_cache(maxsize=1)
    def block(number: int) -> list[_Drawn]:
        drawn = jax.tree.map(np.asarray, draw(_BLOCK * number + np.arange(_BLOCK)))
        return [type(drawn)(*one) for one in zip(*drawn, strict=True)]

    return lambda index: block(index // _BLOCK)[index % _BLOCK]


@lru_cache(maxsize=16)
def _programs(agent: Agent) -> tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]:
    """Return three compiled functions, which all learners of an agent use: initialise, update, copy target networks."""

    def update(
        learner: Learner, goal: Goal, scaling: Scaling, within: Within, windows: Drawn, weight: Array
    ) -> tuple[Learner, Array, Losses]:
        """Do updates on windows (updates, B), and return the learner, the sum of losses, and `Losses`.

        `Losses` has the errors (updates, B) and the sum of clipped mass (2,).
        """

        def one(learner: Learner, given: tuple[Drawn, Array]) -> tuple[Learner, tuple[Array, Losses]]:
            drawn, own = given
            learner, found = algorithm.update(
                agent, learner, goal, scaling, within, drawn.windows(agent.action_size), own
            )
            return learner, (jnp.mean(found.each), found)

        learner, (loss, found) = jax.lax.scan(one, learner, (windows, weight))
        return learner, jnp.sum(loss), found._replace(each=(), clipped=jnp.sum(found.clipped, axis=0))

    donated = partial(jax.jit, donate_argnums=0)
    return jax.jit(agent.init), donated(update), donated(agent.copy_target)


def _power_of_two(most: int) -> int:
    """Return the largest power of two that is not above `most`."""
    return 1 << most.bit_length() - 1
