"""Algorithm 1 in plain Python: one dictionary of tables per policy, copied when a task starts, nothing cached.

Slow and obvious on purpose: the compiled learner must do the same, whatever it shares or caches. Only the arithmetic of
one number (alpha * delta, ..) is written in the same order, and kept in the same precision, so that tables agree to the
last bit while actions do. `store` is the type in which numbers are kept; sums are double.
"""

import copy

import numpy as np

from rasf.envs import four_room
from rasf.tabular.table import SigmaForm, initial_noise
from rasf.transfer import gpi_actions


class Entry:
    """psi (A, d) and Sigma of one policy at one state: (A, d, d), its diagonal (A, d), or None."""

    def __init__(self, psi, Sigma):
        self.psi, self.Sigma = psi, Sigma

    def at(self, action):
        return self.psi[action].astype(float), None if self.Sigma is None else self.Sigma[action].astype(float)

    def flat(self):
        """(m, A) in the compiled table's order: psi, then Sigma's diagonal or its upper triangle by rows."""
        if self.Sigma is None:
            return self.psi.T
        if self.Sigma.ndim == 3:
            i, j = np.triu_indices(self.psi.shape[1])
            return np.concatenate([self.psi.T, self.Sigma[:, i, j].T])
        return np.concatenate([self.psi.T, self.Sigma.T])


class Twin:
    def __init__(self, rule, n_features, n_actions, store):
        self.rule, self.d, self.A, self.store = rule, n_features, n_actions, store
        self.policies, self.w = [], []  # tables {state: Entry} and weights of every task so far
        self.order = {}  # state -> how many states were seen before it
        self.bumps = self.cut_short = self.other_drivers = 0  # what a test has met on its way

    def start_task(self, w):
        self.policies.append(copy.deepcopy(self.policies[-1]) if self.policies else {})
        self.w.append(np.array(w, float))

    def see(self, state):
        """Give every policy that exists its first numbers at a new state."""
        if state in self.order:
            return
        self.order[state] = len(self.order)
        for j, table in enumerate(self.policies):
            table[state] = Entry(self.noise(self.order[state], 0 if self.rule.shared_noise else j), self.no_variance())

    def noise(self, row, policy):
        drawn = [
            [initial_noise(self.rule.seed, row, policy, i * self.A + a) for i in range(self.d)] for a in range(self.A)
        ]
        return (self.rule.noise_scale * np.array(drawn)).astype(np.float32).astype(self.store)

    def no_variance(self):
        shapes = {SigmaForm.DIAGONAL: (self.A, self.d), SigmaForm.FULL: (self.A, self.d, self.d)}
        return np.zeros(shapes[self.rule.sigma], self.store) if self.rule.sigma in shapes else None

    def scores(self, j, state, w):
        """psi . w + variance_weight w' Sigma w of policy j, for every action."""
        entry = self.policies[j][state]
        score = (entry.psi * w).sum(-1)
        if entry.Sigma is None:
            return score
        if entry.Sigma.ndim == 3:
            return score + self.rule.variance_weight * (entry.Sigma * np.outer(w, w)).sum((-1, -2))
        return score + self.rule.variance_weight * (entry.Sigma * w * w).sum(-1)

    def gpi(self, state):
        """Driving policy and its action, while learning: the lowest policy, then its lowest action."""
        best, driver, action = -np.inf, None, None
        for j in range(len(self.policies)):
            for a, score in enumerate(self.scores(j, state, self.w[-1])):
                if score > best:
                    best, driver, action = score, j, a
        return driver, action

    def bootstrap_action(self, state):
        """argmax_b max_j, the lowest action."""
        return int(gpi_actions(np.array([self.scores(j, state, self.w[-1]) for j in range(len(self.policies))])))

    def learn_weights(self, phi, reward, alpha_w):
        w = self.w[-1]
        self.w[-1] = w + alpha_w * (reward - phi @ w) * phi

    def learn(self, state, action, driver, phi, successor):
        """Update the current policy and the driver; `successor` is None after the end."""
        current = len(self.policies) - 1
        self.bumps += successor == state
        self.other_drivers += driver != current
        # both targets are read before either table changes
        targets = {current: None if successor is None else self.bootstrap_action(successor)}
        if driver != current:
            own = None if successor is None else int(np.argmax(self.scores(driver, successor, self.w[driver])))
            targets[driver] = own
        after = {
            j: self.nothing() if b is None else self.policies[j][successor].at(b) for j, b in sorted(targets.items())
        }
        for j, (psi_next, Sigma_next) in after.items():
            self.update(self.policies[j][state], action, phi, psi_next, Sigma_next)

    def nothing(self):
        Sigma = self.no_variance()
        return np.zeros(self.d), None if Sigma is None else Sigma[0]

    def update(self, entry, action, phi, psi_next, Sigma_next):
        rule = self.rule
        delta = phi + rule.gamma * psi_next - entry.psi[action]
        entry.psi[action] += rule.alpha * delta
        if entry.Sigma is not None:
            square = delta * delta if entry.Sigma.ndim == 2 else np.outer(delta, delta)
            target = square + rule.gamma * rule.gamma * Sigma_next
            entry.Sigma[action] += rule.alpha_sigma * (target - entry.Sigma[action])

    def run_task(self, rooms, step_limit, rewards, epsilon, draws):
        """Live in the four-room world for len(draws) steps; total reward, failures, finished episodes."""
        world, alpha_w = rooms.world(), self.rule.alpha_w
        n_cells = len(world.destination)
        total, failures, episodes = 0.0, 0, 0
        cell, flags, taken = world.start, 0, 0
        self.see(cell)
        for explore, which, luck in draws:
            state = cell + n_cells * flags
            driver, action = self.gpi(state)
            if explore < epsilon:
                action = int(which * self.A)
            cell, flags, feature, terminated = four_room.step.py_func(world, cell, flags, action, luck)
            cell, flags, taken = int(cell), int(flags), taken + 1
            phi = np.zeros(self.d)
            if feature >= 0:
                phi[feature] = 1.0
                total += rewards[feature]
                failures += feature == world.n_classes + 1
            if alpha_w > 0:
                self.learn_weights(phi, rewards @ phi, alpha_w)
            successor = None
            if not terminated:
                successor = cell + n_cells * flags
                self.see(successor)
            self.learn(state, action, driver, phi, successor)
            if terminated or taken == step_limit:
                self.cut_short += not terminated
                cell, flags, taken = world.start, 0, 0
                episodes += 1
                self.see(cell)
        return total, failures, episodes
