"""Scalars of long runs for TensorBoard (extra `tensorboard`), one folder a lane."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np


class ScalarLog:
    """Event files under `folder`, opened when first written to."""

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

    def write_tasks(self, lane: str, step: int, arrays: Mapping[str, Any]) -> None:
        """Add arrays of one number a task, by name."""
        self.write(
            lane,
            step,
            {
                f"{name}/task_{task + 1}": value
                for name, part in arrays.items()
                for task, value in enumerate(np.asarray(part))
            },
        )
