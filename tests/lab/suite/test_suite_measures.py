import numpy as np
import pytest

from rasf.statistics import mean_interval, share_interval
from rasf_lab.suite.figures import front as draw_front
from rasf_lab.suite.measures import front, verdict

WAYS = ["neutral", "mean-variance:-1", "mean-variance:-4", "static cvar:0.1", "price 2", "price 9"]


def told(failures, returns):
    """Five seeds about these means, with little noise that seeds share."""
    noise = np.random.default_rng(0).normal(0, 0.01, (5, 1))
    return verdict({"failures": np.array(failures) + noise, "return": np.array(returns) + noise}, WAYS, 5_000)


def test_a_front_is_the_best_return_with_so_few_failures():
    failures, returns = np.array([0.5, 0.1, 0.3]), np.array([9.0, 5.0, 4.0])
    assert front(failures, returns, np.array([0.0, 0.1, 0.4, 0.5])).tolist() == [-np.inf, 5.0, 5.0, 9.0]


def test_the_level_told_is_cheap_and_has_fewest_failures():
    found = told([0.5, 0.3, 0.1, 0.0, 0.3, 0.1], [10.0, 9.5, 5.0, 9.0, 9.5, 5.0])
    assert found["level"] == "mean-variance:-1"  # -4 costs half of the return, static risk is not on the dial
    assert found["helps"]
    assert found["fewer"][0] == pytest.approx(-0.2)
    assert found["cost"][0] == pytest.approx(0.5)
    assert found["than_prices"] == "as much"


def test_where_nothing_is_cheap_the_fewest_failures_are_told():
    assert told([0.5, 0.3, 0.1, 0.0, 0.3, 0.1], [10.0, 5.0, 4.0, 9.0, 9.5, 5.0])["level"] == "mean-variance:-4"


@pytest.mark.parametrize(("prices", "word"), [((9.0, 4.0), "more"), ((9.9, 9.8), "less")])
def test_fronts_are_held_against_prices(prices, word):
    assert told([0.5, 0.3, 0.1, 0.0, 0.3, 0.1], [10.0, 9.5, 9.0, 9.0, *prices])["than_prices"] == word


def test_no_help_where_failures_stay():
    rng = np.random.default_rng(1)
    failures = 0.3 + rng.normal(0, 0.05, (5, len(WAYS)))
    assert not verdict({"failures": failures, "return": np.ones((5, len(WAYS)))}, WAYS, 5_000)["helps"]


def test_a_rival_of_one_seed_is_drawn_without_intervals_and_says_so():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    point = {"failures": [0.3, 0.2, 0.4], "return": [1.0, 0.5, 1.5]}
    alone = {"failures": [0.5, None, None], "return": [0.2, None, None]}
    rivals = {"dqn-batched": alone | {"seeds": [3], "steps": 5}, "envelope": point | {"seeds": [0, 1], "steps": 7_000}}
    figure, axes = pyplot.subplots()
    draw_front(axes, {"ways": {"neutral": point}, "rivals": rivals, "failures": "losses"})
    said = [text.get_text() for text in axes.get_legend().get_texts()]
    pyplot.close(figure)
    assert said == ["DQN (batched), 5 steps per weighting (seed 3 only)", "Envelope, 7,000 steps for all weightings"]


def test_no_failures_in_any_seed_have_an_interval():
    """0 of 5,000 episodes: as of a share, whatever the seeds."""
    none = np.zeros((5, len(WAYS)))
    found = verdict({"failures": none, "return": np.ones(none.shape)}, WAYS, 5_000)
    rare = share_interval(0, 5_000).high
    assert found["failures"] == [list(share_interval(0, 5_000))] * 2
    assert found["fewer"] == pytest.approx([0.0, -rare, rare])
    assert not found["helps"]
    some = none.copy()
    some[:, 0] = 0.2
    less = verdict({"failures": some, "return": np.ones(none.shape)}, WAYS, 5_000)
    assert less["fewer"][2] < 0
    assert less["helps"]
    some[:, 0] = [0.1, 0.2, 0.3, 0.2, 0.1]
    wide = verdict({"failures": some, "return": np.ones(none.shape)}, WAYS, 5_000)
    assert wide["failures"][0] == list(mean_interval(some[:, 0]))  # seeds differ by more than chance
    assert wide["fewer"] == list(mean_interval(-some[:, 0]))
