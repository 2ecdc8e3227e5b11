"""Frozen tables hold what the learner holds; states are found by their numbers."""

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rasf import MeanVariance
from rasf.envs.four_room import FourRoom
from rasf.library.tables.policies import TablePolicies
from rasf.tabular import frozen as kernels
from rasf.tabular.frozen import freeze, make_index, states_of
from rasf.tabular.learner import SuccessorLearner
from rasf.tabular.settings import TableSettings
from rasf.tabular.table import COUNT
from rasf.transfer import packed_indices
from rasf_lab.paper.four_room.novel import moments_of

NEUTRAL = MeanVariance(0.0)
ROOMS = FourRoom("S..T\n.1X.\n..2G", trap_probability=0.3, step_limit=30)


def trained(risk=NEUTRAL, seed=3, tasks=5, steps=400, **constants):
    """A learner whose settings have other constants, as research changes them."""
    chosen = type("Changed", (TableSettings,), constants)(learn_w=True, covariance=False)
    learner = SuccessorLearner(ROOMS.n_features, 4, chosen, seed, tasks, risk)
    for w in ROOMS.random_tasks(tasks, np.random.default_rng(seed)):
        learner.learn_task(ROOMS, w, steps)
    return learner


def frozen_numbers(sources, state, m):
    """All numbers (K, A, m) at a state, one after the other through coefficients that pick one."""
    d, picked, task = sources.n_features, [], sources.prepared(np.zeros(sources.n_features), MeanVariance(0.0))
    for k in range(m):
        pick = np.eye(m)[k]
        mean, variance = np.zeros((2, sources.policies, 1, sources.n_actions))
        has_cell = np.zeros((sources.policies, 1), np.bool_)
        picking = task._replace(w=pick[:d], square=pick[d:])
        kernels.policy_moments(picking, np.array([state]), mean, variance, has_cell)
        assert has_cell.all()
        picked.append((mean if k < d else variance)[:, 0])
    return np.stack(picked, -1)


@pytest.mark.parametrize("chosen", [
    {"risk": MeanVariance(-4.0)},
    {"risk": MeanVariance(-4.0), "diagonal": True},
    {"risk": MeanVariance(-4.0), "shared_noise": True},
    {"risk": MeanVariance(2.0), "noise_scale": 0.0},
    {},
])  # fmt: skip
def test_every_policy_holds_what_the_learner_says_bit_by_bit(chosen):
    learner = trained(**chosen)
    sources = TablePolicies.from_learner(learner, learner.keys())
    assert sources.states == learner.states > 10
    d, m = learner.n_features, len(learner.memory.after)
    i, j = packed_indices(d, diagonal=learner.settings.diagonal)
    for state in range(sources.states):
        found = frozen_numbers(sources, state, m)
        for policy in range(5):
            psi, Sigma = moments_of(learner, policy, state)
            np.testing.assert_array_equal(found[policy, :, :d], psi)
            np.testing.assert_array_equal(found[policy, :, d:], Sigma[:, i, j][:, : m - d])


def test_noise_and_repetitions_are_not_stored():
    learner = trained(MeanVariance(-4.0))
    kept, held = len(freeze(learner).first), 4 * learner.memory.table.row[: learner.states, COUNT].sum()
    assert kept < 0.8 * held


def test_one_update_is_one_entry():
    """psi = noise / 2 + (3, -1) / 2 after one transition to the end; delta delta' alpha_sigma for Sigma."""
    learner = SuccessorLearner(2, 3, TableSettings(alpha=0.5, alpha_sigma=0.1), 0, 1, MeanVariance(-1.0))
    learner.begin_task([1.0, 1.0])
    row = learner.add_row()
    noise = moments_of(learner, 0, row).psi
    learner.learn(row, 1, learner.choose(row), [3.0, -1.0], 2.0, None)
    frozen = freeze(learner)
    np.testing.assert_array_equal(frozen.entries, [0, 0, 1, 1])
    assert (frozen.first[0], frozen.last[0]) == (0, 0)
    delta = [3.0, -1.0] - noise[1]
    wanted = [*(noise[1] + delta / 2), 0.1 * delta[0] ** 2, 0.1 * delta[0] * delta[1], 0.1 * delta[1] ** 2]
    np.testing.assert_allclose(frozen.value, [wanted], rtol=1e-6)


def test_policies_that_agree_are_kept_apart_from_the_one_between_them():
    """alpha = 1: policies 0 and 2 both hold phi after one transition to the end, policy 1 its noise."""
    learner = SuccessorLearner(2, 2, TableSettings(alpha=1.0, covariance=False), 0, 3)
    for _ in range(3):
        learner.begin_task([1.0, 1.0])
    row = learner.add_row()
    noise = moments_of(learner, 1, row).psi
    learner.learn(row, 0, (0, 0, -1), [3.0, -1.0], 2.0, None)
    sources = TablePolicies.from_learner(learner, [[0.0]])
    mean = sources.scores(np.zeros((1, 1)), np.array([1.0, 0.0]), MeanVariance(0.0)).mean
    np.testing.assert_array_equal(mean[:, 0, 0], [3.0, noise[0, 0], 3.0])


def test_four_room_states_have_the_numbers_of_gymnasium_observations():
    learner = trained()
    row_of = {key.tobytes(): row for row, key in enumerate(learner.keys())}
    env = gym.make("rasf/FourRoom-v0", layout=ROOMS.layout, trap_probability=0.3, step_limit=30)
    rng, met = np.random.default_rng(0), 0
    observation, info = env.reset(seed=0)
    for _ in range(300):
        taken = learner.memory.rows.keys == info["state"]
        if taken.any():
            assert row_of[observation.astype(np.float64).tobytes()] == learner.memory.rows.values[taken][0]
            met += 1
        observation, _, terminated, truncated, info = env.step(rng.integers(4))
        if terminated or truncated:
            observation, info = env.reset()
    assert met > 200


def test_what_cannot_be_frozen_is_refused():
    with pytest.raises(ValueError, match="begun a task"):
        freeze(SuccessorLearner(2, 3, TableSettings(), 0, 1))
    learner = trained(tasks=1)
    with pytest.raises(ValueError, match="another world"):
        learner.add_row()
    with pytest.raises(ValueError, match="another world"):
        learner.lead(FourRoom("S..1\n..XT\n..2G"), np.ones(ROOMS.n_features), 10)
    stepped = SuccessorLearner(ROOMS.n_features, 4, TableSettings(), 0, 1)
    stepped.begin_task(np.ones(ROOMS.n_features))
    stepped.add_row()
    with pytest.raises(ValueError, match="compiled world"):
        stepped.keys()
    with pytest.raises(ValueError, match="another world"):
        stepped.learn_task(ROOMS, np.ones(ROOMS.n_features), 10)


@settings(deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 4), st.integers(0, 200), st.sampled_from([1.0, 0.1, 1e300]))
def test_an_index_is_a_dictionary_of_rows(seed, n, count, unit):
    rng = np.random.default_rng(seed)
    keys = rng.integers(0, 6, (count, n)) * unit
    index, state = make_index(keys)
    numbered: dict[bytes, int] = {}
    wanted = [numbered.setdefault(key.tobytes(), len(numbered)) for key in keys]
    np.testing.assert_array_equal(state, wanted)
    assert len(index.bits) == len(numbered)
    others = np.concatenate([keys, rng.integers(-3, 9, (50, n)) * unit, np.full((1, n), np.nan)])
    np.testing.assert_array_equal(states_of(index, others), [numbered.get(key.tobytes(), -1) for key in others])
