"""The model from counts: its plan against the exact planner, its priors, its groups, its exploration, its growth."""

from itertools import product

import numpy as np
import pytest

import rasf
from rasf.envs.four_room import FourRoom
from rasf.tabular.groups import numbers_that_matter
from rasf.tabular.model import ModelLearner
from rasf.tabular.settings import ModelSettings
from rasf.tabular.weight_belief import WeightBelief

S, A, D = 12, 3, 3
SMALL = "S.1\n.T.\n2.G"


class Certain(ModelSettings):
    """What was tried once is known."""

    doubt = 0.0


class Exact(Certain):
    """Every change of a value is passed on."""

    tolerance = 0.0


def walked(seed=0, steps=600, prior=20.0, groups=True, **settings):
    """A learner that has walked at random through a random world, with endings; its transitions."""
    rng = np.random.default_rng(seed)
    after = rng.integers(S, size=(S, A, 2))
    learner = ModelLearner(D, A, Exact(prior=prior, **settings), seed)
    learner.begin_task(np.array([1.0, -0.5, -2.0]))
    learner.plan(rasf.NestedEntropic(-1.0))
    for _ in range(S):
        learner.add_row()
    if groups:
        learner.numbers, learner.prior = (0,), prior
        learner.set_groups(np.arange(S) % 3, 3)
    seen, row = [], 0
    for _ in range(steps):
        action = int(rng.integers(A))
        which = int(rng.random() < 0.3)
        ends = rng.random() < (0.2 if row % 3 == 0 else 0.02)
        phi = np.eye(D)[2] if ends else np.eye(D)[which] * (row % 2)
        following = None if ends else int(after[row, action, which])
        learner.learn(row, action, phi, following)
        seen.append((row, action, tuple(phi), following))
        row = 0 if following is None else following
    return learner, seen


def law(seen, row, action, prior, known_groups):
    """Outcomes of (row, action) and their probabilities, straight from the header of the module."""
    own = [(phi, after) for s, a, phi, after in seen if (s, a) == (row, action)]
    alike = [(phi, after) for s, a, phi, after in seen if known_groups[s] == known_groups[row] and a == action]
    ended = [phi for phi, after in alike if after is None]
    m = prior / (prior + len(own)) if prior else 0.0
    found = {}
    for phi in ended:
        found[phi, None] = found.get((phi, None), 0.0) + m / len(alike)
    left = m - sum(found.values())
    on = [each for each in own if each[1] is not None]
    for each in own:
        found[each] = found.get(each, 0.0) + (1 - m) / len(own)
    for each in own and (on or own):
        found[each] = found.get(each, 0.0) + left / len(on or own)
    if not own:
        found["untried", None] = 1 - m + left
    return found


@pytest.mark.parametrize("beta", [0.0, -1.0, -4.0])
@pytest.mark.parametrize(("prior", "groups"), [(20.0, True), (0.0, True), (20.0, False)])
def test_the_plan_is_that_of_the_exact_planner(beta, prior, groups):
    learner, _ = walked(prior=prior, groups=groups, optimism=0.0)
    w, risk = np.array([0.7, -0.3, -1.5]), rasf.NestedEntropic(beta)
    exact = rasf.plan(learner.finite_mdp(), w, risk)
    learner.begin_task(w)
    learner.plan(risk)
    np.testing.assert_allclose([learner.value(s) for s in range(S)], exact.value[:S], atol=1e-8)


def test_a_plan_that_is_kept_up_to_date_is_the_plan():
    learner, _ = walked(prior=0.0, optimism=0.0)
    exact = rasf.plan(learner.finite_mdp(), [1.0, -0.5, -2.0], rasf.NestedEntropic(-1.0))
    np.testing.assert_allclose([learner.value(s) for s in range(S)], exact.value[:S], atol=1e-3)


