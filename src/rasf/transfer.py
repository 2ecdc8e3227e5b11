"""GPE and GPI: scoring every source policy on a new task, and acting by the best of them. The only owner of both.

    GPE   score_i(s, a) = risk[law of Psi^i(s, a) . w],  from psi and Sigma: mean psi . w, variance w' Sigma w
    GPI   pi(s) in argmax_a max_i score_i(s, a)

Every argmax takes the lowest index, so `gpi` has the lowest action, and of the policies that are best there the lowest.
While a tabular learner explores, Algorithm 1 of the paper asks for the driving policy first (`rasf.tabular.scores`).
The two differ only where the best scores of different actions are equal. Compiled kernels (`rasf.tabular`,
`rasf.planning`) look at one score after the other, and choose by `preferred`; tests hold them to `gpi`.

The risk-neutral case is beta = 0 of the same code. For discounted returns the guarantee needs scores that depend on
z = gamma^t: risk beta becomes beta z (`risk.at_discount`). That costs nothing for stationary sources, whose return
distributions do not depend on z. Arrays may be numpy or jax.

Where Sigma is learned it is kept packed, (.., m): its diagonal (m = d), or its upper triangle row by row
(m = d (d + 1) / 2). `packed_indices` and `packed_weights` are the owners of that layout.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np

from rasf.arrays import Array, Floats, Ints, Whole, array_namespace
from rasf.checks import LARGEST, decisions, discount, reals, shown
from rasf.compiled import compiled
from rasf.risk.base import Risk


class Choice(NamedTuple):
    """A GPI policy: for every state the action, and the selected source policy."""

    policy: Array
    source: Array


class Moments(NamedTuple):
    """Mean psi (.., d) and covariance Sigma (.., d, d) of feature returns, most often by state and action."""

    psi: Floats
    Sigma: Floats


def gpe(psi: Array, Sigma: Array, w: Array, risk: Risk) -> Array:
    """Score moments on a task.

    Args:
        psi: Means (.., d) of the feature return.
        Sigma: Covariances (.., d, d).
        w: The task (d,).
        risk: A risk that supports moments.

    Returns:
        The scores (..).

    Raises:
        ValueError: If shapes do not fit, numbers are not finite (jax arrays are not looked into) or beyond 1e90, or the
            risk has no score for moments.
    """
    if not isinstance(risk, Risk):
        raise ValueError(f"risk must be a risk such as rasf.MeanVariance(-1.0), got {shown(risk)}")
    xp = array_namespace(psi, Sigma, w)
    if xp is np:
        psi, Sigma, w = (_moderate(name, given) for name, given in (("psi", psi), ("Sigma", Sigma), ("w", w)))
    psi, Sigma, weights = xp.asarray(psi), xp.asarray(Sigma), xp.asarray(w)
    if psi.ndim == 0:
        raise ValueError("psi must have shape (.., d), got one number")
    if weights.shape != psi.shape[-1:]:
        raise ValueError(f"w must have shape {psi.shape[-1:]}, one weight per feature, got {weights.shape}")
    if Sigma.shape != (*psi.shape, psi.shape[-1]):
        raise ValueError(f"Sigma must have shape {(*psi.shape, psi.shape[-1])}, got {Sigma.shape}")
    variance = xp.einsum("...ij,i,j->...", Sigma, weights, weights)
    return risk.moments(psi @ weights, xp.maximum(variance, 0.0))


def gpi(scores: Array) -> Choice:
    """Choose by generalised policy improvement; ties go to the lowest index.

    Args:
        scores: (K, .., A) of K policies; -inf is never chosen before another.

    Returns:
        The policy and the source whose score is best, (..) each.

    Raises:
        ValueError: If scores have another shape, are empty or nan (jax arrays are not looked into).
    """
    xp = array_namespace(scores)
    scores = reals("scores", scores) if xp is np else scores
    if scores.ndim >= 2 and 0 in (scores.shape[0], scores.shape[-1]):
        raise ValueError(f"scores must be of one policy and one action at least, got shape {scores.shape}")
    if xp is np and np.isnan(scores).any():
        raise ValueError("scores must be numbers, got nan")
    policy = gpi_actions(scores)
    chosen = xp.take_along_axis(scores, policy[None, ..., None], axis=-1)[..., 0]
    return Choice(policy, xp.argmax(chosen, axis=0))


def gpi_actions(scores: Array) -> Array:
    """The actions (..) of `gpi` alone."""
    if scores.ndim < 2:
        raise ValueError(f"scores must have shape (K, .., A), got {scores.shape}")
    return scores.max(axis=0).argmax(axis=-1)


@compiled(_nrt=False, forceinline=True)
def preferred(score: float, index: Whole, best: float, chosen: Whole) -> bool:
    """Whether GPI in compiled code takes a score before the best so far: the larger, ties to the lowest index."""
    return bool(score > best or (score == best and index < chosen))


def _moderate(name: str, given: Array) -> Array:
    """Finite numbers whose products do not overflow, in numpy."""
    found = reals(name, given)
    if not float(np.abs(found).max(initial=0)) <= LARGEST:
        raise ValueError(f"{name} must be finite and at most {LARGEST:g} in size, got {shown(given)}")
    return found


@functools.cache
def _layout(d: int, diagonal: bool) -> tuple[Ints, Ints, Floats]:
    """Rows and columns (m,), and how often each entry counts in w' Sigma w; cached, since every action needs it."""
    rows, columns = np.diag_indices(d) if diagonal else np.triu_indices(d)
    times = np.where(rows == columns, 1.0, 2.0)
    for shared in (rows, columns, times):
        shared.flags.writeable = False
    return rows, columns, times


def packed_indices(d: int, *, diagonal: bool = False) -> tuple[Ints, Ints]:
    """Rows and columns (m,) of Sigma's packed entries."""
    return _layout(d, diagonal)[:2]


def packed_weights(w: Array, *, diagonal: bool = False) -> Array:
    """Coefficients c (.., m) with which w' Sigma w = c . packed Sigma, for weights w (.., d)."""
    rows, columns, times = _layout(w.shape[-1], diagonal)
    if w.ndim == 1:  # much quicker in numpy
        return times * w[rows] * w[columns]
    return times * w[..., rows] * w[..., columns]


def gpi_policy(
    psi: Array,
    Sigma: Array,
    w: Array,
    risk: Risk,
    *,
    discount_aware: bool = False,
    gamma: float | None = None,
    steps: int | None = None,
) -> Choice:
    """GPE and GPI in one: the policy (S,) that moments psi (K, S, A, d), Sigma (K, S, A, d, d) give on the task w.

    With `discount_aware`, one policy per decision, (steps, S), scored with the risk at gamma^t.
    """
    if not discount_aware:
        return gpi(gpe(psi, Sigma, w, risk))
    if gamma is None or steps is None:
        raise ValueError("discount_aware needs gamma and the number of steps")
    discount(gamma)
    decisions("steps", steps, int(np.prod(np.shape(psi)[1:-2])))
    each = [gpi(gpe(psi, Sigma, w, risk.at_discount(gamma**t))) for t in range(steps)]
    xp = array_namespace(psi, Sigma, w)
    return Choice(xp.stack([one.policy for one in each]), xp.stack([one.source for one in each]))
