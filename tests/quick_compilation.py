"""Tests compile many small programs and run each a few times: what takes long is the compiler.

`kept_compilation` has pytest's cache keep the programs for the next run. `quick_compilation` also has them made with
little optimisation, for networks and worlds; what is held to a precision is better compiled as users have it.
"""

import os
from contextlib import contextmanager

import jax
import pytest
from jax.experimental.compilation_cache.compilation_cache import reset_cache

FOLDER = "jax_compilation_cache_dir"
KEEP_ALL = {"jax_persistent_cache_min_compile_time_secs": 0.0, "jax_persistent_cache_min_entry_size_bytes": -1}
QUICK = "jax_disable_most_optimizations"


@contextmanager
def _kept(config):
    worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
    # one folder a worker: none reads what another is still writing
    changes = {FOLDER: str(config.cache.mkdir(f"jax-{worker}")), **KEEP_ALL}
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


def as_in_this_process():
    """What another process must find in its environment to compile quickly and into the same folder."""
    settings = {FOLDER: getattr(jax.config, FOLDER), QUICK: jax.config.read(QUICK), **KEEP_ALL}
    return {name.upper(): str(value) for name, value in settings.items()}
