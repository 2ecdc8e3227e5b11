"""What is possible at the intersection: drivers who see nothing, and one who sees the future.

    python benchmarks/intersection_bounds.py --episodes 400 --clairvoyant 40

Constant drivers slow down for some seconds, then go. The clairvoyant tries plans in the very episode that it then
drives, with all that the others will do: a beam over actions, the best `--beam` at each second that differ in speed or
distance, for the weights (0.5, 1, -4) of speed, arrival and collision. It is a reference and no bound: a beam may miss
the best plan, and others are asked for other weights. Returns are means over the case's ten unseen weightings.
"""

import argparse

import numpy as np

from rasf.envs.gymnasium.single import open_environment
from rasf.experiments.suite import find_case

SLOWER, FASTER = 0, 2
CASE = find_case("intersection")
PLANNED_FOR = np.array([0.5, 1.0, -4.0])
LONGEST = 20  # seconds; an episode has at most 13


def drive(env, seed, actions):
    """Features (t, d) and speeds (t,) of these actions from the beginning, and whether the episode is over."""
    env.reset(seed)
    features, speeds = [], []
    for action in actions:
        step = env.step(action)
        features.append(step.phi)
        speeds.append(step.info["speed"])
        if step.terminated or step.truncated:
            return np.array(features), np.array(speeds), True
    return np.array(features), np.array(speeds), False


def clairvoyant(env, seed, beam):
    """The features and speeds of the best plan that the beam finds."""
    plans, best = [()], None
    while plans:
        going = []
        for plan in plans:
            for action in range(env.n_actions):
                features, speeds, over = drive(env, seed, (*plan, action))
                value = float((features @ PLANNED_FOR).sum())
                if not over:
                    like = round(float(speeds[-1]), 1), round(float(speeds.sum()))
                    going.append((value, like, (*plan, action)))
                elif best is None or value > best[0]:
                    best = value, features, speeds
        different = {}
        for _, like, plan in sorted(going, key=lambda one: -one[0]):
            different.setdefault(like, plan)
        plans = list(different.values())[:beam]
    return best[1:]


def tell(name, driven):
    """One line on episodes' features and speeds."""
    sums = np.array([features.sum(axis=0) for features, _ in driven])
    returns = (sums @ np.array(CASE.unseen, float).T).mean()
    speed = np.concatenate([speeds for _, speeds in driven]).mean()
    print(f"{name:28} collisions {sums[:, 2].mean():.3f}  arrived {sums[:, 1].mean():.3f}  "
          f"{speed:.2f} m/s  return {returns:.2f}", flush=True)  # fmt: skip


def main():
    """Print them all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=400)
    parser.add_argument("--clairvoyant", type=int, default=40, help="episodes that are planned, 3 s each")
    parser.add_argument("--beam", type=int, default=12)
    parser.add_argument("--seed", type=int, default=20_000, help="of the first episode")
    chosen = parser.parse_args()
    env = open_environment(CASE.env, None)
    for slow in range(4):
        plan = (SLOWER,) * slow + (FASTER,) * LONGEST
        name = f"slower for {slow} s, then fast" if slow else "never brakes"
        tell(name, [drive(env, chosen.seed + i, plan)[:2] for i in range(chosen.episodes)])
    tell("stands", [drive(env, chosen.seed + i, (SLOWER,) * LONGEST)[:2] for i in range(chosen.episodes)])
    tell("clairvoyant", [clairvoyant(env, chosen.seed + i, chosen.beam) for i in range(chosen.clairvoyant)])


if __name__ == "__main__":
    main()
