"""Looking ahead in a finite MDP: against sums over all paths, and the bounds of the theory on random MDPs."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from library_worlds import gamble, random_world

import rasf
from random_mdps import SEEDS, examples, random_policies, random_problem, random_task
from rasf import CVaR, Entropic, MeanVariance
from rasf.agents import AGENTS
from rasf.envs.gymnasium.single import open_environment
from rasf.envs.reacher import Reacher
from rasf.library.ahead.finite import FiniteModel
from rasf.library.ahead.followed import Tails
from rasf.library.policy_library import PolicyLibrary, SourcePolicy
from rasf.library.tables.policies import TablePolicies
from rasf.transfer import packed_indices

NEUTRAL = MeanVariance(0.0)


def table_library(env, mdp, weights, gamma, error=0.0, seed=0):
    """Tables of the optimal policies of some tasks, with an error of up to `error` in every psi, and 1.5 times Sigma.

    Returns the library and the policies' actions (K, S), which are those of the tables.
    """
    rng, d, rows = np.random.default_rng(seed), mdp.n_features, packed_indices(mdp.n_features)
    values = np.zeros((len(weights), mdp.n_states, mdp.n_actions, d + len(rows[0])), np.float32)
    for i, w in enumerate(weights):
        policy = rasf.plan(mdp, w).policy
        psi, Sigma = rasf.successor_moments(mdp, policy)
        wrong = error * rng.uniform(-1, 1, psi.shape)
        values[i] = np.concatenate([psi + wrong, (1.5 if error else 1.0) * Sigma[..., rows[0], rows[1]]], axis=-1)
    keys = np.arange(mdp.n_states, dtype=float)[:, None]
    sources = TablePolicies.from_tables(keys, values, np.ones((mdp.n_states, mdp.n_actions), bool), d, gamma)
    own = tuple(SourcePolicy(tuple(w), NEUTRAL) for w in weights)
    described = open_environment(env).describe()
    return PolicyLibrary(sources, described, own, (AGENTS["rasf-model"],), {}, (), {})


def plain_return(library, mdp, w, i, s, a, ahead):
    """Mean and variance of the return, as sums over all paths of `ahead` steps and over the tails at their ends."""
    sources, own = library.sources, library.policies

    def at(state, weights):
        found = sources.scores(np.array([[float(state)]]), np.array(weights), NEUTRAL)
        return found.mean[:, 0], found.std[:, 0]

    def action_of(state):
        return int(at(state, own[i].w)[0][i].argmax())

    paths = [(1.0, 0.0, 1.0, s)]  # probability, return so far, discount, state
    for t in range(ahead):
        after = []
        for p, so_far, z, state in paths:
            if mdp.terminal[state]:
                after.append((p, so_far, 0.0, state))
                continue
            row = state * mdp.n_actions + (a if t == 0 else action_of(state))
            for e in range(mdp.indptr[row], mdp.indptr[row + 1]):
                reward = mdp.phi[e] @ w
                step = p * mdp.probability[e], so_far + z * reward, z * library.gamma, int(mdp.successor[e])
                after.append(step)
        paths = after
    first = second = 0.0
    for p, so_far, z, state in paths:
        mean = std = 0.0
        if z > 0 and not mdp.terminal[state]:
            means, stds = at(state, w)
            mean, std = means[i, action_of(state)], stds[i, action_of(state)]
        first += p * (so_far + z * mean)
        second += p * ((so_far + z * mean) ** 2 + z**2 * std**2)
    return first, second - first**2


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("ahead", [1, 2, 4])
def test_mean_and_variance_are_sums_over_all_paths(seed, ahead):
    env = random_world(seed, S=4, A=2)
    mdp, rng = env.mdp(0.8), np.random.default_rng(seed)
    library = table_library(lambda: random_world(seed, S=4, A=2), mdp, rng.normal(size=(3, 2)), 0.8, error=0.5)
    w = rng.normal(size=2)
    sources = library.rule(w, NEUTRAL, model=mdp, ahead=ahead).sources
    keys = np.arange(3, dtype=float)[:, None]
    found = sources.scores(keys, w, MeanVariance(-0.5))
    for i, s, a in itertools.product(range(3), range(3), range(2)):
        mean, variance = plain_return(library, mdp, w, i, s, a, ahead)
        assert found.mean[i, s, a] == pytest.approx(mean, abs=1e-6)
        assert found.std[i, s, a] ** 2 == pytest.approx(variance, abs=1e-6)
    np.testing.assert_allclose(found.values, found.mean - 0.25 * found.std**2, atol=1e-12)


def test_an_exact_library_is_not_changed_by_its_own_model():
    """Its tables are a fixed point of the model's backups, at every h."""
    env = gamble()
    mdp = env.mdp(0.9)
    library = table_library(gamble, mdp, np.array([[-0.1, 1.0, -1.0], [0.0, 1.0, 0.0]]), 0.9)
    w, keys = np.array([-0.2, 1.0, -3.0]), np.arange(3, dtype=float)[:, None]
    plain = library.sources.scores(keys, w, MeanVariance(-1.0))
    for ahead in (1, 3, 10):
        found = library.rule(w, NEUTRAL, model=mdp, ahead=ahead).sources.scores(keys, w, MeanVariance(-1.0))
        np.testing.assert_allclose(found.values, plain.values, atol=1e-5)
        np.testing.assert_allclose(found.std, plain.std, atol=1e-3)


