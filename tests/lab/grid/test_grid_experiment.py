"""The motivating example: the numbers of `facts.md`, found there by another program."""

import numpy as np
import pytest

import rasf
from rasf.envs.grid import Grid
from rasf_lab.common import results
from rasf_lab.paper.grid import claims, figures, runs


def no_tick():
    pass


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    return runs.run("quick", 3, no_tick, tmp_path_factory.mktemp("grid"))


def test_utilities_at_the_start(result):
    start = Grid().start
    numbers = result.numbers
    assert numbers["optimal_utility"][start] == pytest.approx(3.48, abs=5e-3)
    assert numbers["utility"]["averse"][start] == pytest.approx(3.48, abs=5e-3)
    assert numbers["utility"]["neutral"][start] == pytest.approx(-2.06, abs=5e-3)
    assert [u[start] for u in numbers["source_utility_on_target"]] == pytest.approx([-1.72, -2.06], abs=5e-3)


def test_all_claims_of_figure_1_hold(result):
    assert {key: result.findings[key].verdict for key in ("G1", "G2", "G3", "G4", "G5")} == dict.fromkeys(
        ("G1", "G2", "G3", "G4", "G5"), "holds"
    )


def test_rollouts_agree_with_exact_moments(result):
    """Mean and variance of the 35-step return, exactly, against 1,000 rollouts."""
    setting = Grid()
    mdp, w = setting.mdp(), setting.task(runs.TARGET_COSTS)
    for name in ("averse", "neutral"):
        policy = result.numbers["policies"][name]
        psi, Sigma = rasf.successor_moments(mdp, policy, runs.STEPS)
        s, a = setting.start, policy[setting.start]
        mean, variance = psi[0, s, a] @ w, w @ Sigma[0, s, a] @ w
        rolled = result.numbers["returns"][name]
        assert rolled["mean"] == pytest.approx(mean, abs=5 * np.sqrt(variance / 1_000))
        assert rolled["variance"] == pytest.approx(variance, rel=0.3)


def test_verdicts_can_fail(result):
    """Rollouts that vary alike decide nothing; swapped, they speak against the claim."""
    rng = np.random.default_rng(0)
    narrow, wide = rng.normal(size=500), 3 * rng.normal(size=500)
    hits = {"averse": {"X": 0, "Y": 0}, "neutral": {"X": 0, "Y": 0}}
    judge = lambda a, b: claims.varies_less({"averse": a, "neutral": b}, hits, 0).verdict  # noqa: E731
    assert judge(narrow, wide) == "holds"
    assert judge(wide, narrow) == "does not hold"
    assert judge(narrow, rng.normal(size=500)) == "not decided"
    assert claims.three_routes([[0, 1], [0, 1], [0, 2]]).verdict == "does not hold"


def test_shipped_result_is_what_the_code_computes(tmp_path):
    ours = results.shipped()["grid"]
    fresh = runs.run(ours.preset, ours.seed, no_tick, tmp_path)
    assert fresh.findings == ours.findings
    for name in ("averse", "neutral"):
        assert np.asarray(fresh.numbers["utility"][name]) == pytest.approx(np.asarray(ours.numbers["utility"][name]))
        assert fresh.numbers["returns"][name]["counts"].tolist() == ours.numbers["returns"][name]["counts"]


def test_figure_is_drawn_from_the_saved_file(result, tmp_path):
    drawn = figures.draw(results.load(result.save(tmp_path)))
    titles = [axes.get_title() for axes in drawn.axes]
    assert sum(bool(title) for title in titles) == 7
