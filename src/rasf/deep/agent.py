"""The deep agent: K networks that represent return distributions, and a risk for acting and bootstrapping.

For each transition (s, a, phi, s') and each policy k (Algorithm 2 of the paper):

    a'_k = argmax_b risk[Z_k(s', b) . w_k]      chosen by the online networks
    Z_k(s, a)  <-  phi + gamma Z_k(s', a'_k)    evaluated by the target networks

The feature return is the discounted sum of the features. Z_k is its distribution for policy k, and w_k are the weights
of this policy's task. With n-step returns, phi is the discounted sum over up to n steps, and s' is the state after
these steps. The sum of policy k ends before the first action that is much worse for policy k than the best action. Much
worse means that the score is lower than the best score by more than `_NEARLY` times the mean difference between the
best and the worst score of a state. Without this rule, Z_k would partly be the return of the behaviour policy.

The paper's agents differ in the kind of Z: histograms (SFC51, RaSFC51), the mean (SFDQN), or mean and covariance (SFDQN
with residual covariance). beta = 0 is risk-neutral. All functions are pure and for a single seed; use `jax.vmap` for
several seeds.

With a `limit`, an episode and its return end after this number of steps. The time left is an input of the networks
(`Clock`), and the remaining return after the last step is 0. Without a limit, returns are continuing.

Shapes: K policies, T tasks, d features, m numbers per observation, n inputs of the networks, A actions, B observations
or windows of a batch. A return distribution has one or more parts, which are stacks of K networks (`rasf.deep.laws`). A
part has H heads with M numbers each.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import optax

from rasf import checks
from rasf.agents import LawKind
from rasf.arrays import Array, Floats, Ints, array_namespace
from rasf.deep.clock import TIME_INPUTS, Clock
from rasf.deep.laws import Law, Losses, Networks, Parts, RiskOf, TaskHeads, Transition, Within, support_atoms
from rasf.deep.make_law import make_law
from rasf.deep.networks import (
    Heads,
    Network,
    Sizes,
    choose_policies,
    encode,
    init_network,
    plain_outputs,
    read_action,
    read_heads,
)
from rasf.deep.replay import Windows, row_size
from rasf.deep.settings import HistogramSettings, MomentSettings, NetworkSettings
from rasf.risk import MeanVariance, Risk
from rasf.world import World

_LAST_RATE = 0.02  # final learning rate as a share of the initial learning rate, with the setting `decay`
_NEARLY = 0.2  # defines "much worse" in the module's header


class Tasks(NamedTuple):
    """T tasks.

    Attributes:
        weights: Weights (T, d) of the tasks.
        inputs: Further inputs (T, c) of the networks, which encode the task; c is 0 for networks without such inputs.
    """

    weights: Array
    inputs: Array

    @classmethod
    def of(cls, weights: npt.ArrayLike) -> Tasks:
        """Return tasks for networks without task inputs.

        Args:
            weights: Weights (T, d).
        """
        each = np.asarray(weights, np.float32)
        return cls(each, np.zeros((len(each), 0), np.float32))


class Policies(NamedTuple):
    """The tasks and risks for which K policies learn: the weights (K, d) and the beta (K,) of each."""

    weights: Array
    beta: Array


class Learner(NamedTuple):
    """The networks, the state of the optimiser and the number of updates, which change during training.

    Attributes:
        online: The networks that are trained.
        target: The target networks; empty if the setting `target_period` is 0.
        optimiser: The state of the optimiser.
        updates: The number of updates so far ().
        average: The networks' weights, averaged over the last updates; empty if the setting `average` is 0.
        chooser: The networks that choose a': the online networks at first, frozen networks at the end of training.
            Empty if the setting `freeze` is 0; the online networks then choose a' throughout.
    """

    online: Any
    target: Any
    optimiser: optax.OptState
    updates: Array
    average: Any = ()
    chooser: Any = ()


class Target(NamedTuple):
    """The targets of a batch.

    Attributes:
        phi: Summed features (B, d), or (K, B, d) if every policy has its own sums.
        discount: Discount of the remaining return, (B,) or (K, B).
        following: Outputs (K, B, H, M) of every part for the action a' of each policy.
        longest: The sum of gamma^t over the steps left in the episode after s', (B,) or (K, B).
    """

    phi: Array
    discount: Array
    following: Parts
    longest: Array


@dataclass(frozen=True)
class Agent:
    """Settings together with the sizes of a world. The class is hashable, so that compiled code can depend on an agent.

    Attributes:
        settings: The settings.
        law: The object that defines how networks represent return distributions.
        policies: Number K of policies.
        inputs: Number of inputs of the networks.
        actions: Number of actions.
        active_features: The largest number of nonzero weights of a task. This many heads are needed for histograms.
        planned: Number of updates of the whole training. If it is 0, the settings `decay`, `exploration` and `freeze`
            have no effect. Default: 0.
        risk: A function from a beta to a risk. Default: `MeanVariance`.
        optimiser: A function from the learning rate to an optimiser. Default: Adam.
        activation: The activation of the hidden layers. The stepped driver computes actions in numpy and supports only
            tanh. Default: tanh.
        initialise: The function that returns initial networks. Default: `init_network`.
        limit: Number of steps after which an episode and its return end; 0 for continuing returns. Default: 0.
        neutral: Whether all policies learn risk-neutrally, so that bootstrapping needs only means. Default: False.
        action_size: Number of entries of an action that is a vector; 0 if actions are numbered. Default: 0.
    """

    settings: NetworkSettings
    law: Law
    policies: int
    inputs: int
    actions: int
    active_features: int
    planned: int = 0
    risk: RiskOf = MeanVariance
    optimiser: Callable[[Any], optax.GradientTransformation] = optax.adam
    activation: Callable[[Array], Array] = jnp.tanh
    initialise: Callable[..., Network] = init_network
    limit: int = 0
    neutral: bool = False
    action_size: int = 0

    @classmethod
    def create(
        cls,
        settings: NetworkSettings,
        observation_size: int,
        n_actions: int,
        training: Tasks,
        atoms: Array | None = None,
        policies: int | None = None,
        **more: Any,
    ) -> Self:
        """Return the agent for given sizes and training tasks.

        Args:
            settings: The settings, of one of the classes in `rasf.deep.settings`.
            observation_size: Size of an observation, without time inputs.
            n_actions: Number of actions; not used if actions are vectors.
            training: The training tasks.
            atoms: The N atoms of each feature's histogram, (d, N); required for histograms. Default: none.
            policies: Number of policies. Default: one for each task.
            **more: Further fields of the agent.

        Raises:
            ValueError: Sizes do not fit together, or a number is invalid.
        """
        observation_size = checks.whole("observation_size", observation_size)
        weights, seen = checks.task_weights("weights of training", training.weights), np.shape(training.inputs)
        n_tasks, d = weights.shape
        policies = n_tasks if policies is None else checks.whole("policies", policies)
        if len(seen) != 2 or seen[0] != n_tasks:
            raise ValueError(f"inputs of training must have shape ({n_tasks}, c), one row per task, got {seen}")
        if isinstance(settings, HistogramSettings):
            wanted, given = (d, settings.atoms), np.shape(atoms) if atoms is not None else ()
            if given != wanted:
                raise ValueError(f"atoms must have shape {wanted} for these tasks and settings, got {given}")
        events = settings.events if isinstance(settings, MomentSettings) else ()
        if any(event >= d for event in events):
            raise ValueError(f"events must be features from 0 to {d - 1}, got {events}")
        if settings.objects and observation_size % settings.objects:
            raise ValueError(
                f"objects must divide the {observation_size} numbers of an observation, got {settings.objects}"
            )
        law = make_law(settings.kind, d, atoms, events, timed=bool(more.get("limit")))
        inputs = observation_size + (TIME_INPUTS if more.get("limit") else 0)
        # if actions are vectors, every policy proposes one action, and these proposals are scored
        actions = policies if more.get("action_size") else checks.whole("n_actions", n_actions)
        return cls(settings, law, policies, inputs, actions, d, **more).for_weights(weights)

    @classmethod
    def for_world(cls, settings: NetworkSettings, world: World, training: Tasks, **more: Any) -> Self:
        """Return the agent for a world, with the sizes and the bounds of features that the world declares.

        Args:
            settings: The settings.
            world: The world.
            training: The training tasks.
            **more: Further arguments of `create`.
        """
        atoms = None
        if isinstance(settings, HistogramSettings):
            atoms = support_atoms(world.feature_bounds, settings.gamma, settings.atoms)
        return cls.create(settings, world.observation_size, world.n_actions, training, atoms, **more)

    def for_weights(self, weights: npt.ArrayLike) -> Self:
        """Return the agent with `active_features` set for tasks with the weights (.., d)."""
        return replace(self, active_features=max(1, int(np.count_nonzero(weights, axis=-1).max())))

    def sizes(self, observation_size: int, policies: int, features: int, seen: int) -> list[tuple[str, int, int]]:
        """Return the sizes to check, each as (name, value of the agent, required value).

        Args:
            observation_size: Size of an observation, without time inputs.
            policies: Number of policies.
            features: Number of features.
            seen: Number of inputs that encode the task.
        """
        return [
            ("inputs", self.inputs, observation_size + self.time_inputs),
            ("features", self.law.features, features),
            ("policies", self.policies, policies),
        ]

    def updates_for(self, steps: int) -> int:
        """Return the number of updates after a round of `steps` steps.

        Args:
            steps: The number of environments. Each environment takes one step in a round.

        Raises:
            ValueError: The number of updates is not a whole number of at least 1.
        """
        updates = self.settings.updates * steps
        if updates < 1 or abs(updates - round(updates)) > 1e-6:  # rounded, because 7 / 25 * 25 is not exactly 7
            raise ValueError(f"updates must be a whole number for a round of {steps} steps, got {updates:g}")
        return round(updates)

    @property
    def time_inputs(self) -> int:
        """The number of inputs that encode the time left."""
        return TIME_INPUTS if self.limit else 0

    @property
    def clock(self) -> Clock | None:
        """The encoding of the time left as inputs; None without a limit."""
        return Clock(self.limit, self.settings.gamma) if self.limit else None

    @property
    def averse_episodes(self) -> float:
        """The share of training episodes that act risk-averse; 0 for settings without this field."""
        return self.settings.averse_episodes if isinstance(self.settings, MomentSettings) else 0.0

    @property
    def gradient_step(self) -> optax.GradientTransformation:
        """The optimiser with the learning rate, which may decay over the planned updates."""
        return self.optimiser(self.falling(self.settings.learning_rate))

    def falling(self, rate: float) -> Any:
        """Return the learning rate `rate`, or, with the setting `decay`, a schedule that decreases from `rate`."""
        decays = self.settings.decay and self.planned
        return optax.linear_schedule(rate, _LAST_RATE * rate, self.planned) if decays else rate

    def epsilon_at(self, step: Array) -> Array:
        """Return the probability of exploring after a total of `step` steps of all environments, in numpy or jax."""
        xp, chosen = array_namespace(step), self.settings
        falling = chosen.exploration * self.planned / chosen.updates  # number of steps in which epsilon decreases
        if not falling:
            return xp.asarray(chosen.epsilon)
        return xp.maximum(chosen.epsilon, 1.0 - (1.0 - chosen.epsilon) * step / falling)

    def memory_needed(self, transitions: int, observation_size: int, features: int, item: int = 4) -> float:
        """Return an estimate of the bytes for networks, optimiser, a batch's outputs and gradients, and the replay.

        Args:
            transitions: Number of steps that the replay keeps.
            observation_size: Size of an observation.
            features: Number of features.
            item: Bytes of each number of an observation in the replay. Default: 4.
        """
        chosen = self.settings
        first, stacks = 2 * chosen.objects or self.inputs, 1 if chosen.shared else self.policies
        parts = [
            ((first, *widths), self.actions * shape.size)
            for widths, shape in zip(self.law.layers(chosen.widths), self.law.shapes(), strict=True)
        ]
        numbers = sum(
            stacks * sum((n + 1) * m for n, m in itertools.pairwise(sizes)) + self.policies * (sizes[-1] + 1) * columns
            for sizes, columns in parts
        )
        # the online networks, their gradient, Adam's two moments, and the further copies that settings require
        copies = 4 + sum(map(bool, (chosen.target_period, chosen.average, chosen.freeze)))
        listed = self.inputs // chosen.objects if chosen.objects else 1
        outputs = 3.0 * chosen.batch * self.policies * sum(listed * sum(sizes) + columns for sizes, columns in parts)
        if isinstance(chosen, HistogramSettings):  # a projection matrix for every transition and feature
            outputs += 3.0 * chosen.batch * self.law.features * chosen.atoms**2
        row = 4.0 * row_size(observation_size, features, self.action_size) + 2.0 * (item - 4) * observation_size
        return 4.0 * (copies * numbers + outputs) + transitions * row

    def init(self, key: Array) -> Learner:
        """Return a learner with random networks."""
        chosen, online = self.settings, self.initial(key)
        average, chooser = (jax.tree.map(jnp.copy, online) if on else () for on in (chosen.average, self._freeze_after))
        learner = Learner(online, (), self.gradient_step.init(online), jnp.zeros((), jnp.int32), average, chooser)
        return self.copy_target(learner)

    def initial(self, key: Array) -> Any:
        """Return random networks."""
        return self._stacks(key, self.inputs, self.actions)

    def _stacks(self, key: Array, inputs: int, actions: int) -> Networks:
        """Return random networks for the return distribution."""
        shapes, chosen = self.law.shapes(), self.settings
        sizes = Sizes(
            self.policies,
            inputs,
            chosen.widths,
            actions,
            shared=chosen.shared,
            frequency=chosen.frequency,
            objects=chosen.objects,
            timed=bool(self.limit),
        )
        layers = self.law.layers(chosen.widths)
        return tuple(
            self.initialise(one, sizes._replace(widths=widths), shape)
            for one, widths, shape in zip(jax.random.split(key, len(shapes)), layers, shapes, strict=True)
        )

    @property
    def _freeze_after(self) -> int:
        """The number of updates after which policies are frozen; 0 if policies are never frozen."""
        return max(1, round((1 - self.settings.freeze) * self.planned)) if self.settings.freeze and self.planned else 0

    def acting(self, learner: Learner) -> Any:
        """Return the acting networks: averaged networks if the setting `average` is not 0, else the online networks."""
        return learner.average or learner.online

    def choose(self, networks: Any, chosen: Ints) -> Any:
        """Return the networks of some policies, given the indices of these policies."""
        return tuple(choose_policies(one, chosen) for one in networks)

    def copy_target(self, learner: Learner) -> Learner:
        """Return the learner with copies of the online networks as target networks, unless `target_period` is 0."""
        copied = jax.tree.map(jnp.copy, learner.online) if self.settings.target_period else ()
        return learner._replace(target=copied)

    def random_actions(self, key: Array, n: int) -> tuple[Array, Array]:
        """Return n random actions, and the noise (n, action_size) to add if actions are vectors."""
        return jax.random.randint(key, (n,), 0, self.actions), jnp.zeros((n, 0))

    def take(self, task_heads: Any, x: Array, chosen: Array, noise: Array) -> Array:
        """Return the action that has a given index: the index itself, or, if actions are vectors, a vector with noise.

        Args:
            task_heads: The reduced networks.
            x: The inputs (n,) at which the index was chosen.
            chosen: The index ().
            noise: Noise (action_size,).
        """
        return chosen

    def plain_take(
        self, candidates: npt.NDArray[Any] | None, chosen: Ints, noise: npt.NDArray[Any]
    ) -> npt.NDArray[Any]:
        """Return the actions that have the indices `chosen`; see `take`.

        Args:
            candidates: The actions (n, A, action_size) from `plain_outputs`, if actions are vectors.
            chosen: Indices (n,).
            noise: Noise (n, action_size).
        """
        return chosen

    def plain_heads(self, networks: Any, w: Floats) -> Any:
        """Reduce networks in numpy to what `plain_outputs` needs for a task with the weights w (d,)."""
        return self.law.plain_heads(networks, w)

    def plain_outputs(
        self, heads: Any, x: npt.NDArray[np.float32]
    ) -> tuple[Parts, TaskHeads, npt.NDArray[np.float32] | None]:
        """Return the outputs of reduced networks, in numpy.

        Args:
            heads: The networks, reduced by `plain_heads`.
            x: Inputs (B, n).

        Returns:
            Outputs (K, B, A, H, M) of every part, the reduced networks as `law` needs them, and the candidate actions
            (B, A, action_size), or None if actions are numbered.
        """
        shapes = self.law.task_shapes(heads)
        found = tuple(plain_outputs(one, x, shape) for one, shape in zip(heads.networks, shapes, strict=True))
        return self.at_time(found, x), heads, None

    def task_heads(self, networks: Any, w: Array) -> Any:
        """Return the networks reduced to the outputs that are needed to score all policies on a task.

        Args:
            networks: The networks.
            w: The weights (d,) of the task.
        """
        return self.law.task_heads(networks, self.weights_for_all(w), self.active_features)

    def scores(self, task_heads: Any, obs: Array, task_input: Array, risk: Risk) -> Array:
        """Return the scores (K, B, A) of all policies on a task (GPE).

        Args:
            task_heads: The reduced networks of the task.
            obs: Observations (B, n).
            task_input: The inputs (c,) that encode the task.
            risk: The risk.
        """
        return self.law.scores(self._outputs(task_heads, self.see(obs, task_input)), task_heads, risk)

    def moments(self, task_heads: Any, obs: Array, task_input: Array) -> tuple[Array, Array]:
        """Return the mean and the variance (K, B, A) of the return on a task. Arguments are as for `scores`."""
        return self.law.moments(self._outputs(task_heads, self.see(obs, task_input)), task_heads)

    def own_scores(self, networks: Networks, obs: Array, w: Array, risk: Risk | Array) -> Array:
        """Return the scores (K, B, A) of each policy for its own task.

        Args:
            networks: The networks.
            obs: Inputs of the networks: (B, n), or (K, B, n) if the inputs of the K networks differ.
            w: The weights (K, d) of each policy's task.
            risk: The risk of all policies, or the beta (K,) of each.
        """
        if self.neutral:
            task_heads = self.law.mean_heads(networks, w)
            return self.law.means(self._outputs(task_heads, obs), task_heads)
        task_heads = self.law.task_heads(networks, w, self.active_features)
        outputs = self._outputs(task_heads, obs)
        if isinstance(risk, Risk):
            return self.law.scores(outputs, task_heads, risk)
        return self.law.scores_by_each(outputs, task_heads, self.risk, risk)

    def update(
        self,
        learner: Learner,
        batch: Windows,
        tasks: Tasks,
        by: Risk | Policies,
        within: Within,
        weight: Array | float = 1.0,
        spread: Array | float = 1.0,
    ) -> tuple[Learner, Losses]:
        """Take one gradient step on a batch.

        Args:
            learner: The state before the update.
            batch: B windows: transitions with the steps that follow them.
            tasks: The tasks in which experience is collected.
            by: Either one risk, for which policy k learns task k, or the task and the beta of each policy.
            within: The range of each feature over all steps so far.
            weight: The weight (B,) of each window's loss. Default: 1.
            spread: Typical standard deviations (d,) of the features' returns. Default: 1.

        Returns:
            The state after the update, and the weighted losses.
        """
        w, risk = by if isinstance(by, Policies) else (jnp.asarray(tasks.weights), by)
        spread = jnp.broadcast_to(spread, batch.phi.shape[-1:])
        target = self.target_of(learner, batch, w, risk, spread)
        action = jnp.broadcast_to(batch.action[:, 0], (self.policies, len(batch.action)))

        bounds = within.bounds(self.longest(batch.obs)), within.bounds(target.longest)
        frozen = learner.updates >= self._freeze_after if learner.chooser else False
        given = Transition(target.phi, target.discount, *bounds, w, spread, frozen)

        def loss(networks: Networks) -> tuple[Array, Losses]:
            chosen = self._outputs_of(networks, batch.obs, action)
            found = self.law.losses(chosen, target.following, given)
            each = weight * found.each
            return jnp.mean(each), found._replace(each=each)

        (_, found), gradient = jax.value_and_grad(loss, has_aux=True)(learner.online)
        steps, optimiser = self.gradient_step.update(gradient, learner.optimiser)
        online, done = optax.apply_updates(learner.online, steps), learner.updates + 1
        average, chooser = self.averaged(learner, online), learner.chooser
        if chooser:  # from update `_freeze_after` on, the averaged networks of that update choose a'
            now = jax.lax.cond(done < self._freeze_after, lambda: online, lambda: average or online)
            chooser = jax.lax.cond(done <= self._freeze_after, lambda: now, lambda: chooser)
        return Learner(online, learner.target, optimiser, done, average, chooser), found

    def averaged(self, learner: Learner, online: Any) -> Any:
        """Return the averaged networks after an update, given the learner before it and the new online networks.

        The average is at first over all updates, and later over about the last `average` updates.
        """
        if not learner.average:
            return ()
        share = 1.0 / jnp.minimum(learner.updates + 1, self.settings.average)
        return jax.tree.map(lambda mean, now: mean + share * (now - mean), learner.average, online)

    def with_spread(self, networks: Any, spread: Array) -> Any:
        """Return the networks with covariances converted from units of `spread` to units of the features.

        Args:
            networks: The networks.
            spread: Typical standard deviations (d,) of the features' returns.
        """
        if self.law.kind is not LawKind.MEAN_LOW_RANK:  # other kinds learn in units of features
            return networks
        return self.law.in_units(networks, jnp.ones_like(spread), spread)

    def target_of(self, learner: Learner, batch: Windows, w: Array, risk: Risk | Array, spread: Array) -> Target:
        """Return the targets of a batch.

        Args:
            learner: The learner.
            batch: B windows.
            w: The weights (K, d) of each policy's task.
            risk: The risk of all policies, or the beta (K,) of each.
            spread: Typical standard deviations (d,) of the features' returns.
        """
        (size, n), gamma = batch.follows.shape, self.settings.gamma
        choosing = self.with_spread(learner.chooser or learner.online, spread)
        x_next = batch.next_obs.reshape(size * n, -1)
        target = learner.target or learner.online
        scores = self.bootstrap_scores(choosing, x_next, w, risk)
        action = jnp.argmax(scores, axis=-1)
        if n == 1:
            following = self._outputs_of(target, x_next, action)
            return Target(batch.phi[:, 0], gamma * batch.not_terminated[:, 0], following, self.longest(x_next))
        of_steps = scores.reshape(self.policies, size, n, -1)[:, :, :-1]
        taken = jnp.take_along_axis(of_steps, batch.action[None, :, 1:, None], axis=-1)[..., 0]
        best, worst = of_steps.max(axis=-1), of_steps.min(axis=-1)
        # best - worst is averaged over steps inside windows only, because rows after the end of a window are arbitrary
        decided = batch.follows[:, 1:] / jnp.maximum(jnp.sum(batch.follows[:, 1:]), 1.0)
        slack = _NEARLY * jnp.sum(decided * (best - worst), axis=(1, 2), keepdims=True)
        continues = jnp.cumprod((taken >= best - slack) * batch.follows[:, 1:], axis=-1)  # (K, B, n - 1)
        last, rows = jnp.sum(continues, axis=-1).astype(int), jnp.arange(size)  # index (K, B) of each sum's last step
        powers = gamma ** jnp.arange(n)
        sums, discounts = jnp.cumsum(powers[:, None] * batch.phi, axis=1), gamma * powers * batch.not_terminated
        action = jnp.take_along_axis(action.reshape(self.policies, size, n), last[..., None], axis=-1)[..., 0]
        x_last = batch.next_obs[rows, last]
        following = self._outputs_of(target, x_last, action)
        return Target(sums[rows, last], discounts[rows, last], following, self.longest(x_last))

    def longest(self, x: Array) -> Array:
        """Return the sum (..) of gamma^t over the steps left in the episode, for network inputs x (.., n)."""
        whole = self.summed()
        if self.clock is not None:
            return whole * self.clock.share(x)
        return jnp.full(x.shape[:-1], whole)

    def bootstrap_scores(self, networks: Networks, x: Array, w: Array, risk: Risk | Array) -> Array:
        """Return the scores (K, B, A) by which policies choose a' at inputs x. Arguments are as for `own_scores`."""
        return self.own_scores(networks, x, w, risk)

    def with_time(self, obs: Array, age: Array) -> Array:
        """Return the inputs (.., n) of networks for observations (.., m) after `age` (..) steps of their episodes."""
        return obs if self.clock is None else self.clock.beside(obs, age)

    def summed(self, power: int = 1) -> float:
        """Return the sum of gamma^(power t) over the steps t of an episode, or over all t for continuing returns."""
        discount = self.settings.gamma**power
        if discount == 1:
            return float(self.limit)
        return (1 - discount**self.limit if self.limit else 1.0) / (1 - discount)

    def weights_for_all(self, w: Array) -> Array:
        """Return the weights w (d,) repeated for every policy, (K, d)."""
        return jnp.broadcast_to(jnp.asarray(w), (self.policies, len(w)))

    def see(self, obs: Array, task_input: Array) -> Array:
        """Return the inputs of the networks for observations (B, n). Agents of `rasf_lab` append `task_input` (c,)."""
        return obs

    def _outputs(self, task_heads: TaskHeads, x: Array) -> Parts:
        """Return outputs (K, B, A, H, M) of every part."""
        return self.at_time(self._read(task_heads.networks, x, self.law.task_shapes(task_heads)), x)

    def _read(self, networks: Networks, x: Array, shapes: tuple[Heads, ...]) -> Parts:
        """Return outputs (K, B, A, H, M) of every part, before the time left is taken into account.

        Args:
            networks: The networks of every part.
            x: Inputs (B, n), or (K, B, n) if each policy has its own.
            shapes: The shape of the outputs of every part.
        """
        pairs = zip(networks, shapes, strict=True)
        return tuple(read_heads(one.heads, encode(one, x, self.activation), shape) for one, shape in pairs)

    def _outputs_of(self, networks: Networks, x: Array, action: Array) -> Parts:
        """Return the outputs (K, B, H, M) of every part at inputs x, for the actions (K, B)."""
        pairs = zip(networks, self.law.shapes(), strict=True)
        found = tuple(read_action(one.heads, encode(one, x, self.activation), action, shape) for one, shape in pairs)
        return self.at_time(found, x)

    def at_time(self, outputs: Parts, x: Array) -> Parts:
        """Return the outputs, adjusted to the time left, which is encoded in the inputs x."""
        return outputs if self.clock is None else self.law.at_time(outputs, self.clock.share(x))
