"""Stacked networks against separate ones in plain numpy, and their gradients against the automatic rules."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from deep_twin import backward, flat, forward, outputs, plain_networks

from rasf.deep.networks import (
    Heads,
    Layer,
    Sines,
    Sizes,
    _product,
    _sine,
    choose_heads,
    choose_policies,
    encode,
    init_network,
    plain_outputs,
    read_action,
    read_heads,
)

K, INPUTS, WIDTHS, BATCH, ACTIONS = 3, 4, (6, 5), 7, 3
SHAPE = Heads(2, 5)  # 10 columns an action, filled up to 16
SIZES = Sizes(K, INPUTS, WIDTHS, ACTIONS)


# compiled as a whole: one operation after the other would take longer to compile
INIT = jax.jit(init_network, static_argnums=(1, 2))
ENCODE, CHOOSE = jax.jit(encode), jax.jit(choose_heads, static_argnums=2)
READ, READ_ACTION = jax.jit(read_heads, static_argnums=2), jax.jit(read_action, static_argnums=3)


def make(seed=0):
    """Networks, as numpy arrays, whose biases are not zero, so that their place shows."""
    network = jax.tree.map(np.asarray, INIT(jax.random.key(seed), SIZES, SHAPE))
    rng = np.random.default_rng(seed)

    def shaken(layer, size):
        noise = (0.1 * rng.normal(size=layer.bias.shape)).astype(layer.bias.dtype)
        return layer._replace(bias=np.where(np.arange(noise.shape[-1]) < size, noise, np.float32(0.0)))

    hidden = tuple(shaken(layer, layer.bias.shape[-1]) for layer in network.hidden)
    return network._replace(hidden=hidden, heads=shaken(network.heads, SHAPE.size))


@jax.jit
def all_outputs(network, x):
    return read_heads(network.heads, encode(network, x), SHAPE)


def inputs(shape=(BATCH, INPUTS), seed=1):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def test_another_activation_can_be_given():
    network, x = make(), inputs()
    relu = jax.jit(partial(encode, activation=jax.nn.relu))(network, x)
    h = np.broadcast_to(x, (K, *x.shape))
    for layer in network.hidden:
        h = np.maximum(h @ layer.weight + layer.bias[:, None], 0.0)
    np.testing.assert_allclose(relu, h, rtol=1e-5, atol=1e-6)


def test_shapes_and_alignment():
    network = INIT(jax.random.key(0), SIZES, SHAPE)
    assert [layer.weight.shape for layer in network.hidden] == [(K, 4, 6), (K, 6, 5)]
    assert [layer.bias.shape for layer in network.hidden] == [(K, 6), (K, 5)]
    assert network.heads.weight.shape == (K, 5, ACTIONS, 16)
    assert network.heads.bias.shape == (K, ACTIONS, 16)
    assert ENCODE(network, inputs()).shape == (K, BATCH, 5)
    assert all_outputs(network, inputs()).shape == (K, BATCH, ACTIONS, *SHAPE)
    for shape, columns in ((Heads(1, 13), 16), (Heads(1, 32), 32), (Heads(13, 51), 664)):
        init = partial(init_network, sizes=Sizes(1, 2, (2,), 9), shape=shape)
        assert jax.eval_shape(init, jax.random.key(0)).heads.weight.shape == (1, 2, 9, columns)


def test_glorot_bounds_do_not_count_the_padding():
    network = jax.tree.map(np.asarray, INIT(jax.random.key(3), SIZES._replace(widths=(40, 50)), SHAPE))
    layers = [(layer.weight, n + m) for layer, n, m in zip(network.hidden, (4, 40), (40, 50), strict=True)]
    layers.append((network.heads.weight[..., : SHAPE.size], 50 + ACTIONS * SHAPE.size))
    for weight, fans in layers:
        bound = np.sqrt(6 / fans)
        scaled = np.asarray(weight).ravel() / bound
        assert 0.97 < np.abs(scaled).max() <= 1
        # uniform: mean square 1/3, up to five standard errors sqrt(4/45/n)
        assert abs(np.mean(scaled**2) - 1 / 3) < 5 * np.sqrt(4 / 45 / scaled.size)
    assert (network.heads.weight[..., SHAPE.size :] == 0).all()
    assert all((layer.bias == 0).all() for layer in (*network.hidden, network.heads))


def test_policies_start_apart():
    network = INIT(jax.random.key(0), SIZES, SHAPE)
    for weight in (network.hidden[0].weight, network.heads.weight):
        assert not np.allclose(weight[0], weight[1])


def by_action(plain_outputs):
    """(H, A, M) -> (A, H, M)."""
    return np.swapaxes(plain_outputs, 0, 1)


def test_stacked_networks_are_separate_ones():
    network, x = make(), inputs()
    out = np.array(all_outputs(network, x))
    for k, plain in enumerate(plain_networks(network, SHAPE)):
        for b in range(BATCH):
            np.testing.assert_allclose(out[k, b], by_action(outputs(plain, x[b])), rtol=0, atol=1e-5)


def poisoned(network, poison):
    def fill(part):
        return np.where(np.arange(part.shape[-1]) < SHAPE.size, part, np.float32(poison))

    return network._replace(heads=Layer(*map(fill, network.heads)))


def test_padding_is_never_visible():
    network, x = make(), inputs()
    spoiled = poisoned(network, np.nan)
    np.testing.assert_array_equal(all_outputs(network, x), all_outputs(spoiled, x))
    h, index, shape = ENCODE(network, x), np.array([[1], [0], [1]]), Heads(1, 5)
    few, spoiled_few = (CHOOSE(net.heads, index, SHAPE) for net in (network, spoiled))
    np.testing.assert_array_equal(READ(few, h, shape), READ(spoiled_few, h, shape))


def test_padding_has_no_gradient_and_gives_none():
    network, x = make(), inputs()
    gradient = jax.jit(jax.grad(lambda net: jnp.sum(jnp.sin(all_outputs(net, x)))))
    clean, spoiled = gradient(network), gradient(poisoned(network, 7.0))
    for part in (*clean.heads, *spoiled.heads):
        assert (np.asarray(part)[..., SHAPE.size :] == 0).all()
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=0, atol=1e-6), clean, spoiled)


def test_every_network_may_have_its_own_inputs():
    network, x = make(), inputs((K, BATCH, INPUTS))
    h = ENCODE(network, x)
    for k in range(K):
        np.testing.assert_allclose(h[k], ENCODE(network, x[k])[k], rtol=0, atol=1e-6)


def test_networks_do_not_see_one_another():
    network, x = make(), inputs()
    spoiled = jax.tree.map(np.copy, network)
    for leaf in jax.tree.leaves(spoiled):
        leaf[1] = 9.0
    out, other = np.array(all_outputs(network, x)), np.array(all_outputs(spoiled, x))
    np.testing.assert_array_equal(out[[0, 2]], other[[0, 2]])
    assert not np.allclose(out[1], other[1])


def test_choose_heads():
    network, x = make(), inputs()
    index, h = np.array([[1], [0], [1]]), ENCODE(network, x)
    chosen = CHOOSE(network.heads, index, SHAPE)
    assert chosen.bias.shape == (K, ACTIONS, 5)  # too few columns for alignment to matter
    everything, few = np.array(all_outputs(network, x)), np.array(READ(chosen, h, Heads(1, 5)))
    for k in range(K):
        np.testing.assert_allclose(few[k, :, :, 0], everything[k, :, :, index[k, 0]], rtol=0, atol=1e-6)
    swapped = CHOOSE(network.heads, np.array([[1, 0]] * K), SHAPE)
    np.testing.assert_allclose(READ(swapped, h, SHAPE), everything[:, :, :, ::-1], rtol=0, atol=1e-6)


def test_read_action():
    """The outputs of the actions alone, one for every network and input."""
    network, x = make(), inputs()
    action = np.random.default_rng(1).integers(ACTIONS, size=(K, BATCH))
    taken = np.array(READ_ACTION(network.heads, ENCODE(network, x), action, SHAPE))
    everything = np.array(all_outputs(network, x))
    assert taken.shape == (K, BATCH, *SHAPE)
    for k, b in np.ndindex(K, BATCH):
        np.testing.assert_allclose(taken[k, b], everything[k, b, action[k, b]], rtol=0, atol=1e-6)
    spoiled = poisoned(network, np.nan)
    np.testing.assert_array_equal(taken, READ_ACTION(spoiled.heads, ENCODE(spoiled, x), action, SHAPE))


# Gradients


def automatic_outputs(network, x):
    """The same networks without any rule of one's own."""
    h = jnp.broadcast_to(x, (K, *x.shape[-2:]))
    for layer in network.hidden:
        h = jnp.tanh(jnp.einsum("kbn,knm->kbm", h, layer.weight) + layer.bias[:, None])
    weight, bias = (part[..., : SHAPE.size].reshape(*part.shape[:-1], *SHAPE) for part in network.heads)
    return jnp.einsum("kbm,kmahj->kbahj", h, weight) + bias[:, None]


