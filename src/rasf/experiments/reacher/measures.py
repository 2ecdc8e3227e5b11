"""What the reacher's batches measured, by agent and beta, seeds in front, with normalised returns.

Normalised as in the paper: G_n = (G - G_b) / (G_a - G_b), with the mean return of C51 trained alone on a target, at the
beginning and at the end of training.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rasf.arrays import Floats
from rasf.experiments.reacher.batches import TRAINING, Arrays, Batch

_N_TRAIN = len(TRAINING)


def label(batch: Batch, beta: float) -> str:
    """The name under which a batch's runs at this beta are reported."""
    detail = ("" if batch.bootstrap == "own" else " gpi") + ("" if batch.target_networks else " no-target")
    return f"{batch.agent}{detail} {beta:g}"


_OF_THE_BATCH = ("seconds", "tips", "peak_gb")  # all else has lanes in front


@dataclass(frozen=True)
class Measures:
    """Arrays by label, sorted by seed; `begin` and `end` (12,) are the normaliser's returns."""

    arrays: dict[str, Arrays]
    begin: Floats
    end: Floats
    steps: Floats

    @property
    def names(self) -> list[str]:
        """All labels."""
        return list(self.arrays)

    def seeds(self, name: str) -> int:
        """How many seeds."""
        return len(self.arrays[name]["seed"])

    def normalised(self, name: str) -> Floats:
        """Normalised return (seeds, evaluations, 12)."""
        return (self.arrays[name]["return"] - self.begin) / (self.end - self.begin)

    def test_return(self, name: str) -> Floats:
        """Normalised return (seeds, evaluations), mean over the test tasks."""
        return self.normalised(name)[:, :, _N_TRAIN:].mean(axis=2)

    def test_failures(self, name: str) -> Floats:
        """Failures per rollout (seeds, evaluations), summed over the test tasks."""
        return self.arrays[name]["failures"][:, :, _N_TRAIN:].sum(axis=2)

    def final(self, name: str, what: str, way: str = "final") -> Floats:
        """Of the final policy, (seeds, 12): return (normalised), failures, in_circle or distance."""
        values = self.arrays[name][f"{way}_{what}"]
        return (values - self.begin) / (self.end - self.begin) if what == "return" else values

    def final_test(self, name: str, what: str) -> Floats:
        """Of the final policy on the test tasks, (seeds,): failures summed, everything else its mean."""
        values = self.final(name, what)[:, _N_TRAIN:]
        return values.sum(axis=1) if what == "failures" else values.mean(axis=1)

    def clipped(self, name: str) -> Floats:
        """Mass clipped at the lower and the upper end of the support, mean over training (seeds, 2)."""
        return self.arrays[name]["clipped"].mean(axis=1)


def measures(found: dict[Batch, Arrays]) -> Measures:
    """Gather finished batches, of which one is the normaliser's."""
    alone = next(arrays for batch, arrays in found.items() if batch.alone)
    per_target = [alone["target"] == target for target in np.unique(alone["target"])]
    begin = np.array([alone["return"][mask, 0, 0].mean() for mask in per_target], float)
    end = np.array([alone["final_return"][mask, 0].mean() for mask in per_target], float)
    gathered: dict[str, list[Arrays]] = {}
    for batch, arrays in found.items():
        for beta in batch.betas:
            if not batch.alone:
                mask = arrays["beta"] == beta
                part = {key: values[mask] for key, values in arrays.items() if key not in _OF_THE_BATCH}
                gathered.setdefault(label(batch, beta), []).append(part)
    joined = {}
    for name, parts in gathered.items():
        whole = {key: np.concatenate([part[key] for part in parts]).astype(float) for key in parts[0]}
        order = np.argsort(whole["seed"])
        joined[name] = {key: values[order] for key, values in whole.items()}
    size = next(batch.size for batch in found if not batch.alone)
    evaluations = next(iter(joined.values()))["return"].shape[1]
    return Measures(joined, begin, end, size.evaluate_every * np.arange(evaluations, dtype=float))
