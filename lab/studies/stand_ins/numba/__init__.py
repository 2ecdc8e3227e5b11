"""In the place of numba: compiled functions stay plain Python functions."""

from types import SimpleNamespace
from typing import Any

__version__ = "stand-in"
config = SimpleNamespace(CACHE_DIR="", OPT=0)
prange = range


def njit(function: Any = None, **options: Any) -> Any:
    """Return the function itself, or a decorator that does so."""
    return function if function is not None else lambda same: same