def test_actors_static_risks_and_limits():
    """Observations are the states, so no state is given; without steps, nothing changes bit for bit."""
    mdp = gamble().mdp(0.9)
    library = table_library(gamble, mdp, np.array([[-0.1, 1.0, -1.0], [0.0, 1.0, 0.0]]), 0.9, error=0.3)
    w = np.array([-0.2, 1.0, -3.0])
    for risk in (NEUTRAL, MeanVariance(-2.0), CVaR(0.2)):
        plain, none = library.actor(w, risk), library.actor(w, risk, model=mdp, ahead=0)
        assert plain.act(np.arange(3)).tolist() == none.act(np.arange(3)).tolist()
        exact = library.actor(w, risk, model=mdp, ahead=5)
        assert exact.act(0) in (0, 1)
        assert (exact.ahead, exact.particles) == (5, 0)
        exact.observe(np.array([1.0, 0.0, 0.0]))
    # with costs that are exact, action 1, which falls half the time, is over the limit
    limited = library.actor(np.array([0.0, 1.0, 0.0]), limits={2: 0.4}, model=mdp, ahead=5)
    assert limited.act(0) == 0
    free = library.actor(np.array([0.0, 1.0, 0.0]), limits={2: 0.6}, model=mdp, ahead=5)
    assert free.act(0) == 1
    static = library.actor(w, CVaR(0.5), static=True, model=mdp, ahead=5)
    assert static.act(0) == 0
    with pytest.raises(ValueError, match=r"^state must be left out, because observations are the states"):
        static.act(0, state=0)


def test_a_pair_of_an_mdp_and_observations_names_the_states():
    """In another order than the library's; the observation of no state is scored without looking ahead."""
    mdp, order = gamble().mdp(0.9), np.array([2, 0, 3, 1])
    library = table_library(gamble, mdp, np.array([[-0.1, 1.0, -1.0]]), 0.9, error=0.3)
    w = np.array([-0.2, 1.0, -3.0])
    moved = np.argsort(order)
    P, phi = gamble().P[np.ix_(order, [0, 1], order)], gamble().phi[np.ix_(order, [0, 1], order)]
    other = rasf.FiniteMDP(P, phi, [int(moved[3])], 0.9)
    keys = np.arange(3, dtype=float)[:, None]
    found, expected = (
        library.rule(w, NEUTRAL, model=model, ahead=2).sources.scores(keys, w, NEUTRAL).mean
        for model in ((other, order), mdp)
    )
    np.testing.assert_allclose(found, expected, atol=1e-12)
    part = rasf.FiniteMDP(np.ones((1, 2, 1)), np.ones((1, 2, 1, 3)), (), 0.9)
    some = library.rule(w, NEUTRAL, model=(part, np.array([1])), ahead=1).sources
    scored, plain = some.scores(keys, w, NEUTRAL).mean, library.sources.scores(keys, w, NEUTRAL).mean
    np.testing.assert_array_equal(scored[:, [0, 2]], plain[:, [0, 2]])
    own = library.sources.scores(keys[[1]], np.array(library.policies[0].w), NEUTRAL).values[0, 0].argmax()
    np.testing.assert_allclose(scored[0, 1], w.sum() + 0.9 * plain[0, 1, own], atol=1e-6)


