"""Where the commands take weightings and environments from: a file of numbers, an id typed or named by a library."""

from __future__ import annotations

import json
import warnings
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rasf.sweep.runs import add_cwd_to_path

if TYPE_CHECKING:
    from rasf.arrays import Floats
    from rasf.library.policy_library import PolicyLibrary


def read_weights(path: Path) -> Floats:
    """Weightings (n, d): comma-separated lines, a JSON list of lists, or a numpy array; never anything pickled."""
    readers = {".csv": _csv, ".json": lambda path: json.loads(path.read_text("utf-8")), ".npy": _npy}
    if path.suffix not in readers:
        raise ValueError(f"tasks-file must end in {', '.join(readers)}, got {path}")
    try:
        found = np.array(readers[path.suffix](path), np.float64)
    except OSError:
        raise
    except (ValueError, TypeError, EOFError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"tasks-file {path} cannot be read as numbers, a row a task: {reason}") from None
    if found.ndim != 2 or found.size == 0 or not np.isfinite(found).all():
        raise ValueError(f"tasks-file {path} must hold finite numbers, a row a task, got shape {found.shape}")
    return found


def typed_environment(typed: str) -> str:
    """The id that a user typed; of `module:Id-v0` the module is imported, also from the folder we are in."""
    module, colon, env_id = typed.rpartition(":")
    if colon:
        add_cwd_to_path()
        try:
            import_module(module)
        except Exception as error:  # whatever a module of the user's may raise
            raise ValueError(f"env {typed!r} cannot be made: {type(error).__name__}: {error}") from error
    return env_id


def silence_box_warnings() -> None:
    """Keep two harmless warnings of MO-Gymnasium's spaces out of the progress."""
    warnings.filterwarnings("ignore", message=r".*Box (low|high)'s precision lowered by casting to float32")


def own_environment(library: PolicyLibrary) -> str:
    """The id of the environment a library was trained on; `load` has seen to it that it names no module."""
    from rasf.envs.registration import is_registered

    env_id = library.environment["id"]
    if env_id is None:
        raise ValueError(
            "env must be given, as ID or MODULE:ID, because the library was trained on an environment without an id"
        )
    if not is_registered(env_id):
        raise ValueError(
            f"env must be given as MODULE:{env_id}, where MODULE is the one that registers it: neither Gymnasium nor "
            "MO-Gymnasium (rasf[mo]) knows that id"
        )
    return str(env_id)


def arguments_like(library: PolicyLibrary, env_id: str, given: dict[str, Any]) -> dict[str, Any]:
    """Arguments of an environment: those of the library's own where it is the same, changed as given."""
    described = library.environment
    if env_id != described["id"]:
        return given
    limit = described["max_episode_steps"]
    return described["kwargs"] | ({} if limit is None else {"max_episode_steps": limit}) | given


def _csv(path: Path) -> Any:
    lines = path.read_text("utf-8").splitlines()
    return [line.split(",") for line in lines if line.strip()]


def _npy(path: Path) -> Any:
    return np.load(path, allow_pickle=False)
