"""Where training stands: what a callback is shown, what is logged of it, and what training ends with.

A log is JSON lines, one for each time the callback is shown something, written at once:

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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from rasf.arrays import Floats
from rasf.files import Arrays, Header
from rasf.library.frozen_policies import FrozenPolicies
from rasf.risk import MeanVariance, Risk
from rasf.risk.names import risk_to_text

_NEUTRAL = MeanVariance(0.0)
_CLIPPED = ("clipped_below", "clipped_above")


@dataclass(frozen=True)
class TrainingProgress:
    """Which policy learns, its steps, rewards and failures so far, and what it learns for.

    failures: nan where the environment has not named any. extras: of networks, the loss and the clipped mass. share: of
    all training, that is done.
    """

    policy: int
    step: int
    total: float
    failures: float
    extras: Mapping[str, float] = field(default_factory=dict)
    w: tuple[float, ...] = ()
    risk: Risk = _NEUTRAL
    share: float = 0.0


Callback = Callable[[TrainingProgress], bool | None]


class Reporter:
    """Shows a callback where the training of some tasks (n, d) for one risk stands, until it answers True.

    risks lead in turn, each for its share of a task's `steps`; `place` is that of this one among them.
    """

    def __init__(self, callback: Callback | None, tasks: Floats, risks: Sequence[Risk], place: int, steps: int) -> None:
        self._callback, self._tasks, self._risk = callback, tasks.tolist(), risks[place]
        self._risks, self._place, self._steps = len(risks), place, max(1, steps // len(risks))
        self.stopped = False

    def __call__(self, task: int, step: int, total: float, failures: float, extras: Mapping[str, float] = {}) -> bool:
        """Whether to stop; what was learned so far is kept."""
        if self._callback is not None:
            n, stretch = len(self._tasks), task * self._risks + self._place
            share = (stretch + min(1.0, step / self._steps)) / (n * self._risks)
            for_task = tuple(self._tasks[task]), self._risk, share
            seen = TrainingProgress(self._place * n + task, step, total, failures, extras, *for_task)
            self.stopped = bool(self._callback(seen))
        return self.stopped


class Trained(NamedTuple):
    """Policies trained on the first tasks: their laws, weights (n, d) as used, and history, one entry per policy."""

    sources: FrozenPolicies
    weights: Floats
    history: Arrays


class TrainingLog:
    """A log in a new file."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._file = path.open("w", encoding="utf-8")
        self._begin = clock()
        self._last = (TrainingProgress(-1, 0, 0.0, 0), self._begin)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, progress: TrainingProgress) -> Header:
        """Write a line; what it says, by name."""
        (before, then), now = self._last, self._clock()
        self._last = (progress, now)
        same = before.policy == progress.policy
        steps = progress.step - (before.step if same else 0)
        reward = progress.total - (before.total if same else 0.0)
        line = {
            "policy": progress.policy,
            "w": list(progress.w),
            "risk": risk_to_text(progress.risk),
            "step": progress.step,
            "return": _known(progress.total),
            "failures": int(progress.failures) if math.isfinite(progress.failures) else None,
            "reward_per_step": _known(reward / steps if steps else math.nan),
            "loss": _known(progress.extras.get("loss", math.nan)),
            "clipped": _known(sum(progress.extras.get(name, math.nan) for name in _CLIPPED)),
            "steps_per_second": _known(round(steps / (now - then), 1) if now > then else math.nan),
            "seconds": round(now - self._begin, 3),
        }
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()
        return line


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


class ScalarLog:
    """Scalars for TensorBoard (extra `tensorboard`): event files under `folder`, one folder per lane."""

    def __init__(self, folder: Path) -> None:
        try:
            from tensorboard.summary.writer.event_file_writer import EventFileWriter
        except ImportError as error:
            raise ValueError("TensorBoard is not installed; pip install rasf[tensorboard]") from error
        self._open, self._folder = EventFileWriter, folder
        self._writers: dict[str, Any] = {}

    def write(self, lane: str, step: int, scalars: Mapping[str, float]) -> None:
        """Add the scalars of one lane at one step."""
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary

        if lane not in self._writers:
            self._writers[lane] = self._open(str(self._folder / lane))
        values = [Summary.Value(tag=tag, simple_value=float(value)) for tag, value in scalars.items()]
        self._writers[lane].add_event(Event(wall_time=time.time(), step=step, summary=Summary(value=values)))
        self._writers[lane].flush()

    def write_tasks(self, lane: str, step: int, arrays: Mapping[str, npt.ArrayLike]) -> None:
        """Add arrays of one number per task, by name."""
        tags = {
            f"{name}/task_{i + 1}": value for name, part in arrays.items() for i, value in enumerate(np.array(part))
        }
        self.write(lane, step, tags)
