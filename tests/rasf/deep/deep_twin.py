"""Deep agents written plainly, in numpy and loops, after Algorithm 2 of the paper.

A network is {"hidden": [(W (n, m), b (m,)), ..], "heads": (W (m, H, A, M), b (H, A, M))}, without padding; a part of a
law is a list of K of them. Gradients are backpropagated by hand, one transition at a time, and Adam is spelled out.
"""

import math

import jax
import numpy as np

from rasf.deep.agent import Agent
from rasf.deep.laws import support_atoms


def create_agent(settings, observation_size, n_actions, bounds, tasks, **more):
    """An agent whose support follows from the bounds (d, 2) of the features."""
    atoms = support_atoms(bounds, settings.gamma, settings.atoms)
    return Agent.create(settings, observation_size, n_actions, tasks, atoms, **more)


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
    target = jax.tree.map(np.copy, online) if shapes.target else ()
    return type(shapes)(online, target, jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shapes.optimiser))


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
    """The learner of one agent; `tasks` are (weights (T, d), inputs (T, c)), `atoms` (d, N) where it has histograms."""

    def __init__(self, agent, learner, weights, inputs):
        settings = agent.settings
        self.law, self.conditioned, self.relabel = settings.law, settings.conditioned, settings.relabel
        self.gamma, self.rate, self.bootstrap = settings.gamma, settings.learning_rate, settings.bootstrap
        self.has_target = settings.target_period > 0
        self.atoms = np.array(agent.law.atoms) if self.law == "histogram" else None
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
        if self.law == "histogram":
            logits = outputs(parts[0][k], x)
            mean = variance = 0.0
            for i, weight in enumerate(w):
                one_mean, one_variance = mean_and_variance(softmax(logits[i, action]), self.atoms[i])
                mean, variance = mean + weight * one_mean, variance + weight**2 * one_variance
            return mean, variance
        mean = outputs(parts[0][k], x)[0, action] @ w
        return mean, w @ self.sigma(parts, k, x, action) @ w if self.law == "residual" else 0.0

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
        others = [k] if self.bootstrap == "own" else range(self.policies)
        best = [max(self.score(j, x, b, w, beta) for j in others) for b in range(self.actions)]
        return int(np.argmax(best))

    def seen(self, obs, task_input):
        return np.concatenate([obs, task_input]) if self.conditioned else np.asarray(obs, float)

    def weighed(self, w):
        return np.ones(1) if self.conditioned else np.asarray(w, float)

    # learning

    def update(self, batch, beta):
        """One step of Adam; `batch` lists (obs, action, phi, next_obs, not_terminated, task). The mean loss."""
        if self.relabel:
            batch = [(*one[:5], task) for one in batch for task in range(len(self.weights))]
        gradients = [[zeros_like(net) for net in part] for part in self.parts]
        loss = 0.0
        for obs, action, phi, next_obs, not_terminated, task in batch:
            if self.conditioned:
                phi = np.array([np.dot(phi, self.weights[task])])
            x, x_next = self.seen(obs, self.inputs[task]), self.seen(next_obs, self.inputs[task])
            for k in range(self.policies):
                w = np.ones(1) if self.conditioned else self.weights[k]
                next_action = self.bootstrap_action(k, x_next, w, beta)
                after = self.target if self.has_target else self.parts
                slopes, one_loss = self.slopes(
                    after, k, x, action, phi, x_next, next_action, self.gamma * not_terminated
                )
                loss += one_loss / len(batch)
                for part, slope in enumerate(slopes):
                    network = self.parts[part][k]
                    found, inputs = forward(network, x)
                    whole = np.zeros_like(found)
                    whole[:, action] = slope / len(batch)
                    for total, term in zip(
                        flat(gradients[part][k]), flat(backward(network, inputs, whole)), strict=True
                    ):
                        total += term
        self.adam(gradients)
        return loss

    def slopes(self, after, k, x, action, phi, x_next, next_action, discount):
        """Slope (H, M) of every part's loss at (s, a), and the loss."""
        if self.law == "histogram":
            logits, next_logits = outputs(self.parts[0][k], x), outputs(after[0][k], x_next)
            slope, loss = np.zeros_like(logits[:, action]), 0.0
            for i in range(len(phi)):
                following = softmax(next_logits[i, next_action])
                m = categorical_projection(following, phi[i], discount, self.atoms[i])
                p = softmax(logits[i, action])
                loss -= sum(m * np.log(p))
                slope[i] = p - m  # of - sum_j m_j log softmax_j, as m sums to one
            return [slope], loss
        psi, next_psi = outputs(self.parts[0][k], x)[0, action], outputs(after[0][k], x_next)[0, next_action]
        delta = phi + discount * next_psi - psi
        if self.law == "point":
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
