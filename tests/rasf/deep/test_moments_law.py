"""Mean and variance of each feature by one network: its loss, its scores, its fixed point, and a library of it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from deep_twin import categorical_projection, create_agent, settings_of, softmax, unbounded

import rasf
from rasf import MeanVariance
from rasf.deep.agent import Tasks
from rasf.deep.laws import Histogram, MeanCovariance, MeanOnly, MeanVariances, Within
from rasf.deep.networks import Heads, encode, init_network, plain_outputs, read_heads
from rasf.library.networks.policies import NetworkPolicies

TASKS = Tasks(np.array([[1.0, -0.5, 0.0], [0.3, 2.0, -1.0]]), np.zeros((2, 0)))
K, B, A, D = 2, 4, 3, 3
ATOMS = np.array([np.linspace(-2.0, 2.0, 5), np.linspace(0.0, 4.0, 5), np.linspace(-6.0, 2.0, 5)])
HISTOGRAM = Histogram(tuple(map(tuple, ATOMS.tolist())))


def losses_of(law, chosen, following, phi, discount, within=None):
    """Losses in numpy."""
    return jax.tree.map(np.asarray, law.losses(chosen, following, phi, discount, within or unbounded(D)))


def test_the_loss_of_logarithms_by_hand():
    rng = np.random.default_rng(0)
    chosen, following = rng.normal(size=(2, K, B, 2, D))
    phi, discount = np.abs(rng.normal(size=(B, D))), np.array([0.9, 0.0, 0.9, 0.9])
    expected = 0.0
    for k in range(K):
        for b in range(B):
            for i in range(D):
                said, mean_after = chosen[k, b, 0, i], following[k, b, 0, i]
                if i == 1:
                    target = phi[b, i] + discount[b] * np.exp(mean_after)
                    expected += np.exp(said) - target * said
                    delta = target - np.exp(said)
                else:
                    delta = phi[b, i] + discount[b] * mean_after - said
                    expected += delta**2 / 2
                spread = delta**2 + discount[b] ** 2 * np.exp(following[k, b, 1, i])
                expected += np.exp(chosen[k, b, 1, i]) - spread * chosen[k, b, 1, i]
    with jax.enable_x64(True):
        found = losses_of(MeanVariances(D, (1,)), (chosen,), (following,), phi, discount)
    assert np.mean(found.each) == pytest.approx(expected / B)
    assert np.asarray(found.clipped).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("law", [MeanOnly(D), MeanCovariance(D), MeanVariances(D)])
def test_the_error_of_a_transition_is_how_far_off_the_means_were(law):
    rng = np.random.default_rng(0)
    chosen, following = (tuple(rng.normal(size=(K, B, *shape)) for shape in law.shapes()) for _ in range(2))
    phi, discount = rng.normal(size=(B, D)), np.full(B, 0.9)
    with jax.enable_x64(True):
        found = losses_of(law, chosen, following, phi, discount)
    off = phi + 0.9 * following[0][:, :, 0] - chosen[0][:, :, 0]
    np.testing.assert_allclose(found.error, np.linalg.norm(off, axis=-1).mean(axis=0))
    assert found.each.shape == (B,)


@pytest.mark.parametrize("law", [MeanOnly(D), MeanCovariance(D), MeanVariances(D, (1,)), HISTOGRAM])
def test_policies_may_have_features_and_discounts_of_their_own(law):
    """(K, B, d) and (K, B) instead of (B, d) and (B,): the losses are those of each policy alone, added up."""
    rng = np.random.default_rng(0)
    chosen, following = (tuple(rng.normal(size=(K, B, *shape)) for shape in law.shapes()) for _ in range(2))
    phi, discount = np.abs(rng.normal(size=(K, B, D))), rng.uniform(0, 0.9, size=(K, B))
    with jax.enable_x64(True):
        found = losses_of(law, chosen, following, phi, discount)
        alone = [
            losses_of(law, *([part[k : k + 1] for part in of] for of in (chosen, following)), phi[k], discount[k])
            for k in range(K)
        ]
    np.testing.assert_allclose(found.each, sum(one.each for one in alone))
    np.testing.assert_allclose(found.error, sum(one.error for one in alone) / K)
    np.testing.assert_allclose(found.clipped, sum(one.clipped for one in alone) / K)


def test_the_error_of_histograms_is_their_divergence_from_the_projection():
    rng = np.random.default_rng(0)
    chosen, following = rng.normal(size=(2, K, B, D, 5))
    phi, discount = rng.normal(size=(B, D)), np.array([0.9, 0.0, 0.9, 0.9])
    with jax.enable_x64(True):
        found = losses_of(HISTOGRAM, (chosen,), (following,), phi, discount)
    losses, errors = np.zeros(B), np.zeros(B)
    for k, b, i in np.ndindex(K, B, D):
        wanted = categorical_projection(softmax(following[k, b, i]), phi[b, i], discount[b], ATOMS[i])
        p = softmax(chosen[k, b, i])
        losses[b] -= wanted @ np.log(p)
        errors[b] += sum(m * np.log(m / q) for m, q in zip(wanted, p, strict=True) if m > 1e-15) / K
    np.testing.assert_allclose(found.each, losses)
    np.testing.assert_allclose(found.error, errors, atol=1e-9)


def test_targets_are_clipped_to_the_bounds_of_returns():
    """By hand: the values at the next state are clipped, and no slope is larger than the bounds allow."""
    rng = np.random.default_rng(0)
    chosen, following = 6 * rng.normal(size=(2, K, B, 2, D))
    low, high = np.array([-2.0, 0.0, -1.0]), np.array([3.0, 1.5, 0.0])
    phi, discount = rng.uniform(low / 10, high / 10, (B, D)), np.array([0.9, 0.0, 0.9, 0.9])
    expected = 0.0
    for k, b, i in np.ndindex(K, B, D):
        now, later = ((np.exp(o[k, b, 0, i]) if i == 1 else o[k, b, 0, i]) for o in (chosen, following))
        target = phi[b, i] + discount[b] * np.clip(later, low[i], high[i])
        span = (high[i] - low[i]) ** 2
        spread = (target - np.clip(now, low[i], high[i])) ** 2
        spread += discount[b] ** 2 * min(np.exp(following[k, b, 1, i]), span / 4)
        lines = [(chosen[k, b, 1, i], spread, 1.25 * span)]
        if i == 1:
            lines.append((chosen[k, b, 0, i], target, high[i]))
        else:
            expected += (target - now) ** 2 / 2
        for said, wanted, most in lines:
            assert wanted <= max(most, 1.0)
            top = np.log(max(most, 1.0))
            expected += (
                np.exp(said) - wanted * said if said < top else max(most, 1.0) * (1 + said - top) - wanted * said
            )
    with jax.enable_x64(True):
        law, within = MeanVariances(D, (1,)), Within(low, high)
        found = losses_of(law, (chosen,), (following,), phi, discount, within)
        slope = jax.grad(lambda out: law.losses((out,), (following,), phi, discount, within).each.mean())(chosen)
    assert np.mean(found.each) == pytest.approx(expected / B)
    assert np.abs(slope[:, :, 1]).max() <= 1.25 * 25 / B
    assert np.abs(slope[:, :, 0, 1]).max() <= 1.5 / B


def test_what_is_far_too_large_is_drawn_back():
    chosen, following = np.full((1, 1, 2, 1), 40.0), np.zeros((1, 1, 2, 1))
    law, given = MeanVariances(1), (np.zeros((1, 1)), np.zeros(1), unbounded(1))
    slope = jax.grad(lambda out: law.losses((out,), (following,), *given).each.sum())(jnp.asarray(chosen))
    assert slope[0, 0, 1, 0] > 0


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("events", [(), (1,), (0, 2)])
def test_scores_of_logarithms_by_hand(shared, events):
    """In jax with the features that matter, in numpy, and of a task that weighs nothing."""
    law, x = MeanVariances(D, events), np.random.default_rng(1).normal(size=(B, 3)).astype(np.float32)
    w = np.array([[1.0, -0.5, 0.0], [0.0, 2.0, -1.0]], np.float32)
    network = init_network(jax.random.key(2), K, 3, (6, 5), A, law.shapes()[0], shared=shared, frequency=0.5)
    assert law.shapes() == (Heads(2, D),)
    assert len(network.hidden[0].weight) == (1 if shared else K)
    outputs = plain_outputs(jax.tree.map(np.asarray, network), x, law.shapes()[0])
    heads = law.task_heads((network,), jnp.asarray(w), 2)
    (shape,) = law.task_shapes(heads)
    assert shape == Heads(1, 1 + len(events) + 2)
    folded = (read_heads(heads.networks[0].heads, encode(heads.networks[0], x), shape),)
    scores = np.asarray(law.scores(folded, heads, MeanVariance(-3.0)))
    each = np.asarray(law.scores_by_each(folded, heads, MeanVariance, jnp.array([-3.0, 1.0])))

    def expected(k, b, a, w, factor=-1.5):
        said = outputs[k, b, a, 0]
        means = [np.exp(said[i]) if i in events else said[i] for i in range(D)]
        return w @ means + factor * (w**2 @ np.exp(outputs[k, b, a, 1]))

    for one in (w[0], w[1], np.zeros(D, np.float32)):
        plain_heads = law.plain_heads(jax.tree.map(np.asarray, (network,)), one)
        read = plain_outputs(plain_heads.networks[0], x, law.task_shapes(plain_heads)[0])
        plain = law.scores((read,), plain_heads, MeanVariance(-3.0))
        assert isinstance(plain, np.ndarray)
        for k, b, a in np.ndindex(K, B, A):
            assert plain[k, b, a] == pytest.approx(expected(k, b, a, one), abs=1e-4)
    for k, b, a in np.ndindex(K, B, A):
        assert scores[k, b, a] == pytest.approx(expected(k, b, a, w[k]), abs=1e-4)
        assert each[k, b, a] == pytest.approx(expected(k, b, a, w[k], (-1.5, 0.5)[k]), abs=1e-4)


@pytest.mark.parametrize("law", [MeanOnly(D), MeanCovariance(D), MeanVariances(D), MeanVariances(D, (1,))])
def test_networks_that_learned_in_units_say_what_plain_ones_would(law):
    """Moments of features in units u for the weights u w are those of plain features for w."""
    units, x = np.array([2.0, 0.5, 10.0][:D], np.float32), np.ones((B, 3), np.float32)
    networks = tuple(
        jax.tree.map(np.asarray, init_network(jax.random.key(k), K, 3, (4,), A, shape))
        for k, shape in enumerate(law.shapes())
    )

    def moments(of, w):
        heads = law.plain_heads(of, w)
        pairs = zip(heads.networks, law.task_shapes(heads), strict=True)
        return law.moments(tuple(plain_outputs(one, x, shape) for one, shape in pairs), heads)

    w = np.array([1.0, -2.0, 0.3][:D], np.float32)
    for ours, theirs in zip(moments(law.in_units(networks, units), w), moments(networks, units * w), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("events", [(), (0, 2)])
def test_a_library_scores_as_the_agent_does_and_comes_back_from_its_arrays(events):
    settings = settings_of("rasfdqn", widths=(5, 4), events=events)
    agent = create_agent(settings, 2, A, [(-1.0, 1.0)] * D, TASKS)
    networks = jax.jit(agent.init)(jax.random.key(0)).online
    sources = NetworkPolicies.from_agent(agent, networks)
    again = NetworkPolicies.restore(sources.describe(), sources.arrays())
    obs, w, risk = (
        np.random.default_rng(2).normal(size=(6, 2)).astype(np.float32),
        np.array([0.7, 0.0, -2.0]),
        MeanVariance(-2.0),
    )
    expected = agent.scores(agent.task_heads(networks, jnp.asarray(w, jnp.float32)), obs, np.zeros(0), risk)
    for one in (sources, again):
        np.testing.assert_allclose(one.scores(obs, w, risk).values, expected, atol=1e-5)
        actions = one.act(obs, w, risk)
        assert [one.act_one(each, w, risk) for each in obs] == actions.tolist()
    with pytest.raises(ValueError, match="risk must"):
        sources.check(rasf.Entropic(-1.0))


@pytest.mark.slow
def test_the_agent_learns_from_python(tmp_path):
    """One action earns 1 for sure, the other 3 or nothing, by a fair coin: mean 1.5, standard deviation 1.5."""
    from coin_world import Coin

    library = rasf.learn(
        Coin(), agent="rasfdqn", tasks=[[1.0, 0.0]], risk=[MeanVariance(0.0), MeanVariance(-2.0)], steps_per_task=1_500,
        widths=(16,), learning_rate=5e-3, batch=32, average=100, epsilon=1.0, gamma=0.5,
    )  # fmt: skip
    library.save(tmp_path / "coin.rasf")
    again = rasf.load(tmp_path / "coin.rasf")
    assert again.agent == "rasfdqn"
    found = again.scores(0, [1.0, 0.0], MeanVariance(-2.0))
    for k in range(2):
        np.testing.assert_allclose(found.mean[k], [1.0, 1.5], atol=0.35)
        np.testing.assert_allclose(found.std[k], [0.0, 1.5], atol=0.5)
    assert [again.act(0, [1.0, 0.0], MeanVariance(beta)) for beta in (0.0, -2.0)] == [1, 0]
    np.testing.assert_array_equal(found.values, library.scores(0, [1.0, 0.0], MeanVariance(-2.0)).values)


def test_events_are_named_by_once_and_never_negative():
    from coin_world import Coin

    options = {
        "agent": "rasfdqn",
        "tasks": [[1.0, -1.0]],
        "steps_per_task": 60,
        "widths": (4,),
        "batch": 8,
        "warmup": 20,
    }
    library = rasf.learn(Coin(), once=[1], **options)
    assert library.sources.law.events == (1,)
    assert library.sources.describe()["events"] == [1]
    assert rasf.learn(Coin(), **options).sources.law.events == ()
    more = {name: value for name, value in options.items() if name not in ("tasks", "agent", "widths")}
    assert library.grow(Coin(), [[1.0, 0.0]], **more).sources.law.events == (1,)
    with pytest.raises(ValueError, match="events must never be negative, got -"):
        rasf.learn(Coin(), events=(0,), phi=lambda *_: [-1.0, 0.0], **options)
