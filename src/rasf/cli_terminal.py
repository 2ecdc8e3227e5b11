"""What the commands share on the terminal: results on standard output, progress and complaints on standard error."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

console = Console()


class _Rate(ProgressColumn):
    """Steps a second."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.0f} steps/s", style="progress.data.speed")


def counted() -> Progress:
    """Progress over a number of equal pieces of work."""
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    )


def stepped() -> Progress:
    """Progress over steps, with their rate and the time left."""
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        TaskProgressColumn(),
        _Rate(),
        TextColumn("left:"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    )


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
    """Refuse a file that could not be written in the end: better known before the work."""
    if path.is_dir():
        raise ValueError(f"{name} must name a file; {path} is a folder")
    if not path.parent.is_dir():
        raise ValueError(f"{name} must be in a folder that exists; {path.parent} is none")
    check_folder(name, path.parent)
    return path


def check_folder(name: str, folder: Path) -> Path:
    """Refuse a folder that cannot be written to, or made."""
    there = next(each for each in (folder.absolute(), *folder.absolute().parents) if os.path.lexists(each))
    try:
        with tempfile.TemporaryFile(dir=there):
            return folder
    except OSError as error:
        raise ValueError(f"{name} cannot be written: {there}: {error.strerror}") from None
