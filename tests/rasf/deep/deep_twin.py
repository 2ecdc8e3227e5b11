"""Deep agents written plainly, in numpy and loops, after Algorithm 2 of the paper.

A network is {"hidden": [(W (n, m), b (m,)), ..], "heads": (W (m, H, A, M), b (H, A, M))}, without padding; a part of a
law is a list of K of them. Gradients are backpropagated by hand, one transition at a time, and Adam is spelled out.
"""

import math
from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from rasf.agents import LawKind
from rasf.deep import algorithm
from rasf.deep.agent import Agent
from rasf.deep.laws import Within, support_atoms
from rasf.deep.replay import Windows
from rasf.deep.settings import HistogramSettings, network_settings

HISTOGRAM, MEAN, COVARIANCE, VARIANCES = (
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
    return Within(np.full(features, -1e6), np.full(features, 1e6))


# Windows


def single_steps(obs, action, phi, next_obs, not_terminated, task):
    """Windows of one step each, of arrays (B, ..)."""
    steps = (jnp.asarray(part)[:, None] for part in (action, phi, next_obs, not_terminated))
    return Windows(jnp.asarray(obs), *steps, jnp.asarray(task), jnp.ones((len(obs), 1)))


def transitions(batch, gamma):
    """(obs, action, phi, next_obs, discount, task) of each window: sums over the steps that follow, one by one."""
    found = []
    for b in range(len(batch.obs)):
        phi, discount = np.zeros(batch.phi.shape[-1]), 1.0
        for n in range(batch.follows.shape[1]):
            if not batch.follows[b, n]:
                break
            phi = phi + discount * np.asarray(batch.phi[b, n], float)
            discount, alive, after = discount * gamma, batch.not_terminated[b, n], batch.next_obs[b, n]
        found.append((batch.obs[b], int(batch.action[b, 0]), phi, after, discount * alive, int(batch.task[b])))
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
    the bootstrap action is that of GPI. within: bounds (low (d,), high (d,)) to which logarithms of moments keep.
    """

    def __init__(self, agent, learner, weights, inputs, *, conditioned=False, relabelled=False, gpi=False, within=None):
        settings = agent.settings
        self.law, self.conditioned, self.relabelled, self.gpi = settings.kind, conditioned, relabelled, gpi
        self.gamma, self.rate, self.within = settings.gamma, settings.learning_rate, within
        self.events = agent.law.events if self.law is VARIANCES else ()
        self.has_target = settings.target_period > 0
        self.atoms = np.array(agent.law.atoms) if self.law is HISTOGRAM else None
        self.actions, self.weights, self.inputs = agent.actions, np.array(weights, float), np.array(inputs, float)
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
        if self.law is VARIANCES:
            means, logs = outputs(parts[0][k], x)[:, action]
            means = [math.exp(m) if i in self.events else m for i, m in enumerate(means)]
            return means @ w, sum(math.exp(log) * weight**2 for log, weight in zip(logs, w, strict=True))
        mean = outputs(parts[0][k], x)[0, action] @ w
        return mean, w @ self.sigma(parts, k, x, action) @ w if self.law is COVARIANCE else 0.0

    def sigma(self, parts, k, x, action):
        return symmetric(outputs(parts[1][k], x)[0, action], self.weights.shape[1])

    def score(self, k, x, action, w, beta):
        """The paper's experiments write the factor beta; here it is beta / 2. A negative variance counts as zero."""
        mean, variance = self.return_moments(self.parts, k, x, action, w)
        return mean + beta / 2 * max(variance, 0.0)

    def gpi_action(self, obs, task_weights, task_input, beta):
        """argmax_b max_j score_j(s, b)."""
        x, w = self.seen(obs, task_input), self.weighed(task_weights)
        best = [max(self.score(j, x, b, w, beta) for j in range(self.policies)) for b in range(self.actions)]
        return int(np.argmax(best))

    def bootstrap_action(self, k, x, w, beta):
        """Line 17: argmax_b of the policy's own score, or by GPI over all policies."""
        others = range(self.policies) if self.gpi else [k]
        best = [max(self.score(j, x, b, w, beta) for j in others) for b in range(self.actions)]
        return int(np.argmax(best))

    def seen(self, obs, task_input):
        return np.concatenate([obs, task_input]) if self.conditioned else np.asarray(obs, float)

    def weighed(self, w):
        return np.ones(1) if self.conditioned else np.asarray(w, float)

    # learning

    def update(self, batch, beta, weight=None):
        """One step of Adam; `batch` lists (obs, action, phi, next_obs, discount, task). The mean weighted loss."""
        weight = np.ones(len(batch)) if weight is None else weight
        if self.relabelled:
            weight = np.repeat(weight, len(self.weights))
            batch = [(*one[:5], task) for one in batch for task in range(len(self.weights))]
        gradients = [[zeros_like(net) for net in part] for part in self.parts]
        loss = 0.0
        for (obs, action, phi, next_obs, discount, task), factor in zip(batch, weight, strict=True):
            if self.conditioned:
                phi = np.array([np.dot(phi, self.weights[task])])
            x, x_next = self.seen(obs, self.inputs[task]), self.seen(next_obs, self.inputs[task])
            for k in range(self.policies):
                w = np.ones(1) if self.conditioned else self.weights[k]
                next_action = self.bootstrap_action(k, x_next, w, beta)
                after = self.target if self.has_target else self.parts
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
        if self.law is VARIANCES:
            now, later = outputs(self.parts[0][k], x)[:, action], outputs(after[0][k], x_next)[:, next_action]
            return self.slopes_of_variances(now, later, phi, discount)
        psi, next_psi = outputs(self.parts[0][k], x)[0, action], outputs(after[0][k], x_next)[0, next_action]
        delta = phi + discount * next_psi - psi
        if self.law is MEAN:
            return [-delta[None]], delta @ delta / 2
        held, following = outputs(self.parts[1][k], x)[0, action], outputs(after[1][k], x_next)[0, next_action]
        target = upper(np.outer(delta, delta)) + discount**2 * following
        error = target - held
        return [-delta[None], -error[None]], delta @ delta / 2 + error @ error / 2

    def slopes_of_variances(self, now, later, phi, discount):
        """`slopes` of mean and logarithm of the variance of each feature, from outputs (2, d)."""
        slope, loss = np.zeros_like(now), 0.0
        for i, (low, high) in enumerate(zip(*self.within, strict=True)):
            event, span = i in self.events, (high - low) ** 2
            mean, mean_after = (math.exp(m) if event else m for m in (now[0, i], later[0, i]))
            target = phi[i] + discount * min(max(mean_after, low), high)
            spread = (target - min(max(mean, low), high)) ** 2
            spread += discount**2 * min(math.exp(later[1, i]), span / 4)
            if event:
                slope[0, i], one = poisson(now[0, i], target, high)
            else:
                slope[0, i], one = mean - target, (target - mean) ** 2 / 2
            slope[1, i], other = poisson(now[1, i], spread, 1.25 * span)
            loss += one + other
        return [slope], loss

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
    target after every period.
    """
    weights, inputs = map(np.asarray, config.tasks)
    n = schedule.tasks if agent.settings.side_by_side else 1
    rounds, per_task, gamma = schedule.steps // n, schedule.steps_per_task, agent.settings.gamma

    def drawn(draw, indices):
        return jax.tree.map(np.asarray, jax.jit(jax.vmap(draw))(jnp.arange(indices)))

    chance = drawn(partial(algorithm.step_chance, agent, config.key, n=n), rounds)
    worlds = drawn(partial(algorithm.world_chance, world, config.key, n=n), rounds)
    samples = drawn(partial(algorithm.sample_chance, agent, config.key), rounds)
    move, observe = jax.jit(world.advance), jax.jit(world.observe)
    states, ages, kept, explored = [None] * n, [0] * n, [], 0
    for r in range(rounds):
        task = 0 if n > 1 else r // per_task
        if r and n == 1 and r % per_task == 0:  # the next task begins with a new episode
            ages[0], kept[-1] = 0, (*kept[-1][:6], 1.0)
        acted = []
        for e in range(n):
            reset, noise = (jax.tree.map(lambda x, at=(r, e): x[at], part) for part in worlds)
            states[e] = reset if ages[e] == 0 else states[e]
            obs = np.asarray(observe(states[e]))
            action = twin.gpi_action(obs, weights[task + e], inputs[task + e], float(config.beta))
            if chance.explore[r, e] < agent.settings.epsilon:
                action, explored = int(chance.action[r, e]), explored + 1
            states[e], phi = move(states[e], action, noise)
            terminated = bool(world.terminated(states[e]))
            ages[e] += 1
            over = terminated or ages[e] >= world.episode_length
            ages[e] = 0 if over else ages[e]
            after = np.asarray(observe(states[e]))
            acted.append((obs, action, np.asarray(phi), after, 1.0 - terminated, task + e, float(over)))
        kept += acted
        chosen = [int(bits) % len(kept) for bits in samples.bits[r]]
        twin.update([summed(kept[i::n], agent.settings.n_step, gamma) for i in chosen], float(config.bootstrap_beta))
        if (r + 1) % agent.settings.target_period == 0:
            twin.copy_target()
    assert 0 < explored < n * rounds / 2
    return kept


def summed(steps, n_step, gamma):
    """The first of the steps of an environment with the discounted sum over those that follow in its episode."""
    phi, discount = 0.0, 1.0
    for _, _, one_phi, next_obs, not_terminated, _, last in steps[:n_step]:
        phi, discount = phi + discount * one_phi, discount * gamma
        found = (*steps[0][:2], phi, next_obs, discount * not_terminated, steps[0][5])
        if last:
            break
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
