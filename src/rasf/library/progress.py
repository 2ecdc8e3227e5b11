"""Progress of training: arguments of callbacks, log files, and results of trainers.

A log file has a line of JSON for each call of the callback, written immediately; `docs/cli.md` lists the fields. A
value that is unknown (the loss of a table, failures that the environment does not report) or not finite is null.
"""

from __future__ import annotations

import json
import logging
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Self, TypeVar

import numpy as np
import numpy.typing as npt

from rasf.arrays import Floats
from rasf.files import Arrays, Header, is_stream
from rasf.library.frozen_policies import FrozenPolicies
from rasf.risk import MeanVariance, Risk
from rasf.risk.names import risk_to_text

Made = TypeVar("Made")
_NEUTRAL = MeanVariance(0.0)
_PLAIN_EXTRAS = (
    "episode_return", "episode_length", "greedy_return", "greedy_failures", "greedy_episodes", "random_return",
    "greedy_discounted", "predicted",
)  # fmt: skip
_CLIPPED = ("clipped_below", "clipped_above")
_log = logging.getLogger("rasf")


@dataclass(frozen=True)
class TrainingProgress:
    """The progress of one policy, as a callback receives it.

    Attributes:
        policy: The number of the policy.
        step: Number of steps in which the policy has acted so far.
        total: The sum of the rewards of these steps.
        failures: Number of failures in these steps; nan if the environment has not reported failures.
        extras: Further values by name. Most names are fields of the log: the loss of networks, means over recent
            episodes, returns of episodes without exploration ("greedy") and with random actions, and environment_share,
            the share of time that the environment takes. clipped_below and clipped_above are the mass of histograms
            that was clipped below and above the support.
        w: The weights of the policy's task.
        risk: The policy's risk.
        share: The share of all training that is done.
    """

    policy: int
    step: int
    total: float
    failures: float
    extras: Mapping[str, float] = field(default_factory=dict)
    w: tuple[float, ...] = ()
    risk: Risk = _NEUTRAL
    share: float = 0.0


