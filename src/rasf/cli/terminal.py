"""What the commands share on the terminal: results on standard output, progress and complaints on standard error.

And Ctrl-C: it ends a command at once, or stops it in order where there is something to stop or to keep.
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

INTERRUPTED = 130
console = Console(emoji=False)  # it would make a thumb of the end of "mean-variance:-1:"


def on_stderr() -> Console:
    """Where progress and complaints go."""
    return Console(stderr=True, emoji=False)


def counted() -> Progress:
    """Progress over a number of equal pieces of work."""
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(SpinnerColumn(), TextColumn("{task.description}"), *columns, console=on_stderr())


def say(sentence: str) -> None:
    """Print a sentence as it is, wrapped by the terminal only."""
    console.print(printable(sentence), markup=False, highlight=False, soft_wrap=True)


def counted_policies(number: int) -> str:
    """How many policies, in words."""
    return "1 policy" if number == 1 else f"{number} policies"


def printable(text: object) -> str:
    """Text from a file or an environment, without what could drive the terminal."""
    return "".join(letter if letter.isprintable() else "?" for letter in str(text))


def check_writable(name: str, path: Path) -> Path:
    """Refuse a file that could not be written in the end: better known before the work.

    Args:
        name: the option that an error names.
        path: the file; a symlink is followed, and a device or a pipe (/dev/null, /dev/stdout) is accepted as it is.

    Returns:
        `path`.

    Raises:
        ValueError: `path` is a folder, a block device or a socket, its folder does not exist, or it cannot be written.
    """
    try:
        if is_stream(path, name):
            return path
    except OSError as error:
        raise ValueError(f"{name} cannot be written: {path}: {error.strerror}") from None
    folder = Path(os.path.realpath(path)).parent if path.is_symlink() else path.parent
    if not folder.is_dir():
        raise ValueError(f"{name} must be in a folder that exists; {folder} is none")
    check_folder(name, folder)
    return path


def check_folder(name: str, folder: Path) -> Path:
    """Refuse a folder that cannot be written to, or made."""
    there = next(each for each in (folder.absolute(), *folder.absolute().parents) if os.path.lexists(each))
    try:
        with tempfile.TemporaryFile(dir=there):
            return folder
    except OSError as error:
        raise ValueError(f"{name} cannot be written: {there}: {error.strerror}") from None


def check_plot(plot: Path) -> None:
    """Refuse a figure that is not a .png, or that cannot be written to."""
    if plot.suffix != ".png":
        raise ValueError(f"plot must end in .png, got {plot}")
    check_writable("plot", plot)


class Interrupt:
    """Ctrl-C asks to stop; the second time `undo` is called and the process ends. An exception could crash JAX.

    While a file is `saving`, the second is an exception after all, so that no half of it is left.
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
        with suppress(RuntimeError):  # the signal may have come in the middle of a print
            self._bar.console.print("stopping soon, to save; Ctrl-C again leaves at once", style="yellow")


@contextmanager
def leaving_at_once() -> Iterator[None]:
    """Meanwhile Ctrl-C ends the process with 130 and no word, until `interruptible`; where it is ignored, it stays so.

    Python's own answer, an exception, gets lost where a library calls back: JAX does, at each collection of garbage.
    """
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def interruptible() -> None:
    """From here on there is something to stop or to keep: let Ctrl-C be an exception again."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _leave(number: int, frame: FrameType | None) -> None:
    if os.isatty(2):
        os.write(2, b"\x1b[?25h\n")  # progress hides the cursor
    os._exit(INTERRUPTED)
