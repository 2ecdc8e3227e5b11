"""The worlds of operations against their books, and the environments against the models they step through."""

import gymnasium as gym
import numpy as np
import pytest

import rasf
from rasf import Entropic, FiniteMDP
from rasf.envs.finite import FiniteEnv
from rasf_lab.operations import (
    INVENTORY_WEIGHTS,
    MACHINES_WEIGHTS,
    POWER_WEIGHTS,
    InventoryEnv,
    MachinesEnv,
    PowerEnv,
    inventory,
    machines,
    power,
)


def test_three_months_of_inventory_are_worth_what_puterman_says():
    """Section 4.6.1: values 67/16, 129/16, 194/16, 227/16, and the order policies of the first two months."""
    found = rasf.plan(inventory(gamma=1.0), INVENTORY_WEIGHTS, Entropic(0.0), horizon=3)
    np.testing.assert_allclose(found.q[0].max(axis=1), np.array([67, 129, 194, 227]) / 16)
    assert found.policy[0].tolist() == [3, 0, 0, 0]
    assert found.policy[1].tolist() == [2, 0, 0, 0]


def test_one_machine_is_kept_as_hillier_and_lieberman_say():
    """Leave it alone while it is new or worn a little, overhaul it when worn much, replace it when inoperable."""
    mdp = machines(1, gamma=0.999)
    found = rasf.plan(mdp, MACHINES_WEIGHTS, Entropic(0.0))
    policy = found.policy if found.policy.ndim == 1 else found.policy[-1]
    assert policy.tolist() == [0, 0, 1, 2]
    # 1,667 dollars a week in the long run
    assert found.value[0] * (1 - 0.999) == pytest.approx(-1.667, abs=0.01)


def test_several_machines_wear_by_themselves():
    mdp = machines(2)
    assert (mdp.n_states, mdp.n_actions) == (16, 5)
    rows = slice(*mdp.indptr[0:2])  # both new, both left alone: nine ways
    assert mdp.successor[rows].tolist() == [5, 6, 7, 9, 10, 11, 13, 14, 15]
    np.testing.assert_allclose(mdp.probability[rows], np.outer([14, 1, 1], [14, 1, 1]).ravel() / 256)
    assert mdp.phi[rows][-1].tolist() == [0, 0, 0, 0, 2]  # both become inoperable


def test_the_market_is_as_dear_calm_as_tense_and_varies_five_times_as_much():
    mdp, spot = power(), 1
    for market, spread in ((0, 0.1414), (1, 0.7223)):
        s = market * 4 * 8
        rows = slice(*mdp.indptr[s * mdp.n_actions + spot :][:2])
        chance, paid = mdp.probability[rows], mdp.phi[rows, 1]
        assert chance @ paid == pytest.approx(0.8)
        assert np.sqrt(chance @ (paid - 0.8) ** 2) == pytest.approx(spread, abs=1e-3)


def test_neither_full_nor_empty_batteries_give_anything_away():
    mdp = power(capacity=1)

    def comes_of(stored, action):
        """Units stored and features, means over what may come."""
        s = stored * 8
        rows = slice(*mdp.indptr[s * mdp.n_actions + action :][:2])
        left = np.unravel_index(mdp.successor[rows], (2, 2, 8))[1]
        return float(mdp.probability[rows] @ left), (mdp.probability[rows] @ mdp.phi[rows]).tolist()

    assert comes_of(0, 2) == (0.0, pytest.approx([1, 0, 0]))  # an empty battery: the contract helps out
    assert comes_of(1, 2) == (0.0, pytest.approx([0, 0, 1]))
    assert comes_of(0, 3) == (pytest.approx(1.0), pytest.approx([2, 0, 0]))
    assert comes_of(0, 4) == (pytest.approx(1.0), pytest.approx([0, 1.6, 0]))
    assert comes_of(1, 4) == (pytest.approx(1.0), pytest.approx([0, 0.8, 0]))  # full: one unit is enough


def test_no_price_tells_where_the_risk_is():
    """Averse planning buys at spot in a calm market only; neutral planning, at any price, does not tell them apart."""
    mdp, empty = power(), [0, 4 * 8]
    for surcharge in np.linspace(0.0, 1.0, 21):
        w = np.array(POWER_WEIGHTS) - [0, surcharge, 0]
        calm, tense = rasf.plan(mdp, w, Entropic(0.0), horizon=8).policy[0][empty]
        assert calm == tense
    calm, tense = rasf.plan(mdp, POWER_WEIGHTS, Entropic(-1.0), horizon=8).policy[0][empty]
    assert calm in (1, 4)
    assert tense == 0


@pytest.mark.parametrize("make", [InventoryEnv, MachinesEnv, PowerEnv])
def test_an_environment_steps_as_its_model_says(make):
    env, rng = make(), np.random.default_rng(0)
    seen = {}
    state, _ = env.reset(seed=1)
    for _ in range(6_000):
        action = rng.integers(env.action_space.n)
        after, phi, terminated, truncated, info = env.step(action)
        assert info["failure"] == ("failure" in env.feature_names and phi[-1] > 0)
        assert not terminated
        assert not truncated
        seen.setdefault((int(state), int(action)), []).append(phi)
        state = after
    (s, a), found = max(seen.items(), key=lambda item: len(item[1]))
    rows = slice(*env.mdp.indptr[s * env.mdp.n_actions + a :][:2])
    mean = env.mdp.probability[rows] @ env.mdp.phi[rows]
    spread = np.std(found, axis=0) / np.sqrt(len(found))
    assert (np.abs(np.mean(found, axis=0) - mean) <= 4 * spread + 1e-6).all()
    with pytest.raises(ValueError, match="action must be 0 to"):
        env.step(99)


def test_they_are_registered_and_learned():
    env = gym.make("rasf/Inventory-v0", disable_env_checker=True)
    assert env.spec.max_episode_steps == 36
    one = {"env_kwargs": {"count": 1}}
    library = rasf.learn("rasf/Machines-v0", tasks=2, steps_per_task=300, agent="rasf-model", **one)
    assert library.environment.feature_names[-1] == "failure"
    assert all(number <= 0 for policy in library.policies for number in policy.w)
    report = library.evaluate(
        "rasf/Machines-v0", MACHINES_WEIGHTS, episodes=3, env_kwargs={"count": 1}, limits={"failure": 9}
    )
    assert report.lengths.tolist() == [52] * 3


def test_a_model_of_ones_own_can_be_acted_in():
    mdp = FiniteMDP([[[0.0, 1.0]], [[0.0, 1.0]]], np.ones((2, 1, 1)), terminal=[1])
    env = FiniteEnv(mdp, 0, ("steps",), (-1,))
    env.reset(seed=0)
    assert env.step(0)[1:4] == (np.ones(1), True, False)


def test_bad_input():
    with pytest.raises(ValueError, match="capacity"):
        inventory(0)
    with pytest.raises(ValueError, match="sum to 1"):
        inventory(demand=(0.5, 0.4))
    with pytest.raises(ValueError, match="count"):
        machines(0)
