"""Steps a second of `learn` beside Stable-Baselines3's DQN and QR-DQN, at one update a step each, in one run.

    pip install -e ".[mo,bench]"
    python lab/benchmarks/against_sb3.py --steps 20000

All learn from one environment, with two layers of 64 (51 quantiles) and batches of 64. rasf learns one
policy, as they do, and three; it also learns the variance of every feature. Seconds are those of learning, after the
first fifth, in which programs compile and replays fill; "in all" counts everything.
"""

import argparse
import time

import gymnasium
import numpy as np

import rasf

ENVIRONMENTS = {"CartPole-v1": 4, "LunarLander-v3": 8}


def plain_steps(name, steps):
    """Steps a second of the environment itself, under random actions."""
    env = gymnasium.make(name)
    env.reset(seed=0)
    actions = np.random.default_rng(0).integers(env.action_space.n, size=steps).tolist()
    begin = time.perf_counter()
    for action in actions:
        _, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            env.reset()
    return steps / (time.perf_counter() - begin)


class Clock:
    """When how much was done."""

    def __init__(self, steps):
        self._steps, self._begin, self._marks = steps, time.perf_counter(), []

    def at(self, done):
        self._marks.append((done, time.perf_counter()))

    def rates(self):
        """Steps a second after the first fifth, and in all."""
        later = [mark for mark in self._marks if mark[0] >= self._steps / 5]
        (first, begin), (last, end) = later[0], later[-1]
        return (last - first) / (end - begin), self._steps / (time.perf_counter() - self._begin)


class Features:
    """The reward, and how far one is from the middle and from upright: three features to weigh."""

    bounds = ((-200.0, 200.0), (-9.0, 0.0), (-9.0, 0.0))

    def __init__(self, env):
        self._env = env

    __name__ = "features"

    def __call__(self, obs, action, next_obs, info):
        return [1.0 if self._env == "CartPole-v1" else -abs(float(next_obs[1])), -abs(next_obs[0]), -abs(next_obs[2])]


def with_rasf(name, steps, tasks):
    """One or three policies, on features of the observations."""
    clock = Clock(steps)
    weights = np.array([[1.0, 0.1, 0.1], [1.0, 0.5, 0.1], [1.0, 0.1, 0.5]])[:tasks]
    rasf.learn(
        gymnasium.make(name), tasks=weights, agent="rasfdqn", steps_per_task=steps // tasks, phi=Features(name),
        callback=lambda progress: clock.at(progress.share * steps),
    )  # fmt: skip
    return clock.rates()


def with_sb3(name, steps, agent):
    """At the same sizes, an update for each step."""
    from stable_baselines3.common.callbacks import BaseCallback

    clock = Clock(steps)

    class Marks(BaseCallback):
        def _on_step(self):
            if self.num_timesteps % 500 == 0:
                clock.at(self.num_timesteps)
            return True

    sizes = {"batch_size": 64, "train_freq": 1, "gradient_steps": 1, "learning_starts": 500}
    net = {"net_arch": [64, 64]} | ({"n_quantiles": 51} if agent.__name__ == "QRDQN" else {})
    env = gymnasium.make(name)
    model = agent("MlpPolicy", env, policy_kwargs=net, buffer_size=steps, device="cpu", seed=0, **sizes)
    model.learn(steps, callback=Marks())
    return clock.rates()


def main():
    """From the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=20_000)
    given = parser.parse_args()
    from sb3_contrib import QRDQN
    from stable_baselines3 import DQN

    for name in ENVIRONMENTS:
        print(f"{name}: {plain_steps(name, given.steps):,.0f} steps a second by itself", flush=True)
        of_dqn = None
        for who, rates in (
            ("DQN", lambda name=name: with_sb3(name, given.steps, DQN)),
            ("QR-DQN", lambda name=name: with_sb3(name, given.steps, QRDQN)),
            ("rasfdqn, one policy", lambda name=name: with_rasf(name, given.steps, 1)),
            ("rasfdqn, three policies", lambda name=name: with_rasf(name, given.steps, 3)),
        ):
            steady, in_all = rates()
            of_dqn = of_dqn or steady
            told = f"{steady:8,.0f} steps a second, {in_all:8,.0f} in all"
            print(f"  {who:24s} {told}, {steady / of_dqn:.1f} times DQN", flush=True)


if __name__ == "__main__":
    main()