def test_a_policy_without_data_at_the_end_of_a_path_is_excluded():
    mdp = gamble().mdp(0.9)
    followed = _Fixed(np.zeros((1, 4), int), known=np.array([[True, True, False, True]]))
    model = FiniteModel(mdp, lambda age: np.arange(4.0)[:, None], followed, 0.9)
    _, _, known = model.moments(np.arange(3), model.rows([0] * 3), np.array([1.0, 1.0, 1.0]), 1)
    assert known.tolist() == [[[True, False], [True, True], [True, True]]]  # only action 1 in state 0 may enter 2


def test_models_that_do_not_fit_are_refused():
    mdp = gamble().mdp(0.9)
    library = table_library(gamble, mdp, np.array([[-0.1, 1.0, -1.0]]), 0.9)
    w = np.ones(3)
    small = rasf.FiniteMDP(np.ones((1, 2, 1)), np.ones((1, 2, 1, 3)), (), 0.9)
    cases = [
        ({"model": random_problem(0, n_features=3, n_actions=3).mdp}, "model must have 2 actions, as in training"),
        ({"model": random_problem(0, n_features=2).mdp}, "model must have 3 features, as in training, got 2"),
        ({"model": small}, "model must be a pair of a FiniteMDP and the observations of its 1 states"),
        ({"model": (small, np.array([1, 2]))}, "keys must have a row for each of 1 states, got 2"),
        ({"model": Reacher()}, "model can be a rasf.World only for a library of networks"),
    ]
    for options, sentence in cases:
        with pytest.raises(ValueError, match=rf"^{sentence}[^\n]*$"):
            library.actor(w, ahead=2, **options)
    sources = library.rule(w, NEUTRAL, model=mdp, ahead=2).sources
    with pytest.raises(ValueError, match=r"^risk must be one that can score"):
        sources.check(Entropic(-1.0))


# --- theory: errors of the learned tails, of the model, and GPI beside its best source


class _Fixed:
    """Given actions (K, S) in the states 0 .. S - 1, and given tails (K, S)."""

    def __init__(self, actions, mean=None, variance=None, known=None):
        self.policies, self._actions = len(actions), actions
        zero = np.zeros(actions.shape)
        self.mean, self.variance = (zero if given is None else given for given in (mean, variance))
        self.known = np.ones(actions.shape, bool) if known is None else known

    def actions(self, obs):
        return self._actions

    def tails(self, obs, actions, w):
        return Tails(self.mean, self.variance, self.known)


def exact_moments(problem, policies, w):
    """Means and variances (K, S, A) of the policies' returns."""
    found = [rasf.successor_moments(problem.mdp, policy) for policy in policies]
    mean = np.stack([psi @ w for psi, _ in found])
    return mean, np.stack([np.einsum("saij,i,j->sa", Sigma, w, w) for _, Sigma in found])


def own_of(values, policies):
    """The entries (K, S) of the policies' own actions."""
    return np.take_along_axis(values, policies[..., None], axis=2)[..., 0]


def looked(problem, policies, w, mean, variance, ahead, model=None):
    keys = np.arange(problem.n_states, dtype=float)[:, None]
    finite = FiniteModel(model or problem.mdp, lambda age: keys, _Fixed(policies, mean, variance), problem.gamma)
    states = np.arange(problem.n_states)
    found = finite.moments(states, finite.rows([0] * len(states)), w, ahead)
    return found[:2]


def errors_of(seed, shape, size):
    return size * np.random.default_rng([seed, 3]).uniform(-1, 1, shape)


@given(SEEDS)
@examples(60)
def test_errors_of_the_tails_shrink(seed):
    """The mean by gamma^h. The variance by gamma^2h if means are exact, else by what the theorem adds for the mean."""
    gamma, size = 0.7, 0.8
    problem = random_problem(seed, gamma=gamma)
    policies, w = random_policies(seed, problem, 3), random_task(seed, problem)
    mean, variance = exact_moments(problem, policies, w)
    own, spread = own_of(mean, policies), own_of(variance, policies)
    wrong, wide = errors_of(seed, own.shape, size), np.abs(errors_of(seed + 1, own.shape, size))
    eps, eps_variance = np.abs(wrong).max(), wide.max()
    for h in (1, 2, 4, 8):
        found, _ = looked(problem, policies, w, own + wrong, spread, h)
        assert np.abs(found - mean).max() <= gamma**h * eps + 1e-12
        _, found = looked(problem, policies, w, own, spread + wide, h)
        assert np.abs(found - variance).max() <= gamma ** (2 * h) * eps_variance + 1e-10
        _, found = looked(problem, policies, w, own + wrong, spread + wide, h)
        by_mean = 2 * gamma**h * eps * np.sqrt(variance) + gamma ** (2 * h) * eps**2
        assert (np.abs(found - variance) <= gamma ** (2 * h) * eps_variance + by_mean + 1e-10).all()


