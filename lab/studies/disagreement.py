"""Rule 5 of lab/notes/distributions.md: averse acting with another factor of the disagreement of the two networks.

    python lab/studies/disagreement.py out.jsonl --suite rasf-suite/suite-runs/libraries --factors 0 2 4 8

For each library of the suite's roads: the gain in CVaR(0.1) of the realised discounted returns over neutral acting, in
standard deviations of the neutral returns, by acting for CVaR(0.1) and for mean-variance -2 with each factor.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

import rasf
from distributions import EPISODES, PROBLEMS, WORST, _library_of_suite, _risk_of, _spread
from rasf.deep import low_rank
from rasf.library.trials import Trials


def main() -> None:
    """Write a line for each library."""
    ask = argparse.ArgumentParser()
    ask.add_argument("out", type=Path)
    ask.add_argument("--suite", type=Path, required=True)
    ask.add_argument("--factors", type=float, nargs="+", default=[2.0, 4.0, 8.0])
    ask.add_argument("--problems", nargs="+", default=["merge", "roundabout", "highway"])
    given = ask.parse_args()
    for seed in range(5):
        for name in given.problems:
            problem, found = PROBLEMS[name], {}
            library = rasf.load(given.suite / _library_of_suite(name, seed))
            for w in np.array(problem.unseen, float):
                trials = Trials(problem.make, EPISODES, 1_000 + seed, 10_000, problem.phi)
                neutral = trials.reports(library, w, {"neutral": (rasf.MeanVariance(0.0), {})}, None)["neutral"]
                spread = _spread(neutral.discounted)
                for factor in given.factors:
                    low_rank._DISAGREEMENT = factor
                    ways = {"cvar": (rasf.CVaR(WORST), {}), "mean-variance": (rasf.MeanVariance(-2.0), {})}
                    for way, report in trials.reports(library, w, ways, None).items():
                        gain = np.subtract(*(_risk_of("cvar", one.discounted, spread) for one in (report, neutral)))
                        failed = (report.phi[:, problem.failure[0]] != 0).mean()
                        found.setdefault(f"{way} {factor:g}", []).append([float(gain) / spread, float(failed)])
            line = {"problem": name, "seed": seed, "found": found}
            with given.out.open("a") as file:
                file.write(json.dumps(line) + "\n")
            print(name, seed, {f: np.mean(v, axis=0).round(3).tolist() for f, v in found.items()}, flush=True)


if __name__ == "__main__":
    main()
