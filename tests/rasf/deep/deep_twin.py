"""Deep agents written plainly, in numpy and loops, after Algorithm 2 of the paper.

A network is {"hidden": [(W (n, m), b (m,)), ..], "heads": (W (m, H, A, M), b (H, A, M))}, without padding; a part of a
law is a list of K of them. Gradients are backpropagated by hand, one transition at a time, and Adam is spelled out.
"""

import math
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from rasf.agents import LawKind
from rasf.deep import agent as agents
from rasf.deep import algorithm, low_rank
from rasf.deep.agent import Agent
from rasf.deep.laws import Within, support_atoms
from rasf.deep.replay import Windows
from rasf.deep.settings import HistogramSettings, network_settings

HISTOGRAM, MEAN, COVARIANCE, LOW_RANK = (
    LawKind.HISTOGRAM, LawKind.MEAN, LawKind.MEAN_COVARIANCE, LawKind.MEAN_LOW_RANK,
)  # fmt: skip


def settings_of(name, *, atoms=None, **changes):
    """The settings of an agent with changes; `atoms` changes those of histograms, and nothing else."""
    usual = network_settings(name)
    more = {} if atoms is None or not isinstance(usual, HistogramSettings) else {"atoms": atoms}
    return replace(usual, **more, **changes)


def create_agent(settings, observation_size, n_actions, bounds, tasks, kind=Agent, **more):
    """An agent whose support, if it has one, follows from the bounds (d, 2) of the features."""
    histogram = isinstance(settings, HistogramSettings)
    atoms = support_atoms(bounds, settings.gamma, settings.atoms) if histogram else None
    return kind.create(settings, observation_size, n_actions, tasks, atoms, **more)


def unbounded(features):
    """Bounds of the feature return that clip nothing."""
    return Within(np.full(features, -1e6), np.full(features, 1e6), np.zeros(features))


# Windows


def single_steps(obs, action, phi, next_obs, not_terminated, task):
    """Windows of one step each, of arrays (B, ..)."""
    steps = (jnp.asarray(part)[:, None] for part in (action, phi, next_obs, not_terminated))
    return Windows(jnp.asarray(obs), *steps, jnp.asarray(task), jnp.ones((len(obs), 1)))


class Step(NamedTuple):
    action: int
    phi: np.ndarray
    next_obs: np.ndarray
    not_terminated: float


class Window(NamedTuple):
    """An observation, the active task, and the step taken there with those that follow it."""

    obs: np.ndarray
    task: int
    steps: list[Step]


def windows_of(batch):
    """The windows of a batch as lists of the steps that belong to them."""
    found = []
    for b in range(len(batch.obs)):
        steps = []
        for n in range(batch.follows.shape[1]):
            if not batch.follows[b, n]:
                break
            phi = np.asarray(batch.phi[b, n], float)
            steps.append(Step(int(batch.action[b, n]), phi, batch.next_obs[b, n], float(batch.not_terminated[b, n])))
        found.append(Window(batch.obs[b], int(batch.task[b]), steps))
    return found


# Networks


def plain_networks(network, shape):
    """The K networks of a library's stack, whose last layer is (.., A, H M and what aligns it); `shape` is (H, M)."""

    def plain(part):
        used = np.array(part[..., : math.prod(shape)], float)
        return np.swapaxes(used.reshape(*used.shape[:-1], *shape), -3, -2)

    return [
        {
            "hidden": [(np.array(layer.weight[k], float), np.array(layer.bias[k], float)) for layer in network.hidden],
            "heads": (plain(network.heads.weight[k]), plain(network.heads.bias[k])),
        }
        for k in range(len(network.heads.weight))
    ]


def constant_networks(agent, values):
    """A library's networks that answer values (K, H, A, M), one array a part, whatever they see."""

    def part(network, wanted):
        zero = jax.tree.map(np.zeros_like, network)
        columns = np.swapaxes(wanted, 1, 2).reshape(*zero.heads.bias.shape[:2], -1)
        zero.heads.bias[..., : columns.shape[-1]] = columns
        return zero

    return tuple(
        part(network, np.array(one)) for network, one in zip(random_learner(agent).online, values, strict=True)
    )


