"""Static CVaR beside CVaR scored afresh in every state, with learned laws: which worst cases does acting meet?

    python lab/studies/static_acting.py four-room resource-gathering --out static.json

For each weighting both act in the same episodes; the CVaR of the discounted return is compared. Intervals of 95 % are
over weightings and episodes, both resampled together. The reacher's are measured by `reacher_limits.py --static`. Rule,
written before the first run: one is called better where the interval of the difference lies on one side of 0.
"""

import argparse
import json
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

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


WORLDS = {"four-room": four_room, "resource-gathering": resource_gathering}


_held = {}  # the library, in every process


def load(path):
    """Once for each process."""
    _held["library"] = rasf.load(path)


def act(given):
    """Discounted returns of one weighting in one way."""
    env, w, static, episodes, seed = given
    risk = rasf.CVaR(ALPHA)
    return _held["library"].evaluate(env, w, risk, episodes=episodes, seed=seed, static=static).discounted


def measure(name, processes):
    """CVaR of both ways of acting, and how they differ."""
    began = time.time()
    library, env, tasks, episodes = WORLDS[name]()
    asks = [(env, w, static, episodes, 500 + i) for static in (True, False) for i, w in enumerate(tasks)]
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/library.rasf"
        library.save(path)
        with ProcessPoolExecutor(processes, get_context("spawn"), load, (path,)) as pool:
            returns = np.array(list(pool.map(act, asks))).reshape(2, len(tasks), episodes)
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
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--out", default="static.json")
    given = parser.parse_args()
    found = []
    for name in given.worlds:
        found.append(measure(name, given.processes))
        print(json.dumps(found[-1]), flush=True)
        with open(given.out, "w") as file:
            json.dump(found, file, indent=1)


if __name__ == "__main__":
    main()
