"""Calibration: bounds that hold for queries that were not among those tried, and that say when they were not tried."""

import copy
from dataclasses import replace

import numpy as np
import pytest

import rasf
from coin_world import Coin
from rasf import CVaR, Entropic, Limit, MeanVariance, MonotoneMeanVariance
from rasf.library.calibration.bounds import Bound, Bounds, bounds_of_errors
from rasf.library.calibration.calibration import Calibration
from rasf.library.calibration.measure import cost_features
from rasf.library.calibration.quantities import predicted_quantities
from rasf.risk import PiecewiseLinear
from rasf.statistics import mean_of_the_worst

NEUTRAL, AVERSE = MeanVariance(0.0), MeanVariance(-1.0)
RISKS = [NEUTRAL, AVERSE]
W = [1.0, -1.0]  # the coin is worth 1.5 - 0.5, as much as the sure 1


@pytest.fixture(scope="module")
def trained():
    options = {"agent": "rasfql", "steps_per_task": 3_000, "alpha": 0.05, "alpha_sigma": 0.05, "epsilon": 0.5}
    return rasf.learn(Coin, tasks=[[1.0, -2.0], [1.0, -0.5]], gamma=0.9, **options)


@pytest.fixture(scope="module")
def library(trained):
    trained.calibrate(Coin, 900, tasks=20, risks=RISKS, seed=3)
    return trained


def test_what_is_measured(library):
    found = library.calibration
    assert found.quantities == ("mean", "spread", "cvar", "1", "1 an episode")
    assert found.predicted.shape == found.realised.shape == found.error.shape == (60, 5)
    assert found.covered == ("neutral", "mean-variance:-1.0")
    assert found.limited.sum() == 20
    assert found.episodes == 900
    free = ~found.limited
    # one step: what laws say of it is nearly right, and the episode's sum is the discounted one
    np.testing.assert_allclose(found.realised[:, 3], found.realised[:, 4])
    assert np.abs(found.realised[free, 0] - found.predicted[free, 0]).mean() < 0.4
    assert "predicted" in str(found)
    assert "60 queries at neutral, mean-variance:-1.0, 900 episodes" in repr(found)


def test_predictions_are_of_the_driving_policy(library):
    rule = library.rule(W, NEUTRAL)
    obs = library.encode(0)[None]
    mean, spread, cvar, [fails], _ = predicted_quantities(rule, obs, np.array([1]))
    scores = library.scores(0, W)
    i, a = int(scores.source), int(scores.action)
    assert mean == pytest.approx(scores.mean[i, a])
    assert spread == pytest.approx(scores.std[i, a])
    assert cvar == pytest.approx(mean - 1.754983 * spread, rel=1e-5)
    assert fails == pytest.approx(library.scores(0, [0.0, 1.0]).mean[i, a])


def test_bounds_hold_for_new_asks(library):
    rng, held = np.random.default_rng(0), []
    for ask in range(40):
        w, risk = np.array([1.0, -rng.uniform(0.5, 2.0)]), MeanVariance(-float(rng.random()))
        report = library.evaluate(Coin, w, risk, episodes=100, seed=100 + ask)
        bounds, returns = report.bounds.by_quantity, report.discounted
        assert report.bounds.remarks == ()
        held.append(
            [
                returns.mean() >= bounds["mean"].low - 1e-9,
                returns.std() <= bounds["spread"].high + 1e-9,
                mean_of_the_worst(returns, 0.1) >= bounds["cvar"].low - 1e-9,
                report.failures.mean() <= bounds["1 an episode"].high + 1e-9,
            ]
        )
    assert (np.mean(held, axis=0) >= 0.9).all()


