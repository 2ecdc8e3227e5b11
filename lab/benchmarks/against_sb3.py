"""Steps a second of `learn` beside Stable-Baselines3's agents, at one update a step each, in one run.

    pip install -e ".[mo,bench]"
    python lab/benchmarks/against_sb3.py --steps 20000

All learn from one environment. DQN, QR-DQN (51 quantiles) and rasfdqn have two layers of 64 and batches of 64; TD3, SAC
and rasftd3, for continuous actions, two layers of 256 and batches of 256. rasf learns one policy, as the others do, and
three; it also learns the variance of every feature. Steps a second are those after the first fifth, in which programs
compile and replays fill; "in all" counts everything.
"""

import argparse
import time

import gymnasium
import numpy as np

import rasf

DISCRETE, CONTINUOUS = ("CartPole-v1", "LunarLander-v3"), ("Pendulum-v1", "LunarLanderContinuous-v3")


def plain_steps(name, steps):
    """Steps a second of the environment itself, under random actions."""
    env = gymnasium.make(name)
    env.reset(seed=0)
    env.action_space.seed(0)
    actions = [env.action_space.sample() for _ in range(steps)]
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

    bounds = ((-200.0, 200.0), (-9.0, 0.0), (-99.0, 0.0))

    def __init__(self, env):
        self._env = env

    __name__ = "features"

    def __call__(self, obs, action, next_obs, info):
        return [1.0 if self._env == "CartPole-v1" else -abs(float(next_obs[1])), -abs(next_obs[0]), -abs(next_obs[2])]


def with_rasf(name, steps, tasks):
    """One or three policies, on features of the observations, with an update for each step."""
    clock = Clock(steps)
    weights = np.array([[1.0, 0.1, 0.1], [1.0, 0.5, 0.1], [1.0, 0.1, 0.5]])[:tasks]
    rasf.learn(
        gymnasium.make(name), tasks=weights, agent="rasfdqn" if name in DISCRETE else "rasftd3",
        steps_per_task=steps // tasks, phi=Features(name), updates=1.0,
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

    width, batch = (64, 64) if name in DISCRETE else (256, 256)
    sizes = {"batch_size": batch, "train_freq": 1, "gradient_steps": 1, "learning_starts": 500}
    net = {"net_arch": [width, width]} | ({"n_quantiles": 51} if agent.__name__ == "QRDQN" else {})
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
    from stable_baselines3 import DQN, SAC, TD3

    groups = ((DISCRETE, (DQN, QRDQN), "rasfdqn"), (CONTINUOUS, (TD3, SAC), "rasftd3"))
    for name, rivals, own in ((name, *rest) for names, *rest in groups for name in names):
        print(f"{name}: {plain_steps(name, given.steps):,.0f} steps a second by itself", flush=True)
        first = None
        rows = [(rival.__name__, lambda name=name, rival=rival: with_sb3(name, given.steps, rival)) for rival in rivals]
        for several in (1, 3):
            rows.append((f"{own}, policies: {several}", lambda name=name, n=several: with_rasf(name, given.steps, n)))
        for who, rates in rows:
            steady, in_all = rates()
            first = first or steady
            told = f"{steady:8,.0f} steps a second, {in_all:8,.0f} in all"
            print(f"  {who:24s} {told}, {steady / first:.1f} times {rivals[0].__name__}", flush=True)


if __name__ == "__main__":
    main()