def values_of(problem, policy, w):
    psi, _ = rasf.successor_moments(problem.mdp, policy)
    return own_of((psi @ w)[None], policy[None])[0]


@given(SEEDS)
@examples(60)
def test_gpi_with_an_exact_model_is_not_below_its_best_source(seed):
    """Up to 2 gamma^h eps / (1 - gamma), which vanishes for large h; with exact tails at every h."""
    gamma = 0.7
    problem = random_problem(seed, gamma=gamma)
    policies, w = random_policies(seed, problem, 3), random_task(seed, problem)
    mean, variance = exact_moments(problem, policies, w)
    own, best = own_of(mean, policies), np.max([values_of(problem, policy, w) for policy in policies], axis=0)
    wrong = errors_of(seed, own.shape, 1.0)
    for h in (1, 3, 6, 40):
        for error in (0 * wrong, wrong):
            scores, _ = looked(problem, policies, w, own + error, variance[..., 0], h)
            value = values_of(problem, scores.max(axis=0).argmax(axis=1), w)
            assert (value >= best - 2 * gamma**h * np.abs(error).max() / (1 - gamma) - 1e-9).all()


@given(SEEDS)
@examples(60)
def test_errors_of_the_model_add_their_own_term(seed):
    """With rewards wrong by eps_r and probabilities by delta in total variation, whatever h is."""
    gamma = 0.7
    problem, other = random_problem(seed, gamma=gamma), random_problem(seed + 1, gamma=gamma)
    policies, w = random_policies(seed, problem, 3), random_task(seed, problem)
    mean, variance = exact_moments(problem, policies, w)
    own = own_of(mean, policies)
    wrong = errors_of(seed, own.shape, 0.5)
    share = np.random.default_rng([seed, 4]).uniform(0, 0.3)
    P, phi = _dense(problem)
    Q, _ = _dense(other)
    shift = errors_of(seed + 2, phi.shape, 0.1)
    model = rasf.FiniteMDP((1 - share) * P + share * Q, phi + shift, (), gamma)
    reward, claimed = (
        np.einsum("sat,satd->sa", P, phi * w),
        np.einsum("sat,satd->sa", (1 - share) * P + share * Q, (phi + shift) * w),
    )
    eps_r = np.abs(reward - claimed).max()
    delta = np.abs(share * (Q - P)).sum(axis=2).max() / 2
    span = np.ptp(own, axis=1).max()
    for h in (1, 2, 5, 20):
        found, _ = looked(problem, policies, w, own + wrong, variance[..., 0], h, model)
        of_model = (1 - gamma**h) / (1 - gamma) * (eps_r + gamma * delta * span)
        assert np.abs(found - mean).max() <= gamma**h * np.abs(wrong).max() + of_model + 1e-10


def _dense(problem):
    """Probabilities (S, A, S) and features (S, A, S, d) of a dense problem."""
    S, A = problem.n_states, problem.n_actions
    P, phi = np.zeros((S, A, S)), np.zeros((S, A, S, problem.n_features))
    for s, a, after, p, features in problem.transitions:
        P[s, a, after], phi[s, a, after] = p, features
    return P, phi


def test_maximising_inside_the_paths_sees_the_noise():
    """Example of the theory page: the maximum in each sampled path is more than any policy can earn."""
    # one state; a coin decides which of two actions pays 1; the choice must be made before the coin is seen
    rng = np.random.default_rng(0)
    coins = rng.integers(2, size=1_000)
    paid = np.stack([coins == a for a in range(2)])  # (A, N)
    assert paid.mean(axis=1).max() == pytest.approx(0.5, abs=0.05)  # the best of fixed policies
    assert paid.max(axis=0).mean() == 1.0  # the maximum in every path