def random_learner(agent, seed=0):
    """A learner with random weights and biases; compiling `agent.init` would take a second."""
    shapes, rng = jax.eval_shape(agent.init, jax.random.key(0)), np.random.default_rng(seed)

    def filled(leaf, columns=None):
        values = rng.normal(size=leaf.shape) / np.sqrt(leaf.shape[1] if leaf.ndim > 2 else 10)
        return np.where(np.arange(leaf.shape[-1]) < (columns or leaf.shape[-1]), values, 0.0).astype(leaf.dtype)

    online = tuple(
        network._replace(
            hidden=jax.tree.map(filled, network.hidden),
            heads=type(network.heads)(*(filled(leaf, math.prod(shape)) for leaf in network.heads)),
        )
        for network, shape in zip(shapes.online, agent.law.shapes(), strict=True)
    )
    target, average = (jax.tree.map(np.copy, online) if part else () for part in (shapes.target, shapes.average))
    optimiser = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shapes.optimiser)
    return type(shapes)(online, target, optimiser, np.zeros((), np.int32), average)


def forward(network, x):
    """Outputs (H, A, M) for one input (n,), and the input of every layer."""
    inputs = [np.asarray(x, float)]
    for weight, bias in network["hidden"]:
        inputs.append(np.tanh(inputs[-1] @ weight + bias))
    weight, bias = network["heads"]
    return np.tensordot(inputs[-1], weight, axes=1) + bias, inputs


def outputs(network, x):
    return forward(network, x)[0]


def backward(network, inputs, slope):
    """Gradient, in the shape of the network, of a function with this slope (H, A, M) in the outputs."""
    weight, _ = network["heads"]
    gradient = {"hidden": [], "heads": (np.tensordot(inputs[-1], slope, axes=0), slope)}
    back = np.tensordot(weight, slope, axes=3)
    for (weight, _), before, after in reversed(list(zip(network["hidden"], inputs[:-1], inputs[1:], strict=True))):
        back = back * (1 - after**2)
        gradient["hidden"].insert(0, (np.outer(before, back), back))
        back = weight @ back
    return gradient


def flat(network):
    """All arrays of a network, in a fixed order."""
    return [array for layer in network["hidden"] for array in layer] + list(network["heads"])


def zeros_like(network):
    return {
        "hidden": [(np.zeros_like(w), np.zeros_like(b)) for w, b in network["hidden"]],
        "heads": tuple(np.zeros_like(array) for array in network["heads"]),
    }


def softmax(logits):
    powers = np.exp(logits - np.max(logits))
    return powers / powers.sum()


# Algorithm 2


def categorical_projection(probs, phi, gamma, atoms):
    """Lines 20 to 24: m (N,), from p (N,) at (s', a'), one atom after the other.

    Where b falls on an atom, l = u, and both printed shares, (u - b) and (b - l), are zero: that atom gets the mass.
    """
    low, high, n = atoms[0], atoms[-1], len(atoms)
    spacing = (high - low) / (n - 1)
    m = np.zeros(n)
    for j in range(n):
        moved = min(max(phi + gamma * atoms[j], low), high)
        b = min(max((moved - low) / spacing, 0.0), n - 1.0)
        l, u = math.floor(b), math.ceil(b)
        if l == u:
            m[l] += probs[j]
        else:
            m[l] += probs[j] * (u - b)
            m[u] += probs[j] * (b - l)
    return m


def mean_and_variance(probs, atoms):
    mean = np.dot(probs, atoms)
    return mean, np.dot(probs, atoms**2) - mean**2


