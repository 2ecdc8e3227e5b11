"""Libraries that grow and merge: the old policies stay bit for bit, help to explore, and must fit."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from library_worlds import corridor, random_world, scripted
from random_tables import random_sources

import rasf
from rasf import CVaR, Entropic, MeanVariance
from rasf.tabular.table import SigmaForm

NEUTRAL, AVERSE = MeanVariance(0.0), MeanVariance(-1.0)
NETS = {"agent": "sfdqn", "widths": (8,), "batch": 4}
ATOMS = {"agent": "rasfc51", "widths": (8,), "batch": 4, "atoms": 5}
STATES = np.arange(4)
W = [0.6, -0.4]


def learned(seed=0, world=None, tasks=((1.0, 0.0), (0.3, 1.0)), **options):
    options = {"agent": "rasfql", "steps_per_task": 60} | options
    return rasf.learn(random_world(2) if world is None else world, tasks=tasks, seed=seed, **options)


def scored(library, risk=NEUTRAL):
    found = library.scores(STATES, W, risk)
    return np.stack([found.values, found.mean, found.std])


@pytest.mark.parametrize("options", [{}, NETS, pytest.param(ATOMS, marks=pytest.mark.slow)])
def test_growing_keeps_the_old_policies_bit_for_bit(options):
    old = learned(**options)
    before, arrays = scored(old), {name: array.copy() for name, array in old.sources.arrays().items()}
    grown = old.grow(random_world(2), [[-1.0, 0.5], [0.0, 2.0]], steps_per_task=60)
    np.testing.assert_array_equal(scored(grown)[:, :2], before)
    for name, array in old.sources.arrays().items():
        np.testing.assert_array_equal(array, arrays[name])
    assert old.sources.policies == 2
    assert grown.policies == (*old.policies, ((-1.0, 0.5), NEUTRAL), ((0.0, 2.0), NEUTRAL))
    assert (grown.gamma, grown.agent) == (old.gamma, old.agent)
    np.testing.assert_array_equal(grown.history["return"][:2], old.history["return"])
    np.testing.assert_array_equal(grown.act(STATES, W, NEUTRAL), scored(grown)[0].max(axis=0).argmax(axis=-1))
    assert not np.array_equal(scored(grown)[:, 2], before[:, 0])


def test_old_policies_lead_a_table_to_what_it_would_hardly_find():
    # from anywhere the far end is found soon; from the beginning, chance finds it once in thousands of tries
    base = rasf.learn(corridor(start=None), tasks=[[1.0, 0.0]], agent="rasfql", steps_per_task=3000, epsilon=0.5)
    walk = {"steps_per_task": 300, "epsilon": 0.02, "seed": 3}
    grown = base.grow(corridor(), [[2.0, 0.01]], **walk)
    alone = rasf.learn(corridor(), tasks=[[2.0, 0.01]], agent="rasfql", **walk)
    assert grown.history["return"][-1] > 25  # 2 for every walk of 11 steps, most of which succeed
    assert alone.history["return"][0] < 2
    assert all(grown.act(s, [1.0, 0.0], NEUTRAL) == 1 for s in range(11))


class Bandit(gym.Env):
    """One observation, one step: action a gives feature a."""

    observation_space, action_space = spaces.Box(0.0, 1.0, (1,), np.float32), spaces.Discrete(2)
    reward_space = spaces.Box(0.0, 1.0, (2,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.ones(1, np.float32), {}

    def step(self, action):
        return np.ones(1, np.float32), np.eye(2, dtype=np.float32)[action], True, False, {}


def test_old_policies_lead_networks_that_have_learned_nothing_yet():
    base = rasf.learn(Bandit(), tasks=np.eye(2), steps_per_task=150, learning_rate=0.02, epsilon=1.0, **NETS)
    still = {"steps_per_task": 5, "learning_rate": 0.0, "epsilon": 0.0}
    led, alone = [], []
    for seed in range(6):
        led.append(base.grow(Bandit(), np.eye(2), seed=seed, **still).history["return"][2:])
        alone.append(rasf.learn(Bandit(), tasks=np.eye(2), seed=seed, **still, **NETS).history["return"])
    np.testing.assert_array_equal(led, np.full((6, 2), 5.0))  # the right action, each time
    assert np.min(alone) == 0.0


def test_a_library_that_grows_draws_other_tasks():
    old = learned(tasks=3)
    grown = old.grow(random_world(2), 3, steps_per_task=10)
    drawn = np.array([policy.w for policy in grown.policies])
    assert len(np.unique(drawn, axis=0)) == 6
    again = grown.grow(random_world(2), 3, steps_per_task=10)
    assert len(np.unique([policy.w for policy in again.policies], axis=0)) == 9


@pytest.mark.parametrize("options", [{}, NETS, ATOMS])
def test_growing_takes_over_what_must_be_the_same(options):
    # the world declares no bounds, so that another seed would estimate another support
    def world():
        unbounded = random_world(2)
        del unbounded.reward_space
        return unbounded

    old = learned(world=world(), gamma=0.6, steps_per_task=8, **options)
    grown = old.grow(world(), 2, seed=5, steps_per_task=8)
    assert grown.gamma == 0.6
    assert grown.sources.policies == 4
    for name, value in {"gamma": 0.7, "widths": (16,), "atoms": 7}.items():
        if name in options or name == "gamma":
            with pytest.raises(ValueError, match=f"^{name} must"):
                old.grow(None, 1, **{name: value})  # before an environment is looked at
    if "widths" in options:
        assert old.grow(world(), 2, widths=[8], steps_per_task=8).sources.policies == 4


def test_a_diagonal_covariance_of_an_earlier_version_does_not_grow():
    old = random_sources(np.random.default_rng(0), sigma=SigmaForm.DIAGONAL)
    with pytest.raises(ValueError, match="cannot grow"):
        old.shared_settings()


@pytest.mark.parametrize(("options", "asked", "said"), [
    ({}, {"env": random_world(2, S=5)}, "can grow only in the environment it was trained in, but observations"),
    ({}, {"env": random_world(2, A=3)}, "can grow only in the environment it was trained in, but n_actions"),
    ({}, {"env": random_world(2, d=3)}, "can grow only in the environment it was trained in, but n_features"),
    ({}, NETS, "a library of tables cannot grow by the agent sfdqn, which learns networks"),
    (NETS, {"agent": "rasfql"}, "as in the library that grows|settings must be among|a library of networks"),
    ({"agent": "sfql"}, {"risk": AVERSE, "agent": "rasfql"}, "risk must be neutral"),
    ({"agent": "sfql"}, {"risk": AVERSE}, "agent 'sfql' is risk-neutral"),
])  # fmt: skip
def test_what_cannot_be_added_is_refused_before_it_is_learned(options, asked, said):
    old = learned(**{"steps_per_task": 8} | options)
    asked = {"env": random_world(2), "tasks": 1, "callback": lambda record: pytest.fail("it was learned")} | asked
    with pytest.raises(ValueError, match=said) as refused:
        old.grow(asked.pop("env"), **asked)
    assert "\n" not in str(refused.value)


def test_another_environment_of_the_same_sizes_is_named_in_the_words_of_growing():
    old = learned(steps_per_task=8)
    with pytest.raises(ValueError, match="env must"):
        old.grow(random_world(3), 1, steps_per_task=2)


# --- merging


@pytest.mark.parametrize("options", [{}, NETS, ATOMS])
def test_a_merged_library_scores_as_its_parts_and_acts_by_the_best(options):
    parts = [learned(seed, **options) for seed in (0, 1)]
    merged = rasf.merge(parts)
    risks = [NEUTRAL] + [AVERSE, CVaR(0.3)] * (options is not NETS) + [Entropic(-1.0)] * (options is ATOMS)
    for risk in risks:
        values = np.concatenate([part.scores(STATES, W, risk).values for part in parts])
        np.testing.assert_array_equal(merged.scores(STATES, W, risk).values, values)
        np.testing.assert_array_equal(merged.act(STATES, W, risk), values.max(axis=0).argmax(axis=-1))
    assert merged.policies == parts[0].policies + parts[1].policies
    np.testing.assert_array_equal(merged.history["return"], np.concatenate([part.history["return"] for part in parts]))
    assert merged.provenance == {"merged": [part.provenance for part in parts]}
    alone = rasf.merge(parts[:1])
    np.testing.assert_array_equal(scored(alone), scored(parts[0]))


def test_a_policy_takes_no_part_where_its_learner_never_was():
    space = spaces.Box(-9.0, 9.0, (1,), np.float64)
    here, there = (
        rasf.learn(scripted(space, [np.array([x]), np.array([x + 1])], [x], 2), tasks=[[1.0]], agent="rasfql",
                   steps_per_task=20)
        for x in (1.0, 5.0)
    )  # fmt: skip
    merged = rasf.merge([here, there])
    found = merged.scores(np.array([[1.0], [5.0], [8.0]]), [1.0], NEUTRAL)
    assert (found.values[1, 0] == -np.inf).all()
    assert (found.values[0, 1] == -np.inf).all()
    np.testing.assert_array_equal(found.source[:2], [0, 1])
    np.testing.assert_array_equal(found.seen, [True, True, False])


def test_much_grown_libraries_can_be_saved(tmp_path):
    small = learned(tasks=[[1.0, 0.0]], steps_per_task=5)
    library = small
    for _ in range(70):
        library = rasf.merge([library, small])
    library.save(tmp_path / "much.rasf")
    assert len(rasf.load(tmp_path / "much.rasf").policies) == 71
    assert library.agent == "rasfql"


def test_agents_of_one_law_may_be_mixed_and_grow():
    mixed = rasf.merge([learned(**ATOMS), learned(**ATOMS | {"agent": "sfc51"})])
    assert mixed.agent == "rasfc51 + sfc51"
    grown = mixed.grow(random_world(2), 2, steps_per_task=8)
    assert grown.agent == "rasfc51 + sfc51"
    assert len(grown.policies) == 6


def test_what_does_not_fit_is_not_merged():
    table = learned(steps_per_task=8)
    others = {
        "their observations differ": learned(world=random_world(2, S=5), steps_per_task=8),
        "their n_actions differ": learned(world=random_world(2, A=3), steps_per_task=8),
        "their first_action differ": learned(world=random_world(2, first_action=1), steps_per_task=8),
        "their n_features differ": learned(world=random_world(2, d=3), tasks=1, steps_per_task=8),
        "their bounds differ": learned(world=random_world(3), steps_per_task=8),
        "their (bounds|phi) differ": learned(phi=lambda *_: [0.0, 1.0], steps_per_task=8),
        "must all be tabular or all be networks": learned(steps_per_task=8, **NETS),
        "the same gamma": learned(gamma=0.5, steps_per_task=8),
        "the same sigma": learned(agent="sfql", steps_per_task=8),
    }
    for said, other in others.items():
        for pair in ([table, other], [other, table]):
            with pytest.raises(ValueError, match=said) as refused:
                rasf.merge(pair)
            assert "\n" not in str(refused.value)
    with pytest.raises(ValueError, match="libraries must"):
        rasf.merge([])
    for no_list in (table, [1], [table, "a.rasf"]):
        with pytest.raises(ValueError, match="libraries must"):
            rasf.merge(no_list)
    with pytest.raises(ValueError, match="networks to merge"):
        rasf.merge([learned(steps_per_task=8, **NETS), learned(steps_per_task=8, **ATOMS)])
    narrow = learned(steps_per_task=8, support=[[0, 1], [0, 1]], **ATOMS)
    with pytest.raises(ValueError, match="same atoms"):
        rasf.merge([learned(steps_per_task=8, **ATOMS), narrow])


def test_what_cannot_be_given_to_learn_or_grow_is_refused():
    library = learned()
    with pytest.raises(ValueError, match="base_library cannot be given to grow"):
        library.grow(random_world(2), tasks=[[1.0, 1.0]], base_library=library)
    with pytest.raises(ValueError, match=r"tasks must be finite weights between -1e\+15 and 1e\+15"):
        learned(tasks=[[1e308, 1.0]])