def plain_at_action(out, action):
    return jnp.take_along_axis(out, action[:, :, None, None, None], axis=2)[:, :, 0]


def taken_outputs(network, x, action):
    return read_action(network.heads, encode(network, x), action, SHAPE)


def assert_close(got, expected):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=0, atol=1e-12), got, expected)


def test_gradients_of_the_product():
    rng = np.random.default_rng(0)
    x, weight, slope = rng.normal(size=(K, 7, 4)), rng.normal(size=(K, 4, 5)), rng.normal(size=(K, 7, 5))
    with jax.enable_x64(True):
        by_hand, automatic = (
            jax.jit(jax.grad(lambda *both, f=f: jnp.sum(jnp.sin(f(*both)) * slope), (0, 1)))(x, weight)
            for f in (_product, partial(jnp.einsum, "kbn,knm->kbm"))
        )
        assert_close(by_hand, automatic)


def test_gradients_of_the_actions_taken():
    """Of weights and inputs, through the hidden layers, the heads and the choice of the action."""
    with jax.enable_x64(True):
        network, x = jax.tree.map(lambda leaf: leaf.astype(float), make()), inputs().astype(float)
        action = jnp.asarray(np.random.default_rng(2).integers(ACTIONS, size=(K, BATCH)))
        slope = jnp.asarray(np.random.default_rng(3).normal(size=(K, BATCH, 2, 5)))

        def ours(network, x):
            return jnp.sum(jnp.cos(taken_outputs(network, x, action)) * slope)

        def plain(network, x):
            return jnp.sum(jnp.cos(plain_at_action(automatic_outputs(network, x), action)) * slope)

        (value, got), (other, expected) = (jax.jit(jax.value_and_grad(f, (0, 1)))(network, x) for f in (ours, plain))
        assert value == pytest.approx(float(other), abs=1e-12)
        assert_close(got, expected)


