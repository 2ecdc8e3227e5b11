"""Small problems as plain tables, from a seed, beside the `FiniteMDP` that holds the same numbers.

The table is what the reference implementations read, so that they share no code with the library.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from rasf import FiniteMDP

Outcome = tuple[float, int, np.ndarray]
SEEDS = st.integers(0, 2**32 - 1)
BETAS = st.one_of(st.floats(-2.0, 2.0), st.sampled_from([0.0, -1e-6, 1e-6, -10.0, 10.0]))


def examples(count: int) -> settings:
    """The same `count` examples in every run."""
    return settings(max_examples=count, deadline=None, derandomize=True)


@dataclass(frozen=True)
class Problem:
    """outcomes[s][a] lists (probability, successor, features (d,)); it is empty in terminal states."""

    outcomes: list[list[list[Outcome]]]
    terminal: frozenset[int] = frozenset()
    gamma: float = 1.0

    @property
    def n_states(self) -> int:
        return len(self.outcomes)

    @property
    def n_actions(self) -> int:
        return len(self.outcomes[0])

    @property
    def n_features(self) -> int:
        return next(len(phi) for row in self.outcomes for entries in row for _, _, phi in entries)

    @property
    def transitions(self) -> list[tuple[int, int, int, float, np.ndarray]]:
        return [
            (s, a, successor, p, phi)
            for s, row in enumerate(self.outcomes)
            for a, entries in enumerate(row)
            for p, successor, phi in entries
        ]

    @cached_property
    def mdp(self) -> FiniteMDP:
        terminal = sorted(self.terminal)
        return FiniteMDP.from_transitions(self.transitions, self.n_states, self.n_actions, terminal, self.gamma)

    def discounted(self, gamma: float) -> Problem:
        return replace(self, gamma=gamma)


def random_problem(
    seed: int,
    n_states: int = 4,
    n_actions: int = 2,
    n_features: int = 2,
    n_outcomes: int | None = None,
    n_terminal: int = 0,
    gamma: float = 1.0,
) -> Problem:
    """Dense, or with `n_outcomes` successors a row, drawn with repetition so that some s, a, s' appear twice.

    The last `n_terminal` states are terminal; every sparse row then leads to one of them, so that all policies end.
    """
    rng = np.random.default_rng(seed)
    terminal = frozenset(range(n_states - n_terminal, n_states))

    def row(s: int) -> list[Outcome]:
        if s in terminal:
            return []
        successors = np.arange(n_states) if n_outcomes is None else rng.integers(n_states, size=n_outcomes)
        if n_outcomes is not None and terminal:
            successors[0] = rng.choice(sorted(terminal))
        probabilities = rng.dirichlet(np.ones(len(successors)))
        features = rng.normal(size=(len(successors), n_features))
        return [
            (float(p), int(successor), phi)
            for p, successor, phi in zip(probabilities, successors, features, strict=True)
        ]

    return Problem([[row(s) for _ in range(n_actions)] for s in range(n_states)], terminal, gamma)


def random_task(seed: int, problem: Problem) -> np.ndarray:
    return np.random.default_rng([seed, 1]).normal(size=problem.n_features)


def random_policies(seed: int, problem: Problem, *shape: int) -> np.ndarray:
    """Policies (*shape, S)."""
    return np.random.default_rng([seed, 2]).integers(problem.n_actions, size=(*shape, problem.n_states))


def chain(*rows: list[tuple[float, int, float]], terminal: tuple[int, ...], gamma: float = 1.0) -> Problem:
    """One action and one feature: rows[s] lists (probability, successor, reward); terminal states follow the rows."""
    outcomes = [[[(p, successor, np.array([reward])) for p, successor, reward in row]] for row in rows]
    missing = max(terminal, default=-1) + 1 - len(rows)
    return Problem(outcomes + [[[]]] * missing, frozenset(terminal), gamma)


def choices(*rows: list[list[tuple[float, int, float]]], terminal: tuple[int, ...], gamma: float = 1.0) -> Problem:
    """One feature: rows[s][a] lists (probability, successor, reward); terminal states follow the rows."""
    outcomes = [[[(p, s, np.array([reward])) for p, s, reward in row] for row in actions] for actions in rows]
    missing = max(terminal, default=-1) + 1 - len(rows)
    return Problem(outcomes + [[[] for _ in rows[0]]] * missing, frozenset(terminal), gamma)
