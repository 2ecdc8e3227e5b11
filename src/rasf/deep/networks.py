"""Stacks of K multi-layer perceptrons: axis 0 of every array is over the K networks.

    B inputs x (B, n) -> hidden layers -> encodings h (K, B, m) -> last layer -> outputs (K, B, A, H, M)

The last layer has H heads of M numbers for each of A actions. If the K networks share the hidden layers, axis 0 of the
arrays of these layers has length 1.

The activation of hidden layers is tanh. The first layer may have sines instead, with learned frequencies and phases.
Before training, a layer of sines distinguishes nearby states. A layer of tanh hardly does, because it is almost linear.

An observation may be a list of objects, the first of which is the agent. The first layer is then applied to each pair
of the agent and an object (`Pairs`). Further layers are applied to each object separately (`Each`), with the same
weights for all objects. The maxima of the outputs over all objects are the inputs of the next layer. So the order of
the objects has no effect, and learning about one object applies to all objects. Objects whose numbers are all zero are
absent and ignored. The activation of such networks is ReLU, because values change sharply close to a collision.

Most of the memory that an update reads holds the last layer's weights W (K, m, A, X). There are two ways to compute the
outputs of one action a. The way with the smaller intermediate result is used:

    m < X     (h x e_a) . W, where h x e_a is the flattened outer product of h and the one-hot vector of a, and W has
              the shape (m A, X). Outputs of other actions and their zero gradients are not written to memory.
    m >= X    h . W for all actions, from which the outputs of a are selected

X is H M rounded up to a multiple of eight, because matrix units of GPUs need aligned rows. The padding is not used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from rasf.arrays import Array, Ints, array_namespace
from rasf.deep.clock import TIME_INPUTS

_ALIGNMENT = 8


class Layer(NamedTuple):
    """A linear layer of K networks with n inputs: weights (K, n, ..) and biases (K, ..)."""

    weight: Array
    bias: Array


class Sines(NamedTuple):
    """A layer with the m outputs sin(x . weight + bias): frequencies `weight` (K, n, m) and phases `bias` (K, m)."""

    weight: Array
    bias: Array


class Pairs(NamedTuple):
    """A layer applied to pairs of the agent and an object, of f numbers each: weights (K, 2 f, m), biases (K, m).

    With weights (K, 2 f + 1, m), a further input of the layer is the last input of the network, which is the time left.
    """

    weight: Array
    bias: Array

    @property
    def numbers(self) -> int:
        """How many numbers (f) describe one object."""
        return int(self.weight.shape[1]) // 2

    @property
    def timed(self) -> bool:
        """Whether the time left is an input of the layer."""
        return bool(self.weight.shape[1] % 2)

    def listed(self, inputs: int) -> int:
        """Return the number of inputs that describe objects.

        Args:
            inputs: Number of all inputs of the network.
        """
        return inputs - TIME_INPUTS * self.timed


class Each(NamedTuple):
    """A layer applied to the previous layer's outputs (n,) of each object: weights (K, n, m), biases (K, m)."""

    weight: Array
    bias: Array


Hidden = Layer | Sines | Pairs | Each


class Network(NamedTuple):
    """K networks: the hidden layers, and the last layer `heads` with weights (K, m, A, X) and biases (K, A, X)."""

    hidden: tuple[Hidden, ...]
    heads: Layer


class Heads(NamedTuple):
    """Shape of the outputs of an action: `heads` heads of `numbers` numbers. `size` is heads * numbers."""

    heads: int
    numbers: int

    @property
    def size(self) -> int:
        return self.heads * self.numbers


class Sizes(NamedTuple):
    """Sizes of a stack of networks.

    Attributes:
        policies: Number K of networks.
        inputs: Number of inputs.
        widths: Number of units of each hidden layer.
        actions: Number of actions.
        shared: Whether all networks share the hidden layers. Default: False.
        frequency: Standard deviation of the initial frequencies of a first layer of sines, whose initial phases are
            uniform. 0 for a layer of tanh. Default: 0.
        objects: How many numbers describe one object, if the inputs list objects; else 0. Default: 0.
        timed: Whether the last `TIME_INPUTS` inputs encode the time left. Default: False.
    """

    policies: int
    inputs: int
    widths: tuple[int, ...]
    actions: int
    shared: bool = False
    frequency: float = 0.0
    objects: int = 0
    timed: bool = False

    @property
    def first(self) -> int:
        """Number of rows of the first layer's weights."""
        return 2 * self.objects + self.timed if self.objects else self.inputs


