"""Array type names for all of rasf, and the namespace lookup that lets one function serve numpy and jax."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

Array = Any  # an array of numpy or jax; the two have no common type
Floats = npt.NDArray[np.float64]
Floats32 = npt.NDArray[np.float32]
Ints = npt.NDArray[np.integer]
Bools = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.number | np.bool_]
Whole = int | np.integer  # an integer in a compiled loop


def array_namespace(*arrays: Array) -> ModuleType:
    """Return `jax.numpy` if any argument is a jax array or tracer, else `numpy`, without importing jax.

    While another thread imports jax, `sys.modules` holds jax without its names. No argument can be a jax array then.
    """
    jax_module = sys.modules.get("jax")
    kind = None if jax_module is None else getattr(jax_module, "Array", None)
    if kind is not None:
        for array in arrays:  # a loop, because `any` takes twice as long, and every step calls this several times
            if isinstance(array, kind):
                import jax.numpy

                return jax.numpy
    return np
