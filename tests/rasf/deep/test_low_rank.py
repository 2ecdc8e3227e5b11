"""Mean and covariance of low rank: losses, scores, units and bounds by loops; and a library of it."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from deep_twin import (
    LowRankGiven,
    bounds_of,
    categorical_projection,
    create_agent,
    joined_rows,
    low_rank_moments,
    low_rank_rows,
    low_rank_slopes,
    parts_of_rows,
    plain_means,
    settings_of,
    softmax,
    unbounded,
)
from hypothesis import given
from hypothesis import strategies as st

import rasf
from random_mdps import examples
from rasf import MeanVariance
from rasf.deep import low_rank
from rasf.deep.agent import Tasks
from rasf.deep.laws import Histogram, MeanCovariance, MeanOnly, Transition, Within
from rasf.deep.low_rank import MeanLowRank, poisson_loss
from rasf.deep.networks import Heads, Sizes, encode, init_network, plain_outputs, read_heads
from rasf.library.networks.actor_policies import policies_of
from rasf.library.networks.policies import NetworkPolicies

TASKS = Tasks(np.array([[1.0, -0.5, 0.0], [0.3, 2.0, -1.0]]), np.zeros((2, 0)))
K, B, A, D = 2, 4, 3, 3
ATOMS = np.array([np.linspace(-2.0, 2.0, 5), np.linspace(0.0, 4.0, 5), np.linspace(-6.0, 2.0, 5)])
HISTOGRAM = Histogram(tuple(map(tuple, ATOMS.tolist())))
PLAIN, WITH_EVENT = MeanLowRank(D, (), 2), MeanLowRank(D, (1,), 2)
TIMED = MeanLowRank(D, (1,), 1, timed=True)
LAWS = [PLAIN, WITH_EVENT, MeanLowRank(D), MeanLowRank(D, (0, 2), 1), TIMED, MeanLowRank(D, (), 2, timed=True),
        MeanLowRank(D, (1,), 1, timed=True, mean_networks=1)]  # fmt: skip


def rows_of(law):
    return 1 + law.rank + law.mean_networks * (1 + law.timed)


def transition(phi, discount, within=None, longest=(5.0, 4.0), spread=None):
    """What a batch gives to policies for the tasks here."""
    within, spread = within or unbounded(D), np.ones(D) if spread is None else spread
    here, there = (within.bounds(np.full(np.shape(discount), one)) for one in longest)
    if phi.ndim == 3:  # at the first state the bounds are those of all policies
        here = within.bounds(np.full(phi.shape[1], longest[0]))
    return Transition(phi, discount, here, there, TASKS.weights, spread)


def losses_of(law, chosen, following, phi, discount, within=None):
    """Losses in numpy."""
    return jax.tree.map(np.asarray, law.losses(chosen, following, transition(phi, discount, within)))


# Losses


WITHIN = Within(np.array([-0.5, 0.0, -0.2]), np.array([0.7, 0.4, 0.0]), np.array([1.0, 0.0, 1.0]))


@pytest.mark.parametrize("within", [unbounded(D), WITHIN], ids=["unbounded", "bounded"])
@pytest.mark.parametrize("scale", [1.0, 6.0])
@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_losses_and_slopes_by_loops(law, scale, within):
    """Also of outputs far beyond what can be, of features with other spreads, and with little time left."""
    rng = np.random.default_rng(0)
    chosen, following = scale * rng.normal(size=(2, K, B, rows_of(law), D))
    phi, discount = np.abs(rng.normal(size=(B, D))), np.array([0.9, 0.0, 0.9, 0.5])
    spread, longest = np.array([0.5, 1.0, 3.0]), (5.0, 4.0)
    shares = rng.uniform(size=(2, B)) if law.timed else np.ones((2, B))
    given = transition(phi, discount, within, longest, spread)

    def loss(out):
        now, later = (
            law.at_time(parts_of_rows(law, one), at) for one, at in zip((out, following), shares, strict=True)
        )
        found = law.losses(now, later, given)
        return found.each.sum(), found

    with jax.enable_x64(True):
        slope, found = jax.jit(jax.grad(loss, has_aux=True))(chosen)
    bounds = [bounds_of(within, one) for one in longest]
    expected, errors = np.zeros(B), np.zeros(B)
    for k, b in np.ndindex(K, B):
        one = LowRankGiven(
            phi[b], discount[b], *bounds, TASKS.weights, spread, TASKS.weights[k], shares[0, b], shares[1, b]
        )
        of_outputs, value, delta = low_rank_slopes(SimpleNamespace(law=law), chosen[k, b], following[k, b], one)
        np.testing.assert_allclose(slope[k, b], of_outputs, rtol=1e-9, atol=1e-9)
        expected[b] += value
        errors[b] += np.linalg.norm(delta) / K
    np.testing.assert_allclose(found.each, expected, rtol=1e-10)
    np.testing.assert_allclose(found.error, errors, rtol=1e-10)
    assert np.asarray(found.clipped).tolist() == [0.0, 0.0]


def test_the_loss_of_one_feature_by_hand():
    """One feature, no factors: the direction of the feature, two random ones and the task's are all 1 or -1."""
    law, (log, after) = MeanLowRank(1), (np.log(2.0), np.log(0.25))
    (first, second), (lower, higher) = (1.0, 2.0), (0.1, 0.5)  # means of the two networks at (s, a) and at (s', a')
    chosen, following = (np.array(rows).reshape(1, 1, 3, 1) for rows in ((first, log, second), (higher, after, lower)))
    within = unbounded(1).bounds(np.ones(1))
    for sign in (1.0, -1.0):  # with a negative weight the larger mean gives the lower return
        w = np.full((1, 1), sign)
        given = Transition(np.full((1, 1), 3.0), np.full(1, 0.8), within, within, w, np.ones(1))
        with jax.enable_x64(True):
            found = law.losses(parts_of_rows(law, chosen), parts_of_rows(law, following), given)
        target = 3.0 + 0.8 * (0.75 * lower + 0.25 * higher if sign > 0 else 0.75 * higher + 0.25 * lower)
        delta = target - (first + second) / 2
        e, t = low_rank._FLOOR, delta**2 + 0.8**2 * 0.25
        expected = ((target - first) ** 2 + (target - second) ** 2) / 2 + (t + e) / (2.0 + e) + np.log(2.0 + e)
        np.testing.assert_allclose(found.each, [expected], rtol=1e-6)
        np.testing.assert_allclose(found.error, [delta], rtol=1e-6)


