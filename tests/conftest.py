"""For all tests: jax and numba compile quickly, and every process of the tests shares what was compiled."""

import gc
import os
from importlib.metadata import version
from pathlib import Path

import pytest

# Tests compile many small programs and run each a few times: most of their time is the compilers'. jax and numba read
# these when they are imported, and processes that tests start inherit them.
COMPILER = {
    "JAX_COMPILATION_CACHE_DIR": str(Path(__file__).parents[1] / ".cache" / "jax"),
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.05",  # a smaller program is compiled sooner than read
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    "JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES": "none",  # they would make the keys depend on the folder
    "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
    "JAX_TRACEBACK_IN_LOCATIONS_LIMIT": "0",
    "NUMBA_OPT": "1",
}
if version("jaxlib").startswith("0.10."):  # XLA ends the process at a flag that it does not know
    COMPILER["XLA_FLAGS"] = "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
for _name, _value in COMPILER.items():
    os.environ.setdefault(_name, _value)
gc.set_threshold(50_000, 20, 50)  # what was compiled stays, and looking through it took a twelfth of the time


@pytest.fixture(autouse=True, scope="session")
def nothing_is_synced():
    """No test cuts the power, so no file has to be on the disk before the next one."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "fsync", lambda file: None)
        yield


def pytest_configure(config):
    if hasattr(config, "workerinput"):
        _compile_in_turns()


def _compile_in_turns():
    """Of several workers that need the same function of numba, one compiles it, and the others load it."""
    from filelock import FileLock
    from numba.core.compiler_lock import global_compiler_lock
    from numba.core.dispatcher import Dispatcher

    from rasf.compiled import cache_folder

    compile_now, locks = Dispatcher.compile, {}

    def compile_in_turns(self, signature):
        function = self.py_func
        if not function.__module__.startswith("rasf"):
            return compile_now(self, signature)
        name = f"{function.__module__}.{function.__qualname__}.lock"
        if name not in locks:
            locks[name] = FileLock(Path(cache_folder()) / name)
        with global_compiler_lock, locks[name]:  # in this order, as threads of a worker compile too
            return compile_now(self, signature)

    Dispatcher.compile = compile_in_turns
