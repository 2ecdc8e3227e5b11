"""Actors and critics: scores of proposals, choices, losses and gradients by loops; turns, frozen actors and averages.

The twin follows the header of `rasf.deep.actors`, in float64: one policy, state and proposal at a time.
"""

import math
from dataclasses import replace
from functools import cache, partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from deep_twin import (
    LowRankGiven,
    bounds_of,
    flat,
    forward,
    joined_rows,
    low_rank_moments,
    low_rank_rows,
    low_rank_slopes,
    outputs,
    parts_of_rows,
    plain_means,
    plain_networks,
    single_steps,
    zeros_like,
)
from deep_twin import backward as backpropagated

from rasf.deep import actors, algorithm
from rasf.deep.actors import ActorAgent, ActorCritic, by_proposal, proposals, rows_of
from rasf.deep.agent import Policies, Tasks
from rasf.deep.algorithm import Acting, Scaling
from rasf.deep.laws import Within
from rasf.deep.networks import Heads
from rasf.deep.settings import ActorSettings
from rasf.library.networks.actor_policies import ActorPolicies, policies_of
from rasf.risk import MeanVariance, MonotoneMeanVariance

K, N, P, D, B = 3, 2, 2, 3, 4
W = np.array([(1.0, -0.5, 0.2), (0.3, 2.0, -1.0), (0.0, 0.5, 0.7)], np.float32)
BETA = np.array([0.0, -2.0, -0.5], np.float32)
SMALL = {"widths": (5, 4), "batch": B, "gamma": 0.8, "decay": False, "averse_episodes": 0.0}


def agent_of(policies=K, limit=0, action_size=P, optimiser=optax.sgd, neutral=False, planned=0, **changes):
    settings = ActorSettings(**SMALL | {"learning_rate": 0.5, "actor_learning_rate": 0.25} | changes)
    more = {"limit": limit, "action_size": action_size, "optimiser": optimiser, "neutral": neutral, "planned": planned}
    return ActorAgent.create(settings, N, 0, Tasks.of(W), policies=policies, **more)


def random_networks(agent, seed=0):
    """Networks with random weights and biases everywhere, so that actions are not near 0."""
    shapes, rng = jax.eval_shape(agent.initial, jax.random.key(0)), np.random.default_rng(seed)

    def filled(leaf, columns=None):
        values = rng.normal(size=leaf.shape) / np.sqrt(leaf.shape[1] if leaf.ndim > 2 else 10)
        return np.where(np.arange(leaf.shape[-1]) < (columns or leaf.shape[-1]), values, 0.0).astype(leaf.dtype)

    def of(network, shape):
        heads = type(network.heads)(*(filled(leaf, math.prod(shape)) for leaf in network.heads))
        return network._replace(hidden=jax.tree.map(filled, network.hidden), heads=heads)

    critic = tuple(of(network, shape) for network, shape in zip(shapes.critic, agent.law.shapes(), strict=True))
    return ActorCritic(critic, of(shapes.actor, (agent.action_size,)))


def random_learner(agent, updates=0):
    """A learner whose online, target and averaged networks differ."""
    online, target, average = (jax.tree.map(jnp.asarray, random_networks(agent, seed)) for seed in range(3))
    learner = jax.eval_shape(agent.init, jax.random.key(0))
    optimiser = agent.gradient_step.init(online)
    updates = jnp.asarray(updates, jnp.int32)
    return learner._replace(
        online=online, target=target if agent.settings.target_period else (), optimiser=optimiser, updates=updates,
        average=average if agent.settings.average else (),
    )  # fmt: skip


def observations(agent, n=B, seed=5):
    """Inputs (n, ..) of networks, at several times of an episode if there is a limit."""
    rng = np.random.default_rng(seed)
    return agent.with_time(rng.normal(size=(n, N)).astype(np.float32), rng.integers(0, 4, n)).astype(np.float32)


