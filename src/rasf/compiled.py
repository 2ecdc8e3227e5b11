"""`compiled`: numba.njit with a disk cache that notices changes in any file of rasf's packages.

Numba's own cache looks at the file of the compiled function only, so a change in a function it calls elsewhere would
leave stale machine code. Here the folder's name carries a hash of all sources that compile, of numba's version and its
level of optimisation, so that a change of any of them starts a new cache.
"""

from __future__ import annotations

import functools
import hashlib
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import TypeVar, cast

import numba

from rasf.files import user_cache

Function = TypeVar("Function", bound=Callable[..., object])


@functools.cache
def cache_folder() -> str:
    """Where this version's machine code is kept: under the user's cache, or a temporary folder if that is read-only."""
    digest = hashlib.sha256(f"{numba.__version__} {int(numba.config.OPT)}".encode())
    folder = Path(__file__).parents[1]
    for source in sorted(folder.glob("rasf*/**/*.py")):
        text = source.read_bytes()
        if b"rasf.compiled import" in text:
            digest.update(source.relative_to(folder).as_posix().encode() + text)
    kept = user_cache() / digest.hexdigest()[:16]
    try:
        kept.mkdir(parents=True, exist_ok=True)
    except OSError:
        return tempfile.mkdtemp(prefix="rasf-")
    return str(kept)


def compiled(**options: object) -> Callable[[Function], Function]:
    """Decorate a function with numba.njit, cached; `options` go to njit (parallel=True, inline="always", ...)."""

    def decorate(function: Function) -> Function:
        # read when the decorator runs, so other people's numba code keeps its own folder
        before, numba.config.CACHE_DIR = numba.config.CACHE_DIR, cache_folder()
        try:
            machine_code: Function = numba.njit(cache=True, **options)(function)
            return machine_code
        finally:
            numba.config.CACHE_DIR = before

    return decorate


def compiled_twice(function: Function) -> tuple[Function, Function]:
    """Compile a function with loops over `numba.prange` to run on one core, and to run on all of them."""
    # the cache on disk tells functions apart by their names
    same = FunctionType(function.__code__, function.__globals__, f"{function.__name__}_parallel")
    same.__qualname__, same.__module__ = f"{function.__qualname__}_parallel", function.__module__
    return compiled()(function), compiled(parallel=True)(cast(Function, same))
