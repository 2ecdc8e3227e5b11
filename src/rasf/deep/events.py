"""What events come to in a transition, on average: takes the chance of rare failures out of what is learned from them.

A failure that happens in one of thirty steps is mostly not seen where it was possible, and laws that are learned from
single ones fit where they happened to fall. But of an event phi_e the targets of its mean and variance need only two
moments given everything else that the transition says, m = E[phi_e | s, a, s', ..] and q = E[phi_e^2 | s, a, s', ..]:

    psi_e     <-  m + gamma psi_e(s', a')
    Sigma_e   <-  (m + gamma psi_e(s', a') - psi_e)^2 + (q - m^2) + gamma^2 Sigma_e(s', a')

Given the rest, only phi_e is still open, so both targets have the mean that they have with phi_e itself (the law of
total variance), and what phi_e would add to their noise is gone (Rao and Blackwell). The same holds for sums over
several steps. "Everything else" is s', s, a, and how much of what follows counts, so that an event may depend on each
of them: a crash that ends the episode, a cost of the action.

m and q are learned by their logarithms from what was seen alone, nothing is bootstrapped. All policies share them.
Events are few and are replayed often, so the network must not fit single ones: it is small and smooth, and since mostly
s' says all, the weights of everything else begin at zero and fade unless they are needed. (240,000 steps of the
reacher, led by hand, 2,800 failures: m is off by 0.35 of its mean, without fading by 0.45; one seed.)
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from rasf.arrays import Array
from rasf.deep.laws import MOST_LEARNED, Expected, poisson_loss
from rasf.deep.networks import Heads, Network, encode, init_network, read_heads

_WIDTHS = (64, 64)
_SMOOTHER = 0.5  # of the frequencies of policies' networks
_FADING = 0.3  # of a weight, for each unit of Adam's steps; with 1, m of a sure crash came out as 0.91


class EventModel(NamedTuple):
    """The network that says the moments of events, the state of its optimiser, and its average, where there is one."""

    network: Network
    optimiser: optax.OptState
    average: Network | tuple[()] = ()


def layer_sizes(inputs: int, actions: int) -> tuple[int, ...]:
    """Of what the network is given, and of the layers before its heads."""
    return 2 * inputs + actions + 1, *_WIDTHS


def init_event_network(key: Array, inputs: int, actions: int, events: int, frequency: float) -> Network:
    """A random network, for policies' networks whose sines have this frequency, or no sines where it is 0."""
    given, *widths = layer_sizes(inputs, actions)
    network = init_network(key, 1, given, tuple(widths), 1, Heads(2, events), frequency=_SMOOTHER * frequency)
    return _with_first(network, network.hidden[0].weight.at[:, inputs:].set(0.0))


def event_optimiser(rate: float | optax.Schedule, epsilon: float, inputs: int) -> optax.GradientTransformation:
    """Adam, where the first layer's weights of all but s' fade."""

    def fade(steps: Network, network: Network) -> Network:
        fading = _FADING * network.hidden[0].weight[:, inputs:]
        return _with_first(steps, steps.hidden[0].weight.at[:, inputs:].add(fading))

    return optax.chain(optax.scale_by_adam(eps=epsilon), optax.stateless(fade), optax.scale_by_learning_rate(rate))


def _with_first(network: Network, weight: Array) -> Network:
    first, *others = network.hidden
    return network._replace(hidden=(first._replace(weight=weight), *others))


def given_of(x: Array, action: Array, x_next: Array, follows: Array, actions: int) -> Array:
    """What the network is given (B, n) of transitions; follows (B,): the factor of what follows, 0 after an end."""
    return jnp.concatenate([x_next, x, jax.nn.one_hot(action, actions), follows[:, None]], axis=-1)


def expected(network: Network, given: Array, phi: Array, events: tuple[int, ...]) -> Expected:
    """Features (B, d) with the expected in place of the events that came, and how these vary."""
    m, q = jnp.moveaxis(jnp.exp(jnp.minimum(_logarithms(network, given, len(events)), MOST_LEARNED)), 1, 0)
    columns = (slice(None), list(events))
    variance = jnp.zeros_like(phi).at[columns].set(jnp.maximum(q - m**2, 0.0))
    return Expected(jnp.asarray(phi).at[columns].set(m), variance)


def event_loss(network: Network, given: Array, came: Array) -> Array:
    """The loss (B,) of both moments against the events (B, E) that came."""
    said = _logarithms(network, given, came.shape[1])
    return jnp.sum(poisson_loss(said, jnp.stack([came, came**2], axis=1)), axis=(1, 2))


def _logarithms(network: Network, given: Array, events: int) -> Array:
    """Of the first and the second moment, (B, 2, E)."""
    return read_heads(network.heads, encode(network, given), Heads(2, events))[0, :, 0]