def test_gradients_of_all_actions():
    with jax.enable_x64(True):
        network, x = jax.tree.map(lambda leaf: leaf.astype(float), make()), inputs().astype(float)
        got, expected = (
            jax.jit(jax.grad(lambda *both, f=f: jnp.sum(jnp.sin(f(*both))), (0, 1)))(network, x)
            for f in (lambda net, x: read_heads(net.heads, encode(net, x), SHAPE), automatic_outputs)
        )
        assert_close(got, expected)


def test_gradients_under_vmap():
    """Lanes are vmapped: the rules must batch."""
    with jax.enable_x64(True):
        networks = jax.tree.map(lambda *leaves: np.stack(leaves).astype(float), make(0), make(1))
        x = inputs((2, BATCH, INPUTS)).astype(float)
        action = jnp.asarray(np.random.default_rng(2).integers(ACTIONS, size=(2, K, BATCH)))

        def ours(network, x, action):
            return jnp.sum(taken_outputs(network, x, action) ** 2)

        def plain(network, x, action):
            return jnp.sum(plain_at_action(automatic_outputs(network, x), action) ** 2)

        got, expected = (jax.jit(jax.vmap(jax.grad(f)))(networks, x, action) for f in (ours, plain))
        assert_close(got, expected)


def test_the_twin_s_backpropagation_against_finite_differences():
    """The reference of the other tests is itself held to something."""
    (network, *_), x = plain_networks(make(), SHAPE), np.random.default_rng(0).normal(size=INPUTS)
    slope = np.random.default_rng(1).normal(size=(2, ACTIONS, 5))
    gradient = backward(network, forward(network, x)[1], slope)
    for array, by_hand in zip(flat(network), flat(gradient), strict=True):
        for place in np.ndindex(array.shape):
            kept, values = array[place], []
            for step in (1e-6, -1e-6):
                array[place] = kept + step
                values.append(np.sum(outputs(network, x) * slope))
            array[place] = kept
            assert by_hand[place] == pytest.approx((values[0] - values[1]) / 2e-6, abs=1e-8)


@pytest.mark.parametrize("width", [pytest.param(3, marks=pytest.mark.slow, id="spread"), pytest.param(40, id="picked")])
def test_both_ways_of_reading_one_action_agree_with_reading_all(width):
    """10 columns are filled up to 16: a width of 3 is below that, one of 40 above."""
    network = init_network(jax.random.key(0), SIZES._replace(widths=(width,)), SHAPE)
    action = jax.random.randint(jax.random.key(1), (K, BATCH), 0, ACTIONS)
    weights = jax.random.normal(jax.random.key(2), (K, BATCH, *SHAPE))

    def one(network):
        return jnp.sum(weights * read_action(network.heads, encode(network, inputs()), action, SHAPE) ** 2)

    def among_all(network):
        every = read_heads(network.heads, encode(network, inputs()), SHAPE)
        taken = jnp.stack([every[k, jnp.arange(BATCH), action[k]] for k in range(K)])
        return jnp.sum(weights * taken**2)

    (value, slope), (same_value, same_slope) = (jax.value_and_grad(f)(network) for f in (one, among_all))
    assert value == pytest.approx(float(same_value), rel=1e-5)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-5), slope, same_slope)


