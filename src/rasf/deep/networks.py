"""K multi-layer perceptrons, stacked on axis 0, whose last layer has, for each action, H heads of M numbers.

    x (B, n) -> layers -> features of the state h (K, B, m) -> outputs (K, B, A, H, M)

The K networks may share all layers before the heads, which then have one entry in place of K.

Layers are of tanh; the first may be one of sines, whose frequencies and phases are learned too: it tells apart states
that lie near each other, where tanh at first sees little more than a line.

Where an observation lists objects, the first of them its own, networks may see each of them beside the own one
(`Pairs`, then any number of `Each`), all by the same weights; of every output the largest of all objects goes on. In
which order they are listed then means nothing, and what was learned of one is known of all. Objects whose numbers are
all zero are nobody. All layers of such networks are rectified, not of tanh: whether two meet has sharp edges.

The last layer's weights (K, m, A, X) are nearly all there is to read. Of the outputs of one action there are two forms,
and the one with the smaller intermediate result is used:

    m < X    (h x e_a) . W with the weights seen as (m A, X): the one-hot vector makes the small side of the matrix
             product larger, and no output of another action is ever written, nor its zero gradient
    else     all outputs h . W, of which one action's are picked

X is H M rounded up to a multiple of eight, because matrix units want aligned rows; the surplus is never read.
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
    """Weights (K, n, ..) and biases (K, ..)."""

    weight: Array
    bias: Array


class Sines(NamedTuple):
    """A layer whose outputs are sines: frequencies (K, n, m) and phases (K, m)."""

    weight: Array
    bias: Array


class Pairs(NamedTuple):
    """A layer that sees objects of f numbers each beside the first: weights (K, 2 f, m), biases (K, m).

    Weights (K, 2 f + 1, m) see the last of the inputs that tell the time.
    """

    weight: Array
    bias: Array

    @property
    def numbers(self) -> int:
        """Of an object."""
        return int(self.weight.shape[1]) // 2

    @property
    def timed(self) -> bool:
        """Whether it sees the time."""
        return bool(self.weight.shape[1] % 2)

    def listed(self, inputs: int) -> int:
        """How many of the inputs list objects."""
        return inputs - TIME_INPUTS * self.timed


class Each(NamedTuple):
    """A layer that sees what the one before made of each object: weights (K, n, m), biases (K, m)."""

    weight: Array
    bias: Array


Hidden = Layer | Sines | Pairs | Each


class Network(NamedTuple):
    """K networks: the layers before the heads, and the heads, of weight (K, m, A, X) and bias (K, A, X)."""

    hidden: tuple[Hidden, ...]
    heads: Layer


class Heads(NamedTuple):
    """Shape of an action's outputs, which are `size` columns."""

    heads: int
    numbers: int

    @property
    def size(self) -> int:
        return self.heads * self.numbers


class Sizes(NamedTuple):
    """What K networks are: numbers of inputs, units of the hidden layers, and actions.

    shared: they have the hidden layers in common. frequency: with any, the first layer is one of sines, its frequencies
    normal with this spread, its phases uniform. objects: with any, the inputs list objects of so many numbers. timed:
    the last `TIME_INPUTS` inputs tell the time.
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
        """Rows of the first layer's weights."""
        return 2 * self.objects + self.timed if self.objects else self.inputs


