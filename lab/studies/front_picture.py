"""Draw lab/notes/reacher_front.png: return against failures over the acting beta, ours beside the paper's agents.

    .venv/bin/python lab/studies/front_picture.py

What is drawn are runs on an H200 by lab/studies/reacher_variants.py, kept in lab/studies/data, and the shipped results.
"""

import json
from pathlib import Path

import matplotlib as mpl
import numpy as np

from rasf.envs.reacher.world import TRAINING_TARGETS
from rasf_lab.common.results import shipped

HERE = Path(__file__).parent
OURS = {
    "settled, all other targets imagined": "ours, third round, 240,000 steps",
    "expected, sines of three times the frequency": "ours, 240,000 steps",
    "settled, finer sines, failures as they came, 800,000 steps": "ours, 800,000 steps",
}
PAPERS = {"rasfc51": "RaSFC51, 800,000 steps, trained for each beta", "rac51": "RaC51, the same"}
BETAS = (0, -1, -2, -3, -4)


def of_paper(agent):
    """Return and failures of the paper's agent, trained and acting at each beta."""
    agents = shipped()["reacher"].numbers["agents"]
    found = [agents[f"{agent} {beta}"] for beta in BETAS]
    tests = slice(len(TRAINING_TARGETS), None)
    returns = [np.mean(one["final_return"]["mean"][tests]) for one in found]
    return returns, [np.sum(one["final_failures"]["mean"][tests]) for one in found]


def main():
    """Draw and save."""
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    runs = {one["variant"]: one for one in json.loads((HERE / "data" / "reacher_variants.json").read_text())}
    figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
    for name, label in OURS.items():
        one = runs[name]
        returns, failures = np.array(one["return"]), np.array(one["failures"])
        axes.plot(failures.mean(axis=1), returns.mean(axis=1), "o-", label=f"{label} ({one['seeds']} seeds)")
    for agent, label in PAPERS.items():
        returns, failures = of_paper(agent)
        axes.plot(failures, returns, "s--", alpha=0.7, label=label)
    axes.set(xlabel="failures on the eight test tasks", ylabel="normalised return on the test tasks", ylim=(0.15, 1.0))
    axes.legend(loc="lower right", fontsize=8)
    axes.grid(alpha=0.3)
    figure.savefig(HERE.parent / "notes" / "reacher_front.png", dpi=150)


if __name__ == "__main__":
    main()