@pytest.mark.parametrize("prior", [0.0, 5.0, 20.0])
def test_the_process_has_the_law_of_the_header(prior):
    learner, seen = walked(prior=prior, steps=120)
    mdp, groups = learner.finite_mdp(), np.arange(S) % 3
    for row, action in product(range(S), range(A)):
        wanted = {}
        for (phi, after), p in law(seen, row, action, prior, groups).items():
            key = (tuple(np.zeros(D)) if phi == "untried" else phi, S if after is None else after)
            wanted[key] = wanted.get(key, 0.0) + p
        begin, end = mdp.indptr[row * A + action], mdp.indptr[row * A + action + 1]
        found = {}
        for i in range(begin, end):
            key = (tuple(mdp.phi[i]), int(mdp.successor[i]))
            found[key] = found.get(key, 0.0) + mdp.probability[i]
        wanted = {key: p for key, p in wanted.items() if p > 1e-15}
        assert set(found) == set(wanted)
        for key, p in wanted.items():
            assert found[key] == pytest.approx(p)


def test_an_action_that_never_failed_is_not_safe():
    """Ten tries without an end, in a group where one in ten ends: the plan expects some."""
    learner = ModelLearner(2, 1, Certain(prior=20.0), 0)
    learner.begin_task([1.0, -10.0])
    learner.plan()
    for _ in range(2):
        learner.add_row()
    learner.numbers, learner.prior = (0,), 20.0
    for n in range(100):
        learner.learn(1, 0, [0.0, float(n % 10 == 0)], None if n % 10 == 0 else 1)
    for _ in range(10):
        learner.learn(0, 0, [0.0, 0.0], 0)
    mdp = learner.finite_mdp()
    ends = mdp.probability[mdp.indptr[0] : mdp.indptr[1]][mdp.successor[mdp.indptr[0] : mdp.indptr[1]] == 2].sum()
    assert ends == pytest.approx(20 / 30 * 10 / 110)
    assert learner.value(0) < -1.0


def test_what_was_never_tried_is_worth_the_optimism_and_nothing_at_the_end():
    learner = ModelLearner(1, 2, Certain(optimism=0.3, prior=0.0), 0)
    learner.begin_task([2.0])
    learner.plan()
    learner.add_row()
    learner.learn(0, 0, [0.1], None)
    learner.begin_task([2.0])
    learner.plan()
    assert learner.unit == pytest.approx(0.2)
    assert learner.value(0) == pytest.approx(0.2)  # the first action, 0.1 x 2; the other is worth 0.06
    assert learner.policy([-2.0])[0] == 0  # of what was tried, though it costs
    learner.begin_task([-2.0])
    learner.plan()
    assert learner.value(0) == pytest.approx(0.06)


def test_what_was_tried_once_may_hold_more():
    """One try worth 0 and one of doubt worth 0.3; a plan for good knows no doubt."""
    learner = ModelLearner(1, 1, ModelSettings(optimism=0.3, prior=0.0), 0)
    learner.begin_task([1.0])
    learner.plan()
    learner.add_row()
    learner.learn(0, 0, [0.0], None)
    assert learner.value(0) == pytest.approx(0.15)
    learner.policy([1.0])
    assert learner.value(0) == 0.0


def test_exploration_keeps_to_actions_that_are_nearly_as_good():
    learner = ModelLearner(1, 3, Certain(epsilon=0.5, margin=0.1, prior=0.0), 0)
    learner.begin_task([1.0])
    learner.plan()
    learner.add_row()
    for action, reward in enumerate((1.0, 0.95, -1.0)):
        learner.learn(0, action, [reward], None)
    draws = np.random.default_rng(0).random((400, 2))
    taken = np.bincount([learner.explore(0, 0, *draw) for draw in draws], minlength=3)
    assert taken[2] == 0
    assert 60 < taken[1] < 140  # half of the half that explores
    assert learner.explore(0, 0, 0.5, 0.9) == 0  # not below epsilon


