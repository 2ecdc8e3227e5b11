"""Frozen networks against `Agent.scores` and a forward pass written plainly; what is stored, merged, refused."""

import json

import numpy as np
import pytest

from deep.deep_twin import outputs, plain_networks, random_learner, softmax
from rasf.deep.agent import Agent, Tasks
from rasf.deep.laws import support_atoms
from rasf.deep.networks import Each, Layer, Pairs, plain_outputs
from rasf.deep.settings import CovarianceSettings, HistogramSettings, MeanSettings
from rasf.library.networks import policies as network_policies
from rasf.library.networks.actor_policies import policies_of
from rasf.library.networks.policies import NetworkPolicies
from rasf.risk import CVaR, Elliptical, Entropic, MeanVariance, MonotoneMeanVariance, NestedEntropic, SkewNormal

OBS, ACTIONS, K = 4, 3, 3
BOUNDS = np.array([(-1.0, 1.0), (0.0, 1.0), (-2.0, 0.5)])
DENSE, SPARSE, NONE = np.array([0.7, -1.3, 0.4]), np.array([0.0, -1.3, 0.4]), np.zeros(3)
NAMES = {"histogram": HistogramSettings, "point": MeanSettings, "residual": CovarianceSettings}
RISKS = {
    "histogram": [
        MeanVariance(-0.8),
        MonotoneMeanVariance(-0.8),
        MeanVariance(0.0),
        Entropic(-0.5),
        Entropic(0.7),
        CVaR(0.3),
    ],
    "point": [MeanVariance(0.0), Entropic(0.0)],
    "residual": [
        MeanVariance(-0.8),
        MonotoneMeanVariance(-0.8),
        Entropic(0.0),
        CVaR(0.3),
        Elliptical(-0.1, "laplace"),
        SkewNormal(-0.4),
    ],
}
CASES = [(law, risk) for law, risks in RISKS.items() for risk in risks]


def make(law, seed=0, widths=(5, 6), policies=K, size=OBS, **changes):
    tasks = Tasks(np.ones((policies, 3), np.float32), np.zeros((policies, 1), np.float32))
    own = {"atoms": 7} if law == "histogram" else {}
    agent = create_agent(NAMES[law](widths=widths, gamma=0.6, **own, **changes), size, BOUNDS, tasks)
    networks = random_learner(agent, seed).online
    return agent, networks, policies_of(agent, networks)


def create_agent(settings, size, bounds, tasks):
    atoms = support_atoms(bounds, settings.gamma, 7) if isinstance(settings, HistogramSettings) else None
    return Agent.create(settings, size, ACTIONS, tasks, atoms)


def observations(n, seed=1):
    return np.random.default_rng(seed).normal(size=(n, OBS)).astype(np.float32)


def case_name(case):
    return str(case)


@pytest.mark.parametrize(("law", "risk"), CASES, ids=case_name)
@pytest.mark.parametrize("w", [DENSE, SPARSE], ids=["dense", "sparse"])
def test_scores_are_the_agent_s(law, risk, w):
    agent, networks, sources = make(law)
    obs = observations(5)
    found = sources.scores(obs, w, risk)
    task_heads = agent.task_heads(networks, w.astype(np.float32))
    served = MeanVariance(0.0) if risk == Entropic(0.0) and law != "histogram" else risk
    np.testing.assert_allclose(found.values, agent.scores(task_heads, obs, obs, served), rtol=2e-4, atol=2e-5)
    mean, variance = agent.moments(task_heads, obs, obs)
    np.testing.assert_allclose(found.mean, mean, rtol=1e-4, atol=1e-5)
    if law == "point":
        assert np.isnan(found.std).all()
    else:
        np.testing.assert_allclose(found.std, np.sqrt(np.maximum(variance, 0)), rtol=1e-3, atol=1e-3)
    assert found.values.shape == (K, 5, ACTIONS)
    assert found.values.dtype == found.mean.dtype == found.std.dtype == np.float64
    np.testing.assert_array_equal(found.seen, np.ones(5, bool))


