"""The terminal: results on standard output, progress and errors on standard error, and Ctrl-C.

Ctrl-C ends a command at once (`leaving_at_once`). Commands with workers to stop or results to save handle Ctrl-C
themselves: `rasf train` by an `Interrupt`, other commands by KeyboardInterrupt (`interruptible`).
"""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeRemainingColumn,
)

from rasf.files import is_stream

INTERRUPTED = 130  # exit code after Ctrl-C
console = Console(emoji=False)  # with emoji, the end of "mean-variance:-1:" would become an emoji


def on_stderr() -> Console:
    """Return the console for progress and errors, which prints on standard error."""
    return Console(stderr=True, emoji=False)


def counted() -> Progress:
    """Return a progress bar that counts items, such as episodes."""
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(SpinnerColumn(), TextColumn("{task.description}"), *columns, console=on_stderr())


def say(sentence: str) -> None:
    """Print a sentence in one line, without markup."""
    console.print(printable(sentence), markup=False, highlight=False, soft_wrap=True)


def counted_policies(number: int) -> str:
    """Return the number of policies in words."""
    return "1 policy" if number == 1 else f"{number} policies"


def printable(text: object) -> str:
    """Return text from a file or an environment, with control characters replaced by question marks."""
    return "".join(letter if letter.isprintable() else "?" for letter in str(text))


def check_writable(name: str, path: Path) -> Path:
    """Return `path`, or raise ValueError if the file cannot be written.

    Args:
        name: the name of the option, for the error message.
        path: the file. A symlink is followed; a device or a pipe (/dev/null, /dev/stdout) is accepted.

    Returns:
        `path`.

    Raises:
        ValueError: `path` is a folder, a block device or a socket, is in a folder that does not exist, or cannot be
            written.
    """
    try:
        if is_stream(path, name):
            return path
    except OSError as error:
        raise ValueError(f"{name} cannot be written: {path}: {error.strerror}") from None
    folder = Path(os.path.realpath(path)).parent if path.is_symlink() else path.parent
    if not folder.is_dir():
        raise ValueError(f"{name} must be in a folder that exists; {folder} does not")
    check_folder(name, folder)
    return path


def check_folder(name: str, folder: Path) -> Path:
    """Return `folder`, or raise ValueError if the folder cannot be written to or created."""
    there = next(each for each in (folder.absolute(), *folder.absolute().parents) if os.path.lexists(each))
    try:
        with tempfile.TemporaryFile(dir=there):
            return folder
    except OSError as error:
        raise ValueError(f"{name} cannot be written: {there}: {error.strerror}") from None


def check_plot(plot: Path) -> None:
    """Raise ValueError if the path of a figure does not end in .png or cannot be written."""
    if plot.suffix != ".png":
        raise ValueError(f"plot must end in .png, got {plot}")
    check_writable("plot", plot)


class Interrupt:
    """Context in which a first Ctrl-C requests a stop, and a second Ctrl-C exits.

    Before the exit, `undo` is called, for example to release a lock.

    The second Ctrl-C raises no exception, because an exception could crash JAX. But while a file is saved (`saving`),
    it raises KeyboardInterrupt, so that no incomplete file is left.
    """

    def __init__(self, bar: Progress, undo: Callable[[], None]) -> None:
        self.asked = self.stopped = self.saving = False
        self.at = ""
        self._bar, self._undo = bar, undo

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGINT, self._hear)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self.asked and self.saving:
            raise KeyboardInterrupt
        if self.asked:
            self._undo()
            _leave(number, frame)
        self.asked = True
        with suppress(RuntimeError):  # raised if the signal interrupts a print
            self._bar.console.print("stopping soon, to save; a second Ctrl-C exits at once", style="yellow")


@contextmanager
def leaving_at_once() -> Iterator[None]:
    """Let Ctrl-C end the process silently with code 130 in this context, until `interruptible` is called.

    A process that ignores SIGINT still ignores the signal. KeyboardInterrupt is not used, because Python drops
    exceptions that are raised within some callbacks, such as the callback that JAX runs at each garbage collection.
    """
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def interruptible() -> None:
    """Let Ctrl-C raise KeyboardInterrupt again, for a command with workers to stop or results to save."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _leave(number: int, frame: FrameType | None) -> None:
    if os.isatty(2):
        os.write(2, b"\x1b[?25h\n")  # show the cursor, which a progress bar hides
    os._exit(INTERRUPTED)
