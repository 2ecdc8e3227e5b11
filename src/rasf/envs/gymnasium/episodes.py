"""Episodes in Gymnasium environments: the one loop that steps them for whatever acts (`episodes`).

Several episodes run in parallel, one per environment, all at the same step. Single environments and a user's vector
environment answer alike. An episode is the first one after a reset, in each environment: an environment that ends early
waits (a vector environment goes on stepping, and its steps are dropped), so that short episodes are not counted more
often than long ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple, Protocol

import numpy as np

from rasf.arrays import Floats
from rasf.envs.gymnasium.single import FailureRule, FeatureEnvironment, Step, checked_rule, failure_by
from rasf.envs.gymnasium.vector import VectorEnvAdapter


class Episodes(Protocol):
    """n environments for episodes in parallel."""

    def __len__(self) -> int: ...

    @property
    def reports_failures(self) -> bool: ...

    @property
    def feature_names(self) -> tuple[str, ...] | None: ...

    @property
    def declared_bounds(self) -> Floats: ...  # (d, 2) of the features in a step, infinite where open

    def random_tasks(self, count: int, rng: np.random.Generator) -> Floats | None: ...

    def reset(self, seeds: Sequence[int]) -> list[Any]:
        """Begin an episode for each of at most n seeds, and return their first observations."""
        ...

    def step(self, actions: Mapping[int, int]) -> dict[int, Step]:
        """Take an action in each of these episodes, by their place, and return what it led to."""
        ...


class SingleEpisodes:
    """Episodes in single environments, each from a seed of its own."""

    def __init__(self, environments: Sequence[FeatureEnvironment]) -> None:
        self._environments = environments
        self.feature_names, self.random_tasks = environments[0].feature_names, environments[0].random_tasks
        self.declared_bounds = environments[0].declared_bounds

    def __len__(self) -> int:
        return len(self._environments)

    @property
    def reports_failures(self) -> bool:
        return any(environment.reports_failures for environment in self._environments)

    def reset(self, seeds: Sequence[int]) -> list[Any]:
        return [environment.reset(seed) for environment, seed in zip(self._environments, seeds, strict=False)]

    def step(self, actions: Mapping[int, int]) -> dict[int, Step]:
        return {i: self._environments[i].step(action) for i, action in actions.items()}


class VectorEpisodes:
    """Episodes in a vector environment, with seeds as `VectorEnvAdapter.reset_each` has them; failures by a rule."""

    def __init__(self, vector: VectorEnvAdapter, failure: FailureRule | None = None) -> None:
        self._vector, self._failure = vector, None if failure is None else checked_rule(failure)
        self.feature_names, self.random_tasks = vector.feature_names, vector.random_tasks
        self.declared_bounds = vector.declared_bounds

    def __len__(self) -> int:
        return self._vector.num_envs

    @property
    def reports_failures(self) -> bool:
        return self._failure is not None or self._vector.reports_failures

    def reset(self, seeds: Sequence[int]) -> list[Any]:
        return self._vector.reset_each(seeds)[: len(seeds)]

    def step(self, actions: Mapping[int, int]) -> dict[int, Step]:
        steps = self._vector.step_each([actions.get(i, 0) for i in range(len(self))])
        if self._failure is None:
            return {i: steps[i] for i in actions}
        return {i: steps[i]._replace(failure=failure_by(self._failure, steps[i])) for i in actions}


class Transition(NamedTuple):
    """A step of an episode; over: whether it was the last one, by itself or because it reached the step limit."""

    episode: int
    t: int
    step: Step
    over: bool


Act = Callable[[int, dict[int, Any]], Iterable[int]]  # step t, observations by episode -> their actions, in this order


def episodes(environments: Episodes, seeds: Iterable[int], act: Act, max_steps: int) -> Iterator[list[Transition]]:
    """Run an episode for each seed, as many at a time as there are environments.

    Args:
        environments: where to act.
        seeds: one for each episode; they are taken when an environment is free.
        act: the actions for observations of running episodes, 0 to n_actions - 1.
        max_steps: longer episodes are cut.

    Yields:
        After every step in parallel, the transitions of the episodes that were running.
    """
    waiting, first = iter(seeds), 0
    while some := list(islice(waiting, len(environments))):
        running = dict(enumerate(environments.reset(some), first))
        for t in range(max_steps):
            taken = {i - first: action for i, action in zip(running, act(t, running), strict=True)}
            found = []
            for place, step in environments.step(taken).items():
                over = step.terminated or step.truncated or t + 1 == max_steps
                found.append(Transition(first + place, t, step, over))
                running[first + place] = step.obs
                if over:
                    del running[first + place]
            yield found
            if not running:
                break
        first += len(some)