def test_rows_and_columns_that_matter_are_found_and_others_are_not():
    rng = np.random.default_rng(0)
    keys = rng.integers(6, size=(2_000, 4)).astype(float)
    danger = (keys[:, 1] == 2) & (keys[:, 3] == 4)
    tries = np.full((len(keys), 2), 5.0)
    endings = np.zeros((len(keys), 2, 8))
    endings[:, 0, 1] = rng.binomial(5, np.where(danger, 0.1, 0.0))
    assert numbers_that_matter(keys, tries, endings) == (1, 3)
    assert numbers_that_matter(keys, tries, np.zeros_like(endings)) == ()
    anywhere = np.zeros_like(endings)
    anywhere[:, 0, 1] = rng.binomial(5, 0.02, len(keys))
    assert numbers_that_matter(keys, tries, anywhere) == ()


def test_growing_changes_nothing(monkeypatch):
    def values():
        learner = ModelLearner(5, 4, ModelSettings(), 0)
        rooms = FourRoom()
        for w in rooms.random_tasks(2, np.random.default_rng(0)):
            learner.begin_task(w)
            outcome = learner.lead(rooms, w, rasf.MeanVariance(-4.0), 3_000)
        return outcome, [learner.value(s) for s in range(learner.states)]

    usual = values()
    from rasf.tabular import counts

    monkeypatch.setattr(
        counts, "new_model", lambda n, rows=4, outcomes=4, make=counts.new_model: make(n, rows, outcomes)
    )
    assert values() == usual


def test_the_compiled_world_is_learned_to_its_optimum():
    """By hand: down to 2 (worth 1), back and right to 1 (0.5), down to the goal (1), round the trap."""
    rooms = FourRoom(SMALL, trap_probability=0.3, step_limit=30)
    learner = ModelLearner(rooms.n_features, 4, ModelSettings(prior=0.0, optimism=2.0), 3)
    w = rooms.task([0.5, 1.0])
    learner.begin_task(w)
    outcome = learner.lead(rooms, w, rasf.MeanVariance(0.0), 3_000)
    start = np.flatnonzero((learner.keys() == 0).all(axis=1))[0]
    learner.policy(w)
    gamma = learner.settings.gamma
    assert learner.value(start) == pytest.approx(gamma + 0.5 * gamma**5 + gamma**7, rel=0.02)
    assert outcome.total > outcome.episodes  # of 2.5 at most, exploration included


def test_same_seed_same_bits():
    first, second = (walked(seed=4)[0].finite_mdp() for _ in range(2))
    np.testing.assert_array_equal(first.probability, second.probability)


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"gamma": 1.0}, "gamma"),
        ({"epsilon": 2.0}, "epsilon"),
        ({"prior": -1.0}, "prior"),
        ({"margin": -1.0}, "margin"),
        ({"learn_w": "all"}, "learn_w"),
    ],
)
def test_bad_settings_are_refused(changes, name):
    with pytest.raises(ValueError, match=name):
        ModelSettings(**changes)


def test_a_risk_that_cannot_be_planned_is_refused():
    with pytest.raises(ValueError, match="risk must"):
        ModelLearner(1, 1, ModelSettings(), 0).plan(rasf.CVaR(0.1))


# --- weights that are learned


def test_a_reward_tells_its_weights_and_tasks_before_tell_the_rest():
    belief = WeightBelief(2, curiosity=1.0)
    belief.begin_task()
    assert belief.rewards(np.eye(2)) == pytest.approx([1.0, 1.0])  # nothing known: one standard deviation above 0
    belief.observe(np.array([1.0, 0.0]), 0.5)
    belief.observe(np.array([1.0, 1.0]), -1.5)
    assert belief.mean == pytest.approx([0.5, -2.0], abs=1e-3)
    assert belief.rewards(np.eye(2)) == pytest.approx([0.5, -2.0], abs=1e-2)
    for first in (-0.5, 0.2, 0.7, -0.9, 0.1, 0.6, -0.3, 0.4):
        belief.begin_task()
        belief.observe(np.array([1.0, 0.0]), first)
        belief.observe(np.array([0.0, 1.0]), -2.0)
    belief.begin_task()
    assert belief.mean[1] == pytest.approx(-2.0, abs=0.01)
    taken_to_be = belief.rewards(np.eye(2))
    assert taken_to_be[0] > 0.4  # varied: well above the mean
    assert taken_to_be[1] < -1.7  # was the same in all tasks


