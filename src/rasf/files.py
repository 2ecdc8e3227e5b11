"""Atomic writing of files, and the container format of libraries, checkpoints and the results of runs.

A file is written under a temporary name, synced and renamed, so that the file is complete or absent. Symlinks are
followed. Character devices, pipes and open descriptors (`/dev/null`, `/dev/stdout`) are written to directly. A process
holds a lock on its temporary file. If the process is killed, the lock ends, and the next write in the same folder
removes the temporary file.

A container holds named arrays and a JSON header in the safetensors layout. Checksums cover every byte of the file:

    8 bytes    length N of the head, little endian
    N bytes    {"__metadata__": {"format": "rasf", "version": "1", "sha256": D, "contents": C},
                "psi": {"dtype": "F64", "shape": [..], "data_offsets": [begin, end]}, ..}   followed by spaces,
                so that 8 + N is a multiple of 64
    arrays     the arrays, one after the other, with the widest type first, so that every array is aligned

C is JSON text: {"checksums": {name: SHA-256 of the array's bytes}, "header": the caller's header}. D is the SHA-256 of
the length and the head, computed with zeros instead of D. The head contains the checksums of the arrays, so D
identifies the whole file. Checksums detect accidental damage, not forgery: an edited file may have new checksums, so
callers validate the contents. The safetensors package reads the arrays. The head is written here, because safetensors
writes metadata in no fixed order, and equal contents should give equal bytes.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import re
import shutil
import socket
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

HEAD_LIMIT = 8 << 20  # largest size of a head in bytes; parsing takes thirty times this size in memory
_VERSION = 1
_CODES = {
    np.dtype(name): code
    for code, name in {
        "BOOL": "?", "I8": "i1", "U8": "u1", "I16": "<i2", "U16": "<u2", "F16": "<f2", "I32": "<i4", "U32": "<u4",
        "F32": "<f4", "I64": "<i8", "U64": "<u8", "F64": "<f8",
    }.items()
}  # fmt: skip
# files of this format and of all future formats begin with these fields
_START = re.compile(rb'.{8}\{"__metadata__":\{"format":"rasf","version":"([1-9][0-9]{0,8})",', re.DOTALL)
_DIGEST = re.compile(rb'"sha256":"([0-9a-f]{64})"')
_ZEROS = b"0" * 64
_NPY_HEADS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
_HOST = re.sub(r"[^A-Za-z0-9]", "", socket.gethostname())[:40]
# the name of a temporary file contains the host, the number of the process, and a random number
_PARTIAL = re.compile(r"\.rasf-([A-Za-z0-9]*)-[0-9]+-[0-9a-f]{16}\.partial")
_STALE_S = 24 * 3600.0  # age in seconds at which a temporary file is stale, if the state of its lock is unknown
_UNWRITABLE = {stat.S_IFDIR: "directory", stat.S_IFBLK: "block device", stat.S_IFSOCK: "socket"}

Arrays = dict[str, np.ndarray]
Header = dict[str, Any]


def as_path(path: object) -> Path:
    """Return text or a path object as a `Path`. Raise an error if no file can have this path."""
    try:
        text = os.fspath(path)  # type: ignore[call-overload]
        if isinstance(text, str) and text and b"\0" not in os.fsencode(text):
            return Path(text)
    except (TypeError, UnicodeError):
        pass
    raise ValueError(f"path must be the name of a file, as text or a pathlib.Path, got {path!r:.80}")


def is_stream(path: Path, name: str = "path") -> bool:
    """Return whether `path` is a stream: a character device, a pipe, or a descriptor such as /dev/stdout.

    Streams are written to directly. A regular file or a path that does not exist gives False. A folder, a block device
    or a socket raises an error, in which `name` is the name of the argument.
    """
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return False
    if _descriptor(path) is not None or stat.S_ISCHR(mode) or stat.S_ISFIFO(mode):
        return True
    if not stat.S_ISREG(mode):
        raise ValueError(f"{name} must name a file; {path} is a {_UNWRITABLE.get(stat.S_IFMT(mode), 'special file')}")
    return False


def _descriptor(path: Path) -> int | None:
    """Return this process's open descriptor to which a path leads, such as 1 for /dev/stdout, or None."""
    own = {os.path.realpath(folder) for folder in ("/dev/fd", "/proc/self/fd")}
    for _ in range(40):  # the system follows at most 40 links
        if path.name.isdecimal() and os.path.realpath(path.parent) in own:
            return int(path.name)
        if not path.is_symlink():
            return None
        path = path.parent / os.readlink(path)
    return None


