"""The lemmas inside the paper's proofs, and sentences about its theorems, by brute force on random small problems.

Lemma 4 and 6:  |Q_i* - Q_j*| <= (n - h) delta_ij, discounted delta_ij / (1 - gamma), of the optima of two tasks
Lemma 5 and 7:  |Q_j* - Q_i of the optimal policy of j| <= the same
Lemma 8:        E[X (Psi' - psi')^T] = 0 if X depends on s, a, the reward and s' only
Lemma 9:        Sigma = E[delta delta^T + gamma^2 Sigma']

Discounted utilities are divided by z = gamma^k. `record_property` keeps the numbers of `lab/notes/theory.md`; they are
in the file of `-o junit_family=xunit1 --junitxml FILE`.
"""

import math
from itertools import product

import numpy as np
import pytest
from planning_reference import (
    augmented_utilities,
    backup,
    feature_law,
    horizon_utilities,
    improved_policy,
    own_values,
    perturbed,
    utility,
)

from random_mdps import Problem, random_policies, random_problem, random_task
from rasf import CVaR, Entropic, FiniteMDP, MonotoneMeanVariance, plan, successor_moments

INSTANCES = 200
N = 4  # decisions
POWERS = 3  # discounted utilities are compared at z = 1, gamma, gamma^2
ROUNDING = 1e-9


def case(seed, gamma=1.0, tasks=2):
    """A random problem, a beta of either sign, and tasks of random distance."""
    rng = np.random.default_rng([seed, 6])
    shape = [{}, {"n_outcomes": 2}, {"n_outcomes": 3, "n_terminal": 1}][seed % 3]
    problem = random_problem(seed, n_states=3, gamma=gamma, **shape)
    beta = float(rng.choice([-1, 1]) * 10 ** rng.uniform(-2, 1))
    w = random_task(seed, problem)
    return problem, beta, w + rng.choice([0.03, 0.3, 1.0]) * rng.normal(size=(tasks, problem.n_features))


def distance(problem, w, other):
    return max(abs(float(phi @ (w - other))) for *_, phi in problem.transitions)


def steps_for(gamma):
    return math.ceil(math.log(1e-14) / math.log(gamma))


def solved(problem, w, beta, policy=None):
    """Utilities by plain recursions: (N, S, A) without a discount, else J / z for all powers of gamma."""
    if problem.gamma == 1:
        return horizon_utilities(problem, w, beta, N, policy)
    return augmented_utilities(problem, w, beta, steps_for(problem.gamma), policy)


def compared(table, gamma):
    return table if gamma == 1 else table[:POWERS]


def factor(gamma):
    """The multiple of delta or eps that the paper's bounds have, by decision h, or for all z."""
    return (N - np.arange(N))[:, None, None] if gamma == 1 else 1 / (1 - gamma)


def sharper(gamma):
    """The same with one decision fewer, because the first action is given."""
    return factor(gamma) - 1 if gamma == 1 else gamma / (1 - gamma)


def random_gamma(seed):
    return [0.5, 0.7][seed % 2]


@pytest.mark.parametrize("discounted", [False, True])
def test_optima_of_two_tasks_differ_by_no_more_than_lemmas_4_and_6_say(discounted, record_property):
    worst = 0.0
    for seed in range(INSTANCES):
        gamma = random_gamma(seed) if discounted else 1.0
        problem, beta, (one, other) = case(seed, gamma)
        gap = np.abs(solved(problem, one, beta) - solved(problem, other, beta))
        bound = factor(gamma) * distance(problem, one, other)
        worst = max(worst, (compared(gap, gamma) / bound).max())
    record_property(f"lemma {6 if discounted else 4}, difference / bound", float(worst))
    assert worst <= 1 + ROUNDING
    # a difference of rewards may be the same in every step; discounted ones are never all spent at the extreme
    assert worst > 0.75


@pytest.mark.parametrize("discounted", [False, True])
def test_a_policy_on_two_tasks_differs_by_no_more_than_lemmas_5_and_7_say(discounted, record_property):
    worst = 0.0
    for seed in range(INSTANCES):
        gamma = random_gamma(seed) if discounted else 1.0
        problem, beta, (own, other) = case(seed, gamma)
        found = solved(problem, own, beta)
        gap = np.abs(found - solved(problem, other, beta, found.argmax(axis=-1)))
        bound = factor(gamma) * distance(problem, own, other)
        worst = max(worst, (compared(gap, gamma) / bound).max())
    record_property(f"lemma {7 if discounted else 5}, difference / bound", float(worst))
    assert worst <= 1 + ROUNDING
    assert worst > 0.75