@pytest.mark.parametrize("law", [MeanOnly(D), MeanCovariance(D), MeanLowRank(D, (1,), 2, mean_networks=1)])
def test_the_error_of_a_transition_is_how_far_off_the_means_were(law):
    rng = np.random.default_rng(0)
    chosen, following = (tuple(rng.normal(size=(K, B, *shape)) for shape in law.shapes()) for _ in range(2))
    phi, discount = rng.normal(size=(B, D)), np.full(B, 0.9)
    with jax.enable_x64(True):
        found = losses_of(law, chosen, following, phi, discount)
    event = np.isin(np.arange(D), getattr(law, "events", ()))
    now, later = (np.where(event, np.exp(part[0][:, :, 0]), part[0][:, :, 0]) for part in (chosen, following))
    off = phi + 0.9 * later - now
    np.testing.assert_allclose(found.error, np.linalg.norm(off, axis=-1).mean(axis=0))
    assert found.each.shape == (B,)


@pytest.mark.parametrize("law", [MeanOnly(D), MeanCovariance(D), PLAIN, WITH_EVENT, HISTOGRAM])
def test_policies_may_have_features_and_discounts_of_their_own(law):
    """(K, B, d) and (K, B) instead of (B, d) and (B,).

    Losses of K policies are sums: those of two policies with their own sums of features, plus those with the sums
    exchanged, equal those with the first sum for both plus those with the second for both.
    """
    rng = np.random.default_rng(0)
    chosen, following = (tuple(rng.normal(size=(K, B, *shape)) for shape in law.shapes()) for _ in range(2))
    phi, discount = np.abs(rng.normal(size=(K, B, D))), rng.uniform(0, 0.9, size=(K, B))
    with jax.enable_x64(True):
        own = [losses_of(law, chosen, following, phi[at], discount[at], WITHIN) for at in ([0, 1], [1, 0])]
        same = [losses_of(law, chosen, following, phi[k], discount[k], WITHIN) for k in range(K)]
    for name in ("each", "error", "clipped"):
        mine, theirs = (sum(getattr(one, name) for one in some) for some in (own, same))
        np.testing.assert_allclose(mine, theirs, atol=1e-12)
    assert not np.allclose(own[0].each, same[0].each)


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


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_outputs_of_any_size_are_learned_from(law):
    """Losses and slopes are finite in single precision, and what is far too large is drawn back."""
    small = Within(np.zeros(D, np.float32), np.full(D, 0.1, np.float32), np.ones(D, np.float32))
    given = transition(np.full((1, D), 0.1, np.float32), np.full(1, 0.9, np.float32), small)

    @jax.jit
    def slope(chosen, following):
        def loss(out):
            now, later = (law.at_time(parts_of_rows(law, one), jnp.ones(1)) for one in (out, following))
            return law.losses(now, later, given).each[0]

        return jax.value_and_grad(loss)(chosen)

    for size in (-1e3, -40.0, 40.0, 1e3):
        for other in (size, 0.0):
            shape = (1, 1, rows_of(law), D)
            value, found = slope(jnp.full(shape, size), jnp.full(shape, other))
            assert np.isfinite(value)
            assert np.isfinite(found).all()
            assert (found[0, 0, 0] * np.sign(size) > 0).all()
    large = np.zeros((1, 1, rows_of(law), D), np.float32)
    large[0, 0, 1] = low_rank._MOST_LEARNED - 1  # log s^2
    assert (slope(jnp.asarray(large), jnp.zeros_like(large))[1][0, 0, 1] > 0).all()


