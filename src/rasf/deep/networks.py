"""K multi-layer perceptrons, stacked on axis 0, whose last layer has H heads of M numbers an action.

    x (B, n) -> tanh layers -> features of the state (K, B, m) -> outputs (K, B, H, A, M)

A computation that needs two features of thirteen reads the weights of two heads. The last layer's H A M columns are
filled up to a multiple of 128 with columns that are never read: matrix units want aligned rows, and products that
contract over the columns would else copy all weights first.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from rasf.risk.base import Array

_ALIGNMENT = 128


class Layer(NamedTuple):
    """Weights (K, n, m) and biases (K, m)."""

    weight: Array
    bias: Array


class Network(NamedTuple):
    """K networks: the layers before the heads, and the heads."""

    hidden: tuple[Layer, ...]
    heads: Layer


class Heads(NamedTuple):
    """Shape of the last layer's outputs."""

    heads: int
    actions: int
    numbers: int

    @property
    def size(self) -> int:
        """Columns that are read."""
        return self.heads * self.actions * self.numbers


def init_network(key: Array, policies: int, inputs: int, widths: tuple[int, ...], shape: Heads) -> Network:
    """Glorot-uniform weights and zero biases; the heads count as one layer."""
    sizes = (inputs, *widths)
    *hidden_keys, head_key = jax.random.split(key, len(sizes))
    hidden = tuple(
        Layer(_glorot(one, (policies, n, m), n + m), jnp.zeros((policies, m)))
        for one, n, m in zip(hidden_keys, sizes[:-1], sizes[1:], strict=True)
    )
    heads = Layer(
        _glorot(head_key, (policies, sizes[-1], shape.size), sizes[-1] + shape.size), jnp.zeros((policies, shape.size))
    )
    return Network(hidden, _aligned(heads))


def _aligned(layer: Layer) -> Layer:
    surplus = -layer.bias.shape[-1] % _ALIGNMENT
    return Layer(*(jnp.pad(part, [(0, 0)] * (part.ndim - 1) + [(0, surplus)]) for part in layer))


def _glorot(key: Array, shape: tuple[int, ...], fans: int) -> Array:
    bound = (6.0 / fans) ** 0.5
    return jax.random.uniform(key, shape, minval=-bound, maxval=bound)


def encode(network: Network, x: Array) -> Array:
    """Features (K, B, m) of the inputs x (B, n), or (K, B, n) where every network has its own."""
    h = jnp.broadcast_to(x, (len(network.heads.weight), *x.shape[-2:]))
    for layer in network.hidden:
        h = jnp.tanh(_product(h, layer.weight) + layer.bias[:, None])
    return h


def read_heads(heads: Layer, h: Array, shape: Heads) -> Array:
    """Outputs (K, B, H, A, M) of the features h (K, B, m)."""
    out = _product(h, heads.weight) + heads.bias[:, None]
    return out[..., : shape.size].reshape(*h.shape[:2], *shape)


def choose_heads(heads: Layer, index: Array, shape: Heads) -> Layer:
    """A layer of the heads index (K, F) of each network."""

    def choose(part: Array, chosen: Array) -> Array:
        by_head = part[..., : shape.size].reshape(*part.shape[:-1], shape.heads, -1)
        return by_head[..., chosen, :].reshape(*part.shape[:-1], -1)

    return _aligned(Layer(*(jax.vmap(choose)(part, index) for part in heads)))


@jax.custom_vjp
def at_action(outputs: Array, action: Array) -> Array:
    """Outputs (K, B, H, M) of the actions (K, B), from outputs (K, B, H, A, M)."""
    return jnp.take_along_axis(outputs, action[:, :, None, None, None], axis=3)[..., 0, :]


def _at_action_forward(outputs: Array, action: Array) -> tuple[Array, tuple[Array, Array]]:
    # of the outputs only the shape is kept: an array that nobody reads is not stored
    return at_action(outputs, action), (outputs, action)


def _at_action_backward(kept: tuple[Array, Array], slope: Array) -> tuple[Array, None]:
    # A comparison in place of the automatic rule's scatter, which is slow on a GPU.
    outputs, action = kept
    taken = action[:, :, None, None, None] == jnp.arange(outputs.shape[3])[:, None]
    return jnp.where(taken, slope[..., None, :], 0.0), None


at_action.defvjp(_at_action_forward, _at_action_backward)


@jax.custom_vjp
def _product(x: Array, weight: Array) -> Array:
    """x (K, B, n) times weight (K, n, m)."""
    return jnp.einsum("kbn,knm->kbm", x, weight)


def _product_forward(x: Array, weight: Array) -> tuple[Array, tuple[Array, Array]]:
    return _product(x, weight), (x, weight)


def _product_backward(kept: tuple[Array, Array], slope: Array) -> tuple[Array, Array]:
    # Spelled out so that the weights' gradient comes in the weights' own order: the automatic rule transposes it, and
    # the optimiser then reads across memory and cannot write in place.
    x, weight = kept
    return jnp.einsum("kbm,knm->kbn", slope, weight), jnp.einsum("kbn,kbm->knm", x, slope)


_product.defvjp(_product_forward, _product_backward)
