"""Do bounds hold? A library is calibrated, then asked for tasks, risks and limits that it has not met.

    python lab/studies/bounds.py --out bounds.json

Rules, written before the first run: of 200 unseen (task, risk), each bound (mean, spread, CVaR, failures) holds in at
least 90 %; of 200 (task, limit), the failures an episode are within the limit in at least 95 %. Outcomes are means
over `--episodes` episodes of seeds that the calibration has not used. Risks are mean-variance with beta from 0 to -4,
more of them near 0; limits are from 0.5 to 20 % failures, even on the scale of their logarithm.
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

ENV = "rasf/FourRoom-v0"
RISKS = [rasf.MeanVariance(beta) for beta in (0.0, -0.5, -1.0, -2.0, -4.0)]


def drawn_task(rng):
    """As the environment draws them."""
    return np.r_[rng.uniform(-1, 1, 3), 1.0, -2.0]


_held = {}  # the library, in every process


def load(path):
    """Once for each process."""
    _held["library"] = rasf.load(path)


def risk_ask(given):
    """Which bounds hold for one task and risk, the bound on failures, and the realised failures."""
    ask, w, beta, episodes = given
    report = _held["library"].evaluate(ENV, w, rasf.MeanVariance(beta), episodes=episodes, seed=10_000 + ask)
    bounds, returns = report.bounds.by_quantity, report.discounted
    held = {
        "mean": returns.mean() >= bounds["mean"].low - 1e-9,
        "spread": returns.std(ddof=1) <= bounds["spread"].high + 1e-9,
        "cvar": mean_of_the_worst(returns, 0.1) >= bounds["cvar"].low - 1e-9,
        "failure": report.discounted_phi[:, -1].mean() <= bounds["failure"].high + 1e-9,
        "failure an episode": report.failures.mean() <= bounds["failure an episode"].high + 1e-9,
    }
    return {name: bool(so) for name, so in held.items()}, bounds["failure an episode"].high, report.failures.mean()


def limit_ask(given):
    """Failures and returns within a limit, and without; and whether the library expected to keep it."""
    ask, w, limit, episodes = given
    both, library = {"episodes": episodes, "seed": 20_000 + ask}, _held["library"]
    within = library.evaluate(ENV, w, limits={"failure": rasf.Limit(limit, per_episode=True)}, **both)
    free = library.evaluate(ENV, w, **both)
    numbers = [(r.failures.mean(), r.returns.mean()) for r in (within, free)]
    return limit, *numbers, not within.not_kept


def coverage(pool, asks, episodes, rng):
    """The share of asks in which each bound holds, and how wide the bound on failures is."""
    given = [(ask, drawn_task(rng), float(-4 * rng.random() ** 2), episodes) for ask in range(asks)]
    held, bound, realised = zip(*pool.map(risk_ask, given), strict=True)
    shares = {name: float(np.mean([one[name] for one in held])) for name in held[0]}
    failures = {"bound": float(np.mean(bound)), "realised": float(np.mean(realised))}
    return {"asks": asks, "held": shares, "failures": failures}


def limits(pool, asks, episodes, rng):
    """The share of limits that were kept, what they cost in return, and how many the library expected to keep."""
    given = [
        (ask, drawn_task(rng), float(np.exp(rng.uniform(np.log(0.005), np.log(0.2)))), episodes) for ask in range(asks)
    ]
    limit, within, free, expected = map(np.array, zip(*pool.map(limit_ask, given), strict=True))
    kept = within[:, 0] <= limit
    return {
        "asks": asks,
        "kept": float(kept.mean()),
        "kept by neutral acting": float((free[:, 0] <= limit).mean()),
        "expected": float(expected.mean()),
        "kept of those": float(kept[expected].mean()),
        "failures": {"within": float(within[:, 0].mean()), "free": float(free[:, 0].mean())},
        "return": {"within": float(within[:, 1].mean()), "free": float(free[:, 1].mean())},
    }


def main():
    """Train, calibrate, ask."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--asks", type=int, default=200)
    parser.add_argument("--episodes", type=int, default=400)
    parser.add_argument("--calibration", type=int, default=45_000, help="episodes")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--out", default="bounds.json")
    given = parser.parse_args()
    began, rng = time.time(), np.random.default_rng([given.seed, 12345])
    library = rasf.learn(
        ENV, agent="rasf-model", tasks=32, risk=[RISKS[0], RISKS[-1]], seed=given.seed, steps_per_task=30_000
    )
    trained = time.time()
    library.calibrate(ENV, given.calibration, tasks=60, risks=RISKS, seed=given.seed)
    found = {"seconds": {"training": trained - began, "calibration": time.time() - trained}} | vars(given)
    print(library.calibration, json.dumps(found["seconds"]), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/library.rasf"
        library.save(path)
        with ProcessPoolExecutor(given.processes, get_context("spawn"), load, (path,)) as pool:
            for name, measure in (("coverage", coverage), ("limits", limits)):
                found[name] = measure(pool, given.asks, given.episodes, rng)
                print(name, json.dumps(found[name], indent=1), f"{time.time() - began:.0f} s in all", flush=True)
                with open(given.out, "w") as file:
                    json.dump(found, file, indent=1)


if __name__ == "__main__":
    main()