def init_network(key: Array, sizes: Sizes, shape: Heads, *, separate_heads: bool = False) -> Network:
    """Return random networks: Glorot-uniform weights and zero biases.

    Args:
        key: A random key of jax.
        sizes: Sizes of the networks.
        shape: Shape of the outputs of an action.
        separate_heads: Whether Glorot's rule for the range of the weights treats each head, with its outputs for all
            actions, as a separate layer. If False, the rule treats all heads as one layer. Default: False.
    """
    policies, frequency, layers = sizes.policies, sizes.frequency, (sizes.first, *sizes.widths)
    *hidden_keys, head_key = jax.random.split(key, len(layers))
    stacks = 1 if sizes.shared else policies
    kinds = kinds_of_layers(len(sizes.widths), sizes.objects, bool(frequency))
    hidden = tuple(
        kind(_glorot(one, (stacks, n, m), n + m), jnp.zeros((stacks, m)))
        for kind, one, n, m in zip(kinds, hidden_keys, layers[:-1], layers[1:], strict=True)
    )
    if frequency:
        frequency_key, phase_key = jax.random.split(hidden_keys[0])
        frequencies = frequency * jax.random.normal(frequency_key, hidden[0].weight.shape)
        phases = jax.random.uniform(phase_key, hidden[0].bias.shape, minval=-jnp.pi, maxval=jnp.pi)
        hidden = (hidden[0]._replace(weight=frequencies, bias=phases), *hidden[1:])
    surplus = -shape.size % _ALIGNMENT
    of_one_layer = sizes.actions * (shape.numbers if separate_heads else shape.size)
    weight = _glorot(head_key, (policies, layers[-1], sizes.actions, shape.size), layers[-1] + of_one_layer)
    aligned = jnp.pad(weight, [*[(0, 0)] * 3, (0, surplus)])
    return Network(hidden, Layer(aligned, jnp.zeros((policies, sizes.actions, shape.size + surplus))))


def kinds_of_layers(layers: int, objects: int, sines: bool) -> tuple[type[Hidden], ...]:
    """Return the types of the hidden layers.

    Args:
        layers: Number of hidden layers.
        objects: How many numbers describe one object; 0 if inputs do not list objects.
        sines: Whether the first layer is a layer of sines.
    """
    if objects:
        return (Pairs, *(Each,) * (layers - 2), *(Layer,) * (layers > 1))
    return (Sines if sines else Layer, *(Layer,) * (layers - 1))


def _glorot(key: Array, shape: tuple[int, ...], fans: int) -> Array:
    bound = (6.0 / fans) ** 0.5
    return jax.random.uniform(key, shape, minval=-bound, maxval=bound)


def encode(network: Network, x: Array, activation: Callable[[Array], Array] = jnp.tanh) -> Array:
    """Return the encodings of inputs, which are the outputs of the last hidden layer.

    Args:
        network: The networks.
        x: Inputs (B, n), or (K, B, n) if every network has separate inputs.
        activation: The activation of the hidden layers, unless inputs list objects. Default: tanh.

    Returns:
        Encodings (K, B, m), or (1, B, m) if the networks share both the hidden layers and the inputs.
    """
    policies, stacks = len(network.heads.weight), len(network.hidden[0].weight)
    if x.ndim == 3 and stacks < policies:  # the networks share layers, but not inputs
        return encode(network, x.reshape(-1, x.shape[-1]), activation)[0].reshape(*x.shape[:2], -1)
    h, layers, usual = jnp.broadcast_to(x, (stacks, *x.shape[-2:])), network.hidden, activation
    if isinstance(layers[0], Pairs):
        (h, layers), usual = _largest_of_objects(layers[0], layers[1:], h), jax.nn.relu
    for layer in layers:
        h = (_sine if isinstance(layer, Sines) else usual)(_product(h, layer.weight) + layer.bias[:, None])
    return h