@pytest.mark.parametrize("law", NAMES)
@pytest.mark.parametrize("w", [DENSE, SPARSE, NONE], ids=["dense", "sparse", "none"])
def test_mean_and_std_of_a_plain_forward_pass(law, w):
    """Atom by atom and entry by entry, one network and observation at a time."""
    agent, networks, sources = make(law)
    obs = observations(2)
    found = sources.scores(obs, w, MeanVariance(0.0))
    parts = [plain_networks(one, shape) for one, shape in zip(networks, agent.law.shapes(), strict=True)]
    for k, b, a in np.ndindex(K, 2, ACTIONS):
        mean = variance = 0.0
        out = [outputs(part[k], obs[b])[:, a] for part in parts]
        if law == "histogram":
            for i in range(3):
                probs, z = softmax(out[0][i]), np.array(agent.law.atoms[i])
                mean += w[i] * (probs @ z)
                variance += w[i] ** 2 * (probs @ (z - probs @ z) ** 2)
        else:
            mean = out[0][0] @ w
            if law == "residual":
                Sigma = np.zeros((3, 3))
                Sigma[np.triu_indices(3)] = out[1][0]
                Sigma = Sigma + np.triu(Sigma, 1).T
                variance = max(w @ Sigma @ w, 0.0)
        assert found.mean[k, b, a] == pytest.approx(mean, rel=1e-4, abs=1e-5)
        assert found.values[k, b, a] == found.mean[k, b, a]
        if law != "point":
            assert found.std[k, b, a] == pytest.approx(np.sqrt(variance), rel=1e-3, abs=1e-3)


@pytest.mark.parametrize(("law", "risk"), CASES, ids=case_name)
def test_actions_are_the_best_of_the_best_policy_s(law, risk):
    _, _, sources = make(law)
    obs = observations(40)
    for w in (DENSE, -DENSE, SPARSE):
        best = sources.scores(obs, w, risk).values.max(axis=0)
        ordered = np.sort(best, axis=1)
        clear = ordered[:, -1] - ordered[:, -2] > 1e-4
        assert clear.sum() > 30
        expected = best.argmax(axis=1)
        np.testing.assert_array_equal(sources.act(obs, w, risk)[clear], expected[clear])
        alone = np.array([sources.act_one(one, w, risk) for one in obs])
        np.testing.assert_array_equal(alone[clear], expected[clear])
    assert sources.act(obs, DENSE, risk).dtype == np.int64


@pytest.mark.parametrize("law", NAMES)
def test_ties_go_to_the_lowest_action(law):
    _, _, sources = make(law)
    obs, risk = observations(3), MeanVariance(0.0)
    np.testing.assert_array_equal(sources.act(obs, NONE, risk), [0, 0, 0])
    assert sources.act_one(obs[0], NONE, risk) == 0


