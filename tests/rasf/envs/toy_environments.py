"""Small environments with known traces, for the tests of adapters and vector environments."""

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class Corridor(gym.Env):
    """Walk right to the end (terminated), or run out of time (truncated); a scalar reward, noise from the seed.

    The observation is (cell, noise); the action 5 stays, 6 walks. info names a failure when the last cell is reached
    with noise below 0.5, and tells the step's number.
    """

    metadata = {"render_modes": []}  # noqa: RUF012

    def __init__(self, length=3, limit=4, first_action=5):
        self.observation_space = spaces.Box(-10.0, 10.0, (2,), np.float32)
        self.action_space = spaces.Discrete(2, start=first_action)
        self.length, self.limit, self.first_action = length, limit, first_action

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.cell, self.time = 0, 0
        return self._obs(), {"failure": False, "time": 0}

    def step(self, action):
        assert self.action_space.contains(action)
        self.cell += int(action) - self.first_action
        self.time += 1
        obs = self._obs()
        terminated = self.cell == self.length
        failure = bool(terminated and obs[1] < 0.5)
        return obs, 1.5, terminated, self.time == self.limit, {"failure": failure, "time": self.time}

    def _obs(self):
        return np.array([self.cell, self.np_random.random()], np.float32)


def corridor_phi(obs, action, next_obs, info):
    """What a step was made of, so that a test sees all that phi is given."""
    return np.array([obs[0], obs[1], action, next_obs[0], next_obs[1], info["time"], info["failure"]])


class Answers(gym.Env):
    """Gives what it is told to: observations one after the other, and always the same reward."""

    metadata = {"render_modes": []}  # noqa: RUF012

    def __init__(self, observation_space, observations, reward, action_space=None):
        self.observation_space, self.observations, self.reward = observation_space, observations, reward
        self.action_space = action_space or spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self.observations[0], {}

    def step(self, action):
        self.time += 1
        return self.observations[self.time], self.reward, False, False, {}


class Vectors(gym.Wrapper):
    """A corridor whose reward is a vector, as MO-Gymnasium's are."""

    def __init__(self, env):
        super().__init__(env)
        env.reward_space = spaces.Box(np.array([0, -10], np.float32), np.array([1, 10], np.float32))

    def step(self, action):
        obs, _, terminated, truncated, info = self.env.step(action)
        return obs, np.array([terminated, obs[1]], np.float32), terminated, truncated, info