class Twin:
    """Networks of one agent, for loops; `shared` layers are in the network of every policy."""

    def __init__(self, agent, networks, spread=None):
        self.agent, self.spread = agent, np.ones(D) if spread is None else np.asarray(spread, float)
        self.critic = [self._plain(one, shape) for one, shape in zip(networks.critic, agent.law.shapes(), strict=True)]
        self.actor = self._plain(networks.actor, Heads(1, agent.action_size))

    @staticmethod
    def _plain(network, shape):
        policies = len(network.heads.weight)
        repeated = jax.tree.map(lambda leaf: np.broadcast_to(leaf, (policies, *leaf.shape[1:])), network.hidden)
        return plain_networks(network._replace(hidden=repeated), shape)

    def share(self, x):
        return float(self.agent.clock.share(np.asarray(x, float))) if self.agent.limit else 1.0

    def longest(self, x):
        gamma = self.agent.settings.gamma
        if not self.agent.limit:
            return 1 / (1 - gamma)
        return self.share(x) * sum(gamma**t for t in range(self.agent.limit))

    def action(self, k, x):
        """The action (P,) of policy k."""
        return np.tanh(outputs(self.actor[k], x)[0, 0])

    def rows(self, k, x, action):
        """Outputs (H, d) of all critics of policy k at an action."""
        given = np.concatenate([action, x])
        return joined_rows(*(outputs(part[k], given)[:, 0] for part in self.critic))

    def moments(self, k, x, action, w):
        psi, sigma = low_rank_moments(self.agent, self.rows(k, x, action), self.share(x))
        scaled = w * self.spread
        return psi @ w, scaled @ sigma @ scaled

    def means_by_each(self, k, x, action, w):
        each, _, _ = low_rank_rows(self.agent, self.rows(k, x, action), self.share(x))
        return [plain_means(self.agent, psi) @ w for psi in each]

    def scores(self, x, w, beta, aversion=0.0):
        """Scores (K, A): of every policy i for the action that policy j proposes."""
        policies = range(len(self.actor))
        candidates, found = [self.action(j, x) for j in policies], np.zeros((len(self.actor),) * 2)
        for i in policies:
            pairs = [self.means_by_each(i, x, action, w) for action in candidates]
            best = max(policies, key=lambda j: sum(pairs[j]))
            differences = [(first - second) / 2 for first, second in pairs]
            for j, action in enumerate(candidates):
                mean, variance = self.moments(i, x, action, w)
                found[i, j] = mean + beta / 2 * variance - aversion * math.sqrt(variance)
                if beta:
                    found[i, j] -= 2 * abs(differences[j] - differences[best])
        return found

    def choice(self, x, w, beta, aversion=0.0):
        """The action (P,) of GPI."""
        scores = self.scores(x, w, beta, aversion)
        return self.action(int(np.argmax(scores.max(axis=0))), x)


AGENTS = {
    "continuing": {"shared": False},
    "episodes with an event": {"limit": 6, "events": (1,)},
    "one entry, one layer": {"action_size": 1, "widths": (6,)},
    "one policy": {"policies": 1},
}
_QUICK = ("episodes with an event", "one policy")  # the other agents compile the same parts in other sizes
by_agent = pytest.mark.parametrize(
    "name", [name if name in _QUICK else pytest.param(name, marks=pytest.mark.slow) for name in AGENTS]
)


# --- scores


