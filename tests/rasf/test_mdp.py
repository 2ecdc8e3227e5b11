import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given

from random_mdps import SEEDS, examples, random_problem
from rasf import Entropic, FiniteMDP, plan, successor_moments

FIELDS = ("indptr", "successor", "probability", "phi", "terminal")


def dense_arrays(problem):
    P = np.zeros((problem.n_states, problem.n_actions, problem.n_states))
    phi = np.zeros((*P.shape, problem.n_features))
    for s, a, successor, p, features in problem.transitions:
        P[s, a, successor], phi[s, a, successor] = p, features
    return P, phi


def assert_same(one, other):
    for name in FIELDS:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    assert (one.n_states, one.n_actions, one.n_features) == (other.n_states, other.n_actions, other.n_features)
    assert one.gamma == other.gamma


def entries(mdp):
    rows = np.repeat(np.arange(len(mdp.indptr) - 1), np.diff(mdp.indptr))
    return [
        (row, successor, p, tuple(phi))
        for row, successor, p, phi in zip(rows, mdp.successor, mdp.probability, mdp.phi, strict=True)
    ]


@examples(10)
@given(SEEDS)
def test_all_forms_of_the_dynamics_agree(seed):
    problem = random_problem(seed, n_states=4, n_actions=3, n_terminal=1, gamma=0.9)
    P, phi = dense_arrays(problem)
    by_rows = sp.csr_array(P.reshape(-1, 4))
    aligned = phi.reshape(-1, 4, 2)[by_rows.nonzero()]
    per_action = [sp.csr_matrix(P[:, a]) for a in range(3)]
    dense = FiniteMDP(P, phi, terminal=[3], gamma=0.9)
    for other in (
        FiniteMDP(P.tolist(), phi, terminal=[False, False, False, True], gamma=0.9),
        FiniteMDP(by_rows, phi, terminal=[3], gamma=0.9),
        FiniteMDP(by_rows, aligned, terminal=[3], gamma=0.9),
        FiniteMDP(sp.csc_matrix(by_rows), phi, terminal=[3], gamma=0.9),
        FiniteMDP(per_action, phi, terminal=[3], gamma=0.9),
        FiniteMDP(tuple(per_action), phi, terminal=np.array([3]), gamma=0.9),
        problem.mdp,
    ):
        assert_same(dense, other)
    backwards = FiniteMDP.from_transitions(problem.transitions[::-1], 4, 3, [3], 0.9)
    assert sorted(entries(backwards)) == entries(dense)


def test_features_of_state_and_action_hold_for_every_successor():
    P, full = dense_arrays(random_problem(1))
    by_action = full[:, :, 0]
    spread = np.broadcast_to(by_action[:, :, None], full.shape)
    assert_same(FiniteMDP(P, by_action), FiniteMDP(P, spread))
    assert_same(FiniteMDP(sp.csr_array(P.reshape(-1, 4)), by_action), FiniteMDP(P, spread))


def unordered(kind):
    """A sparse P whose stored entries do not come row by row, and its entries as they are stored."""
    entries = sp.coo_array(([1.0, 0.25, 0.75], ([1, 0, 0], [0, 1, 0])), shape=(2, 2))
    P = entries if kind == "coo" else sp.csc_array(entries)
    stored = P.tocoo() if kind == "csc" else P
    return P, list(zip(stored.row.tolist(), stored.col.tolist(), stored.data.tolist(), strict=True))


@pytest.mark.parametrize("kind", ["coo", "csc"])
def test_aligned_features_need_the_order_of_csr(kind):
    P, stored = unordered(kind)
    phi = np.array([[100 * row + 10 * successor] for row, successor, _ in stored], float)
    with pytest.raises(ValueError, match="in CSR format"):
        FiniteMDP(P, phi, gamma=0.9)


def test_explicit_zeros_keep_the_features_aligned():
    P = sp.csr_array((np.array([0.0, 1.0, 1.0]), np.array([0, 1, 0]), np.array([0, 2, 3])), shape=(2, 2))
    mdp = FiniteMDP(P, np.array([[7.0], [8.0], [9.0]]), gamma=0.9)
    assert mdp.phi[:, 0].tolist() == [8.0, 9.0]


