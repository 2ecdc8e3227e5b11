"""Whole training in worlds that are known exactly. Slow: learning takes thousands of steps.

Exploration is uniform, the learning rate small, and predictions are averaged over the last quarter of the run, where
the steps of Adam hover around the fixed point. What is learned is compared with the law of the transitions in the
replay, whose finite number is no error of the learner's; tolerances are then for Adam's hovering and for the drift of
the replay during that quarter. They are stated as a share of what is learned.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from deep_twin import outputs, plain_networks, settings_of
from probe_worlds import Table, projected_fixed_point
from scipy.special import softmax

from rasf.deep import fused, replay
from rasf.deep.agent import Agent, Tasks
from rasf.deep.fused import RunConfig, Stage
from rasf.envs.grid import Grid
from rasf.mdp import FiniteMDP
from rasf.planning.moments import successor_moments

pytestmark = pytest.mark.slow

CHAIN = Table(
    (
        (((0.5, 0, (1.0, 0.0)), (0.5, 1, (0.0, 1.0))), ((0.75, 1, (0.5, 1.0)), (0.25, 0, (-1.0, 0.0)))),
        (((0.25, 0, (0.0, 0.5)), (0.75, 1, (1.0, 0.0))), ((0.5, 0, (1.0, 1.0)), (0.5, 0, (-1.0, 0.0)))),
    )
)
CHAIN_TASKS = np.array([[1.0, 0.3], [0.2, -1.0]], np.float32)
GRID = Grid("S.G\n.X.", slip=0.5)
# on both tasks the best action is ahead by a third at least: a policy that is still changing has no fixed point
GRID_TASKS = np.array([GRID.task([4.0], goal=8.0, step=1.0), GRID.task([0.5], goal=1.0, step=2.0)], np.float32)
GAMMA, BETA, PERIOD, CHUNKS = 0.6, -0.2, 50, 40


def trained(name, world, weights, steps, **changes):
    """The agent, mean outputs (K, S, H, A, M) of the last quarter (as probabilities), policies, and the replay."""
    tasks = Tasks.of(weights)
    settings = settings_of(name, gamma=GAMMA, widths=(32,), epsilon=1.0, target_period=PERIOD, **changes)
    agent = Agent.for_world(settings, world, tasks)
    config = RunConfig(jax.random.key(0), jnp.asarray(BETA), jnp.asarray(BETA), tasks)
    lane = jax.jit(partial(fused.start, agent, world, steps))(config)
    periods = steps // CHUNKS // PERIOD
    advance = jax.jit(partial(fused.advance, agent, world, Stage(periods, PERIOD, False, False, True)))
    everywhere, found = np.eye(world.observation_size, dtype=np.float32), []
    for chunk in range(CHUNKS):
        lane, _ = advance(config, lane, chunk * periods * PERIOD, 0)
        networks = jax.tree.map(np.asarray, lane.learner.online)
        parts = [plain_networks(part, shape) for part, shape in zip(networks, agent.law.shapes(), strict=True)]
        seen = [np.array([[outputs(one, x) for x in everywhere] for one in part]) for part in parts]
        found.append([softmax(part, axis=-1) for part in seen] if name == "rasfc51" else seen)
    mean = [np.mean(parts, axis=0) for parts in zip(*found[-CHUNKS // 4 :], strict=True)]
    risk = agent.risk(BETA)
    scores = jax.jit(partial(agent.own_scores, risk=risk))(lane.learner.online, everywhere, jnp.asarray(weights))
    return agent, mean, np.argmax(scores, axis=-1), np.asarray(lane.ring.rows)


def law_of_the_replay(rows, world):
    """The MDP whose transitions are those of the replay, as often as they happened."""
    n = world.observation_size
    steps = replay.unpack(rows, n)
    state, successor, phi, action = steps.obs.argmax(1), steps.next_obs.argmax(1), steps.phi.astype(float), steps.action
    kinds, counts = np.unique(np.column_stack([state, action, successor, phi]), axis=0, return_counts=True)
    visits = {pair: counts[(kinds[:, :2] == pair).all(1)].sum() for pair in set(map(tuple, kinds[:, :2]))}
    listed = [
        (int(s), int(a), int(to), count / visits[s, a], np.array(phi))
        for (s, a, to, *phi), count in zip(kinds, counts, strict=True)
    ]
    return FiniteMDP.from_transitions(listed, n, world.n_actions, [], GAMMA)


@pytest.mark.parametrize(
    ("world", "weights"),
    [(CHAIN, CHAIN_TASKS), (Table.from_mdp(GRID.mdp(GAMMA), 2), GRID_TASKS)],
    ids=["chain", "grid"],
)
def test_psi_and_the_residual_covariance(world, weights):
    """psi is met to 3 % of its largest entry, Sigma to 5 % of its."""
    _, (psi, triangle), policies, rows = trained("sfdqn-residual", world, weights, 24_000, learning_rate=1e-3, batch=32)
    mdp, indices = law_of_the_replay(rows, world), np.triu_indices(world.phi.shape[-1])
    for k, policy in enumerate(policies):
        exact = successor_moments(mdp, policy)
        Sigma = exact.Sigma[..., indices[0], indices[1]]
        np.testing.assert_allclose(psi[k, :, 0], exact.psi, rtol=0, atol=0.03 * np.abs(exact.psi).max())
        np.testing.assert_allclose(triangle[k, :, 0], Sigma, rtol=0, atol=0.05 * np.abs(Sigma).max())


@pytest.mark.parametrize("name", ["chain", "grid"])
def test_histograms(name):
    """Probabilities are met to 0.03; means to 2 % of the support, and variances as those of the fixed point."""
    world, weights = {"chain": (CHAIN, CHAIN_TASKS), "grid": (Table.from_mdp(GRID.mdp(GAMMA), 2), GRID_TASKS)}[name]
    agent, (probs,), policies, rows = trained("rasfc51", world, weights, 24_000, learning_rate=1e-3, batch=32, atoms=9)
    mdp, atoms = law_of_the_replay(rows, world), np.array(agent.law.atoms)
    table, span = Table.from_mdp(mdp), np.ptp(atoms, axis=1)
    for k, policy in enumerate(policies):
        learned = np.swapaxes(probs[k], 1, 2)  # (S, A, d, N)
        fixed = projected_fixed_point(table.probability, table.successor, table.phi, GAMMA, policy, atoms)
        np.testing.assert_allclose(learned, fixed, rtol=0, atol=0.03)
        means, variances = zip(*(moments(law, atoms) for law in (learned, fixed)), strict=True)
        assert (np.abs(means[0] - means[1]) < 0.02 * span).all()
        assert (np.abs(means[0] - successor_moments(mdp, policy).psi) < 0.02 * span).all()
        assert (np.abs(variances[0] - variances[1]) < 0.01 * span**2).all()


def moments(law, atoms):
    mean = np.sum(law * atoms, axis=-1)
    return mean, np.sum(law * atoms**2, axis=-1) - mean**2


def test_the_replay_is_a_sample_of_the_world():
    """So that the tests above are about the world as well: every frequency within four standard errors."""
    _, _, _, rows = trained("sfdqn", CHAIN, CHAIN_TASKS, 8_000, learning_rate=1e-3, batch=2)
    mdp = law_of_the_replay(rows, CHAIN)
    exact = [(s, a, *one) for s in range(2) for a in range(2) for one in CHAIN.outcomes[s][a]]
    visits = len(rows) / 6  # at the least, of any pair
    for s, a, p, to, phi in exact:
        entries = slice(mdp.indptr[2 * s + a], mdp.indptr[2 * s + a + 1])
        same = (mdp.successor[entries] == to) & np.isclose(mdp.phi[entries], phi).all(1)
        assert abs(mdp.probability[entries][same].sum() - p) < 4 * np.sqrt(p * (1 - p) / visits)