@pytest.mark.parametrize("gamma", [1.0, 0.8])
def test_what_is_known_at_the_next_state_does_not_vary_with_the_remaining_return(gamma, record_property):
    """Lemmas 8 and 9, over all trajectories of 3 decisions. X has random values for each outcome of the step."""
    worst, worst_covariance, beyond = 0.0, 0.0, 0.0
    for seed in range(INSTANCES):
        problem = random_problem(seed, n_states=3, n_outcomes=2, gamma=gamma)
        policy = random_policies(seed, problem, 3)
        psi, Sigma = successor_moments(problem.mdp, policy, horizon=3)
        rng = np.random.default_rng([seed, 7])
        for s, a in product(range(3), range(2)):
            product_mean, backed_up, covariance, later = (np.zeros((2, 2)) for _ in range(4))
            for p, after, phi in problem.outcomes[s][a]:
                own = policy[1, after]
                X, delta = rng.normal(size=2), phi + gamma * psi[1, after, own] - psi[0, s, a]
                backed_up += p * (np.outer(delta, delta) + gamma**2 * Sigma[1, after, own])
                for p_rest, rest in feature_law(problem, policy, after, own, 1):
                    off = rest - psi[1, after, own]
                    product_mean += p * p_rest * np.outer(X, off)
                    later += p * p_rest * np.outer(rest, off)
                    all_of_it = phi + gamma * rest - psi[0, s, a]
                    covariance += p * p_rest * np.outer(all_of_it, all_of_it)
            worst = max(worst, np.abs(product_mean).max())
            worst_covariance = max(worst_covariance, np.abs(covariance - backed_up).max())
            beyond = max(beyond, np.abs(later).max())
    record_property(f"lemma 8, gamma {gamma}, largest entry", float(worst))
    record_property(f"lemma 9, gamma {gamma}, largest error", float(worst_covariance))
    assert worst < 1e-12
    assert worst_covariance < 1e-12
    assert beyond > 1.0  # with an X that depends on later steps, here the remaining return itself, it is not 0


