"""Libraries of episodes with a time limit: what is learned depends on the steps so far, and is asked with them."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import rasf
from rasf import MeanVariance, MonotoneMeanVariance
from rasf.deep.clock import TIME_INPUTS
from rasf.deep.low_rank import MeanLowRank
from rasf.library.networks.policies import NetworkPolicies
from rasf.library.policy_library import PolicyLibrary

LIMIT, W = 5, np.array([1.0, -0.5])
SMALL = {"agent": "rasfdqn", "widths": (6,), "batch": 8, "warmup": 20, "steps_per_task": 60}
TASKS = [[1.0, 0.0], [0.5, -1.0]]


class Drift(gym.Env):
    """A point that drifts to either side; features: where it is, and the noise. Episodes never end by themselves."""

    observation_space, action_space = spaces.Box(-20.0, 20.0, (1,), np.float32), spaces.Discrete(2)
    reward_space, signs = spaces.Box(-20.0, 20.0, (2,), np.float32), (1, 1)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._at = np.zeros(1, np.float32)
        return self._at, {}

    def step(self, action):
        noise = float(self.np_random.random())
        self._at = np.clip(self._at + 2 * int(action) - 1, -20, 20).astype(np.float32)
        return self._at, np.array([self._at[0] / 5, noise], np.float32), False, False, {}


def limited():
    return gym.wrappers.TimeLimit(Drift(), LIMIT)


@pytest.fixture(scope="module")
def library():
    """Its networks are random in all they have, so that the time matters."""
    learned, rng = rasf.learn(limited(), tasks=TASKS, **SMALL), np.random.default_rng(0)
    for network in learned.sources.networks:
        for layer in (*network.hidden, network.heads):
            for part in layer:
                part[:] = 0.5 * rng.normal(size=part.shape)
    learned.sources._kept.clear()
    return learned


def test_the_time_limit_is_found_and_seen(library):
    sources = library.sources
    assert sources.limit == LIMIT
    assert sources.n_inputs == 1 + TIME_INPUTS
    assert sources.law == MeanLowRank(2, (), 1, timed=True)
    assert sources.describe().items() >= {"limit": LIMIT, "rank": 1, "inputs": 3}.items()
    assert sources.shared_settings()["horizon"] == "episode"
    for options, limit in (
        ({"horizon": "continuing"}, 0),
        ({"episode_length": 3}, 3),
        ({"agent": "sfdqn", "target_period": 0}, 0),
        ({"agent": "sfdqn", "target_period": 0, "horizon": "episode"}, LIMIT),
    ):
        given = SMALL | {"steps_per_task": 24, "batch": 2, "warmup": 0} | options
        assert rasf.learn(limited(), tasks=TASKS, **given).sources.limit == limit
    unlimited = SMALL | {"steps_per_task": 24, "batch": 2, "warmup": 0}
    assert rasf.learn(Drift(), tasks=TASKS, **unlimited).sources.limit == 0
    with pytest.raises(ValueError, match="gamma must be below 1, unless horizon is 'episode'"):
        rasf.learn(Drift(), tasks=TASKS, gamma=1.0, **unlimited)


def test_scores_and_actions_are_those_of_the_steps_so_far(library):
    rng, risk = np.random.default_rng(1), MeanVariance(-1.0)
    obs, t = rng.normal(size=(40, 1)).astype(np.float32), rng.integers(LIMIT, size=40)
    inputs = library.sources.clock.beside(obs, t)
    expected = library.sources.scores(inputs, W, risk).values
    pairs = list(zip(obs, t.tolist(), strict=True))
    batch = library.scores(obs, W, risk, t=t).values
    alone = [library.scores(one, W, risk, t=after).values for one, after in pairs]
    np.testing.assert_allclose(batch, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(np.stack(alone, axis=1).reshape(expected.shape), expected, rtol=1e-4, atol=1e-5)
    actions = library.act(obs, W, risk, t=t)
    assert [library.act(one, W, risk, t=after) for one, after in pairs] == actions.tolist()
    np.testing.assert_array_equal(library.act(obs, W, risk, t=2), library.act(obs, W, risk, t=np.full(40, 2)))
    np.testing.assert_array_equal(library.act(obs, W, risk), library.act(obs, W, risk, t=0))
    assert (library.act(obs, W, risk, t=0) != library.act(obs, W, risk, t=LIMIT - 1)).any()


def test_an_actor_counts_the_steps_of_each_episode(library):
    rng, actor = np.random.default_rng(2), library.actor(W, MeanVariance(-1.0))
    steps = np.zeros(3, int)
    for _ in range(12):
        obs = rng.normal(size=(3, 1)).astype(np.float32)
        np.testing.assert_array_equal(actor.act(obs), library.act(obs, W, MeanVariance(-1.0), t=steps))
        actor.observe(rng.normal(size=(3, 2)))
        over = (steps == LIMIT - 1) | (rng.random(3) < 0.2)
        actor.reset(over)
        steps = np.where(over, 0, steps + 1)


def test_episodes_are_acted_with_their_steps_and_nothing_is_left_at_the_limit(library, monkeypatch):
    seen = []
    encode = PolicyLibrary.encode

    def noted(self, obs, t=0):
        seen.append(int(t))
        return encode(self, obs, t)

    monkeypatch.setattr(PolicyLibrary, "encode", noted)
    report = library.evaluate(limited, W, MeanVariance(-1.0), 3)
    assert sorted(set(seen)) == list(range(LIMIT))
    assert report.lengths.tolist() == [LIMIT] * 3
    np.testing.assert_array_equal(report.rest, np.zeros(3))
    short = library.evaluate(limited, W, MeanVariance(-1.0), 3, max_steps=2)
    assert (short.rest != 0).all()  # cut by the caller: the prediction of what is left


def test_a_file_keeps_the_limit_and_the_rank(library, tmp_path):
    library.save(tmp_path / "a.rasf")
    again = rasf.load(tmp_path / "a.rasf")
    obs = np.linspace(-2, 2, 7, dtype=np.float32)[:, None]
    for t in (0, LIMIT - 1):
        np.testing.assert_array_equal(
            again.scores(obs, W, MeanVariance(-1.0), t=t).values, library.scores(obs, W, MeanVariance(-1.0), t=t).values
        )
    assert again.sources.describe() == library.sources.describe()


def test_a_library_grows_at_its_own_time_limit(library):
    few = {"steps_per_task": 24}
    assert library.grow(limited(), [[1.0, 1.0]], episode_length=LIMIT, **few).sources.limit == LIMIT
    with pytest.raises(ValueError, match="episode_length must be the time limit of the base library, 5"):
        library.grow(limited(), [[1.0, 1.0]], episode_length=LIMIT + 1, **few)


def test_networks_of_earlier_versions_have_neither_limit_nor_rank():
    """One network gave means and logarithms of variances: distributions of rank 0, which act but do not grow."""
    old = rasf.learn(limited(), tasks=TASKS, horizon="continuing", **SMALL)
    description, arrays, rng = old.sources.describe(), {}, np.random.default_rng(0)
    for name, array in old.sources.arrays().items():
        if name.startswith("psi/"):
            several = 2 if "heads" in name else 1
            shape = (*array.shape[:-1], array.shape[-1] * several)
            arrays[name.replace("psi", "moments")] = rng.normal(size=shape).astype(np.float32)
    del description["rank"], description["spread_widths"], description["mean_networks"]
    assert "limit" not in description
    sources = NetworkPolicies.restore(description, arrays)
    assert sources.law == MeanLowRank(2, mean_networks=1)
    assert sources.describe() == description
    w, obs = np.array([2.0, -3.0]), rng.normal(size=(5, 1)).astype(np.float32)
    found = sources.scores(obs, w, MeanVariance(-1.0))
    h = np.einsum("bn,knm->kbm", obs, arrays["moments/hidden/0/weight"]) + arrays["moments/hidden/0/bias"][:, None]
    out = np.einsum("kbm,kmax->kbax", np.broadcast_to(np.tanh(h), (2, 5, 6)), arrays["moments/heads/weight"])
    out = out + arrays["moments/heads/bias"][:, None]
    np.testing.assert_allclose(found.mean, out[..., :2] @ w, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found.std**2, np.exp(out[..., 2:]) @ w**2, rtol=1e-4, atol=1e-5)
    library = PolicyLibrary(sources, old.environment, old.policies, old.agents, old.history, (), old.provenance)
    with pytest.raises(ValueError, match="share layers, cannot grow"):
        library.grow(limited(), [[1.0, 1.0]], steps_per_task=20)


def test_policies_are_trained_for_and_act_by_monotone_mean_variance(tmp_path):
    risk = MonotoneMeanVariance(-2.0)
    learned = rasf.learn(limited(), tasks=TASKS, risk=[MeanVariance(0.0), risk], **SMALL)
    learned.save(tmp_path / "a.rasf")
    again, obs = rasf.load(tmp_path / "a.rasf"), np.random.default_rng(0).normal(size=(6, 1)).astype(np.float32)
    assert [policy.risk for policy in again.policies][2:] == [risk, risk]
    found = again.scores(obs, W, risk, t=1)
    plain = risk.moments(found.mean, found.std**2)
    assert (found.values <= plain + 1e-5).all()  # lowered where the two networks of the mean disagree,
    own = found.mean.argmax(axis=2)[..., None]  # but not for the actions that are best without risk
    mine, theirs = (np.take_along_axis(one, own, axis=2) for one in (found.values, plain))
    np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)
    actions = found.values.max(axis=0).argmax(axis=1)
    np.testing.assert_array_equal(again.act(obs, W, risk, t=1), actions)
    assert [again.act(one, W, risk, t=1) for one in obs] == actions.tolist()
