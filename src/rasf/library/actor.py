"""Acting for a static risk: the risk of the whole return, fixed at the first observation, with what was earned in mind.

    threshold    b, of the law that is best at the first observation
    stock        y = what was earned so far, discounted, less b
    action       argmax_a max_i E u(y + gamma^t G_i(s, a))        u and b belong to the risk, see `rasf.risk.certainty`

which is GPI in the problem that remembers the stock (docs/theory.md). Histograms of networks give the law of G_i; of
tables and of networks of moments the normal law with their mean and variance is taken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from rasf import checks
from rasf.arrays import Bools, Floats, Ints
from rasf.library.frozen_policies import FrozenPolicies
from rasf.risk import Entropic, MeanVariance, Risk
from rasf.risk.certainty import CertaintyEquivalent, static_risk

if TYPE_CHECKING:
    from rasf.library.policy_library import PolicyLibrary


def first_thresholds(
    sources: FrozenPolicies, obs: npt.NDArray[np.generic], w: Floats, risk: CertaintyEquivalent
) -> Floats:
    """The thresholds (B,) of the best laws at first observations (B, n)."""
    found = _Laws(sources, obs, w)
    values, b = found.certain(risk)
    best = values.max(axis=(0, 2), keepdims=True) <= values
    return np.where(best, b, -np.inf).max(axis=(0, 2))


def act_by_stock(
    sources: FrozenPolicies,
    obs: npt.NDArray[np.generic],
    w: Floats,
    risk: CertaintyEquivalent,
    stock: Floats,
    z: Floats,
) -> Ints:
    """Actions (B,) for observations (B, n) with stocks (B,), when what is to come counts z (B,) times.

    Where nothing that can happen still matters to the risk, as above CVaR's threshold, the mean decides.
    """
    laws = _Laws(sources, obs, w)
    utilities = laws.utilities(risk, stock, z).max(axis=0)  # (B, A)
    best = utilities.max(axis=1, keepdims=True)
    alike = utilities >= best - 1e-9 * np.maximum(np.abs(best), 1e-300)
    means = laws.mean()
    return np.where(alike, means, -np.inf).argmax(axis=1)


class _Laws:
    """The laws of what is to come, of K policies at B observations for A actions."""

    def __init__(self, sources: FrozenPolicies, obs: npt.NDArray[np.generic], w: Floats) -> None:
        self._laws = sources.laws(obs, w)
        if self._laws is None:
            neutral = sources.scores(obs, w, MeanVariance(0.0))
            self._known = np.isfinite(neutral.values)  # a table may know a state of some policies only
            if np.isnan(neutral.std[self._known]).any():
                raise ValueError("a static risk needs the spread of returns, which these policies have not learned")
            self._mean, self._std = neutral.mean, np.where(self._known, neutral.std, 0.0)

    def mean(self) -> Floats:
        """The best mean (B, A) of all policies."""
        if self._laws is None:
            return np.where(self._known, self._mean, -np.inf).max(axis=0)
        probs, values = self._laws
        return np.asarray((probs * values).sum(axis=-1).max(axis=0))

    def certain(self, risk: CertaintyEquivalent) -> tuple[Floats, Floats]:
        """Certainty equivalents (K, B, A), and their thresholds."""
        if self._laws is not None:
            value, b = risk.with_threshold(*self._laws)
            return np.asarray(value), np.asarray(b)
        b = np.asarray(risk.normal_threshold(self._mean, self._std))
        value = b if isinstance(risk, Entropic) else b + np.asarray(risk.normal(self._mean - b, self._std))
        return np.where(self._known, value, -np.inf), b

    def utilities(self, risk: CertaintyEquivalent, stock: Floats, z: Floats) -> Floats:
        """What orders actions as E u(stock + z G) does, (K, B, A)."""
        z, stock = z[:, None], stock[:, None]
        if isinstance(risk, Entropic):
            stock = np.zeros_like(stock)  # a factor of all actions alike, which might overflow
        if self._laws is None:
            return np.where(self._known, risk.normal(stock + z * self._mean, z * self._std), -np.inf)
        probs, values = self._laws
        if isinstance(risk, Entropic):
            return np.asarray(risk.histogram(probs, z[..., None] * values))
        return np.asarray((probs * risk.utility(stock[..., None] + z[..., None] * values)).sum(axis=-1))


class Actor:
    """Acts for one task at one static risk, for one episode or for several at once.

    `act` for an observation, or a batch of as many as there are episodes; `observe` what a step brought: its features
    (d,) or its reward, or (B, d) or (B,); `reset` when an episode is over. Of every episode: accrued, discount,
    threshold.
    """

    def __init__(self, library: PolicyLibrary, w: npt.ArrayLike, risk: Risk) -> None:
        self._library, self._w = library, checks.weights("w", w, library.n_features)
        self._risk = static_risk(risk)
        self.accrued, self.discount = np.zeros(0), np.zeros(0)
        self.threshold, self._fresh = np.zeros(0), np.zeros(0, np.bool_)

    def reset(self, over: npt.ArrayLike | None = None) -> None:
        """Begin anew: all episodes, or those that are over (B,)."""
        if over is None:
            self.accrued, self._fresh = np.zeros(0), np.zeros(0, np.bool_)
            return
        self._fresh = self._fresh | self._mask(over)

    def act(self, obs: object) -> int | Ints:
        """The action for one observation, or actions (B,), as the environment numbers them."""
        library = self._library
        batch = library.is_batch(obs)
        encoded = library.encode_batch(obs) if batch else library.encode(obs)[None]
        if not len(self._fresh):
            self.accrued, self.discount, self.threshold = np.zeros((3, len(encoded)))
            self._fresh = np.ones(len(encoded), np.bool_)
        if len(encoded) != len(self._fresh):
            raise ValueError(
                f"obs must be of {len(self._fresh)} episodes, as before, got {len(encoded)}; or reset first"
            )
        if self._fresh.any():
            first = first_thresholds(library.sources, encoded[self._fresh], self._w, self._risk)
            self.threshold[self._fresh], self.accrued[self._fresh], self.discount[self._fresh] = first, 0.0, 1.0
            self._fresh[:] = False
        stock = self.accrued - self.threshold
        actions = act_by_stock(library.sources, encoded, self._w, self._risk, stock, self.discount)
        numbered = actions + library.environment.first_action
        return numbered if batch else int(numbered[0])

    def observe(self, gained: npt.ArrayLike) -> None:
        """Take in the features of a step, or its reward."""
        given = np.asarray(gained, np.float64)
        if not len(self._fresh) or self._fresh.any():
            raise ValueError("observe must follow act, once for each")
        n, d = len(self.accrued), len(self._w)
        if not np.isfinite(given).all():
            raise ValueError(f"what a step brought must be finite, got {gained!r}")
        if given.size == n * d and given.shape in ((d,), (n, d)):
            rewards = given.reshape(n, d) @ self._w
        elif given.size == n and given.shape in ((), (n,)):
            rewards = given.reshape(n)
        else:
            wanted = f"features ({n}, {d}) or rewards ({n},)" if n > 1 else f"features ({d},) or a reward"
            raise ValueError(f"what a step brought must be {wanted}, got shape {given.shape}")
        self.accrued = self.accrued + self.discount * rewards
        self.discount = self.discount * self._library.gamma

    def _mask(self, over: npt.ArrayLike) -> Bools:
        mask = np.asarray(over, np.bool_)
        if mask.shape != self._fresh.shape:
            raise ValueError(f"over must have shape {self._fresh.shape}, one for each episode, got {mask.shape}")
        return mask
