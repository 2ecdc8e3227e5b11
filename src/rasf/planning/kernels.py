"""Compiled loops over the transitions of a FiniteMDP; everything else in `planning` is numpy.

Kernels that call one another live in this file: numba's on-disk cache does not notice a change in another file.
"""

from __future__ import annotations

import math

import numba
import numpy as np

from rasf.mdp import Floats, Ints

# Below this, mean + (beta / 2) variance equals the utility to rounding.
_TINY_SPREAD = 1e-8


@numba.njit(parallel=True, cache=True)
def backup(
    indptr: Ints,
    successor: Ints,
    probability: Floats,
    reward: Floats,
    value: Floats,
    beta: float,
    gamma: float,
    q: Floats,
) -> None:
    """q[row] = U_beta[r + gamma value(s')], 0 on empty rows; values may be infinite.

    The same three regimes as `risk.entropic`: log-sum-exp, log1p of expm1, and the limit.
    """
    for row in numba.prange(len(indptr) - 1):
        begin, end = indptr[row], indptr[row + 1]
        if begin == end:
            q[row] = 0.0
            continue
        mean, low, high = 0.0, np.inf, -np.inf
        for k in range(begin, end):
            x = reward[k] + gamma * value[successor[k]]
            mean += probability[k] * x
            low, high = min(low, x), max(high, x)
        if beta == 0.0:
            q[row] = mean
            continue
        spread = abs(beta) * (high - low)
        total = 0.0
        if spread < _TINY_SPREAD:
            for k in range(begin, end):
                x = reward[k] + gamma * value[successor[k]]
                total += probability[k] * (x - mean) ** 2
            q[row] = mean + beta / 2 * total
        elif spread < 1.0:
            for k in range(begin, end):
                x = reward[k] + gamma * value[successor[k]]
                total += probability[k] * math.expm1(beta * (x - mean))
            q[row] = mean + math.log1p(total) / beta
        else:
            top = max(beta * low, beta * high)
            if math.isinf(top):
                q[row] = top / beta
                continue
            for k in range(begin, end):
                x = reward[k] + gamma * value[successor[k]]
                total += probability[k] * math.exp(beta * x - top)
            q[row] = (top + math.log(total)) / beta


@numba.njit(parallel=True, cache=True)
def best_linear(
    indptr: Ints,
    successor: Ints,
    weight: Floats,
    offset: Floats,
    x: Floats,
    scale: float,
    n_actions: int,
    smallest: bool,
    best: Floats,
) -> None:
    """best[s] = the largest (or smallest) over actions of offset[row] + scale sum_k weight[k] x[successor[k]].

    One pass over the transitions: a neutral backup as it stands, an entropic one between exp and log.
    """
    for s in numba.prange(len(best)):
        chosen = np.inf if smallest else -np.inf
        for row in range(s * n_actions, (s + 1) * n_actions):
            total = 0.0
            for k in range(indptr[row], indptr[row + 1]):
                total += weight[k] * x[successor[k]]
            total = offset[row] + scale * total
            chosen = min(chosen, total) if smallest else max(chosen, total)
        best[s] = chosen
