"""Rollouts by an acting rule in worlds that step many episodes as arrays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from rasf.arrays import Bools, Floats, Ints
from rasf.library.acting.rule import ActingRule, Memory


class ArrayWorld(Protocol):
    """Episodes in parallel, by their numbers."""

    def observe(self, t: int, running: Ints) -> npt.NDArray[Any]:
        """The observations of episodes (B,) at step t, as the policies see them."""

    def step(self, t: int, running: Ints, actions: Ints) -> tuple[Floats, Bools]:
        """Take the actions (B,); the features (B, d) of the step, and which episodes are over."""


def follow(rule: ActingRule, world: ArrayWorld, episodes: int, steps: int) -> Iterator[Memory]:
    """Run episodes by a rule; after every step, yield the rule's memory of all of them."""
    running = np.arange(episodes)
    memory = rule.begin(world.observe(0, running))
    for t in range(steps):
        theirs = memory.of(running)
        actions = rule.act(world.observe(t, running), theirs)
        memory.put(running, theirs)
        phi, over = world.step(t, running, actions)
        memory.advance(phi @ rule.w, rule.sources.gamma, running)
        yield memory
        running = running[~over]
        if not len(running):
            return
