"""A world of one step, as a user would write it: a module that registers an environment.

Action 0 earns (1, 0) surely, action 1 a fair coin: (3, 0), or (0, 1) and a failure.
"""

import time

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class Coin(gym.Env):
    signs = (1, -1)

    def __init__(self, pause=0.0, stakes=1.0, mark="", breaks=0):
        self.observation_space, self.action_space = spaces.Discrete(2), spaces.Discrete(2)
        self.reward_space = spaces.Box(np.zeros(2, np.float32), np.full(2, 3.0 * stakes, np.float32))
        self.pause, self.stakes, self.mark, self.breaks, self.steps = pause, stakes, mark, breaks, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return 0, {"failure": False}

    def step(self, action):
        self.steps += 1
        if self.steps == self.breaks:
            raise RuntimeError("the coin is lost")
        if self.steps == 5 and self.mark:
            open(self.mark, "w").close()
        time.sleep(self.pause)
        failed = bool(action == 1 and self.np_random.random() < 0.5)
        phi = np.array([0.0, 1.0] if failed else [1.0 + 2.0 * action, 0.0], np.float32) * self.stakes
        return 1, phi, True, False, {"failure": failed}


if "Coin-v0" not in gym.registry:
    gym.register("Coin-v0", entry_point=Coin, disable_env_checker=True)
