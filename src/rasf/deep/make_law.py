"""The return distribution of a kind, for sizes that are given."""

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
) -> Law:
    """Make the distribution of this kind.

    atoms: (d, N), of histograms. Of `MeanLowRank` only, events: rare features; rank: of the covariance, 2 by default,
    or less where so few features need no more; timed: whether there is a time limit.
    """
    if kind is LawKind.MEAN_LOW_RANK:
        return MeanLowRank(features, events, min(RANK, features - 1) if rank is None else rank, timed)
    if kind is LawKind.HISTOGRAM:
        return Histogram(tuple(map(tuple, np.asarray(atoms, np.float64).tolist())))
    return {LawKind.MEAN: MeanOnly, LawKind.MEAN_COVARIANCE: MeanCovariance}[kind](features)
