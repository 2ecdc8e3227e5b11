"""Static CVaR beside CVaR scored afresh in every state, with learned laws: which worst cases does acting meet?

    python benchmarks/static_acting.py four-room resource-gathering reacher --out static.json

For each weighting both act in the same episodes; the CVaR of the discounted return is compared. Intervals of 95 % are
over weightings and episodes, both resampled together. Rule, written before the first run: one is called better where
the interval of the difference lies on one side of 0.
"""

import argparse
import json
import time

import numpy as np

import rasf
from rasf.statistics import mean_of_the_worst

ALPHA = 0.1


def four_room():
    """16 tasks, neutral and averse; 40 new ones."""
    risks = [rasf.MeanVariance(0.0), rasf.MeanVariance(-4.0)]
    library = rasf.learn("rasf/FourRoom-v0", agent="rasf-model", tasks=16, risk=risks, steps_per_task=10_000)
    rng = np.random.default_rng(99)
    return library, "rasf/FourRoom-v0", [np.r_[rng.uniform(-1, 1, 3), 1.0, -2.0] for _ in range(40)], 400


def resource_gathering():
    """Enemies, gold and gems: 8 tasks, neutral and averse; 40 new ones."""
    rng = np.random.default_rng(98)
    tasks = np.column_stack([rng.uniform(0.2, 3.0, 48), rng.uniform(0.0, 1.0, (48, 2))])
    risks = [rasf.MeanVariance(0.0), rasf.MeanVariance(-2.0)]
    options = {"agent": "rasf-model", "risk": risks, "gamma": 0.95, "steps_per_task": 8_000}
    library = rasf.learn("resource-gathering-v0", tasks=tasks[:8], **options)
    return library, "resource-gathering-v0", list(tasks[8:]), 400


def reacher():
    """The shipped histograms; the eight targets that nobody trained for."""
    from rasf.envs.reacher import Reacher
    from rasf.envs.reacher.world import TRAINING_TARGETS
    from rasf.explorer.views import shipped_reacher

    world = Reacher()
    new = tuple(i for i in range(len(world.targets)) if world.targets[i] not in TRAINING_TARGETS)
    return shipped_reacher(), "rasf/Reacher-v0", list(world.tasks(new)), 96


WORLDS = {"four-room": four_room, "resource-gathering": resource_gathering, "reacher": reacher}


def measure(name):
    """CVaR of both ways of acting, and how they differ."""
    began = time.time()
    library, env, tasks, episodes = WORLDS[name]()
    returns = np.empty((2, len(tasks), episodes))
    for i, w in enumerate(tasks):
        for j, static in enumerate((True, False)):
            found = library.evaluate(env, w, rasf.CVaR(ALPHA), episodes=episodes, seed=500 + i, static=static)
            returns[j, i] = found.discounted
        print(name, np.round(w, 2), np.round(mean_of_the_worst(returns[:, i], ALPHA), 4), flush=True)
    rng, drawn = np.random.default_rng(0), []
    for _ in range(2_000):
        which, when = rng.integers(len(tasks), size=len(tasks)), rng.integers(episodes, size=episodes)
        drawn.append(mean_of_the_worst(returns[:, which][:, :, when], ALPHA).mean(axis=1))
    static, afresh = np.mean(mean_of_the_worst(returns, ALPHA), axis=1)
    low, high = np.quantile(np.subtract(*np.array(drawn).T), (0.025, 0.975))
    found = {"static": static, "afresh": afresh, "difference": static - afresh, "low": low, "high": high}
    found = {key: round(float(value), 4) for key, value in found.items()}
    means = dict(zip(("static", "afresh"), returns.mean(axis=(1, 2)).round(4).tolist(), strict=True))
    return {"world": name, "weightings": len(tasks), "episodes": episodes, "cvar": found, "mean": means} | {
        "seconds": round(time.time() - began)
    }


def main():
    """Measure the worlds named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("worlds", nargs="*", default=list(WORLDS))
    parser.add_argument("--out", default="static.json")
    given = parser.parse_args()
    found = []
    for name in given.worlds:
        found.append(measure(name))
        print(json.dumps(found[-1]), flush=True)
        with open(given.out, "w") as file:
            json.dump(found, file, indent=1)


if __name__ == "__main__":
    main()
