"""Networks that see a list of objects, against loops over its rows; how such lists are scaled."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from deep_twin import compiled_actions, create_agent, settings_of

from rasf.deep.agent import Tasks
from rasf.deep.algorithm import Scaling
from rasf.deep.clock import TIME_INPUTS
from rasf.deep.networks import (
    Each,
    Heads,
    Layer,
    Pairs,
    Sizes,
    choose_policies,
    encode,
    init_network,
    plain_encode,
    plain_outputs,
)
from rasf.deep.replay import Steps
from rasf.deep.stepped import Pace, SteppedLearner

K, OBJECTS, NUMBERS, BATCH, ACTIONS = 3, 4, 2, 6, 2
INPUTS = OBJECTS * NUMBERS
SHAPE = Heads(2, 3)  # 6 columns an action, filled up to 8
DEPTHS = [(6,), (6, 5), (6, 5, 7), (6, 5, 7, 4)]
ENCODE = jax.jit(encode)
close = partial(np.testing.assert_allclose, rtol=0, atol=1e-5)


def initial(widths, shared=False, timed=False):
    """What `init_network` makes of a key."""
    sizes = Sizes(K, INPUTS, widths, ACTIONS, shared=shared, objects=NUMBERS, timed=timed)
    return lambda key: init_network(key, sizes, SHAPE)


def make(widths, shared=False, seed=0, timed=False):
    """Networks in numpy, random in all they have: biases too, and the padding of the heads, which nobody may see."""
    shapes, rng = jax.eval_shape(initial(widths, shared, timed), jax.random.key(0)), np.random.default_rng(seed)
    return jax.tree.map(lambda leaf: rng.normal(size=leaf.shape).astype(np.float32), shapes)


def lists(*shape, seed=1):
    """Lists of objects (*shape, INPUTS), all of them somebody."""
    return np.random.default_rng(seed).normal(size=(*shape, INPUTS)).astype(np.float32)


def with_nobody(x):
    """The lists (B, INPUTS) with some rows of zeros.

    The third object is nobody in all of them, the second in some; the first list has its own only, the second all but
    its own, the last nobody at all.
    """
    rows = x.reshape(len(x), OBJECTS, NUMBERS).copy()
    rows[:, 2] = 0
    rows[::3, 1] = 0
    rows[0, 1:] = 0
    rows[1, 0] = 0
    rows[-1] = 0
    return rows.reshape(x.shape)


def encoded(layers, x):
    """Features (m,) of one list (n,): every object that is somebody beside the first, all but the last layer each.

    First weights of 2 NUMBERS + 1 rows see the last of the inputs too, which tells the time and is no object.
    """
    (first, bias), *others = layers
    timed = len(first) > 2 * NUMBERS
    objects, found = (x[:-TIME_INPUTS] if timed else x).reshape(-1, NUMBERS), []
    for one in objects:
        if not one.any():
            continue
        seen = [*objects[0], *one, *([x[-1]] if timed else [])]
        h = np.maximum(np.array(seen) @ first + bias, 0)
        for weight, more in others[:-1]:
            h = np.maximum(h @ weight + more, 0)
        found.append(h)
    widths = [len(more) for _, more in layers]
    h = np.zeros(widths[max(0, len(layers) - 2)])
    for one in found:
        h = np.maximum(h, one)
    for weight, more in others[-1:]:
        h = np.maximum(h @ weight + more, 0)
    return h


def by_loops(network, x):
    """`encode`, one network and list at a time, in double precision; layers that all share once, for one list each."""
    found, several = [], len(network.hidden[0].weight)
    for k in range(K if x.ndim == 3 else several):
        of = k if several == K else 0
        layers = [(layer.weight[of].astype(float), layer.bias[of].astype(float)) for layer in network.hidden]
        found.append([encoded(layers, one) for one in (x[k] if x.ndim == 3 else x).astype(float)])
    return np.array(found)


def outputs_by_loops(network, x):
    """`plain_outputs` of what the loops give."""
    weight, bias = (part[..., : SHAPE.size].astype(float) for part in network.heads)
    h = np.broadcast_to(by_loops(network, x), (K, len(x), weight.shape[1]))
    out = np.einsum("kbm,kmax->kbax", h, weight) + bias[:, None]
    return out.reshape(*out.shape[:-1], *SHAPE)


@pytest.mark.parametrize(
    ("widths", "kinds"),
    [
        ((6,), [Pairs]),
        ((6, 5), [Pairs, Layer]),
        ((6, 5, 7), [Pairs, Each, Layer]),
        ((6, 5, 7, 4), [Pairs, Each, Each, Layer]),
    ],
)
def test_all_layers_but_the_last_see_each_object(widths, kinds):
    network = jax.eval_shape(initial(widths), jax.random.key(0))
    assert [type(layer) for layer in network.hidden] == kinds
    assert [layer.weight.shape for layer in network.hidden] == [
        (K, n, m) for n, m in zip((2 * NUMBERS, *widths), widths, strict=False)
    ]
    assert network.hidden[0].numbers == NUMBERS
    assert network.heads.weight.shape == (K, widths[-1], ACTIONS, 8)


def test_bounds_of_the_first_weights_count_a_pair_of_objects():
    network = jax.jit(initial((400,), shared=True))(jax.random.key(3))
    assert network.hidden[0].weight.shape == (1, 2 * NUMBERS, 400)
    bound = np.sqrt(6 / (2 * NUMBERS + 400))
    assert 0.99 < np.abs(network.hidden[0].weight).max() / bound <= 1
    assert all((np.asarray(layer.bias) == 0).all() for layer in network.hidden)


@pytest.mark.parametrize("widths", DEPTHS)
@pytest.mark.parametrize("shared", [False, True], ids=["own", "shared"])
def test_networks_are_loops_over_objects(widths, shared):
    network = make(widths, shared)
    for x in (lists(BATCH), with_nobody(lists(BATCH)), np.zeros((BATCH, INPUTS), np.float32)):
        expected = by_loops(network, x)
        assert expected.shape == (1 if shared else K, len(x), widths[-1])
        close(ENCODE(network, x), expected)
        in_numpy = plain_encode(network, x)
        assert in_numpy.dtype == np.float32
        close(np.broadcast_to(in_numpy, expected.shape), expected)
        heads = outputs_by_loops(network, x)
        close(plain_outputs(network, x, SHAPE), heads, atol=1e-4)
        close(plain_outputs(choose_policies(network, slice(1, 2)), x, SHAPE)[0], heads[1], atol=1e-4)


@pytest.mark.parametrize("widths", DEPTHS)
@pytest.mark.parametrize("shared", [False, True], ids=["own", "shared"])
def test_every_network_may_have_lists_of_its_own(widths, shared):
    network, x = make(widths, shared), lists(K, BATCH)
    x[1] = with_nobody(x[1])
    close(ENCODE(network, x), by_loops(network, x))


@pytest.mark.parametrize(("widths", "shared"), [(DEPTHS[0], False), (DEPTHS[2], True)])
def test_the_time_is_no_object_and_is_seen_beside_each(widths, shared):
    """Networks with a row more in their first layer: the last input goes there, the one before is not read."""
    network, rng = make(widths, shared, timed=True), np.random.default_rng(7)
    assert network.hidden[0].timed
    assert network.hidden[0].numbers == NUMBERS
    for listed in (lists(BATCH), with_nobody(lists(BATCH)), np.zeros((BATCH, INPUTS), np.float32)):
        time = rng.normal(size=(BATCH, TIME_INPUTS)).astype(np.float32)
        x, other = np.concatenate([listed, time], axis=1), np.concatenate([listed, time + np.array([1, 0])], axis=1)
        expected = by_loops(network, x)
        close(ENCODE(network, x), expected)
        close(ENCODE(network, other.astype(np.float32)), expected)
        close(plain_encode(network, x), expected)
        close(plain_outputs(network, x, SHAPE), outputs_by_loops(network, x), atol=1e-4)
    each = np.concatenate([lists(K, BATCH), rng.normal(size=(K, BATCH, TIME_INPUTS)).astype(np.float32)], axis=2)
    close(ENCODE(network, each), by_loops(network, each))
    assert jax.eval_shape(initial(widths, shared, timed=True), jax.random.key(0)).hidden[0].weight.shape[1] == 5


@pytest.mark.parametrize("widths", DEPTHS)
def test_one_list_alone_says_what_it_says_among_others(widths):
    """In numpy, rows that are nobody in all lists are left out: which ones depends on the company."""
    network, x = make(widths), with_nobody(lists(BATCH))
    together = plain_outputs(network, x, SHAPE)
    for b in range(BATCH):
        close(plain_outputs(network, x[b : b + 1], SHAPE)[:, 0], together[:, b])


@pytest.mark.parametrize("widths", DEPTHS)
def test_only_the_place_of_the_first_object_matters(widths):
    network, rows = make(widths), with_nobody(lists(BATCH)).reshape(BATCH, OBJECTS, NUMBERS)
    x = rows.reshape(BATCH, -1)
    expected = np.asarray(ENCODE(network, x))
    for order in ([0, 3, 1, 2], [0, 2, 3, 1]):
        moved = rows[:, order].reshape(BATCH, -1)
        close(ENCODE(network, moved), expected, atol=1e-6)
        close(plain_encode(network, moved), expected)
    swapped = rows[:, [1, 0, 2, 3]].reshape(BATCH, -1)
    assert np.abs(ENCODE(network, swapped) - expected)[:, 2:-1].max() > 0.1


@pytest.mark.parametrize("widths", DEPTHS)
def test_nobody_changes_nothing(widths):
    """A row of zeros more, at the end or in between, and the same object listed twice."""
    network, rows = make(widths), lists(BATCH).reshape(BATCH, OBJECTS, NUMBERS)
    expected, nobody = np.asarray(ENCODE(network, rows.reshape(BATCH, -1))), np.zeros((BATCH, 1, NUMBERS), np.float32)
    for more in ([rows, nobody], [rows[:, :1], nobody, rows[:, 1:]], [rows, rows[:, 1:2]]):
        x = np.concatenate(more, axis=1).reshape(BATCH, -1)
        close(ENCODE(network, x), expected, atol=1e-6)
        close(plain_encode(network, x), expected)


@pytest.mark.parametrize(("widths", "shared"), [(DEPTHS[0], False), (DEPTHS[3], False), (DEPTHS[2], True)])
def test_gradients_are_finite_and_those_of_the_loops(widths, shared):
    """Along a random direction; objects that are nobody, lists of nobody."""
    network, x = make(widths, shared), with_nobody(lists(BATCH))
    slope = np.random.default_rng(4).normal(size=(1 if shared else K, BATCH, widths[-1]))
    gradient = jax.jit(jax.grad(lambda net, x: jnp.sum(slope * encode(net, x)), (0, 1)))
    found, direction = gradient(network, x), make(widths, shared, seed=5)
    for everything in (found, gradient(network, np.zeros_like(x))):
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(everything))
    along = sum(np.vdot(a, b) for a, b in zip(*map(jax.tree.leaves, (found[0], direction)), strict=True))
    ahead, behind = (
        by_loops(jax.tree.map(lambda at, to, step=step: at + step * to.astype(float), network, direction), x)
        for step in (1e-6, -1e-6)
    )
    assert along == pytest.approx(np.sum(slope * (ahead - behind)) / 2e-6, rel=1e-3, abs=1e-3)


# Scaling


TASKS = Tasks.of([[1.0, -0.5], [0.3, 1.0]])


def agent_of(name="sfdqn", inputs=INPUTS, limit=0, **changes):
    settings = settings_of(name, widths=(6, 5), **{"objects": NUMBERS, **changes})
    return create_agent(settings, inputs, 5, np.array([(-1.0, 1.0)] * 2), TASKS, limit=limit)


def scaling_of(obs, phi=((0.0, 3.0), (0.0, 3.0)), **changes):
    """Scaling by observations (n, m) as networks see them: with the inputs of time, where there is a limit."""
    steps = Steps(np.asarray(obs, np.float32), None, np.array(phi), None, None, None, None)
    listed = np.shape(obs)[1] - (TIME_INPUTS if changes.get("limit") else 0)
    return Scaling.of(agent_of(inputs=listed, **changes), steps)


def test_numbers_of_all_objects_are_brought_to_size_one_alike():
    """Two are somebody, (3, 4, 0) and (-3, 0, 0); what never came is left as it is."""
    obs = [[3.0, 4.0, 0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, -3.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0, 0.0, 0.0]]
    scaling = scaling_of(obs, gamma=0.5, objects=3)
    factor = [1 / np.sqrt(9.0), 1 / np.sqrt(8.0), 1.0]
    np.testing.assert_allclose(scaling.factor, factor * 2, rtol=1e-6)
    np.testing.assert_array_equal(scaling.shift, np.zeros(6))
    np.testing.assert_allclose(scaling.units, [1.0, 6.0])  # as without objects
    np.testing.assert_allclose(scaling_of(obs, name="rasfc51", objects=3).units, 1.0)
    assert all(part.dtype == np.float32 for part in scaling)


def test_nobody_stays_nobody():
    x = with_nobody(100.0 + 30.0 * lists(50))
    scaled = scaling_of(x).inputs(x)
    np.testing.assert_array_equal(scaled.reshape(-1, NUMBERS).any(axis=1), x.reshape(-1, NUMBERS).any(axis=1))
    somebody = scaled.reshape(-1, NUMBERS)[x.reshape(-1, NUMBERS).any(axis=1)]
    np.testing.assert_allclose((somebody**2).mean(axis=0), 1.0, rtol=1e-4)
    nobody = scaling_of(np.zeros((3, INPUTS)))
    np.testing.assert_array_equal(nobody.factor, np.ones(INPUTS))


@pytest.mark.parametrize("widths", DEPTHS)
@pytest.mark.parametrize("shared", [False, True], ids=["own", "shared"])
def test_a_folded_network_takes_lists_as_they_come(widths, shared):
    network, x = make(widths, shared), with_nobody(lists(BATCH) * np.tile([40.0, 0.01], OBJECTS).astype(np.float32))
    scaling = scaling_of(x, name="rasfc51")
    (folded,) = scaling.unscaled(agent_of("rasfc51"), (network,))
    assert [type(layer) for layer in folded.hidden] == [type(layer) for layer in network.hidden]
    assert all(part.dtype == np.float32 for part in jax.tree.leaves(folded))
    close(plain_encode(folded, x), plain_encode(network, scaling.inputs(x)))
    close(ENCODE(folded, x), by_loops(network, scaling.inputs(x)))


@pytest.mark.parametrize(("widths", "shared"), [(DEPTHS[0], False), (DEPTHS[2], True)])
def test_a_folded_network_takes_the_time_as_it_is(widths, shared):
    network, limit = make(widths, shared, timed=True), 20
    agent = agent_of("sfdqn", limit=limit, horizon="episode")
    listed = with_nobody(lists(BATCH) * np.tile([40.0, 0.01], OBJECTS).astype(np.float32))
    x = agent.with_time(listed, np.arange(BATCH) * 3)
    scaling = scaling_of(x, limit=limit, horizon="episode")
    np.testing.assert_array_equal(scaling.inputs(x)[:, -TIME_INPUTS:], x[:, -TIME_INPUTS:])
    np.testing.assert_array_equal(scaling.factor[:-TIME_INPUTS], scaling_of(listed).factor)
    (folded,) = scaling.unscaled(agent_of("rasfc51"), (network,))
    assert all(part.dtype == np.float32 for part in jax.tree.leaves(folded))
    close(plain_encode(folded, x), plain_encode(network, scaling.inputs(x)))
    close(ENCODE(folded, x), by_loops(network, scaling.inputs(x)))


def test_a_learner_acts_by_scaled_objects_as_its_networks_do_by_plain_ones():
    """After a warm-up: the compiled choice, which scales what it sees, and the one in numpy, which is folded."""
    agent = agent_of(warmup=20, epsilon=0.0)
    learner = SteppedLearner(agent, TASKS, 0.0, 0, Pace(BATCH, 100))
    scale, rng = np.tile([40.0, 0.01], OBJECTS).astype(np.float32), np.random.default_rng(0)
    warm, chosen = 0, []
    while warm < 20:
        x, phi = with_nobody(lists(BATCH, seed=warm) * scale), rng.normal(size=(BATCH, 2))
        learner.act(x)
        learner.observe(x, phi, np.zeros(BATCH, bool), np.ones(BATCH, bool))
        warm += BATCH
    np.testing.assert_array_equal(learner._scaling.shift, np.zeros(INPUTS))
    np.testing.assert_array_equal(learner._scaling.factor, np.tile(learner._scaling.factor[:NUMBERS], OBJECTS))
    assert learner._scaling.factor[0] < 0.1 < 10 < learner._scaling.factor[1]
    for seed in range(100, 110):
        x = with_nobody(lists(BATCH, seed=seed) * scale)
        chosen.append(learner.act(x))
        np.testing.assert_array_equal(chosen[-1], compiled_actions(learner, TASKS, 0.0))
    assert len(np.unique(chosen)) > 1