def write_atomically(path: Path, write: Callable[[str], object]) -> None:
    """Write a file. If writing fails, an existing file is unchanged.

    Symlinks are followed, and missing folders are made. An existing file keeps its mode, and then belongs to the user
    of this process. The text of an OSError contains `path`, not the name of the temporary file.

    Args:
        path: The file.
        write: A function that takes the name of a temporary file and writes the contents to this file.
    """
    try:
        if is_stream(path):
            _write_stream(path, write)
        else:
            _write_file(Path(os.path.realpath(path)), write)
    except OSError as error:
        reason = error.strerror or " ".join(str(error).split())
        raise OSError(error.errno or errno.EIO, f"cannot be written: {reason}", str(path)) from error


def _write_stream(path: Path, write: Callable[[str], object]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        whole, number = os.path.join(folder, "whole"), _descriptor(path)  # first write a file, because `write` may seek
        write(whole)
        if number is not None:  # flush, so that earlier printed text is written first
            with suppress(AttributeError, ValueError):  # standard output is missing or closed
                sys.stdout.flush()
        with open(whole, "rb") as source, open(path if number is None else os.dup(number), "wb") as stream:
            shutil.copyfileobj(source, stream)


def _write_file(path: Path, write: Callable[[str], object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_stale(path.parent)
    mode = stat.S_IMODE(path.stat().st_mode) & 0o777 if path.exists() else None
    with _temporary_file(path.parent, 0o666 if mode is None else 0o600) as partial:
        write(partial)
        with open(partial, "rb+") as written:
            os.fsync(written.fileno())
        if mode is not None:
            os.chmod(partial, mode)
        os.replace(partial, path)


@contextmanager
def _temporary_file(folder: Path, mode: int) -> Iterator[str]:
    """Yield the name of a temporary file that is locked until it is renamed or removed. The umask applies to `mode`."""
    while True:
        partial = str(folder / f".rasf-{_HOST}-{os.getpid()}-{os.urandom(8).hex()}.partial")
        handle = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)
        if fcntl is None:
            break
        with suppress(OSError):  # on a file system without locks, `remove_stale` uses the age of files
            fcntl.flock(handle, fcntl.LOCK_EX)
        if os.fstat(handle).st_nlink:
            break
        os.close(handle)  # `remove_stale` removed the file before it was locked
    if fcntl is None:  # Windows cannot rename an open file
        os.close(handle)
    try:
        yield partial
    finally:
        with suppress(FileNotFoundError):  # the file was renamed or removed
            os.unlink(partial)
        if fcntl is not None:
            os.close(handle)


def is_partial(name: str) -> bool:
    """Return whether a file of this name is a temporary file of `write_atomically`."""
    return _PARTIAL.fullmatch(name) is not None


def remove_stale(folder: Path) -> None:
    """Remove the temporary files that killed writers left in a folder (not in its subfolders)."""
    with suppress(OSError), os.scandir(folder) as entries:  # a writable folder may be unreadable
        for path, host in [(each.path, match[1]) for each in entries if (match := _PARTIAL.fullmatch(each.name))]:
            # a process that has just made this file waits for the lock, finds the file removed, and makes another file
            with suppress(OSError), _lock_of(path) as held:
                # a network file system may hide the locks of other hosts
                unknown = held is None or host != _HOST
                if not held and (not unknown or time.time() - os.stat(path).st_mtime > _STALE_S):
                    os.unlink(path)


def is_locked(path: Path) -> bool | None:
    """Return whether a process holds a lock on an existing file, or None if locks are not supported."""
    with _lock_of(path) as held:
        return held


@contextmanager
def _lock_of(path: str | Path) -> Iterator[bool | None]:
    """Yield whether a file is locked, or None if unknown. If it is free, no writer can lock it in the `with` block."""
    if fcntl is None:
        yield None
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        held: bool | None = False
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)  # a shared lock needs no permission to write
        except BlockingIOError:
            held = True
        except OSError:
            held = None
        yield held
    finally:
        os.close(handle)


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically, in UTF-8."""
    write_atomically(path, lambda partial: Path(partial).write_text(text, encoding="utf-8"))


def user_cache() -> Path:
    """Return the folder of rasf in the user's cache, for files that can be made again."""
    try:
        from platformdirs import user_cache_path
    except ModuleNotFoundError:  # platformdirs is optional on a machine for training
        return Path(tempfile.gettempdir()) / "rasf"
    return user_cache_path("rasf", appauthor=False)


def save_file(path: str | os.PathLike[str], header: Header, arrays: Mapping[str, np.ndarray]) -> None:
    """Write a container atomically.

    Args:
        path: The file.
        header: A dict that JSON can represent, with finite numbers.
        arrays: Arrays of booleans, integers or floats, by name.

    Raises:
        ValueError: An argument cannot be stored.
    """
    target = as_path(path)
    if not isinstance(header, dict):
        raise ValueError(f"header must be a dict, got {type(header).__name__}")
    try:
        same = _parsed(_dump(header)) == header  # whether JSON keeps the header unchanged
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"header must be plain JSON with finite numbers: {error}") from None
    if not same:
        raise ValueError("header must be plain JSON: dict with text as keys, list, text, finite number, bool, None")
    plain = {name: _plain(name, array) for name, array in arrays.items()}
    # in this order every array begins at a multiple of its item size
    ordered = dict(sorted(plain.items(), key=lambda item: (-item[1].dtype.itemsize, item[0])))
    head = _head(header, ordered)
    if len(head) > HEAD_LIMIT:
        raise ValueError(f"header must take at most {HEAD_LIMIT} bytes, got {len(head)}; save large data as arrays")

    def write(partial: str) -> None:
        with open(partial, "wb") as file:
            file.write(head)
            for array in ordered.values():
                file.write(_bytes_of(array))

    write_atomically(target, write)


