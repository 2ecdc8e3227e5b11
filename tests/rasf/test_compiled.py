"""`compiled`: a function serves Python and other compiled functions, and is compiled for each as it needs."""

import numpy as np

from rasf.compiled import compiled, compiled_twice


@compiled(_nrt=False)
def halved(value, by=2.0):
    return value / by


@compiled()
def halves(values):
    found = np.empty_like(values)
    for i in range(len(values)):
        found[i] = halved(values[i])
    return found


def test_a_function_that_compiled_code_calls_can_be_called_from_python_too():
    values = np.array([1.0, 5.0])
    np.testing.assert_array_equal(halves(values), [0.5, 2.5])
    assert not halved.overloads  # what compiled code calls has no wrapper for Python, and is kept apart
    assert halved(3.0) == 1.5
    assert halved(3.0, 3.0) == 1.0
    np.testing.assert_array_equal(halves(values), [0.5, 2.5])
    np.testing.assert_array_equal(halves.py_func(values), [0.5, 2.5])


def test_one_core_and_all_cores_agree():
    def doubled(values):
        return values * 2

    serial, parallel = compiled_twice(doubled)
    np.testing.assert_array_equal(serial(np.arange(3.0)), parallel(np.arange(3.0)))
