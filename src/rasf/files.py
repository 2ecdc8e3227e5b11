"""Files that are whole or absent: written under a temporary name, synced, renamed."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path


def write_atomically(path: Path, write: Callable[[str], object]) -> None:
    """Have `write` fill a temporary file beside `path`, then put it in the place of `path`."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, partial = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:  # the caller knows the path, not the temporary name
        raise OSError(error.errno, f"cannot be written: {error.strerror}", str(path)) from None
    os.close(handle)
    try:
        write(partial)
        with open(partial, "rb") as written:
            os.fsync(written.fileno())
        os.chmod(partial, 0o644)
        os.replace(partial, path)
    except BaseException:
        os.unlink(partial)
        raise


def write_text(path: Path, text: str) -> None:
    """Write a text file."""
    write_atomically(path, lambda partial: Path(partial).write_text(text))
