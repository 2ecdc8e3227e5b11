"""Checks of log files before data are read: the sizes that the files declare must be within a limit.

A file of a few megabytes may declare arrays of terabytes, by compressed zeros, a column of equal numbers, or a shape
without data. Each number counts as 8 bytes, whatever its type in the file, because a `Log` holds 64-bit numbers.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rasf.files import HEAD_LIMIT, npy_memory

_BYTES = 8  # memory of each number, in bytes
# The compression methods that numpy writes. Other methods are refused, because zipfile may unpack a whole member into
# memory even if only a few bytes of it are read.
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_MOST_DEPTH = 16  # largest depth of nested groups in an episode of a Minari dataset
_MARK = b"PAR1"  # the last bytes of a .parquet file


class Refusal(ValueError):
    """An error with a complete message: the reason why a log is refused."""


@contextmanager
def readable(path: object, kind: str) -> Iterator[None]:
    """Turn any error from reading a damaged file into a ValueError with one sentence; leave a `Refusal` unchanged.

    Args:
        path: The file, for the message.
        kind: The expected format with its article, such as "an .npz file".

    Raises:
        ValueError: Reading failed.
    """
    try:
        yield
    except Refusal:
        raise
    except Exception as error:
        said = " ".join(str(error).split())[:120] or type(error).__name__
        raise ValueError(f"{path} is truncated or not {kind}: {said}") from None


def check_size(what: object, declared: int, max_bytes: int) -> None:
    """Raise a `Refusal` if data declare more bytes than the limit; `what` names the data in the message."""
    if declared > max_bytes:
        raise Refusal(
            f"{what} declares {declared:,} bytes of numbers, more than max_bytes, {max_bytes:,}; give a larger "
            "max_bytes if the log is from a source that you trust"
        )


def npz_members(archive: zipfile.ZipFile) -> tuple[dict[str, zipfile.ZipInfo], int]:
    """Return the members of an .npz file by array name, and the memory in bytes that their headers declare."""
    members: dict[str, zipfile.ZipInfo] = {}
    declared = 0
    for info in archive.infolist():
        name = info.filename.removesuffix(".npy")
        if name in members or name == info.filename or info.compress_type not in _METHODS:
            raise ValueError(f"its member {info.filename!r:.60} is not of a kind that numpy writes")
        members[name] = info
        with archive.open(info) as file:
            declared += npy_memory(file, info.file_size)
    return members, declared


def check_parquet_head(path: Path) -> None:
    """Raise ValueError if the metadata of a .parquet file are too large."""
    with open(path, "rb") as file:
        if file.seek(0, 2) < 12:
            raise ValueError("it is too short")
        file.seek(-8, 2)
        end = file.read(8)
    length = int.from_bytes(end[:4], "little")
    if end[4:] != _MARK or length > HEAD_LIMIT:
        raise ValueError(f"its metadata must have at most {HEAD_LIMIT:,} bytes and end in PAR1")


def parquet_memory(metadata: Any) -> int:
    """Return the memory in bytes that the metadata of a .parquet file declare."""
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    rows = max(metadata.num_rows, sum(group.num_rows for group in groups))
    chunks = [group.column(i) for group in groups for i in range(group.num_columns)]
    unpacked = sum(max(_BYTES * chunk.num_values, chunk.total_uncompressed_size) for chunk in chunks)
    return int(max(_BYTES * rows * metadata.num_columns, unpacked))


def check_minari(dataset: Any, max_bytes: int) -> None:
    """Raise ValueError if a Minari dataset in HDF5 declares too many bytes.

    Datasets in other formats are checked while they are read (`rasf.library.logs.formats`).
    """
    storage: Any = getattr(dataset, "storage", None)
    if getattr(storage, "FORMAT", None) != "hdf5":
        return
    import h5py  # type: ignore[import-untyped]

    with readable(storage.data_path, "a Minari dataset"), h5py.File(storage.data_path / "main_data.hdf5", "r") as file:
        declared = 0
        for index in dataset.episode_indices:
            for size in _sizes(file[f"episode_{index}"], _MOST_DEPTH):
                declared += size
                check_size(storage.data_path, declared, max_bytes)


def _sizes(node: Any, depth: int) -> Iterator[int]:
    """Yield the size in bytes of every array in a group; an array with several links is counted several times.

    A group itself counts as 32 numbers, so that a file with very many groups exceeds the limit too.
    """
    if hasattr(node, "shape"):
        yield math.prod(node.shape or ()) * max(_BYTES, node.dtype.itemsize)
    elif depth == 0:
        raise ValueError(f"its groups are nested more than {_MOST_DEPTH} deep")
    else:
        yield 32 * _BYTES
        for name in node:
            yield from _sizes(node[name], depth - 1)


def episode_memory(part: Any) -> int:
    """Return the memory in bytes that an episode's arrays, which may be nested, take as 64-bit numbers."""
    if isinstance(part, dict):
        return sum(map(episode_memory, part.values()))
    if isinstance(part, tuple):
        return sum(map(episode_memory, part))
    return _BYTES * int(getattr(part, "size", 0))
