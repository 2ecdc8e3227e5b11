"""The decorator `compiled`: numba.njit with faster compiling, and a disk cache that notices changes of other files.

Numba's own cache checks only the file of the compiled function. If this function calls a function of another file, and
the other file changes, the cached machine code is stale. Here the name of the cache folder contains a hash of numba's
version, of numba's optimisation level, and of all source files with compiled functions. So a change of the version, the
level or a file starts a new cache.

Numba gives every function a wrapper for calls from Python and a wrapper for calls by pointer. Because rasf's functions
take many arrays, the two wrappers take two fifths of the compile time. Here each function is compiled once with the
wrapper for Python, and once without wrappers, for calls from compiled code.
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
    """Return the folder for machine code: in the user's cache, or a temporary folder if the cache is read-only."""
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
    """Return a decorator that compiles a function by numba.njit with the given options, such as parallel=True."""

    def decorate(function: Function) -> Function:
        # numba reads CACHE_DIR when its decorator runs; the old value is restored for code outside rasf
        before, numba.config.CACHE_DIR = numba.config.CACHE_DIR, cache_folder()
        try:
            called: Function = numba.njit(cache=True, no_cfunc_wrapper=True, **options)(function)
            if isinstance(called, Dispatcher):  # false if NUMBA_DISABLE_JIT is set
                inner = numba.njit(cache=True, no_cfunc_wrapper=True, no_cpython_wrapper=True, **options)
                inside = inner(_renamed(function, "inside"))
                # numba calls these methods when compiled code calls the function; recursive functions are not supported
                vars(called).update(get_call_template=inside.get_call_template, get_overload=inside.get_overload)
            return called
        finally:
            numba.config.CACHE_DIR = before

    return decorate


def compiled_twice(function: Function) -> tuple[Function, Function]:
    """Compile a function with loops over `numba.prange` twice: return a version for one core and one for all cores."""
    return compiled()(function), compiled(parallel=True)(_renamed(function, "parallel"))


def _renamed(function: Function, kind: str) -> Function:
    """Return a copy of a function under another name, so that the two functions have separate files in the cache."""
    given = (function.__defaults__, function.__closure__)
    same = FunctionType(function.__code__, function.__globals__, f"{function.__name__}_{kind}", *given)
    same.__qualname__, same.__module__ = f"{function.__qualname__}_{kind}", function.__module__
    return cast(Function, same)
