"""GPE and GPI: score every source policy on a new task, and take the best action of the best policy.

    GPE   score_i(s, a) = risk[Psi^i(s, a) . w],  from psi and Sigma: mean psi . w, variance w' Sigma w
    GPI   pi(s) in argmax_a max_i score_i(s, a)

Psi^i(s, a) is the feature return of source policy i: its discounted sum of features, a random vector with mean psi and
covariance Sigma. Ties go to the lowest index: `gpi` takes the first of the best actions, then the first of the policies
with the best score for this action. A tabular learner follows Algorithm 1 of the paper, which selects the source policy
first and then the best action of this policy (`rasf.tabular.scores`). The two rules differ only if the best scores of
different actions are equal. Compiled kernels (`rasf.tabular`, `rasf.planning`) read one score after the other and
choose by `preferred`.

The risk-neutral case is beta = 0. For discounted returns, GPI is guaranteed to be at least as good as the source
policies only if the actions of step t are scored with beta multiplied by gamma^t (`risk.at_discount`). The moments of
stationary source policies do not depend on gamma^t. Arrays may be numpy or jax.

Learned Sigma is stored packed, (.., m): its diagonal (m = d), or its upper triangle row by row (m = d (d + 1) / 2).
`packed_indices` and `packed_weights` define this layout. K is the number of policies, S of states and A of actions.
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
    """A GPI policy: the action and the selected source policy for every state."""

    policy: Array
    source: Array


class Moments(NamedTuple):
    """Mean psi (.., d) and covariance Sigma (.., d, d) of feature returns, usually for each state and action."""

    psi: Floats
    Sigma: Floats


def gpe(psi: Array, Sigma: Array, w: Array, risk: Risk) -> Array:
    """Return the scores of return distributions on a task, from their moments.

    Args:
        psi: Means (.., d) of the feature return.
        Sigma: Covariances (.., d, d).
        w: The weights (d,) of the task.
        risk: A risk that supports moments.

    Returns:
        The scores (..).

    Raises:
        ValueError: Shapes do not fit, numbers are nan or larger than 1e90 in size (not checked in jax arrays), or the
            risk does not support moments.
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
    """Return the choices of generalised policy improvement. Ties go to the lowest index.

    Args:
        scores: Scores (K, .., A) of K policies. An action with score -inf is chosen only if all scores are -inf.

    Returns:
        The actions (..) and the selected source policies (..).

    Raises:
        ValueError: Scores have another shape or are empty, or a score is nan (not checked in jax arrays).
    """
    xp = array_namespace(scores)
    scores = reals("scores", scores) if xp is np else scores
    if scores.ndim >= 2 and 0 in (scores.shape[0], scores.shape[-1]):
        raise ValueError(f"scores must have at least one policy and one action, got shape {scores.shape}")
    if xp is np and np.isnan(scores).any():
        raise ValueError("scores must be numbers, got nan")
    policy = gpi_actions(scores)
    chosen = xp.take_along_axis(scores, policy[None, ..., None], axis=-1)[..., 0]
    return Choice(policy, xp.argmax(chosen, axis=0))


def gpi_actions(scores: Array) -> Array:
    """Return the actions (..) of `gpi`, without the source policies."""
    if scores.ndim < 2:
        raise ValueError(f"scores must have shape (K, .., A), got {scores.shape}")
    return scores.max(axis=0).argmax(axis=-1)


@compiled(_nrt=False, forceinline=True)
def preferred(score: float, index: Whole, best: float, chosen: Whole) -> bool:
    """Return whether a score replaces the best score so far: it is larger, or equal with a lower index."""
    return bool(score > best or (score == best and index < chosen))


def _moderate(name: str, given: Array) -> Array:
    """Return a numpy array. Raise an error if a number is not finite, or so large that products may overflow."""
    found = reals(name, given)
    if not float(np.abs(found).max(initial=0)) <= LARGEST:
        raise ValueError(f"{name} must be finite and at most {LARGEST:g} in size, got {shown(given)}")
    return found


@functools.cache
def _layout(d: int, diagonal: bool) -> tuple[Ints, Ints, Floats]:
    """Return, for each packed entry of Sigma, its row, its column, and how often it occurs in w' Sigma w.

    An entry occurs once or twice. Each of the three arrays has shape (m,).
    """
    rows, columns = np.diag_indices(d) if diagonal else np.triu_indices(d)
    times = np.where(rows == columns, 1.0, 2.0)
    for shared in (rows, columns, times):
        shared.flags.writeable = False
    return rows, columns, times


def packed_indices(d: int, *, diagonal: bool = False) -> tuple[Ints, Ints]:
    """Return the rows and the columns (m,) of the packed entries of Sigma."""
    return _layout(d, diagonal)[:2]


def packed_weights(w: Array, *, diagonal: bool = False) -> Array:
    """Return coefficients c (.., m) such that w' Sigma w = c . packed Sigma, for weights w (.., d)."""
    rows, columns, times = _layout(w.shape[-1], diagonal)
    if w.ndim == 1:  # indexing without the ellipsis is much faster in numpy
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
    """Return the GPI policy on a task, given the moments of source policies. This is GPE and GPI in one call.

    Args:
        psi: Means (K, S, A, d) of K policies.
        Sigma: Covariances (K, S, A, d, d).
        w: The weights (d,) of the task.
        risk: A risk that supports moments.
        discount_aware: Whether decision t is scored with `risk.at_discount(gamma^t)`, as the theorem for discounted
            returns requires. Default: False.
        gamma: Discount; needed only with `discount_aware`. Default: none.
        steps: The number of decisions; needed only with `discount_aware`. Default: none.

    Returns:
        Actions and selected source policies, each of shape (S,), or (steps, S) with `discount_aware`.

    Raises:
        ValueError: `gpe` raises an error, or gamma or steps are missing or out of range.
    """
    if not discount_aware:
        return gpi(gpe(psi, Sigma, w, risk))
    if gamma is None or steps is None:
        raise ValueError("gamma and steps must be given with discount_aware")
    discount(gamma)
    decisions("steps", steps, int(np.prod(np.shape(psi)[1:-2])))
    each = [gpi(gpe(psi, Sigma, w, risk.at_discount(gamma**t))) for t in range(steps)]
    xp = array_namespace(psi, Sigma, w)
    return Choice(xp.stack([one.policy for one in each]), xp.stack([one.source for one in each]))