def init_network(key: Array, sizes: Sizes, shape: Heads, *, separate_heads: bool = False) -> Network:
    """Glorot-uniform weights and zero biases; the heads count as one layer, or each as one with all its actions."""
    policies, frequency, layers = sizes.policies, sizes.frequency, (sizes.first, *sizes.widths)
    *hidden_keys, head_key = jax.random.split(key, len(layers))
    several = 1 if sizes.shared else policies
    kinds = kinds_of_layers(len(sizes.widths), sizes.objects, bool(frequency))
    hidden = tuple(
        kind(_glorot(one, (several, n, m), n + m), jnp.zeros((several, m)))
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
    """What the layers before the heads are."""
    if objects:
        return (Pairs, *(Each,) * (layers - 2), *(Layer,) * (layers > 1))
    return (Sines if sines else Layer, *(Layer,) * (layers - 1))


def _glorot(key: Array, shape: tuple[int, ...], fans: int) -> Array:
    bound = (6.0 / fans) ** 0.5
    return jax.random.uniform(key, shape, minval=-bound, maxval=bound)


def encode(network: Network, x: Array, activation: Callable[[Array], Array] = jnp.tanh) -> Array:
    """Features (K, B, m) of the inputs x (B, n), or (K, B, n) where every network has its own.

    Of networks that share their layers and their inputs the features are the same: (1, B, m).
    """
    policies, several = len(network.heads.weight), len(network.hidden[0].weight)
    if x.ndim == 3 and several < policies:  # inputs of their own for networks that share their layers
        return encode(network, x.reshape(-1, x.shape[-1]), activation)[0].reshape(*x.shape[:2], -1)
    h, layers, usual = jnp.broadcast_to(x, (several, *x.shape[-2:])), network.hidden, activation
    if isinstance(layers[0], Pairs):
        (h, layers), usual = _largest_of_objects(layers[0], layers[1:], h), jax.nn.relu
    for layer in layers:
        h = (_sine if isinstance(layer, Sines) else usual)(_product(h, layer.weight) + layer.bias[:, None])
    return h


def _largest_of_objects(pairs: Pairs, left: tuple[Hidden, ...], x: Array) -> tuple[Array, tuple[Hidden, ...]]:
    """What the first layers make of lists of objects x (K, B, R f): (K, B, m), and the layers that are left."""
    numbers, listed = pairs.numbers, pairs.listed(x.shape[2])
    objects = x[..., :listed].reshape(*x.shape[:2], listed // numbers, numbers)
    own = _product(objects[:, :, 0], pairs.weight[:, :numbers]) + pairs.bias[:, None]
    if pairs.timed:
        own = own + _product(x[..., -1:], pairs.weight[:, 2 * numbers :])
    h = jax.nn.relu(own[:, :, None] + _of_each(objects, pairs.weight[:, numbers : 2 * numbers]))
    while left and isinstance(left[0], Each):
        h, left = jax.nn.relu(_of_each(h, left[0].weight) + left[0].bias[:, None, None]), left[1:]
    somebody = jnp.any(objects != 0, axis=-1, keepdims=True)
    return jnp.max(jnp.where(somebody, h, 0.0), axis=2), left


def _of_each(objects: Array, weight: Array) -> Array:
    """Objects (K, B, R, n) times weight (K, n, m)."""
    policies, observations, several, n = objects.shape
    flat = objects.reshape(policies, observations * several, n)
    return _product(flat, weight).reshape(policies, observations, several, weight.shape[-1])


def _sine(x: Array) -> Array:
    """The sine within 4e-6, for angles of any usual size; jax's own takes several times as long on a CPU."""
    turns = jnp.round(x * (1 / jnp.pi))
    y = x - turns * jnp.pi
    square, odd = y * y, turns - 2 * jnp.floor(turns * 0.5)
    series = 1 + square * (-1 / 6 + square * (1 / 120 + square * (-1 / 5_040 + square * (1 / 362_880))))
    return y * series * (1 - 2 * odd)


def read_heads(heads: Layer, h: Array, shape: Heads) -> Array:
    """Outputs (K, B, A, H, M) of all actions, of the features h (K, B, m) or (1, B, m)."""
    return _trimmed(_read_columns(heads, h), shape)


def read_action(heads: Layer, h: Array, action: Array, shape: Heads) -> Array:
    """Outputs (K, B, H, M) of the actions (K, B), of the features h (K, B, m) or (1, B, m)."""
    policies, actions, columns = heads.bias.shape
    if h.shape[-1] >= columns or len(h) < policies:
        return _trimmed(_pick(_read_columns(heads, h), action), shape)
    taken = jax.nn.one_hot(action, actions)
    larger = (h[..., None] * taken[..., None, :]).reshape(*h.shape[:2], -1)
    out = _product(larger, heads.weight.reshape(policies, -1, columns)) + _product(taken, heads.bias)
    return _trimmed(out, shape)


def plain_encode(network: Network, x: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """`encode` in numpy."""
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
    """`_largest_of_objects` in numpy, of inputs x (B, R f); objects that are nobody in all of them cost nothing."""
    numbers, listed = pairs.numbers, pairs.listed(x.shape[1])
    objects = x[:, :listed].reshape(len(x), listed // numbers, numbers)
    somebody = np.asarray(objects.any(axis=-1))
    seen = np.flatnonzero(somebody.any(axis=0) | (np.arange(objects.shape[1]) == 0))
    objects, somebody = objects[:, seen], somebody[:, seen]
    own = objects[:, 0] @ pairs.weight[:, :numbers] + pairs.bias[:, None]
    if pairs.timed:
        own += x[:, -1:] @ pairs.weight[:, 2 * numbers :]
    h = np.maximum(own[:, :, None] + objects[None] @ pairs.weight[:, None, numbers : 2 * numbers], 0)
    while left and isinstance(left[0], Each):
        h, left = np.maximum(h @ left[0].weight[:, None] + left[0].bias[:, None, None], 0), left[1:]
    return np.where(somebody[..., None], h, np.float32(0)).max(axis=2), left


def plain_outputs(network: Network, x: npt.NDArray[np.float32], shape: Heads) -> npt.NDArray[np.float32]:
    """Outputs (K, B, A, H, M) of inputs x (B, n) in numpy: for few of them quicker than to ask a device."""
    h = plain_encode(network, x)
    policies, actions, columns = network.heads.bias.shape
    flat = h @ network.heads.weight.reshape(policies, -1, actions * columns)
    return np.asarray(_trimmed(flat.reshape(policies, -1, actions, columns) + network.heads.bias[:, None], shape))


def _read_columns(heads: Layer, h: Array) -> Array:
    """All columns (K, B, A, X)."""
    policies, actions, columns = heads.bias.shape
    if len(h) < policies:  # one product for all networks
        return jnp.einsum("bm,kmax->kbax", h[0], heads.weight) + heads.bias[:, None]
    flat = _product(h, heads.weight.reshape(policies, -1, actions * columns))
    return flat.reshape(policies, -1, actions, columns) + heads.bias[:, None]


def _trimmed(columns: Array, shape: Heads) -> Array:
    return columns[..., : shape.size].reshape(*columns.shape[:-1], *shape)


def fold_heads(heads: Layer, factor: Array) -> Layer:
    """A layer of the sums of each network's columns that the factors (K, size, n) give, in numpy or jax."""
    xp, size = array_namespace(heads.weight, factor), factor.shape[1]
    weight = xp.einsum("kmax,kxn->kman", heads.weight[..., :size], factor)
    return Layer(weight, xp.einsum("kax,kxn->kan", heads.bias[..., :size], factor))


def choose_policies(network: Network, chosen: slice | Ints) -> Network:
    """Some of the K networks; what all share stays."""
    heads = Layer(*(part[chosen] for part in network.heads))
    if len(network.hidden[0].weight) < len(network.heads.weight):
        return Network(network.hidden, heads)
    return Network(tuple(type(layer)(*(part[chosen] for part in layer)) for layer in network.hidden), heads)


def choose_heads(heads: Layer, index: Array, shape: Heads) -> Layer:
    """A layer of the heads index (K, F) of each network."""

    def choose(part: Array, chosen: Array) -> Array:
        by_head = part[..., : shape.size].reshape(*part.shape[:-1], *shape)
        return by_head[..., chosen, :].reshape(*part.shape[:-1], -1)

    return Layer(*(jax.vmap(choose)(part, index) for part in heads))


@jax.custom_vjp
def _pick(columns: Array, action: Array) -> Array:
    """Columns (K, B, X) of the actions (K, B), from columns (K, B, A, X)."""
    return jnp.take_along_axis(columns, action[..., None, None], axis=2)[:, :, 0]


def _pick_forward(columns: Array, action: Array) -> tuple[Array, tuple[Array, Array]]:
    # of the columns only the shape is used: an array that nobody reads is not stored
    return _pick(columns, action), (columns, action)


def _pick_backward(kept: tuple[Array, Array], slope: Array) -> tuple[Array, None]:
    # a comparison in place of the automatic rule's scatter, which is slow on a GPU
    columns, action = kept
    taken = action[..., None, None] == jnp.arange(columns.shape[2])[:, None]
    return jnp.where(taken, slope[:, :, None], 0.0), None


_pick.defvjp(_pick_forward, _pick_backward)


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