def test_bounds_of_errors_without_chance_are_order_statistics():
    """Without chance: the order statistic that leaves 5 % beyond, and the error of the centre."""
    rng = np.random.default_rng(0)
    errors = rng.normal(size=(99, 1)) ** 3
    low, high = bounds_of_errors(errors, np.zeros((99, 1)), 0.95)
    unsure = 1.6448536 * errors.std(ddof=1) / np.sqrt(99)
    assert high[0] == pytest.approx(np.sort(errors[:, 0])[94] + unsure)
    assert low[0] == pytest.approx(np.sort(errors[:, 0])[4] - unsure)


def test_chance_is_taken_out_of_the_errors():
    rng = np.random.default_rng(1)
    between, chance = 0.3 * rng.normal(size=(400, 1)), 0.6 * rng.normal(size=(400, 1))
    _, wide = bounds_of_errors(between + chance, np.zeros((400, 1)), 0.95)
    _, narrow = bounds_of_errors(between + chance, np.full((400, 1), 0.6), 0.95)
    assert 0.3 * 1.645 < narrow[0] < 0.75
    assert wide[0] > 1.0


def far_off(rng, n):
    return rng.lognormal(0, 2, n)


def a_tenth_off(rng, n):
    return (rng.random(n) < 0.1) * 1.0


@pytest.mark.parametrize(("off", "chance", "least"), [(far_off, 0.0, 0.94), (a_tenth_off, 0.5, 0.90)])
def test_how_many_further_asks_keep_the_bound(off, chance, least):
    """Whatever the law without chance; where it is large and a tenth are far off, a little less."""
    rng, kept = np.random.default_rng(0), []
    for _ in range(400):
        errors = off(rng, 60)
        seen = errors + chance * rng.normal(size=60)
        _, high = bounds_of_errors(seen[:, None], np.full((60, 1), chance), 0.95)
        kept.append(np.mean(off(rng, 20) <= high[0]))
    assert np.mean(kept) >= least


def test_few_asks_are_remarked_on(trained):
    few = replace_library(trained)
    few.calibrate(Coin, 60, tasks=4, risks=[NEUTRAL, AVERSE])
    (remark,) = few.scores(0, W).bounds.remarks
    said = "only 4 queries at neutral were tried, but bounds of 95.0% need 19: the bounds are the largest errors"
    assert remark == said


def replace_library(library):
    """The same policies, to be calibrated otherwise."""
    of = (library.sources, library.environment, library.policies, library.agents, library.history, library.notes)
    return rasf.PolicyLibrary(*of, library.provenance)


def test_a_feature_may_be_called_mean(library):
    header, arrays = library.calibration.describe() | {"names": ["mean"]}, library.calibration.arrays()
    found = Calibration.restore(header, arrays, 2)
    assert found.quantities == ("mean", "spread", "cvar", "feature mean", "feature mean an episode")


def test_bounds_are_reported(library):
    found = library.scores(0, W, AVERSE).bounds
    assert set(found.by_quantity) == set(library.calibration.quantities)
    assert found.remarks == ()
    assert "at least" in found.sides()["mean"]
    assert "at most" in found.sides()["1 an episode"]
    assert found.sentence().endswith("(95% each)")
    report = library.evaluate(Coin, W, AVERSE, episodes=5)
    assert "bound: mean" in str(report)
    assert set(report.describe()["bounds"]) == {*found.by_quantity, "remarks"}


def biased(calibration, factor=1.0, more=0.0):
    """A calibration whose outcomes are so far from its predictions, none of which is 0."""
    predicted = np.abs(calibration.predicted) + 0.5
    return replace(calibration, predicted=predicted, realised=predicted * factor + more)


def test_what_is_expected_lies_within_its_bounds(library):
    """A raw prediction that is always far too high lies above "at most"."""
    w, risks = [1.0, -0.5], (NEUTRAL, AVERSE, CVaR(0.1))
    rules = [library.rule(w, risk, limits=limits) for risk in risks for limits in (None, {1: 0.3})]
    start = library.encode(0)[None]
    for found in (library.calibration, biased(library.calibration, 0.2), biased(library.calibration, 3.0, 0.1)):
        for rule in rules:
            for bound in found.bounds_of(rule, start).by_quantity.values():
                assert bound.low <= bound.expected <= bound.high
    low = biased(library.calibration, 0.2)
    raw = predicted_quantities(rules[0], start, low.costs).array()
    expected = [bound.expected for bound in low.bounds_of(rules[0], start).by_quantity.values()]
    assert (np.array(expected)[[1, 3]] < 0.6 * raw[[1, 3]]).all()  # corrected, not only clipped


