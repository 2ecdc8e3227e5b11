"""Groups of states in which actions end episodes at similar rates.

An *ending* is a feature vector with which episodes terminate, such as the features of a crash. States form a group if
they have equal values in the observation entries on which endings depend. These entries are selected by the marginal
likelihood of the data. `strength` estimates from a likelihood how similar the states of a group are.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
from scipy.special import betaln, gammaln

from rasf.arrays import Floats, Ints

STRENGTHS = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0)  # candidate weights of a prior, as numbers of tries
_MOST_NUMBERS = 3  # largest number of observation entries that define the groups
_PAIRED = 20  # number of the most promising entries that are also tested in pairs
_SURE = 8.0  # differences of log likelihoods up to this size are ignored


def numbers_that_matter(keys: Floats, tries: Floats, endings: Floats) -> tuple[int, ...]:
    """Return the indices of the observation entries that best predict endings, () if none does.

    Entries are added one at a time or in pairs: in a grid, the row may matter only together with the column. Selection
    stops when the best candidate raises the log marginal likelihood by no more than log(number of candidates) +
    `_SURE`, because the best of many candidates raises it somewhat by chance.

    Args:
        keys: observations (S, n) of the states.
        tries: how often each action was taken in each state (S, A).
        endings: how many of these tries had each of the E endings (S, A, E).
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
    """Return the weight of a prior with given failure rates, as a number of tries.

    The number of failures of every state and action is modelled as beta-binomial. The result is the smallest weight
    that makes the data nearly as likely as the best weight does. The result is large if the states of a group have
    similar failure rates, and small if the rates differ or there are few data. The smallest weight is used because a
    strong prior would make all states of a mixed group (safe and dangerous states) look dangerous and prevent
    exploration.

    Args:
        tries: how often each action was taken in each state (S, A).
        failures: how many of these tries failed (S, A).
        rate: failure rates of the prior (S, A).
        most: upper limit of the weight.
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
    """Return the log marginal likelihood of all endings, given the group ids (S,) of the states.

    The endings of each group and action are Dirichlet-multinomial. The mean of the prior is the share of each
    ending in all data, and its weight is one try. So a group without endings hardly lowers the likelihood, and endings
    that are concentrated in few groups raise the likelihood.
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
