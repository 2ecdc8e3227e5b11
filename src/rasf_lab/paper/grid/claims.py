"""Check the paper's claims G1 to G5, and claim T7 as far as it is about the grid. Each function states its claim.

U is the entropic utility at beta = -0.1, U* the optimal utility, and S the start state.
"""

from __future__ import annotations

import numpy as np

from rasf.arrays import Floats
from rasf.statistics import Interval
from rasf_lab.common.results import Finding
from rasf_lab.common.verdicts import below, holds

_EXACT = 1e-9  # two utilities count as equal if they differ by less


def three_routes(routes: list[list[int]]) -> Finding:
    """Return the finding on claim G1, that the routes of both sources and of the target's optimum all differ.

    The text names each source policy by its two trap costs.
    """
    different = len({tuple(route) for route in routes}) == 3
    lengths = ", ".join(str(len(route) - 1) for route in routes)
    text = f"routes of source (20, 20), source (0, 0) and target take {lengths} moves and "
    text += "all differ" if different else "do not all differ"
    return Finding(holds(different), text, 1, f"{lengths} moves", "exact")


def optimal(utility: Floats, best: Floats, at_start: float) -> Finding:
    """Return the finding on claim G2, that risk-averse GPI is optimal in every state that GPI can reach.

    Args:
        utility: U (n,) of GPI when it starts in each of the n states that GPI can reach.
        best: U* (n,) for the same start states.
        at_start: U of GPI at the start.
    """
    gap = float(np.abs(utility - best).max())
    text = f"largest |U - U*| over {len(utility)} reachable states is {gap:.1e}; U(S) = {at_start:.4f}"
    return Finding(holds(gap <= _EXACT), text, 1, f"{gap:.0e}", "exact")


def suboptimal(got: float, ideal: float) -> Finding:
    """Return the finding on claim G3, that risk-neutral GPI is suboptimal: `got`, its U at the start, is below U*."""
    text = f"U(S) = {got:.4f} against U* = {ideal:.4f}"
    return Finding(holds(got < ideal - _EXACT), text, 1, f"{got:.2f} < {ideal:.2f}", "exact")


def stitches(differs: list[int], states: int, got: float, theirs: list[float]) -> Finding:
    """Return the finding on claim G4, that risk-averse GPI acts unlike both sources, with higher utility than both.

    Args:
        differs: for each source, the number of reachable states in which GPI takes another action.
        states: the number of reachable states.
        got: U of GPI at the start.
        theirs: U of each source at the start.
    """
    return Finding(
        holds(min(differs) > 0 and got > max(theirs) + _EXACT),
        f"differs from the sources in {differs[0]} and {differs[1]} of {states} states; "
        f"U(S) = {got:.4f} against {theirs[0]:.4f} and {theirs[1]:.4f}",
        1,
        f"{got:.2f} > {max(theirs):.2f}",
        "exact",
    )


def varies_less(returns: dict[str, Floats], hits: dict[str, dict[str, int]], seed: int) -> Finding:
    """Return the finding on claim G5, that risk-averse GPI has a lower variance of returns than risk-neutral GPI.

    The finding uses a bootstrap interval of the ratio of the variances.

    Args:
        returns: the returns of rollouts (n,), by "averse" and "neutral".
        hits: the number of hits of each trap, by "averse" and "neutral".
        seed: the bootstrap has the seed `seed` + 1.
    """
    rng, n = np.random.default_rng(seed + 1), len(returns["averse"])
    drawn = {name: values[rng.integers(n, size=(2_000, n))].var(axis=1, ddof=1) for name, values in returns.items()}
    averse, neutral = (float(returns[name].var(ddof=1)) for name in ("averse", "neutral"))
    ratio = Interval(averse / neutral, *np.quantile(drawn["averse"] / drawn["neutral"], [0.025, 0.975]).tolist())
    text = (
        f"variance {averse:.1f} against {neutral:.1f}, ratio {ratio.estimate:.2f} [{ratio.low:.2f}, {ratio.high:.2f}]"
    )
    counts = ", ".join(f"{trap}: {count} against {hits['neutral'][trap]}" for trap, count in hits["averse"].items())
    return Finding(
        below(ratio, 1.0), f"{text}; trap hits {counts}", 1, f"ratio {ratio.estimate:.2f}", f"{n:,} rollouts"
    )


def evaluation_matters(cross: dict[str, dict[str, float]], targets: int) -> Finding:
    """Return the finding on claim T7, that acting with risk adds more utility than training with risk.

    Args:
        cross: the result of `runs.cross_table`, with the mean utility of every combination of training and acting, by
            names such as "train neutral, act averse".
        targets: the number of target tasks.
    """
    u = {key: cell["mean"] for key, cell in cross.items()}
    by_act = [u[f"train {train}, act averse"] - u[f"train {train}, act neutral"] for train in ("neutral", "averse")]
    by_train = [u[f"train averse, act {act}"] - u[f"train neutral, act {act}"] for act in ("neutral", "averse")]
    act, train = float(np.mean(by_act)), float(np.mean(by_train))
    return Finding(
        holds(act > train),
        f"grid, mean U(S) over {targets} targets: evaluating with risk adds {act:.2f}, training with risk adds "
        f"{train:.2f} (" + ", ".join(f"{key}: {value:.2f}" for key, value in u.items()) + ")",
        1,
        f"{act:.2f} against {train:.2f}",
        f"{targets} target tasks, exact",
    )
