"""The names for arrays that all of rasf uses, and how code written once serves numpy and jax."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

Array = Any  # numpy or jax; the two share no type
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.integer]
Bools = npt.NDArray[np.bool_]


def array_namespace(*arrays: Array) -> ModuleType:
    """`jax.numpy` if any argument is a jax array (tracers included), else `numpy`; never imports jax by itself."""
    jax = sys.modules.get("jax")
    if jax is not None:
        for array in arrays:  # a loop, since it is asked several times in every step: `any` takes twice as long
            if isinstance(array, jax.Array):
                return jax.numpy
    return np
