"""The grid scene against the experiment of Figure 1, iterated distributions, and numbers by hand."""

import itertools

import numpy as np
import pytest

from rasf import Entropic, MeanVariance
from rasf.envs.grid import Grid
from rasf.planning.plan import evaluate_policy, plan
from rasf_explorer.scenes.grid import STEPS, GridScene
from rasf_explorer.scenes.scene import Stopped
from rasf_lab.paper.grid.runs import SOURCE_COSTS, TARGET_COSTS, transfer

W = Grid().task(TARGET_COSTS)


@pytest.fixture(scope="module")
def scene():
    return GridScene()


def test_it_begins_with_figure_1(scene):
    assert [weight.default for weight in scene.weights] == W.tolist()
    assert [weight.name for weight in scene.weights] == ["step", "goal", "trap X", "trap Y"]
    family = scene.families[0]
    assert (family.name, family.default, family.neutral) == ("entropic", -0.1, 0.0)
    assert (scene.layout.start, scene.layout.goals, scene.layout.hazards) == (20, (14,), (10, 13, 24))
    assert len(scene.policies) == 2


@pytest.mark.parametrize("beta", [-0.1, 0.0])
def test_gpi_is_the_experiment_s(scene, beta):
    grid = Grid()
    mdp = grid.mdp()
    sources = [plan(mdp, grid.task(costs), Entropic(-0.1)) for costs in SOURCE_COSTS]
    wanted, found = transfer(mdp, sources, W, beta), scene.policy(W, Entropic(beta))
    acts = ~mdp.terminal
    np.testing.assert_array_equal(found.action[acts], wanted.policy[acts])
    np.testing.assert_array_equal(found.driver[acts], wanted.source[acts])
    assert (found.action[~acts] == -1).all()
    assert (found.driver[~acts] == -1).all()


def test_utilities_at_the_start_are_those_of_the_paper_s_example(scene):
    found = scene.exact(W, Entropic(-0.1))
    assert found == pytest.approx({"GPI": 3.4765882, "best source": -1.7228502, "optimum": 3.4765882})
    assert list(scene.exact(W, MeanVariance(-0.1))) == ["GPI", "best source"]
    with pytest.raises(ValueError, match="risk must"):
        scene.policy(np.array([-2.0, 20, -20, 0]), Entropic(-3.0))


@pytest.mark.parametrize("risk", [Entropic(-0.1), MeanVariance(-0.1), MeanVariance(0.1), Entropic(0.0)], ids=str)
def test_scores_in_a_cell_are_exact(scene, risk):
    for cell in (0, 7, 20):
        found = scene.cell(cell, W, risk)
        for k, policy in enumerate(scene._sources):
            np.testing.assert_allclose(found.values[k], evaluate_policy(scene.mdp, policy, W, risk)[cell], rtol=1e-9)
            mean = evaluate_policy(scene.mdp, policy, W, Entropic(0.0))[cell]
            doubled = evaluate_policy(scene.mdp, policy, W, MeanVariance(2.0))[cell]
            np.testing.assert_allclose(found.mean[k], mean, rtol=1e-9)
            np.testing.assert_allclose(found.std[k] ** 2, doubled - mean, rtol=1e-7)
        assert found.values[found.driver, found.action] == found.values.max()
        assert found.seen
    assert not scene.cell(14, W, risk).seen


@pytest.mark.parametrize("risk", [Entropic(-0.1), MeanVariance(0.1)], ids=str)
def test_visits_are_the_sum_of_the_distributions_over_time(scene, risk):
    policy = scene.policy(W, risk).action
    P, here, visits = np.zeros((25, 25)), np.eye(25)[20], np.zeros(25)
    for s in np.flatnonzero(~scene.mdp.terminal):
        for actual in range(4):
            P[s, scene.grid.move(s, actual)] += 0.05 + 0.8 * (actual == policy[s])
    for _ in range(3_000):
        visits, here = visits + here, here @ P
    found = scene.roll_out(W, risk, 2, 0).visits
    np.testing.assert_allclose(found, visits, rtol=1e-9, atol=1e-12)
    assert found[scene.mdp.terminal].sum() == pytest.approx(1.0)


def test_rollouts_agree_with_what_is_exact(scene):
    risk = Entropic(-0.1)
    found = scene.roll_out(W, risk, 4_000, 3)
    mean = evaluate_policy(scene.mdp, np.maximum(scene.policy(W, risk).action, 0), W, Entropic(0.0)).max(axis=1)[20]
    se = found.returns.std() / np.sqrt(4_000)
    assert abs(found.returns.mean() - mean) < 4 * se
    assert found.lengths.mean() == pytest.approx(found.visits[~scene.mdp.terminal].sum(), rel=0.03)
    in_x = found.visits[[10, 24]].sum()
    assert abs(found.failures.mean() - in_x) < 4 * np.sqrt(in_x / 4_000)
    assert found.lengths.max() < STEPS
    for path, context, length in zip(found.paths, found.contexts, found.lengths, strict=False):
        assert path[0] == 20
        assert len(path) == len(context) == length + 1
        assert scene.mdp.terminal[path[-1]]
        assert not scene.mdp.terminal[path[:-1]].any()
        assert not context.any()


