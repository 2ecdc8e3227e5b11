"""`FiniteEnv`: a finite MDP as a Gymnasium environment, so that policies can act in a model.

Observations are state numbers, and the reward is the vector of features phi.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import gymnasium as gym
import numpy as np

from rasf.arrays import Floats32
from rasf.files import Header
from rasf.mdp import FiniteMDP


class FiniteEnv(gym.Env[np.int64, np.int64]):
    """An environment whose episodes begin in a given start state of an MDP and end in its terminal states.

    If a feature has the name "failure", a step in which this feature is above 0 is reported as a failure.

    Args:
        mdp: the MDP.
        start: the start state.
        feature_names: names of the features.
        signs: expected signs (d,) of the weights: 1 (more is better), -1 (a cost) or 0 (either sign).
    """

    metadata: ClassVar[Header] = {"render_modes": []}

    def __init__(self, mdp: FiniteMDP, start: int, feature_names: Sequence[str], signs: Sequence[int]) -> None:
        self.mdp, self.start, self.feature_names, self.signs = mdp, start, tuple(feature_names), tuple(signs)
        self.observation_space = gym.spaces.Discrete(mdp.n_states)
        self.action_space = gym.spaces.Discrete(mdp.n_actions)
        low, high = mdp.phi.min(axis=0).astype(np.float32), mdp.phi.max(axis=0).astype(np.float32)
        self.reward_space, self.reward_dim = gym.spaces.Box(low, high), mdp.n_features
        self._failure = self.feature_names.index("failure") if "failure" in self.feature_names else None
        self._below = [np.cumsum(mdp.probability[a:b]) for a, b in zip(mdp.indptr, mdp.indptr[1:], strict=False)]
        self._state = start

    def reset(self, *, seed: int | None = None, options: Header | None = None) -> tuple[np.int64, Header]:
        """Begin an episode in the start state."""
        super().reset(seed=seed)
        self._state = self.start
        return np.int64(self._state), {}

    def step(self, action: np.int64) -> tuple[np.int64, Floats32, bool, bool, Header]:
        """Take a step; the reward is phi (d,)."""
        if not self.action_space.contains(action):
            raise ValueError(f"action must be 0 to {self.mdp.n_actions - 1}, got {action}")
        row = self._state * self.mdp.n_actions + int(action)
        below = self._below[row]
        drawn = min(int((below <= self.np_random.random()).sum()), len(below) - 1)
        entry = int(self.mdp.indptr[row]) + drawn
        self._state = int(self.mdp.successor[entry])
        phi = self.mdp.phi[entry]
        failed = self._failure is not None and bool(phi[self._failure] > 0)
        over = bool(self.mdp.terminal[self._state])
        return np.int64(self._state), phi.astype(np.float32), over, False, {"failure": failed}
