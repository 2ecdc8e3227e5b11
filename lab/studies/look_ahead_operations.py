"""What looking ahead gains where the model is known exactly: the three problems of operations (issue 37).

    python lab/studies/look_ahead_operations.py out.jsonl --seeds 0 1 2      trains, and writes a line for each library
    python lab/studies/look_ahead_operations.py out.jsonl --table

Networks (`rasfdqn`, defaults, the suite's tasks, 20,000 steps each) act for the suite's unseen weightings, with h steps
in the true `FiniteMDP`. Their policies are evaluated exactly, by recursion over states and time, from the start state.
Two numbers for each h: the share of the gap between acting without a model (h = 0) and the exact optimum that is
closed, for the mean; and the gain in mean - |beta| / 2 variance of acting by mean-variance at beta = -1 / (neutral
standard deviation), in neutral standard deviations.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

import rasf
from rasf.envs.registration import register_environments
from rasf.library.ahead.policies import LookingAhead
from rasf.risk import MeanVariance
from rasf_lab.suite.environments import CASES

AHEAD, NEUTRAL = (0, 1, 2, 3, 5, 8, 15), MeanVariance(0.0)


def exact(library: Any, mdp: Any, limit: int, w: Any, risk: Any, ahead: int) -> tuple[float, float]:
    """Mean and variance of the discounted return of acting by GPI, from state 0."""
    sources = library.rule(w, risk, **({"model": mdp, "ahead": ahead} if ahead else {})).sources
    states, rows = np.arange(mdp.n_states), np.arange(mdp.n_states) * mdp.n_actions
    first, second = np.zeros((2, mdp.n_states))
    rewards, gamma = mdp.phi @ w, library.gamma
    for t in reversed(range(limit)):
        seen = library.encode(states, t)
        if isinstance(sources, LookingAhead):
            seen = sources.beside(seen, sources.model.rows([t] * len(states)))
        chosen = rows + np.asarray(sources.act(seen, w, risk))
        now, then = np.zeros((2, mdp.n_states))
        for s, row in enumerate(chosen):
            part = slice(mdp.indptr[row], mdp.indptr[row + 1])
            m, q, r, p = first[mdp.successor[part]], second[mdp.successor[part]], rewards[part], mdp.probability[part]
            now[s] = p @ (r + gamma * m)
            then[s] = p @ (r**2 + 2 * r * gamma * m + gamma**2 * q)
        first, second = now, then
    return float(first[0]), float(second[0] - first[0] ** 2)


def run(name: str, seed: int) -> dict[str, Any]:
    """Train a library and evaluate it at every h."""
    case, begin = CASES[name], time.perf_counter()
    make = lambda: gymnasium.make(case.env, **case.env_kwargs)  # noqa: E731
    library = rasf.learn(make, tasks=np.array(case.tasks, float), agent="rasfdqn", steps_per_task=20_000, seed=seed,
                         progress=False)  # fmt: skip
    trained = time.perf_counter() - begin
    env = make()
    mdp, limit = env.unwrapped.mdp, env.spec.max_episode_steps
    asked = []
    for w in np.array(case.unseen, float):
        neutral = exact(library, mdp, limit, w, NEUTRAL, 0)
        beta = -1 / max(neutral[1] ** 0.5, 1e-9)
        asked.append({
            "w": w.tolist(), "beta": beta, "optimum": case.optimum(w, library.gamma),
            "neutral": [exact(library, mdp, limit, w, NEUTRAL, h) for h in AHEAD],
            "averse": [exact(library, mdp, limit, w, MeanVariance(beta), h) for h in AHEAD],
        })  # fmt: skip
    return {"problem": name, "seed": seed, "trained": round(trained, 1),
            "seconds": round(time.perf_counter() - begin, 1), "limit": limit, "gamma": library.gamma,
            "asked": asked}  # fmt: skip


def table(path: Path) -> None:
    """Print the table of lab/notes/look_ahead.md."""
    found = [json.loads(line) for line in path.read_text().splitlines()]
    print("| problem | seeds | | " + " | ".join(f"h = {h}" for h in AHEAD) + " |\n|" + " --- |" * (3 + len(AHEAD)))
    for name in dict.fromkeys(one["problem"] for one in found):
        some = [one for one in found if one["problem"] == name]
        asked = [one["asked"] for one in some]
        gap = np.array([[[each["optimum"] - m for m, _ in each["neutral"]] for each in one] for one in asked])
        std = np.array([[each["neutral"][0][1] ** 0.5 for each in one] for one in asked])
        left = gap.mean(axis=1) / std.mean(axis=1)[:, None]  # (seeds, h), in standard deviations
        utility = np.array([[[m + each["beta"] / 2 * v for m, v in each["averse"]] for each in one] for one in asked])
        gain = ((utility - utility[..., :1]) / std[..., None]).mean(axis=1)
        for words, values in (("gap to the optimum", left), ("averse: gain", gain)):
            cells = [f"{v.mean():.3f} ({v.min():.3f}, {v.max():.3f})" for v in values.T]
            print(f"| {name} | {len(some)} | {words} | " + " | ".join(cells) + " |")


def main() -> None:
    """Train and evaluate, or print the table."""
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("out", type=Path)
    ask.add_argument("--seeds", type=int, nargs="+", default=[0])
    ask.add_argument("--problems", nargs="+", default=["machines", "inventory", "power"])
    ask.add_argument("--table", action="store_true")
    given = ask.parse_args()
    if given.table:
        return table(given.out)
    register_environments()
    for seed in given.seeds:
        for name in given.problems:
            found = run(name, seed)
            with given.out.open("a") as file:
                file.write(json.dumps(found) + "\n")
            print(name, seed, found["trained"], found["seconds"], flush=True)
    return None


if __name__ == "__main__":
    main()
