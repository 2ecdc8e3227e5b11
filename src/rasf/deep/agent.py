"""One deep agent for the whole family: a law, K networks or one that sees the task, a risk to act and to bootstrap by.

For each transition (s, a, phi, s') and each policy k (Algorithm 2):

    a'_k = argmax_b risk[law_k(s', b) . w_k]          chosen by the online networks
    law_k(s, a)  <-  phi + gamma law_k(s', a'_k)      evaluated by the target networks

The names of the paper are settings of it:

    SFC51, RaSFC51     histograms of d features, one network a training task
    SFDQN              a point in place of the histograms; with the covariance of residuals, SFDQN-residual
    C51, RaC51         one histogram of the reward (phi = r, w = 1), one network that sees the target

and risk-neutral is beta = 0. Everything here is pure and unbatched over seeds: vmap it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import optax

from rasf.agents import AGENTS, Family, LawKind
from rasf.arrays import Array
from rasf.checks import one_of
from rasf.deep.categorical import support
from rasf.deep.laws import Histogram, Law, MeanCovariance, MeanOnly, Networks, Parts, TaskHeads
from rasf.deep.networks import encode, init_network, read_action, read_heads
from rasf.risk import MeanVariance, Risk

DEEP_AGENTS = tuple(name for name, spec in AGENTS.items() if spec.family is Family.NETWORKS)
LAWS = (LawKind.HISTOGRAM, LawKind.MEAN, LawKind.MEAN_COVARIANCE)
BOOTSTRAPS = ("own", "gpi")
_WHOLE, _REAL = ("widths", "atoms", "batch", "target_period"), ("gamma", "learning_rate", "epsilon")


def check_size(name: str, size: Any) -> None:
    """Refuse what is not a positive whole number."""
    if not _is_a(Integral, size) or size < 1:
        raise ValueError(f"{name} must be a positive whole number, got {size!r}")


def _is_a(kind: type, value: Any) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


@dataclass(frozen=True)
class AgentSettings:
    """What distinguishes one agent from another; the defaults are the paper's RaSFC51.

    conditioned: one network learns the law of the reward and sees the task's input, in place of K networks that learn
    the laws of the features. bounds: the support of such a network's histogram. relabel: it learns every transition for
    all training tasks, not only for the one that was active. bootstrap: a' from the policy itself, or by GPI over all.
    target_period: steps between copies to the target networks; 0 for none. risk: takes beta.
    """

    law: str = "histogram"
    conditioned: bool = False
    atoms: int = 51
    widths: tuple[int, ...] = (256, 256)
    gamma: float = 0.9
    bounds: tuple[float, float] = (-30.0, 10.0)
    relabel: bool = False
    bootstrap: str = "own"
    target_period: int = 1_000
    learning_rate: float = 1e-3
    batch: int = 32
    epsilon: float = 0.1
    risk: Callable[[Array], Risk] = MeanVariance

    def __post_init__(self) -> None:
        for name, accepted in (("law", LAWS), ("bootstrap", BOOTSTRAPS)):
            if getattr(self, name) not in accepted:
                raise ValueError(f"{name} must be one of {', '.join(accepted)}, got {getattr(self, name)!r}")
        for name in _WHOLE + _REAL:
            value, kind = getattr(self, name), Integral if name in _WHOLE else Real
            several = isinstance(value, tuple)
            if several != (name == "widths") or not all(_is_a(kind, one) for one in (value if several else (value,))):
                wanted = "numbers, or sizes such as widths=(64, 64), and whole where they count"
                raise ValueError(f"settings must be {wanted}, got {name}={value!r}")
        if not callable(self.risk):
            raise ValueError(f"risk must be something that takes beta, such as MeanVariance, got {self.risk!r}")
        if self.conditioned and self.law == "residual":
            raise ValueError("law 'residual' is for successor features, not for a conditioned network")
        if self.relabel and not self.conditioned:
            raise ValueError("relabel is for conditioned networks; the others learn every transition for all tasks")
        if not 0 <= self.gamma < 1:
            raise ValueError(f"gamma must be in [0, 1), got {self.gamma}")
        if not 0 <= self.epsilon <= 1:
            raise ValueError(f"epsilon must be in [0, 1], got {self.epsilon}")
        if not self.widths or min(self.widths) < 1 or self.batch < 1 or self.target_period < 0:
            raise ValueError("widths and batch must be positive, and target_period not negative")
        if self.atoms < 2:
            raise ValueError(f"atoms must be at least 2, got {self.atoms}")
        if not -math.inf < self.bounds[0] < self.bounds[1] < math.inf:
            raise ValueError(f"bounds must be finite, low below high, got {self.bounds}")
        if not 0 <= self.learning_rate < math.inf:
            raise ValueError(f"learning_rate must be finite and not negative, got {self.learning_rate}")


def preset(name: str, **changes: Any) -> AgentSettings:
    """The settings of one of the paper's agents that learn by networks, with changes."""
    one_of("agent", name, DEEP_AGENTS)
    return replace(AgentSettings(**AGENTS[name].constants), **changes)


