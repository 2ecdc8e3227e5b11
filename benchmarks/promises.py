"""Are promises kept? A library is calibrated, then asked for tasks, risks and limits that it has not met.

    python benchmarks/promises.py --out promises.json

Rules, written before the first run: of 200 unseen (task, risk), each bound (mean, spread, CVaR, failures) holds in at
least 90 %; of 200 (task, limit), the failures an episode are within the limit in at least 95 %. Outcomes are means
over `--episodes` episodes of seeds that the calibration has not used. Risks are mean-variance with beta from 0 to -4,
more of them near 0; limits are from 0.5 to 20 % failures, even on the scale of their logarithm.
"""

import argparse
import json
import time

import numpy as np

import rasf
from rasf.statistics import mean_of_the_worst

ENV = "rasf/FourRoom-v0"
RISKS = [rasf.MeanVariance(beta) for beta in (0.0, -0.5, -1.0, -2.0, -4.0)]


def drawn_task(rng):
    """As the environment draws them."""
    return np.r_[rng.uniform(-1, 1, 3), 1.0, -2.0]


def coverage(library, asks, episodes, rng):
    """The share of asks in which each bound holds, and how wide the bound on failures is."""
    held, widths = [], []
    for ask in range(asks):
        risk = rasf.MeanVariance(float(-4 * rng.random() ** 2))
        report = library.evaluate(ENV, drawn_task(rng), risk, episodes=episodes, seed=10_000 + ask)
        bounds, returns = report.promise.bounds, report.discounted
        held.append(
            {
                "mean": returns.mean() >= bounds["mean"].low - 1e-9,
                "spread": returns.std(ddof=1) <= bounds["spread"].high + 1e-9,
                "cvar": mean_of_the_worst(returns, 0.1) >= bounds["cvar"].low - 1e-9,
                "failure": report.discounted_phi[:, -1].mean() <= bounds["failure"].high + 1e-9,
                "failure an episode": report.failures.mean() <= bounds["failure an episode"].high + 1e-9,
            }
        )
        widths.append((bounds["failure an episode"].high, report.failures.mean()))
    promised, came = np.mean(widths, axis=0)
    shares = {name: float(np.mean([one[name] for one in held])) for name in held[0]}
    return {"asks": asks, "held": shares, "failures promised at most": promised, "failures that came": came}


def limits(library, asks, episodes, rng):
    """The share of limits that were kept, what they cost in return, and how many could not be promised."""
    rows = []
    for ask in range(asks):
        w, limit = drawn_task(rng), float(np.exp(rng.uniform(np.log(0.005), np.log(0.2))))
        given = {"failure": rasf.Limit(limit, per_episode=True)}
        within = library.evaluate(ENV, w, limits=given, episodes=episodes, seed=20_000 + ask)
        free = library.evaluate(ENV, w, episodes=episodes, seed=20_000 + ask)
        rows.append((limit, *(np.array([r.failures.mean(), r.returns.mean()]) for r in (within, free))))
        rows[-1] += (bool(within.held.kept.all()),)
    limit, within, free, kept = (np.array(part) for part in zip(*rows, strict=True))
    named = {"within": within, "free": free}
    return {
        "asks": asks,
        "kept": float((within[:, 0] <= limit).mean()),
        "kept by who acts neutrally": float((free[:, 0] <= limit).mean()),
        "promised": float(kept.mean()),
        "kept of those": float((within[kept, 0] <= limit[kept]).mean()),
        "failures": {name: float(part[:, 0].mean()) for name, part in named.items()},
        "return": {name: float(part[:, 1].mean()) for name, part in named.items()},
    }


def main():
    """Train, calibrate, ask."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--asks", type=int, default=200)
    parser.add_argument("--episodes", type=int, default=400)
    parser.add_argument("--calibration", type=int, default=45_000, help="episodes")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", default="promises.json")
    given = parser.parse_args()
    began, rng = time.time(), np.random.default_rng([given.seed, 12345])
    library = rasf.learn(
        ENV, agent="rasf-model", tasks=32, risk=[RISKS[0], RISKS[-1]], seed=given.seed, steps_per_task=30_000
    )
    trained = time.time()
    library.calibrate(ENV, given.calibration, tasks=60, risks=RISKS, seed=given.seed)
    calibrated = time.time()
    found = {"seconds": {"training": trained - began, "calibration": calibrated - trained}} | vars(given)
    print(library.calibration)
    for name, measure in (("coverage", coverage), ("limits", limits)):
        found[name] = measure(library, given.asks, given.episodes, rng)
        print(name, json.dumps(found[name], indent=1), f"{time.time() - began:.0f} s in all", flush=True)
        with open(given.out, "w") as file:
            json.dump(found, file, indent=1)


if __name__ == "__main__":
    main()
