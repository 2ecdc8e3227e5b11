"""The names of the paper, and refusals in one clear sentence."""

import numpy as np
import pytest
from deep_twin import create_agent
from probe_worlds import Walk

from rasf.agents import LawKind
from rasf.deep.agent import DEEP_AGENTS, Agent, AgentSettings, Tasks, preset
from rasf.deep.laws import Histogram, MeanCovariance, MeanOnly, support_atoms
from rasf.risk import MeanVariance

TRAINING = Tasks(np.array([[1.0, 0.0, -3.0], [0.0, 1.0, -3.0]]), np.array([[0.1, 0.2], [0.3, 0.4]]))
BOUNDS = np.array([(-1.0, 1.0), (-1.0, 1.0), (0.0, 1.0)])


def make(name, **changes):
    return create_agent(preset(name, **changes), 4, 9, BOUNDS, TRAINING)


def test_defaults_are_the_paper_s():
    settings = AgentSettings()
    assert settings == preset("rasfc51")
    assert (settings.atoms, settings.widths, settings.gamma, settings.bounds) == (51, (256, 256), 0.9, (-30.0, 10.0))
    assert (settings.target_period, settings.learning_rate, settings.batch) == (1_000, 1e-3, 32)
    assert (settings.epsilon, settings.bootstrap, settings.risk) == (0.1, "own", MeanVariance)


def test_risk_neutral_agents_are_the_same_agents():
    assert preset("sfc51") == preset("rasfc51")
    assert preset("c51") == preset("rac51")
    papers = {"rasfc51", "sfc51", "rac51", "c51", "rac51-relabelled", "sfdqn", "sfdqn-residual"}
    assert set(DEEP_AGENTS) == papers | {"rasfdqn"}
    for name in papers:  # nothing beyond the paper is on in its presets
        assert (preset(name).average, preset(name).corrected, preset(name).updates) == (0, False, 1)


def test_presets_with_changes():
    changed = preset("sfdqn", gamma=0.5, target_period=0)
    assert (changed.law, changed.gamma, changed.target_period) == (LawKind.MEAN, 0.5, 0)
    assert AgentSettings(law="point").law is LawKind.MEAN
    assert preset("sfdqn").gamma == 0.9
    with pytest.raises(ValueError, match="agent must"):
        preset("dqn")


@pytest.mark.parametrize(
    ("name", "law", "policies", "inputs", "shapes", "active"),
    [
        ("rasfc51", Histogram, 2, 4, [(3, 51)], 2),
        ("rac51", Histogram, 1, 6, [(1, 51)], 1),
        ("rac51-relabelled", Histogram, 1, 6, [(1, 51)], 1),
        ("sfdqn", MeanOnly, 2, 4, [(1, 3)], 2),
        ("sfdqn-residual", MeanCovariance, 2, 4, [(1, 3), (1, 6)], 2),
    ],
)
def test_sizes(name, law, policies, inputs, shapes, active):
    agent = make(name)
    assert type(agent.law) is law
    assert (agent.policies, agent.inputs, agent.actions, agent.active_features) == (policies, inputs, 9, active)
    assert [tuple(shape) for shape in agent.law.shapes()] == shapes
    assert hash(agent) == hash(make(name))
    assert agent == make(name)


def test_events_are_features_of_the_law_of_logarithms():
    assert make("rasfdqn", events=(2,)).law.events == (2,)
    with pytest.raises(ValueError, match="events must be features from 0 to 2"):
        make("rasfdqn", events=(3,))
    with pytest.raises(ValueError, match="events are for the law 'log-moments'"):
        make("rasfc51", events=(1,))


@pytest.mark.parametrize(
    ("name", "changes", "told"),
    [
        ("sfdqn", {"frequency": 2.0}, "frequency, got 2.0"),
        ("rac51", {}, "conditioned, got True"),
        ("sfdqn", {"conditioned": True}, "conditioned, got True"),
        ("rasfdqn", {"events": (2,), "expected_events": True}, "expected_events, got True"),
    ],
    ids=["sines", "rac51", "conditioned", "expected events"],
)
def test_objects_are_for_networks_that_see_nothing_else(name, changes, told):
    preset(name, **changes)
    with pytest.raises(ValueError, match=f"^objects cannot go with {told}$") as refusal:
        preset(name, objects=2, **changes)
    assert "\n" not in str(refusal.value)