def test_same_successor_with_different_features_is_kept_apart():
    trap = [(0, 0, 1, 0.75, [0.0]), (0, 0, 1, 0.25, [-4.0])]
    mdp = FiniteMDP.from_transitions(trap, 2, 1, terminal=[1])
    assert mdp.successor.tolist() == [1, 1]
    psi, Sigma = successor_moments(mdp, [0, 0])
    assert psi[0, 0, 0] == -1.0
    assert Sigma[0, 0, 0, 0] == pytest.approx(0.75 * 0.25 * 16)
    P = sp.csr_array((np.array([0.75, 0.25]), np.array([1, 1]), np.array([0, 2, 2])), shape=(2, 2))
    assert_same(mdp, FiniteMDP(P, np.array([[0.0], [-4.0]]), terminal=[1]))


def test_what_is_said_of_terminal_states_is_ignored():
    P, phi = dense_arrays(random_problem(3))
    clean = FiniteMDP(P, phi, terminal=[2])
    P[2], phi[2] = -7.0, np.nan
    assert_same(clean, FiniteMDP(P, phi, terminal=[2]))
    P[2] = np.nan
    assert_same(clean, FiniteMDP(P, phi, terminal=[2]))
    assert clean.indptr[2 * 2] == clean.indptr[3 * 2]


def test_features_of_impossible_transitions_are_ignored():
    phi = np.ones((2, 1, 2, 1))
    phi[0, 0, 1] = np.nan
    assert np.isfinite(FiniteMDP(np.array([[[1.0, 0.0]], [[0.0, 1.0]]]), phi).phi).all()


def test_the_callers_arrays_stay_writable_and_their_own():
    P, phi = dense_arrays(random_problem(4))
    terminal = np.array([False, False, False, True])
    sparse = sp.csr_array(P.reshape(-1, 4))
    aligned = phi.reshape(-1, 4, 2)[sparse.nonzero()]
    for mdp in (FiniteMDP(P, phi, terminal), FiniteMDP(sparse, aligned, terminal)):
        before = {name: getattr(mdp, name).copy() for name in FIELDS}
        for array in (P, phi, terminal, sparse.data, sparse.indices, aligned):
            assert array.flags.writeable
            array[...] = 0
        for name in FIELDS:
            np.testing.assert_array_equal(getattr(mdp, name), before[name])
            with pytest.raises(ValueError, match="read-only"):
                getattr(mdp, name)[...] = 0
        P, phi = dense_arrays(random_problem(4))


def test_repr_counts():
    text = repr(random_problem(0, n_terminal=1, gamma=0.5).mdp)
    assert text == "FiniteMDP(states=4, actions=2, features=2, transitions=24, terminal=1, gamma=0.5)"


P, PHI = dense_arrays(random_problem(5))
SPARSE = sp.csr_array(P.reshape(-1, 4))


def changed(array, index, value):
    copy = array.copy()
    copy[index] = value
    return copy


def test_each_bad_input_has_its_own_message(subtests):
    for message, build in [
        (r"P must sum to 1 .* s=1, a=0", lambda: FiniteMDP(changed(P, (1, 0, 2), 0.999), PHI)),
        (r"P must sum to 1 .* it sums to 0", lambda: FiniteMDP(changed(P, (1, 0), 0.0), PHI)),
        ("P must not be negative", lambda: FiniteMDP(changed(P, (0, 0), [-0.5, 0.5, 0.5, 0.5]), PHI)),
        ("P must be finite", lambda: FiniteMDP(changed(P, (0, 0, 1), np.nan), PHI)),
        ("P must be finite", lambda: FiniteMDP(changed(P, (0, 0, 1), np.inf), PHI)),
        ("phi must be finite", lambda: FiniteMDP(P, changed(PHI, (0, 0, 1, 1), np.nan))),
        ("phi must be finite", lambda: FiniteMDP(P, changed(PHI, (0, 0, 1, 1), -np.inf))),
        (r"P must have shape \(S, A, S\)", lambda: FiniteMDP(P[0], PHI)),
        (r"P must have shape \(S, A, S\)", lambda: FiniteMDP(P[:, :, :3], PHI)),
        (r"P must have shape \(S, A, S\)", lambda: FiniteMDP(P[:, :0], PHI)),
        (r"P as a sparse matrix must have shape \(S A, S\)", lambda: FiniteMDP(SPARSE[:7], PHI)),
        (r"P as a list", lambda: FiniteMDP([SPARSE[:4], SPARSE], PHI)),
        ("phi must have shape", lambda: FiniteMDP(P, PHI[:3])),
        ("phi must have shape", lambda: FiniteMDP(P, PHI[0])),
        ("phi must have shape", lambda: FiniteMDP(SPARSE, np.ones((5, 2)))),
        (r"gamma must be in \(0, 1\]", lambda: FiniteMDP(P, PHI, gamma=0.0)),
        (r"gamma must be in \(0, 1\]", lambda: FiniteMDP(P, PHI, gamma=1.01)),
        (r"gamma must be in \(0, 1\]", lambda: FiniteMDP(P, PHI, gamma=np.nan)),
        ("terminal must name states 0 to 3", lambda: FiniteMDP(P, PHI, terminal=[4])),
        ("terminal must name states 0 to 3", lambda: FiniteMDP(P, PHI, terminal=[-1])),
        (r"terminal as a mask must have shape \(4,\)", lambda: FiniteMDP(P, PHI, terminal=[True])),
        ("terminal must be a boolean mask", lambda: FiniteMDP(P, PHI, terminal=[0.5])),
        ("transitions must be at least one tuple", lambda: FiniteMDP.from_transitions([], 1, 1)),
        ("0 <= s < 1, got 1", lambda: FiniteMDP.from_transitions([(1, 0, 0, 1.0, [1.0])], 1, 1)),
        ("0 <= a < 1, got -1", lambda: FiniteMDP.from_transitions([(0, -1, 0, 1.0, [1.0])], 1, 1)),
        ("0 <= s' < 1, got 2", lambda: FiniteMDP.from_transitions([(0, 0, 2, 1.0, [1.0])], 1, 1)),
    ]:
        with subtests.test(message=message, build=build), pytest.raises(ValueError, match=message):
            build()


