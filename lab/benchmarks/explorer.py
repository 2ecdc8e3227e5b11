"""How quickly the explorer's scenes answer: what a slider's move costs, and what it costs when it rests.

    python lab/benchmarks/explorer.py [--library FILE] [--draws 30] [--json FILE]

For the four-room world (a library of 64 policies, trained here, or a file), the grid and the reacher: milliseconds of
`policy` or `field`, of `cell` or `at`, and of `roll_out` with as many rollouts as the page asks for, each for weights
and a risk that are new; median and 95th percentile over random ones of every family. And seconds of a whole frontier.
Wanted on 2 cores: policy within 100 ms, rollouts within 500 ms.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from rasf.library.file import load
from rasf_explorer.scenes.four_room import FourRoomScene, train_four_room
from rasf_explorer.scenes.frontier import frontier
from rasf_explorer.scenes.grid import GridScene
from rasf_explorer.scenes.reacher import ReacherScene
from rasf_explorer.scenes.scene import MapScene, RiskFamily
from rasf_explorer.views import shipped_reacher

Asked = MapScene | ReacherScene


def episodes(scene: Asked) -> int:
    """As many as the page asks for."""
    return 500 if isinstance(scene, MapScene) else 8


def seconds(call: Callable[..., object], *arguments: object) -> float:
    """Wall seconds of one call."""
    begin = time.perf_counter()
    call(*arguments)
    return time.perf_counter() - begin


def random_weights(scene: Asked, rng: np.random.Generator) -> np.ndarray:
    """Anywhere on the sliders; for the reacher, one target and failure, as its tasks are."""
    w = np.array([rng.uniform(weight.low, weight.high) for weight in scene.weights])
    if isinstance(scene, ReacherScene):
        w[:-1] *= np.arange(len(w) - 1) == rng.integers(len(w) - 1)
    return w


def quantiles(times: list[float]) -> dict[str, float]:
    """Median and 95th percentile, in milliseconds."""
    return {"ms": 1e3 * float(np.median(times)), "ms_95_percent": 1e3 * float(np.quantile(times, 0.95))}


def answers(scene: Asked, family: RiskFamily, draws: int, rng: np.random.Generator) -> dict[str, Any]:
    """The three questions of a page, for new weights and levels; the first few of all are not counted, they compile."""
    look, why, rolled = [], [], []
    where = scene.layout.start if isinstance(scene, MapScene) else (0.1, 0.1)
    for n in range(draws + 3):
        w, risk = random_weights(scene, rng), family.make(float(rng.uniform(family.low, family.high)))
        asked = (scene.field, scene.at) if isinstance(scene, ReacherScene) else (scene.policy, scene.cell)
        times = (
            seconds(asked[0], w, risk),
            seconds(asked[1], where, w, risk),
            seconds(scene.roll_out, w, risk, episodes(scene), n),
        )
        if n >= 3:
            for kept, one in zip((look, why, rolled), times, strict=True):
                kept.append(one)
    return {
        "field" if isinstance(scene, ReacherScene) else "policy": quantiles(look),
        "at" if isinstance(scene, ReacherScene) else "cell": quantiles(why),
        "roll_out": quantiles(rolled),
    }


def measure(scene: Asked, draws: int) -> dict[str, Any]:
    """One scene, all its families, and the frontier of the first."""
    rng, w, usual = np.random.default_rng(0), scene.default_task, scene.families[0]
    found = {family.name: answers(scene, family, draws, rng) for family in scene.families}
    whole = seconds(frontier, scene, w, usual, 0, episodes(scene), lambda share, so_far: None)
    return {"policies": len(scene.policies), "episodes": episodes(scene), "frontier_s": whole, **found}


def main() -> None:
    """Run all and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", type=Path, help="a tabular library of rasf/FourRoom-v0")
    parser.add_argument("--draws", type=int, default=30)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    results: dict[str, Any] = {}
    if options.library is None:
        begin = time.perf_counter()
        library = train_four_room(lambda share: None, lambda: False)
        results["training_s"] = time.perf_counter() - begin
    else:
        library = load(options.library)
    results["four-room"] = measure(FourRoomScene(library), options.draws)
    results["grid"] = measure(GridScene(), options.draws)
    reacher = ReacherScene(shipped_reacher())
    results["warming_s"] = seconds(reacher.warm)
    results["reacher"] = measure(reacher, options.draws)
    print(json.dumps(results, indent=2))
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
