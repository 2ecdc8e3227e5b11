"""`rasftd3` with expected failures: a classifier of the next state in place of the sampled 0 or 1.

A failure feature is 1 by chance where the arm is in a risky circle. `rasftd3` learns its expected sum from samples. In
this variant, a small network p(s') learns the probability of a failure by logistic regression on all steps. In an
update, the feature in the target of psi is p(s'). The targets of the variances are the mean over both outcomes, with
their probabilities p(s') and 1 - p(s'), so that the chance of the failure itself still counts as variance.

    python lab/studies/continuous.py out.jsonl --expected ...

The agent has one event, which occurs with the value of its largest observed feature. The state of the classifier is in
the field `chooser` of the learner, which actors leave empty. Batches that are drawn by priority contain too many
failures; as for all losses, the weights correct this in full only in the second half of training.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import jax
import jax.numpy as jnp
import optax

from rasf.arrays import Array
from rasf.deep.actors import ActorAgent
from rasf.deep.agent import Learner, Policies, Tasks
from rasf.deep.laws import Losses, Transition, Within
from rasf.deep.low_rank import MeanLowRank
from rasf.deep.networks import Heads, Network, Sizes, encode, read_heads
from rasf.deep.replay import Windows
from rasf.risk import Risk

_WIDTHS, _RATE, _DECAY, _KEY = (128, 128), 1e-3, 1e-2, 91
_ONE = Heads(1, 1)


@dataclass(frozen=True)
class BothOutcomes(MeanLowRank):
    """Mean and covariance whose variances are learned from both outcomes of an event.

    Attributes:
        chance: Probability (B,) of the event.
        size: Value of the event's feature ().
    """

    chance: Any = None
    size: Any = None

    def _losses_of_sums(self, chosen: Array, following: Array, delta: Array, later: Array, given: Transition) -> Array:
        event = self.size * jnp.eye(self.features)[self.events[0]]
        p = self.chance[:, None]
        yes, no = (
            super(BothOutcomes, self)._losses_of_sums(chosen, following, delta + change * event, later, given)
            for change in (1 - p, -p)
        )
        return self.chance * yes + (1 - self.chance) * no


@dataclass(frozen=True)
class ExpectingAgent(ActorAgent):
    """`ActorAgent` with a classifier of its only event."""

    def init(self, key: Array) -> Learner:
        sizes = Sizes(1, self.inputs, _WIDTHS, 1, frequency=self.settings.frequency)
        network = self.initialise(jax.random.fold_in(key, _KEY), sizes, _ONE)
        return super().init(key)._replace(chooser=(network, self._of_event.init(network)))

    @property
    def _of_event(self) -> optax.GradientTransformation:
        return optax.adamw(_RATE, weight_decay=_DECAY)

    def log_odds(self, network: Network, x: Array) -> Array:
        """Return the log odds (B,) of the event in steps to the states with inputs x (B, n)."""
        return read_heads(network.heads, encode(network, x, self.activation), _ONE)[0, :, 0, 0, 0]

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
        (event,), (network, state) = self.law.events, learner.chooser
        size, x_next = within.high[event], batch.next_obs[:, 0]
        happened = batch.phi[:, 0, event] / jnp.maximum(size, 1e-12)

        def loss(network: Network) -> tuple[Array, Array]:
            odds = self.log_odds(network, x_next)
            return jnp.mean(weight * (jax.nn.softplus(odds) - happened * odds)), odds

        (_, odds), gradient = jax.value_and_grad(loss, has_aux=True)(network)
        change, state = self._of_event.update(gradient, state, network)
        chance = jax.nn.sigmoid(odds)
        known = {each.name: getattr(self.law, each.name) for each in fields(self.law)}
        agent = replace(self, law=BothOutcomes(**known, chance=chance, size=size))
        expected = batch._replace(phi=batch.phi.at[:, 0, event].set(chance * size))
        found, losses = super(ExpectingAgent, agent).update(
            learner._replace(chooser=()), expected, tasks, by, within, weight, spread
        )
        return found._replace(chooser=(optax.apply_updates(network, change), state)), losses
