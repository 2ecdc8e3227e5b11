"""From simulated paths to the distribution of the return.

A path p is simulated for h steps and then continued by the learned return distribution Z of the source policy at the
last state, the *tail*. With the discounted sum of features F_p, the return for weights w is

    G = w . F_p + z_p w . Z,        z_p = gamma^h, or 0 if the path has terminated

Over N equally likely paths, the law of total variance gives

    mean G      mean over p of x_p,                                            x_p = w . F_p + z_p mean(w . Z)
    variance G  variance over p of x_p  +  w' C w  +  mean over p of z_p^2 variance(w . Z)

C is the covariance of the features given the path, for worlds that know this covariance (`step_moments`), else 0. In
shapes, K is the number of policies, B of observations, A of actions, N of paths for each of these, M = B A N, d of
features, and L of values of a histogram. Arrays may be numpy or jax.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rasf.arrays import Array, array_namespace

PARTS = 32  # number of equally likely values that stand for a tail


class Paths(NamedTuple):
    """Simulated paths.

    Attributes:
        features: Discounted sums (K, B, A, N, d) of the features. If `spread` is known, these are means given the path.
        spread: Covariances (K, B, A, d, d) of these sums given the path, averaged over N; None if they are 0.
        discount: The factor z (K, B, A, N) of the tail.
        obs: Encoded observations (K, M, n) in the last states.
        actions: Actions of the policies in the last states, (K, M), or (K, M, P) if actions are vectors.
    """

    features: Array
    spread: Array | None
    discount: Array
    obs: Array
    actions: Array


def path_moments(paths: Paths, w: Array, mean: Array, variance: Array) -> tuple[Array, Array]:
    """Return mean and variance (K, B, A) of the return.

    Args:
        paths: The paths.
        w: Weights (d,) of the task.
        mean: Means of the tails (K, B, A, N).
        variance: Variances of the tails (K, B, A, N).
    """
    xp = array_namespace(paths.features, mean)
    on = paths.discount > 0
    x = _of_paths(paths, w) + xp.where(on, paths.discount * mean, 0.0)
    found = xp.var(x, axis=-1) + xp.mean(xp.where(on, paths.discount**2 * variance, 0.0), axis=-1)
    if paths.spread is not None:
        found = found + xp.einsum("...ij,i,j->...", paths.spread, w, w)
    return xp.mean(x, axis=-1), found


def mixture(paths: Paths, w: Array, tails: Array) -> Array:
    """Return N L equally likely returns, (K, B, A, N L).

    Args:
        paths: The paths, with sampled features.
        w: Weights (d,) of the task.
        tails: Equally likely values of the tails (K, B, A, N, L).
    """
    xp = array_namespace(paths.features, tails)
    z = paths.discount[..., None]
    each = _of_paths(paths, w)[..., None] + xp.where(z > 0, z * tails, 0.0)
    return each.reshape(*each.shape[:3], -1)


def _of_paths(paths: Paths, w: Array) -> Array:
    """Return w . F (K, B, A, N)."""
    xp = array_namespace(paths.features)
    return xp.sum(paths.features * xp.asarray(w), axis=-1)  # not a matrix product, which GPUs round to ten bits


def equal_parts(probs: Array, atoms: Array, parts: int = PARTS) -> Array:
    """Return equally likely values (.., parts) that stand for histograms: the means between neighbouring quantiles.

    The mean of the values is the mean of the histogram. Their variance is smaller by the variance within the parts.

    Args:
        probs: Probabilities (.., L).
        atoms: Increasing values (L,).
        parts: Number of values. Default: 32.
    """
    xp = array_namespace(probs)
    zero = xp.zeros_like(probs[..., :1])
    below = xp.concatenate([zero, xp.cumsum(probs, axis=-1)], axis=-1)
    sums = xp.concatenate([zero, xp.cumsum(probs * atoms, axis=-1)], axis=-1)
    levels = xp.linspace(0.0, 1.0, parts + 1) * below[..., -1:]
    flat = [part.reshape(-1, part.shape[-1]) for part in (levels, below, sums)]
    if xp is np:
        found = np.stack([np.interp(*row) for row in zip(*flat, strict=True)])
    else:
        import jax

        found = jax.vmap(xp.interp)(*flat)
    return xp.diff(found.reshape(levels.shape), axis=-1) * parts
