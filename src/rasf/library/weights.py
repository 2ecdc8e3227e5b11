"""Reward weights from data: the least-squares fit of rewards by features, with its uncertainty.

    r_t = phi_t . w + noise,    w_hat = argmin sum (r_t - phi_t . w)^2,
    covariance s^2 (Phi' Phi)^-1,    s^2 = RSS / (n - rank)

Phi (n, d) has the rows phi_t, rank is the rank of Phi, and RSS is the residual sum of squares. Only the triangular
factor of a QR decomposition of [Phi r] is stored, and new rows update this factor. So memory does not grow with the
number of steps, and the estimate is as accurate as from all data at once. If the observed features span fewer than d
dimensions, the data does not determine w: `determined` is False, the estimate is the least-squares solution of the
smallest norm, and standard errors are infinite in the directions that were not observed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rasf.arrays import Floats
from rasf.checks import LARGEST, numbers, shown, table, whole

# singular values below this share of the largest count as 0, after every feature is scaled to unit length
_RANK_TOLERANCE = 1e-10


@dataclass(frozen=True)
class WeightEstimate:
    """Estimated weights with their uncertainty.

    Attributes:
        w: The estimate (d,).
        covariance: The covariance (d, d) of the estimate, within the observed directions.
        noise_variance: The variance s^2 of the noise; nan if there are no more samples than observed directions.
        unseen: Orthonormal basis (m, d) of the m directions of feature space that were not observed.
        samples: The number of rewards.
    """

    w: Floats
    covariance: Floats
    noise_variance: float
    unseen: Floats
    samples: int

    @property
    def determined(self) -> bool:
        """Whether the data determines w."""
        return len(self.unseen) == 0

    @property
    def standard_error(self) -> Floats:
        """Standard errors (d,) of the weights: inf if undetermined by the data, nan if `noise_variance` is nan."""
        return self.error_of(np.eye(len(self.w)))

    def error_of(self, phi: npt.ArrayLike) -> Floats:
        """Return the standard error of the expected reward phi . w.

        Args:
            phi: Features (.., d).

        Returns:
            Standard errors (..). They are infinite for features outside the observed directions.
        """
        features = numbers("phi", phi)
        if features.shape[-1:] != self.w.shape or not np.isfinite(features).all():
            raise ValueError(f"phi must be finite, of shape (.., {len(self.w)}), got {shown(phi)}")
        variance = np.einsum("...i,ij,...j->...", features, self.covariance, features)
        outside = np.linalg.norm(features @ self.unseen.T, axis=-1) > 1e-8 * np.linalg.norm(features, axis=-1)
        return np.where(outside, np.inf, np.sqrt(np.maximum(variance, 0.0)))

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Floats:
        return np.array(self.w, dtype=dtype)

    def __str__(self) -> str:
        shown = ", ".join(f"{w:.4g} +- {e:.2g}" for w, e in zip(self.w, self.standard_error, strict=True))
        seen = "" if self.determined else f"; {len(self.unseen)} of {len(self.w)} directions were not observed"
        return f"w = ({shown}) from {self.samples} samples{seen}"


class WeightLearner:
    """An estimate of the weights of d features, updated with data that arrives in parts.

    Args:
        d: The number of features.
    """

    def __init__(self, d: int) -> None:
        self.d, self.samples = whole("d", d), 0
        table("d", d, d)
        self._factor = np.zeros((d + 1, d + 1))

    def __repr__(self) -> str:
        found = self.estimate()
        w = np.array2string(found.w, precision=4, threshold=8)
        seen = "" if found.determined else f", {len(found.unseen)} of {self.d} directions not observed"
        return f"<WeightLearner: w = {w} from {self.samples} samples{seen}>"

    def update(self, phis: npt.ArrayLike, rewards: npt.ArrayLike) -> WeightLearner:
        """Add data to the estimate.

        Args:
            phis: Features (n, d), or (d,) of one step.
            rewards: Rewards (n,), or one reward.

        Returns:
            The learner itself.
        """
        features, returned = np.atleast_2d(numbers("phis", phis)), np.atleast_1d(numbers("rewards", rewards))
        if features.ndim != 2 or features.shape[1] != self.d:
            raise ValueError(f"phis must have shape (n, {self.d}), got {np.shape(phis)}")
        if returned.shape != (len(features),):
            raise ValueError(f"rewards must have one entry for each of {len(features)} rows, got {np.shape(rewards)}")
        if not (np.isfinite(features).all() and np.isfinite(returned).all()):
            raise ValueError("phis and rewards must be finite")
        if max(np.abs(features).max(initial=0.0), np.abs(returned).max(initial=0.0)) > LARGEST:
            raise ValueError(f"phis and rewards must be at most {LARGEST:g} in size; rescale them")
        features = np.where(np.abs(features) < 1 / LARGEST, 0.0, features)  # because squares would underflow
        rows = np.vstack([self._factor, np.column_stack([features, returned])])
        self._factor = np.asarray(np.linalg.qr(rows, mode="r"))
        self.samples += len(features)
        return self

    def estimate(self) -> WeightEstimate:
        """Return the estimate from the data so far."""
        R, z, rest = self._factor[: self.d, : self.d], self._factor[: self.d, self.d], self._factor[self.d, self.d]
        lengths = np.linalg.norm(R, axis=0)
        scale = np.where(lengths > 0, lengths, 1.0)
        u, size, vt = np.linalg.svd(R / scale)
        seen = size > _RANK_TOLERANCE * max(size[0], 1e-300)
        outside = vt[~seen] / scale
        unseen = np.linalg.qr(outside.T)[0].T if len(outside) else outside  # an orthonormal basis
        inverse = vt[seen].T / size[seen] / scale[:, None]
        inverse = inverse - unseen.T @ (unseen @ inverse)  # so that the solution has the smallest norm
        left = u[:, ~seen].T @ z  # the residual consists of `left` and `rest`
        spare = self.samples - int(seen.sum())
        noise = float((rest**2 + left @ left) / spare) if spare > 0 else float("nan")
        return WeightEstimate(inverse @ (u[:, seen].T @ z), noise * inverse @ inverse.T, noise, unseen, self.samples)


def infer_weights(phis: npt.ArrayLike, rewards: npt.ArrayLike) -> WeightEstimate:
    """Return an estimate of the weights w of rewards that are linear in features, with standard errors.

    Args:
        phis: Features (n, d).
        rewards: Rewards (n,).

    Returns:
        The estimate.

    Raises:
        ValueError: The shapes do not agree, or a number is not finite or too large.
    """
    features = numbers("phis", phis)
    if features.ndim != 2 or features.size == 0:
        raise ValueError(f"phis must have shape (n, d) with n and d at least 1, got {features.shape}")
    return WeightLearner(features.shape[1]).update(features, rewards).estimate()