def load_file(path: str | os.PathLike[str]) -> tuple[Header, Arrays]:
    """Return the header and the arrays of a file that `save_file` wrote.

    Raises:
        FileNotFoundError: The file does not exist.
        ValueError: The file has another format, or is damaged.
    """
    from safetensors import SafetensorError, safe_open

    path = as_path(path)
    try:
        _check_head(path)
        with safe_open(path, "numpy") as file:
            contents = _parsed((file.metadata() or {}).get("contents", ""))
            arrays: Arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  (not a mapping)
        match contents:
            case {"checksums": dict(checksums), "header": dict(header), **others} if not others:
                pass
            case _:
                raise _Refused("is damaged: its head is not one that rasf writes")
        if checksums.keys() != arrays.keys():
            raise _Refused("is damaged: its head must have exactly one checksum for each of its arrays")
        for name, array in arrays.items():
            if _digest(_bytes_of(array)) != checksums[name]:
                raise _Refused(f"is damaged: its array {name!r} does not match its checksum")
            if array.dtype == np.bool_ and array.view(np.uint8).max(initial=0) > 1:
                raise _Refused(f"is damaged: its array {name!r} holds bytes that are neither true nor false")
        return header, arrays
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} does not exist") from None
    except _Refused as reason:
        raise ValueError(f"{path} {reason}") from None
    except (SafetensorError, ValueError, TypeError, KeyError, RecursionError, MemoryError) as error:
        said = " ".join(str(error).split())[:120]
        raise ValueError(f"{path} is truncated or damaged: {said}") from None


def npy_memory(file: IO[bytes], size: int) -> int:
    """Return the number of bytes that an .npy stream's array takes in memory; an entry counts as at least 8 bytes.

    Only the head of the stream is read.

    Args:
        file: The stream, at its beginning.
        size: The number of bytes of the stream.

    Raises:
        ValueError: The array contains objects, or its declared size contradicts `size`.
    """
    version = np.lib.format.read_magic(file)
    if version not in _NPY_HEADS:
        raise ValueError(f"its .npy format {version} is not 1.0 or 2.0")
    shape, _, dtype = _NPY_HEADS[version](file)
    if dtype.hasobject or min(shape, default=0) < 0:
        raise ValueError(f"its array must be of numbers or text, got {dtype} of shape {shape}")
    count = math.prod(shape)
    if file.tell() + count * dtype.itemsize != size:
        raise ValueError(f"its array has shape {shape} and {size - file.tell()} bytes, which do not fit together")
    return count * max(8, dtype.itemsize)


