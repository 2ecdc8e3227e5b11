"""Resource-gathering from logs alone: nobody may learn by dying, but there are records of those who walked before.

Two policies are recorded: one that walks at random, and a mediocre one that goes for the gem by a sure path and strays
three times in ten. From their records, and never stepping the world, `rasf.learn_from` makes a library for the
weightings and risks of resource_gathering.py. It says what the records cover, what every policy promises and how sure
that is; then, since this is a simulation, we look: the library from logs and one that lived in the world for as many
steps act on the same new weightings.
"""

import tempfile
from pathlib import Path

import mo_gymnasium
import numpy as np

import rasf
from resource_gathering import ACTING, ENV, NEW, TRAINED, killed
from showing import show, table

UP, DOWN, LEFT, RIGHT = range(4)
TO_THE_GEM = [RIGHT, RIGHT, UP, UP, UP, DOWN, DOWN, DOWN, LEFT, LEFT]


def record(folder: Path, steps: int, seed: int) -> None:
    """Half of the steps at random, half by the mediocre policy, as two people might have left them."""
    rng = np.random.default_rng([seed, 9])
    with rasf.Recorder(mo_gymnasium.make(ENV), folder) as env:
        for who in ("random", "mediocre"):
            env.reset(seed=seed)
            way = 0
            for _ in range(steps // 2):
                strays = who == "random" or rng.random() < 0.3
                action = int(rng.integers(4)) if strays else TO_THE_GEM[way % len(TO_THE_GEM)]
                _, _, terminated, truncated, _ = env.step(action)
                way += 1
                if terminated or truncated or way > 200:
                    env.reset()
                    way = 0


def main(quick: bool = False, seed: int = 0) -> str:
    """Learning from logs against learning by living, on resource-gathering-v0."""
    steps, episodes = (1_500, 20) if quick else (150_000, 500)
    given = {"tasks": TRAINED, "risk": list(ACTING.values()), "gamma": 0.9, "seed": seed}
    with tempfile.TemporaryDirectory() as folder:
        record(Path(folder), steps, seed)
        from_log = rasf.learn_from(folder, **given)
        promised = {str(w): from_log.evaluate_from(folder, w, ACTING["averse"], resamples=50) for w in NEW}
    wander = {"epsilon": 0.5, "margin": 100.0}
    lived = rasf.learn(ENV, agent="rasf-model", steps_per_task=steps // len(TRAINED), **wander, **given)
    found = {}
    for w in NEW:
        reports = {
            f"{acting}, {who}": report
            for who, library in (("log", from_log), ("lived", lived))
            for acting, report in library.compare(ENV, w, ACTING, episodes, seed=seed, failure=killed).reports.items()
        }
        found[str(w)] = reports
    held = sum(
        promised[w].mean.low <= found[w]["averse, log"].discounted.mean() + 1e-9
        and found[w]["averse, log"].discounted.mean() <= promised[w].mean.high + 1e-9
        for w in found
    )
    return (
        f"{table(found)}\n\n"
        f"{from_log.notes[0][0].upper()}{from_log.notes[0][1:]}. What the log promised for averse acting on new "
        f"weightings came true in {held} of {len(NEW)}: the mean was within its interval."
    )


if __name__ == "__main__":
    show(main)