@by_agent
def test_scores_and_choices_by_loops(name):
    """Of the compiled agent with scaled inputs and features, and of the agent in numpy."""
    agent = agent_of(**AGENTS[name])
    networks, x = random_networks(agent), observations(agent)
    spread = np.array([0.5, 2.0, 1.0], np.float32)
    twin, w = Twin(agent, networks, spread), W[1] - W[2]
    in_units = agent.with_spread(networks, spread)
    for beta, aversion in ((0.0, 0.0), (-2.0, 0.0), (-2.0, 1.3)):
        risk, of_task = MeanVariance(beta), agent.task_heads(in_units, jnp.asarray(w))
        expected = np.array([twin.scores(one, w, beta) for one in x.astype(float)]).swapaxes(0, 1)
        found = agent.scores(of_task, x, jnp.zeros(0), risk)
        assert found.shape == (agent.policies, B, agent.policies)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
        mean, variance = agent.moments(of_task, x, jnp.zeros(0))
        actions = [[twin.action(j, one) for j in range(agent.policies)] for one in x]
        for i, b, j in np.ndindex(*mean.shape):
            pair = mean[i, b, j], variance[i, b, j]
            np.testing.assert_allclose(pair, twin.moments(i, x[b], actions[b][j], w), rtol=1e-4, atol=1e-4)
        # in numpy, as the stepped driver acts
        plain = agent.plain_heads(in_units, w)
        parts, heads, candidates = agent.plain_outputs(plain, x)
        np.testing.assert_allclose(candidates, actions, atol=1e-6)
        np.testing.assert_allclose(agent.law.scores(parts, heads, risk), expected, rtol=1e-4, atol=1e-4)
        # the behaviour policy
        acting = Acting(jnp.int32(0), jnp.float32(beta), jnp.float32(aversion))
        seen = Scaling.none(x.shape[1], D)._replace(spread=spread)
        tasks = Tasks(jnp.asarray(w)[None], jnp.zeros((1, 0)))
        averse = replace(agent, settings=replace(agent.settings, averse_episodes=0.5))
        for one in x:
            chosen = algorithm.behave(
                averse, networks, tasks, acting, seen, jnp.asarray(one), jnp.zeros(agent.action_size)
            )
            np.testing.assert_allclose(chosen, twin.choice(one, w, beta, aversion), atol=1e-5)


def test_rows_and_outputs_of_proposals_are_in_the_same_order():
    """Row b K + j is proposal j at observation b."""
    rng = np.random.default_rng(0)
    actions, x = rng.normal(size=(B, K, P)), rng.normal(size=(B, N))
    rows = rows_of(actions, x)
    np.testing.assert_allclose(rows_of(jnp.asarray(actions), jnp.asarray(x)), rows, rtol=1e-6)
    for b, j in np.ndindex(B, K):
        np.testing.assert_array_equal(rows[b * K + j], np.concatenate([actions[b, j], x[b]]))
    (found,) = by_proposal((rows.sum(axis=1)[None, :, None, None, None],), K)
    assert found.shape == (1, B, K, 1, 1)
    np.testing.assert_allclose(found[0, :, :, 0, 0], actions.sum(axis=2) + x.sum(axis=1)[:, None])


def test_noise_is_added_to_the_chosen_action_and_kept_within_bounds():
    agent = agent_of()
    networks, x = random_networks(agent), observations(agent)
    chosen, noise = np.array([0, 2, 1, 1]), np.array([[0.3, -0.1], [5.0, 0.0], [0.0, -5.0], [0.0, 0.0]])
    candidates = proposals(networks.actor, x)
    expected = np.clip([candidates[b, j] + noise[b] for b, j in enumerate(chosen)], -1, 1)
    taken = agent.plain_take(candidates, chosen, noise)
    assert taken.dtype == np.float32
    np.testing.assert_allclose(taken, expected, atol=1e-6)
    heads = agent.task_heads(networks, jnp.asarray(W[0]))
    for b, j in enumerate(chosen):
        np.testing.assert_allclose(agent.take(heads, x[b], j, jnp.asarray(noise[b])), expected[b], atol=1e-6)
    random, drawn = agent_of(noise=0.3).random_actions(jax.random.key(0), 4_000)
    assert random.shape == drawn.shape == (4_000, P)
    assert float(jnp.abs(random).max()) <= 1
    np.testing.assert_allclose(np.var(random, axis=0), 1 / 3, atol=0.02)
    np.testing.assert_allclose(np.std(drawn, axis=0), 0.3, atol=0.015)


