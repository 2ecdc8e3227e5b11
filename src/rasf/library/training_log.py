"""A log of training as it goes: JSON lines, one for each time training is watched, written at once.

    policy, w, risk       which policy of the library learns, and what for
    step                  its steps so far
    return, failures      its rewards and failures summed up so far
    reward_per_step       since the line before
    loss, clipped         of networks, lately: the loss, and the share of histograms' mass beyond their support
    steps_per_second      since the line before
    seconds               since the log began

What is not known (the loss of a table, failures that nobody names) or not finite is null.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rasf.library.progress import TrainingProgress

_CLIPPED = ("clipped_below", "clipped_above")


class TrainingLog:
    """A log in a new file."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._file = path.open("w", encoding="utf-8")
        self._begin = clock()
        self._last = (TrainingProgress(-1, 0, 0.0, 0), self._begin)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def add(self, record: TrainingProgress) -> dict[str, Any]:
        """Write a line; what it says, by name."""
        (before, then), now = self._last, self._clock()
        self._last = (record, now)
        same = before.policy == record.policy
        steps = record.step - (before.step if same else 0)
        reward = record.total - (before.total if same else 0.0)
        line = {
            "policy": record.policy,
            "w": list(record.w),
            "risk": record.risk,
            "step": record.step,
            "return": _known(record.total),
            "failures": int(record.failures) if math.isfinite(record.failures) else None,
            "reward_per_step": _known(reward / steps if steps else math.nan),
            "loss": _known(record.extras.get("loss", math.nan)),
            "clipped": _known(sum(record.extras.get(name, math.nan) for name in _CLIPPED)),
            "steps_per_second": _known(round(steps / (now - then), 1) if now > then else math.nan),
            "seconds": round(now - self._begin, 3),
        }
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()
        return line


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None