@pytest.mark.parametrize(("x", "y", "traps"), [(-20.0, 0.0, [10, 24]), (-3.0, -9.0, [10, 13, 24]), (0.0, 0.0, [])])
def test_the_measures_are_those_of_iterated_distributions(scene, x, y, traps):
    w, risk = np.array([-1.0, 20.0, x, y]), Entropic(0.05)
    policy = scene.policy(w, risk).action
    earns = np.zeros(25)
    for cell, symbol in enumerate(scene.grid.cells):
        earns[cell] = {"G": w[1], "X": x, "Y": y}.get(symbol, 0.0)
    # mean and square of what is still to come, by iterating m(s) = E[r + m(s')], q(s) = E[r^2 + 2 r m(s') + q(s')]
    mean, square, fails, steps = np.zeros((4, 25))
    for _ in range(3_000):
        before = mean.copy(), square.copy(), fails.copy(), steps.copy()
        for s in np.flatnonzero(~scene.mdp.terminal):
            there = [(scene.grid.move(s, actual), 0.05 + 0.8 * (actual == policy[s])) for actual in range(4)]
            r = {t: w[0] + earns[t] for t, _ in there}
            mean[s] = sum(p * (r[t] + before[0][t]) for t, p in there)
            square[s] = sum(p * (r[t] ** 2 + 2 * r[t] * before[0][t] + before[1][t]) for t, p in there)
            fails[s] = sum(p * ((t in traps) + before[2][t]) for t, p in there)
            steps[s] = 1 + sum(p * before[3][t] for t, p in there)
        if max(np.abs(new - old).max() for new, old in zip((mean, square, fails, steps), before, strict=True)) < 1e-12:
            break
    found = scene.roll_out(w, risk, 50, 0)
    wanted = {
        "return": mean[20],
        "return_variance": square[20] - mean[20] ** 2,
        "failures": fails[20],
        "length": steps[20],
    }
    assert found.exact == set(wanted)
    for name, value in wanted.items():
        assert found.measures[name] == pytest.approx((value, value, value), rel=1e-8, abs=1e-10)
    cvar = found.measures["return_cvar"]
    assert cvar.low < cvar.high
    assert found.utilities == scene.exact(w, risk)


def test_a_trap_that_costs_nothing_is_no_failure(scene):
    both, free = (scene.roll_out(np.array([-1.0, 20, x, y]), Entropic(0.0), 500, 1) for x, y in ((-1, -1), (0, 0)))
    assert both.failures.sum() > 0
    assert free.failures.sum() == 0


def test_every_corner_of_the_sliders_and_dials_has_finite_answers(scene):
    for family in scene.families:
        for level in (family.low, family.neutral, family.high):
            risk = family.make(level)
            for w in itertools.product(*((weight.low, weight.high) for weight in scene.weights)):
                found = scene.exact(np.array(w), risk)
                assert np.isfinite(list(found.values())).all()
                if isinstance(risk, Entropic):  # Theorem 1, and the optimum is one
                    assert found["best source"] - 1e-7 <= found["GPI"] <= found["optimum"] + 1e-7
                assert np.isfinite(scene.cell(20, np.array(w), risk).values).all()


def test_the_same_seed_meets_the_same_chances(scene):
    one, again = (scene.roll_out(W, Entropic(-0.1), 50, 2).returns for _ in range(2))
    np.testing.assert_array_equal(one, again)


def test_nonsense_is_refused(scene):
    with pytest.raises(Stopped):
        scene.roll_out(W, Entropic(0.0), 5, 0, lambda: True)
    with pytest.raises(ValueError, match="context must"):
        scene.policy(W, Entropic(0.0), 1)
    with pytest.raises(ValueError, match="cell must"):
        scene.cell(25, W, Entropic(0.0))
    with pytest.raises(ValueError, match="slip"):
        GridScene(Grid(slip=0.0))


def test_other_grids_have_their_own_traps_and_walls():
    scene = GridScene(Grid("S . Z G\n. # . .", slip=0.3))
    assert scene.layout.meaning == {"S": "start", "G": "goal", "Z": "trap Z", "#": "wall"}
    assert scene.layout.walls == (5,)
    w = np.array([weight.default for weight in scene.weights])
    found = scene.policy(w, scene.families[0].make(-0.1))
    assert (found.action[[2, 3, 5]] == -1).all()
    assert scene.roll_out(w, Entropic(0.0), 20, 0).visits[5] == 0
