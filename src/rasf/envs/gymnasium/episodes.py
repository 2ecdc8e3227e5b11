"""`episodes`: the loop that runs episodes in Gymnasium environments, given a function that chooses the actions.

Several episodes run in parallel, one in each environment, and are always at the same step t. Single environments and
vector environments have the same interface, which is defined in `rasf.envs.gymnasium.vector`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple

from rasf.envs.gymnasium.single import Step
from rasf.envs.gymnasium.vector import FeatureVector


class Transition(NamedTuple):
    """Step t of an episode; `over` is whether the episode ends by termination, truncation or max_steps."""

    episode: int
    t: int
    step: Step
    over: bool


Act = Callable[[int, dict[int, object]], Iterable[Any]]  # (step t, {episode: observation}) -> actions in the same order


def episodes(environments: FeatureVector, seeds: Iterable[int], act: Act, max_steps: int) -> Iterator[list[Transition]]:
    """Run an episode for each seed; as many episodes run in parallel as there are environments.

    Args:
        environments: the environments, from `open_vector`.
        seeds: a seed for each episode.
        act: function of the step t and {episode: observation} that returns the actions in the same order.
        max_steps: number of steps after which an episode is ended.

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
