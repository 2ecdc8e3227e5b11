"""Deep tests compile many small programs and run each a few times: little optimisation makes them quicker."""

import jax
import pytest


@pytest.fixture(autouse=True, scope="module")
def quick_compilation(request):
    """Unless the module says `OPTIMISED = True`."""
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", not getattr(request.module, "OPTIMISED", False))
    yield
    jax.config.update("jax_disable_most_optimizations", before)
