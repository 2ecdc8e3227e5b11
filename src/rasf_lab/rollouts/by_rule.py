"""Rollouts by an acting rule, in worlds that step many episodes at once, as arrays.

An acting rule (`rasf.library.acting.rule`) chooses the actions of episodes, and may keep a memory of each episode.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from rasf.arrays import Bools, Floats, Ints
from rasf.library.acting.rule import ActingRule, Memory


class ArrayWorld(Protocol):
    """Episodes that run in parallel. `running` (B,) are the indices of the B episodes that are not over."""

    def observe(self, t: int, running: Ints) -> npt.NDArray[Any]:
        """Return the observations of the running episodes at step t, encoded for the policies (B, ..)."""

    def step(self, t: int, running: Ints, actions: Ints) -> tuple[Floats, Bools]:
        """Take the actions (B,). Return the d features (B, d) of the step, and whether each episode is over (B,)."""


def follow(rule: ActingRule, world: ArrayWorld, episodes: int, steps: int) -> Iterator[Memory]:
    """Run episodes by an acting rule.

    Args:
        rule: the acting rule.
        world: the world of the episodes.
        episodes: the number of episodes.
        steps: the largest number of steps of an episode.

    Yields:
        After every step, the rule's memory: its state for every episode, such as the accrued return.
    """
    running = np.arange(episodes)
    memory = rule.begin(world.observe(0, running))
    for t in range(steps):
        own = memory.of(running)
        actions = rule.act(world.observe(t, running), own)
        memory.put(running, own)
        phi, over = world.step(t, running, actions)
        memory.advance(phi @ rule.w, rule.sources.gamma, running)
        yield memory
        running = running[~over]
        if not len(running):
            return
