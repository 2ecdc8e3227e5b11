"""Policy libraries as files: a `storage` container whose header says what the library is.

    header     environment, sources, policies (w and risk of each), agent, notes, provenance
    arrays     sources/.. the laws, history/.. what training saw

A file with right checksums may still come from a stranger, so all of it is checked; nothing in it is ever executed.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from typing import Any

import numpy.typing as npt

from rasf import container as storage
from rasf.library.policy_library import PolicyLibrary, SourcePolicy

_HEADER: dict[str, type] = {
    "environment": dict, "sources": dict, "policies": list, "agent": str, "notes": list, "provenance": dict,
}  # fmt: skip
_PLACES = ("sources/", "history/")
_MOST = 2**53
_ENVIRONMENT: dict[str, tuple[tuple[type, ...], int, int]] = {  # types, and the range of whole numbers
    "id": ((str, type(None)), 0, 0),
    "kwargs": ((dict,), 0, 0),
    "observations": ((dict,), 0, 0),
    "n_actions": ((int,), 1, _MOST),
    "first_action": ((int,), -_MOST, _MOST),
    "n_features": ((int,), 1, _MOST),
    "bounds": ((list, type(None)), 0, 0),
    "phi": ((str, type(None)), 0, 0),
    "max_episode_steps": ((int, type(None)), 1, _MOST),
}


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
    for name, kind in _HEADER.items():
        if not isinstance(header[name], kind):
            raise ValueError(f"its {name} must be a {kind.__name__}, got {header[name]!r:.60}")
    environment, description = header["environment"], header["sources"]
    _check_environment(environment)
    sources: Any
    if description["law"] == "table":
        from rasf.library.tables.policies import TablePolicies as sources
    else:
        from rasf.library.networks.policies import NetworkPolicies as sources
    policies = tuple(_policy(each, environment["n_features"]) for each in header["policies"])
    history, unknown = _under(arrays, "history/"), {name for name in arrays if not name.startswith(_PLACES)}
    if unknown:
        raise ValueError(f"it holds {min(unknown)!r}, which is neither of its sources nor of its history")
    if any(part.shape[:1] != (len(policies),) for part in history.values()):
        raise ValueError("its history must have an entry for each policy")
    if not all(isinstance(note, str) for note in header["notes"]):
        raise ValueError("its notes must be sentences")
    return PolicyLibrary(
        sources.restore(description, _under(arrays, "sources/")),
        environment,
        policies,
        header["agent"],
        history,
        tuple(header["notes"]),
        header["provenance"],
    )


def _check_environment(environment: dict[str, Any]) -> None:
    """The observations are checked by their `Encoder`, sizes against the policies."""
    for name, (kinds, least, most) in _ENVIRONMENT.items():
        value = environment[name]
        if type(value) not in kinds or (type(value) is int and not least <= value <= most):
            raise ValueError(f"the {name} of its environment cannot be {value!r:.60}")
    if ":" in (environment["id"] or ""):  # Gymnasium would import what stands before it
        raise ValueError(f"its environment's id must not name a module, got {environment['id']!r:.60}")


def _policy(each: Any, d: int) -> SourcePolicy:
    match each:
        case {"w": list(w), "risk": str(risk)} if len(w) == d and all(type(number) in (int, float) for number in w):
            return SourcePolicy(tuple(map(float, w)), risk)
    raise ValueError(f"each of its policies must have {d} weights and a risk, got {each!r:.60}")


def _under(arrays: Mapping[str, npt.NDArray[Any]], prefix: str) -> dict[str, npt.NDArray[Any]]:
    return {name.removeprefix(prefix): part for name, part in arrays.items() if name.startswith(prefix)}


def versions() -> dict[str, str]:
    """What a library is made with."""
    import rasf

    made_with = {"rasf": rasf.__version__, "python": platform.python_version()}
    return made_with | {name: version(name) for name in ("numpy", "jax", "gymnasium")}  # without importing jax
