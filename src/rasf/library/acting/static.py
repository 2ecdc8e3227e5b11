"""Static risk: the risk of the whole return, fixed at the first observation.

    threshold    b of the best return distribution at the first observation
    action       argmax_a max_i E u(accrued - b + gamma^t G_i(s, a))

u is the utility of the risk measure, and b its threshold (`rasf.risk.certainty`). G_i is the remaining return of policy
i. The rule is GPI in the problem whose state also contains the accrued return (docs/theory.md). Histograms of networks
give the distribution of G_i. If only mean and covariance are learned, G_i is assumed to be normal. In shapes, K is the
number of policies, B of observations, A of actions, and M of returns in a histogram.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rasf.arrays import Bools, Floats
from rasf.library.acting.rule import NEUTRAL, ActingRule, Choose, Memory, Observations
from rasf.risk import Entropic
from rasf.risk.certainty import CertaintyEquivalent, static_risk


class StaticRisk(ActingRule):
    """Acting for the risk of the whole return; `memory.own` has the threshold (B,)."""

    def __post_init__(self) -> None:
        static_risk(self.risk)

    def begin(self, obs: Observations, choose: Choose | None = None) -> Memory:
        values, b = self._returns(obs).certain(self._risk)
        if choose is None:
            best = values.max(axis=(0, 2), keepdims=True) <= values
            return Memory.fresh(len(obs), threshold=np.where(best, b, -np.inf).max(axis=(0, 2)))
        source, action = np.divmod(choose(values), values.shape[2])
        return Memory.fresh(len(obs), threshold=b[source, np.arange(len(obs)), action])

    def values(self, obs: Observations, memory: Memory) -> Floats:
        so_far = memory.accrued - memory.own["threshold"]
        return self._returns(obs).utilities(self._risk, so_far[:, None], memory.discount[:, None])

    def means(self, obs: Observations) -> Floats:
        """Return mean returns (K, B, A), which break ties: CVaR's utility is constant above the threshold."""
        return self._returns(obs).means()

    @property
    def _risk(self) -> CertaintyEquivalent:
        return static_risk(self.risk)

    def _returns(self, obs: Observations) -> _Histograms | _Normals:
        """Return the distributions of the remaining return, for K policies, B observations and A actions."""
        histograms = self.sources.laws(obs, self.w)
        if histograms is not None:
            return _Histograms(*histograms)
        found = self.sources.scores(obs, self.w, NEUTRAL)
        known = np.isfinite(found.values)  # some policies of a table may have no data for a state
        if np.isnan(found.std[known]).any():
            raise ValueError("a static risk needs the spread of returns, which these policies have not learned")
        return _Normals(found.mean, np.where(known, found.std, 0.0), known)


class _Histograms(NamedTuple):
    """Probabilities (K, B, A, M) of returns (M,)."""

    probs: Floats
    atoms: Floats

    def means(self) -> Floats:
        return np.asarray((self.probs * self.atoms).sum(axis=-1))

    def certain(self, risk: CertaintyEquivalent) -> tuple[Floats, Floats]:
        """Return certainty equivalents and thresholds, (K, B, A) each."""
        value, b = risk.with_threshold(self.probs, self.atoms)
        return np.asarray(value), np.asarray(b)

    def utilities(self, risk: CertaintyEquivalent, so_far: Floats, z: Floats) -> Floats:
        """Return values (K, B, A) that rank choices as E u(so_far + z G) does; so_far and z are (B, 1)."""
        if isinstance(risk, Entropic):  # the common factor exp(beta so_far) is left out, because it may overflow
            return np.asarray(risk.histogram(self.probs, z[..., None] * self.atoms))
        return np.asarray((self.probs * risk.utility(so_far[..., None] + z[..., None] * self.atoms)).sum(axis=-1))


class _Normals(NamedTuple):
    """Normal distributions: means, standard deviations, and whether the policy has data (`known`), (K, B, A) each."""

    mean: Floats
    std: Floats
    known: Bools

    def means(self) -> Floats:
        return np.where(self.known, self.mean, -np.inf)

    def certain(self, risk: CertaintyEquivalent) -> tuple[Floats, Floats]:
        """Return certainty equivalents and thresholds, (K, B, A) each."""
        b = np.asarray(risk.normal_threshold(self.mean, self.std))
        value = b if isinstance(risk, Entropic) else b + np.asarray(risk.normal(self.mean - b, self.std))
        return np.where(self.known, value, -np.inf), b

    def utilities(self, risk: CertaintyEquivalent, so_far: Floats, z: Floats) -> Floats:
        """Return values (K, B, A) that rank choices as E u(so_far + z G) does; so_far and z are (B, 1)."""
        if isinstance(risk, Entropic):
            so_far = np.zeros_like(so_far)
        return np.where(self.known, risk.normal(so_far + z * self.mean, z * self.std), -np.inf)
