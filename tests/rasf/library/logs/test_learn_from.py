"""Libraries from logs: against the exact planner, what is not trusted, how sure predictions are, what is said."""

import gymnasium as gym
import numpy as np
import pytest
from library_worlds import gamble
from test_recorder import play

import rasf
from rasf.envs.four_room import FourRoom
from rasf.library.logs.estimate import LoggedModel
from rasf.tabular.settings import ModelSettings

W = [-0.1, 1.0, -1.0]


def recorded(folder, episodes=400, seed=0):
    with rasf.Recorder(gamble(), folder) as env:
        play(env, episodes, seed)
    return rasf.Log.read(folder)


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    return recorded(tmp_path_factory.mktemp("log"), 4_000)


@pytest.mark.parametrize("risk", [rasf.MeanVariance(0.0), rasf.NestedEntropic(-2.0)])
def test_the_policy_is_that_of_the_exact_planner(log, risk):
    library = rasf.learn_from(log, tasks=[W], risk=risk, gamma=0.9, resamples=0)
    exact = rasf.plan(gamble().mdp(0.9), W, rasf.NestedEntropic(risk.beta))
    acting = rasf.MeanVariance(0.0) if risk == rasf.MeanVariance(0.0) else rasf.MeanVariance(-2.0)
    for state in (0, 1, 2):
        assert library.act(state, W, acting) == exact.policy[state]
    (policy,), value = library.policies, library.history["mean"][0]
    truth = rasf.evaluate_policy(gamble().mdp(0.9), exact.policy, W, rasf.NestedEntropic(0.0))
    assert value == pytest.approx(truth[0, exact.policy[0]], abs=0.05)
    assert policy.risk == risk


def test_the_history_and_notes_say_what_the_log_tells(log):
    library = rasf.learn_from(log, tasks=[W, [0.0, 1.0, 0.0]], risk=[rasf.MeanVariance(0.0), rasf.MeanVariance(-2.0)])
    assert library.notes[0] == str(log.coverage())
    assert library.history["return"][:2] == pytest.approx(log.phi.sum(axis=0) @ np.array([W, [0, 1, 0]]).T)
    assert (library.history["failures"] == log.failure.sum()).all()
    for name in ("value", "mean", "std"):
        low, middle, high = (library.history[f"{name}{end}"] for end in ("_low", "", "_high"))
        assert (low <= middle + 1e-12).all()
        assert (middle <= high + 1e-12).all()
    assert (library.history["thin"] == 0).all()
    assert library.provenance["merged"][0]["coverage"]["steps"] == len(log)


def test_a_library_from_a_log_is_a_library(log, tmp_path):
    library = rasf.learn_from(log, tasks=3, gamma=0.9, resamples=5, signs=(0, 0, 0))
    library.save(tmp_path / "log.rasf")
    again = rasf.load(tmp_path / "log.rasf")
    np.testing.assert_array_equal(again.history["value_low"], library.history["value_low"])
    report = again.evaluate(gamble, W, episodes=50)
    assert report.episodes == 50
    grown = again.grow(gamble(), tasks=[W], steps_per_task=300)
    assert len(grown.policies) == 4


def test_same_seed_same_bits(log):
    first, second = (rasf.learn_from(log, tasks=2, seed=3, resamples=7, signs=(-1, 1, -1)) for _ in range(2))
    for name in first.history:
        np.testing.assert_array_equal(first.history[name], second.history[name])
    assert (np.sign([policy.w for policy in first.policies]) == (-1, 1, -1)).all()
    with pytest.raises(ValueError, match="tasks=2 cannot be drawn, because it is unknown which of the 3 features"):
        rasf.learn_from(log, tasks=2)


# --- what is not trusted


def lucky(tries):
    """At 0, action 0 earns 1 for sure, seen often; action 1 earned 3, seen `tries` times."""
    n = 50 + tries
    return {
        "obs": np.zeros((n, 1)),
        "actions": np.repeat([0, 1], [50, tries]),
        "phi": np.repeat([[1.0], [3.0]], [50, tries], axis=0),
        "next_obs": np.zeros((n, 1)),
        "terminated": np.ones(n, bool),
    }


