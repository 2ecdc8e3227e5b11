"""What `rasf train` and `rasf evaluate` are told: flags, and a TOML file with the same names; flags win.

A value passes the same reader wherever it comes from. Flags are text where TOML has lists and tables:

    --w 1,0,.1 --w 0,1,.1               w = [[1, 0, 0.1], [0, 1, 0.1]]
    --set epsilon=0.2 --set widths=8,8  [set]  epsilon = 0.2  widths = [8, 8]
"""

from __future__ import annotations

import contextlib
import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rasf.sweep.arguments import Reader, read_toml, text

if TYPE_CHECKING:
    import typer

    from rasf.library.policy_library import PolicyLibrary

_WORDS = {"true": True, "false": False, "none": None}


def gather(ctx: typer.Context, readers: Mapping[str, Reader], alternatives: tuple[str, ...] = ()) -> dict[str, Any]:
    """Every value of a command that is given, read. Of `alternatives` one flag drives out all that the file says."""
    flags = {option.opts[0].lstrip("-"): ctx.params[str(option.name)] for option in ctx.command.params}
    config = flags.pop("config")
    lists = {name: list(value) if isinstance(value, tuple) else value for name, value in flags.items()}
    given = {name: readers[name](name, value) for name, value in lists.items() if value not in (None, [])}
    values = {} if config is None else _read_config(Path(config), readers)
    if any(name in given for name in alternatives):
        values = {name: value for name, value in values.items() if name not in alternatives}
    for name, value in given.items():
        values[name] = values[name] | value if isinstance(value, dict) and name in values else value
    twice = [name for name in alternatives if name in values]
    if len(twice) > 1:
        raise ValueError(f"only one of {', '.join(alternatives)} can be given, got {' and '.join(twice)}")
    return values


def _read_config(path: Path, readers: Mapping[str, Reader]) -> dict[str, Any]:
    _, given = read_toml(path)
    unknown = [name for name in given if name not in readers]
    if unknown:
        raise ValueError(f"{path} must hold only {', '.join(readers)}, got {', '.join(unknown)}")
    try:
        return {name: readers[name](name, value) for name, value in given.items()}
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def path(name: str, value: object) -> Path:
    """A file or a folder, seen from where the command runs."""
    return value if isinstance(value, Path) else Path(text(name, value))


def assignments(name: str, value: object) -> dict[str, object]:
    """Values by name: text such as epsilon=0.2 for each, or a table."""
    if isinstance(value, dict):
        return value
    found: dict[str, object] = {}
    for one in value if isinstance(value, list) else [value]:
        key, equals, written = one.partition("=") if isinstance(one, str) else ("", "", "")
        if not key.isidentifier() or not equals:
            raise ValueError(f"{name} must be written as name=value, got {one!r}")
        if key in found:
            raise ValueError(f"{name} must give {key} once, got it twice")
        found[key] = _value(written)
    return found


def limits(name: str, value: object) -> dict[str, tuple[float, bool]]:
    """Bounds by feature, and whether they are of an episode: text such as failure=0.05/episode for each, or a table."""
    each = [f"{key}={bound}" for key, bound in value.items()] if isinstance(value, dict) else value
    found: dict[str, tuple[float, bool]] = {}
    for one in each if isinstance(each, list) else [each]:
        key, equals, written = one.rpartition("=") if isinstance(one, str) else ("", "", "")
        plain = written.removesuffix("/episode")
        try:
            bound = float(plain)
        except ValueError:
            equals = ""
        if not key or not equals:
            raise ValueError(f"{name} must be written as failure=0.05 or failure=0.05/episode, got {one!r}")
        if key in found:
            raise ValueError(f"{name} must give {key} once, got it twice")
        found[key] = (bound, plain != written)
    return found


def prices(name: str, value: object) -> dict[str, list[float]]:
    """Prices by feature: text such as collision=4 or collision=4,10 for each, or a table of numbers or lists."""
    if isinstance(value, dict):
        return {key: part if isinstance(part, list) else [part] for key, part in value.items()}
    found: dict[str, list[float]] = {}
    for one in value if isinstance(value, list) else [value]:
        key, equals, written = one.rpartition("=") if isinstance(one, str) else ("", "", "")
        try:
            given = [float(part) for part in written.split(",")]
        except ValueError:
            equals = ""
        if not key or not equals:
            raise ValueError(f"{name} must be written as collision=4 or collision=4,10, got {one!r}")
        found[key] = [*found.get(key, []), *given]
    return found


def _value(written: str) -> object:
    """What JSON or Python make of a text, or the text itself: 3, .5, true, [1, 2] or 1,2, words."""
    if written.lower() in _WORDS:
        return _WORDS[written.lower()]
    for reader in (int, float, json.loads, lambda part: json.loads(f"[{part}]" if "," in part else "")):
        with contextlib.suppress(ValueError):
            return reader(written)
    return written


def own_environment(library: PolicyLibrary) -> str:
    """The id of the environment a library was trained on; `load` has seen to it that it names no module."""
    from rasf.envs.registration import is_registered

    env_id = library.environment.id
    if env_id is None:
        raise ValueError(
            "env must be given, as ID or MODULE:ID, because the library was trained on an environment without an id"
        )
    if not is_registered(env_id):
        raise ValueError(
            f"env must be given as MODULE:{env_id}, where MODULE is the one that registers it: neither Gymnasium nor "
            "MO-Gymnasium (rasf[mo]) knows that id"
        )
    return env_id


def arguments_like(library: PolicyLibrary, env_id: str, given: dict[str, object]) -> dict[str, object]:
    """Arguments of an environment: those of the library's own where it is the same, changed as given."""
    return library.environment.make_kwargs(**given) if env_id == library.environment.id else given


def silence_box_warnings() -> None:
    """Keep two harmless warnings of MO-Gymnasium's spaces out of the progress."""
    warnings.filterwarnings("ignore", message=r".*Box (low|high)'s precision lowered by casting to float32")