def test_first_actions_are_near_zero():
    agent = agent_of()
    networks = agent.init(jax.random.key(0)).online
    assert np.abs(proposals(jax.tree.map(np.asarray, networks.actor), observations(agent))).max() < 0.1
    assert networks.critic[0].hidden[0].weight.shape[1:] == (P + N, 5)
    assert networks.actor.hidden[0].weight.shape[1:] == (N, 5)


@pytest.mark.parametrize("name", ["continuing", "episodes with an event", "one policy"])
def test_a_library_scores_and_acts_as_the_agent_in_its_own_units(name):
    """Networks of a scaled agent, folded into plain inputs and features: one observation, many, and from a file."""
    agent = agent_of(**AGENTS[name])
    rng, networks = np.random.default_rng(3), random_networks(agent)
    x = observations(agent, 6)
    time = agent.time_inputs
    shift, factor = (np.append(part, np.full(time, usual)) for part, usual in (((0.5, -1.0), 0.0), ((2.0, 0.3), 1.0)))
    units, spread = np.array([2.0, 0.5, 10.0]), np.array([0.3, 1.0, 2.0])
    seen = Scaling(*(part.astype(np.float32) for part in (shift, factor, units, spread)))
    sources = policies_of(agent, seen.unscaled(agent, networks))
    assert type(sources) is ActorPolicies
    again = ActorPolicies.restore(sources.describe(), sources.arrays())
    twin, w = Twin(agent, networks, spread), rng.normal(size=D)
    inputs = seen.inputs(x).astype(float)
    for beta in (0.0, -0.2):
        risk = MeanVariance(beta)
        expected = np.array([twin.scores(one, w * units, beta) for one in inputs]).swapaxes(0, 1)
        taken = np.array([twin.choice(one, w * units, beta) for one in inputs])
        means = [
            [twin.moments(i, one, twin.action(0, one), w * units)[0] for one in inputs] for i in range(agent.policies)
        ]
        for one in (sources, again):
            found = one.scores(x, w, risk)
            np.testing.assert_allclose(found.values, expected, rtol=1e-3, atol=1e-3)
            np.testing.assert_allclose(found.mean[:, :, 0], means, rtol=1e-3, atol=1e-3)
            np.testing.assert_allclose(one.act(x, w, risk), taken, atol=1e-5)
            np.testing.assert_allclose([one.act_one(each, w, risk) for each in x], taken, atol=1e-5)
            np.testing.assert_allclose([one.act(x[i : i + 1], w, risk)[0] for i in range(6)], taken, atol=1e-5)
            first = one.actions(x, np.zeros(6, int))
            np.testing.assert_allclose(first, [twin.action(0, each) for each in inputs], atol=1e-5)
    for part, array in sources.arrays().items():
        np.testing.assert_array_equal(again.arrays()[part], array)


def test_policies_with_other_actors_are_not_merged():
    agent, wide = agent_of(), agent_of(widths=(6, 4))
    first, second = (policies_of(agent, random_networks(agent, seed)) for seed in range(2))
    both = ActorPolicies.merge([first, second])
    x = observations(agent)
    np.testing.assert_array_equal(both.proposals(x), np.concatenate([first.proposals(x), second.proposals(x)], axis=1))
    networks, other = random_networks(agent), random_networks(wide)
    mixed = policies_of(agent, networks._replace(actor=other.actor))
    more = agent_of(action_size=P + 1)
    for one in (mixed, policies_of(more, random_networks(more))):
        with pytest.raises(ValueError, match=r"must agree in (actor_widths|action_size)"):
            ActorPolicies.merge([first, one])