@pytest.mark.parametrize(("tries", "least", "taken"), [(4, 5, 0), (5, 5, 1), (4, 4, 1), (1, 1, 1), (50, 51, 1)])
def test_what_was_tried_too_little_is_not_taken(tries, least, taken):
    library = rasf.learn_from(lucky(tries), tasks=[[1.0]], least_tries=least, resamples=0)
    assert library.act(np.zeros(1), [1.0]) == taken
    assert np.isneginf(library.scores(np.zeros(1), [1.0]).values[0, 1]) == (taken == 0)


def test_time_in_thin_places_is_told():
    """From 0 to 1, often; at 1 the only action was tried three times: one of 1 + gamma steps."""
    given = {
        "obs": np.array([[0.0]] * 20 + [[1.0]] * 3),
        "actions": np.zeros(23, int),
        "phi": np.ones((23, 1)),
        "next_obs": np.array([[1.0]] * 20 + [[2.0]] * 3),
        "terminated": np.array([False] * 20 + [True] * 3),
        "episode": np.arange(23),
    }
    log = rasf.Log.read(given)
    model = LoggedModel(log, ModelSettings(gamma=0.5), 0, 0)
    model.learner.begin_task([1.0])
    found = model.estimate(np.zeros(3, int), np.ones(1), rasf.MeanVariance(0.0))
    begun_at_1 = 3 / 23
    assert found.thin == pytest.approx((begun_at_1 + 0.5 * 20 / 23) / (1 + 0.5 * 20 / 23))
    assert np.isnan(found.mean.low)


def test_coverage_is_counted():
    coverage = rasf.Log.read(lucky(1)).coverage()
    assert (coverage.steps, coverage.episodes, coverage.states, coverage.most_tries) == (51, 51, 1, 50)
    assert (coverage.untried, coverage.tried_once, coverage.once, coverage.never_left) == (0.0, 0.5, 0, 0)


# --- how sure


def test_resampling_episodes_is_evaluating_a_log_of_them(log):
    """The model of drawn episodes is that of a log that holds them so often."""
    parts = ("obs", "actions", "phi", "next_obs", "terminated", "episode")
    short = rasf.Log.read({name: getattr(log, name)[:300] for name in parts})
    model = LoggedModel(short, ModelSettings(gamma=0.9), 1, 5)
    actions = model.learner.policy(W, rasf.MeanVariance(0.0))
    found = model.estimate(actions, np.array(W), rasf.MeanVariance(0.0))
    begin = np.flatnonzero(np.append(True, short.last[:-1]))
    end = np.flatnonzero(short.last) + 1
    drawn = [range(begin[e], end[e]) for e, times in enumerate(model._draws[0]) for _ in range(times)]
    rows = np.concatenate([list(each) for each in drawn])
    again = rasf.Log.read(
        {name: getattr(short, name)[rows] for name in parts}
        | {"episode": np.repeat(np.arange(len(drawn)), [len(each) for each in drawn])}
    )
    other = LoggedModel(again, ModelSettings(gamma=0.9), 0, 5)
    other.learner.begin_task(W)
    keys = {tuple(key): n for n, key in enumerate(model.states.keys)}
    same = np.append([actions[keys[tuple(key)]] for key in other.states.keys], 0)
    exact = other.estimate(same, np.array(W), rasf.MeanVariance(0.0))
    assert found.mean.low == pytest.approx(exact.mean.estimate)
    assert found.std.low == pytest.approx(exact.std.estimate)


@pytest.mark.slow
def test_intervals_hold_the_truth_about_as_often_as_they_say(tmp_path):
    """Of 60 logs of 60 episodes, 95 % intervals of the sure policy's and of the gamble's mean."""
    truth = rasf.evaluate_policy(gamble().mdp(0.9), [1, 1, 1, 1], W, rasf.NestedEntropic(0.0))[0, 1]
    held = 0
    for seed in range(60):
        log = recorded(tmp_path / str(seed), 60, seed)
        model = LoggedModel(log, ModelSettings(gamma=0.9, prior=0.0), 60, seed)
        model.learner.begin_task(W)
        mean = model.estimate(np.ones(len(model.states.keys) + 1, int), np.array(W), rasf.MeanVariance(0.0)).mean
        held += mean.low <= truth <= mean.high
    assert 50 <= held <= 60


