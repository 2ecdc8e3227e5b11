"""Which states are alike in how actions end there: by the numbers of their observation that endings depend on.

Both questions, which numbers and how far the states of a group agree, are put to the data by marginal likelihoods.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
from scipy.special import betaln, gammaln

from rasf.arrays import Floats, Ints

STRENGTHS = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0)  # of a prior, in tries
_MOST_NUMBERS = 3  # of an observation, that a group is made of
_PAIRED = 20  # numbers that are tried in pairs
_SURE = 8.0  # nats


def numbers_that_matter(keys: Floats, tries: Floats, endings: Floats) -> tuple[int, ...]:
    """The numbers of an observation that tell best how actions end, of keys (S, n); () where none does.

    tries (S, A), endings (S, A, E). One number after the other is added, or two at once, since a row may matter with
    its column only, as long as the evidence rises by more than the choice among them raises it by chance.
    """
    codes = [np.unique(column, return_inverse=True)[1] for column in keys.T]
    able = [i for i, code in enumerate(codes) if code.max(initial=0) > 0]
    chosen: tuple[int, ...] = ()
    ids: Ints = np.zeros(len(keys), np.int64)
    best = _evidence(ids, tries, endings)

    def joined(more: tuple[int, ...]) -> Ints:
        together = ids
        for i in more:
            together = together * (codes[i].max() + 1) + codes[i]
        return together

    while len(chosen) < _MOST_NUMBERS:
        left = [i for i in able if i not in chosen]
        found: dict[tuple[int, ...], float] = {(i,): _evidence(joined((i,)), tries, endings) for i in left}
        if len(chosen) + 2 <= _MOST_NUMBERS:
            likely = sorted(left, key=lambda i: -found[(i,)])[:_PAIRED]
            for pair in combinations(sorted(likely), 2):
                found[pair] = _evidence(joined(pair), tries, endings)
        if not found:
            break
        winner = max(found, key=lambda more: found[more])
        if found[winner] <= best + np.log(len(found)) + _SURE:
            break
        ids, best, chosen = joined(winner), found[winner], chosen + winner
    return tuple(sorted(chosen))


def strength(tries: Floats, failures: Floats, rate: Floats, most: float) -> float:
    """Of a prior with these rates (S, A): how many tries it is worth, `most` at most.

    From a Beta law for the failures of every state and action: the least under which they are nearly as likely as under
    any. Many where states of a group are alike, few where they are not, and while little is known: a strong prior at
    the rate of states that are not alike makes all of them look dangerous, and nothing would ever be found out.
    """
    there = (tries > 0) & (rate > 0) & (rate < 1)
    n, k, p = tries[there], failures[there], rate[there]

    def likely(m: float) -> float:
        a, b = m * p, m * (1 - p)
        return float(np.sum(betaln(k + a, n - k + b) - betaln(a, b)))

    found = {m: likely(m) for m in sorted({*STRENGTHS, most}) if 0 < m <= most}
    best = max(found.values(), default=0.0)
    return next((m for m in found if found[m] >= best - _SURE), most)


def _evidence(ids: Ints, tries: Floats, endings: Floats) -> float:
    """Log of the marginal likelihood of all endings for groups ids (S,): a Dirichlet law for each group and action.

    Its mean is the rate in all of the data and its weight one try, so a group in which nothing ended costs little, and
    endings that come together in few groups pay.
    """
    _, ids = np.unique(ids, return_inverse=True)
    groups, A = int(ids.max(initial=0)) + 1, tries.shape[1]
    at = (ids[:, None] * A + np.arange(A)).ravel()
    n = np.bincount(at, weights=tries.ravel(), minlength=groups * A)
    ways = endings.sum(axis=(0, 1)) > 0
    k = [np.bincount(at, weights=endings[:, :, e].ravel(), minlength=groups * A) for e in np.flatnonzero(ways)]
    counts = np.column_stack([*k, n - np.sum(k, axis=0)]) if k else n[:, None]
    weight = counts.sum(axis=0) / max(n.sum(), 1.0)
    weight = np.maximum(weight, 1e-12)
    terms = gammaln(counts + weight) - gammaln(weight)
    return float(terms.sum() - (gammaln(n + 1.0)).sum())
