"""From the numbers of an observation to its state: a compiled hash map on rows of float64.

Open addressing with linear probing, at most half full. Rows are compared by their bits, so a row finds itself and
nothing else; whoever makes the rows sees to it that equal observations have equal bits (-0.0 is 0.0).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rasf.arrays import Floats, Ints
from rasf.compiled import compiled


class StateIndex(NamedTuple):
    """The map of S rows of n numbers."""

    bits: Ints  # (S, n) uint64
    slots: Ints  # (H,) int32, a state or -1; H is a power of 2


def as_bits(numbers: Floats) -> Ints:
    """float64 numbers as uint64, contiguous and not writable: compiled code then sees one type of array only."""
    bits = np.ascontiguousarray(numbers, np.float64).view(np.uint64)
    bits.setflags(write=False)
    return bits


def make_index(keys: Floats) -> tuple[StateIndex, Ints]:
    """The map of the distinct rows of keys (N, n), numbered as they first come, and the state (N,) of every row."""
    bits, state = as_bits(keys), np.empty(len(keys), np.int64)
    slots = np.full(1 << max(2 * len(keys) - 1, 1).bit_length(), -1, np.int32)
    distinct = enter_all(bits, slots, state)
    if distinct < len(keys):  # the slots hold rows of `keys`, and the index is to have each state once
        return make_index(keys[np.unique(state, return_index=True)[1]])[0], state
    return StateIndex(bits, slots), state


@compiled(_nrt=False, forceinline=True)
def hash_row(row: Ints) -> int:
    """A hash of the row's bits; small whole numbers differ in the high bits only, so these are folded down."""
    h = np.uint64(0x9E3779B97F4A7C15)
    for i in range(len(row)):
        h = (h ^ row[i]) * np.uint64(0xD6E8FEB86659FD93)
        h ^= h >> np.uint64(32)
    h *= np.uint64(0xD6E8FEB86659FD93)
    return int(np.int64((h ^ (h >> np.uint64(32))) & np.uint64(0x7FFFFFFF)))


@compiled(_nrt=False, forceinline=True)
def same_row(one: Ints, other: Ints) -> bool:
    """Whether two rows have the same bits."""
    same = True
    for i in range(len(one)):
        same = same and one[i] == other[i]
    return same


@compiled(_nrt=False, forceinline=True)
def slot_of_row(bits: Ints, slots: Ints, row: Ints) -> int:
    """Where a row stands in the map, or would stand."""
    mask = len(slots) - 1
    slot = hash_row(row) & mask
    while slots[slot] >= 0 and not same_row(bits[slots[slot]], row):
        slot = (slot + 1) & mask
    return slot


@compiled(_nrt=False)
def enter_all(bits: Ints, slots: Ints, state: Ints) -> int:
    """Enter every row under its own number; `state` says of each which distinct row it is, the result how many."""
    distinct = 0
    for n in range(len(bits)):
        slot = slot_of_row(bits, slots, bits[n])
        if slots[slot] >= 0:
            state[n] = state[slots[slot]]
        else:
            slots[slot] = n
            state[n] = distinct
            distinct += 1
    return distinct


@compiled(_nrt=False, forceinline=True)
def find(index: StateIndex, row: Ints) -> int:
    """The state of a row, or -1."""
    return int(index.slots[slot_of_row(index.bits, index.slots, row)])


@compiled(_nrt=False)
def find_all(index: StateIndex, rows: Ints, state: Ints) -> None:
    """The state (B,) of every row (B, n), or -1."""
    for n in range(len(rows)):
        state[n] = find(index, rows[n])


def states_of(index: StateIndex, numbers: Floats) -> npt.NDArray[np.int64]:
    """The states (B,) of observations' numbers (B, n), -1 where there is none."""
    state = np.empty(len(numbers), np.int64)
    find_all(index, as_bits(numbers), state)
    return state