def test_a_library_is_evaluated_from_a_log(log):
    library = rasf.learn_from(log, tasks=[W, [-0.1, 1.0, 0.0]], gamma=0.9, resamples=0)
    found = library.evaluate_from(log, W, rasf.MeanVariance(-1.0), resamples=20)
    outcome = library.evaluate(gamble, W, rasf.MeanVariance(-1.0), episodes=2_000)
    assert found.mean.estimate == pytest.approx(outcome.discounted.mean(), abs=0.06)
    assert found.std.estimate == pytest.approx(outcome.discounted.std(), abs=0.06)
    assert found.value.estimate == pytest.approx(found.mean.estimate - 0.5 * found.std.estimate**2)
    assert found.value.estimate >= found.best_source - 1e-6  # GPI, on the model it was planned on
    assert "fewer than 10 times" in str(found)
    with pytest.raises(ValueError, match="env must have the"):
        library.evaluate_from(lucky(1), W)


# --- real worlds


def test_logs_alone_are_as_good_as_living_there(tmp_path):
    """Resource-gathering: a log of random steps, and a library that has never seen the world."""
    pytest.importorskip("mo_gymnasium")
    from rasf.envs.gymnasium.single import make

    rng = np.random.default_rng(0)
    with rasf.Recorder(make("resource-gathering-v0", {}), tmp_path) as env:
        for n in range(1_500):
            env.reset(seed=0 if n == 0 else None)
            for _ in range(200):
                if any(env.step(int(rng.integers(4)))[2:4]):
                    break
    risks = [rasf.MeanVariance(0.0), rasf.MeanVariance(-4.0)]
    library = rasf.learn_from(tmp_path, tasks=[[1, 1, 1], [0.5, 2, 2]], risk=risks, gamma=0.9, resamples=0)
    averse = library.evaluate("resource-gathering-v0", [1, 2, 1], risks[1], episodes=50)
    assert averse.discounted.mean() == pytest.approx(0.628, abs=0.01)
    assert averse.discounted.std() == pytest.approx(0.0, abs=1e-9)


def test_a_log_of_four_room_knows_which_cells_are_dangerous(tmp_path):
    with rasf.Recorder(gym.make("rasf/FourRoom-v0", disable_env_checker=True), tmp_path) as env:
        rng = np.random.default_rng(0)
        for n in range(40):
            env.reset(seed=0 if n == 0 else None)
            for _ in range(200):
                if any(env.step(int(rng.integers(4)))[2:4]):
                    break
    library = rasf.learn_from(tmp_path, tasks=[FourRoom().task([1, 0, 0])], risk=rasf.MeanVariance(-4.0), resamples=0)
    assert library.history["failures"][0] == rasf.Log.read(tmp_path).failure.sum() > 0
    drawn = rasf.learn_from(tmp_path, tasks=3, env="rasf/FourRoom-v0", resamples=0)
    assert {policy.w[3:] for policy in drawn.policies} == {(1.0, -2.0)}  # as its own tasks have goal and failure
    assert len(drawn.notes) == 1


# --- what is refused


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"tasks": [[1.0]]}, "tasks must be weights of shape"),
        ({"risk": rasf.CVaR(0.1)}, "risk must be MeanVariance or NestedEntropic"),
        ({"least_tries": 0}, "least_tries"),
        ({"resamples": -1}, "resamples"),
        ({"gamma": 1.0}, "gamma"),
        ({"alpha": 0.1}, "settings"),
        ({"seed": -1}, "seed"),
    ],
)
def test_what_cannot_be_is_refused(log, given, said):
    with pytest.raises(ValueError, match=said):
        rasf.learn_from(log, **({"tasks": [W]} | given))


def test_observations_that_never_recur_are_refused():
    rng = np.random.default_rng(0)
    seen = rng.random((201, 3))
    given = {"obs": seen[:-1], "next_obs": seen[1:], "actions": rng.integers(2, size=200), "phi": rng.random((200, 2)),
             "terminated": np.zeros(200, bool)}  # fmt: skip
    with pytest.raises(ValueError, match="must recur"):
        rasf.learn_from(given, tasks=2)
