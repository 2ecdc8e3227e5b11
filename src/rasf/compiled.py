"""`compiled`: numba.njit with a disk cache that notices changes in any file of rasf's packages, and quicker to compile.

Numba's own cache looks at the file of the compiled function only, so a change in a function it calls elsewhere would
leave stale machine code. Here the folder's name carries a hash of all sources that compile, of numba's version and its
level of optimisation, so that a change of any of them starts a new cache.

Numba gives every function a wrapper for calls from Python and one for calls by pointer, which take two fifths of the
time to compile arguments as large as ours. Here a function that compiled code calls is compiled without them, apart
from the one that Python calls; no function has the second.
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
from numba.core.dispatcher import Dispatcher

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
            called: Function = numba.njit(cache=True, no_cfunc_wrapper=True, **options)(function)
            if isinstance(called, Dispatcher):  # not where NUMBA_DISABLE_JIT is set
                inner = numba.njit(cache=True, no_cfunc_wrapper=True, no_cpython_wrapper=True, **options)
                inside = inner(_renamed(function, "inside"))
                # what numba asks of a function that compiled code calls; it must not call itself
                vars(called).update(get_call_template=inside.get_call_template, get_overload=inside.get_overload)
            return called
        finally:
            numba.config.CACHE_DIR = before

    return decorate


def compiled_twice(function: Function) -> tuple[Function, Function]:
    """Compile a function with loops over `numba.prange` to run on one core, and to run on all of them."""
    return compiled()(function), compiled(parallel=True)(_renamed(function, "parallel"))


def _renamed(function: Function, kind: str) -> Function:
    """The same function under another name, by which the cache on disk tells them apart."""
    given = (function.__defaults__, function.__closure__)
    same = FunctionType(function.__code__, function.__globals__, f"{function.__name__}_{kind}", *given)
    same.__qualname__, same.__module__ = f"{function.__qualname__}_{kind}", function.__module__
    return cast(Function, same)
