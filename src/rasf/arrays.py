"""Names of array types, and a function that selects numpy or jax, so that other functions work with both."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

Array = Any  # an array of numpy or jax, which have no common type
Floats = npt.NDArray[np.float64]
Floats32 = npt.NDArray[np.float32]
Ints = npt.NDArray[np.integer]
Bools = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.number | np.bool_]
Whole = int | np.integer  # an integer in a compiled loop


def array_namespace(*arrays: Array) -> ModuleType:
    """Return `jax.numpy` if any argument is a jax array or tracer, else `numpy`, without importing jax.

    While another thread imports jax, `sys.modules` contains jax without `Array`. No argument can be a jax array then.
    """
    jax_module = sys.modules.get("jax")
    kind = None if jax_module is None else getattr(jax_module, "Array", None)
    if kind is not None:
        for array in arrays:  # a loop, because each step makes several calls, and `any` takes twice as long
            if isinstance(array, kind):
                import jax.numpy

                return jax.numpy
    return np
