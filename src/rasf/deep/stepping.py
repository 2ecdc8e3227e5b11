"""The deep agents stepped from Python, for worlds that jax cannot compile: any Gymnasium environment.

The same `Agent.scores` and `Agent.update` as in the fused loop (`train`), driven by a caller who owns the environments:

    act       GPI over all policies, epsilon-greedy, for n environments at once, each on its active task
    observe   n transitions into the replay, rows of numbers in host memory
    learn     several updates in one compiled scan, on batches drawn beforehand; target networks copied on time

Where the settings ask for a warm-up, its steps are random and nothing is learned from them yet. Then inputs are scaled
by their mean and spread so far, and features by what their returns may come to, once and for all: networks learn best
what is about 1 in size. `networks` take and give everything as it is.

No discounted sum leaves [low, high] / (1 - gamma), where low and high are the least and the most of a feature in any
step so far, and nothing, since an episode may end. Laws by logarithms are kept within that (`Within`).

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
from rasf.agents import LawKind
from rasf.arrays import Array, Floats, Ints
from rasf.deep import replay
from rasf.deep.agent import Agent, Learner, Policies, Tasks
from rasf.deep.laws import Networks, TaskHeads, Within
from rasf.deep.networks import Heads, Network, Pairs, plain_outputs
from rasf.deep.replay import Batch, Chains, HostReplay
from rasf.risk import Risk
from rasf.risk.base import check_beta
from rasf.transfer import gpi_actions

BaseScores = Callable[[npt.NDArray[np.float32], int], npt.NDArray[Any]]  # obs (n, m), task -> best of older ones (n, A)
_LONGEST_SCAN = 256
_LONGEST_HELD = 1_000  # steps; lengths have no mean, and where episodes do not end one would take all the rest
_TOGETHER = 4  # on a CPU a scan of four updates takes two thirds of the time of four calls; more gain little


class Scaling(NamedTuple):
    """How a learner sees its world: inputs (m,) less a shift, times a factor; features (d,) in units."""

    shift: Array
    factor: Array
    units: Array

    @classmethod
    def none(cls, inputs: int, features: int) -> Scaling:
        return cls(np.zeros(inputs, np.float32), np.ones(inputs, np.float32), np.ones(features, np.float32))

    @classmethod
    def of(cls, seen: Batch, gamma: float | None, objects: int = 0) -> Scaling:
        """Inputs to mean 0 and spread 1, features to returns of about 1 at this discount, or as they are.

        What never changed, or never came, is left as it is. objects: of how many numbers, where inputs list some. Their
        numbers are only brought to size 1, those of all objects alike, so that nobody stays nobody.
        """
        if objects:
            mean, spread = np.zeros(seen.obs.shape[1]), _size_of_numbers(seen.obs, objects)
            varies = spread > 0
        else:
            spread = seen.obs.std(axis=0, dtype=np.float64)
            varies = spread > 1e-6 * np.maximum(1e-6, np.abs(seen.obs).max(axis=0))
            mean = np.where(varies, seen.obs.mean(axis=0, dtype=np.float64), 0.0)
        units = np.ones(seen.phi.shape[1])
        if gamma is not None:
            # as if every step were alike: the mean adds up, the rest by its squares
            steady, rest = np.abs(seen.phi.mean(axis=0, dtype=np.float64)), seen.phi.std(axis=0, dtype=np.float64)
            size = steady / (1 - gamma) + rest / (1 - gamma**2) ** 0.5
            units = np.where(size > 0, size, 1.0)
        single = (part.astype(np.float32) for part in (mean, 1 / np.where(varies, spread, 1.0), units))
        return cls(*single)

    def inputs(self, obs: Array) -> Array:
        return (obs - self.shift) * self.factor

    def folded(self, network: Network) -> Network:
        """The network that takes inputs as they come."""
        first = network.hidden[0]
        if isinstance(first, Pairs):
            factor = np.tile(self.factor[: first.numbers], 2)
            return network._replace(hidden=(first._replace(weight=first.weight * factor[:, None]), *network.hidden[1:]))
        weight = first.weight * self.factor[:, None]
        bias = first.bias - np.einsum("n,knm->km", self.shift, weight)
        return network._replace(hidden=(first._replace(weight=weight, bias=bias), *network.hidden[1:]))


def _size_of_numbers(obs: npt.NDArray[Any], objects: int) -> Floats:
    """Root mean squares (n,) of the numbers of all objects that are somebody, those of each object the same."""
    each = obs.reshape(-1, objects).astype(np.float64)
    each = each[each.any(axis=1)]
    size = np.sqrt((each**2).mean(axis=0)) if len(each) else np.ones(objects)
    return np.tile(size, obs.shape[1] // objects)


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
    """An agent that learns its tasks from `num_envs` environments at once.

    `tasks` are those the agent was created for, or those of the stream that `policies` learn from. beta: to act by, one
    or (T,) for each task, and to learn by, where no policies are given. The replay holds the last `capacity`
    transitions; give the number of steps planned, and it forgets nothing. `learn` owes an update for each transition
    and does them `together`, a power of two, in one call (by default 4, or the next not above the number of
    environments). act_every: the networks that act are renewed after so many updates; with more than one, acting is in
    numpy and waits for no update. base_scores: scores older policies, which then take part in GPI.
    dtype: what the replay keeps observations as, which must lose nothing.
    """

    STATE = (  # for checkpoints, between `learn` and `act`; then call `restored`
        "updates", "active", "_owed", "_learner", "_exploring", "_sampling", "_replay", "_scaling", "_within", "_warm",
        "_stepped", "_rated", "_chains", "_held", "_acting", "_acting_at",
    )  # fmt: skip

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
        base_scores: BaseScores | None = None,
        dtype: npt.DTypeLike = np.float32,
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
        self.agent, self.updates, self.active = agent, 0, np.zeros(num_envs, np.int64)
        self._on_task = {0: np.arange(num_envs)}  # the environments of each task that is active
        self._betas = np.broadcast_to(betas, (n_tasks,))
        # what `Agent.update` learns for: a beta, or policies
        self._learned_for = float(betas) if policies is None else Policies(*map(jnp.float32, policies))
        self._tasks = Tasks(*(jnp.asarray(part, jnp.float32) for part in tasks))
        self._weights = np.asarray(tasks.weights, np.float32)
        self._size = agent.inputs - (self._tasks.inputs.shape[1] if agent.settings.conditioned else 0)
        self._num_envs, self._together, self._owed = num_envs, together, 0.0
        self._programs = _programs(agent, self._size)
        self._learner: Learner = self._programs.init(jax.random.key(seed))
        self._exploring, self._sampling = map(np.random.default_rng, np.random.SeedSequence(seed).spawn(2))
        self._replay = HostReplay(capacity, self._size, n_features, dtype)
        self._scaling = Scaling.none(self._size, n_features)
        self._within = Within(*np.zeros((2, n_features), np.float32))
        self._warm, self._stepped = agent.settings.warmup == 0, 0
        self._base_scores = base_scores
        self._heads: dict[int, tuple[TaskHeads, tuple[Heads, ...], Risk]] = {}
        self._no_base = jnp.full((num_envs, agent.actions), -jnp.inf)
        self._rated: tuple[Ints, Array] | None = None
        self._acted: tuple[npt.NDArray[np.float32], Ints] | None = None
        n_step, gamma = agent.settings.n_step, agent.settings.gamma
        self._chains = Chains(num_envs, n_step, gamma, self._size) if n_step > 1 else None
        self._held = _Held(num_envs)
        self._act_every = checks.whole("act_every", act_every)
        if agent.settings.conditioned and (act_every > 1 or agent.settings.warmup):
            raise ValueError("act_every must be 1 and warmup 0 for a network that sees the task")
        self._refresh()

    @property
    def networks(self) -> Networks:
        """A copy of the networks to act by, in numpy."""
        # a view would keep updates from working in place
        copy: Networks = jax.tree.map(np.array, self.agent.acting(self._learner))
        if not self.agent.settings.warmup:
            return copy
        return self.agent.law.in_units(tuple(self._scaling.folded(one) for one in copy), self._scaling.units)

    @property
    def transitions(self) -> int:
        """How many the replay holds."""
        return len(self._replay)

    def begin_task(self, task: int | npt.ArrayLike) -> None:
        """Make a task the active one of all environments, or one (n,) of each."""
        given, most = np.broadcast_to(np.asarray(task, np.int64), (self._num_envs,)), len(self._weights) - 1
        if given.min() < 0 or given.max() > most:
            raise ValueError(f"task must be from 0 to {most}, got {task!r}")
        self.active, self._acted = given.copy(), None
        self._on_task = {int(one): np.flatnonzero(given == one) for one in np.unique(given)}

    def restored(self) -> None:
        """Complete what a checkpoint restored: the rest follows from it."""
        self._heads = {}
        self.begin_task(self.active)

    def cut(self) -> None:
        """What comes next does not follow from what came: neither sums over steps nor held actions go on."""
        self._held.end(np.ones(self._num_envs, bool))
        if self._chains is not None:
            self._chains.drop()

    def act(self, obs: npt.ArrayLike) -> Ints:
        """Actions (n,) for observations (n, m)."""
        seen = np.array(obs, np.float32)  # a copy: environments reuse their arrays
        if seen.shape != (self._num_envs, self._size):
            raise ValueError(f"obs must have shape {(self._num_envs, self._size)}, got {seen.shape}")
        epsilon = self.agent.epsilon_at(self._stepped) if self._warm else 1.0
        explore = self._exploring.random(self._num_envs) < epsilon
        action: Ints
        if self._num_envs > 1:
            action = self._exploring.integers(self.agent.actions, size=self._num_envs)
        else:  # the same number, drawn more quickly
            action = np.array([self._exploring.integers(self.agent.actions)])
        if self.agent.settings.lasting:
            explore, action = self._held.go_on(self._exploring, explore, action)
        if np.count_nonzero(explore) < self._num_envs:
            action = np.where(explore, action, self._greedy(seen))
        self._acted = seen, action
        return action

    def _greedy(self, obs: npt.NDArray[np.float32]) -> Ints:
        """Actions (n,) by GPI over all policies, and over the scores of older ones."""
        base = None
        if self._base_scores is not None:
            base = np.empty((self._num_envs, self.agent.actions), np.float32)
            for task, rows in self._on_task.items():
                base[rows] = self._checked(self._base_scores(obs[rows], task), len(rows))
        if self._act_every == 1:
            acting, betas = self.agent.acting(self._learner), self._betas[self.active].astype(np.float32)
            base = self._no_base if base is None else base
            return np.asarray(self._programs.act(acting, self._tasks, self.active, betas, self._scaling, obs, base))
        if base is None and len(self._on_task) == 1:
            return np.asarray(gpi_actions(self._plain_scores(obs, int(self.active[0]))))
        actions = np.empty(self._num_envs, np.int64)
        for task, rows in self._on_task.items():
            scores = self._plain_scores(obs[rows], task)
            actions[rows] = gpi_actions(scores if base is None else np.concatenate([scores, base[None, rows]]))
        return actions

    def greedy(self, obs: npt.ArrayLike, task: int) -> int:
        """The action for one observation (m,) on a task, without exploration, by the networks of the last renewal."""
        return int(gpi_actions(self._plain_scores(np.asarray(obs, np.float32)[None], task))[0])

    def _plain_scores(self, obs: npt.NDArray[np.float32], task: int) -> npt.NDArray[Any]:
        """Scores (K, n, A) of observations (n, m) on a task, in numpy."""
        law = self.agent.law
        if task not in self._heads:
            heads = law.plain_heads(self._acting, self._weights[task])
            self._heads[task] = heads, law.task_shapes(heads), self.agent.settings.risk(float(self._betas[task]))
        heads, shapes, risk = self._heads[task]
        outputs = tuple(plain_outputs(one, obs, shape) for one, shape in zip(heads.networks, shapes, strict=True))
        return np.asarray(law.scores(outputs, heads, risk))

    def observe(
        self,
        next_obs: npt.ArrayLike,
        phi: npt.ArrayLike,
        terminated: npt.ArrayLike,
        valid: npt.ArrayLike,
        truncated: npt.ArrayLike = False,
    ) -> None:
        """Store what followed the last `act`: the true successors (n, m), also where an episode ended, and phi (n, d).

        terminated (n,): nothing follows. valid (n,): False for the empty step by which some vector environments reset.
        truncated (n,): what comes next does not follow, which matters to sums over several steps.
        """
        if self._acted is None:
            raise ValueError("observe must follow act, once for each")
        (obs, action), self._acted = self._acted, None
        not_terminated = 1.0 - np.asarray(terminated)
        with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite, and is refused below
            packed = replay.pack(Batch(obs, action, phi, next_obs, not_terminated, self.active), np.float32)
        environments = np.asarray(valid).nonzero()[0]
        rows = packed if len(environments) == len(packed) else packed[environments]
        if np.count_nonzero(np.isfinite(rows)) < rows.size:
            culprit = "an observation" if np.isfinite(replay.unpack(rows, self._size).phi).all() else "features"
            raise ValueError(f"the environment gave {culprit} not finite in float32 after {self.transitions} steps")
        if self.agent.settings.events and len(rows):
            least = replay.unpack(rows, self._size).phi[:, list(self.agent.settings.events)].min()
            if least < 0:
                raise ValueError(f"events must never be negative, got {least:g} after {self.transitions} steps")
        self._widen(replay.unpack(rows, self._size).phi)
        self._stepped += len(rows)
        if self._warm:
            self._owed += len(rows) * self.agent.settings.updates
        over = np.asarray(terminated, bool) | np.asarray(truncated, bool)
        self._held.end(over)
        if self._chains is not None:
            rows = self._chains.follow(rows, environments, over)
        self._replay.store(rows)
        if not self._warm and self._stepped >= self.agent.settings.warmup and len(self._replay):
            self._warm, chosen, histogram = True, self.agent.settings, self.agent.law.kind is LawKind.HISTOGRAM
            seen = replay.unpack(self._replay.rows(), self._size)
            gamma = None if histogram else chosen.gamma**chosen.n_step
            self._scaling = Scaling.of(seen, gamma, chosen.objects)
            self._refresh()

    def _widen(self, phi: npt.NDArray[np.float32]) -> None:
        """Bounds of returns that allow for these features of single steps (n, d)."""
        sums = phi / np.float32(1 - self.agent.settings.gamma)
        low, high = self._within
        if np.count_nonzero((sums < low) | (sums > high)):  # seldom
            self._within = Within(
                sums.min(axis=0, initial=0.0).clip(max=low), sums.max(axis=0, initial=0.0).clip(min=high)
            )

    def learn(self, updates: int | None = None) -> Learned | None:
        """Do `updates` updates, or those that are owed; None where there are none to do."""
        if updates is None:
            if not self.transitions:  # sums over steps are not complete yet
                return None
            updates = int(self._owed // self._together) * self._together
        self._owed = max(0.0, self._owed - updates)
        if updates < 1:
            return None
        if not self.transitions:
            raise ValueError("learn needs a transition at least: act and observe first")
        period, left, found = self.agent.settings.target_period, updates, []
        while left:
            until_copy = period - self.updates % period if period else left
            span = _power_of_two(min(left, until_copy, _LONGEST_SCAN))  # so that few lengths compile
            found.append(self._update(span))
            left, self.updates = left - span, self.updates + span
            if span == until_copy and period:
                self._learner = self._programs.copy_target(self._learner)
        if 1 < self._act_every <= self.updates - self._acting_at:
            self._refresh()
        return Learned(found, updates, self.updates)

    def _update(self, span: int) -> tuple[Array, Array]:
        """So many updates in one call; the sums of losses and of clipped mass."""
        shape, by_surprise = (span, self.agent.settings.batch), self.agent.settings.surprise
        given = (self._tasks, self._learned_for, self._scaling, self._within)
        if not by_surprise:
            rows = self._replay.sample(self._sampling, shape)
            self._learner, loss, clipped = self._programs.update(self._learner, *given, rows)
            return loss, clipped
        if self._rated is not None:  # only now, so that nobody waited for it
            self._replay.rate(self._rated[0], np.asarray(self._rated[1]))
        drawn, planned = self._replay.sample_by_surprise(self._sampling, shape, by_surprise), self.agent.planned
        # What is drawn too often counts for less: at first not at all, so that policies find what is rare; in full from
        # the middle of training on, since laws would be those of the outcomes that surprise.
        corrected = min(1.0, 2 * self.updates / planned) if planned else 1.0
        weighted = drawn.rows, drawn.frequency**-corrected
        self._learner, loss, surprise = self._programs.weighted_update(self._learner, *given, *weighted)
        self._rated = drawn.chosen, surprise
        return loss, np.zeros(2)

    def _refresh(self) -> None:
        """Act by the networks as they are now, in numpy: it then waits for no update, and these go on meanwhile."""
        self._acting_at, self._acting = self.updates, self.networks
        self._heads = {}

    def _checked(self, base_scores: npt.NDArray[Any], n: int) -> npt.NDArray[np.float32]:
        scores, wanted = np.asarray(base_scores, np.float32), (n, self.agent.actions)
        if scores.shape != wanted or np.isnan(scores).any():
            told = f"{scores.shape}" + " with nan" * bool(np.isnan(scores).any())
            raise ValueError(f"base_scores must give numbers of shape {wanted}, got shape {told}")
        return scores


class _Held:
    """Actions that n environments explore for a while."""

    STATE = ("_action", "_left")  # for checkpoints

    def __init__(self, n: int) -> None:
        self._action: Ints = np.zeros(n, np.int64)
        self._left: Ints = np.zeros(n, np.int64)

    def go_on(self, rng: np.random.Generator, explore: Any, action: Ints) -> tuple[Any, Ints]:
        """Who explores now, by which action: those who hold one, and those (n,) who begin with theirs (n,)."""
        holds, lasts = self._left > 0, np.minimum(rng.zipf(2.0, len(action)), _LONGEST_HELD)
        self._action = np.where(holds, self._action, action)
        self._left = np.where(holds, self._left - 1, np.where(explore, lasts - 1, 0))
        return explore | holds, self._action

    def end(self, over: npt.NDArray[np.bool_]) -> None:
        """Nobody holds anything beyond an episode."""
        if over.any():
            self._left[over] = 0


class _Programs(NamedTuple):
    """What is compiled for an agent, once for all learners that have it."""

    init: Callable[..., Any]
    act: Callable[..., Any]
    update: Callable[..., Any]
    weighted_update: Callable[..., Any]
    copy_target: Callable[..., Any]


@lru_cache(maxsize=16)
def _programs(agent: Agent, observation_size: int) -> _Programs:
    risk = agent.settings.risk

    def act(
        online: Networks, tasks: Tasks, active: Array, betas: Array, scaling: Scaling, obs: Array, base: Array
    ) -> Array:
        def one(task: Array, beta: Array, seen: Array, older: Array) -> Array:
            task_heads = agent.task_heads(online, tasks.weights[task] * scaling.units)
            scores = agent.scores(task_heads, scaling.inputs(seen)[None], tasks.inputs[task], risk(beta))
            return gpi_actions(jnp.concatenate([scores[:, 0], older[None]]))

        return jax.vmap(one)(active, betas, obs, base)

    def prepared(
        tasks: Tasks, learned_for: Array | Policies, scaling: Scaling, within: Within, rows: Array
    ) -> tuple[tuple[Batch, Tasks, Risk | Policies], Within]:
        """What an agent's update takes, from rows (.., B, ..) as they are."""
        tasks = tasks._replace(weights=tasks.weights * scaling.units)
        by: Risk | Policies
        if isinstance(learned_for, Policies):
            by = learned_for._replace(weights=learned_for.weights * scaling.units)
        else:
            by = risk(learned_for)
        batch = replay.unpack(rows, observation_size)
        obs, next_obs = scaling.inputs(batch.obs), scaling.inputs(batch.next_obs)
        batch = batch._replace(obs=obs, next_obs=next_obs, phi=batch.phi / scaling.units)
        return (batch, tasks, by), Within(within.low / scaling.units, within.high / scaling.units)

    def update(
        learner: Learner, tasks: Tasks, learned_for: Array | Policies, scaling: Scaling, within: Within, rows: Array
    ) -> tuple[Learner, Array, Array]:
        """Updates on rows (updates, B, ..); the sums of losses and of clipped mass."""

        def one(learner: Learner, drawn: Array) -> tuple[Learner, tuple[Array, Array]]:
            given, bounds = prepared(tasks, learned_for, scaling, within, drawn)
            learner, loss, clipped = agent.update(learner, *given, bounds)
            return learner, (loss, clipped)

        learner, (loss, clipped) = jax.lax.scan(one, learner, rows)
        return learner, jnp.sum(loss), jnp.sum(clipped, axis=0)

    def weighted_update(
        learner: Learner,
        tasks: Tasks,
        learned_for: Array | Policies,
        scaling: Scaling,
        within: Within,
        rows: Array,
        weights: Array,
    ) -> tuple[Learner, Array, Array]:
        """The same with weights (updates, B); the sum of losses, and the surprise (updates, B)."""

        def one(learner: Learner, drawn: tuple[Array, Array]) -> tuple[Learner, tuple[Array, Array]]:
            given, bounds = prepared(tasks, learned_for, scaling, within, drawn[0])
            learner, loss, surprise = agent.weighted_update(learner, *given, drawn[1], bounds)
            return learner, (loss, surprise)

        learner, (loss, surprise) = jax.lax.scan(one, learner, (rows, weights))
        return learner, jnp.sum(loss), surprise

    donated = partial(jax.jit, donate_argnums=0)
    updates = donated(update), donated(weighted_update)
    return _Programs(jax.jit(agent.init), jax.jit(act), *updates, donated(agent.copy_target))


def _power_of_two(most: int) -> int:
    """The largest that is not above `most`."""
    return 1 << most.bit_length() - 1
