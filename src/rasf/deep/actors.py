"""The deep agent for continuous actions: for every policy, an actor and the distribution of its feature return
(the discounted sum of the features).

For each transition (s, a, phi, s') and each policy k with weights w_k:

    critic    Z_k(s, a)  <-  phi + gamma Z_k(s', pi_k(s'))         by the target networks
    actor     pi_k(s)    moves up the gradient of  risk[Z_k(s, pi_k(s)) . w_k]

This is the deterministic policy gradient of TD3 (Fujimoto and others, 2018) with the risk of the return in place of its
mean. The networks of Z (`MeanLowRank`) have outputs for a single action, whose vector is among their inputs:

    inputs of a critic    action (P numbers in [-1, 1]), then the n inputs of an actor (observation and time left)

The actions of all K policies at a state are the candidates of GPI, called *proposals*. They take the place of numbered
actions, so that scores have shape (K, B, A) with A = K. Entry (i, b, j) is the score of policy i for the action that
policy j proposes at observation b. GPI over any finite set of actions that contains the action of every policy is never
worse than the best policy (docs/theory.md).

In an update, only C of the K policies learn (setting `policies_per_update`). A part is one of the networks that
together represent a return distribution (`rasf.deep.laws`). Other shapes are as in `rasf.deep.agent`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import optax

from rasf.arrays import Array, Floats, Ints, array_namespace
from rasf.deep.agent import Agent, Learner, Policies, Tasks
from rasf.deep.laws import Losses, Networks, Parts, TaskHeads, Transition, Within
from rasf.deep.low_rank import MeanLowRank
from rasf.deep.networks import Heads, Layer, Network, Sizes, choose_policies, encode, plain_outputs, read_heads
from rasf.deep.replay import Windows
from rasf.deep.settings import ActorSettings
from rasf.risk import Risk

_FIRST_ACTIONS = 0.01  # the initial last layer of an actor is multiplied by this, so that first actions are near 0
_SMOOTHING, _SMOOTHED = 0.1, 0.2  # standard deviation and bound of the noise that is added to actions in targets


class ActorCritic(NamedTuple):
    """Critics, which are the networks of the return distributions, and K actors."""

    critic: Networks
    actor: Network


class ActorHeads(NamedTuple):
    """The critics, reduced to the outputs that a task needs, and the K actors."""

    critic: TaskHeads
    actor: Network


def proposals(actor: Network, x: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return the actions (B, K, P) of K actors with inputs x (B, n), in numpy."""
    size = actor.heads.bias.shape[-1]
    return np.tanh(plain_outputs(actor, x, Heads(1, size))[:, :, 0, 0]).swapaxes(0, 1)


def rows_of(actions: Array, x: Array) -> Array:
    """Return inputs (B K, P + n) of critics for actions (B, K, P) of actors with inputs x (B, n), in numpy or jax."""
    xp, (size, policies, _) = array_namespace(actions, x), actions.shape
    beside = xp.broadcast_to(x[:, None], (size, policies, x.shape[-1]))
    return xp.concatenate([actions, beside], axis=-1).reshape(size * policies, -1)


def by_proposal(outputs: Parts, policies: int) -> Parts:
    """Reshape the outputs (K, B K, 1, H, M) at the rows of `rows_of` to (K, B, K, H, M), with proposals on axis 2."""
    return tuple(part.reshape(len(part), -1, policies, *part.shape[-2:]) for part in outputs)