# --- beyond the paper: a first layer of sines, layers that all share


@pytest.mark.parametrize("shared", [False, True])
def test_sines_and_shared_layers_by_hand(shared):
    network = init_network(jax.random.key(1), SIZES._replace(frequency=2.0, shared=shared), SHAPE)
    assert [type(layer) for layer in network.hidden] == [Sines, Layer]
    assert np.std(network.hidden[0].weight) == pytest.approx(2.0, rel=0.5)
    plain = jax.tree.map(np.asarray, network)
    x = np.random.default_rng(0).normal(size=(BATCH, INPUTS)).astype(np.float32)
    found, in_numpy = np.asarray(all_outputs(network, x)), plain_outputs(plain, x, SHAPE)
    assert found.shape == in_numpy.shape == (K, BATCH, ACTIONS, *SHAPE)
    for k in range(K):
        of = 0 if shared else k
        first, second = ([part[of] for part in layer] for layer in plain.hidden)
        h = np.tanh(np.sin(x @ first[0] + first[1]) @ second[0] + second[1])
        expected = np.einsum("bm,max->bax", h, plain.heads.weight[k]) + plain.heads.bias[k]
        expected = expected[..., : SHAPE.size].reshape(BATCH, ACTIONS, *SHAPE)
        np.testing.assert_allclose(found[k], expected, atol=1e-4)
        np.testing.assert_allclose(in_numpy[k], expected, atol=1e-4)
        (one,) = (choose_policies(plain, slice(k, k + 1)),)
        np.testing.assert_allclose(plain_outputs(one, x, SHAPE)[0], expected, atol=1e-4)
    own = np.stack([x + k for k in range(K)])  # inputs of their own
    each = np.asarray(encode(network, own))
    for k in range(K):
        np.testing.assert_allclose(each[k], encode(network, own[k])[0 if shared else k], atol=1e-5)


def test_layers_that_all_share_are_computed_once_and_read_by_each():
    """All outputs, those of one action, and their gradients, against loops over the networks."""
    with jax.enable_x64(True):
        network = jax.tree.map(
            lambda leaf: np.random.default_rng(leaf.size).normal(size=leaf.shape),
            jax.eval_shape(lambda key: init_network(key, SIZES._replace(shared=True), SHAPE), jax.random.key(0)),
        )
        x, action = inputs().astype(float), np.random.default_rng(1).integers(ACTIONS, size=(K, BATCH))
        assert ENCODE(network, x).shape == (1, BATCH, WIDTHS[-1])

        def by_loops(network, k, b):
            h = x[b]
            for layer in network.hidden:
                h = jnp.tanh(h @ layer.weight[0] + layer.bias[0])
            weight, bias = (part[k, ..., : SHAPE.size] for part in network.heads)
            return (jnp.einsum("m,max->ax", h, weight) + bias).reshape(ACTIONS, *SHAPE)

        every, taken = all_outputs(network, x), READ_ACTION(network.heads, ENCODE(network, x), action, SHAPE)
        for k, b in np.ndindex(K, BATCH):
            expected = by_loops(network, k, b)
            np.testing.assert_allclose(every[k, b], expected, atol=1e-12)
            np.testing.assert_allclose(taken[k, b], expected[action[k, b]], atol=1e-12)

        def ours(network):
            return jnp.sum(jnp.sin(taken_outputs(network, x, action)))

        def plain(network):
            pairs = np.ndindex(K, BATCH)
            return sum(jnp.sum(jnp.sin(by_loops(network, k, b)[action[k, b]])) for k, b in pairs)

        assert_close(jax.jit(jax.grad(ours))(network), jax.jit(jax.grad(plain))(network))


def test_the_sine_is_one():
    x = np.linspace(-200.0, 200.0, 40_001).astype(np.float32)
    np.testing.assert_allclose(np.asarray(_sine(jnp.asarray(x))), np.sin(x.astype(np.float64)), atol=3e-5)
    slope = jax.vmap(jax.grad(_sine))(jnp.asarray(x[::100]))
    np.testing.assert_allclose(slope, np.cos(x[::100].astype(np.float64)), atol=2e-4)
