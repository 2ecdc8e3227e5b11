"""Episodes in Gymnasium environments: `episodes` is the loop that steps them, for any way of acting.

Several episodes run in parallel, one per environment, all at the same step. `rasf.envs.gymnasium.vector` gives single
environments and vector environments the same interface.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple

from rasf.envs.gymnasium.single import Step
from rasf.envs.gymnasium.vector import FeatureVector


class Transition(NamedTuple):
    """A step of an episode; over: whether it is the last one, by termination, truncation or the limit of steps."""

    episode: int
    t: int
    step: Step
    over: bool


Act = Callable[[int, dict[int, object]], Iterable[Any]]  # (step t, {episode: observation}) -> actions in the same order


def episodes(environments: FeatureVector, seeds: Iterable[int], act: Act, max_steps: int) -> Iterator[list[Transition]]:
    """Run an episode for each seed, as many in parallel as there are environments.

    Args:
        environments: the environments, from `open_vector`.
        seeds: a seed for each episode.
        act: returns the actions, given the step and {episode: observation}.
        max_steps: steps after which an episode is cut.

    Yields:
        After every parallel step, the transitions of the running episodes.
    """
    waiting, first = iter(seeds), 0
    while some := list(islice(waiting, len(environments))):
        running = dict(enumerate(environments.reset_each(some), first))
        for t in range(max_steps):
            taken = {i - first: action for i, action in zip(running, act(t, running), strict=True)}
            found = []
            for place, step in environments.step_each(taken).items():
                over = step.terminated or step.truncated or t + 1 == max_steps
                found.append(Transition(first + place, t, step, over))
                running[first + place] = step.obs
                if over:
                    del running[first + place]
            yield found
            if not running:
                break
        first += len(some)
