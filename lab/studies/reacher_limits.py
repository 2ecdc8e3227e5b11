"""Limits beside the dial on the reacher: return and failures on the eight targets that nobody trained for.

    python lab/studies/reacher_limits.py reacher.rasf --rollouts 64 --out limits.json
    python lab/studies/reacher_limits.py reacher.rasf --static --rollouts 256 --out static.json

The library is of histogram networks; `rasf reproduce reacher --preset paper --batch rasfc51-main --library FILE` trains
it. It acts at several betas (scored at every step, as the paper does), neutrally with a higher cost of failures, and
neutrally within limits on the expected, discounted failures. All rollouts have the same random numbers. Returns are
those of the true task, whatever a failure costs while acting. With --static instead: CVaR of the worst tenth, held
fixed for the discounted return and scored at every step. No Gymnasium is needed, so it runs on a bare GPU machine.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np

import rasf
from rasf.envs.reacher.world import TRAINING_TARGETS, Reacher
from rasf.risk import CVaR, MeanVariance
from rasf.statistics import mean_of_the_worst
from rasf_lab.rollouts.reacher import arm_chances, roll_out_arm, roll_out_by_rule

BETAS = (0.0, -0.5, -1.0, -2.0, -4.0, -6.0, -8.0, -12.0)
COSTS = (1.5, 2.0, 4.0, 8.0, 16.0)
WORST = 0.1
LIMITS = (0.2, 0.1, 0.05, 0.02, 0.01, 0.0)


def ways(library, world, w):
    """Names and functions that roll out."""
    failure = world.n_features - 1

    def dial(beta, weights):
        risk = MeanVariance(beta)
        return lambda chances: roll_out_arm(library.sources, world, weights, risk, chances, lambda: False)

    def limit(at_most):
        rule = library.rule(w, MeanVariance(0.0), limits={failure: at_most})
        return lambda chances: roll_out_by_rule(rule, world, chances, lambda: False)

    priced = {times: np.r_[w[:-1], times * w[-1]] for times in COSTS}
    found = {f"beta {beta:g}": dial(beta, w) for beta in BETAS}
    found |= {f"cost x{times:g}": dial(0.0, weights) for times, weights in priced.items()}
    return found | {f"limit {at_most:g}": limit(at_most) for at_most in LIMITS}


def cvar_difference(found):
    """CVaR of both ways, and of their difference an interval of 95 % over targets and rollouts."""
    returns = np.array([[numbers[2] for numbers in found[name]] for name in ("static", "afresh")])
    rng, (targets, rollouts) = np.random.default_rng(0), returns.shape[1:]
    drawn = []
    for _ in range(2_000):
        which, when = rng.integers(targets, size=targets), rng.integers(rollouts, size=rollouts)
        drawn.append(np.subtract(*mean_of_the_worst(returns[:, which][:, :, when], WORST).mean(axis=1)))
    static, afresh = mean_of_the_worst(returns, WORST).mean(axis=1)
    low, high = np.quantile(drawn, (0.025, 0.975))
    return {"static": static, "afresh": afresh, "difference": static - afresh, "low": low, "high": high}


def static_ways(library, world, w):
    """CVaR of the whole discounted return, and of the rest."""
    risk = CVaR(WORST)

    def by_rule(static):
        rule = library.rule(w, risk, static=static)
        return lambda chances: roll_out_by_rule(rule, world, chances, lambda: False)

    return {"static": by_rule(True), "afresh": by_rule(False)}


def main():
    """Roll out, and write return and failures by way and target."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", type=Path)
    parser.add_argument("--rollouts", type=int, default=64)
    parser.add_argument("--targets", type=int, default=8)
    parser.add_argument("--static", action="store_true")
    parser.add_argument("--out", default="limits.json")
    given = parser.parse_args()
    world, library, began = Reacher(), rasf.load(given.library), time.time()
    tasks = world.tasks(tuple(i for i in range(len(world.targets)) if world.targets[i] not in TRAINING_TARGETS))[
        : given.targets
    ]
    found = {}
    for i, w in enumerate(tasks):
        chances = arm_chances(world, given.rollouts, 100 + i)
        for name, roll in (static_ways if given.static else ways)(library, world, w).items():
            each = roll(chances).phi  # (T, n, d)
            phi, discount = each.sum(axis=0), library.gamma ** np.arange(len(each))
            numbers = [float((phi @ w).mean()), float(phi[:, -1].mean())]
            if given.static:
                numbers.append((discount @ (each @ w)).tolist())  # the discounted returns themselves
            found.setdefault(name, []).append(numbers)
        print(i, f"{time.time() - began:.0f} s", flush=True)
        with open(given.out, "w") as file:
            json.dump({"rollouts": given.rollouts, "seconds": time.time() - began, "found": found}, file)
    for name, both in found.items():
        print(name, *np.mean([numbers[:2] for numbers in both], axis=0).round(2))
    if given.static:
        print(json.dumps(cvar_difference(found)))


if __name__ == "__main__":
    main()
