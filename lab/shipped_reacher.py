"""Train the small library of the reacher that the explorer and the docs show: 4 minutes on an H200 for five seeds.

    python lab/shipped_reacher.py OUT [--steps 200000] [--seeds 5]

Networks with mean and variance (`rasfdqn`, the settings of the third round in lab/notes/reacher.md), the paper's four
training targets, neutral and averse. Each seed is tried on the eight new targets; the library of the median seed, by
return less failures at the averse risk, is kept in half precision. Prints what each seed reaches.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np

import rasf
from rasf.envs.gymnasium.description import world_description
from rasf.envs.reacher import Reacher
from rasf.library.policy_library import PolicyLibrary
from rasf_lab.rollouts.reacher import arm_chances, roll_out_arm

NEUTRAL, AVERSE = rasf.MeanVariance(0.0), rasf.MeanVariance(-6.0)  # the paper's beta 0 and -3
SETTINGS = {
    "gamma": 0.9, "frequency": 1.0, "widths": (256, 256), "batch": 256, "updates": 0.25, "learning_rate": 1e-3,
    "target_period": 1_000, "average": 2_500, "events": (12,), "freeze": 0.5, "epsilon": 0.1, "exploration": 0.0,
    "n_step": 1, "warmup": 0, "prioritised": 0.0,
}  # fmt: skip


def main() -> None:
    """Train, try, keep one."""
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--steps", type=int, default=200_000)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rollouts", type=int, default=8)
    given = parser.parse_args()
    world, found = Reacher(), []
    for seed in range(given.seeds):
        begin = time.perf_counter()
        library = rasf.learn(
            Reacher(episode_length=100),
            agent="rasfdqn",
            tasks=world.tasks(range(4)),
            risk=[NEUTRAL, AVERSE],
            steps_per_task=given.steps,
            seed=seed,
            **SETTINGS,
        )
        tried = {risk: trial(library, world, risk, given.rollouts) for risk in (NEUTRAL, AVERSE)}
        numbers = {str(risk): [round(part, 3) for part in each] for risk, each in tried.items()}
        line = {"seed": seed, "seconds": round(time.perf_counter() - begin, 1), "return, failures": numbers}
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()
        found.append((tried[AVERSE][0] - 3 * tried[AVERSE][1], seed, library))
    found.sort(key=lambda one: one[:2])
    _, seed, library = found[len(found) // 2]
    library.environment = world_description(world)  # the paper's, with episodes of 500 steps
    library.notes = (*library.notes, "trained in episodes of 100 steps")
    library.save(given.out, precision="half")
    sys.stdout.write(f"kept seed {seed}: {given.out}, {given.out.stat().st_size:,} bytes\n")


def trial(library: PolicyLibrary, world: Reacher, risk: rasf.Risk, rollouts: int) -> tuple[float, float]:
    """The mean return and failures of a rollout to each of the eight new targets."""
    returns, failures = [], []
    for target in range(4, 12):
        (w,) = world.tasks((target,))
        rolled = roll_out_arm(library.sources, world, w, risk, arm_chances(world, rollouts, target), lambda: False)
        assert rolled is not None
        returns.append(float((rolled.phi @ w).sum(axis=0).mean()))
        failures.append(float(rolled.phi[..., -1].sum(axis=0).mean()))
    return float(np.mean(returns)), float(np.mean(failures))


if __name__ == "__main__":
    main()