def test_predictions_that_are_off_are_told(library):
    assert replace(library.calibration, realised=library.calibration.predicted).remarks() == []
    found = biased(library.calibration, 0.5)
    *told, advice = found.remarks()
    (spread,) = [remark for remark in told if remark.startswith("predictions of spread are off: at ")]
    assert "times too high" in spread
    assert "steps_per_task" in advice
    assert "n_step=1" in advice
    for remark in found.remarks():
        assert remark in str(found)
    exact = np.abs(library.calibration.predicted) + 0.1
    longer = replace(library.calibration, predicted=exact, realised=exact * [1.0, 1.0, 1.0, 1.0, 4.0])
    (only, advice) = longer.remarks()
    assert only.startswith("predictions of 1 an episode are off")
    assert "4 times too low" in only
    assert "gamma" in advice


def test_small_errors_are_not_told_where_nothing_is_random(library):
    predicted = np.abs(library.calibration.predicted) + 1.0
    realised = predicted * 1.01
    predicted[:, 1], realised[:, 1] = 1e-3, 1e-17
    sure = replace(library.calibration, predicted=predicted, realised=realised, spread=1e-12)
    assert sure.remarks() == []
    realised[:, 0] *= 1.1
    told, _ = replace(sure, realised=realised).remarks()
    assert told.startswith("predictions of mean are off")
    assert "is too low, " in told


def test_beyond_what_was_calibrated_there_is_a_remark(library):
    assert library.scores(0, W, MeanVariance(-0.5)).bounds.remarks == ()
    (remark,) = library.scores(0, W, MeanVariance(-9.0)).bounds.remarks
    assert "is outside the calibrated range, mean-variance:-1.0 to neutral" in remark
    assert "cvar:0.1 was not calibrated" in library.scores(0, W, CVaR(0.1)).bounds.remarks[0]
    assert remark in library.evaluate(Coin, W, MeanVariance(-9.0), episodes=3).remarks()
    assert library.scores(0, W, Entropic(0.0)).bounds.remarks == ()


def test_bounds_between_two_levels_of_any_risk_with_a_beta(trained):
    library = copy.copy(trained)  # the other tests share the calibration of `library`
    library.calibrate(
        Coin, 450, tasks=20, risks=[NEUTRAL, MonotoneMeanVariance(-1.0), MonotoneMeanVariance(-4.0)], seed=3
    )
    between, beyond = (library.scores(0, W, MonotoneMeanVariance(beta)).bounds.remarks for beta in (-2.0, -9.0))
    assert between == ()
    assert "outside the calibrated range, monotone:-4.0 to neutral" in beyond[0]
    assert "was not calibrated" in library.scores(0, W, PiecewiseLinear(0.5, 2.0)).bounds.remarks[0]


def test_costs_below_zero_are_at_least_so_much():
    told = Bounds({"mean": Bound(1.0, 0.5, 1.5), "fuel": Bound(-1.0, -1.5, -0.5), "falls": Bound(0.1, 0.0, 0.2)})
    assert told.sides() == {"mean": "at least 0.5", "fuel": "at least -1.5", "falls": "at most 0.2"}


def test_ways_that_were_not_tried_are_remarked_on(library):
    static = library.evaluate(Coin, W, CVaR(0.5), episodes=3, static=True)
    assert "the calibration is for per-state risks without a model, unlike this acting rule" in static.remarks()


