"""Kill `rasf train` at random moments and start it again: its library must have the bits of an undisturbed run.

    python lab/robustness/kills.py [--kills 100] [--seed 0] [--only fused]

Five trainings (tables, a model, networks with moments, networks with histograms, the fused loop of the reacher), each
killed with SIGKILL a fifth of the times. Prints a line for each training: kills, resumptions, and whether the arrays of
the library, its history and its log are equal to those of a run that was left alone. Exit code 1 if any differs.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import rasf

SMALL = ["--set", "batch=8", "--set", "widths=16"]
TRAININGS = {
    "tables": ["resource-gathering-v0", "--w", "1,1,1", "--w", "1,.5,.5", "--agent", "rasfql"],
    "model": ["resource-gathering-v0", "--w", "1,1,1", "--w", "1,.5,.5", "--agent", "rasf-model"],
    "moments": ["minecart-v0", "--w", "1,0,.1", "--w", "0,1,.1", "--agent", "rasfdqn", "--num-envs", "2", *SMALL],
    "histograms": ["minecart-v0", "--w", "1,0,.1", "--w", "0,1,.1", "--agent", "rasfc51", "--set", "atoms=7", *SMALL],
    "fused": ["rasf/Reacher-v0", "--tasks", "2", "--agent", "rasfc51", "--set", "atoms=7", *SMALL],
}
STEPS = {"tables": 400_000, "model": 150_000, "moments": 20_000, "histograms": 20_000, "fused": 60_000}


def main() -> int:
    """All trainings; 1 if any of them differs."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=TRAININGS, help="one training, which then has all the kills")
    given = parser.parse_args()
    rng, worst = random.Random(given.seed), 0
    with tempfile.TemporaryDirectory() as folder:
        for name in [given.only] if given.only else TRAININGS:
            kills = given.kills if given.only else given.kills // len(TRAININGS)
            worst = max(worst, tried(name, Path(folder), kills, rng))
    return worst


def tried(name: str, folder: Path, kills: int, rng: random.Random) -> int:
    """Kill one training so many times; 1 if its library differs from that of an undisturbed run."""
    alone, killed = folder / f"{name}-alone.rasf", folder / f"{name}-killed.rasf"
    begin = time.monotonic()
    run(name, alone).wait()
    undisturbed = time.monotonic() - begin
    begin, resumed, done = time.monotonic(), 0, 0
    while not killed.exists():
        process = run(name, killed)
        if done < kills:
            try:
                process.wait(rng.uniform(0.5, min(45.0, undisturbed)))
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                done += 1
        out = process.communicate()[0]
        resumed += "it goes on from" in out
        if process.returncode not in (0, -signal.SIGKILL):
            print(f"{name}: exit code {process.returncode}: {out}")
            return 1
        if killed.exists() and done < kills:  # it ended before it was killed often enough
            killed.unlink()
    differs = [part for part, array in parts(alone).items() if not np.array_equal(parts(killed)[part], array)]
    left = sorted(path.name for path in folder.iterdir() if path.name.lstrip(".").startswith(f"{name}-killed"))
    seconds = time.monotonic() - begin
    print(
        f"{name}: {done} kills, {resumed} resumptions, {undisturbed:.0f} s undisturbed, {seconds:.0f} s with kills: "
        + (f"differs in {', '.join(differs)}" if differs else "equal to the bit")
        + f"; files left: {', '.join(left)}",
        flush=True,
    )
    return int(bool(differs))


def run(name: str, out: Path) -> subprocess.Popen[str]:
    """Start a training that writes to `out`."""
    command = [sys.executable, "-m", "rasf", "train", *TRAININGS[name], "--steps-per-task", str(STEPS[name])]
    command += ["--out", str(out), "--checkpoint-seconds", ".5"]
    return subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def parts(path: Path) -> dict[str, np.ndarray]:
    """All arrays of a library and what its log says, without times."""
    library = rasf.load(path)
    found = dict(library.sources.arrays()) | {f"history {name}": part for name, part in library.history.items()}
    lines = [json.loads(line) for line in path.with_suffix(".log.jsonl").read_text().splitlines()]
    columns = ("policy", "step", "return", "greedy_return", "loss")
    found["log"] = np.array([[line[name] for name in columns] for line in lines], float)
    return {name: np.nan_to_num(part, nan=-1e30) for name, part in found.items()}


if __name__ == "__main__":
    sys.exit(main())