def test_shared_layers_stay_shared_only_if_they_are_equal():
    agent = agent_of(shared=True)
    networks = random_networks(agent)
    first = policies_of(agent, networks)
    same = ActorPolicies.merge([first, first])
    assert len(same.actor.hidden[0].weight) == 1
    other = ActorPolicies.merge([first, policies_of(agent, random_networks(agent, 1))])
    assert len(other.actor.hidden[0].weight) == 2 * K
    half = policies_of(agent, networks._replace(actor=random_networks(agent, 1).actor))
    mixed = ActorPolicies.merge([first, half])  # equal critics, other actors
    x = observations(agent)
    np.testing.assert_allclose(mixed.proposals(x)[:, K:], half.proposals(x), atol=1e-6)
    again = ActorPolicies.restore(mixed.describe(), mixed.arrays())
    np.testing.assert_array_equal(again.proposals(x), mixed.proposals(x))
    np.testing.assert_array_equal(again.scores(x, W[1], MeanVariance(-1.0)).values,
                                  mixed.scores(x, W[1], MeanVariance(-1.0)).values)  # fmt: skip


# --- updates


WITHIN = Within(np.array([-0.5, 0.0, -0.2]), np.array([0.7, 0.4, 0.3]), np.array([1.0, 0.0, 1.0]))
SPREAD = np.array([0.5, 1.0, 3.0], np.float32)
WEIGHT = np.array([1.0, 0.5, 2.0, 0.0], np.float32)


def batch_of(agent, seed=7):
    """B steps, one of which terminates, with actions up to the bounds."""
    rng = np.random.default_rng(seed)
    x, after = observations(agent, seed=seed), observations(agent, seed=seed + 1)
    action = rng.uniform(-1, 1, (B, agent.action_size)).astype(np.float32)
    action[0] = 1.0
    phi = np.abs(rng.normal(size=(B, D))).astype(np.float32)
    return single_steps(x, action, phi, after, np.array([1.0, 0.0, 1.0, 1.0], np.float32), np.zeros(B, int))


@cache
def compiled(agent, by=None):
    """The update; a risk is a constant of the program."""
    return jax.jit(agent.update if by is None else partial(agent.update, by=by))


def updated(agent, learner, by=None, weights=W, beta=BETA):
    """One update, for the task and the beta of each policy, or for a risk of all policies."""
    policies = Policies(weights[: agent.policies], beta[: agent.policies]) if by is None else by
    given = {"within": WITHIN, "weight": WEIGHT, "spread": SPREAD} | ({"by": policies} if by is None else {})
    return compiled(agent, by)(learner, batch_of(agent), Tasks.of(W[: agent.policies]), **given)


def turn(agent, updates):
    """The policies that learn in an update."""
    taught = min(agent.policies, agent.settings.policies_per_update)
    return [(updates * taught + i) % agent.policies for i in range(taught)]


def critic_twin(agent, learner, chosen, frozen=False):
    """Losses (B,), errors (B,), and the gradient of every critic, part by part and policy by policy."""
    online, target = Twin(agent, learner.online), Twin(agent, learner.target or learner.online)
    leads = Twin(agent, learner.average if frozen else learner.target or learner.online)
    batch, gamma, law = batch_of(agent), agent.settings.gamma, agent.law
    key = jax.random.fold_in(jax.random.key(0), int(learner.updates))
    noise = np.asarray(jax.random.normal(key, (len(chosen), B, agent.action_size)))
    losses, errors = np.zeros(B), np.zeros(B)
    gradients = [[zeros_like(network) for network in part] for part in online.critic]
    for c, k in enumerate(chosen):
        for b in range(B):
            x, after = (np.asarray(one[b], float) for one in (batch.obs, batch.next_obs[:, 0]))
            push = np.clip(0.1 * noise[c, b], -0.2, 0.2)
            following = target.rows(k, after, np.clip(leads.action(k, after) + push, -1, 1))
            action = np.asarray(batch.action[b, 0], float)
            given = LowRankGiven(
                np.asarray(batch.phi[b, 0], float), gamma * float(batch.not_terminated[b, 0]),
                *(bounds_of(WITHIN, online.longest(one)) for one in (x, after)),
                W[chosen].astype(float), SPREAD.astype(float), W[k].astype(float), online.share(x), online.share(after),
            )  # fmt: skip
            slope, loss, delta = low_rank_slopes(SimpleNamespace(law=law), online.rows(k, x, action), following, given)
            losses[b] += WEIGHT[b] * loss
            errors[b] += np.linalg.norm(delta) / len(chosen)
            for part, of_part in enumerate(parts_of_rows(law, slope)):
                network = online.critic[part][k]
                _, inputs = forward(network, np.concatenate([action, x]))
                whole = WEIGHT[b] * of_part[:, None] / B
                found = backpropagated(network, inputs, whole)
                for total, term in zip(flat(gradients[part][k]), flat(found), strict=True):
                    total += term
    return losses, errors, gradients