def test_the_loss_of_events_is_least_at_the_mean():
    """m - y log m for two outcomes: least at their mean; in a straight line where m would be too large."""
    target, logs = np.array([0.0, 0.0, 0.0, 1.0]), np.linspace(-4, 2, 601)
    mean = np.asarray(jax.vmap(lambda log: poisson_loss(log, target).mean())(logs))
    assert np.exp(logs[mean.argmin()]) == pytest.approx(0.25, rel=0.02)
    slope = jax.grad(lambda log: poisson_loss(log, 0.0, np.log(3.0)))
    np.testing.assert_allclose([slope(one) for one in (0.0, np.log(3.0) - 1e-3, 2.0, 50.0)], [1, 3, 3, 3], rtol=2e-3)


# Scores


@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(0, 3))
@examples(60)
def test_covariances_are_positive(seed, features, rank):
    """And every variance of a sum of features is that of the reference's matrix."""
    rng = np.random.default_rng(seed)
    law, rows = MeanLowRank(features, (), rank), 3 * rng.normal(size=(3 + rank, features))
    _, sigma = low_rank_moments(SimpleNamespace(law=law), rows)
    assert np.linalg.eigvalsh(sigma)[0] >= -1e-12 * sigma.max()
    own, common = np.exp(rows[1]), np.exp(rows[1] / 2) * rows[2 : 2 + rank]
    np.testing.assert_allclose(sigma, np.diag(own) + common.T @ common)
    assert (np.diag(sigma) >= own - 1e-12).all()


