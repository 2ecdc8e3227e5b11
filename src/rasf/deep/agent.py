"""One deep agent for the whole family: a law, K networks or one that sees the task, a risk to act and to bootstrap by.

For each transition (s, a, phi, s') and each policy k (Algorithm 2):

    a'_k = argmax_b risk[law_k(s', b) . w_k]          chosen by the online networks
    law_k(s, a)  <-  phi + gamma law_k(s', a'_k)      evaluated by the target networks

The names of the paper are settings of it:

    SFC51, RaSFC51     histograms of d features, one network per training task
    SFDQN              the mean in place of the histograms; with the covariance of residuals, SFDQN-residual
    C51, RaC51         one histogram of the reward (phi = r, w = 1), one network that sees the target

and risk-neutral is beta = 0. Everything here is pure and unbatched over seeds: vmap it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import optax

from rasf import checks
from rasf.agents import AGENTS, Family, LawKind
from rasf.arrays import Array, array_namespace
from rasf.deep.events import (
    EventModel,
    event_loss,
    event_optimiser,
    expected,
    given_of,
    init_event_network,
    layer_sizes,
)
from rasf.deep.laws import (
    Law,
    MeanDiagonal,
    MeanLogDiagonal,
    Networks,
    Parts,
    TaskHeads,
    Within,
    make_law,
    support_atoms,
)
from rasf.deep.networks import encode, init_network, read_action, read_heads
from rasf.deep.replay import Batch, row_size
from rasf.risk import MeanVariance, Risk
from rasf.transfer import gpi_actions

if TYPE_CHECKING:
    from rasf.deep.train import World

DEEP_AGENTS = tuple(name for name, spec in AGENTS.items() if spec.family is Family.NETWORKS)
LAWS = (
    LawKind.HISTOGRAM,
    LawKind.MEAN,
    LawKind.MEAN_COVARIANCE,
    LawKind.MEAN_VARIANCE,
    LawKind.MEAN_LOG_VARIANCE,
)
_SURPRISED = (LawKind.MEAN_VARIANCE, LawKind.MEAN_LOG_VARIANCE)  # those that say how far off each transition was
BOOTSTRAPS = ("own", "gpi")
_COUNTS = (("target_period", 0), ("average", 0), ("warmup", 0), ("replay", 0), ("n_step", 1), ("objects", 0))
_MOST_ATOMS = 100_000
_LAST_RATE = 0.02  # of the learning rate, where it decays
_Loss = Callable[..., tuple[Array, Array]]


@dataclass(frozen=True)
class AgentSettings:
    """What distinguishes one agent from another; the defaults are the paper's RaSFC51.

    conditioned: one network learns the law of the reward and sees the task's input, in place of K networks that learn
    the laws of the features. bounds: the support of such a network's histogram. relabel: it learns every transition for
    all training tasks, not only for the one that was active. bootstrap: a' from the policy itself, or by GPI over all.
    target_period: updates between copies to the target networks; 0 for none. separate_heads: the heads of each feature
    are initialised as a layer of their own. adam_epsilon: what Adam adds below the line. risk: takes beta.

    Beyond the paper:

        average        the acting networks are the mean over about the last so many updates; 0 for none
        corrected      histograms know how much of their variance is the projection's
        updates        for each step; 0.25 is one in four steps
        side_by_side   tasks are practised in turn from the beginning, in place of one after the other
        decay          the learning rate falls to a fiftieth by the end
        frequency      spread of the frequencies in a first layer of sines; 0 for tanh
        shared         the layers before the heads are those of all policies
        objects        how many numbers describe an object, where observations are rows, one for each object: the first
                       row is the agent's own, rows of zeros are empty; all others are seen alike, in whichever order
        exploration    share of training in which epsilon falls from 1 to what is given
        lasting        what is explored is done for n steps, n with a chance like 1/n^2, at most 1,000 (Dabney and
                       others, 2021), where Python steps; epsilon is then the chance to begin with it
        n_step         features are summed over so many steps before networks are asked, where Python steps
        warmup         random steps in an environment that is stepped from Python, by which all is then scaled
        replay         the most steps that are kept, where Python steps; 0 for all
        events         features never negative and mostly zero, of which the law "log-moments" learns logarithms
        settle         share of training, at its end, in which policies stay as they are and only laws are learned
        surprise       share of a batch drawn by how wrong the networks were about it, where Python steps
        expected_events
                       laws learn from what events come to on average, given the rest of a transition
    """

    law: LawKind = LawKind.HISTOGRAM
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
    separate_heads: bool = False
    adam_epsilon: float = 1e-8
    average: int = 0
    corrected: bool = False
    updates: float = 1.0
    side_by_side: bool = False
    decay: bool = False
    frequency: float = 0.0
    shared: bool = False
    objects: int = 0
    exploration: float = 0.0
    lasting: bool = False
    n_step: int = 1
    warmup: int = 0
    replay: int = 0
    events: tuple[int, ...] = ()
    settle: float = 0.0
    surprise: float = 0.0
    expected_events: bool = False
    risk: Callable[[Array], Risk] = MeanVariance

    def __post_init__(self) -> None:
        checks.one_of("law", self.law, LAWS)
        object.__setattr__(self, "law", LawKind(self.law))  # its plain word is as good
        checks.one_of("bootstrap", self.bootstrap, BOOTSTRAPS)
        if not isinstance(self.widths, tuple) or not self.widths:
            raise ValueError(f"widths must be sizes of layers such as widths=(64, 64), got {self.widths!r}")
        for width in self.widths:
            checks.whole("widths", width)
        for name, least in (("atoms", 2), ("batch", 1), *_COUNTS):
            checks.whole(name, getattr(self, name), least)
        if self.atoms > _MOST_ATOMS:
            raise ValueError(f"atoms must be at most {_MOST_ATOMS:,}, got {self.atoms}")
        of_any_size = ("learning_rate", "adam_epsilon", "frequency")
        for name, most in (
            ("gamma", 1.0),
            ("epsilon", 1.0),
            ("exploration", 1.0),
            ("settle", 1.0),
            ("surprise", 1.0),
            *((name, np.inf) for name in of_any_size),
        ):
            checks.number(name, getattr(self, name), 0.0, most)
        if checks.number("updates", self.updates, 0.0, 1_000.0) == 0:
            raise ValueError("updates must be above 0, such as 0.25 for one in four steps, got 0")
        if self.gamma == 1:
            raise ValueError("gamma must be below 1 for the returns of networks, got 1")
        checks.bounds("bounds", [self.bounds], 1)
        if not callable(self.risk):
            raise ValueError(f"risk must be something that takes beta, such as MeanVariance, got {self.risk!r}")
        if self.conditioned and self.law is LawKind.MEAN_COVARIANCE:
            raise ValueError(f"law {self.law.value!r} is for successor features, not for a conditioned network")
        if not isinstance(self.events, tuple) or len(set(self.events)) < len(self.events):
            raise ValueError(f"events must be different features such as events=(2,), got {self.events!r}")
        for event in self.events:
            checks.whole("events", event, 0)
        if self.events and self.law is not LawKind.MEAN_LOG_VARIANCE:
            raise ValueError(f"events are for the law {LawKind.MEAN_LOG_VARIANCE.value!r}, not for {self.law.value!r}")
        if self.expected_events and not self.events:
            law = LawKind.MEAN_LOG_VARIANCE.value
            raise ValueError(f"expected_events is for the law {law!r} with events such as events=(2,), got none")
        if self.surprise and (self.conditioned or self.law not in _SURPRISED):
            laws = " and ".join(repr(law.value) for law in _SURPRISED)
            raise ValueError(f"surprise is for the laws {laws} of features, not for {self.law.value!r}")
        for name in ("frequency", "conditioned", "expected_events"):
            if self.objects and getattr(self, name):
                raise ValueError(f"objects cannot go with {name}, got {getattr(self, name)!r}")
        if not isinstance(self.lasting, bool):
            raise ValueError(f"lasting must be True or False, got {self.lasting!r}")
        if self.relabel and not self.conditioned:
            raise ValueError("relabel is for conditioned networks; the others learn every transition for all tasks")


def preset(name: str, **changes: Any) -> AgentSettings:
    """The settings of one of the paper's agents that learn by networks, with changes."""
    checks.one_of("agent", name, DEEP_AGENTS)
    spec = AGENTS[name]
    law = LawKind.HISTOGRAM if spec.law is LawKind.REWARD else spec.law
    return replace(AgentSettings(law, **spec.constants), **changes)


