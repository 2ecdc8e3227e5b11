"""Episodes in Gymnasium environments: the one loop that steps them for whatever acts (`episodes`).

Several episodes run in parallel, one per environment, all at the same step. Single environments and a user's vector
environment answer alike (`rasf.envs.gymnasium.vector`, which says what an episode is there).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from rasf.envs.gymnasium.single import Step
from rasf.envs.gymnasium.vector import FeatureVector


class Transition(NamedTuple):
    """A step of an episode; over: whether it was the last one, by itself or because it reached the step limit."""

    episode: int
    t: int
    step: Step
    over: bool


Act = Callable[[int, dict[int, object]], Iterable[int]]  # step t, observations by episode -> their actions, in order


def episodes(environments: FeatureVector, seeds: Iterable[int], act: Act, max_steps: int) -> Iterator[list[Transition]]:
    """Run an episode for each seed, as many at a time as there are environments; episodes are cut at max_steps.

    After every step in parallel, the transitions of the episodes that were running are yielded.
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
