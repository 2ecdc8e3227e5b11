"""Construction of `Law` objects, which define how networks represent return distributions."""

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
    """Return the `Law` object for a kind of return distribution.

    Only `MeanLowRank` uses the arguments from `events` on.

    Args:
        kind: The kind of distribution.
        features: Number d of features.
        atoms: N values of each feature's histogram, (d, N). Required for histograms, not used otherwise.
        events: Indices of the rare features that are never negative. Default: none.
        rank: Rank of the matrix that is added to the diagonal of the covariance. Default: the smaller of 2 and d - 1.
        timed: Whether episodes have a time limit. Default: False.
        mean_networks: Number of networks that learn the mean. Default: 2.
    """
    if kind is LawKind.MEAN_LOW_RANK:
        rank = min(RANK, features - 1) if rank is None else rank
        return MeanLowRank(features, events, rank, timed, mean_networks)
    if kind is LawKind.HISTOGRAM:
        return Histogram(tuple(map(tuple, np.asarray(atoms, np.float64).tolist())))
    return {LawKind.MEAN: MeanOnly, LawKind.MEAN_COVARIANCE: MeanCovariance}[kind](features)