class EpisodeMeter:
    """Mean return and length of the episodes of n environments, and the share of time that environment steps take."""

    STATE = ("_rewards", "_lengths", "_ended")  # attributes that a checkpoint stores

    def __init__(self, n: int = 1, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock, self._begin, self._in_environment = clock, clock(), 0.0
        self._rewards, self._lengths = np.zeros(n), np.zeros(n)
        self._ended: list[tuple[float, float]] = []

    def timed(self, step: Callable[[], Made]) -> Made:
        """Call `step`, add its duration to the time that the environment takes, and return its result."""
        begin = self._clock()
        found = step()
        self._in_environment += self._clock() - begin
        return found

    def add(self, rewards: npt.ArrayLike, ended: npt.ArrayLike, counted: npt.ArrayLike = True) -> None:
        """Add a step of each environment: its reward (n,), whether the episode ended (n,), whether it counts (n,)."""
        self._rewards += np.where(counted, rewards, 0.0)
        self._lengths += np.asarray(counted)
        if np.count_nonzero(ended):
            for i in np.flatnonzero(ended).tolist():
                self._ended.append((self._rewards[i], self._lengths[i]))
                self._rewards[i] = self._lengths[i] = 0.0

    def read(self) -> dict[str, float]:
        """Return the means over the episodes that ended since the last call, and the environment's share of the time.

        The names are those of `TrainingProgress.extras`.
        """
        now = self._clock()
        found = {"environment_share": self._in_environment / max(now - self._begin, 1e-9)}
        if self._ended:
            total, length = np.mean(self._ended, axis=0).tolist()
            found |= {"episode_return": total, "episode_length": length}
        self._begin, self._in_environment, self._ended = now, 0.0, []
        return found


Callback = Callable[[TrainingProgress], bool | None]


class Reporter:
    """Reports the training for one risk to a callback, until the callback returns True.

    Args:
        callback: The callback, or None.
        tasks: Weights (n, d) of the tasks.
        risks: All risks. In each task, the policies of each risk act in an equal share of the steps.
        place: The index of the risk in `risks`.
        steps: Number of steps of each task, for all risks together.
        further: The number of additional tasks, whose policies never act. Default: 0.
    """

    def __init__(
        self,
        callback: Callback | None,
        tasks: Floats,
        risks: Sequence[Risk],
        place: int,
        steps: int,
        further: int = 0,
    ) -> None:
        self._callback, self._tasks, self._risk = callback, tasks.tolist(), risks[place]
        self._policies = len(tasks) + further  # number of policies for each risk
        self._risks, self._place, self._steps = len(risks), place, max(1, steps // len(risks))
        self.stopped = False

    def __call__(
        self,
        task: int,
        step: int,
        total: float,
        failures: float,
        extras: Mapping[str, float] = {},
        share: float | None = None,
    ) -> bool:
        """Report the progress of a task, and return whether to stop.

        `share` is the share of training that is done. If it is None, tasks are trained in sequence, and the share is
        computed from `task` and `step`.
        """
        if self._callback is not None:
            n, done = len(self._tasks), task * self._risks + self._place
            if share is None:
                share = (done + min(1.0, step / self._steps)) / (n * self._risks)
            for_task = tuple(self._tasks[task]), self._risk, share
            policy = self._place * self._policies + task
            seen = TrainingProgress(policy, step, total, failures, extras, *for_task)
            answer = self._callback(seen)
            if not isinstance(answer, bool | np.bool_ | None):
                raise ValueError(f"callback must return True to stop, or False or None, got {type(answer).__name__}")
            self.stopped = bool(answer)
        return self.stopped


class Trained(NamedTuple):
    """Policies learned for one risk, the weights (n, d) of their tasks, and statistics of training for each policy.

    `model` is the library's own model (`rasf.library.ahead`), which is the same for all risks, or None.
    """

    sources: FrozenPolicies
    weights: Floats
    history: Arrays
    model: Any = None


class TrainingLog:
    """A log file. It replaces an existing file, unless a checkpoint of the same training is restored.

    If a line cannot be written, for example on a full disk, one warning is logged, no more lines are written, and
    training continues.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.perf_counter) -> None:
        self._path, self._clock, self._stream = path, clock, is_stream(path, "log")
        self._file: BinaryIO | None = path.open("ab")
        self._size = 0  # bytes of complete lines
        self._begin = self._then = clock()
        self._last: dict[int, tuple[int, float]] = {}  # last step and return of each policy

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def state(self) -> Header:
        """Return the state for checkpoints."""
        return {"size": self._size, "seconds": self._then - self._begin, "last": self._last}

    def restore(self, state: Header) -> None:
        """Continue after the lines that existed when the checkpoint was written."""
        self._size = state["size"]
        if not self._stream:
            self._size = min(self._size, self._path.stat().st_size)
            os.truncate(self._path, self._size)
        self._last = {policy: tuple(seen) for policy, seen in state["last"].items()}
        self._then = self._clock()
        self._begin = self._then - state["seconds"]

    def _write(self, line: bytes) -> None:
        if self._file is None:
            return
        try:
            if not self._stream and self._path.stat().st_size != self._size:
                self._file.truncate(self._size)  # removes lines of other runs and lines written after the checkpoint
            self._file.write(line)
            self._file.flush()
            self._size += len(line)
        except OSError as error:
            _log.warning("%s cannot be written: %s; training continues", self._path, error.strerror or error)
            if not self._stream:
                with suppress(OSError):
                    os.truncate(self._path, self._size)  # removes an incomplete line
            with suppress(OSError):
                self._file.close()
            self._file = None

    def add(self, progress: TrainingProgress) -> Header:
        """Write one line on the progress of a policy, and return the line's fields."""
        step_before, total_before = self._last.get(progress.policy, (0, 0.0))
        self._last[progress.policy] = progress.step, progress.total
        then, now = self._then, self._clock()
        self._then = now
        steps, reward = progress.step - step_before, progress.total - total_before
        line = {
            "policy": progress.policy,
            "w": list(progress.w),
            "risk": risk_to_text(progress.risk),
            "step": progress.step,
            "return": _known(progress.total),
            "failures": int(progress.failures) if math.isfinite(progress.failures) else None,
            "reward_per_step": _known(reward / steps if steps else math.nan),
            **{name: _known(progress.extras.get(name, math.nan)) for name in _PLAIN_EXTRAS},
            "loss": _known(progress.extras.get("loss", math.nan)),
            "clipped": _known(sum(progress.extras.get(name, math.nan) for name in _CLIPPED)),
            "steps_per_second": _known(round(steps / (now - then), 1) if now > then else math.nan),
            "environment_share": _known(progress.extras.get("environment_share", math.nan)),
            "share": round(progress.share, 4),
            "seconds": round(now - self._begin, 3),
            "seconds_left": _known(round(seconds_left(now - self._begin, progress.share), 1)),
        }
        self._write(json.dumps(line).encode() + b"\n")
        return line


def seconds_left(seconds: float, share: float) -> float:
    """Return the seconds until training ends, at the speed so far; nan at the start."""
    return seconds * (1 - share) / share if share > 0 else math.nan


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


class ScalarLog:
    """Scalars for TensorBoard: event files in `folder`. The class needs `rasf[tensorboard]`.

    Each policy or run has a subfolder, which TensorBoard shows as a curve.
    """

    def __init__(self, folder: Path) -> None:
        try:
            from tensorboard.summary.writer.event_file_writer import EventFileWriter
        except ImportError as error:
            raise ValueError("TensorBoard is not installed; pip install rasf[tensorboard]") from error
        self._open, self._folder = EventFileWriter, folder
        self._writers: dict[str, EventFileWriter] = {}
        self._failed = False

    def write(self, subfolder: str, step: int, scalars: Mapping[str, float]) -> None:
        """Add the scalars of one policy or run at one step. After a failure to write, warn once and write no more."""
        if self._failed:
            return
        try:
            self._write(subfolder, step, scalars)
        except OSError as error:
            _log.warning("%s cannot be written: %s; training continues", self._folder, error.strerror or error)
            self._failed = True

    def _write(self, subfolder: str, step: int, scalars: Mapping[str, float]) -> None:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary

        if subfolder not in self._writers:
            self._writers[subfolder] = self._open(str(self._folder / subfolder))
        values = [Summary.Value(tag=tag, simple_value=float(value)) for tag, value in scalars.items()]
        self._writers[subfolder].add_event(Event(wall_time=time.time(), step=step, summary=Summary(value=values)))
        self._writers[subfolder].flush()