def test_limits_are_kept_with_the_certainty_of_the_calibration(library):
    free = library.evaluate(Coin, [1.0, -0.5], episodes=200)
    assert free.failures.mean() > 0.3
    for limit in (Limit(0.2), Limit(0.2, per_episode=True)):
        within = library.evaluate(Coin, [1.0, -0.5], limits={1: limit}, episodes=200)
        assert within.failures.mean() <= 0.2
    rule, loose = (one.rule([1.0, -0.5], NEUTRAL, limits={1: 0.4}) for one in (library, replace_library(library)))
    assert rule.limits.at_most[0] <= loose.limits.at_most[0] == 0.4
    with pytest.raises(ValueError, match="the limit of 0 must be discounted"):
        library.act(0, W, limits={0: Limit(0.2, per_episode=True)})


def test_the_file_keeps_it(library, tmp_path):
    library.save(tmp_path / "it.rasf")
    again = rasf.load(tmp_path / "it.rasf")
    assert str(again.calibration) == str(library.calibration)
    assert again.scores(0, W).bounds == library.scores(0, W).bounds
    assert rasf.merge([again, again]).calibration is None


def test_what_a_file_cannot_say(library):
    header, arrays = library.calibration.describe(), library.calibration.arrays()
    assert Calibration.restore(header, arrays, 2).covered == library.calibration.covered
    wrong = [
        (header | {"extra": 1}, arrays),
        (header | {"risks": "x"}, arrays),
        (header | {"names": [1]}, arrays),
        (header | {"spread": -1.0}, arrays),
        (header, arrays | {"realised": arrays["realised"] * 1e200}),
        (header | {"episodes": 1.5}, arrays),
        (header, arrays | {"predicted": arrays["predicted"][:3]}),
        (header, arrays | {"predicted": arrays["predicted"] * np.nan}),
        (header, arrays | {"costs": arrays["costs"] + 7}),
        (header, arrays | {"signs": arrays["signs"] * 2}),
        (header, arrays | {"realised": -np.abs(arrays["realised"]) - 1.0}),
        (header | {"risks": [f"cvar:0.{i + 10}" for i in range(60)]}, arrays | {"limited": arrays["limited"] & False}),
        (header, {name: part for name, part in arrays.items() if name != "w"}),
    ]
    for told, parts in wrong:
        with pytest.raises(ValueError, match=r"\w"):
            Calibration.restore(told, parts, 2)


def test_the_same_seed_gives_the_same_numbers(library, trained):
    again = replace_library(trained)
    again.calibrate(Coin, 900, tasks=20, risks=RISKS, seed=3)
    np.testing.assert_array_equal(again.calibration.realised, library.calibration.realised)


def test_costs_are_what_every_task_counts_against(trained):
    sums = np.array([[1.0, 0.0], [3.0, 1.0]])
    features, signs = cost_features(trained, sums)
    assert features.tolist() == [1]
    assert signs.tolist() == [1.0]
    assert cost_features(trained, np.zeros((2, 2)))[0].tolist() == [1]  # a failure that never came
    assert cost_features(trained, -sums)[0].tolist() == [0]  # paid for with negative numbers
    assert cost_features(trained, -sums)[1].tolist() == [-1.0]


def test_bad_input(trained):
    trained, told = replace_library(trained), []
    with pytest.raises(ValueError, match="episodes must be at least 30 for 2 tasks and 2 risks, got 20"):
        trained.calibrate(Coin, 20, tasks=2, risks=RISKS)
    with pytest.raises(ValueError, match="risks must be a list"):
        trained.calibrate(Coin, 20, risks=NEUTRAL)
    with pytest.raises(ValueError, match="tasks must be weights of shape"):
        trained.calibrate(Coin, 20, tasks=[[1.0]])
    with pytest.raises(ValueError, match="tasks must be at least two"):
        trained.calibrate(Coin, 20, tasks=[[1.0, 1.0]])
    trained.calibrate(Coin, 40, tasks=[[1.0, -1.0], [1.0, 0.0]], risks=RISKS, callback=told.append)
    assert told[-1] == 36