class Tasks(NamedTuple):
    """Weights (T, d) of the tasks, and what a conditioned network sees of them (T, c)."""

    weights: Array
    inputs: Array


class Policies(NamedTuple):
    """What each of K policies learns for: weights (K, d), and the beta (K,) of its risk."""

    weights: Array
    beta: Array


class Learner(NamedTuple):
    """What training changes.

    chooser: the networks that choose a', where policies settle; else those online do. events: where they are expected.
    """

    online: Networks
    target: Networks
    optimiser: optax.OptState
    average: Networks = ()
    chooser: Networks = ()
    events: EventModel | tuple[()] = ()


@dataclass(frozen=True)
class Agent:
    """Settings together with the sizes of a world; hashable, so that compiled code can depend on it.

    active_features: the most features that a task weighs, which is how many heads are read to score histograms.
    planned: how many updates training will take, where it is known.
    """

    settings: AgentSettings
    law: Law
    policies: int
    inputs: int
    actions: int
    active_features: int
    planned: int = 0

    @classmethod
    def create(
        cls,
        settings: AgentSettings,
        observation_size: int,
        n_actions: int,
        training: Tasks,
        atoms: Array | None = None,
        policies: int | None = None,
        planned: int = 0,
    ) -> Agent:
        """The agent for a world with these sizes and these training tasks.

        atoms: (d, N), of histograms; a conditioned network has its own, from the settings' bounds. policies: how many
        there are, one for each task by default. planned: updates that training will take, for what changes meanwhile.
        """
        observation_size = checks.whole("observation_size", observation_size)
        weights, seen = checks.task_weights("weights of training", training.weights), np.shape(training.inputs)
        (n_tasks, d), inputs = weights.shape, observation_size
        policies = n_tasks if policies is None else checks.whole("policies", policies)
        if len(seen) != 2 or seen[0] != n_tasks:
            raise ValueError(f"inputs of training must have shape ({n_tasks}, c), one row per task, got {seen}")
        if settings.conditioned:
            d, policies, inputs = 1, 1, observation_size + seen[1]
            atoms = support_atoms([settings.bounds], 0.0, settings.atoms)
        wanted, given = (d, settings.atoms), () if atoms is None else np.shape(atoms)
        if given != wanted and (given or settings.law is LawKind.HISTOGRAM):
            raise ValueError(f"atoms must have shape {wanted} for these tasks and settings, got {given}")
        if any(event >= d for event in settings.events):
            raise ValueError(f"events must be features from 0 to {d - 1}, got {settings.events}")
        if settings.objects and observation_size % settings.objects:
            raise ValueError(
                f"objects must divide the {observation_size} numbers of an observation, got {settings.objects}"
            )
        law = make_law(settings.law, d, atoms, settings.corrected, settings.events)
        sizes = (policies, inputs, checks.whole("n_actions", n_actions), d, checks.whole("planned", planned, 0))
        return cls(settings, law, *sizes).for_weights(weights)

    @classmethod
    def for_world(cls, settings: AgentSettings, world: World, training: Tasks) -> Agent:
        """The agent for a world that declares its sizes and the bounds of its features."""
        atoms = support_atoms(world.feature_bounds, settings.gamma, settings.atoms)
        return cls.create(settings, world.observation_size, world.n_actions, training, atoms)

    def for_weights(self, weights: npt.ArrayLike) -> Agent:
        """The same agent, prepared to score tasks with these weights (.., d): it reads only the features they weigh."""
        if self.settings.conditioned:
            return self
        return replace(self, active_features=max(1, int(np.count_nonzero(weights, axis=-1).max())))

    def updates_for(self, steps: int) -> int:
        """The updates that a round of so many steps brings: a whole number."""
        updates = self.settings.updates * steps
        if updates < 1 or updates != round(updates):
            raise ValueError(f"updates must come to a whole number in a round of {steps} steps, got {updates:g}")
        return round(updates)

    @property
    def optimiser(self) -> optax.GradientTransformation:
        """Adam, as the paper uses it, unless the learning rate decays over what is planned."""
        return optax.adam(self._rate, eps=self.settings.adam_epsilon)

    @property
    def _event_optimiser(self) -> optax.GradientTransformation:
        return event_optimiser(self._rate, self.settings.adam_epsilon, self.inputs)

    @property
    def _rate(self) -> float | optax.Schedule:
        rate, decays = self.settings.learning_rate, self.settings.decay and self.planned
        return optax.linear_schedule(rate, _LAST_RATE * rate, self.planned) if decays else rate

    def epsilon_at(self, step: Array) -> Array:
        """How often to explore after so many steps of all environments, in numpy or jax."""
        xp, chosen = array_namespace(step), self.settings
        falling = chosen.exploration * self.planned / chosen.updates  # steps
        if not falling:
            return xp.asarray(chosen.epsilon)
        return xp.maximum(chosen.epsilon, 1.0 - (1.0 - chosen.epsilon) * step / falling)

    def memory_needed(self, transitions: int, observation_size: int, features: int, item: int = 4) -> float:
        """Bytes, about: networks with what trains them, a batch's outputs and slopes, a replay of so many steps.

        item: bytes of each number of an observation in the replay.
        """
        chosen = self.settings
        sizes, shapes = (2 * chosen.objects or self.inputs, *chosen.widths), self.law.shapes()
        hidden = sum((n + 1) * m for n, m in itertools.pairwise(sizes))
        heads = [self.actions * shape.size for shape in shapes]
        several = 1 if chosen.shared else self.policies
        numbers = sum(several * hidden + self.policies * (sizes[-1] + 1) * columns for columns in heads)
        # online, its slope, Adam's two, and what else is switched on
        copies = 4 + sum(map(bool, (chosen.target_period, chosen.average, chosen.settle)))
        listed = self.inputs // chosen.objects if chosen.objects else 1
        outputs = 3.0 * chosen.batch * self.policies * sum(listed * sum(sizes) + columns for columns in heads)
        if chosen.law is LawKind.HISTOGRAM:  # a projection's matrix for every transition and feature
            outputs += 3.0 * chosen.batch * self.law.features * chosen.atoms**2
        if chosen.expected_events:
            sizes = (*layer_sizes(self.inputs, self.actions), 2 * len(chosen.events))
            numbers += sum((n + 1) * m for n, m in itertools.pairwise(sizes))
            outputs += 3.0 * chosen.batch * sum(sizes)
        row = 4.0 * row_size(observation_size, features) + 2.0 * (item - 4) * observation_size
        return 4.0 * (copies * numbers + outputs) + transitions * row

    def init(self, key: Array) -> Learner:
        """A learner with random networks."""
        shapes, chosen = self.law.shapes(), self.settings
        sizes = (self.policies, self.inputs, chosen.widths, self.actions)
        more = {name: getattr(chosen, name) for name in ("separate_heads", "frequency", "shared", "objects")}
        online = tuple(
            init_network(one, *sizes, shape, **more)
            for one, shape in zip(jax.random.split(key, len(shapes)), shapes, strict=True)
        )
        average, chooser = (jax.tree.map(jnp.copy, online) if more else () for more in (chosen.average, self._settling))
        learner = Learner(online, (), self.optimiser.init(online), average, chooser, self._init_events(key))
        return self.copy_target(learner)

    def _init_events(self, key: Array) -> EventModel | tuple[()]:
        chosen = self.settings
        if not chosen.expected_events:
            return ()
        sizes = (self.inputs, self.actions, len(chosen.events))
        # a key that no part of the law has
        network = init_event_network(jax.random.fold_in(key, len(self.law.shapes())), *sizes, chosen.frequency)
        average = jax.tree.map(jnp.copy, network) if chosen.average else ()
        return EventModel(network, self._event_optimiser.init(network), average)

    @property
    def _settling(self) -> int:
        """After how many updates policies settle; 0 for never."""
        return max(1, round((1 - self.settings.settle) * self.planned)) if self.settings.settle and self.planned else 0

    def acting(self, learner: Learner) -> Networks:
        """The networks to act by: the averaged ones, where there are any."""
        return learner.average or learner.online

    def copy_target(self, learner: Learner) -> Learner:
        """The learner with its target networks, where it has any, brought up to date."""
        copied = jax.tree.map(jnp.copy, learner.online) if self.settings.target_period else ()
        return learner._replace(target=copied)

    def task_heads(self, networks: Networks, w: Array) -> TaskHeads:
        """What scoring every policy on the task w (d,) needs."""
        return self.law.task_heads(networks, self._weights_for_all(w), self.active_features)

    def scores(self, task_heads: TaskHeads, obs: Array, task_input: Array, risk: Risk) -> Array:
        """GPE: scores (K, B, A) of observations (B, n) on the task of `task_heads`; a conditioned network sees it."""
        return self.law.scores(self._outputs(task_heads, self._see(obs, task_input)), task_heads, risk)

    def moments(self, task_heads: TaskHeads, obs: Array, task_input: Array) -> tuple[Array, Array]:
        """Mean and variance (K, B, A) of the return on the task of `task_heads`."""
        return self.law.moments(self._outputs(task_heads, self._see(obs, task_input)), task_heads)

    def own_scores(self, networks: Networks, obs: Array, w: Array, risk: Risk | Array) -> Array:
        """Scores (K, B, A) of each policy for its own weights w (K, d); obs (B, n), or (K, B, n) for each its own.

        risk: one for all, or betas (K,), for each its own. A conditioned network has one policy, w = 1, and `obs`
        includes the task's input.
        """
        task_heads = self.law.task_heads(networks, w, self.active_features)
        outputs = self._outputs(task_heads, obs)
        if isinstance(risk, Risk):
            return self.law.scores(outputs, task_heads, risk)
        return self.law.scores_by_each(outputs, task_heads, self.settings.risk, risk)

    def update(
        self, learner: Learner, batch: Batch, tasks: Tasks, risk: Risk | Policies, within: Within | None = None
    ) -> tuple[Learner, Array, Array]:
        """One step of Adam on a batch; also its loss, and the mass (2,) clipped at the ends of the support.

        Policy k learns for task k at the one risk, or for what `Policies` say. within: of laws by logarithms, what
        returns can come to.
        """
        return self._update(learner, batch, tasks, risk, self._kept_within(within, self.law.loss))

    def _kept_within(self, within: Within | None, loss: _Loss) -> _Loss:
        """A loss that knows the bounds, where its law can run away and is of the features that these are for."""
        can_run_away = isinstance(self.law, MeanLogDiagonal) and not self.settings.conditioned
        return partial(loss, within=within) if within is not None and can_run_away else loss

    def weighted_update(
        self,
        learner: Learner,
        batch: Batch,
        tasks: Tasks,
        risk: Risk | Policies,
        weight: Array,
        within: Within | None = None,
    ) -> tuple[Learner, Array, Array]:
        """`update` where transitions count by a weight (B,); also the loss, and how surprising each was (B,)."""
        assert isinstance(self.law, MeanDiagonal)  # settings with any other were refused
        each_loss = self._kept_within(within, self.law.each_loss)

        def loss(*given: Any) -> tuple[Array, Array]:
            each, surprise = each_loss(*given)
            return jnp.mean(weight * each), surprise

        return self._update(learner, batch, tasks, risk, loss, weight)

    def _update(
        self,
        learner: Learner,
        batch: Batch,
        tasks: Tasks,
        risk: Risk | Policies,
        law_loss: _Loss,
        weight: Array | float = 1.0,
    ) -> tuple[Learner, Array, Array]:
        if self.settings.relabel:
            batch = _for_every_task(batch, len(tasks.weights))
        tasks = Tasks(jnp.asarray(tasks.weights), jnp.asarray(tasks.inputs))
        task_input = tasks.inputs[batch.task]
        x, x_next = self._see(batch.obs, task_input), self._see(batch.next_obs, task_input)
        phi, (w, by) = batch.phi, risk if isinstance(risk, Policies) else (tasks.weights, risk)
        if self.settings.conditioned:
            phi, w = jnp.sum(phi * tasks.weights[batch.task], axis=-1, keepdims=True), jnp.ones((1, 1))
        next_action = self._bootstrap_actions(learner.chooser or learner.online, x_next, w, by)
        following = self._outputs_of(learner.target or learner.online, x_next, next_action)
        discount = self.settings.gamma * batch.not_terminated
        action = jnp.broadcast_to(batch.action, next_action.shape)
        learned_from, events = [following, phi, discount], learner.events
        if events:
            given = given_of(x, batch.action, x_next, batch.not_terminated, self.actions)
            learned_from.append(expected(events.average or events.network, given, phi, self.settings.events))
            events = self._learn_events(events, given, phi[:, list(self.settings.events)], weight)

        def loss(networks: Networks) -> tuple[Array, Array]:
            return law_loss(self._outputs_of(networks, x, action), *learned_from)

        (value, seen), gradient = jax.value_and_grad(loss, has_aux=True)(learner.online)
        steps, optimiser = self.optimiser.update(gradient, learner.optimiser)
        online = optax.apply_updates(learner.online, steps)
        average, chooser, done = learner.average, learner.chooser, optimiser[0].count
        if average:
            average = self._averaged(average, online, done)
        if chooser:
            # in the end those who choose are the ones who would act, and stay what they are
            now = jax.lax.cond(done < self._settling, lambda: online, lambda: average or online)
            chooser = jax.lax.cond(done <= self._settling, lambda: now, lambda: chooser)
        return Learner(online, learner.target, optimiser, average, chooser, events), value, seen

    def _learn_events(self, events: EventModel, given: Array, came: Array, weight: Array | float) -> EventModel:
        """One step of Adam on the events (B, E) that came, whose transitions count by a weight."""
        gradient = jax.grad(lambda network: jnp.mean(weight * event_loss(network, given, came)))(events.network)
        steps, optimiser = self._event_optimiser.update(gradient, events.optimiser, events.network)
        network = optax.apply_updates(events.network, steps)
        average = events.average and self._averaged(events.average, network, optimiser[0].count)
        return EventModel(network, optimiser, average)

    def _averaged(self, average: Any, new: Any, done: Array) -> Any:
        """The mean of weights over all `done` updates at first, later over about the last `average`."""
        share = 1.0 / jnp.minimum(done, self.settings.average)
        return jax.tree.map(lambda mean, now: mean + share * (now - mean), average, new)

    def _bootstrap_actions(self, networks: Networks, x: Array, w: Array, risk: Risk | Array) -> Array:
        """Actions (K, B) that policy k chooses at the next state, for its weights w (K, d) at its risk."""
        if self.settings.bootstrap == "own":
            return jnp.argmax(self.own_scores(networks, x, w, risk), axis=-1)

        def by_all(own: Array, own_risk: Risk | Array) -> Array:
            shared = own_risk if isinstance(own_risk, Risk) else self.settings.risk(own_risk)
            return gpi_actions(self.own_scores(networks, x, self._weights_for_all(own), shared))

        if isinstance(risk, Risk):
            return jax.vmap(lambda own: by_all(own, risk))(w)
        return jax.vmap(by_all)(w, risk)

    def _weights_for_all(self, w: Array) -> Array:
        w = jnp.ones(1) if self.settings.conditioned else jnp.asarray(w)
        return jnp.broadcast_to(w, (self.policies, *w.shape))

    def _see(self, obs: Array, task_input: Array) -> Array:
        """What the networks see: the observation, and the task if they are conditioned on it."""
        if not self.settings.conditioned:
            return obs
        return jnp.concatenate([obs, jnp.broadcast_to(task_input, (len(obs), task_input.shape[-1]))], axis=-1)

    def _outputs(self, task_heads: TaskHeads, x: Array) -> Parts:
        """Outputs (K, B, A, H, M) of every part."""
        pairs = zip(task_heads.networks, self.law.task_shapes(task_heads), strict=True)
        return tuple(read_heads(one.heads, encode(one, x), shape) for one, shape in pairs)

    def _outputs_of(self, networks: Networks, x: Array, action: Array) -> Parts:
        """Outputs (K, B, H, M) of every part, of the actions (K, B)."""
        pairs = zip(networks, self.law.shapes(), strict=True)
        return tuple(read_action(one.heads, encode(one, x), action, shape) for one, shape in pairs)


def _for_every_task(batch: Batch, tasks: int) -> Batch:
    """Every transition once for every task, as if that task had been active."""
    repeated: Batch = jax.tree.map(lambda part: jnp.repeat(part, tasks, axis=0), batch)
    return repeated._replace(task=jnp.tile(jnp.arange(tasks), len(batch.task)))
