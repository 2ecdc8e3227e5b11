"""The names of the paper, and refusals in one clear sentence."""

import numpy as np
import pytest

from rasf.deep.agent import DEEP_AGENTS, Agent, AgentSettings, Tasks, preset
from rasf.deep.laws import Histogram, MeanCovariance, MeanOnly
from rasf.risk import MeanVariance

TRAINING = Tasks(np.array([[1.0, 0.0, -3.0], [0.0, 1.0, -3.0]]), np.array([[0.1, 0.2], [0.3, 0.4]]))
BOUNDS = np.array([(-1.0, 1.0), (-1.0, 1.0), (0.0, 1.0)])


def make(name, **changes):
    return Agent.create(preset(name, **changes), 4, 9, BOUNDS, TRAINING)


def test_defaults_are_the_paper_s():
    settings = AgentSettings()
    assert settings == preset("rasfc51")
    assert (settings.atoms, settings.widths, settings.gamma, settings.bounds) == (51, (256, 256), 0.9, (-30.0, 10.0))
    assert (settings.target_period, settings.learning_rate, settings.batch) == (1_000, 1e-3, 32)
    assert (settings.epsilon, settings.bootstrap, settings.risk) == (0.1, "own", MeanVariance)


def test_risk_neutral_agents_are_the_same_agents():
    assert preset("sfc51") == preset("rasfc51")
    assert preset("c51") == preset("rac51")
    assert set(DEEP_AGENTS) == {"rasfc51", "sfc51", "rac51", "c51", "rac51-relabelled", "sfdqn", "sfdqn-residual"}


def test_presets_with_changes():
    changed = preset("sfdqn", gamma=0.5, target_period=0)
    assert (changed.law, changed.gamma, changed.target_period) == ("point", 0.5, 0)
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
    assert isinstance(agent.law, law)
    assert (agent.policies, agent.inputs, agent.actions, agent.active) == (policies, inputs, 9, active)
    assert [tuple(shape) for shape in agent.law.shapes()] == shapes
    assert hash(agent) == hash(make(name))
    assert agent == make(name)


def test_supports():
    atoms = np.array(make("rasfc51").law.atoms)
    np.testing.assert_allclose(atoms[:, [0, -1]], [[-10, 10], [-10, 10], [0, 10]])
    (atoms,) = make("rac51").law.atoms
    assert (len(atoms), atoms[0], atoms[-1]) == (51, -30.0, 10.0)