def test_lasting_is_no_number_of_steps():
    assert preset("rasfdqn", lasting=True).lasting
    with pytest.raises(ValueError, match=r"^lasting must be True or False, got 5$"):
        preset("rasfdqn", lasting=5)


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
    (atoms,) = make("rac51").law.atoms
    assert (len(atoms), atoms[0], atoms[-1]) == (51, -30.0, 10.0)


def test_active_features_are_those_that_matter():
    agent = make("rasfc51")
    assert agent.for_weights([[1.0, 0.0, 0.0]]).active_features == 1
    assert agent.for_weights([[1.0, 0.0, 0.0], [1.0, 2.0, 3.0]]).active_features == 3
    assert agent.for_weights([[0.0, 0.0, 0.0]]).active_features == 1


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"law": "quantile"}, "law"),
        ({"law": "table"}, "law"),
        ({"bootstrap": "other"}, "bootstrap"),
        ({"conditioned": True, "law": "residual"}, "law 'residual'"),
        ({"relabel": True}, "relabel"),
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
        ({"settle": 1.5}, "settle"),
        ({"settle": -0.1}, "settle"),
        ({"law": "log-moments", "events": [0]}, "events"),
        ({"law": "log-moments", "events": (0, 0)}, "events"),
        ({"law": "log-moments", "events": (-1,)}, "events"),
        ({"law": "log-moments", "events": (0.5,)}, "events"),
        ({"objects": -1}, "objects"),
        ({"objects": 2.0}, "objects"),
        ({"objects": True}, "objects"),
        ({"atoms": 1}, "atoms"),
        ({"atoms": 5.5}, "atoms"),
        ({"atoms": 10**9}, "atoms"),
        ({"atoms": 1, "conditioned": True}, "atoms"),
        ({"conditioned": True, "bounds": (10.0, -30.0)}, "bounds"),
        ({"conditioned": True, "bounds": (0.0, float("inf"))}, "bounds"),
        ({"learning_rate": -1e-3}, "learning_rate"),
        ({"learning_rate": float("nan")}, "learning_rate"),
        ({"learning_rate": None}, "learning_rate"),
        ({"risk": MeanVariance(-3.0)}, "risk"),
    ],
)
def test_bad_settings_are_refused(change, name):
    with pytest.raises(ValueError, match=f"^{name} (must|is for)") as refusal:
        AgentSettings(**change)
    assert "\n" not in str(refusal.value)


def test_numbers_of_numpy_are_numbers():
    given = {"atoms": np.int64(5), "widths": (np.int32(8),), "gamma": np.float32(0.5), "epsilon": 0}
    assert AgentSettings(**given) == AgentSettings(atoms=5, widths=(8,), gamma=0.5, epsilon=0.0)


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
@pytest.mark.parametrize("name", ["rasfc51", "rac51"])
def test_sizes_and_tasks_that_cannot_be_are_refused(name, change, words):
    given = {"observation_size": 4, "n_actions": 9, **TRAINING._asdict(), **change}
    training = Tasks(given.pop("weights"), given.pop("inputs"))
    with pytest.raises(ValueError, match=words) as refusal:
        Agent.create(preset(name), training=training, atoms=support_atoms(BOUNDS, 0.9, 51), **given)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("name", ["rasfc51", "sfdqn"])
def test_atoms_must_fit_the_tasks(name):
    with pytest.raises(ValueError, match="atoms must"):
        create_agent(preset(name), 4, 9, BOUNDS[:2], TRAINING)


def test_histograms_need_atoms_and_others_do_not():
    with pytest.raises(ValueError, match="atoms must"):
        Agent.create(preset("rasfc51"), 4, 9, TRAINING)
    assert Agent.create(preset("sfdqn"), 4, 9, TRAINING) == make("sfdqn")
    assert Agent.create(preset("rac51"), 4, 9, TRAINING) == make("rac51")


def test_an_agent_for_a_world_has_its_sizes_and_its_support():
    settings, walk = preset("rasfc51"), Walk()
    agent = Agent.for_world(settings, walk, TRAINING)
    assert agent == create_agent(settings, walk.observation_size, walk.n_actions, walk.feature_bounds, TRAINING)
