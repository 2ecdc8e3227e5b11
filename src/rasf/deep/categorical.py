"""Histograms on fixed atoms: supports and the projected Bellman update of C51, feature by feature.

    support       z_j = low + j Delta,  [low, high] = [phi_min, phi_max] / (1 - gamma),  Delta = (high - low) / (N - 1)
    projection    m_j = sum_k clip(1 - |clip(phi + gamma z_k) - z_j| / Delta, 0, 1) p_k

It keeps the mean while nothing is clipped, and widens the variance a little: histograms converge to the fixed point of
the projected operator, not to the law itself.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from rasf.arrays import Array


def support(feature_bounds: npt.ArrayLike, gamma: float, atoms: int) -> npt.NDArray[np.float64]:
    """Atoms (d, N) of discounted sums of features within these bounds (d, 2)."""
    bounds = np.asarray(feature_bounds, float)
    if (
        bounds.ndim != 2
        or bounds.shape[1] != 2
        or not np.isfinite(bounds).all()
        or (bounds[:, 0] >= bounds[:, 1]).any()
    ):
        raise ValueError("feature_bounds must have shape (d, 2), finite, each low below its high")
    if not 0 <= gamma < 1:
        raise ValueError(f"gamma must be in [0, 1) for a bounded support, got {gamma}")
    if atoms < 2:
        raise ValueError(f"atoms must be at least 2, got {atoms}")
    return np.linspace(bounds[:, 0], bounds[:, 1], atoms, axis=1) / (1 - gamma)


def project(probs: Array, phi: Array, discount: Array, atoms: Array) -> tuple[Array, Array]:
    """The histograms (K, N) of phi + discount Z_k on the atoms (N,), and their clipped mass (2,), below and above.

    Z_k has the probabilities probs (K, N) on the same, evenly spaced atoms; the K laws share phi and discount, and so
    the projection's matrix. Clipped mass is the mean over the K.
    """
    low, high, spacing = atoms[0], atoms[-1], atoms[1] - atoms[0]
    moved = phi + discount * atoms
    nearness = 1 - jnp.abs(jnp.clip(moved, low, high) - atoms[:, None]) / spacing
    # full precision: a target histogram must keep its mass and its mean
    projected = jnp.einsum("kn,mn->km", probs, jnp.clip(nearness, 0.0, 1.0), precision="highest")
    slack = 1e-4 * spacing  # rounding is not clipping
    outside = jnp.stack([moved < low - slack, moved > high + slack])
    return projected, jnp.mean(jnp.sum(probs * outside[:, None], axis=-1), axis=-1)