def _largest_of_objects(pairs: Pairs, left: tuple[Hidden, ...], x: Array) -> tuple[Array, tuple[Hidden, ...]]:
    """Apply the object layers to inputs x (K, B, n). Return maxima (K, B, m) over objects and the remaining layers."""
    numbers, listed = pairs.numbers, pairs.listed(x.shape[2])
    objects = x[..., :listed].reshape(*x.shape[:2], listed // numbers, numbers)
    own = _product(objects[:, :, 0], pairs.weight[:, :numbers]) + pairs.bias[:, None]
    if pairs.timed:
        own = own + _product(x[..., -1:], pairs.weight[:, 2 * numbers :])
    h = jax.nn.relu(own[:, :, None] + _of_each(objects, pairs.weight[:, numbers : 2 * numbers]))
    while left and isinstance(left[0], Each):
        h, left = jax.nn.relu(_of_each(h, left[0].weight) + left[0].bias[:, None, None]), left[1:]
    present = jnp.any(objects != 0, axis=-1, keepdims=True)
    return jnp.max(jnp.where(present, h, 0.0), axis=2), left


def _of_each(objects: Array, weight: Array) -> Array:
    """Return the products (K, B, R, m) of the numbers (K, B, R, n) of R objects with the weight (K, n, m)."""
    policies, observations, rows, n = objects.shape
    flat = objects.reshape(policies, observations * rows, n)
    return _product(flat, weight).reshape(policies, observations, rows, weight.shape[-1])


def _sine(x: Array) -> Array:
    """Return the sine, with errors up to 4e-6 for moderate angles. The sine of jax is several times slower on a CPU."""
    turns = jnp.round(x * (1 / jnp.pi))
    y = x - turns * jnp.pi
    square, odd = y * y, turns - 2 * jnp.floor(turns * 0.5)
    series = 1 + square * (-1 / 6 + square * (1 / 120 + square * (-1 / 5_040 + square * (1 / 362_880))))
    return y * series * (1 - 2 * odd)


def read_heads(heads: Layer, h: Array, shape: Heads) -> Array:
    """Return the outputs (K, B, A, H, M) of all actions.

    Args:
        heads: The last layer.
        h: Encodings (K, B, m) or (1, B, m), from `encode`.
        shape: Shape of the outputs of an action.
    """
    return _trimmed(_read_columns(heads, h), shape)


def read_action(heads: Layer, h: Array, action: Array, shape: Heads) -> Array:
    """Return the outputs (K, B, H, M) of one action for each network and input.

    Args:
        heads: The last layer.
        h: Encodings (K, B, m) or (1, B, m), from `encode`.
        action: Actions (K, B).
        shape: Shape of the outputs of an action.
    """
    policies, actions, columns = heads.bias.shape
    if h.shape[-1] >= columns or len(h) < policies:
        return _trimmed(_pick(_read_columns(heads, h), action), shape)
    taken = jax.nn.one_hot(action, actions)
    larger = (h[..., None] * taken[..., None, :]).reshape(*h.shape[:2], -1)
    out = _product(larger, heads.weight.reshape(policies, -1, columns)) + _product(taken, heads.bias)
    return _trimmed(out, shape)


def plain_encode(network: Network, x: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return the encodings (K, B, m) or (1, B, m) of inputs x (B, n), as `encode` does, in numpy."""
    h, layers = x, network.hidden
    listed = isinstance(layers[0], Pairs)
    if isinstance(layers[0], Pairs):
        h, layers = _plain_largest_of_objects(layers[0], layers[1:], x)
    for layer in layers:
        h = h @ layer.weight
        h += layer.bias[:, None]
        if listed:
            np.maximum(h, 0, out=h)
        else:
            (np.sin if isinstance(layer, Sines) else np.tanh)(h, out=h)
    return h


def _plain_largest_of_objects(
    pairs: Pairs, left: tuple[Hidden, ...], x: npt.NDArray[np.float32]
) -> tuple[npt.NDArray[np.float32], tuple[Hidden, ...]]:
    """Do what `_largest_of_objects` does, in numpy, for inputs x (B, n). Skip objects that are absent in all inputs."""
    numbers, listed = pairs.numbers, pairs.listed(x.shape[1])
    objects = x[:, :listed].reshape(len(x), listed // numbers, numbers)
    present = np.asarray(objects.any(axis=-1))
    seen = np.flatnonzero(present.any(axis=0) | (np.arange(objects.shape[1]) == 0))
    objects, present = objects[:, seen], present[:, seen]
    own = objects[:, 0] @ pairs.weight[:, :numbers] + pairs.bias[:, None]
    if pairs.timed:
        own += x[:, -1:] @ pairs.weight[:, 2 * numbers :]
    h = np.maximum(own[:, :, None] + objects[None] @ pairs.weight[:, None, numbers : 2 * numbers], 0)
    while left and isinstance(left[0], Each):
        h, left = np.maximum(h @ left[0].weight[:, None] + left[0].bias[:, None, None], 0), left[1:]
    return np.where(present[..., None], h, np.float32(0)).max(axis=2), left


def plain_outputs(network: Network, x: npt.NDArray[np.float32], shape: Heads) -> npt.NDArray[np.float32]:
    """Return the outputs (K, B, A, H, M) of inputs x (B, n) in numpy, which is faster than jax for small B."""
    h = plain_encode(network, x)
    policies, actions, columns = network.heads.bias.shape
    flat = h @ network.heads.weight.reshape(policies, -1, actions * columns)
    return np.asarray(_trimmed(flat.reshape(policies, -1, actions, columns) + network.heads.bias[:, None], shape))


def _read_columns(heads: Layer, h: Array) -> Array:
    """Return the outputs (K, B, A, X) of the last layer, including the padding."""
    policies, actions, columns = heads.bias.shape
    if len(h) < policies:  # the networks share the hidden layers, so one product computes the outputs of all networks
        return jnp.einsum("bm,kmax->kbax", h[0], heads.weight) + heads.bias[:, None]
    flat = _product(h, heads.weight.reshape(policies, -1, actions * columns))
    return flat.reshape(policies, -1, actions, columns) + heads.bias[:, None]


def _trimmed(columns: Array, shape: Heads) -> Array:
    return columns[..., : shape.size].reshape(*columns.shape[:-1], *shape)


def fold_heads(heads: Layer, factor: Array) -> Layer:
    """Return heads whose columns are weighted sums of the columns of given heads, in numpy or jax.

    Args:
        heads: The given heads.
        factor: Factors (K, size, n). Entry (k, i, j) is the factor of the given column i in the new column j.
    """
    xp, size = array_namespace(heads.weight, factor), factor.shape[1]
    weight = xp.einsum("kmax,kxn->kman", heads.weight[..., :size], factor)
    return Layer(weight, xp.einsum("kax,kxn->kan", heads.bias[..., :size], factor))


def choose_policies(network: Network, chosen: slice | Ints) -> Network:
    """Return some of the K networks. Shared layers stay shared.

    Args:
        network: The networks.
        chosen: Indices of the networks to keep.
    """
    heads = Layer(*(part[chosen] for part in network.heads))
    if len(network.hidden[0].weight) < len(network.heads.weight):
        return Network(network.hidden, heads)
    return Network(tuple(type(layer)(*(part[chosen] for part in layer)) for layer in network.hidden), heads)


def choose_heads(heads: Layer, index: Array, shape: Heads) -> Layer:
    """Return the last layer with only F heads of each network.

    Args:
        heads: The last layer with all heads.
        index: Indices (K, F) of the heads to keep.
        shape: Shape of the outputs of an action with all heads.
    """

    def choose(part: Array, chosen: Array) -> Array:
        by_head = part[..., : shape.size].reshape(*part.shape[:-1], *shape)
        return by_head[..., chosen, :].reshape(*part.shape[:-1], -1)

    return Layer(*(jax.vmap(choose)(part, index) for part in heads))


@jax.custom_vjp
def _pick(columns: Array, action: Array) -> Array:
    """Return the columns (K, B, X) of the actions (K, B), from columns (K, B, A, X)."""
    return jnp.take_along_axis(columns, action[..., None, None], axis=2)[:, :, 0]


def _pick_forward(columns: Array, action: Array) -> tuple[Array, tuple[Array, Array]]:
    # the backward pass uses only the shape of the columns, so the compiler can drop their values
    return _pick(columns, action), (columns, action)


def _pick_backward(kept: tuple[Array, Array], slope: Array) -> tuple[Array, None]:
    # Automatic differentiation would use a scatter, which is slow on a GPU. A comparison is faster.
    columns, action = kept
    taken = action[..., None, None] == jnp.arange(columns.shape[2])[:, None]
    return jnp.where(taken, slope[:, :, None], 0.0), None


_pick.defvjp(_pick_forward, _pick_backward)


@jax.custom_vjp
def _product(x: Array, weight: Array) -> Array:
    """Return the product (K, B, m) of x (K, B, n) and weight (K, n, m)."""
    return jnp.einsum("kbn,knm->kbm", x, weight)


def _product_forward(x: Array, weight: Array) -> tuple[Array, tuple[Array, Array]]:
    return _product(x, weight), (x, weight)


def _product_backward(kept: tuple[Array, Array], slope: Array) -> tuple[Array, Array]:
    # The gradient is written out, so that it has the memory order of the weights. Automatic differentiation would
    # return a transposed gradient, which the optimiser would read in strides and could not overwrite in place.
    x, weight = kept
    return jnp.einsum("kbm,knm->kbn", slope, weight), jnp.einsum("kbn,kbm->knm", x, slope)


_product.defvjp(_product_forward, _product_backward)
