"""Networks as named arrays and a description, and back, with every name, shape, type and number checked.

    <part>/hidden/<i>/weight (K, n, m)   .../bias (K, m)       float32, or float16 for half the room
    <part>/heads/weight (K, m, A, X)     .../bias (K, A, X)
    atoms (d, N)                                               float64, of histograms

A part is "histogram", "psi" or "Sigma"; X is d N, d or d (d + 1) / 2. The description holds what the arrays do not say
by themselves, and is held against them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from rasf.deep.agent import LAWS
from rasf.deep.laws import Histogram, Law, MeanCovariance, MeanOnly, Networks
from rasf.deep.networks import Layer, Network

Arrays = Mapping[str, npt.NDArray[Any]]
_PARTS = {"histogram": ("histogram",), "point": ("psi",), "residual": ("psi", "Sigma")}
_PRECISIONS: dict[str, np.dtype[Any]] = {"single": np.dtype(np.float32), "half": np.dtype(np.float16)}


def describe(law: Law) -> dict[str, Any]:
    """Law, number of features, and number of atoms or None."""
    if isinstance(law, Histogram):
        return {"law": "histogram", "features": len(law.atoms), "atoms": len(law.atoms[0])}
    return {
        "law": "point" if isinstance(law, MeanOnly) else "residual",
        "features": law.shapes()[0].numbers,
        "atoms": None,
    }


def named(law: Law, networks: Networks, precision: str) -> dict[str, npt.NDArray[Any]]:
    """The arrays of networks without padding, by name."""
    if precision not in _PRECISIONS:
        raise ValueError(f"precision must be one of {', '.join(_PRECISIONS)}, got {precision!r}")
    arrays: dict[str, npt.NDArray[Any]] = {}
    for part, network in zip(_PARTS[describe(law)["law"]], networks, strict=True):
        for place, layer in [(f"hidden/{i}", one) for i, one in enumerate(network.hidden)] + [("heads", network.heads)]:
            for name, array in zip(Layer._fields, layer, strict=True):
                arrays[f"{part}/{place}/{name}"] = _rounded(array, _PRECISIONS[precision])
    return arrays | ({"atoms": np.array(law.atoms)} if isinstance(law, Histogram) else {})


def _rounded(array: npt.NDArray[np.float32], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    with np.errstate(over="ignore"):
        rounded = array.astype(dtype, copy=False)
    if not _all_finite(rounded):
        raise ValueError(f"precision must be 'single' here: a weight of {np.abs(array).max():g} is beyond half's range")
    return rounded


def restored(description: Mapping[str, Any], arrays: Arrays) -> tuple[Law, float, Networks]:
    """Law, gamma and networks; anything that does not fit is refused."""
    kind = description.get("law")
    if kind not in LAWS:
        raise ValueError(f"law must be one of {', '.join(LAWS)}, got {kind!r}")
    policies, inputs, actions, features = (
        _size(name, description.get(name)) for name in ("policies", "inputs", "actions", "features")
    )
    widths = description.get("widths")
    if not isinstance(widths, list) or not widths:
        raise ValueError(f"widths must be a list of sizes, got {widths!r}")
    sizes = [inputs, *(_size("widths", width) for width in widths)]
    gamma = description.get("gamma")
    if isinstance(gamma, bool) or not isinstance(gamma, int | float) or not 0 <= gamma < 1:
        raise ValueError(f"gamma must be a number in [0, 1), got {gamma!r}")
    law: Law
    if kind == "histogram":
        law = Histogram(_atoms(arrays, features, _size("atoms", description.get("atoms"))))
    else:
        law = MeanOnly(features) if kind == "point" else MeanCovariance(features)
    left = {name for name in arrays if name != "atoms" or kind != "histogram"}

    def layer(place: str, *shape: int) -> Layer:
        left.difference_update((f"{place}/weight", f"{place}/bias"))
        return Layer(
            _checked(arrays, f"{place}/weight", (policies, *shape)),
            _checked(arrays, f"{place}/bias", (policies, *shape[1:])),
        )

    networks = tuple(
        Network(
            tuple(layer(f"{part}/hidden/{i}", *sizes[i : i + 2]) for i in range(len(widths))),
            layer(f"{part}/heads", sizes[-1], actions, shape.size),
        )
        for part, shape in zip(_PARTS[kind], law.shapes(), strict=True)
    )
    if left:
        raise ValueError(f"arrays must be those of {kind} networks only, got {min(left)!r} too")
    return law, float(gamma), networks


def _size(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{name} must be a positive whole number, got {value!r}")
    return value


def _atoms(arrays: Arrays, features: int, atoms: int) -> tuple[tuple[float, ...], ...]:
    found = _checked(arrays, "atoms", (features, atoms), (np.dtype(np.float64),))
    if atoms < 2 or not (np.diff(found, axis=1) > 0).all():
        raise ValueError("atoms must be at least two a feature, in increasing order")
    return tuple(map(tuple, found.tolist()))


def _checked(
    arrays: Arrays,
    name: str,
    shape: tuple[int, ...],
    dtypes: tuple[np.dtype[Any], ...] = tuple(_PRECISIONS.values()),
) -> npt.NDArray[Any]:
    array = arrays.get(name)
    if array is None:
        raise ValueError(f"arrays must hold {name!r}, which is missing")
    if array.shape != shape or array.dtype not in dtypes:
        wanted = " or ".join(map(str, dtypes))
        raise ValueError(f"array {name!r} must have shape {shape} and type {wanted}, got {array.shape}, {array.dtype}")
    if not _all_finite(array):
        raise ValueError(f"array {name!r} must be finite")
    return array


def _all_finite(array: npt.NDArray[Any]) -> bool:
    # extremes in place of isfinite: nothing is allocated, and a nan shows in both
    return bool(np.isfinite(array.min()) and np.isfinite(array.max()))
