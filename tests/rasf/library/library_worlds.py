"""Small environments for the tests of the library, whose laws are known or can be counted."""

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from rasf import FiniteMDP


class Finite(gym.Env):
    """Steps through tables P (S, A, S) and phi (S, A, S, d) from `start`, or from a state drawn where it is None.

    Entering a state of `ends` terminates, `limit` steps cut. Entering one of `failing` is named a failure, always or
    (`named` "then") only when it happens. `space` and `show` say what a state looks like.
    """

    metadata = {"render_modes": []}  # noqa: RUF012

    def __init__(
        self, P, phi, ends=(), start=0, limit=50, failing=None, named="always", space=None, show=int, first_action=0
    ):
        self.P, self.phi = np.asarray(P, float), np.asarray(phi, float)
        self.below = np.cumsum(self.P, axis=-1)
        self.ends, self.start, self.limit, self.failing, self.named = ends, start, limit, failing, named
        self.observation_space = spaces.Discrete(len(self.P)) if space is None else space
        self.action_space = spaces.Discrete(self.P.shape[1], start=first_action)
        low, high = self.phi.min(axis=(0, 1, 2)), self.phi.max(axis=(0, 1, 2))
        self.reward_space = spaces.Box(low.astype(np.float32), high.astype(np.float32))
        self.signs = (1,) * self.phi.shape[-1]
        self.show, self.closed = show, False

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        open_states = [s for s in range(len(self.P)) if s not in self.ends]
        self.state = int(self.np_random.choice(open_states)) if self.start is None else self.start
        self.time = 0
        return self.show(self.state), {}

    def step(self, action):
        assert self.action_space.contains(action)
        before, a = self.state, int(action) - int(self.action_space.start)
        self.state = min(int((self.below[before, a] <= self.np_random.random()).sum()), len(self.P) - 1)
        self.time += 1
        failed = self.failing is not None and self.state in self.failing
        info = {"failure": failed} if self.failing is not None and (failed or self.named == "always") else {}
        features = self.phi[before, a, self.state]
        return self.show(self.state), features, self.state in self.ends, self.time >= self.limit, info

    def close(self):
        self.closed = True

    def mdp(self, gamma):
        return FiniteMDP(self.P, self.phi, np.isin(np.arange(len(self.P)), self.ends), gamma)


def gamble(**options):
    """From 0, action 0 walks surely to the end by 1; action 1 takes the short way, which half the time falls into 2.

    Features: steps on the way (1 each), gains at the end, falls. State 3 is the end.
    """
    P, phi = np.zeros((4, 2, 4)), np.zeros((4, 2, 4, 3))
    P[0, 0, 1] = 1.0
    P[0, 1, 2] = P[0, 1, 3] = 0.5
    P[1, :, 3] = P[2, :, 3] = P[3, :, 3] = 1.0
    phi[..., 0] = 1.0
    phi[0, 1, 3, 1] = 4.0
    phi[1, :, 3, 1] = 1.5
    phi[0, 1, 2, 2] = 1.0
    return Finite(P, phi, ends=(3,), **({"failing": (2,)} | options))


def corridor(length=12, **options):
    """Action 1 walks right, 0 falls back to the beginning; the far end gives feature 0, the way back feature 1."""
    P, phi = np.zeros((length, 2, length)), np.zeros((length, 2, length, 2))
    for s in range(length - 1):
        P[s, 1, s + 1] = P[s, 0, 0] = 1.0
    P[length - 1, :, length - 1] = 1.0
    phi[length - 2, 1, length - 1, 0] = 1.0
    phi[: length - 1, 0, 0, 1] = 0.01
    return Finite(P, phi, ends=(length - 1,), **({"limit": 3 * length} | options))


def random_world(seed, S=4, A=2, d=2, **options):
    """Random dynamics and features; the last state ends."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.full(S, 0.5), (S, A))
    phi = rng.uniform(-1, 1, (S, A, S, d))
    return Finite(P, phi, ends=(S - 1,), **({"start": None} | options))


def scripted(observation_space, shown, features, ends, first_action=0, at_end="terminated"):
    """An environment of one path: observations one after the other, the same features each step, then an end."""

    class Scripted(gym.Env):
        metadata = {"render_modes": []}  # noqa: RUF012

        def __init__(self):
            self.observation_space = observation_space
            self.action_space = spaces.Discrete(2, start=first_action)
            self.signs = (1,) * np.size(features(0) if callable(features) else features)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.time = 0
            return shown[0], {}

        def step(self, action):
            self.time += 1
            over = self.time % ends == 0
            obs = shown[self.time % len(shown)]
            given = features(self.time) if callable(features) else features
            return obs, np.array(given), over and at_end == "terminated", over and at_end == "truncated", {}

    return Scripted()