def actor_loss(twin, agent, chosen, x, usual=None, by=None):
    """Minus the mean score of the actors' own actions over the usual score, by the first network of the mean."""
    weights, beta = (W, BETA) if by is None else by
    total = 0.0
    for c, k in enumerate(chosen):
        found = []
        for one in x:
            action = twin.action(k, one)
            _, variance = twin.moments(k, one, action, weights[k])
            found.append(twin.means_by_each(k, one, action, weights[k])[0] + beta[k] / 2 * variance)
        mine = np.mean(np.abs(found)) + np.abs(weights[k]).sum() if usual is None else usual[c]
        total -= np.mean(found) / mine
    return total


def usual_scores(twin, chosen, x, beta):
    """The mean size of the scores of each policy, plus the sum of its weights."""
    found = []
    for k in chosen:
        scores = []
        for one in x:
            action = twin.action(k, one)
            variance = twin.moments(k, one, action, W[k])[1]
            scores.append(twin.means_by_each(k, one, action, W[k])[0] + beta[k] / 2 * variance)
        found.append(np.mean(np.abs(scores)) + np.abs(W[k]).sum())
    return found


def slopes_of_sgd(before, after, rate):
    """The gradient that a step of plain gradient descent has taken."""
    return jax.tree.map(lambda old, new: (np.asarray(old, float) - np.asarray(new, float)) / rate, before, after)


def assert_slopes(network, shape, expected, atol):
    """A gradient in the library's layout equals that of K networks; that of shared layers is the sum."""
    shared = len(network.hidden[0].weight) < len(network.heads.weight)
    for at, layer in enumerate(network.hidden):
        for got, i in ((layer.weight, 0), (layer.bias, 1)):
            wanted = np.array([one["hidden"][at][i] for one in expected])
            np.testing.assert_allclose(got, wanted.sum(axis=0, keepdims=True) if shared else wanted, atol=atol)
    plain = plain_networks(network._replace(hidden=()), shape)
    for got, one in zip(plain, expected, strict=True):
        for part, wanted in zip(got["heads"], one["heads"], strict=True):
            np.testing.assert_allclose(part, wanted, atol=atol)


UPDATES = {
    "continuing": {"shared": False, "policies_per_update": 2},
    "episodes with an event": {"limit": 6, "events": (1,), "policies_per_update": 2},
    "no target networks, one entry": {"target_period": 0, "action_size": 1, "shared": False},
    "one policy": {"policies": 1},
}


@pytest.mark.parametrize("name", UPDATES)
def test_losses_and_gradients_of_critics_by_loops(name):
    agent = agent_of(**UPDATES[name])
    for updates in (0, 1):
        learner = random_learner(agent, updates)
        chosen = turn(agent, updates)
        after, found = updated(agent, learner)
        losses, errors, gradients = critic_twin(agent, learner, chosen)
        np.testing.assert_allclose(found.each, losses, rtol=2e-4)
        np.testing.assert_allclose(found.error, errors, rtol=2e-4)
        slopes = slopes_of_sgd(learner.online.critic, after.online.critic, agent.settings.learning_rate)
        for network, shape, expected in zip(slopes, agent.law.shapes(), gradients, strict=True):
            assert_slopes(
                network, shape, expected, 2e-4 * max(1.0, max(np.abs(w).max() for one in expected for w in flat(one)))
            )
        assert int(after.updates) == updates + 1


