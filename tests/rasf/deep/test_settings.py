"""Defaults of the agents that learn by networks, and refusals in one clear sentence."""

from dataclasses import fields, replace

import numpy as np
import pytest
from deep_twin import create_agent, settings_of
from probe_worlds import Walk

from rasf.agents import LawKind
from rasf.deep.agent import Agent, Tasks
from rasf.deep.clock import TIME_INPUTS, Clock
from rasf.deep.laws import Histogram, MeanCovariance, MeanOnly, support_atoms
from rasf.deep.low_rank import MeanLowRank
from rasf.deep.make_law import make_law
from rasf.deep.settings import (
    DEEP_AGENTS,
    ActorSettings,
    CovarianceSettings,
    HistogramSettings,
    MeanSettings,
    MomentSettings,
    NetworkSettings,
    network_settings,
)
from rasf.risk import MeanVariance

TRAINING = Tasks(np.array([[1.0, 0.0, -3.0], [0.0, 1.0, -3.0]]), np.array([[0.1, 0.2], [0.3, 0.4]]))
BOUNDS = np.array([(-1.0, 1.0), (-1.0, 1.0), (0.0, 1.0)])


def make(name, **changes):
    return create_agent(settings_of(name, **changes), 4, 9, BOUNDS, TRAINING)


def test_defaults_are_the_paper_s():
    settings = HistogramSettings()
    assert settings == network_settings("rasfc51")
    assert (settings.atoms, settings.widths, settings.gamma) == (51, (256, 256), 0.9)
    assert (settings.target_period, settings.learning_rate, settings.batch) == (1_000, 1e-3, 32)
    assert settings.epsilon == 0.1
    agent = make("rasfc51")
    assert (agent.risk, agent.planned) == (MeanVariance, 0)


def test_each_kind_of_distribution_has_its_class():
    kinds = {"sfc51": HistogramSettings, "rasfc51": HistogramSettings, "sfdqn": MeanSettings}
    kinds |= {"sfdqn-residual": CovarianceSettings, "rasfdqn": MomentSettings, "rasftd3": ActorSettings}
    assert {name: type(network_settings(name)) for name in DEEP_AGENTS} == kinds
    assert network_settings("sfc51") == network_settings("rasfc51")
    shared = {one.name for one in fields(NetworkSettings)}
    own = {kind: {one.name for one in fields(kind)} - shared for kind in kinds.values()}
    of_actors = {"actor_learning_rate", "noise", "policies_per_update"}
    assert own == {HistogramSettings: {"atoms"}, MeanSettings: set(), CovarianceSettings: set(),
                   MomentSettings: {"events", "averse_episodes"},
                   ActorSettings: {"events", "averse_episodes", *of_actors}}  # fmt: skip
    for name in set(DEEP_AGENTS) - {"rasfdqn", "rasftd3"}:  # nothing beyond the paper is on by default
        usual = network_settings(name)
        assert (usual.average, usual.updates, usual.n_step, usual.prioritised, usual.freeze) == (0, 1, 1, 0, 0)
        assert not any((usual.epsilon_z, usual.shared, usual.interleaved, usual.decay, usual.warmup))
        assert (usual.horizon, usual.episode_length) == ("continuing", 0)
    assert (MomentSettings().horizon, MomentSettings().averse_episodes) == ("episode", 0.5)


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("n_step", 2, r"n_step must be 1 for continuous actions, got 2"),
        ("objects", 3, r"objects must be 0 for continuous actions, got 3"),
        ("noise", 1.5, "noise must"),
        ("noise", -0.1, "noise must"),
        ("actor_learning_rate", float("nan"), "actor_learning_rate must"),
        ("policies_per_update", 0, "policies_per_update must"),
        ("policies_per_update", 2.5, "policies_per_update must"),
    ],
)
def test_settings_of_actors_are_checked(name, value, sentence):
    with pytest.raises(ValueError, match=f"^{sentence}"):
        ActorSettings(**{name: value})


def test_settings_change_by_replacing():
    changed = replace(network_settings("sfdqn"), gamma=0.5, target_period=0)
    assert (changed.kind, changed.gamma, changed.target_period) == (LawKind.MEAN, 0.5, 0)
    assert network_settings("sfdqn").gamma == 0.9
    for name in ("dqn", "c51", "rac51"):
        with pytest.raises(ValueError, match="agent must"):
            network_settings(name)


@pytest.mark.parametrize(
    ("name", "law", "policies", "inputs", "shapes", "active"),
    [
        ("rasfc51", Histogram, 2, 4, [(3, 51)], 2),
        ("sfdqn", MeanOnly, 2, 4, [(1, 3)], 2),
        ("sfdqn-residual", MeanCovariance, 2, 4, [(1, 3), (1, 6)], 2),
        ("rasfdqn", MeanLowRank, 2, 4, [(1, 3), (1, 3), (3, 3)], 2),  # psi twice; log s^2 and factors of rank 2
    ],
)
def test_sizes(name, law, policies, inputs, shapes, active):
    agent = make(name)
    assert type(agent.law) is law
    assert (agent.policies, agent.inputs, agent.actions, agent.active_features) == (policies, inputs, 9, active)
    assert [tuple(shape) for shape in agent.law.shapes()] == shapes
    assert hash(agent) == hash(make(name))
    assert agent == make(name)