@pytest.mark.parametrize("law", NAMES)
def test_batches_of_any_size_say_the_same(law, monkeypatch):
    """In chunks of four and padded, or all at once."""
    _, _, sources = make(law)
    obs, risk = observations(11), MeanVariance(0.0)
    whole, actions = sources.scores(obs, DENSE, risk), sources.act(obs, DENSE, risk)
    monkeypatch.setattr(network_policies, "_MOST_NUMBERS", 4 * K * ACTIONS * 21)
    pieces = sources.scores(obs, DENSE, risk)
    np.testing.assert_allclose(pieces.values, whole.values, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(sources.act(obs, DENSE, risk), actions)
    assert sources.scores(obs[:0], DENSE, risk).values.shape == (K, 0, ACTIONS)
    assert sources.act(obs[:0], DENSE, risk).shape == (0,)


def test_a_new_beta_or_new_weights_compile_nothing():
    _, _, sources = make("histogram")
    sources.act(observations(3), DENSE, MeanVariance(-1.0))
    compiled = network_policies.choose_by_histograms._cache_size()
    for n, w, beta in ((4, -DENSE, -2.0), (3, 2 * DENSE, 0.0), (4, DENSE, np.float64(3.0))):
        sources.act(observations(n), w, MeanVariance(beta))
    assert network_policies.choose_by_histograms._cache_size() == compiled


def test_many_weightings_are_not_confused():
    """More than are kept, each asked twice."""
    rng = np.random.default_rng(0)
    weights = [*rng.normal(size=(6, 3)), *(rng.normal(size=(6, 3)) * (rng.random((6, 3)) < 0.5))]
    obs = observations(2)
    for law in NAMES:
        agent, networks, sources = make(law)
        for w in [*weights, *weights[::-1]]:
            mean, _ = agent.moments(agent.task_heads(networks, w.astype(np.float32)), obs, obs)
            np.testing.assert_allclose(sources.scores(obs, w, MeanVariance(0.0)).mean, mean, rtol=1e-4, atol=1e-5)
        assert len(sources._kept) <= network_policies._KEPT


def test_a_risk_that_a_law_cannot_serve_is_refused():
    obs = observations(1)
    for law, risk, sentence in (
        ("point", MeanVariance(-1.0), "risk must be neutral, such as MeanVariance"),
        ("point", CVaR(0.1), "risk must be neutral"),
        ("residual", Entropic(-1.0), "risk must .*got Entropic"),
        ("histogram", SkewNormal(-1.0), "risk must .*got SkewNormal"),
        ("histogram", NestedEntropic(-1.0), "risk must"),
    ):
        _, _, sources = make(law)
        asked = (
            lambda s=sources, r=risk: s.check(r),
            lambda s=sources, r=risk: s.scores(obs, DENSE, r),
            lambda s=sources, r=risk: s.act(obs, DENSE, r),
            lambda s=sources, r=risk: s.act_one(obs[0], DENSE, r),
        )
        for ask in asked:
            with pytest.raises(ValueError, match=sentence):
                ask()


@pytest.mark.parametrize("law", NAMES)
def test_what_is_stored_comes_back(law):
    agent, _, sources = make(law)
    description = json.loads(json.dumps(sources.describe()))
    assert description == {
        "law": law, "features": 3, "atoms": 7 if law == "histogram" else None, "policies": K, "inputs": OBS,
        "actions": ACTIONS, "widths": [5, 6], "gamma": 0.6,
    }  # fmt: skip
    arrays = sources.arrays()
    again = NetworkPolicies.restore(description, {name: np.copy(array) for name, array in arrays.items()})
    assert (again.policies, again.n_actions, again.n_features, again.gamma) == (K, ACTIONS, 3, 0.6)
    assert again.law == agent.law
    obs, risk = observations(4), RISKS[law][0]
    np.testing.assert_array_equal(again.scores(obs, DENSE, risk).values, sources.scores(obs, DENSE, risk).values)
    for name, array in again.arrays().items():
        np.testing.assert_array_equal(array, arrays[name])
        assert array.dtype == (np.float64 if name == "atoms" else np.float32)


def test_half_precision_takes_half_the_room():
    _, _, sources = make("residual")
    half = sources.arrays("half")
    assert 2 * sum(part.nbytes for part in half.values()) == sum(part.nbytes for part in sources.arrays().values())
    again = NetworkPolicies.restore(sources.describe(), half)
    obs, risk = observations(4), MeanVariance(-0.8)
    close, exact = again.scores(obs, DENSE, risk).mean, sources.scores(obs, DENSE, risk).mean
    np.testing.assert_allclose(close, exact, atol=0.01)
    assert not np.array_equal(close, exact)
    with pytest.raises(ValueError, match="precision must"):
        sources.arrays("double")
    sources.networks[0].heads.bias[0, 0, 0] = 1e5
    with pytest.raises(ValueError, match="precision must"):
        sources.arrays("half")


@pytest.mark.parametrize("law", NAMES)
def test_merged_policies_follow_one_another(law):
    parts = [make(law, seed, policies=policies)[2] for seed, policies in ((0, 2), (1, 1), (2, 3))]
    parts[1] = NetworkPolicies.restore(parts[1].describe(), parts[1].arrays())
    merged = NetworkPolicies.merge(parts)
    obs, risk = observations(4), RISKS[law][0]
    assert merged.policies == 6
    together = np.concatenate([part.scores(obs, SPARSE, risk).values for part in parts])
    np.testing.assert_allclose(merged.scores(obs, SPARSE, risk).values, together, rtol=1e-5, atol=1e-6)


def test_networks_that_differ_are_not_merged():
    _, _, first = make("point")
    _, _, histogram = make("histogram")
    tasks = Tasks(np.ones((K, 3), np.float32), np.zeros((K, 1), np.float32))
    moved = create_agent(HistogramSettings(widths=(5, 6), atoms=7, gamma=0.6), OBS, BOUNDS + 1.0, tasks)
    for parts, sentence in (
        ([first, histogram], "networks to merge must agree in law, got point and histogram"),
        ([first, make("point", widths=(5, 7))[2]], r"must agree in widths, got \[5, 6\] and \[5, 7\]"),
        ([histogram, policies_of(moved, random_learner(moved).online)], "must have the same atoms"),
        ([], "parts must hold networks"),
    ):
        with pytest.raises(ValueError, match=sentence):
            NetworkPolicies.merge(parts)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"law": "gaussian"}, "law must"),
        ({"law": "point"}, "arrays must hold 'psi/hidden/0/weight', which is missing"),
        ({"policies": 2}, "array 'histogram/hidden/0/weight' must have shape"),
        ({"policies": True}, "policies must"),
        ({"inputs": 10**15}, "'histogram/hidden/0/weight' must have shape"),
        ({"actions": 0}, "actions must"),
        ({"features": "3"}, "features must"),
        ({"features": 4}, "array 'atoms' must have shape"),
        ({"atoms": None}, "atoms must"),
        ({"widths": []}, "widths must"),
        ({"widths": [5]}, "'histogram/heads/weight' must have shape"),
        ({"widths": [5, -6]}, "widths must"),
        ({"gamma": 1.0}, "gamma must"),
        ({"gamma": float("nan")}, "gamma must"),
        ({"gamma": None}, "gamma must"),
    ],
)
def test_a_description_that_does_not_fit_is_refused(changes, sentence):
    _, _, sources = make("histogram")
    with pytest.raises(ValueError, match=sentence):
        NetworkPolicies.restore(sources.describe() | changes, sources.arrays())