def finite_differences(agent, learner, chosen, beta, step=1e-5):
    """Gradients of the actors by differences of the loss, with the usual scores held."""
    x, twin = np.asarray(batch_of(agent).obs, float), Twin(agent, learner.online, SPREAD)
    usual = usual_scores(twin, chosen, x, beta)
    gradients = [zeros_like(network) for network in twin.actor]
    for c, k in enumerate(chosen):
        for array, slope in zip(flat(twin.actor[k]), flat(gradients[k]), strict=True):
            for at in np.ndindex(*array.shape):
                values = []
                for sign in (1, -1):
                    array[at] += sign * step
                    values.append(actor_loss(twin, agent, [k], x, usual[c : c + 1], (W, beta)))
                    array[at] -= sign * step
                slope[at] = (values[0] - values[1]) / (2 * step)
    return gradients


@pytest.mark.parametrize(
    ("name", "by"),
    [
        ("continuing", "policies"),
        ("episodes with an event", "policies"),
        ("no target networks, one entry", "risk"),
        ("one policy", "neutral"),
    ],
)
def test_gradients_of_actors_by_finite_differences(name, by):
    """Up the risk of the return of the own action; critics do not change by it."""
    agent = agent_of(**UPDATES[name], neutral=by == "neutral")
    beta = {"policies": BETA, "risk": np.full(K, -1.0), "neutral": np.zeros(K)}[by]
    learner = random_learner(agent, 1)
    chosen = turn(agent, 1)
    after, _ = updated(agent, learner, MeanVariance(-1.0) if by == "risk" else None)
    expected = finite_differences(agent, learner, chosen, beta)
    found = slopes_of_sgd(learner.online.actor, after.online.actor, agent.settings.actor_learning_rate)
    largest = max(np.abs(part).max() for one in expected for part in flat(one))
    assert largest > 0.01
    assert_slopes(found, Heads(1, agent.action_size), expected, 1e-3 * largest)


@pytest.mark.parametrize("risk", [MeanVariance, MonotoneMeanVariance])
def test_gradients_are_finite_where_weights_are_zero(risk):
    """Also for a task without any weight, whose return has no variance."""
    agent, w = replace(agent_of(), risk=risk), np.array([(0, 0, 0), (1, 0, 0), (1, 1, 1)], np.float32)
    after, _ = updated(agent, random_learner(agent), weights=w, beta=np.array([-1, 0, -2], np.float32))
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(after.online))


@pytest.mark.parametrize("shared", [True, False])
def test_only_the_policies_whose_turn_it_is_learn(shared):
    agent = agent_of(shared=shared, policies_per_update=2)
    learner = random_learner(agent)
    for updates in range(4):
        learner = learner._replace(updates=jnp.int32(updates))
        after, _ = updated(agent, learner)
        taught = turn(agent, updates)
        assert len(set(taught)) == 2
        networks = (*after.online.critic, after.online.actor), (*learner.online.critic, learner.online.actor)
        for one, other in zip(*networks, strict=True):
            parts = (one.heads, other.heads) if shared else (one, other)
            for new, old in zip(*map(jax.tree.leaves, parts), strict=True):
                moved = [bool((np.asarray(new)[k] != np.asarray(old)[k]).any()) for k in range(K)]
                assert moved == [k in taught for k in range(K)]
    assert [turn(agent, i) for i in range(3)] == [[0, 1], [2, 0], [1, 2]]
    assert turn(agent_of(policies_per_update=8), 5) == [0, 1, 2]


def test_critics_and_actors_have_their_own_learning_rates():
    """The first step of Adam is as long as the learning rate in every number."""
    agent = agent_of(optimiser=optax.adam, learning_rate=0.01, actor_learning_rate=0.002)
    learner = random_learner(agent)
    after, _ = updated(agent, learner)
    for part, rate in (("critic", 0.01), ("actor", 0.002)):
        pairs = zip(*(jax.tree.leaves(getattr(one.online, part)) for one in (learner, after)), strict=True)
        steps = np.concatenate([np.ravel(np.abs(new - old)) for old, new in pairs])
        assert steps.max() == pytest.approx(rate, rel=1e-2)
        assert np.median(steps[steps > 0]) == pytest.approx(rate, rel=2e-2)


