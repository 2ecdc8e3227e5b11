"""When to stop an iteration whose rate is not known: every entry by its own rate, seen over a window of sweeps."""

from __future__ import annotations

import numpy as np

from rasf.arrays import Floats

WINDOW = 50
_ROUNDING = 4 * float(np.finfo(np.float64).eps)


def remaining_change(change: Floats, earlier: Floats, value: Floats) -> Floats:
    """What each entry will still change by, if it goes on shrinking as over the last WINDOW sweeps.

    `change` and `earlier` are the sizes of the changes now and WINDOW sweeps ago; a change that is mere rounding counts
    as none.
    """
    moving = change > _ROUNDING * np.abs(value)
    rate = np.divide(change, earlier, out=np.ones_like(change), where=moving & (earlier > 0)) ** (1 / WINDOW)
    ahead = np.divide(change * rate, 1 - rate, out=np.full_like(change, np.inf), where=rate < 1)
    return np.where(moving, ahead, 0.0)
