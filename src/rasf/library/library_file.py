"""Policy libraries as files: a `storage` container whose header says what the library is.

    header     environment, sources, policies (w and risk of each), agent, notes, provenance
    arrays     sources/.. the laws, history/.. what training saw

A file with right checksums may still come from a stranger, so all of it is checked; nothing in it is ever executed.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rasf.library import storage
from rasf.library.policy_library import PolicyLibrary, SourcePolicy

_DESCRIBED = ("id", "kwargs", "observations", "n_actions", "first_action", "n_features", "bounds", "phi")


def save(library: PolicyLibrary, path: str | PathLike[str], precision: str = "single") -> None:
    """Write a library, whole or not at all."""
    arrays = {f"sources/{name}": part for name, part in library.sources.arrays(precision).items()}
    arrays |= {f"history/{name}": part for name, part in library.history.items()}
    header = {
        "environment": library.environment,
        "sources": library.sources.describe(),
        "policies": [{"w": list(policy.w), "risk": policy.risk} for policy in library.policies],
        "agent": library.agent,
        "notes": list(library.notes),
        "provenance": library.provenance,
    }
    storage.save_file(Path(path), header, arrays)


def load(path: str | PathLike[str]) -> PolicyLibrary:
    """The library in a file; a damaged, foreign or future one is refused."""
    header, arrays = storage.load_file(path)
    try:
        return _restored(header, arrays)
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
        missing = f"it has no {error}" if isinstance(error, KeyError) else " ".join(str(error).split())
        raise ValueError(f"{path} is not a policy library that this rasf can read: {missing}") from error


def _restored(header: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> PolicyLibrary:
    environment, description = header["environment"], header["sources"]
    for name in _DESCRIBED:
        environment[name]
    sources: Any
    if description["law"] == "table":
        from rasf.library.table_sources import TableSources as sources
    else:
        from rasf.library.network_sources import NetworkSources as sources
    policies = tuple(SourcePolicy(tuple(map(float, each["w"])), str(each["risk"])) for each in header["policies"])
    d, history = environment["n_features"], _under(arrays, "history/")
    if any(len(policy.w) != d or not np.isfinite(policy.w).all() for policy in policies):
        raise ValueError(f"every policy must have {d} finite weights")
    if any(part.shape[:1] != (len(policies),) for part in history.values()):
        raise ValueError("the history must have an entry for each policy")
    return PolicyLibrary(
        sources.restore(description, _under(arrays, "sources/")),
        environment,
        policies,
        str(header["agent"]),
        history,
        tuple(map(str, header["notes"])),
        dict(header["provenance"]),
    )


def _under(arrays: Mapping[str, npt.NDArray[Any]], prefix: str) -> dict[str, npt.NDArray[Any]]:
    return {name.removeprefix(prefix): part for name, part in arrays.items() if name.startswith(prefix)}


def versions() -> dict[str, str]:
    """What a library is made with."""
    import gymnasium
    import jax

    import rasf

    made_with = {"rasf": rasf.__version__, "python": platform.python_version(), "numpy": np.__version__}
    return made_with | {"jax": jax.__version__, "gymnasium": gymnasium.__version__}