class Twin:
    """The learner of one agent; `tasks` are (weights (T, d), inputs (T, c)), `atoms` (d, N) where it has histograms.

    conditioned: one network that sees the task's input learns the reward. relabelled: it learns it for every task. gpi:
    the bootstrap action is that of GPI. within: bounds of features of single steps, for distributions of low rank.
    spread: (d,), of the features' returns.
    """

    def __init__(
        self, agent, learner, weights, inputs, *,
        conditioned=False, relabelled=False, gpi=False, within=None, spread=None,
    ):  # fmt: skip
        settings = agent.settings
        self.agent, self.law, self.conditioned, self.relabelled = agent, settings.kind, conditioned, relabelled
        self.gamma, self.rate, self.gpi, self.within = settings.gamma, settings.learning_rate, gpi, within
        self.has_target = settings.target_period > 0
        self.atoms = np.array(agent.law.atoms) if self.law is HISTOGRAM else None
        self.actions, self.weights, self.inputs = agent.actions, np.array(weights, float), np.array(inputs, float)
        self.spread = np.ones(self.weights.shape[1]) if spread is None else np.asarray(spread, float)
        # parts[p][k]: the network of part p and policy k
        shapes = agent.law.shapes()
        self.parts = [plain_networks(one, shape) for one, shape in zip(learner.online, shapes, strict=True)]
        self.target = [plain_networks(one, shape) for one, shape in zip(learner.target, shapes, strict=False)]
        self.moments = [[(zeros_like(net), zeros_like(net)) for net in part] for part in self.parts]
        self.updates = 0

    @property
    def policies(self):
        return len(self.parts[0])

    def copy_target(self):
        if self.has_target:
            self.target = [[_copied(net) for net in part] for part in self.parts]

    # scoring

    def return_moments(self, parts, k, x, action, w):
        """Mean and variance of the return of policy k on the weights w."""
        if self.law is HISTOGRAM:
            logits = outputs(parts[0][k], x)
            mean = variance = 0.0
            for i, weight in enumerate(w):
                one_mean, one_variance = mean_and_variance(softmax(logits[i, action]), self.atoms[i])
                mean, variance = mean + weight * one_mean, variance + weight**2 * one_variance
            return mean, variance
        if self.law is LOW_RANK:
            psi, sigma = low_rank_moments(self.agent, self.rows(parts, k, x, action), self.share(x))
            scaled = w * self.spread
            return psi @ w, scaled @ sigma @ scaled
        mean = outputs(parts[0][k], x)[0, action] @ w
        return mean, w @ self.sigma(parts, k, x, action) @ w if self.law is COVARIANCE else 0.0

    def rows(self, parts, k, x, action):
        """Outputs (H, d) of all parts of a distribution of low rank."""
        return joined_rows(*(outputs(part[k], x)[:, action] for part in parts))

    def sigma(self, parts, k, x, action):
        return symmetric(outputs(parts[1][k], x)[0, action], self.weights.shape[1])

    def score(self, k, x, action, w, beta):
        """The paper's experiments write the factor beta; here it is beta / 2. A negative variance counts as zero."""
        mean, variance = self.return_moments(self.parts, k, x, action, w)
        if self.law is not LOW_RANK or not beta:
            return mean + beta / 2 * max(variance, 0.0)
        pairs = [self.means_by_each(k, x, b, w) for b in range(self.actions)]
        best = max(range(self.actions), key=lambda b: sum(pairs[b]))
        differences = [(first - second) / 2 for first, second in pairs]
        return mean + beta / 2 * variance - low_rank._DISAGREEMENT * abs(differences[action] - differences[best])

    def means_by_each(self, k, x, action, w):
        """The mean of the return by each of two networks of psi."""
        each, _, _ = low_rank_rows(self.agent, self.rows(self.parts, k, x, action), self.share(x))
        return [plain_means(self.agent, psi) @ w for psi in each]

    def gpi_action(self, obs, task_weights, task_input, beta, aversion=0.0):
        """argmax_b max_j score_j(s, b); `aversion` standard deviations count against an action."""
        x, w = self.seen(obs, task_input), self.weighed(task_weights)

        def cost(j, b):
            return aversion * math.sqrt(max(self.return_moments(self.parts, j, x, b, w)[1], 0.0)) if aversion else 0.0

        each = range(self.policies)
        best = [max(self.score(j, x, b, w, beta) - cost(j, b) for j in each) for b in range(self.actions)]
        return int(np.argmax(best))

    def bootstrap_scores(self, k, x, w, beta):
        """Line 17: the policy's own scores (A,), or by GPI over all policies."""
        others = range(self.policies) if self.gpi else [k]
        return [max(self.score(j, x, b, w, beta) for j in others) for b in range(self.actions)]

    def share(self, x):
        """Of an episode's time, what is left at the input x."""
        return float(self.agent.clock.share(np.asarray(x))) if self.agent.limit else 1.0

    def longest(self, x):
        """The sum of gamma^t over the steps that are left."""
        if not self.agent.limit:
            return 1 / (1 - self.gamma)
        return self.share(x) * sum(self.gamma**t for t in range(self.agent.limit))

    def seen(self, obs, task_input):
        return np.concatenate([obs, task_input]) if self.conditioned else np.asarray(obs, float)

    def weighed(self, w):
        return np.ones(1) if self.conditioned else np.asarray(w, float)

    # learning

    def update(self, batch, beta, weight=None):
        """One step of Adam; `batch` lists windows. The mean weighted loss."""
        weight = np.ones(len(batch)) if weight is None else weight
        if self.relabelled:
            weight = np.repeat(weight, len(self.weights))
            batch = [one._replace(task=task) for one in batch for task in range(len(self.weights))]
        batch = [self.as_seen(one) for one in batch]
        gradients = [[zeros_like(net) for net in part] for part in self.parts]
        after, loss = self.target if self.has_target else self.parts, 0.0
        for k in range(self.policies):
            w = np.ones(1) if self.conditioned else self.weights[k]
            slack = self.slack(batch, k, w, beta)
            for (x, _, steps), factor in zip(batch, weight, strict=True):
                phi, discount, x_next = self.own_sum(steps, k, w, beta, slack)
                next_action = int(np.argmax(self.bootstrap_scores(k, x_next, w, beta)))
                action = steps[0].action
                slopes, one_loss = self.slopes(after, k, x, action, phi, x_next, next_action, discount)
                loss += factor * one_loss / len(batch)
                for part, slope in enumerate(slopes):
                    network = self.parts[part][k]
                    found, inputs = forward(network, x)
                    whole = np.zeros_like(found)
                    whole[:, action] = factor * slope / len(batch)
                    for total, term in zip(
                        flat(gradients[part][k]), flat(backward(network, inputs, whole)), strict=True
                    ):
                        total += term
        self.adam(gradients)
        return loss

    def as_seen(self, window):
        """The window with the inputs of networks for observations, and the reward for features, where it is learned."""
        given = self.inputs[window.task]
        steps = [one._replace(next_obs=self.seen(one.next_obs, given)) for one in window.steps]
        if self.conditioned:
            steps = [one._replace(phi=np.array([np.dot(one.phi, self.weights[window.task])])) for one in steps]
        return Window(self.seen(window.obs, given), window.task, steps)

    def slack(self, batch, k, w, beta):
        """How far below the best an action may be: a share of the mean distance between the best and the worst one,
        over all states at which it is asked whether a sum goes on."""
        states = [one.next_obs for window in batch for one in window.steps[:-1]]
        if not states:
            return 0.0
        scores = [self.bootstrap_scores(k, x, w, beta) for x in states]
        return agents._NEARLY * sum(max(one) - min(one) for one in scores) / len(states)

    def own_sum(self, steps, k, w, beta, slack):
        """Features summed until the action taken is none that policy k would nearly take; the discount after that."""
        phi, discount = np.array(steps[0].phi), self.gamma
        for now, before in zip(steps[1:], steps[:-1], strict=True):
            scores = self.bootstrap_scores(k, before.next_obs, w, beta)
            if scores[now.action] < max(scores) - slack:
                return phi, discount * before.not_terminated, before.next_obs
            phi, discount = phi + discount * now.phi, discount * self.gamma
        return phi, discount * steps[-1].not_terminated, steps[-1].next_obs

    def slopes(self, after, k, x, action, phi, x_next, next_action, discount):
        """Slope (H, M) of every part's loss at (s, a), and the loss."""
        if self.law is HISTOGRAM:
            logits, next_logits = outputs(self.parts[0][k], x), outputs(after[0][k], x_next)
            slope, loss = np.zeros_like(logits[:, action]), 0.0
            for i in range(len(phi)):
                following = softmax(next_logits[i, next_action])
                m = categorical_projection(following, phi[i], discount, self.atoms[i])
                p = softmax(logits[i, action])
                loss -= sum(m * np.log(p))
                slope[i] = p - m  # of - sum_j m_j log softmax_j, as m sums to one
            return [slope], loss
        if self.law is LOW_RANK:
            now, later = self.rows(self.parts, k, x, action), self.rows(after, k, x_next, next_action)
            here, there = (bounds_of(self.within, self.longest(one)) for one in (x, x_next))
            shares = self.share(x), self.share(x_next)
            given = LowRankGiven(phi, discount, here, there, self.weights, self.spread, self.weights[k], *shares)
            slope, loss, _ = low_rank_slopes(self.agent, now, later, given)
            return parts_of_rows(self.agent.law, slope), loss
        psi, next_psi = outputs(self.parts[0][k], x)[0, action], outputs(after[0][k], x_next)[0, next_action]
        delta = phi + discount * next_psi - psi
        if self.law is MEAN:
            return [-delta[None]], delta @ delta / 2
        held, following = outputs(self.parts[1][k], x)[0, action], outputs(after[1][k], x_next)[0, next_action]
        target = upper(np.outer(delta, delta)) + discount**2 * following
        error = target - held
        return [-delta[None], -error[None]], delta @ delta / 2 + error @ error / 2

    def adam(self, gradients):
        self.updates += 1
        for part, networks in enumerate(self.parts):
            for k, network in enumerate(networks):
                first, second = self.moments[part][k]
                arrays = zip(*map(flat, (network, gradients[part][k], first, second)), strict=True)
                for array, gradient, m, v in arrays:
                    m += (1 - 0.9) * (gradient - m)
                    v += (1 - 0.999) * (gradient**2 - v)
                    m_hat, v_hat = m / (1 - 0.9**self.updates), v / (1 - 0.999**self.updates)
                    array -= self.rate * m_hat / (np.sqrt(v_hat) + 1e-8)


