"""What updates converge to, when every batch holds every outcome as often as its probability says.

Without sampling noise Adam settles at a constant learning rate, and the fixed point is met to a few 1e-4: to 1e-5 for
the squared losses, whose slope vanishes there, and to 3e-4 for histograms, whose empty atoms keep losing a little mass
(a softmax never reaches zero). The tolerances are three times what is left.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from deep_twin import (
    create_agent,
    joined_rows,
    low_rank_moments,
    outputs,
    plain_networks,
    random_learner,
    settings_of,
    single_steps,
    unbounded,
)
from probe_worlds import Table, projected_fixed_point

from rasf.deep.agent import Tasks
from rasf.envs.grid import Grid
from rasf.planning.moments import successor_moments
from rasf.risk import MeanVariance

GAMMA = 0.7
GRID = Grid("S.G\n.X.", slip=0.5)  # of eight equal chances, five go where they should
MDP = GRID.mdp(GAMMA)
# on both tasks the best action is ahead by a third at least: a policy that is still changing has no fixed point
TASKS = np.array([GRID.task([4.0], goal=8.0, step=1.0), GRID.task([0.5], goal=1.0, step=2.0)])
BOUNDS = np.array([(0.0, 1.0)] * 3)
BETA = -0.2


def every_outcome_as_often_as_likely(mdp, share):
    """A batch of all transitions, each repeated probability / share times."""
    rows = []
    for row in range(mdp.n_states * mdp.n_actions):
        for entry in range(mdp.indptr[row], mdp.indptr[row + 1]):
            copies = mdp.probability[entry] / share
            assert copies == pytest.approx(round(copies))
            s, a = divmod(row, mdp.n_actions)
            to = mdp.successor[entry]
            rows += [(s, a, mdp.phi[entry], to, not mdp.terminal[to])] * round(copies)
    s, a, phi, to, not_terminated = map(np.array, zip(*rows, strict=True))
    one_hot = np.eye(mdp.n_states, dtype=np.float32)
    return single_steps(
        one_hot[s], a, phi.astype(np.float32), one_hot[to], not_terminated.astype(np.float32), np.zeros(len(s), int)
    )


def learned(name, updates, **changes):
    """The agent after this many updates; target networks copied every 20."""
    tasks = Tasks.of(TASKS)
    batch = every_outcome_as_often_as_likely(MDP, 1 / 8)
    settings = settings_of(name, **{"gamma": GAMMA, "widths": (32,), "learning_rate": 1e-2, **changes})
    agent = create_agent(settings, MDP.n_states, 4, BOUNDS, tasks, planned=updates)

    def step(learner, _):
        return agent.update(learner, batch, tasks, MeanVariance(BETA), unbounded(3))[0], None

    def period(learner, _):
        return agent.copy_target(jax.lax.scan(step, learner, None, length=20)[0]), None

    learner, _ = jax.jit(partial(jax.lax.scan, period, length=updates // 20))(random_learner(agent), None)
    return agent, learner


def greedy_policies(agent, learner):
    """The policies (K, S) that the networks follow on their own tasks."""
    scores = jax.jit(partial(agent.own_scores, risk=MeanVariance(BETA)))(
        learner.online, jnp.eye(MDP.n_states), jnp.asarray(TASKS, jnp.float32)
    )
    return np.argmax(np.asarray(scores), axis=-1)


def outputs_of(agent, learner):
    """Outputs (K, S, H, A, M) of every part."""
    return [all_outputs(part, shape) for part, shape in zip(learner.online, agent.law.shapes(), strict=True)]


def all_outputs(network, shape):
    plain = plain_networks(jax.tree.map(np.asarray, network), shape)
    return np.array([[outputs(one, x) for x in np.eye(MDP.n_states)] for one in plain])


LIVE = ~MDP.terminal


def test_psi_and_the_residual_covariance_are_exact():
    agent, learner = learned("sfdqn-residual", 600)
    psi, triangle = (part[:, :, 0] for part in outputs_of(agent, learner))
    rows, columns = np.triu_indices(3)
    policies = greedy_policies(agent, learner)
    assert (policies[0] != policies[1])[LIVE].any()
    for k, policy in enumerate(policies):
        exact = successor_moments(MDP, policy)
        np.testing.assert_allclose(psi[k][LIVE], exact.psi[LIVE], rtol=0, atol=1e-4)
        np.testing.assert_allclose(triangle[k][LIVE], exact.Sigma[..., rows, columns][LIVE], rtol=0, atol=1e-4)


@pytest.mark.parametrize("events", [pytest.param((), marks=pytest.mark.slow), (2,)])
def test_means_and_covariances_of_low_rank_are_exact(events):
    """Of three features every covariance is a diagonal plus a matrix of rank 2.

    Those of this world have a sum of features that does not vary. The logarithm of such a variance has no fixed point:
    errors of covariances halve with every doubling of the updates, and 0.01 is left here.
    """
    agent, learner = learned("rasfdqn", 4_800, events=events, decay=True, shared=False, learning_rate=3e-2)
    *psi_rows, sigma_rows = (np.moveaxis(part, 2, 3) for part in outputs_of(agent, learner))
    said = joined_rows(psi_rows[0], psi_rows[1], sigma_rows)
    for k, policy in enumerate(greedy_policies(agent, learner)):
        exact = successor_moments(MDP, policy)
        for s, a in np.ndindex(MDP.n_states, 4):
            if LIVE[s]:
                psi, sigma = low_rank_moments(agent, said[k, s, a])
                np.testing.assert_allclose(psi, exact.psi[s, a], rtol=0, atol=1e-4)
                np.testing.assert_allclose(sigma, exact.Sigma[s, a], rtol=0, atol=0.02)


def test_histograms_are_the_projected_operator_s_fixed_point():
    """Their mean is psi; their variance is the fixed point's, which is wider than the truth."""
    agent, learner = learned("rasfc51", 600, atoms=7)
    (logits,) = outputs_of(agent, learner)
    probs = np.exp(logits - logits.max(-1, keepdims=True))
    probs = np.swapaxes(probs / probs.sum(-1, keepdims=True), 2, 3)  # (K, S, A, d, N)
    atoms = np.array(agent.law.atoms)
    for k, policy in enumerate(greedy_policies(agent, learner)):
        fixed = projected_fixed_point(*as_table(MDP), GAMMA, policy, atoms, not_terminated=continues(MDP))
        np.testing.assert_allclose(probs[k][LIVE], fixed[LIVE], rtol=0, atol=1e-3)
        mean = np.sum(probs[k] * atoms, axis=-1)
        exact = successor_moments(MDP, policy)
        np.testing.assert_allclose(mean[LIVE], exact.psi[LIVE], rtol=0, atol=2e-3)
        variance = np.sum(probs[k] * atoms**2, axis=-1) - mean**2
        of_fixed = np.sum(fixed * atoms**2, axis=-1) - np.sum(fixed * atoms, axis=-1) ** 2
        np.testing.assert_allclose(variance[LIVE], of_fixed[LIVE], rtol=0, atol=5e-3)
        truth = np.diagonal(exact.Sigma, axis1=-2, axis2=-1)
        assert (of_fixed[LIVE] >= truth[LIVE] - 1e-9).all()
        assert (of_fixed - truth)[LIVE].max() > 0.02  # compared with the truth, the test would fail


def as_table(mdp):
    table = Table.from_mdp(mdp)
    return table.probability, table.successor, table.phi


def continues(mdp):
    """(S, A, O): whether anything follows an outcome."""
    return 1.0 - mdp.terminal[as_table(mdp)[1]]
