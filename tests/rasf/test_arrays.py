"""Which array namespace serves which arrays, also while jax is being imported."""

import sys
from types import ModuleType

import numpy as np

from rasf.arrays import array_namespace


def test_numpy_serves_numbers_and_its_own_arrays():
    assert array_namespace() is np
    assert array_namespace(1.0, np.ones(2), [3]) is np


def test_jax_serves_its_arrays_and_tracers():
    import jax
    import jax.numpy as jnp

    assert array_namespace(np.ones(2), jnp.ones(2)) is jnp
    found = []
    jax.jit(lambda x: found.append(array_namespace(x)) or x)(1.0)
    assert found == [jnp]


def test_numpy_serves_while_another_thread_imports_jax(monkeypatch):
    half = ModuleType("jax")  # as sys.modules has it until its last line has run
    monkeypatch.setitem(sys.modules, "jax", half)
    assert array_namespace(np.ones(2)) is np
    half.Array = type("Array", (), {})  # which is there before jax.numpy
    assert array_namespace(np.ones(2)) is np
