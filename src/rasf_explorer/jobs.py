"""Calls that run in threads, so that the page never blocks. Two classes differ in what a new call does:

    CancelPrevious   A new call stops the running call and drops its result. Rollouts and frontiers use this class.
    Coalesce         A new call waits until the running call is done, and replaces an older waiting call. So the page
                     keeps updating while a slider moves, and no queue grows.

Use each object from one event loop. A call of `CancelPrevious` gets a function `stop`, which returns True once the
result is no longer needed. The call may then raise `Stopped`. The method `run` returns None if the call was stopped or
replaced, or failed. If a call fails, `say` is called with the error as a sentence.
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
    """Return the message that the page shows for an error, and log an unexpected error."""
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
    """A runner of calls in which a new call stops the previous call."""

    def __init__(self, say: Say) -> None:
        self._say, self._stopped = say, threading.Event()

    async def run(self, work: Callable[..., T], *args: object) -> T | None:
        """Run work in a thread, and stop the previous call.

        Args:
            work: Called as `work(*args, stop)`.
            *args: Arguments of the work.

        Returns:
            The result, or None if the call was stopped or failed.
        """
        self.stop()
        mine = self._stopped = threading.Event()
        return await _in_thread(self._say, lambda: not mine.is_set(), work, *args, mine.is_set)

    def stop(self) -> None:
        """Stop the running call."""
        self._stopped.set()


class Coalesce:
    """A runner of one call at a time, which keeps only the newest waiting call."""

    def __init__(self, say: Say) -> None:
        self._say, self._turn, self._asked, self._open = say, asyncio.Lock(), 0, True

    async def run(self, work: Callable[..., T], *args: object) -> T | None:
        """Run work in a thread once the running call is done.

        Args:
            work: Called as `work(*args)`.
            *args: Arguments of the work.

        Returns:
            The result, or None if a newer call replaced this waiting call, or if this call failed.
        """
        self._asked += 1
        mine = self._asked
        async with self._turn:
            if mine < self._asked or not self._open:
                return None
            return await _in_thread(self._say, lambda: self._open, work, *args)

    def close(self) -> None:
        """Start no more calls, and drop the result of the running call."""
        self._open = False


class Reports:
    """Progress reports from a thread, shown in the event loop in which this object was created.

    A newer report replaces a report that is not shown yet.
    """

    def __init__(self, show: Callable[..., object]) -> None:
        self._show, self._loop, self._waiting = show, asyncio.get_running_loop(), threading.Event()
        self._last: tuple[object, ...] = ()

    def __call__(self, *args: object) -> None:
        """Show a report soon, unless a newer report replaces it. Any thread may call this method."""
        self._last = args
        if not self._waiting.is_set():
            self._waiting.set()
            self._loop.call_soon_threadsafe(self._do)

    def _do(self) -> None:
        self._waiting.clear()
        self._show(*self._last)