@dataclass(frozen=True)
class ActorAgent(Agent):
    """The agent for actions that are vectors of `action_size` numbers in [-1, 1]; fields as in `Agent`."""

    @property
    def _chosen(self) -> ActorSettings:
        assert isinstance(self.settings, ActorSettings)
        return self.settings

    @property
    def gradient_step(self) -> optax.GradientTransformation:
        """The optimisers of the critics and the actors, which differ in their learning rates."""
        rates = {"critic": self._chosen.learning_rate, "actor": self._chosen.actor_learning_rate}
        each = {name: self.optimiser(self.falling(rate)) for name, rate in rates.items()}
        return optax.multi_transform(each, ActorCritic("critic", "actor"))  # type: ignore[arg-type]

    def memory_needed(self, transitions: int, observation_size: int, features: int, item: int = 4) -> float:
        """Return an estimate of the bytes that training needs; arguments as for `Agent`."""
        found = super().memory_needed(transitions, observation_size, features, item)
        widths, taught = sum(self._chosen.widths), min(self.policies, self._chosen.policies_per_update)
        # 4 bytes for every hidden unit and its gradient, in three critic networks and the actor, for a batch of actions
        return found + 4.0 * 2 * 4 * taught * self._chosen.batch * widths

    def init(self, key: Array) -> Learner:
        """Return a learner with random networks. It has no `chooser`, because actors themselves can be frozen."""
        return super().init(key)._replace(chooser=())

    def initial(self, key: Array) -> ActorCritic:
        """Return random networks, whose actions are near 0."""
        critic_key, actor_key = jax.random.split(key)
        critic = self._stacks(critic_key, self.action_size + self.inputs, 1)
        chosen = self._chosen
        sizes = Sizes(self.policies, self.inputs, chosen.widths, 1, shared=chosen.shared, frequency=chosen.frequency)
        actor = self.initialise(actor_key, sizes, Heads(1, self.action_size))
        heads = Layer(*(_FIRST_ACTIONS * part[..., : self.action_size] for part in actor.heads))
        return ActorCritic(critic, actor._replace(heads=heads))

    def choose(self, networks: ActorCritic, chosen: Ints) -> ActorCritic:
        return ActorCritic(super().choose(networks.critic, chosen), choose_policies(networks.actor, chosen))

    def random_actions(self, key: Array, n: int) -> tuple[Array, Array]:
        uniform, normal = jax.random.split(key)
        shape = n, self.action_size
        noise = self._chosen.noise * jax.random.normal(normal, shape)
        return jax.random.uniform(uniform, shape, minval=-1.0, maxval=1.0), noise

    def take(self, task_heads: ActorHeads, x: Array, chosen: Array, noise: Array) -> Array:
        return jnp.clip(self._actions(task_heads.actor, x[None])[chosen, 0] + noise, -1.0, 1.0)

    def plain_take(
        self, candidates: npt.NDArray[Any] | None, chosen: Ints, noise: npt.NDArray[Any]
    ) -> npt.NDArray[Any]:
        assert candidates is not None
        taken = candidates[np.arange(len(chosen)), chosen]
        return np.clip(taken + noise, -1.0, 1.0).astype(np.float32)

    def plain_heads(self, networks: ActorCritic, w: Floats) -> ActorHeads:
        return ActorHeads(self.law.plain_heads(networks.critic, w), networks.actor)

    def plain_outputs(
        self, heads: ActorHeads, x: npt.NDArray[np.float32]
    ) -> tuple[Parts, TaskHeads, npt.NDArray[np.float32] | None]:
        actions = proposals(heads.actor, x)
        rows, shapes = rows_of(actions, x), self.law.task_shapes(heads.critic)
        found = tuple(plain_outputs(one, rows, shape) for one, shape in zip(heads.critic.networks, shapes, strict=True))
        return self.at_time(by_proposal(found, self.policies), x), heads.critic, actions

    def task_heads(self, networks: ActorCritic, w: Array) -> ActorHeads:
        return ActorHeads(super().task_heads(networks.critic, w), networks.actor)

    def scores(self, task_heads: ActorHeads, obs: Array, task_input: Array, risk: Risk) -> Array:
        outputs = self._of_proposals(task_heads, self.see(obs, task_input))
        return self.law.scores(outputs, task_heads.critic, risk)

    def moments(self, task_heads: ActorHeads, obs: Array, task_input: Array) -> tuple[Array, Array]:
        outputs = self._of_proposals(task_heads, self.see(obs, task_input))
        return self.law.moments(outputs, task_heads.critic)

    def with_spread(self, networks: ActorCritic, spread: Array) -> ActorCritic:
        return networks._replace(critic=super().with_spread(networks.critic, spread))

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
        """Take one gradient step of the critics and the actors of some policies; arguments as for `Agent`."""
        taught = min(self.policies, self._chosen.policies_per_update)
        chosen = (learner.updates * taught + jnp.arange(taught)) % self.policies
        w, risk = (jnp.asarray(by.weights), by.beta[chosen]) if isinstance(by, Policies) else (tasks.weights, by)
        w, spread = w[chosen], jnp.broadcast_to(spread, batch.phi.shape[-1:])
        x, x_next = batch.obs, batch.next_obs[:, 0]
        frozen = learner.updates >= self._freeze_after if self._freeze_after else jnp.zeros((), bool)
        target = self.choose(learner.target or learner.online, chosen)
        last = choose_policies(self.acting(learner).actor, chosen)
        actor = jax.tree.map(lambda one, other: jnp.where(frozen, one, other), last, target.actor)

        discount = self._chosen.gamma * batch.not_terminated[:, 0]
        following = self._outputs_at(
            target.critic, self._smoothed(self._actions(actor, x_next), learner.updates), x_next
        )
        bounds = within.bounds(self.longest(x)), within.bounds(self.longest(x_next))
        given = Transition(batch.phi[:, 0], discount, *bounds, w, spread, frozen)

        def loss(networks: ActorCritic) -> tuple[Array, Losses]:
            some = self.choose(networks, chosen)
            found = self.law.losses(self._outputs_at(some.critic, batch.action[:, 0], x), following, given)
            each = weight * found.each
            return jnp.mean(each) + self._actor_loss(some, x, w, risk, spread), found._replace(each=each)

        (_, found), gradient = jax.value_and_grad(loss, has_aux=True)(learner.online)
        steps, optimiser = self.gradient_step.update(gradient, learner.optimiser, learner.online)
        online = optax.apply_updates(learner.online, steps)
        online = self._with_frozen(frozen, learner.online, online)
        average = self.averaged(learner, online)
        if average:
            average = self._with_frozen(frozen, learner.average, average)
        return Learner(online, learner.target, optimiser, learner.updates + 1, average), found

    def _actor_loss(self, some: ActorCritic, x: Array, w: Array, risk: Risk | Array, spread: Array) -> Array:
        """Return the loss of some actors: negative scores of their actions, divided by the policy's typical score."""
        critic, law = jax.lax.stop_gradient(self.with_spread(some, spread).critic), self.law
        if isinstance(law, MeanLowRank) and law.mean_networks > 1:  # one network of the mean suffices, as in TD3
            critic, law = (critic[0], critic[-1]), replace(law, mean_networks=1)
        task_heads = law.mean_heads(critic, w) if self.neutral else law.task_heads(critic, w, self.active_features)
        rows = self._rows(self._actions(some.actor, x), x)
        outputs = self._read(task_heads.networks, rows, law.task_shapes(task_heads))
        if self.clock is not None:
            outputs = law.at_time(outputs, self.clock.share(x))
        if self.neutral:
            scores = law.means(outputs, task_heads)
        elif isinstance(risk, Risk):
            scores = law.scores(outputs, task_heads, risk)
        else:
            scores = law.scores_by_each(outputs, task_heads, self.risk, risk)
        usual = jnp.mean(jnp.abs(jax.lax.stop_gradient(scores)), axis=(1, 2)) + jnp.sum(jnp.abs(w), axis=-1)
        return -jnp.mean(jnp.sum(scores[..., 0] / jnp.maximum(usual, 1e-12)[:, None], axis=0))

    def _with_frozen(self, frozen: Array, before: ActorCritic, after: ActorCritic) -> ActorCritic:
        """Return the networks after an update. If policies are frozen, the actors are those before the update."""
        kept = jax.tree.map(lambda one, other: jnp.where(frozen, one, other), before.actor, after.actor)
        return after._replace(actor=kept)

    def _smoothed(self, actions: Array, updates: Array) -> Array:
        """Return the actions (C, B, P) of C actors with noise, so that targets vary less between nearby actions."""
        noise = jax.random.normal(jax.random.fold_in(jax.random.key(0), updates), actions.shape)
        return jnp.clip(actions + jnp.clip(_SMOOTHING * noise, -_SMOOTHED, _SMOOTHED), -1.0, 1.0)

    def _actions(self, actor: Network, x: Array) -> Array:
        """Return the actions (C, B, P) of C actors at inputs x (B, n)."""
        shape = Heads(1, actor.heads.bias.shape[-1])
        return jnp.tanh(read_heads(actor.heads, encode(actor, x, self.activation), shape)[:, :, 0, 0])

    def _outputs_at(self, critic: Networks, actions: Array, x: Array) -> Parts:
        """Return outputs (C, B, H, M) of every part, for actions (B, P) or (C, B, P) at inputs x (B, n)."""
        read = self._read(critic, self._rows(actions, x), self.law.shapes())
        return self.at_time(tuple(part[:, :, 0] for part in read), x)

    def _of_proposals(self, task_heads: ActorHeads, x: Array) -> Parts:
        """Return outputs (K, B, K, H, M) of every part, for all proposals at inputs x (B, n)."""
        rows, reduced = rows_of(self._actions(task_heads.actor, x).swapaxes(0, 1), x), task_heads.critic
        read = self._read(reduced.networks, rows, self.law.task_shapes(reduced))
        return self.at_time(by_proposal(read, self.policies), x)

    def _rows(self, actions: Array, x: Array) -> Array:
        """Return the inputs of critics for actions (.., B, P) at inputs x (B, n)."""
        return jnp.concatenate([actions, jnp.broadcast_to(x, (*actions.shape[:-1], x.shape[-1]))], axis=-1)
