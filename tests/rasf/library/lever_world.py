"""A lever to push: continuous actions whose best strength, without risk and with it, is known in closed form."""

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class Lever(gym.Env):
    """Push with strength u along a side c, which the observation (c, x) tells; x has no effect. Steps are independent.

    Features: c u, the effort -u^2, and u times 1 or -1 by a fair coin. For the weights w, a step has the mean
    w0 c u - w1 u^2 and the variance w2^2 u^2. The best u is c w0 / (2 w1 - beta w2^2), see `best`. Actions are the
    vector (1 + 2 u, 30 - 10 u') in the space, where u' has no effect.
    """

    metadata = {"render_modes": []}  # noqa: RUF012
    signs = (1, 1, 0)
    feature_names = ("along", "effort", "chance")

    def __init__(self, steps=1, terminates=True, dtype=np.float32, declares=True):
        self.observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.action_space = spaces.Box(np.array([-1, 20], dtype), np.array([3, 40], dtype), dtype=dtype)
        self.reward_space = spaces.Box(np.array([-1, -1, -1], np.float32), np.array([1, 0, 1], np.float32))
        self.steps, self.terminates = steps, terminates
        if declares and steps > 1:
            self.max_episode_steps = steps

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self._obs(), {}

    def _obs(self):
        self.side = self.np_random.choice([-1.0, 1.0])
        return np.array([self.side, self.np_random.uniform(-1, 1)], np.float32)

    def step(self, action):
        assert self.action_space.contains(action)
        u, coin = strength(action), self.np_random.choice([-1.0, 1.0])
        phi = np.array([self.side * u, -(u**2), coin * u])
        self.time += 1
        over = self.time >= self.steps
        return self._obs(), phi, over and self.terminates, over and not self.terminates, {"failure": coin * u < -0.9}


def strength(action):
    """u of actions (.., 2) as the environment takes them."""
    return (np.asarray(action, float)[..., 0] - 1) / 2


def best(w, beta, side=1.0):
    """The best u for one step."""
    return float(np.clip(side * w[0] / (2 * w[1] - beta * w[2] ** 2), -1, 1))