def one_entry(array, value):
    changed = np.array(array)
    changed.flat[3] = value
    return changed


@pytest.mark.parametrize(
    ("name", "change", "sentence"),
    [
        ("histogram/heads/weight", None, "arrays must hold 'histogram/heads/weight'"),
        ("histogram/heads/weight", lambda x: one_entry(x, np.nan), "array 'histogram/heads/weight' must be finite"),
        ("histogram/hidden/0/bias", lambda x: one_entry(x, -np.inf), "array 'histogram/hidden/0/bias' must be finite"),
        ("histogram/hidden/1/weight", lambda x: x.astype(np.float64), "type float32 or float16, got .* float64"),
        ("histogram/hidden/1/weight", lambda x: x.astype(np.int32), "type float32 or float16, got .* int32"),
        ("histogram/hidden/1/bias", lambda x: x[:, :-1], r"must have shape \(3, 6\)"),
        ("atoms", lambda x: x[:, ::-1], "atoms must"),
        ("atoms", lambda x: one_entry(x, np.inf), "array 'atoms' must be finite"),
        (
            "psi/heads/bias",
            lambda _: np.zeros(3),
            "arrays must contain only arrays of histogram networks, got 'psi/heads",
        ),
    ],
)
def test_arrays_that_do_not_fit_are_refused(name, change, sentence):
    _, _, sources = make("histogram")
    arrays = sources.arrays()
    if change is None:
        del arrays[name]
    else:
        arrays[name] = change(arrays.get(name))
    with pytest.raises(ValueError, match=sentence):
        NetworkPolicies.restore(sources.describe(), arrays)
    _, _, points = make("point")
    with pytest.raises(ValueError, match="arrays must"):
        NetworkPolicies.restore(points.describe(), points.arrays() | {"atoms": np.zeros((3, 7))})


# --- beyond the paper: networks that see lists of objects

LISTED = {"size": 6, "objects": 2, "widths": (5, 4, 6)}  # three objects; a pair has four numbers, not six


def lists(n, seed=1):
    """Observations (n, 6), in some of which objects are nobody; the last is all zeros."""
    rows = np.random.default_rng(seed).normal(size=(n, 3, 2)).astype(np.float32)
    rows[::2, 1] = 0
    rows[-1] = 0
    return rows.reshape(n, 6)


def kinds(sources):
    return {tuple(type(layer) for layer in one.hidden) for one in sources.networks}


