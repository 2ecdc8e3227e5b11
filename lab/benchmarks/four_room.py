"""The tabular kernels on one core: a 128-task RaSFQL run against a dense-table kernel.

    python lab/benchmarks/four_room.py [--tasks 128] [--json FILE]

The dense kernel, compiled too, scores every policy at every step from separate tables; it is timed over fewer steps at
a quarter, half and three quarters of the policies, and compared per step. Ratios, because machines are noisy.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from pathlib import Path
from typing import Any

import numba
import numpy as np

from rasf.envs.four_room import FourRoom
from rasf.risk import MeanVariance
from rasf.tabular.learner import SuccessorLearner
from rasf.tabular.settings import TableSettings
from rasf_lab.paper.four_room import prql

STEPS = 20_000


class _SharedNoise(TableSettings):
    shared_noise = True


def run(beta: float, noise: str, tasks: int, steps: int = STEPS) -> np.ndarray:
    """CPU seconds of every task."""
    rooms = FourRoom()
    settings = (_SharedNoise if noise == "shared" else TableSettings)(learn_w=True, covariance=False)
    learner = SuccessorLearner(rooms.n_features, 4, settings, 0, tasks, MeanVariance.from_paper(beta))
    seconds = []
    for w in rooms.random_tasks(tasks, np.random.default_rng(0)):
        begin = time.process_time()
        learner.learn_task(rooms, w, steps)
        seconds.append(time.process_time() - begin)
    return np.array(seconds)


@numba.njit
def dense_steps(psi: np.ndarray, Sigma: np.ndarray, w: np.ndarray, rows: np.ndarray, variance_weight: float) -> float:
    """Score all policies at a sequence of rows and update two of them: the work of a plain dense kernel."""
    K, _, A, d = psi.shape
    checksum = 0.0
    for n in range(len(rows) - 1):
        for row in (rows[n], rows[n + 1]):
            best = -1e300
            for j in range(K):
                for a in range(A):
                    score = 0.0
                    for i in range(d):
                        score += psi[j, row, a, i] * w[i]
                        for k in range(d):
                            score += variance_weight * w[i] * Sigma[j, row, a, i, k] * w[k]
                    if score > best:
                        best, policy, action = score, j, a
        for j in (policy, K - 1):
            for i in range(d):
                psi[j, rows[n], action, i] += 0.5 * (0.95 * psi[j, rows[n + 1], action, i] - psi[j, rows[n], action, i])
                for k in range(d):
                    Sigma[j, rows[n], action, i, k] *= 0.9
        checksum += best
    return checksum


def dense_step_seconds(policies: int, n_rows: int = 4_000, steps: int = 4_000) -> float:
    """CPU seconds a step of the dense kernel, over as many rows as one task visits."""
    rng = np.random.default_rng(0)
    psi = rng.random((policies, n_rows, 4, 5))
    Sigma = rng.random((policies, n_rows, 4, 5, 5))
    rows = rng.integers(n_rows, size=steps + 1)
    dense_steps(psi, Sigma, np.ones(5), rows[:3], -2.0)
    begin = time.process_time()
    dense_steps(psi, Sigma, np.ones(5), rows, -2.0)
    return (time.process_time() - begin) / steps


def main() -> None:
    """Run all and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=128)
    parser.add_argument("--curve", type=int, default=0, help="also run this many tasks and print the cost per step")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    for beta in (-2.0, 0.0):
        run(beta, "independent", 2, 100)  # compiles
    results: dict[str, Any] = {"tasks": options.tasks, "steps": STEPS}
    for name, beta, noise in (
        ("RaSFQL independent", -2.0, "independent"),
        ("RaSFQL shared", -2.0, "shared"),
        ("SFQL independent", 0.0, "independent"),
        ("SFQL shared", 0.0, "shared"),
    ):
        seconds = run(beta, noise, options.tasks)
        early, late = seconds[6:10].mean(), seconds[-4:].mean()
        results[name] = {
            "seconds": float(seconds.sum()),
            "us_per_step": 1e6 * float(seconds.mean()) / STEPS,
            "us_per_step_at_8": 1e6 * float(early) / STEPS,
            "us_per_step_at_the_end": 1e6 * float(late) / STEPS,
            "end_over_8_policies": float(late / early),
        }
    results["peak_gb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    rooms = FourRoom()
    tasks = rooms.random_tasks(options.tasks, np.random.default_rng(0))
    prql.train(rooms, tasks[:2], steps_per_task=100, omega=-2.0, eta=0.3, tau=10.0, noise_scale=0.01, seed=0)
    begin = time.process_time()
    prql.train(rooms, tasks, steps_per_task=STEPS, omega=-2.0, eta=0.3, tau=10.0, noise_scale=0.01, seed=0)
    results["RaPRQL"] = {"seconds": time.process_time() - begin}
    dense = np.mean([dense_step_seconds(k) for k in (options.tasks // 4, options.tasks // 2, 3 * options.tasks // 4)])
    results["dense kernel"] = {"us_per_step": 1e6 * float(dense)}
    results["dense_over_ours"] = 1e6 * float(dense) / results["RaSFQL independent"]["us_per_step"]
    if options.curve:
        seconds = run(-2.0, "independent", options.curve)
        results["cost_curve"] = {
            str(t): 1e6 * float(seconds[t - 4 : t].mean()) / STEPS
            for t in (8, 32, 128, 256, 512, 1000)
            if t <= options.curve
        }
        results["cost_curve_peak_gb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(json.dumps(results, indent=2))
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