def test_sums_may_be_off_by_rounding_only():
    FiniteMDP(changed(P, (0, 0), P[0, 0] * (1 + 1e-11)), PHI)
    with pytest.raises(ValueError, match="sum to 1"):
        FiniteMDP(changed(P, (0, 0), P[0, 0] * (1 + 1e-7)), PHI)


@pytest.mark.parametrize(
    ("message", "policy", "steps"),
    [
        ("integer actions, got dtype float64", np.zeros(4), None),
        ("integer actions, got dtype bool", np.zeros(4, bool), None),
        (r"shape \(4,\), got \(3,\)", np.zeros(3, int), None),
        (r"shape \(4,\), got \(2, 4\)", np.zeros((2, 4), int), None),
        (r"shape \(3, 4\), got \(2, 4\)", np.zeros((2, 4), int), 3),
        (r"shape \(3, 4\), got \(3, 5\)", np.zeros(5, int), 3),
        ("actions 0 to 1", [0, 0, 2, 0], None),
        ("actions 0 to 1", [0, -1, 0, 0], 3),
    ],
)
def test_bad_policies(message, policy, steps):
    with pytest.raises(ValueError, match=message):
        FiniteMDP(P, PHI).policy(policy, steps)


def test_a_stationary_policy_is_repeated_at_every_step():
    assert FiniteMDP(P, PHI).policy([0, 1, 0, 1], 3).tolist() == [[0, 1, 0, 1]] * 3


@pytest.mark.parametrize(("message", "w"), [(r"w must have shape \(2,\)", [1.0]), ("w must be finite", [1.0, np.inf])])
def test_bad_tasks(message, w):
    with pytest.raises(ValueError, match=message):
        FiniteMDP(P, PHI).rewards(w)


def test_under_policy_selects_the_rows_of_its_actions():
    mdp = random_problem(6, n_outcomes=2, n_terminal=1).mdp
    indptr, entries = mdp.under_policy(np.array([1, 0, 1, 0]))
    assert indptr.tolist() == [0, 2, 4, 6, 6]
    assert entries.tolist() == [2, 3, 4, 5, 10, 11]


@pytest.mark.parametrize("terminal", [(), (1,)])
def test_a_missing_or_unreachable_end_matters_only_without_discount_and_horizon(terminal):
    loop = [(0, 0, 0, 1.0, [1.0]), (1, 0, 1, 1.0, [1.0])]
    endless = FiniteMDP.from_transitions(loop, 2, 1, terminal)
    assert plan(endless, [1.0], Entropic(-1.0), horizon=3).value[0, 0] == pytest.approx(3.0)
    discounted = FiniteMDP.from_transitions(loop, 2, 1, terminal, gamma=0.5)
    assert plan(discounted, [1.0], Entropic(-1.0)).value[0] == pytest.approx(2.0)
    with pytest.raises(ValueError, match="gamma = 1"):
        plan(endless, [1.0])
