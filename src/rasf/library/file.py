"""Policy libraries as files, in the container format of `rasf.files`.

    header     the entries environment, sources, policies (weights w and risk of each), agent, notes and provenance; and
               calibration and model, if the library is calibrated, or has a model of its own
    arrays     sources/..: return distributions; history/..: results of training; calibration/..: predictions and
               realised values; model/..: the library's own model (`rasf.library.ahead.stored`)

A file is not trusted, even if its checksums are correct: all of it is validated, and nothing in it is executed.
"""

from __future__ import annotations

import platform
from importlib.metadata import version
from importlib.util import find_spec
from os import PathLike

from rasf.agents import LawKind, library_agent
from rasf.envs.gymnasium.description import EnvironmentDescription
from rasf.files import Arrays, Header, as_path, load_file, save_file
from rasf.library.frozen_policies import FrozenPolicies
from rasf.library.policy_library import PolicyLibrary, SourcePolicy
from rasf.risk.names import stored_risk

_HEADER = {"environment": dict, "sources": dict, "policies": list, "agent": str, "notes": list, "provenance": dict}
_PLACES = ("sources/", "history/", "calibration/", "model/")


def save(library: PolicyLibrary, path: str | PathLike[str], precision: str = "single") -> None:
    """Write a library to a file. If writing fails, no partial file is left.

    Args:
        library: the library.
        path: the file. A symlink is followed; a device or a pipe is written to directly.
        precision: precision of the weights of networks, "single" or "half". Default: "single".

    Raises:
        ValueError: `path` cannot be the path of a file.
        OSError: the file cannot be written; the error names the file.
    """
    target = as_path(path)
    arrays = {f"sources/{name}": part for name, part in library.sources.arrays(precision).items()}
    arrays |= {f"history/{name}": part for name, part in library.history.items()}
    if library.calibration is not None:
        arrays |= {f"calibration/{name}": part for name, part in library.calibration.arrays().items()}
    if library.model is not None:
        from rasf.library.ahead.stored import arrays_of

        arrays |= {f"model/{name}": part for name, part in arrays_of(library.model).items()}
    save_file(target, library.describe(), arrays)


def load(path: str | PathLike[str]) -> PolicyLibrary:
    """Load a library from a file.

    Args:
        path: a file that `PolicyLibrary.save` wrote.

    Returns:
        The library.

    Raises:
        ValueError: the file is damaged, is not a library, or is of a later version of rasf.
        FileNotFoundError: there is no such file.
    """
    header, arrays = load_file(path)
    try:
        return _restored(header, arrays)
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
        missing = f"it has no {error}" if isinstance(error, KeyError) else " ".join(str(error).split())
        raise ValueError(f"{path} is not a policy library that this version of rasf can read: {missing}") from error


def _restored(header: Header, arrays: Arrays) -> PolicyLibrary:
    for name, kind in _HEADER.items():
        if not isinstance(header[name], kind):
            raise ValueError(f"its {name} must be a {kind.__name__}, got {header[name]!r:.60}")
    environment, description = EnvironmentDescription.from_json(header["environment"]), header["sources"]
    policies = tuple(_policy(each, environment.n_features) for each in header["policies"])
    history, unknown = _under(arrays, "history/"), {name for name in arrays if not name.startswith(_PLACES)}
    if unknown:
        raise ValueError(f"its arrays must be in {' '.join(_PLACES)}, got {min(unknown)!r}")
    if any(part.shape[:1] != (len(policies),) for part in history.values()):
        raise ValueError("its history must have an entry for each policy")
    if not all(isinstance(note, str) for note in header["notes"]):
        raise ValueError("its notes must be a list of text")
    calibration, parts = None, _under(arrays, "calibration/")
    if parts or "calibration" in header:
        from rasf.library.calibration.calibration import Calibration

        calibration = Calibration.restore(header["calibration"], parts, environment.n_features)
    model, of_model = None, _under(arrays, "model/")
    if of_model or "model" in header:
        from rasf.library.ahead.stored import restored

        model = restored(header["model"], of_model)
    return PolicyLibrary(
        _restored_policies(description, _under(arrays, "sources/")),
        environment,
        policies,
        tuple(library_agent(name) for name in header["agent"].split(" + ")),
        history,
        tuple(header["notes"]),
        header["provenance"],
        calibration,
        model,
    )


def _restored_policies(description: Header, arrays: Arrays) -> FrozenPolicies:
    if description["law"] == LawKind.TABLE:
        from rasf.library.tables.policies import TablePolicies

        return TablePolicies.restore(description, arrays)
    from rasf.library.networks.actor_policies import ActorPolicies
    from rasf.library.networks.policies import NetworkPolicies

    return (ActorPolicies if "action_size" in description else NetworkPolicies).restore(description, arrays)


def _policy(each: object, d: int) -> SourcePolicy:
    match each:
        case {"w": list(w), "risk": str(risk)} if len(w) == d and all(type(number) in (int, float) for number in w):
            return SourcePolicy(tuple(map(float, w)), stored_risk(risk))
    raise ValueError(f"each of its policies must have {d} weights and a risk, got {each!r:.60}")


def _under(arrays: Arrays, prefix: str) -> Arrays:
    return {name.removeprefix(prefix): part for name, part in arrays.items() if name.startswith(prefix)}


def versions() -> dict[str, str]:
    """Return the versions of rasf, Python and the packages that training depends on."""
    import rasf

    found = (name for name in ("numpy", "jax", "gymnasium") if find_spec(name))  # gymnasium may not be installed
    return {"rasf": rasf.__version__, "python": platform.python_version()} | {name: version(name) for name in found}