def test_fixed_directions_are_of_length_one_and_the_first_are_the_features():
    for features in (1, 3, 8):
        found = low_rank._directions(features)
        np.testing.assert_array_equal(found[:features], np.eye(features))
        np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1.0, rtol=1e-6)
        # with those of all pairs of features the whole covariance can be told
        squares = [np.outer(u, u)[np.triu_indices(features)] for u in found]
        assert np.linalg.matrix_rank(squares) == min(len(found), features * (features + 1) // 2)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_scores_by_loops(law, shared):
    """In jax with the features that matter, in numpy, and of a task that weighs nothing."""
    rng, agent = np.random.default_rng(1), SimpleNamespace(law=law)
    x, share = rng.normal(size=(B, 3)).astype(np.float32), rng.uniform(size=B).astype(np.float32)
    w = np.array([[1.0, -0.5, 0.0], [0.0, 2.0, -1.0]], np.float32)
    shapes, sizes = law.shapes(), Sizes(K, 3, (6, 5), A, shared=shared, frequency=0.5)
    n = law.mean_networks
    assert shapes == (*(Heads(1 + law.timed, D),) * n, Heads(1 + law.rank, D))
    layers = law.layers(sizes.widths)
    assert layers == (*((6, 5),) * n, (3, 3))
    pairs = enumerate(zip(layers, shapes, strict=True))
    networks = tuple(init_network(jax.random.key(2 + i), sizes._replace(widths=ours), one) for i, (ours, one) in pairs)
    assert len(networks[0].hidden[0].weight) == (1 if shared else K)
    plain_ones = jax.tree.map(np.asarray, networks)
    outputs = joined_rows(*(plain_outputs(one, x, shape) for one, shape in zip(plain_ones, shapes, strict=True)))

    def read(heads, by):
        """Outputs of folded networks at their time."""
        pairs = zip(heads.networks, law.task_shapes(heads), strict=True)
        return law.at_time(tuple(by(one, shape) for one, shape in pairs), share if by is plain else jnp.asarray(share))

    def compiled(one, shape):
        return read_heads(one.heads, encode(one, x), shape)

    def plain(one, shape):
        return plain_outputs(one, x, shape)

    heads = law.task_heads(networks, jnp.asarray(w), 2)
    assert law.task_shapes(heads) == (*(Heads(1, 1 + law.timed + len(law.events)),) * n, Heads(1, (1 + law.rank) * 2))
    scores = np.asarray(law.scores(read(heads, compiled), heads, MeanVariance(-3.0)))
    each = np.asarray(law.scores_by_each(read(heads, compiled), heads, MeanVariance, jnp.array([-3.0, 1.0])))
    mean_heads = law.mean_heads(networks, jnp.asarray(w))
    assert len(mean_heads.networks) == n
    means = np.asarray(law.means(read(mean_heads, compiled), mean_heads))

    def expected(k, b, a, w, factor=-1.5):
        psi, sigma = low_rank_moments(agent, outputs[k, b, a].astype(float), share[b])
        return w @ psi + factor * (w @ sigma @ w) - doubt(k, b, a, w) * (factor != 0)

    def doubt(k, b, a, w):
        if n == 1:
            return 0.0
        each = [low_rank_rows(agent, outputs[k, b, one].astype(float), share[b])[0] for one in range(A)]
        first, second = np.array([[plain_means(agent, psi) @ w for psi in pair] for pair in each]).T
        best, difference = np.argmax(first + second), (first - second) / 2
        return 2 * abs(difference[a] - difference[best])

    for one in (w[0], w[1], np.ones(D, np.float32), np.zeros(D, np.float32)):
        plain_heads = law.plain_heads(plain_ones, one)
        in_numpy = law.scores(read(plain_heads, plain), plain_heads, MeanVariance(-3.0))
        assert isinstance(in_numpy, np.ndarray)
        for k, b, a in np.ndindex(K, B, A):
            assert in_numpy[k, b, a] == pytest.approx(expected(k, b, a, one), abs=1e-4, rel=1e-4)
    for k, b, a in np.ndindex(K, B, A):
        assert scores[k, b, a] == pytest.approx(expected(k, b, a, w[k]), abs=1e-4, rel=1e-4)
        assert each[k, b, a] == pytest.approx(expected(k, b, a, w[k], (-1.5, 0.5)[k]), abs=1e-4, rel=1e-4)
        assert means[k, b, a] == pytest.approx(expected(k, b, a, w[k], 0.0), abs=1e-4, rel=1e-4)


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_outputs_of_one_action_have_their_time_too(law):
    """(K, B, H, d), with shares (B,), and (K, B) where every policy has a sum of its own."""
    rng, agent = np.random.default_rng(1), SimpleNamespace(law=law)
    outputs, shares = rng.normal(size=(K, B, rows_of(law), D)), rng.uniform(size=(K, B))
    for share in (shares[0], shares):
        found = joined_rows(*law.at_time(parts_of_rows(law, outputs), share))
        assert found.shape == (K, B, 1 + law.rank + law.mean_networks, D)
        for k, b in np.ndindex(K, B):
            own = np.broadcast_to(share, (K, B))[k, b]
            none = np.zeros((int(law.timed), D))
            rows = np.concatenate([found[k, b, : 2 + law.rank], none, found[k, b, 2 + law.rank :], none])
            pairs = low_rank_moments(agent, outputs[k, b], own), low_rank_moments(agent, rows)
            for one, other in zip(*pairs, strict=True):
                np.testing.assert_allclose(one, other)


@pytest.mark.parametrize("law", [MeanOnly(D), MeanCovariance(D), *LAWS], ids=repr)
def test_networks_that_learned_in_units_say_what_plain_ones_would(law):
    """Moments of features in units u for the weights u w are those of plain features for w.

    Covariances of low rank are learned over the spread too, which stands for units here.
    """
    units, x = np.array([2.0, 0.5, 10.0], np.float32), np.ones((B, 3), np.float32)
    spread = np.array([0.3, 1.0, 2.0], np.float32)
    networks = tuple(
        jax.tree.map(np.asarray, init_network(jax.random.key(k), Sizes(K, 3, (4,), A), shape))
        for k, shape in enumerate(law.shapes())
    )

    def moments(of, w):
        heads = law.plain_heads(of, w)
        pairs = zip(heads.networks, law.task_shapes(heads), strict=True)
        outputs = tuple(plain_outputs(one, x, shape) for one, shape in pairs)
        return law.moments(law.at_time(outputs, np.full(B, 0.3, np.float32)), heads)

    w = np.array([1.0, -2.0, 0.3], np.float32)
    over_spread = units * spread if isinstance(law, MeanLowRank) else units
    scaled = law.in_units(networks, units, spread)
    expected = moments(networks, units * w)[0], moments(networks, over_spread * w)[1]
    for ours, theirs in zip(moments(scaled, w), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)
    assert all(part.dtype == np.float32 for part in jax.tree.leaves(scaled))
    compiled = jax.jit(law.in_units)(networks, units, spread)
    jax.tree.map(lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6), compiled, scaled)


