"""For all tests: jax compiles quickly, and every process of the tests shares what it compiled."""

import os
from importlib.metadata import version
from pathlib import Path

import pytest

# Tests compile many small programs and run each a few times: most of their time is the compiler's. jax reads these when
# it is imported, and processes that tests start inherit them.
COMPILER = {
    "JAX_COMPILATION_CACHE_DIR": str(Path(__file__).parents[1] / ".cache" / "jax"),
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    "JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES": "none",  # they would make the keys depend on the folder
    "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
}
if version("jaxlib").startswith("0.10."):  # XLA ends the process at a flag that it does not know
    COMPILER["XLA_FLAGS"] = "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
for _name, _value in COMPILER.items():
    os.environ.setdefault(_name, _value)


@pytest.fixture(autouse=True, scope="session")
def nothing_is_synced():
    """No test cuts the power, so no file has to be on the disk before the next one."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "fsync", lambda file: None)
        yield
