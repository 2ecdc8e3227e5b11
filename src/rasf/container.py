"""Files of libraries: named arrays and a JSON header in the safetensors layout, none of which can change unnoticed.

    8 bytes    length N of the head, little endian
    N bytes    {"__metadata__": {"format": "rasf", "version": "1", "sha256": D, "contents": C},
                "psi": {"dtype": "F64", "shape": [..], "data_offsets": [begin, end]}, ..}   and spaces up to 64 bytes
    the rest   the arrays, one after the other, widest type first, so that each is aligned

C is JSON text: {"checksums": {name: SHA-256 of the array's bytes}, "header": what the caller saves}. D is the SHA-256
of the length and the head, with zeros in the place of D; as the head holds the checksums of the arrays, D names the
whole file. Checksums find accidents, not forgery: whoever edits a file can compute them again. So the loader trusts
nothing it reads. A head has exactly one spelling: the loader writes it again from what it understood and compares.

Any reader of safetensors opens these files. We parse them ourselves, because the reader of that library looks at no
checksum and accepts other spellings. A large file is mapped, not copied: a gigabyte then costs only its checksums, and
processes share it. `save_file` replaces files by renaming, which mapped arrays survive; who overwrites a mapped file in
place changes or kills the arrays in use. Small files are read, and depend on nothing. Either way the arrays may be
written to, and the file does not change.
"""

from __future__ import annotations

import hashlib
import json
import math
import mmap
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rasf.files import write_atomically

FORMAT_VERSION = 1
HEAD_LIMIT = 8 << 20  # bytes; a parsed head takes some thirty times as much memory, so this bounds a hostile one
NESTING_LIMIT = 64  # of the caller's header
_MAPPED_FROM = 64 << 20  # bytes of a file; below, a copy takes less than 0.1 s

_DTYPES = {
    code: np.dtype(name)
    for code, name in {
        "BOOL": "?", "I8": "i1", "U8": "u1", "I16": "<i2", "U16": "<u2", "F16": "<f2", "I32": "<i4", "U32": "<u4",
        "F32": "<f4", "I64": "<i8", "U64": "<u8", "F64": "<f8",
    }.items()
}  # fmt: skip
_CODES = {dtype: code for code, dtype in _DTYPES.items()}
_START = re.compile(rb'.{8}\{"__metadata__":\{"format":"rasf","version":"([1-9][0-9]{0,8})",', re.DOTALL)
_DIGEST_AT = len('{"__metadata__":{"format":"rasf","version":"1","sha256":"') + 8
_ZEROS = b"0" * 64

Array = npt.NDArray[Any]


class _Refused(Exception):
    """Why a file is refused: the rest of a sentence that begins with its path."""