# Libraries


@pytest.mark.parametrize("events", [(), (0, 2)])
def test_a_library_scores_as_the_agent_does_and_comes_back_from_its_arrays(events):
    settings = settings_of("rasfdqn", widths=(5, 4), events=events)
    agent = create_agent(settings, 2, A, [(-1.0, 1.0)] * D, TASKS)
    networks = jax.jit(agent.init)(jax.random.key(0)).online
    sources = policies_of(agent, networks)
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


def test_older_files_of_one_network_are_cut_in_two():
    """Both parts take over its hidden layers; the columns of its heads are a and log s^2."""
    agent = create_agent(settings_of("rasfdqn", widths=(5, 4)), 2, A, [(-1.0, 1.0)] * D, TASKS)
    one = init_network(jax.random.key(0), Sizes(K, 2, (5, 4), A, shared=True), Heads(2, D))
    psi, sigma = (one._replace(heads=type(one.heads)(*(part[..., at : at + D] for part in one.heads))) for at in (0, D))
    expected = NetworkPolicies(MeanLowRank(D, mean_networks=1), agent.settings.gamma, (psi, sigma), 2)
    arrays = {
        f"moments/{name.removeprefix('psi/')}": array
        for name, array in expected.arrays().items()
        if "psi/hidden" in name
    }
    for name in ("weight", "bias"):
        arrays[f"moments/heads/{name}"] = np.array(getattr(one.heads, name)[..., : 2 * D])
    description = expected.describe()
    assert "rank" not in description
    assert "spread_widths" not in description
    old = NetworkPolicies.restore(description, arrays)
    obs, w = np.random.default_rng(2).normal(size=(6, 2)).astype(np.float32), np.array([0.7, 0.0, -2.0])
    for risk in (MeanVariance(0.0), MeanVariance(-2.0)):
        np.testing.assert_array_equal(old.scores(obs, w, risk).values, expected.scores(obs, w, risk).values)
    del arrays["moments/heads/bias"]
    with pytest.raises(ValueError, match="arrays must hold 'psi/heads/bias'"):
        NetworkPolicies.restore(description, arrays)