def test_beliefs_are_those_of_bayes():
    """Against the normal posterior, all at once."""
    rng = np.random.default_rng(0)
    belief = WeightBelief(3, curiosity=0.0)
    for _ in range(5):
        belief.begin_task()
        belief.mean = rng.normal(size=3)
    belief.begin_task()
    mean, covariance, noise = belief.mean, belief.covariance, (1e-4 * belief.scale) ** 2
    phi, rewards = rng.normal(size=(2, 3)), rng.normal(size=2)
    gain = covariance @ phi.T @ np.linalg.inv(phi @ covariance @ phi.T + noise * np.eye(2))
    for each, reward in zip(phi, rewards, strict=True):
        belief.observe(each, reward)
    np.testing.assert_allclose(belief.mean, mean + gain @ (rewards - phi @ mean), rtol=1e-4)
    np.testing.assert_allclose(belief.covariance, covariance - gain @ phi @ covariance, atol=1e-6)


def test_the_four_rooms_are_learned_with_weights_that_are_learned():
    rooms = FourRoom(SMALL)
    learner = ModelLearner(rooms.n_features, 4, ModelSettings(learn_w=True), 0)
    (w,) = rooms.random_tasks(1, np.random.default_rng(1))
    learner.begin_task(None)
    outcome = learner.lead(rooms, w, rasf.MeanVariance(0.0), 3_000)
    assert outcome.total > 0
    model = learner._model
    met = np.unique(model.kind[: model.used[1]])  # kind 1 + i is feature i
    known = met[met > 0] - 1
    assert len(known) >= 2
    assert learner.weights[known] == pytest.approx(w[known], abs=0.02)
    with pytest.raises(ValueError, match="w must be given"):
        ModelLearner(2, 2, ModelSettings(), 0).begin_task(None)


# --- what was tried too little


def test_what_was_tried_too_little_is_taken_only_where_nothing_else_was():
    learner = ModelLearner(1, 3, ModelSettings(prior=0.0), 0)
    learner.begin_task([1.0])
    learner.plan()
    learner.add_row()
    for action, reward, times in ((0, 1.0, 6), (1, 5.0, 2)):
        for _ in range(times):
            learner.learn(0, action, [reward], None)
    assert [learner.policy([1.0], least_tries=least)[0] for least in (1, 2, 3, 6, 7)] == [1, 1, 0, 0, 0]
    np.testing.assert_array_equal(learner.tried(3), [[True, False, False]])
    np.testing.assert_array_equal(learner.tried(7), [[True, False, False]])  # none was: the most that was
    np.testing.assert_array_equal(learner.tried(), [[True, True, False]])


def test_what_is_learned_at_once_is_what_is_learned_step_by_step():
    learner, seen = walked(groups=False)
    other = ModelLearner(D, A, learner.settings, 0)
    plain = [(s, a, f, -1 if n is None else n) for s, a, f, n in seen]
    rows, actions, phi, after = (np.array(part) for part in zip(*plain, strict=True))
    outcomes = other.learn_all(rows, actions, phi, after, np.arange(S, dtype=float)[:, None])
    assert len(np.unique(outcomes)) == len({(s, a, f, n) for s, a, f, n in seen})
    for w in ([1.0, 0.0, -1.0], [0.0, 1.0, -0.1]):
        np.testing.assert_array_equal(learner.policy(w), other.policy(w))
    doubled = other.resampled(2 * np.bincount(outcomes))
    one, two = learner.finite_mdp(), doubled.finite_mdp()
    assert one.probability.sum() == pytest.approx(two.probability.sum())
    exact = [rasf.plan(mdp, [1.0, 0.0, -1.0], rasf.NestedEntropic(-1.0)).value for mdp in (one, two)]
    np.testing.assert_allclose(exact[0], exact[1])