def test_learning_rates_fall_over_the_planned_updates():
    agent = agent_of(planned=10, decay=True)
    learner = random_learner(agent)
    first = None
    for updates in range(10):
        after, _ = updated(agent, learner)
        gap = float(np.abs(after.online.actor.heads.bias - learner.online.actor.heads.bias).max())
        first = gap if updates == 0 else first
        learner = learner._replace(optimiser=after.optimiser)  # the same gradient, a later rate
    assert gap == pytest.approx(first * (1 - 0.9 * (1 - 0.02)), rel=0.3)


def test_frozen_actors_do_not_change_and_critics_learn_their_returns():
    """From the planned share on: the averaged actors act in targets, and means are weighted alike."""
    agent = agent_of(planned=10, freeze=0.4, shared=False, average=3, optimiser=optax.sgd)
    learner = random_learner(agent, 5)
    before, _ = updated(agent, learner)
    assert moved(learner.online.actor, before.online.actor)
    assert moved(learner.average.actor, before.average.actor)
    for updates in (6, 9):
        learner = random_learner(agent, updates)
        after, found = updated(agent, learner)
        assert not moved(learner.online.actor, after.online.actor)
        assert not moved(learner.average.actor, after.average.actor)
        assert moved(learner.online.critic, after.online.critic)
        assert moved(learner.average.critic, after.average.critic)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("rasf.deep.low_rank._LOWER", 0.5)
            losses, errors, _ = critic_twin(agent, learner, turn(agent, updates), frozen=True)
        np.testing.assert_allclose(found.each, losses, rtol=2e-4)
        np.testing.assert_allclose(found.error, errors, rtol=2e-4)
    never = agent_of(planned=10, freeze=0.0, average=3)
    learner = random_learner(never, 9)
    assert moved(learner.online.actor, updated(never, learner)[0].online.actor)


def moved(before, after):
    return any(
        (np.asarray(old) != np.asarray(new)).any()
        for old, new in zip(*map(jax.tree.leaves, (before, after)), strict=True)
    )


def test_averages_are_the_mean_of_all_and_later_of_the_last_networks():
    agent = agent_of(average=3)
    learner = agent.init(jax.random.key(0))
    assert learner.chooser == ()
    learner = learner._replace(online=jax.tree.map(jnp.asarray, random_networks(agent)))
    mean, seen = None, []
    for updates in range(5):
        learner, _ = updated(agent, learner)
        seen.append(jax.tree.map(lambda leaf: np.asarray(leaf, float), learner.online))
        share = 1 / min(updates + 1, 3)
        pairs = zip(jax.tree.leaves(seen[-1] if mean is None else mean), jax.tree.leaves(seen[-1]), strict=True)
        mean = jax.tree.unflatten(jax.tree.structure(seen[-1]), [old + share * (new - old) for old, new in pairs])
        jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-5), learner.average, mean)
    for one, other in zip(*map(jax.tree.leaves, (agent.acting(learner), learner.average)), strict=True):
        np.testing.assert_array_equal(one, other)


def test_sizes_and_memory():
    agent = agent_of(policies=5)
    assert (agent.policies, agent.actions, agent.action_size, agent.inputs) == (5, 5, P, N)
    assert hash(agent) == hash(agent_of(policies=5))
    assert agent == agent_of(policies=5)
    few, many = (one.memory_needed(1_000, N, D) for one in (agent_of(), agent_of(policies=40)))
    assert 0 < few < many
    assert agent_of().memory_needed(10_000, N, D) - few == pytest.approx(9_000 * 4 * (2 * N + D + P + 3))
    assert actors._SMOOTHED == 2 * actors._SMOOTHING == 0.2