class _Refused(Exception):
    """The reason why a file cannot be read, as the end of a sentence that begins with the file's path."""


def _plain(name: object, array: object) -> np.ndarray:
    """Return an array in the form in which it is stored: contiguous and little endian."""
    if not isinstance(name, str) or not 0 < len(name) <= 256 or name == "__metadata__" or not _is_text(name):
        raise ValueError(f"arrays must have names of 1 to 256 characters other than '__metadata__', got {name!r:.80}")
    if not isinstance(array, np.ndarray):
        raise ValueError(f"arrays[{name!r}] must be a numpy array, got {type(array).__name__}")
    if array.dtype.kind in "biuf":  # numbers and booleans; the next line fails for some other kinds
        stored = array.dtype.newbyteorder("<")
        if stored in _CODES:
            return np.asarray(array, dtype=stored, order="C")
    raise ValueError(f"arrays[{name!r}] must be bool, integers, float16, float32 or float64, got dtype {array.dtype}")


def _dump(value: object) -> str:
    return json.dumps(value, allow_nan=False, separators=(",", ":"))


def _parsed(text: str) -> Header:
    """Return a parsed JSON object. Raise an error for text that `_dump` does not write, such as repeated keys."""
    value = json.loads(text)
    if not isinstance(value, dict) or _dump(value) != text:
        raise ValueError("its header is not written as rasf writes it")
    if not _is_text(json.dumps(value, ensure_ascii=False)):
        raise ValueError("its text holds half of a surrogate pair")
    return value


def _is_text(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


def _head(header: Header, arrays: Arrays) -> bytes:
    """Return the bytes of a container before its arrays: the length of the head, and the head."""
    contents = {"checksums": {name: _digest(_bytes_of(array)) for name, array in arrays.items()}, "header": header}
    label = {"format": "rasf", "version": str(_VERSION), "sha256": _ZEROS.decode(), "contents": _dump(contents)}
    entries: Header = {"__metadata__": label}
    begin = 0
    for name, array in arrays.items():
        end = begin + array.nbytes
        entries[name] = {"dtype": _CODES[array.dtype], "shape": list(array.shape), "data_offsets": [begin, end]}
        begin = end
    text = _dump(entries).encode("ascii")
    text += b" " * (-(len(text) + 8) % 64)
    head = len(text).to_bytes(8, "little") + text
    return head.replace(_ZEROS, _digest(head).encode(), 1)


def _check_head(path: str | os.PathLike[str]) -> None:
    """Raise `_Refused` for a file of another program or of a newer format, or a head that contradicts its checksum."""
    if not stat.S_ISREG(os.stat(path).st_mode):  # opening a pipe would wait for ever
        raise _Refused("is not a file, so not a rasf library")
    with open(path, "rb") as file:
        start = file.read(128)
        if not start:
            raise _Refused("is empty, so not a rasf library")
        found = _START.match(start)
        if found is None:
            raise _Refused("is not a rasf library")
        if int(found[1]) > _VERSION:
            raise _Refused(f"was written by a newer rasf (format {int(found[1])}); this one reads format {_VERSION}")
        length = 8 + int.from_bytes(start[:8], "little")
        if length > HEAD_LIMIT:
            raise _Refused(f"is damaged: its head cannot have {length} bytes")
        file.seek(0)
        head = file.read(length)
    if len(head) < length:
        raise _Refused(f"is truncated: its head has {length} bytes, the file {len(head)}")
    digest = _DIGEST.search(head)
    if digest is None or _digest(head.replace(digest[1], _ZEROS, 1)).encode() != digest[1]:
        raise _Refused("is damaged: its head does not match its checksum")


def _digest(data: bytes | memoryview) -> str:
    return hashlib.sha256(data).hexdigest()


def _bytes_of(array: np.ndarray) -> memoryview:
    return array.reshape(-1).view(np.uint8).data