def test_a_limit_adds_inputs_and_a_head_of_the_time():
    for name, shapes in (("rasfdqn", [(2, 3), (2, 3), (3, 3)]), ("sfdqn", [(1, 3)]), ("rasfc51", [(3, 51)])):
        agent = create_agent(settings_of(name), 4, 9, BOUNDS, TRAINING, limit=10)
        assert (agent.limit, agent.inputs) == (10, 4 + TIME_INPUTS)
        assert [tuple(shape) for shape in agent.law.shapes()] == shapes
        assert agent.clock == Clock(10, agent.settings.gamma)
    assert (make("rasfdqn").limit, make("rasfdqn").clock) == (0, None)
    # two features need one factor, one needs none
    assert [make_law(LawKind.MEAN_LOW_RANK, d).rank for d in (1, 2, 3, 8)] == [0, 1, 2, 2]
    assert make_law(LawKind.MEAN_LOW_RANK, 8, rank=0).shapes() == ((1, 8), (1, 8), (1, 8))


def test_returns_without_discount_are_those_of_episodes():
    assert settings_of("sfdqn", gamma=1.0, horizon="episode").gamma == 1.0
    assert MomentSettings(gamma=1.0, episode_length=50).episode_length == 50
    with pytest.raises(ValueError, match=r"^gamma must be below 1 unless horizon is 'episode', got 1$"):
        settings_of("sfdqn", gamma=1.0)
    with pytest.raises(ValueError, match=r"^gamma must be below 1"):
        MomentSettings(gamma=1.0, horizon="continuing")


@pytest.mark.parametrize(("gamma", "limit", "power"), [(0.8, 0, 1), (0.8, 0, 2), (0.8, 6, 1), (0.8, 6, 2), (1.0, 6, 1)])
def test_sums_of_discounts_by_loops(gamma, limit, power):
    agent = create_agent(settings_of("sfdqn", gamma=gamma, horizon="episode"), 4, 9, BOUNDS, TRAINING, limit=limit)
    assert agent.summed(power) == pytest.approx(sum(gamma ** (power * t) for t in range(limit or 500)))


def test_events_are_features():
    assert make("rasfdqn", events=(2,)).law.events == (2,)
    with pytest.raises(ValueError, match="events must be features from 0 to 2"):
        make("rasfdqn", events=(3,))


def test_objects_are_for_networks_without_sines():
    for changes in ({"objects": 2}, {"frequency": 2.0}):
        settings_of("sfdqn", **changes)
    with pytest.raises(ValueError, match=r"^objects cannot be combined with frequency, got 2\.0$"):
        settings_of("sfdqn", objects=2, frequency=2.0)


def test_epsilon_z_is_no_number_of_steps():
    assert settings_of("rasfdqn", epsilon_z=True).epsilon_z
    with pytest.raises(ValueError, match=r"^epsilon_z must be True or False, got 5$"):
        settings_of("rasfdqn", epsilon_z=5)


def test_objects_divide_the_observation():
    for objects in (1, 2, 4):
        assert make("sfdqn", objects=objects).inputs == 4
    for objects in (3, 8):
        with pytest.raises(
            ValueError, match=f"^objects must divide the 4 numbers of an observation, got {objects}$"
        ) as refusal:
            make("sfdqn", objects=objects)
        assert "\n" not in str(refusal.value)


def test_supports():
    atoms = np.array(make("rasfc51").law.atoms)
    np.testing.assert_allclose(atoms[:, [0, -1]], [[-10, 10], [-10, 10], [0, 10]])


def test_active_features_are_those_that_matter():
    agent = make("rasfc51")
    assert agent.for_weights([[1.0, 0.0, 0.0]]).active_features == 1
    assert agent.for_weights([[1.0, 0.0, 0.0], [1.0, 2.0, 3.0]]).active_features == 3
    assert agent.for_weights([[0.0, 0.0, 0.0]]).active_features == 1


