"""The compiled RaSFQL takes the same steps and holds the same numbers as Algorithm 1 written plainly."""

import numpy as np
import pytest
from sfql_twin import Twin
from tabular_kernel import Kernel, make_rule

from rasf.envs.four_room import FourRoom
from rasf.tabular.table import SigmaForm

PAPER = FourRoom()
# few states, seen again and again by every policy; corners and the wall make bumps
SMALL = FourRoom("S.T1.\n.T..2\n.X.T.\n1..2G", trap_probability=0.2)


def run_both(four_room, rule, tasks, steps, step_limit, epsilon, alpha_w, poison=np.nan):
    """Both learners after the same tasks and draws, having agreed on every task's outcome."""
    rule, d = rule._replace(alpha_w=alpha_w), four_room.n_features
    rng = np.random.default_rng(rule.seed)
    kernel = Kernel(rule, d, 4, tasks, poison)
    twin = Twin(rule, d, 4, kernel.table.value.dtype)
    for rewards in four_room.random_tasks(tasks, rng):
        w = rng.uniform(-0.01, 0.01, d) if alpha_w > 0 else rewards
        draws = rng.random((steps, 3))
        outcomes = []
        for learner in (kernel, twin):
            learner.start_task(w)
            outcomes.append(learner.run_task(four_room, step_limit, rewards, epsilon, draws))
        assert outcomes[0] == pytest.approx(outcomes[1], abs=1e-9)
        np.testing.assert_allclose(kernel.memory.w[kernel.t], twin.w[-1], rtol=0, atol=1e-12)
    return kernel, twin


def assert_same_tables(kernel, twin):
    assert kernel.order() == twin.order
    held = kernel.contents()
    expected = np.empty_like(held)
    for state, row in twin.order.items():
        for j, table in enumerate(twin.policies):
            expected[row, j] = table[state].flat()
    # the same operations in the same order: only a different action or bootstrap could differ by more
    np.testing.assert_allclose(held, expected, rtol=0, atol=1e-9)


VARIANCES = [
    (0.0, SigmaForm.NONE),
    (-2.0, SigmaForm.FULL),
    (-2.0, SigmaForm.DIAGONAL),
    (0.5, SigmaForm.FULL),
    (0.5, SigmaForm.DIAGONAL),
]


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize(("variance_weight", "sigma"), VARIANCES)
@pytest.mark.parametrize("alpha_w", [0.5, 0.0])
def test_small_map(variance_weight, sigma, shared, alpha_w):
    rule = make_rule(variance_weight=variance_weight, sigma=sigma, shared_noise=shared, seed=3)
    kernel, twin = run_both(SMALL, rule, 6, 300, 15, 0.12, alpha_w)
    assert_same_tables(kernel, twin)
    assert min(twin.bumps, twin.cut_short, twin.other_drivers) > 20


@pytest.mark.slow
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize(("variance_weight", "sigma"), [*VARIANCES[:2], VARIANCES[4]])
def test_paper_map(variance_weight, sigma, shared):
    rule = make_rule(variance_weight=variance_weight, sigma=sigma, shared_noise=shared)
    kernel, twin = run_both(PAPER, rule, 5, 600, 60, 0.12, 0.5)
    assert_same_tables(kernel, twin)
    assert kernel.pauses > 6  # growth came in the middle of tasks
    assert min(twin.bumps, twin.cut_short, twin.other_drivers) > 20


@pytest.mark.slow
@pytest.mark.parametrize("shared", [True, False])
def test_paper_map_for_long(shared):
    kernel, twin = run_both(
        PAPER, make_rule(variance_weight=-2.0, shared_noise=shared, seed=5), 16, 4_000, 200, 0.12, 0.5
    )
    assert_same_tables(kernel, twin)


@pytest.mark.parametrize("four_room", [PAPER, SMALL])
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("alpha_w", [0.5, 0.0])
def test_pure_exploration(four_room, shared, alpha_w):
    """The driver is then often not the policy whose action is taken."""
    rule = make_rule(shared_noise=shared, seed=11)
    kernel, twin = run_both(four_room, rule, 5, 300, 25, 1.0, alpha_w)
    assert_same_tables(kernel, twin)
    assert twin.other_drivers > 20


@pytest.mark.parametrize("alpha_w", [0.5, 0.0])
@pytest.mark.parametrize("shared", [True, False])
def test_ties_are_broken_alike_without_noise(shared, alpha_w):
    """No noise: scores tie exactly, between actions and between policies, for a long time."""
    rule = make_rule(variance_weight=0.0, sigma=SigmaForm.NONE, noise_scale=0.0, shared_noise=shared)
    assert_same_tables(*run_both(SMALL, rule, 7, 500, 20, 0.3, alpha_w))


def test_variance_learned_but_not_used():
    """variance_weight = 0 with Sigma: the actions of SFQL, and its covariance beside."""
    outcomes = []
    for sigma in (SigmaForm.NONE, SigmaForm.FULL):
        kernel, twin = run_both(SMALL, make_rule(variance_weight=0.0, sigma=sigma), 5, 400, 15, 0.12, 0.5)
        assert_same_tables(kernel, twin)
        outcomes.append(kernel.contents()[:, :, : SMALL.n_features])
    np.testing.assert_array_equal(*outcomes)


@pytest.mark.parametrize("poison", [np.nan, 1e9])
@pytest.mark.parametrize("shared", [True, False])
def test_nothing_outside_the_used_part_is_read_or_written(poison, shared):
    """Spare room holds numbers that would win every maximum, or spoil every sum, and policy 0, which wins every tie."""
    kernel, twin = run_both(SMALL, make_rule(shared_noise=shared), 6, 300, 15, 0.12, 0.5, poison)
    assert_same_tables(kernel, twin)
    rows, entries, _ = kernel.table.used
    for field in ("best", "noise_best", "noise_scored_at"):
        np.testing.assert_array_equal(getattr(kernel.table, field)[rows:], poison)
    np.testing.assert_array_equal(kernel.table.value[entries:], poison)
