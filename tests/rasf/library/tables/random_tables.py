"""Frozen tables at random, for tests."""

import numpy as np

from rasf.library.tables.policies import TablePolicies
from rasf.tabular.frozen import Frozen
from rasf.tabular.table import SigmaForm


def random_sources(rng, groups=2, n_states=6, A=3, d=2, sigma=SigmaForm.FULL, ties=False):
    """Tables with gaps in every place: states unknown to a group, actions without entries, policies between."""
    m = d + sigma.entries(d)
    sizes = rng.integers(1, 6, groups)
    states, group, entries, first, last = [0], [], [0], [], []
    for _ in range(n_states):
        knowing = np.flatnonzero(rng.random(groups) < 0.7)
        knowing = knowing if len(knowing) else [rng.integers(groups)]
        group += list(knowing)
        states.append(len(group))
        for g in knowing:
            for _ in range(A):
                policy = rng.integers(0, 3)
                while policy < sizes[g]:
                    end = rng.integers(policy, sizes[g])
                    first.append(policy)
                    last.append(end)
                    policy = end + rng.integers(1, 3)
                entries.append(len(first))
    # as large as the noise, so that noise matters
    value = 0.25 * rng.integers(-1, 2, (len(first), m)) if ties else 0.02 * rng.normal(size=(len(first), m))
    frozen = Frozen(
        states=np.array(states, np.int64),
        group=np.array(group, np.int32),
        row=rng.integers(0, 1000, len(group)).astype(np.int32),
        entries=np.array(entries, np.int64),
        first=np.array(first, np.int16),
        last=np.array(last, np.int16),
        value=value.astype(np.float32),
        policies=np.concatenate([[0], np.cumsum(sizes)]),
        seed=rng.integers(0, 2**63, groups).astype(np.uint64),
        noise=rng.choice([0.0, 0.03], groups),
    )
    keys = rng.permutation(40)[:n_states, None] * np.array([1.0, 0.5])
    return TablePolicies(keys, frozen, A, d, 0.9, sigma)
