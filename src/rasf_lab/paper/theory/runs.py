"""`rasf reproduce theory`: claims T1 to T6 on random instances. One seed determines all instances."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from rasf_lab.common.results import Numbers, Result
from rasf_lab.paper.theory import measures
from rasf_lab.paper.theory.claims import judge

INSTANCES = {"quick": 50, "paper": 1_000}
_CAMPAIGNS = 8  # the number of calls in `run` that tick once for each instance


def total_ticks(preset: str) -> int:
    """Return how often `run` calls `tick`."""
    return _CAMPAIGNS * INSTANCES[preset]


def run(preset: str, seed: int, tick: Callable[[], None], folder: Path) -> Result:
    """Return the result on claims T1 to T6. Claim T7 is measured by the grid and four-room experiments."""
    begin = time.perf_counter()
    n = INSTANCES[preset]
    numbers: Numbers = {
        "lemma 1": measures.lemma_1(n, seed, tick),
        "theorem 1": measures.bounds(n, seed, optimal_sources=False, discounted=False, tick=tick),
        "theorem 2": measures.bounds(n, seed, optimal_sources=True, discounted=False, tick=tick),
        "theorem 3": measures.backup_errors(n, seed, discounted=False, tick=tick),
        "theorem 3, one step": measures.one_step(),
        "theorem 1 discounted": measures.bounds(n, seed, optimal_sources=False, discounted=True, tick=tick),
        "theorem 2 discounted": measures.bounds(n, seed, optimal_sources=True, discounted=True, tick=tick),
        "theorem 3 discounted": measures.backup_errors(n, seed, discounted=True, tick=tick),
        "scoring with z = 1": measures.forgetful_scoring(n, seed, tick),
        "quadrature": measures.penalties(),
        "figure 7": measures.figure_7(),
    }
    return Result("theory", preset, seed, time.perf_counter() - begin, numbers, judge(numbers))
