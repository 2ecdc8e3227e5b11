"""Variants of how drivers of the suite are trained: which learn best, on a seed that the suite does not use.

    python lab/studies/driver_variants.py long long-wide --road highway --road intersection --out runs.jsonl

Each trains a library on a road's own weightings, then drives on its ten unseen ones. A line of JSON says what came of
it: return, collisions and speed by the way to act, means over weightings; steps and seconds of training. One process
per core, each on a core of its own. The rule by which one is chosen: the largest neutral return, in units of that of
`long` on the same road and seed, mean over roads.
"""

import argparse
import json
import multiprocessing
import os
import time
from functools import partial
from pathlib import Path

WIDE = {"widths": (256, 256)}
LONG = {"steps": 30_000, "n_step": 5}
PLAIN = {"objects": 0, "widths": (64, 64)}
PAIRS = {"steps": 30_000, "n_step": 1, "objects": "cars"}  # as many numbers as the road has for a car
DEEP = PAIRS | {"widths": (64, 64, 64)}
FOUR = PAIRS | {"widths": (64, 64, 64, 64)}
VARIANTS = {
    "as-it-is": {},
    "long": LONG,
    "long-gamma-0.8": LONG | {"gamma": 0.8},
    "long-wide": LONG | WIDE,
    "long-n-1": {"steps": 30_000, "n_step": 1},
    "long-n-2": {"steps": 30_000, "n_step": 2},
    "long-wide-n-2": {"steps": 30_000, "n_step": 2} | WIDE,
    "long-wide-n-2-slow": {"steps": 30_000, "n_step": 2, "learning_rate": 5e-4} | WIDE,
    "long-uniform": LONG | {"prioritised": 0.0},
    "pairs": PAIRS,
    "pairs-wide": PAIRS | {"widths": (128, 128)},
    "pairs-deep": DEEP,
    "pairs-deep-wide": DEEP | {"widths": (128, 128, 128)},
    "pairs-deep-60": DEEP | {"steps": 60_000},
    "pairs-4": FOUR,
    "pairs-4-uniform": FOUR | {"prioritised": 0.0},
    "pairs-4-uniform-150": FOUR | {"prioritised": 0.0, "steps": 150_000},
    "pairs-4-uniform-imagined-5": FOUR | {"prioritised": 0.0, "extra_tasks": 5},
    "pairs-4-target-1000": FOUR | {"target_period": 1_000},
    "pairs-4-gamma-0.95": FOUR | {"gamma": 0.95},
    "pairs-4-slow": FOUR | {"learning_rate": 1e-3},
    "pairs-4-own-layers": FOUR | {"shared": False},
    "pairs-4-wide": FOUR | {"widths": (128, 128, 128, 128)},
    "pairs-4-batch-256": FOUR | {"batch": 256},
    "pairs-4-60": FOUR | {"steps": 60_000},
    "pairs-5": PAIRS | {"widths": (64, 64, 64, 64, 64)},
    "pairs-deep-updates-2": DEEP | {"updates": 2},
    "pairs-deep-gamma-0.95": DEEP | {"gamma": 0.95},
    "pairs-deep-n-3": DEEP | {"n_step": 3},
    "pairs-deep-uniform": DEEP | {"prioritised": 0.0},
    "pairs-deep-slow": DEEP | {"learning_rate": 5e-4},
    "pairs-deep-own-layers": DEEP | {"shared": False},
    "long-wide-n-2-gamma-0.8": {"steps": 30_000, "n_step": 2, "gamma": 0.8} | WIDE,
}
ROADS = ("highway", "merge", "roundabout", "intersection", "intersection-intentions")
ACTING = ("neutral", "mean-variance:-1", "cvar:0.1", "price 4")


def one(job):
    """What comes of one variant on one road with one seed."""
    name, road, seed, shrink, episodes = job
    import gymnasium
    import numpy as np

    import rasf
    from rasf.envs.gymnasium.single import open_environment
    from rasf_lab.suite import find_case
    from rasf_lab.suite.cases import Acting
    from rasf_lab.suite.trials import TRYING, Gauge

    case, changes = find_case(road), dict(VARIANTS[name])
    steps = max(200, round(shrink * changes.pop("steps", case.steps_per_task)))
    settings = dict(case.settings) | (PLAIN if changes else {}) | changes
    if settings.get("objects") == "cars":
        settings["objects"] = open_environment(case.env, None, **case.env_kwargs).env.observation_space.shape[1]
    began = time.perf_counter()
    given = {"tasks": case.tasks, "env_kwargs": dict(case.env_kwargs) or None, "agent": case.agent}
    library = rasf.learn(case.env, steps_per_task=steps, seed=seed, **given, **settings)
    seconds, found = time.perf_counter() - began, {}
    for text in ACTING:
        told = []
        for w in np.array(case.unseen, float):
            acting, gauge = Acting.read(text, case, w), Gauge(case)
            options = {"seed": TRYING + seed, "failure": gauge, "max_steps": case.max_steps}
            made = partial(gymnasium.make, case.env, disable_env_checker=True, **case.env_kwargs)
            report = library.evaluate(made, acting.w, acting.risk, episodes, **options, **acting.ways)
            told.append([(report.phi @ w).mean(), report.failures.mean(), gauge.mean])
        found[text] = dict(zip(("return", "failures", "speed"), np.mean(told, axis=0).round(4).tolist(), strict=True))
    return {
        "variant": name, "road": road, "seed": seed, "steps": steps * len(case.tasks), "episodes": episodes,
        "seconds": round(seconds, 1), "asking": round(time.perf_counter() - began - seconds, 1), "acting": found,
    }  # fmt: skip


def _take_a_core(cores):
    os.sched_setaffinity(0, {cores.get()})


def main():
    """Run them all, one process per core."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=list(VARIANTS))
    parser.add_argument("--road", action="append", choices=ROADS)
    parser.add_argument("--seed", type=int, action="append", help="100 by default")
    parser.add_argument("--shrink", type=float, default=1.0, help="share of the steps, to try it")
    parser.add_argument("--episodes", type=int, default=30)
    parser.add_argument("--out", type=Path, required=True)
    chosen = parser.parse_args()
    jobs = [
        (name, road, seed, chosen.shrink, chosen.episodes)
        for name in chosen.names for road in chosen.road or ["highway"] for seed in chosen.seed or [100]
    ]  # fmt: skip
    spawn = multiprocessing.get_context("spawn")
    cores = spawn.Queue()
    for core in sorted(os.sched_getaffinity(0)):
        cores.put(core)
    workers = min(len(jobs), len(os.sched_getaffinity(0)))
    with spawn.Pool(workers, _take_a_core, (cores,)) as pool, chosen.out.open("a") as out:
        for told in pool.imap_unordered(one, jobs):
            print(json.dumps(told), file=out, flush=True)
            print(told["variant"], told["road"], told["seconds"], told["asking"], told["acting"], flush=True)


if __name__ == "__main__":
    main()
