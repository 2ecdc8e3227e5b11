"""The `TabularWorld` protocol: worlds that the compiled loops of tabular learners can step.

A world has a description in Python (`TabularWorld`), and arrays for compiled loops: a `NamedTuple` with three methods
(`WorldArrays`). numba compiles the methods into the loops that call them. So a learner is written once for all worlds,
without loss of speed. For a world outside rasf's packages, loops are compiled in every process, because rasf's cache on
disk cannot detect changes in files of other packages. Other modules call a `TabularWorld` a compiled world.

A state is a whole number, 0 or larger. Steps with the same features are of the same *kind*: row k of the table `kinds`
contains the features of kind k. The table must have few rows, because learners count the transitions of every kind.
"""

from __future__ import annotations

import functools
from typing import Protocol

import numba
import numpy as np
from numba.core.types import BaseNamedTuple  # type: ignore[attr-defined]
from numba.extending import overload_method

from rasf.arrays import Floats, Ints
from rasf.compiled import Function, compiled


class WorldArrays(Protocol):
    """A `NamedTuple` with the numbers and arrays of a world, and with methods for its steps."""

    def first_state(self) -> int:
        """Return the start state of every episode."""

    def next_state(self, state: int, action: int, draw: float) -> tuple[int, int, bool]:
        """Take a step.

        Args:
            state: the state.
            action: the action, counted from 0.
            draw: uniform random number in [0, 1), the only randomness of the step.

        Returns:
            The next state, the kind of the step, and whether the episode terminated.
        """

    def number(self, state: int, i: int) -> int:
        """Return one number of the observation of a state.

        Args:
            state: the state.
            i: index of the number in the observation.
        """


class TabularWorld(Protocol):
    """A world whose states are whole numbers.

    Attributes:
        n_features: The number d of features.
        n_actions: The number of actions.
        step_limit: Number of steps after which an episode is truncated.
        kinds: Features (K, d) of every kind of step; all rows differ.
        failure: The kind of steps that are failures, None if there are no failures.
        sizes: Sizes (n,) of an observation: its number i is a whole number from 0 to sizes[i] - 1.
    """

    @property
    def n_features(self) -> int: ...

    @property
    def n_actions(self) -> int: ...

    @property
    def step_limit(self) -> int: ...

    @property
    def kinds(self) -> Floats: ...

    @property
    def failure(self) -> int | None: ...

    @property
    def sizes(self) -> tuple[int, ...]: ...

    def world(self) -> WorldArrays:
        """Return the arrays for compiled loops."""


_INLINED: dict[str, object] = {"strict": False, "jit_options": {"forceinline": True, "_nrt": False}}


@overload_method(BaseNamedTuple, "first_state", **_INLINED)
def _first_state(world: BaseNamedTuple) -> object:
    return getattr(world.instance_class, "first_state", None)


@overload_method(BaseNamedTuple, "next_state", **_INLINED)
def _next_state(world: BaseNamedTuple, state: object, action: object, draw: object) -> object:
    return getattr(world.instance_class, "next_state", None)


@overload_method(BaseNamedTuple, "number", **_INLINED)
def _number(world: BaseNamedTuple, state: object, i: object) -> object:
    return getattr(world.instance_class, "number", None)


def loop_for(loop: Function, world: WorldArrays) -> Function:
    """Return the compiled loop; for a world of another package, return a copy that is not cached on disk."""
    return loop if type(world).__module__.startswith(("rasf.", "rasf_")) else _not_cached(loop)


@functools.cache
def _not_cached(loop: Function) -> Function:
    machine_code: Function = numba.njit(getattr(loop, "py_func", loop), **getattr(loop, "targetoptions", {}))
    return machine_code


def observations(world: TabularWorld, states: Ints) -> Floats:
    """Return the observations (S, n) of states (S,)."""
    found, arrays = np.zeros((len(states), len(world.sizes))), world.world()
    loop_for(write_numbers, arrays)(arrays, states, found)
    return found


@compiled(_nrt=False)
def write_numbers(world: WorldArrays, states: Ints, found: Floats) -> None:
    """Write the observations (S, n) of states (S,) to `found`."""
    for s in range(found.shape[0]):
        for i in range(found.shape[1]):
            found[s, i] = world.number(states[s], i)