class _Layout(NamedTuple):
    """What the head says of one array."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


def save_file(path: str | os.PathLike[str], header: dict[str, Any], arrays: Mapping[str, Array]) -> None:
    """Write `header` (plain JSON, finite numbers) and `arrays` to `path`, whole or not at all."""
    target = Path(path)
    if target.is_dir():
        raise ValueError(f"path must name a file; {target} is a directory")
    if not isinstance(header, dict):
        raise ValueError(f"header must be a dict, got {type(header).__name__}")
    _check_json(header, "header")
    plain = {name: _plain(name, array) for name, array in arrays.items()}
    layouts = {name: _Layout(array.dtype, array.shape) for name, array in plain.items()}
    head = _head(header, layouts, {name: _digest(_raw(array)) for name, array in plain.items()})
    if len(head) > HEAD_LIMIT:
        raise ValueError(f"header takes {len(head)} bytes, at most {HEAD_LIMIT} are read; save large things as arrays")

    def write(partial: str) -> None:
        with open(partial, "wb") as file:
            file.write(head)
            for name in _order(layouts):
                file.write(_raw(plain[name]))

    write_atomically(target, write)


def load_file(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Array]]:
    """Header and arrays of a file that `save_file` wrote; anything else is refused with the reason."""
    try:
        buffer = _open(path)
        head, data = _split(buffer)
        header, layouts, checksums = _understand(head)
        return header, _arrays(data, layouts, checksums)
    except FileNotFoundError:
        raise FileNotFoundError(f"{os.fspath(path)} does not exist") from None
    except _Refused as reason:
        raise ValueError(f"{os.fspath(path)} {reason}") from None


# --- writing


def _plain(name: object, array: object) -> Array:
    """The array as it is stored: contiguous, little endian."""
    if not isinstance(name, str) or not _is_name(name):
        raise ValueError(f"arrays must have names of 1 to 256 characters other than '__metadata__', got {name!r:.80}")
    if not isinstance(array, np.ndarray):
        raise ValueError(f"arrays[{name!r}] must be a numpy array, got {type(array).__name__}")
    if array.dtype.kind in "biuf":  # others have no byte order to ask for
        stored = array.dtype.newbyteorder("<")
        if stored in _CODES:
            return np.asarray(array, dtype=stored, order="C")
    raise ValueError(f"arrays[{name!r}] has dtype {array.dtype}; bool, integers, float16, float32, float64 are kept")


def _is_name(name: str) -> bool:
    return 0 < len(name) <= 256 and name != "__metadata__" and _is_text(name)


def _is_text(text: str) -> bool:
    """Whether the text has no half of a surrogate pair: two halves would come back as one character."""
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


def _check_json(value: object, place: str, nesting: int = 0) -> None:
    """Refuse what would not come back from JSON as it is."""
    if nesting > NESTING_LIMIT:
        raise ValueError(f"header is nested deeper than {NESTING_LIMIT} levels")
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str) or not _is_text(key):
                raise ValueError(f"{place} has the key {key!r:.80}; keys must be text")
            _check_json(item, f"{place}[{key!r:.80}]", nesting + 1)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _check_json(item, f"{place}[{index}]", nesting + 1)
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{place} is {value}; numbers must be finite")
    elif isinstance(value, int):
        if value.bit_length() > 1024:  # Python reads no integers beyond a few thousand digits
            raise ValueError(f"{place} is an integer of {value.bit_length()} bits; at most 1024 are kept")
    elif isinstance(value, str):
        if not _is_text(value):
            raise ValueError(f"{place} holds half of a surrogate pair, which is not text")
    elif value is not None:
        raise ValueError(f"{place} is a {type(value).__name__}; dict, list, text, number, bool and None are kept")


def _order(layouts: Mapping[str, _Layout]) -> list[str]:
    """Names in the order of the file: every array then begins at a multiple of its item size."""
    return sorted(layouts, key=lambda name: (-layouts[name].dtype.itemsize, name))


def _head(header: dict[str, Any], layouts: Mapping[str, _Layout], checksums: Mapping[str, Any]) -> bytes:
    """The bytes before the arrays: the only spelling of what they say."""
    names, begin = _order(layouts), 0
    contents = {"checksums": {name: checksums[name] for name in names}, "header": header}
    label = {"format": "rasf", "version": str(FORMAT_VERSION), "sha256": _ZEROS.decode(), "contents": _dump(contents)}
    entries: dict[str, Any] = {"__metadata__": label}
    for name in names:
        dtype, shape = layouts[name]
        end = begin + layouts[name].nbytes
        entries[name] = {"dtype": _CODES[dtype], "shape": list(shape), "data_offsets": [begin, end]}
        begin = end
    text = _dump(entries).encode("ascii")
    text += b" " * (-(len(text) + 8) % 64)
    return _signed(len(text).to_bytes(8, "little") + text)


def _dump(value: object) -> str:
    return json.dumps(value, allow_nan=False, separators=(",", ":"))


def _signed(head: bytes) -> bytes:
    """The head with its own checksum in place."""
    before, after = head[:_DIGEST_AT], head[_DIGEST_AT + len(_ZEROS) :]
    return before + _digest(before + _ZEROS + after).encode() + after


def _digest(data: bytes | memoryview) -> str:
    return hashlib.sha256(data).hexdigest()


def _raw(array: Array) -> memoryview:
    """The bytes of a contiguous array."""
    return array.reshape(-1).view(np.uint8).data


# --- reading


def _open(path: str | os.PathLike[str]) -> memoryview:
    """The bytes of a file, writable without changing it."""
    if not stat.S_ISREG(os.stat(path).st_mode):  # opening a pipe would wait for ever
        raise _Refused("is not a file, so not a rasf library")
    with open(path, "rb", buffering=0) as file:
        _check_start(file.read(128))  # before anything of the file's size is asked for
        size = os.fstat(file.fileno()).st_size
        if size >= _MAPPED_FROM:
            return memoryview(mmap.mmap(file.fileno(), size, access=mmap.ACCESS_COPY))
        file.seek(0)
        buffer = np.empty(size, np.uint8).data
        return buffer[: file.readinto(buffer)]


def _check_start(start: bytes) -> None:
    """Refuse files of others and of the future; all formats to come begin in the same way, up to the version."""
    if not start:
        raise _Refused("is empty, so not a rasf library")
    found = _START.match(start)
    if found is None:
        raise _Refused("is not a rasf library")
    if int(found[1]) > FORMAT_VERSION:
        raise _Refused(f"was written by a newer rasf (format {int(found[1])}); this one reads format {FORMAT_VERSION}")


def _split(buffer: memoryview) -> tuple[bytes, memoryview]:
    """Head, with its checksum verified, and data."""
    length = 8 + int.from_bytes(buffer[:8], "little")
    if not _DIGEST_AT + len(_ZEROS) <= length <= HEAD_LIMIT:
        raise _Refused(f"is damaged: its head cannot have {length} bytes")
    if length > len(buffer):
        raise _Refused(f"is truncated: its head has {length} bytes, the file {len(buffer)}")
    head = bytes(buffer[:length])
    if _signed(head) != head:
        raise _Refused("is damaged: its head does not match its checksum")
    return head, buffer[length:]


def _understand(head: bytes) -> tuple[dict[str, Any], dict[str, _Layout], dict[str, Any]]:
    """Header, layouts and checksums of a head, which must be what `_head` makes of them."""
    try:
        entries = _parsed(head[8:])
        match entries.pop("__metadata__", None):
            case {"contents": str(text)}:
                contents = _parsed(text)
            case _:
                raise ValueError("no contents")
        layouts = {name: _layout(name, entry) for name, entry in entries.items()}
        header, checksums = contents.get("header"), contents.get("checksums")
        if not (isinstance(header, dict) and isinstance(checksums, dict) and checksums.keys() == layouts.keys()):
            raise ValueError("contents of another shape")
        _check_json(header, "header")
        if _head(header, layouts, checksums) != head:
            raise ValueError("another spelling")
    except (ValueError, RecursionError):
        raise _Refused("is damaged: its head is not one that rasf writes") from None
    return header, layouts, checksums


def _parsed(text: bytes | str) -> dict[str, Any]:
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError("not an object")
    return value


def _layout(name: str, entry: object) -> _Layout:
    """The layout of an array whose entry in the head is well formed."""
    match entry:
        case {"dtype": str(code), "shape": list(shape)} if code in _DTYPES and len(shape) <= 64 and _is_name(name):
            if all(type(size) is int and size >= 0 for size in shape):
                layout = _Layout(_DTYPES[code], tuple(shape))
                # numpy multiplies the sizes of an empty array too
                if math.prod(size for size in shape if size) * layout.dtype.itemsize < 2**63:
                    return layout
    raise ValueError("entry of an array")


def _arrays(data: memoryview, layouts: Mapping[str, _Layout], checksums: Mapping[str, Any]) -> dict[str, Array]:
    """Views of the data, every one verified."""
    needed = sum(layout.nbytes for layout in layouts.values())
    if needed != len(data):
        kind = "truncated" if len(data) < needed else "damaged"
        raise _Refused(f"is {kind}: its arrays have {needed} bytes, the file has {len(data)} for them")
    arrays, begin = {}, 0
    for name in _order(layouts):
        end = begin + layouts[name].nbytes
        if _digest(data[begin:end]) != checksums[name]:
            raise _Refused(f"is damaged: its array {name!r} does not match its checksum")
        array: Array = np.ndarray(layouts[name].shape, layouts[name].dtype, buffer=data, offset=begin)
        if array.dtype == np.bool_ and array.view(np.uint8).max(initial=0) > 1:
            raise _Refused(f"is damaged: its array {name!r} holds bytes that are neither true nor false")
        arrays[name] = array
        begin = end
    return arrays