@pytest.mark.parametrize(("law", "shared"), [("histogram", False), ("point", False), ("point", True)])
def test_networks_of_objects_answer_by_what_they_put_out(law, shared):
    agent, networks, sources = make(law, shared=shared, **LISTED)
    obs, risk = lists(5), MeanVariance(0.0)
    found = sources.scores(obs, DENSE, risk).mean
    out = plain_outputs(networks[0], obs, agent.law.shapes()[0])
    if law == "histogram":
        probs = np.exp(out) / np.exp(out).sum(axis=-1, keepdims=True)
        expected = np.einsum("kbahj,hj,h->kba", probs, np.array(agent.law.atoms), DENSE)
    else:
        expected = out[..., 0, :] @ DENSE
        alone = [sources.scores(one[None], DENSE, risk).mean[:, 0] for one in obs]  # where numpy answers, not jax
        np.testing.assert_allclose(np.stack(alone, axis=1), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    moved = obs.reshape(5, 3, 2)[:, [0, 2, 1]].reshape(5, 6)
    np.testing.assert_allclose(sources.scores(moved, DENSE, risk).mean, found, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("law", "shared"), [("histogram", False), ("point", True), ("residual", False)])
def test_networks_of_objects_come_back(law, shared):
    agent, _, sources = make(law, shared=shared, **LISTED)
    description, arrays = json.loads(json.dumps(sources.describe())), sources.arrays()
    assert (description["inputs"], description["objects"], description["widths"]) == (6, 2, [5, 4, 6])
    assert ("shared" in description) == shared
    first = next(array for name, array in arrays.items() if name.endswith("hidden/0/weight"))
    assert first.shape == (1 if shared else K, 4, 5)
    again = NetworkPolicies.restore(description, {name: np.copy(array) for name, array in arrays.items()})
    assert (again.n_inputs, again.widths, again.law) == (6, (5, 4, 6), agent.law)
    assert again.describe() == sources.describe()
    assert again.shared_settings() == sources.shared_settings()
    assert again.shared_settings()["objects"] == 2
    assert kinds(again) == kinds(sources) == {(Pairs, Each, Layer)}
    for name, array in again.arrays().items():
        np.testing.assert_array_equal(array, arrays[name])
    obs, risk = lists(5), MeanVariance(0.0)
    np.testing.assert_array_equal(again.scores(obs, DENSE, risk).values, sources.scores(obs, DENSE, risk).values)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"objects": 4}, "^objects must divide the 6 inputs, got 4$"),
        ({"inputs": 7}, "^objects must divide the 7 inputs, got 2$"),
        ({"objects": -2}, "^objects must be a whole number"),
        ({"objects": 2.0}, "^objects must be a whole number"),
        ({"objects": True}, "^objects must be a whole number"),
        ({"objects": None}, "^objects must be a whole number"),
        ({"objects": 3}, r"'psi/hidden/0/weight' must have shape \(3, 6, 5\)"),
        ({"objects": 0}, r"'psi/hidden/0/weight' must have shape \(3, 6, 5\)"),
    ],
)
def test_objects_that_do_not_fit_are_refused(changes, sentence):
    _, _, sources = make("point", **LISTED)
    with pytest.raises(ValueError, match=sentence):
        NetworkPolicies.restore(sources.describe() | changes, sources.arrays())


def test_a_description_that_says_nothing_of_objects_is_of_networks_without():
    _, _, sources = make("point")
    assert "objects" not in sources.describe()
    assert sources.shared_settings()["objects"] == 0
    for more in ({}, {"objects": 0}):
        again = NetworkPolicies.restore(sources.describe() | more, sources.arrays())
        assert kinds(again) == {(Layer, Layer)}
        assert (again.n_inputs, again.describe()) == (OBS, sources.describe())
        obs, risk = observations(4), MeanVariance(0.0)
        np.testing.assert_array_equal(again.scores(obs, DENSE, risk).values, sources.scores(obs, DENSE, risk).values)


@pytest.mark.parametrize("shared", [False, True], ids=["own", "shared"])
def test_networks_of_objects_are_merged(shared):
    parts = [make("point", seed, policies=n, shared=shared, **LISTED)[2] for seed, n in ((0, 2), (1, 3))]
    parts[1] = NetworkPolicies.restore(parts[1].describe(), parts[1].arrays())
    merged = NetworkPolicies.merge(parts)
    assert (merged.policies, merged.n_inputs, merged.describe()["objects"]) == (5, 6, 2)
    assert kinds(merged) == {(Pairs, Each, Layer)}
    obs, risk = lists(5), MeanVariance(0.0)
    together = np.concatenate([part.scores(obs, SPARSE, risk).values for part in parts])
    np.testing.assert_allclose(merged.scores(obs, SPARSE, risk).values, together, rtol=1e-5, atol=1e-6)
    again = NetworkPolicies.restore(merged.describe(), merged.arrays())
    np.testing.assert_array_equal(again.scores(obs, SPARSE, risk).values, merged.scores(obs, SPARSE, risk).values)
    for changes, sentence in (
        ({"objects": 0}, "must agree in objects, got 2 and None"),
        ({"objects": 3}, "must agree in objects, got 2 and 3"),
        ({"size": 8}, "must agree in inputs, got 6 and 8"),
    ):
        with pytest.raises(ValueError, match=f"^networks to merge {sentence}$"):
            NetworkPolicies.merge([parts[0], make("point", **LISTED | changes)[2]])
