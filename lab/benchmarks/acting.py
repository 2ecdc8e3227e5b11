"""Acting with a frozen tabular library of the four-room world, on one core.

    python lab/benchmarks/acting.py [--policies 128] [--json FILE]

One decision, from an observation's numbers to an action, and batches of a million; for a (w, risk) that was met before
and for a new one, and for a risk that is compiled (mean-variance) and one that is not (CVaR). Beside each, the same by
GPE and GPI on dense arrays with numpy, whose states are already found. Medians, and ratios, because machines are noisy.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from rasf.envs.four_room import FourRoom
from rasf.library.tables.policies import TablePolicies
from rasf.risk import CVaR, MeanVariance, Risk
from rasf.tabular.frozen import make_index, states_of
from rasf.tabular.learner import SuccessorLearner
from rasf.tabular.settings import TableSettings
from rasf.transfer import gpe, gpi
from rasf_lab.paper.four_room.novel import moments_of

STEPS = 20_000
DECISIONS = 2_000
BATCH = 1_000_000

RISKS: dict[str, Callable[[int], Risk]] = {
    "MeanVariance": lambda n: MeanVariance(-4.0 - 1e-4 * n),
    "CVaR": lambda n: CVaR(0.2 + 1e-5 * n),
}


def seconds(call: Callable[[], Any]) -> float:
    """Wall seconds of one call."""
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def train(policies: int) -> tuple[SuccessorLearner, FourRoom]:
    """The paper's learner after this many tasks."""
    rooms = FourRoom()
    settings = TableSettings(learn_w=True)
    learner = SuccessorLearner(rooms.n_features, 4, settings, 0, policies, MeanVariance.from_paper(-2.0))
    for w in rooms.random_tasks(policies, np.random.default_rng(0)):
        learner.learn_task(rooms, w, STEPS)
    return learner, rooms


def one_decision(sources: TablePolicies, dense: list[tuple], obs: np.ndarray, w: np.ndarray, risk: Any) -> dict:
    """Median microseconds of a decision at random states, and where most was learned; risk(n) is one of a family."""
    once, stored = risk(-1), sources.arrays()
    fullest = stored["keys"][np.diff(stored["entries"][:: sources.n_actions]).argmax()]
    fresh = [seconds(lambda n=n: sources.act_one(obs[n], w, risk(n))) for n in range(DECISIONS)]
    first = [seconds(lambda n=n: sources.act_one(obs[n], w, once)) for n in range(DECISIONS)]
    again = [seconds(lambda n=n: sources.act_one(obs[n], w, once)) for n in range(DECISIONS)]
    slowest = [seconds(lambda n=n: sources.act_one(fullest, w, risk(n))) for n in range(DECISIONS)]
    plain = [seconds(lambda one=one: gpi(gpe(*one, w, once))) for one in dense for _ in range(5)]
    return {
        "us_new_w_and_risk": 1e6 * float(np.median(fresh)),
        "us_new_state": 1e6 * float(np.median(first)),
        "us_known_state": 1e6 * float(np.median(again)),
        "us_new_w_and_risk_at_the_fullest_state": 1e6 * float(np.median(slowest)),
        "us_new_w_and_risk_99_percent": 1e6 * float(np.quantile(fresh, 0.99)),
        "us_numpy_dense": 1e6 * float(np.median(plain)),
        "dense_over_new": float(np.median(plain) / np.median(fresh)),
    }


def batches(sources: TablePolicies, obs: np.ndarray, w: np.ndarray, risk: Any) -> dict[str, float]:
    """Decisions a second in a batch at random states: the first of a (w, risk), which scores them, and later ones."""
    first = [seconds(lambda n=n: sources.act(obs, w, risk(10**4 + n))) for n in range(5)]
    later = [seconds(lambda: sources.act(obs, w, risk(10**4))) for _ in range(5)]
    return {
        "decisions_per_s_first": len(obs) / float(np.median(first)),
        "decisions_per_s_later": len(obs) / float(np.median(later)),
    }


def look_up(n_states: int, numbers: int) -> dict[str, float]:
    """States a second: building the index of a large library, and finding them in random order."""
    rng = np.random.default_rng(0)
    keys = rng.integers(0, 13, (n_states, numbers)).astype(np.float64)
    some = keys[rng.permutation(n_states)]
    index, _ = make_index(keys)
    build = np.median([seconds(lambda: make_index(keys)) for _ in range(3)])
    find = np.median([seconds(lambda: states_of(index, some)) for _ in range(3)])
    return {"built_per_s": n_states / float(build), "found_per_s": n_states / float(find)}


def main() -> None:
    """Run all and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policies", type=int, default=128)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    learner, rooms = train(options.policies)
    sources = TablePolicies.from_learner(learner, learner.keys())
    freezing = seconds(lambda: TablePolicies.from_learner(learner, learner.keys()))
    rng = np.random.default_rng(1)
    keys, w = sources.arrays()["keys"], rooms.random_tasks(1, rng)[0]
    for risk in RISKS.values():  # compiles
        sources.act(keys[:2], w, risk(-2))
        sources.act_one(keys[0], w, risk(-2))
    chosen = rng.integers(sources.states, size=BATCH)
    moments = [[moments_of(learner, j, row) for j in range(options.policies)] for row in chosen[:100]]
    dense = [(np.array([m.psi for m in row]), np.array([m.Sigma for m in row])) for row in moments]
    results = {
        **sources.describe(),
        "megabytes": sum(array.nbytes for array in sources.arrays().values()) / 1e6,
        "freeze_s": freezing,
        "restore_s": seconds(lambda: TablePolicies.restore(sources.describe(), sources.arrays())),
        "one": {name: one_decision(sources, dense, keys[chosen], w, risk) for name, risk in RISKS.items()},
        "batch": {name: batches(sources, keys[chosen], w, risk) for name, risk in RISKS.items()},
        "look_up_1e6": look_up(10**6, sources.n_inputs),
    }
    print(json.dumps(results, indent=2))
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
