"""Tests compile many small programs and run each a few times: what takes long is the compiler.

`kept_compilation` has pytest's cache keep the programs for the next run. `quick_compilation` also has them made with
little optimisation, for networks and worlds; what is held to a precision is better compiled as users have it.
"""

from contextlib import contextmanager

import jax
import pytest
from jax.experimental.compilation_cache.compilation_cache import reset_cache

import kept_programs

FOLDER = "jax_compilation_cache_dir"
KEEP_ALL = {"jax_persistent_cache_min_compile_time_secs": 0.0, "jax_persistent_cache_min_entry_size_bytes": -1}
QUICK = "jax_disable_most_optimizations"


@contextmanager
def _kept(config):
    changes = {FOLDER: kept_programs.folder(config, "jax"), **KEEP_ALL}
    before = {name: getattr(jax.config, name) for name in changes}
    for name, value in changes.items():
        jax.config.update(name, value)
    reset_cache()
    yield
    for name, value in before.items():
        jax.config.update(name, value)
    reset_cache()


@pytest.fixture(autouse=True, scope="module")
def kept_compilation(request):
    with _kept(request.config):
        yield


@pytest.fixture(autouse=True, scope="module")
def quick_compilation(request):
    before = jax.config.read(QUICK)
    with _kept(request.config):
        jax.config.update(QUICK, True)
        yield
        jax.config.update(QUICK, before)


def keeping(folder):
    """What another process must find in its environment to keep its programs in this folder."""
    return {name.upper(): str(value) for name, value in {FOLDER: folder, **KEEP_ALL}.items()}


def as_in_this_process():
    """The same, to keep them in our folder and compile as we do, while we wait for it."""
    return keeping(getattr(jax.config, FOLDER)) | {QUICK.upper(): str(jax.config.read(QUICK))}
