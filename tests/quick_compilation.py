"""Deep tests compile many small programs and run each a few times.

Little optimisation makes them compile quicker, and pytest's cache keeps them for the next run.
"""

import os

import jax
import pytest
from jax.experimental.compilation_cache.compilation_cache import reset_cache


@pytest.fixture(autouse=True, scope="module")
def quick_compilation(request):
    worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
    changes = {
        # one folder a worker: none reads what another is still writing
        "jax_compilation_cache_dir": str(request.config.cache.mkdir(f"jax-{worker}")),
        "jax_persistent_cache_min_compile_time_secs": 0.1,
        "jax_persistent_cache_min_entry_size_bytes": -1,
    }
    before = {name: getattr(jax.config, name) for name in changes}
    optimised = jax.config.read("jax_disable_most_optimizations")
    for name, value in changes.items():
        jax.config.update(name, value)
    jax.config.update("jax_disable_most_optimizations", True)
    reset_cache()
    yield
    for name, value in before.items():
        jax.config.update(name, value)
    jax.config.update("jax_disable_most_optimizations", optimised)
    reset_cache()
