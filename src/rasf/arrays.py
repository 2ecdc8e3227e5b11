"""The names for arrays that all of rasf uses, and how code written once serves numpy and jax."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

Array = Any  # numpy or jax; the two share no type
Floats = npt.NDArray[np.float64]
Floats32 = npt.NDArray[np.float32]
Ints = npt.NDArray[np.integer]
Bools = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.number | np.bool_]
Whole = int | np.integer  # what compiled loops count with


def array_namespace(*arrays: Array) -> ModuleType:
    """Give `jax.numpy` if any argument is a jax array (tracers included), else `numpy`; never import jax by itself.

    While another thread imports jax, the module is there without its names. No jax array exists by then.
    """
    jax_module = sys.modules.get("jax")
    kind = None if jax_module is None else getattr(jax_module, "Array", None)
    if kind is not None:
        for array in arrays:  # a loop, since it runs several times in every step: `any` takes twice as long
            if isinstance(array, kind):
                import jax.numpy

                return jax.numpy
    return np