class Tasks(NamedTuple):
    """Weights (T, d) of the tasks, and what a conditioned network sees of them (T, c)."""

    weights: Array
    inputs: Array


class Batch(NamedTuple):
    """B transitions; `not_terminated` is 0 where the episode terminated (not where it was cut), `task` the active one."""

    obs: Array
    action: Array
    phi: Array
    next_obs: Array
    not_terminated: Array
    task: Array


class Learner(NamedTuple):
    """What training changes."""

    online: Networks
    target: Networks
    optimiser: Any


@dataclass(frozen=True)
class Agent:
    """Settings together with the sizes of a world; hashable, so that compiled code can depend on it."""

    settings: AgentSettings
    law: Law
    policies: int
    inputs: int
    actions: int
    active: int

    @classmethod
    def create(
        cls,
        settings: AgentSettings,
        observation_size: int,
        n_actions: int,
        feature_bounds: npt.ArrayLike,
        training: Tasks,
    ) -> Agent:
        """The agent for a world with these sizes and these training tasks."""
        check_size("observation_size", observation_size)
        check_size("n_actions", n_actions)
        weights, seen = np.asarray(training.weights), np.shape(training.inputs)
        if weights.ndim != 2 or not weights.size or seen[:-1] != weights.shape[:1] or not np.isfinite(weights).all():
            found = f"got weights {weights.tolist()} and inputs of shape {seen}"
            raise ValueError(f"training must have finite weights (T, d) and inputs (T, c), {found}")
        n_tasks, d = weights.shape
        if settings.conditioned:
            policies, features, bounds, inputs = 1, 1, None, observation_size + seen[1]
        else:
            policies, features, bounds, inputs = n_tasks, d, np.asarray(feature_bounds, float), observation_size
        if bounds is not None and bounds.shape != (d, 2):
            raise ValueError(f"feature_bounds must have shape ({d}, 2), got {bounds.shape}")
        law: Law
        if settings.law == "histogram":
            if bounds is None:
                atoms = np.linspace(*settings.bounds, settings.atoms)[None]
            else:
                atoms = support(bounds, settings.gamma, settings.atoms)
            law = Histogram(tuple(map(tuple, atoms.tolist())))
        else:
            law = MeanOnly(features) if settings.law == "point" else MeanCovariance(features)
        return cls(settings, law, policies, inputs, n_actions, features).weighing(weights)

    def weighing(self, weights: npt.ArrayLike) -> Agent:
        """The same agent, prepared to score tasks with these weights (n, d): it reads only the features they weigh."""
        if self.settings.conditioned:
            return self
        return replace(self, active=max(1, int(np.count_nonzero(weights, axis=-1).max())))

    @property
    def optimiser(self) -> optax.GradientTransformation:
        """Adam, as the paper uses it."""
        return optax.adam(self.settings.learning_rate)

    def init(self, key: Array) -> Learner:
        """A learner with random networks."""
        shapes = self.law.shapes()
        online = tuple(
            init_network(one, self.policies, self.inputs, self.settings.widths, self.actions, shape)
            for one, shape in zip(jax.random.split(key, len(shapes)), shapes, strict=True)
        )
        return Learner(online, self._target_of(online), self.optimiser.init(online))

    def copy_target(self, learner: Learner) -> Learner:
        """The learner with its target networks brought up to date."""
        return learner._replace(target=self._target_of(learner.online))

    def _target_of(self, online: Networks) -> Networks:
        return jax.tree.map(jnp.copy, online) if self.settings.target_period else ()

    def task_heads(self, networks: Networks, w: Array) -> TaskHeads:
        """What scoring every policy on the task w (d,) needs."""
        return self.law.select(networks, self._weights_for_all(w), self.active)

    def scores(self, task_heads: TaskHeads, obs: Array, task_input: Array, risk: Risk) -> Array:
        """GPE: scores (K, B, A) of observations (B, n) on the task_heads's task, which a conditioned network sees."""
        return self.law.scores(self._outputs_seen(task_heads, obs, task_input), task_heads, risk)

    def moments(self, task_heads: TaskHeads, obs: Array, task_input: Array) -> tuple[Array, Array]:
        """Mean and variance (K, B, A) of the return on the task_heads's task."""
        return self.law.moments(self._outputs_seen(task_heads, obs, task_input), task_heads)

    def _outputs_seen(self, task_heads: TaskHeads, obs: Array, task_input: Array) -> Parts:
        return self._outputs(task_heads.networks, self._see(obs, task_input), self.active)

    def update(self, learner: Learner, batch: Batch, tasks: Tasks, risk: Risk) -> tuple[Learner, Array, Array]:
        """One step of Adam on a batch; also its loss, and the mass (2,) clipped at the ends of the support."""
        if self.settings.relabel:
            batch = _for_every_task(batch, len(tasks.weights))
        tasks = Tasks(jnp.asarray(tasks.weights), jnp.asarray(tasks.inputs))
        task_input = tasks.inputs[batch.task]
        x, x_next = self._see(batch.obs, task_input), self._see(batch.next_obs, task_input)
        phi, w = batch.phi, tasks.weights
        if self.settings.conditioned:
            phi, w = jnp.sum(phi * w[batch.task], axis=-1, keepdims=True), jnp.ones((1, 1))
        next_action = jnp.argmax(self._bootstrap_scores(learner.online, x_next, w, risk), axis=-1)
        following = self._outputs_of(learner.target or learner.online, x_next, next_action)
        discount = self.settings.gamma * batch.not_terminated
        action = jnp.broadcast_to(batch.action, next_action.shape)

        def loss(networks: Networks) -> tuple[Array, Array]:
            return self.law.loss(self._outputs_of(networks, x, action), following, phi, discount)

        (value, clipped), gradient = jax.value_and_grad(loss, has_aux=True)(learner.online)
        steps, optimiser = self.optimiser.update(gradient, learner.optimiser)
        return Learner(optax.apply_updates(learner.online, steps), learner.target, optimiser), value, clipped

    def own_scores(self, networks: Networks, obs: Array, w: Array, risk: Risk) -> Array:
        """Scores (K, B, A) of each policy for its own weights w (K, d); obs (B, n), or (K, B, n) for each its own.

        A conditioned network has one policy, w = 1, and `obs` includes the task's input.
        """
        task_heads = self.law.select(networks, w, self.active)
        return self.law.scores(self._outputs(task_heads.networks, obs, self.active), task_heads, risk)

    def _bootstrap_scores(self, networks: Networks, x: Array, w: Array, risk: Risk) -> Array:
        """Scores (K, B, A) by which policy k chooses at the next state."""
        if self.settings.bootstrap == "own":
            return self.own_scores(networks, x, w, risk)
        by_all = jax.vmap(lambda own: self.own_scores(networks, x, self._weights_for_all(own), risk))
        return jnp.max(by_all(w), axis=1)

    def _weights_for_all(self, w: Array) -> Array:
        w = jnp.ones(1) if self.settings.conditioned else jnp.asarray(w)
        return jnp.broadcast_to(w, (self.policies, *w.shape))

    def _see(self, obs: Array, task_input: Array) -> Array:
        """What the networks see: the observation, and the task if they are conditioned on it."""
        if not self.settings.conditioned:
            return obs
        return jnp.concatenate([obs, jnp.broadcast_to(task_input, (len(obs), task_input.shape[-1]))], axis=-1)

    def _outputs(self, networks: Networks, x: Array, active: int | None = None) -> Parts:
        """Outputs (K, B, A, H, M) of every part of the networks, or of a task_heads's networks."""
        shapes = self.law.shapes(active)
        return tuple(read_heads(one.heads, encode(one, x), shape) for one, shape in zip(networks, shapes, strict=True))

    def _outputs_of(self, networks: Networks, x: Array, action: Array) -> Parts:
        """Outputs (K, B, H, M) of every part, of the actions (K, B)."""
        return tuple(
            read_action(one.heads, encode(one, x), action, shape)
            for one, shape in zip(networks, self.law.shapes(), strict=True)
        )


def _for_every_task(batch: Batch, tasks: int) -> Batch:
    """Every transition once for every task, as if that task had been active."""
    repeated: Batch = jax.tree.map(lambda part: jnp.repeat(part, tasks, axis=0), batch)
    return repeated._replace(task=jnp.tile(jnp.arange(tasks), len(batch.task)))
