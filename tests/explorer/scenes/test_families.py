"""Dials for any library, risks in words, and tasks drawn at random."""

import numpy as np
import pytest
from small_scenes import SmallScene

from rasf.library.policy_library import SourcePolicy
from rasf.risk import MeanVariance
from rasf.risk.names import stored_risk
from rasf_explorer.scenes.families import around_trained, trained_for
from rasf_explorer.scenes.grid import GridScene
from rasf_explorer.scenes.scene import Weight


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("neutral", "neutral"),
        ("mean-variance:-4.0", "mean-variance -4"),
        ("entropic:-0.25", "entropic -0.25"),
        ("cvar:0.1", "cvar 0.1"),
        ("monotone:-4.0", "monotone -4"),
        ("SkewNormal(beta=-1.0)", "SkewNormal(beta=-1.0)"),
        ("mean-variance:much", "mean-variance:much"),
    ],
)
def test_risks_in_words(text, words):
    assert trained_for(stored_risk(text)) == words


def test_dials_reach_beyond_what_was_trained_for():
    policies = [SourcePolicy((20.0, -1.0), MeanVariance(0.0)), SourcePolicy((1.0, 1.0), MeanVariance(-0.1))]
    monotone, beta, *_ = families = around_trained(policies)
    assert [one.name for one in families] == ["monotone", "mean-variance", "entropic", "cvar"]
    assert (monotone.low, monotone.neutral, monotone.high, monotone.default) == pytest.approx((-0.4, 0.0, 0.0, -0.1))
    assert (beta.low, beta.neutral, beta.high, beta.default) == pytest.approx((-0.4, 0.0, 0.2, -0.1))
    for family in families:
        assert family.low <= family.default <= family.neutral <= family.high


def test_without_a_trained_risk_rewards_say_how_far_a_dial_goes():
    large, small = (around_trained([SourcePolicy((size, 0.0), MeanVariance(0.0))])[0].default for size in (50.0, 0.5))
    assert (large, small) == pytest.approx((-0.02, -2.0))


def test_drawn_tasks_are_places_of_the_sliders():
    class Drawn(SmallScene):
        weights = (
            Weight("a", -1.0, 1.0, 0.25, 0.5),
            Weight("b", 0.0, 0.7, 0.2, 0.3),
            Weight("c", -4.0, 0.0, 1.0, -2.0, drawn=False),
        )

    drawn = np.array([Drawn().random_task(np.random.default_rng(seed)) for seed in range(200)])
    assert set(drawn[:, 0]) == set(np.arange(-1, 1.01, 0.25))
    assert set(drawn[:, 1].round(6)) <= {0.0, 0.2, 0.4, 0.6, 0.7}
    assert set(drawn[:, 2]) == {-2.0}


def test_a_random_task_of_the_grid_changes_the_traps_only():
    scene = GridScene()
    tasks = np.array([scene.random_task(np.random.default_rng(seed)) for seed in range(20)])
    assert (tasks[:, :2] == [-1.0, 20.0]).all()
    assert len({tuple(task) for task in tasks[:, 2:]}) > 10
