"""Steps a second of highway-env's environments, plain and with CompiledTraffic.

    python lab/benchmarks/driving.py --plain 10 --compiled 300

Random actions; episode i has seed i, in both, and all default settings; resets and observations are included, making
the environment and compiling are not. The clock is the process's own (CPU time of one core), since others may share the
machine. The intersection comes last: it changes constants of all vehicles in the process.
"""

import argparse
import platform
import time
import warnings

import gymnasium
import highway_env
import mo_gymnasium  # noqa: F401  (registers its ids)
import numpy as np

from rasf_lab.driving.wrapper import CompiledTraffic

ENVIRONMENTS = (
    "highway-fast-v0",
    "mo-highway-fast-v0",
    "mo-highway-v0",
    "merge-v1",
    "roundabout-v1",
    "intersection-v2",
)


def speed(env, episodes):
    """Steps a second, and steps in all, over the episodes of the seeds 0, 1, .."""
    steps, start = 0, time.process_time()
    for seed in range(episodes):
        env.reset(seed=seed)
        draw, over = np.random.default_rng(seed), False
        while not over:
            _, _, terminated, truncated, _ = env.step(int(draw.integers(env.action_space.n)))
            steps, over = steps + 1, terminated or truncated
    return steps / (time.process_time() - start), steps


def main():
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plain", type=int, default=10, help="episodes of each environment as it is")
    parser.add_argument("--compiled", type=int, default=300, help="episodes with compiled traffic")
    parser.add_argument("environments", nargs="*", default=ENVIRONMENTS)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"highway-env {highway_env.__version__}, Python {platform.python_version()}, random actions, seeds from 0\n")
    print("| environment | plain, steps/s | compiled, steps/s | ratio | steps plain, compiled |")
    print("| --- | --- | --- | --- | --- |")
    for name in arguments.environments:
        env = gymnasium.make(name, disable_env_checker=True)
        before, plain_steps = speed(env, arguments.plain)
        env = CompiledTraffic(env)
        speed(env, 1)  # compiles
        after, steps = speed(env, arguments.compiled)
        assert env.plain_steps == 0
        print(f"| {name} | {before:.1f} | {after:,.0f} | {after / before:.0f} | {plain_steps}, {steps} |", flush=True)


if __name__ == "__main__":
    main()