BAD = [
    ({"gamma": 1.0}, "gamma"),
    ({"gamma": -0.1}, "gamma"),
    ({"gamma": float("nan")}, "gamma"),
    ({"gamma": "much"}, "gamma"),
    ({"epsilon": 1.1}, "epsilon"),
    ({"epsilon": float("nan")}, "epsilon"),
    ({"epsilon": True}, "epsilon"),
    ({"widths": ()}, "widths"),
    ({"widths": (8, 0)}, "widths"),
    ({"widths": 16}, "widths"),
    ({"widths": [16]}, "widths"),
    ({"widths": (16.5,)}, "widths"),
    ({"widths": (8, True)}, "widths"),
    ({"batch": 0}, "batch"),
    ({"batch": 2.5}, "batch"),
    ({"batch": True}, "batch"),
    ({"batch": (8,)}, "batch"),
    ({"target_period": -1}, "target_period"),
    ({"target_period": 0.5}, "target_period"),
    ({"freeze": 1.5}, "freeze"),
    ({"freeze": -0.1}, "freeze"),
    ({"events": [0]}, "events"),
    ({"events": (0, 0)}, "events"),
    ({"events": (-1,)}, "events"),
    ({"events": (0.5,)}, "events"),
    ({"objects": -1}, "objects"),
    ({"objects": 2.0}, "objects"),
    ({"objects": True}, "objects"),
    ({"atoms": 1}, "atoms"),
    ({"atoms": 5.5}, "atoms"),
    ({"atoms": 10**9}, "atoms"),
    ({"learning_rate": -1e-3}, "learning_rate"),
    ({"learning_rate": float("nan")}, "learning_rate"),
    ({"learning_rate": None}, "learning_rate"),
    ({"n_step": 0}, "n_step"),
    ({"warmup": -1}, "warmup"),
    ({"replay": 0.5}, "replay"),
    ({"average": -1}, "average"),
    ({"exploration": 2.0}, "exploration"),
    ({"prioritised": 1.5}, "prioritised"),
    ({"horizon": "for ever"}, "horizon"),
    ({"horizon": None}, "horizon"),
    ({"episode_length": -1}, "episode_length"),
    ({"episode_length": 2.5}, "episode_length"),
    ({"averse_episodes": 1.5}, "averse_episodes"),
    ({"averse_episodes": -0.1}, "averse_episodes"),
    ({"averse_episodes": "half"}, "averse_episodes"),
    ({"updates": 0}, "updates"),
    ({"updates": 2_000}, "updates"),
    ({"frequency": -1.0}, "frequency"),
    ({"decay": 1}, "decay"),
    ({"shared": None}, "shared"),
    ({"interleaved": "no"}, "interleaved"),
]


def test_bad_settings_are_refused():
    for change, name in BAD:
        kind = MeanSettings
        kind = {"atoms": HistogramSettings, "events": MomentSettings, "averse_episodes": MomentSettings}.get(name, kind)
        with pytest.raises(ValueError, match=f"^{name} must") as refusal:
            kind(**change)
        assert "\n" not in str(refusal.value)


def test_a_setting_without_meaning_is_no_field():
    for kind, name in ((MeanSettings, "atoms"), (MomentSettings, "atoms"), (HistogramSettings, "events"),
                       (MeanSettings, "averse_episodes")):  # fmt: skip
        with pytest.raises(TypeError, match=name):
            kind(**{name: 5})


def test_numbers_of_numpy_are_numbers():
    given = {"atoms": np.int64(5), "widths": (np.int32(8),), "gamma": np.float32(0.5), "epsilon": 0}
    assert HistogramSettings(**given) == HistogramSettings(atoms=5, widths=(8,), gamma=0.5, epsilon=0.0)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"observation_size": -1}, "observation_size must"),
        ({"observation_size": 4.0}, "observation_size must"),
        ({"n_actions": 0}, "n_actions must"),
        ({"n_actions": True}, "n_actions must"),
        ({"weights": [[1.0, np.nan, 0.0]] * 2}, "weights of training must"),
        ({"weights": [1.0, 0.0, 0.0]}, "inputs of training must"),
        ({"weights": np.zeros((0, 3)), "inputs": np.zeros((0, 2))}, "weights of training must"),
        ({"weights": np.ones((3, 3))}, "inputs of training must"),
        ({"inputs": np.zeros(2)}, "inputs of training must"),
    ],
)
@pytest.mark.parametrize("name", ["rasfc51", "sfdqn"])
def test_sizes_and_tasks_that_cannot_be_are_refused(name, change, words):
    given = {"observation_size": 4, "n_actions": 9, **TRAINING._asdict(), **change}
    training = Tasks(given.pop("weights"), given.pop("inputs"))
    with pytest.raises(ValueError, match=words) as refusal:
        Agent.create(network_settings(name), training=training, atoms=support_atoms(BOUNDS, 0.9, 51), **given)
    assert "\n" not in str(refusal.value)


def test_histograms_need_atoms_that_fit_and_others_do_not():
    with pytest.raises(ValueError, match="atoms must"):
        create_agent(network_settings("rasfc51"), 4, 9, BOUNDS[:2], TRAINING)
    with pytest.raises(ValueError, match="atoms must"):
        Agent.create(network_settings("rasfc51"), 4, 9, TRAINING)
    assert Agent.create(network_settings("sfdqn"), 4, 9, TRAINING) == make("sfdqn")


def test_an_agent_for_a_world_has_its_sizes_and_its_support():
    settings, walk = network_settings("rasfc51"), Walk()
    agent = Agent.for_world(settings, walk, TRAINING)
    assert agent == create_agent(settings, walk.observation_size, walk.n_actions, walk.feature_bounds, TRAINING)