def test_weighing_counts_the_features_that_matter():
    agent = make("rasfc51")
    assert agent.weighing([[1.0, 0.0, 0.0]]).active == 1
    assert agent.weighing([[1.0, 0.0, 0.0], [1.0, 2.0, 3.0]]).active == 3
    assert agent.weighing([[0.0, 0.0, 0.0]]).active == 1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"law": "quantile"}, "law must be one of histogram, point, residual, got 'quantile'"),
        ({"bootstrap": "other"}, "bootstrap must be one of own, gpi, got 'other'"),
        ({"conditioned": True, "law": "residual"}, "law 'residual' is for successor features"),
        ({"relabel": True}, "relabel is for conditioned networks"),
        ({"gamma": 1.0}, r"gamma must be in \[0, 1\), got 1.0"),
        ({"gamma": -0.1}, "gamma must be"),
        ({"gamma": float("nan")}, "gamma must be"),
        ({"epsilon": 1.1}, r"epsilon must be in \[0, 1\], got 1.1"),
        ({"epsilon": float("nan")}, "epsilon must be"),
        ({"widths": ()}, "widths and batch must be positive"),
        ({"widths": (8, 0)}, "widths and batch must be positive"),
        ({"batch": 0}, "widths and batch must be positive"),
        ({"target_period": -1}, "target_period not negative"),
        ({"atoms": 1}, "atoms must be at least 2, got 1"),
        ({"atoms": 1, "conditioned": True}, "atoms must be at least 2, got 1"),
        ({"conditioned": True, "bounds": (10.0, -30.0)}, r"bounds must be finite, low below high, got \(10.0, -30.0\)"),
        ({"conditioned": True, "bounds": (0.0, float("inf"))}, "bounds must be finite"),
        ({"learning_rate": -1e-3}, "learning_rate must be finite and not negative, got -0.001"),
        ({"learning_rate": float("nan")}, "learning_rate must be finite"),
        ({"atoms": 5.5}, r"settings must be numbers, or sizes such as .*, and whole where they count, got atoms=5.5"),
        ({"batch": 2.5}, "got batch=2.5"),
        ({"batch": True}, "got batch=True"),
        ({"batch": (8,)}, r"got batch=\(8,\)"),
        ({"target_period": 0.5}, "got target_period=0.5"),
        ({"widths": 16}, r"settings must be numbers, or sizes such as widths=\(64, 64\), .*, got widths=16"),
        ({"widths": [16]}, r"got widths=\[16\]"),
        ({"widths": (16.5,)}, r"got widths=\(16.5,\)"),
        ({"widths": (8, True)}, r"got widths=\(8, True\)"),
        ({"gamma": "much"}, "got gamma='much'"),
        ({"epsilon": True}, "got epsilon=True"),
        ({"learning_rate": None}, "got learning_rate=None"),
        ({"risk": MeanVariance(-3.0)}, r"risk must be something that takes beta, .*, got MeanVariance\(beta=-3.0\)"),
    ],
)
def test_bad_settings_are_refused(change, words):
    with pytest.raises(ValueError, match=words) as refusal:
        AgentSettings(**change)
    assert "\n" not in str(refusal.value)


def test_numbers_of_numpy_are_numbers():
    given = {"atoms": np.int64(5), "widths": (np.int32(8),), "gamma": np.float32(0.5), "epsilon": 0}
    assert AgentSettings(**given) == AgentSettings(atoms=5, widths=(8,), gamma=0.5, epsilon=0.0)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"observation_size": -1}, "observation_size must be a positive whole number, got -1"),
        ({"observation_size": 4.0}, "observation_size must be a positive whole number, got 4.0"),
        ({"n_actions": 0}, "n_actions must be a positive whole number, got 0"),
        ({"n_actions": True}, "n_actions must be a positive whole number, got True"),
        (
            {"weights": [[1.0, np.nan, 0.0]] * 2},
            r"training must have finite weights \(T, d\) and inputs .*, got .* nan",
        ),
        ({"weights": [1.0, 0.0, 0.0]}, r"training must have finite .*, got weights \[1.0, 0.0, 0.0\]"),
        ({"weights": np.zeros((0, 3)), "inputs": np.zeros((0, 2))}, r"training must have .*, got weights \[\]"),
        ({"weights": np.ones((3, 3))}, r"training must have .* and inputs of shape \(2, 2\)"),
        ({"inputs": np.zeros(2)}, r"training must have .* and inputs of shape \(2,\)"),
    ],
)
@pytest.mark.parametrize("name", ["rasfc51", "rac51"])
def test_sizes_and_tasks_that_cannot_be_are_refused(name, change, words):
    given = {"observation_size": 4, "n_actions": 9, **TRAINING._asdict(), **change}
    training = Tasks(given.pop("weights"), given.pop("inputs"))
    with pytest.raises(ValueError, match=words) as refusal:
        Agent.create(preset(name), feature_bounds=BOUNDS, training=training, **given)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("name", ["rasfc51", "sfdqn"])
def test_feature_bounds_must_fit_the_tasks(name):
    with pytest.raises(ValueError, match="feature_bounds must"):
        Agent.create(preset(name), 4, 9, BOUNDS[:2], TRAINING)


def test_feature_bounds_must_be_bounds():
    with pytest.raises(ValueError, match="each low below its high"):
        Agent.create(preset("rasfc51"), 4, 9, BOUNDS[:, ::-1], TRAINING)