def plain_run(agent, world, config, schedule, twin):
    """All steps of a run, as tuples (obs, action, phi, next_obs, not_terminated, task, last); the twin has learned.

    Act by GPI or explore, step, store, sample, one update of every policy for a step of all environments; copy to the
    target after every period. Episodes may be averse, have a time limit, and be forgotten by a small replay.
    """
    weights, inputs = map(np.asarray, config.tasks)
    n = schedule.tasks if agent.settings.interleaved else 1
    rounds, per_task = schedule.steps // n, schedule.steps_per_task

    def drawn(draw, indices):
        return jax.tree.map(np.asarray, jax.jit(jax.vmap(draw))(jnp.arange(indices)))

    chance = drawn(partial(algorithm.step_chance, agent, config.key, n=n), rounds)
    worlds = drawn(partial(algorithm.world_chance, world, config.key, n=n), rounds)
    samples = drawn(partial(algorithm.sample_chance, agent, config.key), rounds)
    move, observe = jax.jit(world.advance), jax.jit(world.observe)
    states, ages, aversion, kept, explored = [None] * n, [0] * n, [0.0] * n, [], 0
    capacity = -(-min(schedule.steps, agent.settings.replay or schedule.steps) // n) * n
    for r in range(rounds):
        task = 0 if n > 1 else r // per_task
        if r and n == 1 and r % per_task == 0:  # the next task begins with a new episode
            ages[0], kept[-1] = 0, (*kept[-1][:6], 1.0)
        acted = []
        for e in range(n):
            reset, noise = (jax.tree.map(lambda x, at=(r, e): x[at], part) for part in worlds)
            if ages[e] == 0:
                states[e], aversion[e] = reset, float(chance.aversion[r, e])
            obs = agent.with_time(np.asarray(observe(states[e])), np.array(ages[e]))
            action = twin.gpi_action(obs, weights[task + e], inputs[task + e], float(config.beta), aversion[e])
            if chance.explore[r, e] < agent.settings.epsilon:
                action, explored = int(chance.action[r, e]), explored + 1
            states[e], phi = move(states[e], action, noise)
            terminated = bool(world.terminated(states[e]))
            ages[e] += 1
            over = terminated or ages[e] >= world.episode_length
            ended = terminated or (over and bool(agent.limit) and ages[e] >= agent.limit)
            after = agent.with_time(np.asarray(observe(states[e])), np.array(ages[e]))
            ages[e] = 0 if over else ages[e]
            acted.append((obs, action, np.asarray(phi), after, 1.0 - ended, task + e, float(over)))
        kept += acted
        twin.within = bounds_seen(kept)
        slots = [int(bits) % min(len(kept), capacity) for bits in samples.bits[r]]
        # a place in the replay holds the newest step with that number, modulo the capacity
        chosen = [max(i for i in range(slot, len(kept), capacity)) for slot in slots]
        twin.update([following(kept[i::n], agent.settings.n_step) for i in chosen], float(config.bootstrap_beta))
        if (r + 1) % agent.settings.target_period == 0:
            twin.copy_target()
    assert 0 < explored < n * rounds / 2
    return kept


def bounds_seen(steps):
    """The least and the largest feature of any step, or 0, and which are not 0 where an episode goes on."""
    found = np.zeros((3, len(steps[0][2])))
    for _, _, phi, _, not_terminated, _, _ in steps:
        for i, one in enumerate(phi):
            found[0, i], found[1, i] = min(found[0, i], one), max(found[1, i], one)
            found[2, i] = max(found[2, i], float(one != 0 and not_terminated > 0))
    return Within(*found)


def following(steps, n_step):
    """The window of the first of the steps of an environment: with those that follow in its episode."""
    found = []
    for _, action, phi, next_obs, not_terminated, _, last in steps[:n_step]:
        found.append(Step(action, phi, next_obs, not_terminated))
        if last:
            break
    return Window(steps[0][0], steps[0][5], found)


# Covariances of low rank


class LowRankGiven(NamedTuple):
    """A transition: features (d,), their discount, bounds (low (d,), high (d,)) here and there, all policies' weights
    (K, d), the spread (d,) of returns, the own policy's weights (d,), and the shares of an episode's time that are left
    here and there."""

    phi: np.ndarray
    discount: float
    here: tuple
    there: tuple
    weights: np.ndarray
    spread: np.ndarray
    w: np.ndarray
    share: float = 1.0
    share_after: float = 1.0


def bounds_of(within, longest):
    """The lowest and the highest return of each feature, if `longest` is the sum of gamma^t over the steps left."""
    low, high = np.zeros(len(within.low)), np.zeros(len(within.low))
    for i, recurring in enumerate(within.recurring):
        times = longest if recurring else 1.0
        low[i], high[i] = within.low[i] * times, within.high[i] * times
    return low, high


def joined_rows(psi, *more):
    """Rows (.., H, d) a, log s^2, c, b with a limit, and a, b of the second network; of outputs of psi, psi2, Sigma."""
    *second, sigma = more
    return np.concatenate([psi[..., :1, :], sigma, psi[..., 1:, :], *second], axis=-2)


def parts_of_rows(law, rows):
    """Outputs of the parts, of rows (.., H, d) as above; in numpy or jax."""
    at, end = 2 + law.rank, 2 + law.rank + law.timed
    psi = [rows[..., :1, :], rows[..., at:end, :]]
    second = [rows[..., end:, :]] if law.mean_networks == 2 else []
    joined = (np if isinstance(rows, np.ndarray) else jnp).concatenate(psi, axis=-2)
    return joined, *second, rows[..., 1:at, :]


def low_rank_rows(agent, rows, share):
    """Each network's outputs of means (d,), log s^2 (d,) and factors (rank, d); of rows (H, d) as above."""
    law, rank, each = agent.law, agent.law.rank, []
    end = 2 + rank + law.timed
    for a, b in ((0, 2 + rank), (end, end + 1))[: law.mean_networks]:
        psi = np.array(rows[a])
        for i in range(len(psi)):
            if law.timed and i not in law.events:
                psi[i] += share * rows[b, i]
        each.append(psi)
    return each, rows[1], rows[2 : 2 + rank]


def plain_means(agent, psi):
    """Means (d,) of outputs (d,)."""
    return np.array([math.exp(one) if i in agent.law.events else one for i, one in enumerate(psi)])


def low_rank_moments(agent, rows, share=1.0):
    """psi (d,), the mean of the networks, and Sigma (d, d), of rows (H, d)."""
    each, logs, factors = low_rank_rows(agent, rows, share)
    return np.mean([plain_means(agent, psi) for psi in each], axis=0), covariance(np.exp(logs), factors)


def covariance(own, factors):
    """Sigma (d, d) of s^2 (d,) and factors (rank, d)."""
    d, sigma = len(own), np.zeros((len(own), len(own)))
    for i in range(d):
        for j in range(d):
            sigma[i, j] = math.sqrt(own[i] * own[j]) * sum(c[i] * c[j] for c in factors)
        sigma[i, i] += own[i]
    return sigma


def low_rank_slopes(agent, now, later, given):
    """Slope (H, d), the loss, and the error (d,) of means, of rows (H, d) at (s, a) and at (s', a')."""
    law, d, slope, loss = agent.law, len(given.phi), np.zeros_like(now), 0.0
    each, logs, factors = low_rank_rows(agent, now, given.share)
    each_after, logs_after, factors_after = low_rank_rows(agent, later, given.share_after)
    most_learned, most_read = low_rank._MOST_LEARNED, low_rank._MOST_READ

    def bounded_mean(i, output, bounds):
        mean = math.exp(min(output, most_learned)) if i in law.events else output
        return mean, min(max(mean, bounds[0][i]), bounds[1][i])

    after = np.array([[bounded_mean(i, psi[i], given.there)[1] for i in range(d)] for psi in each_after])
    mean_after = after[0]
    if len(after) == 2:
        lower = 0 if after[0] @ given.w < after[1] @ given.w else 1
        mean_after = low_rank._LOWER * after[lower] + (1 - low_rank._LOWER) * after[1 - lower]
    target, delta, largest = np.zeros(d), np.zeros(d), np.zeros(d)
    for i in range(d):
        target[i] = given.phi[i] + given.discount * mean_after[i]
        means = [bounded_mean(i, psi[i], given.here)[0] for psi in each]
        delta[i] = target[i] - min(max(sum(means) / len(means), given.here[0][i]), given.here[1][i])
        largest[i] = (given.there[1][i] - mean_after[i]) * (mean_after[i] - given.there[0][i]) / given.spread[i] ** 2
        for at, psi, mean in zip((0, 2 + law.rank + law.timed), each, means, strict=False):
            if i in law.events:
                slope[at, i], one = poisson(psi[i], target[i], given.here[1][i])
            else:
                slope[at, i], one = mean - target[i], (target[i] - mean) ** 2 / 2
                if law.timed:
                    slope[at + 1 if at else 2 + law.rank, i] = given.share * slope[at, i]
            loss += one
    own = np.exp(np.clip(logs, -most_read, most_learned))
    own_after = np.exp(np.clip(logs_after, -most_read, most_learned))
    for i in range(d):
        own_after[i] = min(own_after[i], largest[i] / (1 + sum(c[i] ** 2 for c in factors_after)))
    sigma, sigma_after = covariance(own, factors), covariance(own_after, factors_after)
    directions = low_rank_directions(given.weights, given.spread)
    part = d / len(directions)
    for u in directions:
        reach = sum(abs(u[i]) * (given.here[1][i] - given.here[0][i]) / given.spread[i] for i in range(d))
        seen = sum(u[i] * delta[i] / given.spread[i] for i in range(d)) ** 2
        seen = min(seen + given.discount**2 * (u @ sigma_after @ u), reach**2) + low_rank._FLOOR
        q = u @ sigma @ u + low_rank._FLOOR
        loss += part * (seen / q + math.log(q))
        of_q = part * (q - seen) / q**2
        for i in range(d):
            common = [sum(u[j] * c[j] * math.sqrt(own[j]) for j in range(d)) for c in factors]
            if -most_read < logs[i] < most_learned:
                along = sum(common[r] * c[i] for r, c in enumerate(factors)) * u[i] * math.sqrt(own[i])
                slope[1, i] += of_q * (u[i] ** 2 * own[i] + along)
            for r in range(law.rank):
                slope[2 + r, i] += of_q * 2 * common[r] * u[i] * math.sqrt(own[i])
    return slope, loss, delta


def low_rank_directions(weights, spread):
    """Directions (n, d) of length 1: the fixed ones, and each task's, in features over their spread."""
    found = [np.asarray(u, float) for u in low_rank._directions(len(spread))]
    for w in weights:
        scaled = np.asarray(w * spread, float)
        found.append(scaled / max(math.sqrt(scaled @ scaled), 1e-12))
    return found


def poisson(log, target, most):
    """Slope and value of exp(log) - target log, which goes on in a straight line where exp(log) is above `most`."""
    most = max(most, 1.0)
    if math.exp(log) <= most:
        return math.exp(log) - target, math.exp(log) - target * log
    return most - target, most * (1 + log - math.log(most)) - target * log


def _copied(network):
    return {
        "hidden": [(w.copy(), b.copy()) for w, b in network["hidden"]],
        "heads": tuple(array.copy() for array in network["heads"]),
    }


def upper(matrix):
    """The upper triangle, row by row."""
    return np.array([matrix[i, j] for i in range(len(matrix)) for j in range(i, len(matrix))])


def symmetric(triangle, d):
    matrix, entries = np.zeros((d, d)), iter(triangle)
    for i in range(d):
        for j in range(i, d):
            matrix[i, j] = matrix[j, i] = next(entries)
    return matrix


def assert_same_networks(twin, learner, agent, atol):
    for part, (stack, shape) in enumerate(zip(learner.online, agent.law.shapes(), strict=True)):
        for k, network in enumerate(plain_networks(stack, shape)):
            for got, expected in zip(flat(network), flat(twin.parts[part][k]), strict=True):
                np.testing.assert_allclose(got, expected, rtol=0, atol=atol)


def compiled_actions(learner, tasks, beta):
    """What the fused driver chooses where a learner acted last: in jax, by inputs and features as they are scaled."""
    now = algorithm.Acting(learner.active, np.full(len(learner.active), beta, np.float32), learner._held.aversion)
    networks, (seen, _) = learner.agent.acting(learner._learner), learner._acted
    tasks, scaling = jax.tree.map(jnp.asarray, (tasks, learner._scaling))

    def act(own, obs):
        return algorithm.behave(learner.agent, networks, tasks, own, scaling, obs, jnp.zeros(0))

    return np.asarray(jax.vmap(act)(now, seen))