@pytest.mark.parametrize("discounted", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("optimal_sources", [False, True])
def test_theorems_1_and_2_hold_with_one_decision_fewer(optimal_sources, discounted, record_property):
    """The first action is given, so GPI errs in n - h - 1 decisions; discounted, gamma / (1 - gamma)."""
    worst = 0.0
    for seed in range(INSTANCES):
        gamma = random_gamma(seed) if discounted else 1.0
        problem, beta, tasks = case(seed, gamma)
        w, eps = random_task(seed, problem), [0.0, 0.05, 0.5][seed % 3] if optimal_sources else [0.05, 0.5][seed % 2]
        if optimal_sources:
            policies = [solved(problem, task, beta).argmax(axis=-1) for task in tasks]
        else:
            policies = random_policies(seed, problem, *((2,) if discounted else (2, N)))
        exact = np.stack([solved(problem, w, beta, policy) for policy in policies])
        scores = perturbed(seed, exact, eps, ["uniform", "signs", "adversary"][seed % 3])
        attained = solved(problem, w, beta, improved_policy(scores))
        wanted = solved(problem, w, beta) if optimal_sources else exact.max(axis=0)
        error = eps + (min(distance(problem, w, task) for task in tasks) if optimal_sources else 0.0)
        gap, bound = compared(wanted - attained, gamma), 2 * sharper(gamma) * error
        assert (gap <= bound + 1e-7).all()
        positive = np.broadcast_to(bound, gap.shape) > 0
        worst = max(worst, (gap[positive] / np.broadcast_to(bound, gap.shape)[positive]).max())
    number = 2 if optimal_sources else 1
    record_property(f"theorem {number} with one decision fewer, discounted {discounted}, gap / bound", float(worst))


def test_sources_that_are_nearly_optimal_add_their_own_loss(record_property):
    """The text has eps-optimal sources, Theorem 2 optimal ones: a loss of at most l in their own tasks adds l."""
    worst = 0.0
    for seed in range(INSTANCES):
        problem, beta, tasks = case(seed)
        w, exact, allowed = random_task(seed, problem), [], math.inf
        for i, task in enumerate(tasks):
            best = solved(problem, task, beta)
            policy = best.argmax(axis=-1)
            other = np.random.default_rng([seed, i, 8]).random(policy.shape) < 0.3
            policy = np.where(other, 1 - policy, policy)
            loss = (best - solved(problem, task, beta, policy)).max(axis=(1, 2), keepdims=True)
            exact.append(solved(problem, w, beta, policy))
            allowed = np.minimum(allowed, 2 * factor(1.0) * distance(problem, w, task) + loss)
        gap = solved(problem, w, beta) - solved(problem, w, beta, improved_policy(np.stack(exact)))
        worst = max(worst, (gap / allowed).max())
    record_property("theorem 2 with nearly optimal sources, gap / bound", float(worst))
    assert worst <= 1 + ROUNDING


@pytest.mark.slow
def test_stationary_sources_have_theorem_2_with_the_error_of_leaving_z_out(record_property):
    """Appendix A.2: eps is the difference between a stationary source and the optimal one that knows z.

    It is measured at all powers of gamma. GPI knows z.
    """
    worst, broken_by_z_1 = 0.0, 0
    for seed in range(INSTANCES):
        gamma = random_gamma(seed)
        problem, beta, tasks = case(seed, gamma)
        w = random_task(seed, problem)
        optimal = [solved(problem, task, beta).argmax(axis=-1) for task in tasks]
        aware = np.stack([solved(problem, w, beta, policy) for policy in optimal])
        stationary = np.stack([solved(problem, w, beta, policy[0]) for policy in optimal])
        off = np.abs(aware - stationary)
        attained = solved(problem, w, beta, improved_policy(stationary))
        gap = compared(np.abs(solved(problem, w, beta) - attained), gamma).max()
        nearest = min(distance(problem, w, task) for task in tasks)
        worst = max(worst, gap / (2 * (nearest + off.max()) / (1 - gamma)))
        broken_by_z_1 += bool(gap > 2 * (nearest + off[:, 0].max()) / (1 - gamma) + 1e-7)
    record_property("theorem 2 discounted with stationary sources, gap / bound", float(worst))
    record_property("the same with eps at z = 1 only, violations", float(broken_by_z_1))
    assert worst <= 1 + 1e-7


def test_rewards_and_transitions_may_depend_on_time(record_property):
    """Section 2.1. A state of the model is a pair of a time and a state."""
    worst, live = 0.0, (N - np.arange(N))[:, None, None]
    for seed in range(INSTANCES):
        rng = np.random.default_rng([seed, 9])
        S, beta, eps = 3, float(rng.uniform(-3, 3)), 0.2
        rows = [
            [
                (float(p), min(h + 1, N) * S + after, rng.normal(size=1))
                for after, p in enumerate(rng.dirichlet([1] * S))
            ]
            for h in range(N)
            for _ in range(2 * S)
        ]
        outcomes = [rows[i : i + 2] for i in range(0, len(rows), 2)] + [[[], []] for _ in range(S)]
        problem = Problem(outcomes, frozenset(range(N * S, N * S + S)))
        w, policies = np.ones(1), random_policies(seed, problem, 2, N)
        exact = np.stack([solved(problem, w, beta, policy) for policy in policies])
        attained = solved(problem, w, beta, improved_policy(perturbed(seed, exact, eps, "signs")))
        now = np.arange(N)[:, None], np.arange(N * S).reshape(N, S)  # at decision h only the states of time h matter
        worst = max(worst, ((exact.max(axis=0) - attained)[now] / (2 * live * eps)).max())
    record_property("theorem 1 with time, gap / bound", float(worst))
    assert worst <= 1 + ROUNDING


@pytest.mark.parametrize("risk", [CVaR(0.3), MonotoneMeanVariance(-1.0)], ids=["CVaR", "monotone mean-variance"])
def test_theorems_1_and_2_hold_for_other_iterated_concave_utilities(risk, record_property):
    """Section 3.2: the proofs use monotonicity, cash-invariance and non-expansion only. Q_h = rho[r + Q_h+1]."""

    def recursion(problem, w, policy=None):
        q = np.zeros((N + 1, problem.n_states, problem.n_actions))
        for h in range(N - 1, -1, -1):
            value = own_values(q[h + 1], None if policy is None or h + 1 == N else policy[h + 1])
            for s, a in np.ndindex(q.shape[1:]):
                if entries := problem.outcomes[s][a]:
                    x = np.array([float(phi @ w) + value[after] for _, after, phi in entries])
                    q[h, s, a] = risk.histogram(np.array([p for p, *_ in entries]), x)
        return q[:N]

    worst = {1: 0.0, 2: 0.0}
    for seed in range(INSTANCES // 2):
        problem, _, tasks = case(seed)
        w, eps = random_task(seed, problem), 0.2
        optimal = [recursion(problem, task).argmax(axis=-1) for task in tasks]
        for number, policies in ((1, random_policies(seed, problem, 2, N)), (2, optimal)):
            exact = np.stack([recursion(problem, w, policy) for policy in policies])
            attained = recursion(problem, w, improved_policy(perturbed(seed, exact, eps, "adversary")))
            wanted = exact.max(axis=0) if number == 1 else recursion(problem, w)
            error = eps + (0.0 if number == 1 else min(distance(problem, w, task) for task in tasks))
            worst[number] = max(worst[number], ((wanted - attained) / (2 * factor(1.0) * error)).max())
    record_property("gap / bound", {number: float(one) for number, one in worst.items()})
    assert max(worst.values()) <= 1 + ROUNDING


def test_no_stochastic_or_history_dependent_policy_is_better(record_property):
    """Section 2.2: a deterministic Markov policy is optimal. 3 decisions, 2 states, 2 outcomes a step."""
    worst, instances = -math.inf, 40
    for seed in range(instances):
        problem = random_problem(seed, n_states=2, n_outcomes=2)
        w, rng = random_task(seed, problem), np.random.default_rng([seed, 10])
        beta = float(rng.choice([-1, 1]) * 10 ** rng.uniform(-2, 1))
        best = plan(problem.mdp, w, Entropic(beta), horizon=3).q[0]
        first = [(p, after, float(phi @ w)) for p, after, phi in problem.outcomes[0][0]]

        def mixed(chance, problem=problem, w=w, beta=beta, first=first):
            """Utility of (0, 0) where `chance` has the probability of action 1 for each history of states."""
            law = []
            for p, s1, r1 in first:
                for a1, q1 in enumerate([1 - chance[s1], chance[s1]]):
                    for p2, s2, phi2 in problem.outcomes[s1][a1]:
                        for a2, q2 in enumerate([1 - chance[s1, s2], chance[s1, s2]]):
                            for p3, _, phi3 in problem.outcomes[s2][a2]:
                                law.append((p * q1 * p2 * q2 * p3, r1 + float((phi2 + phi3) @ w)))
            return utility(law, beta)

        histories = [0, 1, *product(range(2), range(2))]
        deterministic = [mixed(dict(zip(histories, chosen, strict=True))) for chosen in product((0, 1), repeat=6)]
        assert max(deterministic) == pytest.approx(best[0, 0], abs=1e-10)
        stochastic = [mixed(dict(zip(histories, rng.random(6), strict=True))) for _ in range(30)]
        worst = max(worst, max(stochastic) - best[0, 0])
    record_property("largest gain of a stochastic policy", float(worst))
    assert worst <= 1e-10


def test_the_augmented_model_is_the_one_of_the_paper(record_property):
    """Appendix A.2 word by word: states (s, z), reward z r, z' = gamma z, and no discount; cut at z = gamma^K."""
    worst, instances = 0.0, 30
    for seed in range(instances):
        problem, beta, (w, _) = case(seed, 0.5)
        S, K = problem.n_states, steps_for(0.5)
        transitions = [
            (k * S + s, a, (k + 1) * S + after, p, 0.5**k * phi)
            for k in range(K)
            for s, a, after, p, phi in problem.transitions
        ]
        terminal = [*range(K * S, K * S + S), *(k * S + s for k in range(K) for s in problem.terminal)]
        augmented = FiniteMDP.from_transitions(transitions, (K + 1) * S, problem.n_actions, terminal, 1.0)
        found = plan(augmented, w, Entropic(beta)).q[:S]
        worst = max(worst, np.abs(found - plan(problem.mdp, w, Entropic(beta)).q).max())
    record_property("largest difference", float(worst))
    assert worst < 1e-8


def test_the_augmented_bellman_equation_has_one_solution_that_vanishes_with_z_and_others_that_do_not():
    """Appendix A.2 has "a unique fixed point". T(J + c) = T J + c, so any constant may be added to a solution."""
    K = 40
    for seed in range(6):
        problem, beta, (w, _) = case(seed, 0.5)
        policy = random_policies(seed, problem)
        live = np.array([s not in problem.terminal for s in range(problem.n_states)])

        def apply(J, problem=problem, w=w, beta=beta, policy=policy):
            z = problem.gamma ** np.arange(K)
            rows = [backup(problem, w, own_values(J[k + 1], policy), beta, 1.0, z[k]) for k in range(K)]
            return np.stack([*rows, J[K] / 2])

        J = np.zeros((K + 1, problem.n_states, problem.n_actions))
        start = J + problem.gamma ** np.arange(K + 1)[:, None, None] * np.random.default_rng(seed).normal(size=J.shape)
        start[:, ~live] = 0.0
        for _ in range(K):
            J, start = apply(J), apply(start)
        np.testing.assert_allclose(start[:POWERS], J[:POWERS], atol=1e-9)
        truth = augmented_utilities(problem, w, beta, K, policy)[0]
        np.testing.assert_allclose(J[0], truth, atol=1e-9)
        if not problem.terminal:
            np.testing.assert_allclose(apply(J + 3.0)[:POWERS], J[:POWERS] + 3.0, atol=1e-9)


def test_gpi_need_not_improve_strictly():
    """Section 2.3 calls GPI a strict policy improvement operator: an optimal source cannot be improved on."""
    problem, beta, (w, _) = case(1)
    best = solved(problem, w, beta)
    attained = solved(problem, w, beta, improved_policy(solved(problem, w, beta, best.argmax(axis=-1))[None]))
    np.testing.assert_allclose(attained, best, atol=1e-12)
