"""Compute numbers from four-room runs: curves over the training tasks, and results on 27 novel tasks.

A curve has the results of runs that differ only in the seed. The name of a curve begins with the algorithm and ends
with beta or, for PRQL, with omega. Where the paper can be read in several ways, words in between name the reading:

    sfql independent -2     the initial tables of each policy have their own random noise
    sfql shared -2          the initial tables of all policies have the same noise
    sfql w-given -2         w is given, not learned
    sfql diagonal -2        only the diagonal of Sigma is learned
    prql -2
    prql c-step-0.1 -2      PRQL's risk table C learns with step size 0.1, not 0.05
    prql as-printed -2      a use of a policy is counted before its episode, not after it
    q-learning

beta is the factor of the whole variance, as in the paper's experiments: beta = -2 is MeanVariance(-4). PRQL scores an
action by Q - omega C, from its action value Q and its risk C. Agents trained at beta 0 and -2 act on the novel tasks in
three ways (`WAYS`): "neutral" at beta 0, "averse" at beta -2, and "aware" (of the discount) at beta -2 gamma^t in step
t, since the remaining return is discounted by gamma^t. In shapes, d is the number of features.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from rasf.arrays import Bools, Floats
from rasf.envs.four_room import CLASSES, TRAP, FourRoom
from rasf.risk import MeanVariance
from rasf.statistics import mean_interval, standard_error
from rasf_lab.common.results import Numbers

RISKS = (0.0, -0.5, -1.0, -2.0, -4.0)
AVERSE = MeanVariance.from_paper(-2.0)
WAYS = ("neutral", "averse", "aware")
NOVEL_TASKS = np.array(list(product((-1.0, 0.0, 1.0), repeat=3)))

Arrays = dict[str, Floats]
Pair = tuple[float, float]  # eta and tau of PRQL

# Each row is a choice that the paper leaves open. It has, in words, the reading that is not ours; then the curve of our
# reading, and the curve of the other reading.
CHOICES = (
    ("w is given, not learned", "sfql independent 0", "sfql w-given 0"),
    ("w is given, not learned", "sfql independent -2", "sfql w-given -2"),
    ("all policies begin with the same noise", "sfql independent 0", "sfql shared 0"),
    ("all policies begin with the same noise", "sfql independent -2", "sfql shared -2"),
    ("Sigma is diagonal", "sfql independent -2", "sfql diagonal -2"),
    ("PRQL's risk table C learns with step size 0.1, not 0.05", "prql -2", "prql c-step-0.1 -2"),
    ("PRQL's risk table C learns with step size 0.1, not 0.05", "prql -4", "prql c-step-0.1 -4"),
    ("PRQL counts a use of a policy before the episode, not after it", "prql 0", "prql as-printed 0"),
    ("PRQL counts a use of a policy before the episode, not after it", "prql -2", "prql as-printed -2"),
)


def curve_summary(arrays: Arrays) -> dict[str, Arrays]:
    """Return means and standard errors over seeds, per task and cumulative.

    `arrays` has return and failures (seeds, tasks).
    """
    found: dict[str, Arrays] = {"return": {}, "failures": {}}
    for name, shown in found.items():
        for prefix, values in (("", arrays[name]), ("cumulative_", arrays[name].cumsum(axis=1))):
            shown[f"{prefix}mean"] = values.mean(axis=0).round(3)  # figures show at most three decimals
            shown[f"{prefix}se"] = standard_error(values).round(3)
    return found


def choices(curves: dict[str, Arrays]) -> list[Numbers]:
    """Return for each of CHOICES how total return and failures change from our reading to the other, paired by seed."""
    rows = []
    for words, ours, other in CHOICES:
        n = len(curves[other]["return"])  # the other reading may have fewer seeds than ours
        row: Numbers = {"choice": words, "of": ours, "to": other, "seeds": n}
        for what in ("return", "failures"):
            before, after = (curves[name][what][:n].sum(axis=1) for name in (ours, other))
            row[what] = {"before": before.mean(), "after": after.mean(), "change": mean_interval(after - before)}
        rows.append(row)
    return rows


def search_summary(search: dict[Pair, Floats]) -> list[Numbers]:
    """Return the mean total return for every eta and tau of a search.

    Args:
        search: total returns (seeds,), by (eta, tau).
    """
    return [{"eta": eta, "tau": tau, "return": round(float(found.mean()), 1)} for (eta, tau), found in search.items()]


def novel_summary(arrays: Arrays) -> Numbers:
    """Return for each of WAYS the visits per rollout (27, cells), and means and standard errors of `novel_outcome`."""
    found: Numbers = {}
    for way in WAYS:
        features = arrays[f"features_{way}"]
        found[way] = {"visits": np.round(arrays[f"visits_{way}"].mean(axis=0) / features.shape[2], 4)}
        for name, values in novel_outcome(features).items():
            found[way][name] = {"mean": float(values.mean()), "se": float(standard_error(values))}
    return found


def novel_outcome(features: Floats) -> Arrays:
    """Return four measures (seeds,), each a mean over the novel tasks.

    The measures of a task are the mean return, the variance of the return over rollouts, failures per rollout, and the
    paper's objective, mean - 2 x variance.

    Args:
        features: the sum of the features of each rollout (seeds, 27, rollouts, d).
    """
    rooms = FourRoom()
    weights = np.stack([rooms.task(rewards) for rewards in NOVEL_TASKS])
    returns = np.einsum("snrd,nd->snr", features, weights)
    mean, variance = returns.mean(axis=2), returns.var(axis=2)
    return {
        "return": mean.mean(axis=1),
        "variance": variance.mean(axis=1),
        "failures": features[..., -1].mean(axis=(1, 2)),
        "objective": np.asarray(AVERSE.moments(mean, variance)).mean(axis=1),
    }


def trap_cells() -> Bools:
    """Return a mask (cells,) of the traps."""
    return np.array([symbol == TRAP for symbol in FourRoom().cells])


def dangerous_objects() -> Bools:
    """Return a mask (cells,) of the objects with a trap next to them."""
    rooms = FourRoom()
    traps = np.pad(trap_cells().reshape(rooms.shape), 1)
    beside = traps[:-2, 1:-1] | traps[2:, 1:-1] | traps[1:-1, :-2] | traps[1:-1, 2:]
    objects = np.array([symbol in CLASSES for symbol in rooms.cells])
    return objects & beside.ravel()
