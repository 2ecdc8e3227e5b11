"""Tiny worlds for the fused driver, and what is known about them exactly."""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from deep_twin import categorical_projection


class Place(NamedTuple):
    at: jax.Array
    age: jax.Array  # steps since the reset


class Chance(NamedTuple):
    push: jax.Array
    luck: jax.Array


@dataclass(frozen=True)
class Walk:
    """A noisy walk in the plane that observes its own age: whatever the loop does with it shows in the replay.

    phi is a function of what is stored, but for its second entry, which is chance.
    """

    episode_length: int = 5
    scale: float = 1.0  # of phi
    declared: float = 1.0  # of its bounds
    edge: float = np.inf  # beyond which an episode terminates

    @property
    def n_actions(self):
        return 3

    @property
    def observation_size(self):
        return 3

    @property
    def feature_bounds(self):
        return self.declared * np.array([(-1.0, 1.0), (0.0, 1.0), (0.0, 1.0)])

    def reset(self, key):
        return Place(jax.random.uniform(key, (2,), minval=-1.0), jnp.zeros(()))

    def noise(self, key):
        three = jax.random.uniform(key, (3,))
        return Chance(three[:2], three[2])

    def advance(self, state, action, noise):
        moves = jnp.array([(1.0, 0.0), (0.0, 1.0), (-1.0, -1.0)])
        at = 0.7 * state.at + 0.5 * moves[action] + 0.5 * (noise.push - 0.5)
        phi = jnp.stack([jnp.tanh(at[0]), noise.luck, action / 2]) * self.scale
        return Place(at, state.age + 1), phi

    def observe(self, state):
        return jnp.concatenate([state.at, state.age[None]])

    def terminated(self, state):
        return state.at[0] > self.edge


@dataclass(frozen=True)
class Push(Walk):
    """A walk whose action is the vector of its push."""

    action_size: int = 2

    @property
    def n_actions(self):
        return 0

    @property
    def feature_bounds(self):
        return self.declared * np.array([(-1.0, 1.0), (0.0, 1.0), (-1.0, 1.0)])

    def advance(self, state, action, noise):
        at = 0.7 * state.at + 0.5 * action + 0.5 * (noise.push - 0.5)
        phi = jnp.stack([jnp.tanh(at[0]), noise.luck, action[1]]) * self.scale
        return Place(at, state.age + 1), phi


@dataclass(frozen=True)
class Table:
    """A finite MDP in nested tuples: of every state and action, outcomes (probability, successor, phi).

    Observations are one-hot. Episodes start anywhere.
    """

    outcomes: tuple
    episode_length: int = 10

    @classmethod
    def from_mdp(cls, mdp, episode_length=10):
        """Terminal states lead to themselves, and nothing is earned there."""
        nothing = (0.0,) * mdp.n_features

        def of(s, a):
            row = s * mdp.n_actions + a
            entries = range(mdp.indptr[row], mdp.indptr[row + 1])
            listed = [(float(mdp.probability[e]), int(mdp.successor[e]), tuple(mdp.phi[e].tolist())) for e in entries]
            return tuple(listed) or ((1.0, s, nothing),)

        rows = [[of(s, a) for a in range(mdp.n_actions)] for s in range(mdp.n_states)]
        most = max(len(entries) for row in rows for entries in row)
        padded = (tuple(e + ((0.0, 0, nothing),) * (most - len(e)) for e in row) for row in rows)
        return cls(tuple(map(tuple, padded)), episode_length)

    def _part(self, index):
        return np.array([[[one[index] for one in entries] for entries in row] for row in self.outcomes])

    @property
    def probability(self):
        return self._part(0)

    @property
    def successor(self):
        return self._part(1)

    @property
    def phi(self):
        return self._part(2)

    @property
    def n_actions(self):
        return len(self.outcomes[0])

    @property
    def observation_size(self):
        return len(self.outcomes)

    @property
    def feature_bounds(self):
        phi = self.phi.reshape(-1, self.phi.shape[-1])
        return np.stack([phi.min(0), phi.max(0)], axis=1)

    def reset(self, key):
        return jax.random.randint(key, (), 0, self.observation_size)

    def noise(self, key):
        return jax.random.uniform(key)

    def advance(self, state, action, noise):
        chances = jnp.cumsum(jnp.array(self.probability), axis=-1)[state, action]
        outcome = jnp.minimum(jnp.sum(noise >= chances), len(chances) - 1)
        return jnp.array(self.successor)[state, action, outcome], jnp.array(self.phi)[state, action, outcome]

    def observe(self, state):
        return jax.nn.one_hot(state, self.observation_size)

    def terminated(self, state):
        return jnp.zeros((), bool)


def projected_fixed_point(probability, successor, phi, gamma, policy, atoms, not_terminated=None):
    """The histograms (S, A, d, N) that one feature's projected Bellman operator leaves as they are, by iteration.

    `policy` is (S,); where `not_terminated` (S, A, O) is 0, nothing follows.
    """
    n_states, n_actions, n_outcomes, d = phi.shape
    not_terminated = np.ones(probability.shape) if not_terminated is None else not_terminated
    # the projection is linear: one matrix (N, N) for every outcome
    identity = np.eye(atoms.shape[1])
    matrices = {
        (s, a, o, i): np.array(
            [categorical_projection(p, phi[s, a, o, i], gamma * not_terminated[s, a, o], atoms[i]) for p in identity]
        )
        for s, a, o, i in np.ndindex(n_states, n_actions, n_outcomes, d)
        if probability[s, a, o] > 0
    }
    law = np.full((n_states, n_actions, d, atoms.shape[1]), 1 / atoms.shape[1])
    while True:
        new = np.zeros_like(law)
        for (s, a, o, i), matrix in matrices.items():
            to = successor[s, a, o]
            new[s, a, i] += probability[s, a, o] * law[to, policy[to], i] @ matrix
        if np.abs(new - law).max() < 1e-12:
            return new
        law = new
