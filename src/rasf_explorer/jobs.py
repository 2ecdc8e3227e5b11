"""Work in threads, so that the page never waits: two rules for what becomes of work that is overtaken.

    CancelPrevious   a new call tells the old one to stop and drops its answer: rollouts, frontiers
    Coalesce         the old one is finished and shown, then only the newest of those that wait is begun: while a
                     slider moves, something new is seen all the time, and nothing piles up

Both are used from one event loop. Work of `CancelPrevious` gets `stop`, which says True once nobody waits for its
answer, and may raise `Stopped`. An error becomes a sentence for `say`; `run` then gives None, as for work that was
overtaken.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import TypeVar

from rasf_explorer.scenes.scene import Stop, Stopped

T = TypeVar("T")
Say = Callable[[str], object]
_LOG = logging.getLogger(__name__)


def sentence_of(error: Exception) -> str:
    """What a visitor is told; surprises go to the log as well."""
    if isinstance(error, ValueError | OSError):
        return " ".join(str(error).split())
    _LOG.error("the explorer met an error", exc_info=error)
    return f"This could not be computed: {type(error).__name__}: {' '.join(str(error).split())}"


async def _in_thread(say: Say, wanted: Stop, work: Callable[..., T], *args: object) -> T | None:
    try:
        answer = await asyncio.to_thread(work, *args)
    except Stopped:
        return None
    except Exception as error:
        if wanted():
            say(sentence_of(error))
        return None
    return answer if wanted() else None


class CancelPrevious:
    """One piece of work at a time is wanted: the last that was asked for."""

    def __init__(self, say: Say) -> None:
        self._say, self._stopped = say, threading.Event()

    async def run(self, work: Callable[..., T], *args: object) -> T | None:
        """The answer of `work(*args, stop)`, or None if it was overtaken, stopped or failed."""
        self.stop()
        mine = self._stopped = threading.Event()
        return await _in_thread(self._say, lambda: not mine.is_set(), work, *args, mine.is_set)

    def stop(self) -> None:
        """Give up what is under way."""
        self._stopped.set()


class Coalesce:
    """One piece of work runs, at most one waits: the newest."""

    def __init__(self, say: Say) -> None:
        self._say, self._turn, self._asked, self._open = say, asyncio.Lock(), 0, True

    async def run(self, work: Callable[..., T], *args: object) -> T | None:
        """The answer of `work(*args)`, or None if a newer call came while it waited, or it failed."""
        self._asked += 1
        mine = self._asked
        async with self._turn:
            if mine < self._asked or not self._open:
                return None
            return await _in_thread(self._say, lambda: self._open, work, *args)

    def close(self) -> None:
        """Begin nothing any more and drop what is under way."""
        self._open = False


class Reports:
    """Progress from a thread, shown in the event loop that made this; what comes too quickly is left out."""

    def __init__(self, show: Callable[..., object]) -> None:
        self._show, self._loop, self._waiting = show, asyncio.get_running_loop(), threading.Event()
        self._last: tuple[object, ...] = ()

    def __call__(self, *args: object) -> None:
        """From any thread: show this soon, unless something newer comes first."""
        self._last = args
        if not self._waiting.is_set():
            self._waiting.set()
            self._loop.call_soon_threadsafe(self._do)

    def _do(self) -> None:
        self._waiting.clear()
        self._show(*self._last)
