"""Construction of return distributions by their kind."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rasf.agents import LawKind
from rasf.deep.laws import Histogram, Law, MeanCovariance, MeanOnly
from rasf.deep.low_rank import RANK, MeanLowRank


def make_law(
    kind: LawKind,
    features: int,
    atoms: npt.ArrayLike | None = None,
    events: tuple[int, ...] = (),
    rank: int | None = None,
    timed: bool = False,
    mean_networks: int = 2,
) -> Law:
    """Return the return distribution of a kind. `events` and all that follows are for `MeanLowRank` only.

    Args:
        kind: The kind.
        features: Number d of features.
        atoms: Atoms (d, N) of histograms. Default: none.
        events: Indices of events: rare features that are never negative. Default: none.
        rank: Rank of the covariance's factors. Default: 2, or d - 1 if that is smaller.
        timed: Whether there is a time limit. Default: False.
        mean_networks: Networks of the mean. Default: 2.
    """
    if kind is LawKind.MEAN_LOW_RANK:
        rank = min(RANK, features - 1) if rank is None else rank
        return MeanLowRank(features, events, rank, timed, mean_networks)
    if kind is LawKind.HISTOGRAM:
        return Histogram(tuple(map(tuple, np.asarray(atoms, np.float64).tolist())))
    return {LawKind.MEAN: MeanOnly, LawKind.MEAN_COVARIANCE: MeanCovariance}[kind](features)
