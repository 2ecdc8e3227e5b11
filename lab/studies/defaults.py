"""What a stranger gets who sets nothing: known environments, defaults alone, several seeds, unseen weightings.

    python lab/studies/defaults.py lander minecart cartpole --seeds 5 --out defaults.jsonl

Nothing is set but the steps. Each run trains a library with `rasf.learn` and acts by it, neutrally and averse to risk,
on weightings that it was not trained for. A line of JSON says what came of it; `--table` prints what a file holds, with
95 % bootstrap intervals over seeds.
"""

import argparse
import json
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import rasf
from rasf.statistics import mean_interval


@dataclass(frozen=True)
class Case:
    """An environment, its training weightings and steps, and what it is asked afterwards."""

    env: str
    tasks: list[list[float]]
    steps_per_task: int
    unseen: list[list[float]]
    failure: Callable | None = None
    phi: Callable | None = None
    averse: float = -1.0
    episodes: int = 20
    max_steps: int = 1_000


def crashed(step):
    """The lander's -100, as it comes to rest on anything but its legs."""
    return step.phi[0] <= -50


def collided(step):
    """A car's."""
    return bool(step.info.get("crashed", False))


def lake(obs, action, next_obs, info):
    """Steps, the goal, holes."""
    return [1.0, float(next_obs == 15), float(next_obs in (5, 7, 11, 12))]


lake.bounds = [(0, 1)] * 3


def pole(obs, action, next_obs, info):
    """Upright, centred, still."""
    return [1.0, -abs(float(next_obs[0])) / 2.4, -abs(float(next_obs[3])) / 4]


pole.bounds = [(0, 1), (-2, 0), (-9, 0)]

CASES = {
    "lander": Case(
        "mo-lunar-lander-v3", [[1, 1, 0.1, 0.01], [1, 0.5, 0.3, 0.03], [1, 1, 0.6, 0.2]], 100_000,
        [[1, 0.8, 0.2, 0.1], [1, 1, 0.4, 0.02], [1, 0.7, 0.5, 0.05]], crashed, averse=-0.02,
    ),
    "minecart": Case(
        "minecart-v0", [[1, 0, 0.1], [0, 1, 0.1], [1, 1, 0.05]], 60_000,
        [[0.7, 0.3, 0.2], [0.3, 0.7, 0.2], [0.5, 0.5, 0.05]],
    ),
    "highway": Case(
        "mo-highway-fast-v0", [[1, 0.2, 1], [0.4, 0.6, 1], [0.3, 0.1, 2]], 5_000,
        [[0.4, 0.1, 1], [1, 0.2, 3], [0.2, 0.8, 0.5]], collided, averse=-4.0,
    ),
    "cartpole": Case(
        "CartPole-v1", [[1, 0, 0], [1, 0.5, 0], [1, 0, 0.5]], 20_000, [[1, 0.2, 0.2], [1, 0.4, 0], [1, 0, 0.3]],
        phi=pole, max_steps=500,
    ),
    "frozenlake": Case(
        "FrozenLake-v1", [[-0.01, 1, 0], [-0.05, 1, -1]], 20_000, [[-0.01, 1, -0.5], [-0.02, 1, 0], [-0.03, 1, -1]],
        lambda step: bool(step.phi[2]), lake,
    ),
}  # fmt: skip


def run(name, seed):
    """Train and act."""
    case = CASES[name]
    begin = time.perf_counter()
    library = rasf.learn(
        case.env, tasks=case.tasks, steps_per_task=case.steps_per_task, seed=seed, failure=case.failure, phi=case.phi
    )
    seconds = time.perf_counter() - begin
    found = {
        "case": name, "seed": seed, "agent": str(library.agent), "seconds": round(seconds, 1),
        "steps": case.steps_per_task * len(case.tasks), "notes": list(library.notes), "acting": [],
    }  # fmt: skip
    for w in case.unseen:
        for beta in (0.0, case.averse):
            told = library.evaluate(
                case.env, w, rasf.MeanVariance(beta), episodes=case.episodes, seed=1_000 + seed, phi=case.phi,
                failure=case.failure, max_steps=case.max_steps,
            )  # fmt: skip
            failures = None if told.failures is None else float(np.mean(told.failures))
            found["acting"].append(
                {"w": w, "beta": beta, "return": float(told.returns.mean()), "std": float(told.returns.std()),
                 "failures": failures, "length": float(told.lengths.mean()), "phi": told.phi.mean(axis=0).tolist()}
            )  # fmt: skip
    return found


def table(path):
    """What a file of runs says, a row for each case and risk; means over weightings, intervals over seeds."""
    runs = [json.loads(line) for line in path.read_text().splitlines()]
    rows = ["| case | seeds | steps | seconds | acting | return | failures an episode | length |", "| --- " * 8 + "|"]
    for name in dict.fromkeys(one["case"] for one in runs):
        of_case = [one for one in runs if one["case"] == name]
        for beta in dict.fromkeys(act["beta"] for act in of_case[0]["acting"]):
            cells = []
            for measure in ("return", "failures", "length"):
                each = [[act[measure] for act in one["acting"] if act["beta"] == beta] for one in of_case]
                if each[0][0] is None:
                    cells.append("-")
                    continue
                values = np.mean(each, axis=1)
                low, high = mean_interval(values)[-2:] if len(values) > 1 else (np.nan, np.nan)
                cells.append(f"{values.mean():.3g} [{low:.3g}, {high:.3g}]")
            seconds = np.mean([one["seconds"] for one in of_case])
            start = f"{name} | {len(of_case)} | {of_case[0]['steps']:,} | {seconds:.0f} | {beta:g}"
            rows.append(f"| {start} | {' | '.join(cells)} |")
    return "\n".join(rows)


def main():
    """From the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", choices=[*CASES, []], default=[])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("defaults.jsonl"))
    parser.add_argument("--table", action="store_true", help="print what --out holds")
    given = parser.parse_args()
    warnings.filterwarnings("ignore", module="gymnasium|highway_env|mo_gymnasium")
    for seed in range(given.seeds):
        for name in given.cases:
            found = run(name, seed)
            with given.out.open("a") as file:
                file.write(json.dumps(found) + "\n")
            means = {beta: np.mean([one["return"] for one in found["acting"] if one["beta"] == beta]) for beta in
                     {one["beta"] for one in found["acting"]}}  # fmt: skip
            print(name, seed, found["agent"], found["seconds"], "s", means, flush=True)
    if given.table:
        print(table(given.out))


if __name__ == "__main__":
    main()
