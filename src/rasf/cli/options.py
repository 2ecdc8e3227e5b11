"""Commands made from declared arguments. Values are given by options, or by a TOML file (`--config`).

The keys of the file are the names of the options. The same functions read values from both. Options take precedence.
"""

from __future__ import annotations

import keyword
import warnings
from collections.abc import Callable, Mapping
from inspect import Parameter, Signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rasf.files import Header
from rasf.library.arguments import readers
from rasf.library.arguments.declared import FLAG, Argument, given_at, read_values

if TYPE_CHECKING:
    from rasf.library.policy_library import PolicyLibrary

_CONFIG = Argument("config", "A TOML file with values for these options; options override the file.", readers.path)


def command(arguments: tuple[Argument, ...]) -> Callable[[Callable[[Header], None]], Callable[..., None]]:
    """Make a command from a function that takes a dict of values by argument name.

    Args:
        arguments: Declared arguments. Arguments that a flag can give become options. If several flags give one
            argument, only one of these flags is accepted.

    Returns:
        A decorator. The docstring of the function is the command's help.
    """
    rows = given_at(arguments, FLAG)

    def decorated(run: Callable[[Header], None]) -> Callable[..., None]:
        def with_options(**given: object) -> None:
            config = given.pop(_identifier(_CONFIG))
            flags = {flag: given[_identifier(row)] for flag, row in rows.items()}
            values = {flag: value for flag, value in flags.items() if value not in (None, [])}
            run(_gathered(rows, values, config if isinstance(config, Path) else None))

        parameters = [_parameter(row) for row in (*rows.values(), _CONFIG)]
        with_options.__name__, with_options.__doc__ = run.__name__, run.__doc__
        with_options.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        with_options.__annotations__ = {one.name: one.annotation for one in parameters}
        return with_options

    return decorated


def _identifier(row: Argument) -> str:
    name = row.flag.replace("-", "_")
    return f"{name}_" if keyword.iskeyword(name) else name


def _parameter(row: Argument) -> Parameter:
    """Return the function parameter from which typer makes the option of an argument."""
    repeated = " May be repeated." if row.many else ""
    default = f" Default: {row.default}." if row.default else ""
    words = f"{row.help}{repeated}{default}"
    option = (
        typer.Argument(metavar=row.metavar, help=words)
        if row.positional
        else typer.Option(f"--{row.flag}", metavar=row.metavar, help=words)
    )
    kind = list[str] if row.many else row.kind
    return Parameter(_identifier(row), Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, option])


def _gathered(rows: Mapping[str, Argument], given: Header, config: Path | None) -> Header:
    """Return the values by argument name; a value from a flag replaces the value from the configuration file.

    If the value is a dict, the flag replaces only entries with the same key.
    """
    flags = read_values(rows, {flag: list(one) if isinstance(one, tuple) else one for flag, one in given.items()})
    values = {} if config is None else _read_config(config, rows)
    named = {rows[flag].name for flag in flags}
    values = {flag: value for flag, value in values.items() if flag in flags or rows[flag].name not in named}
    for flag, value in flags.items():
        values[flag] = values[flag] | value if isinstance(value, dict) and flag in values else value
    for flag in values:
        same = [other for other, row in rows.items() if row.name == rows[flag].name]
        twice = [other for other in same if other in values]
        if len(twice) > 1:
            raise ValueError(f"only one of {', '.join(same)} can be given, got {' and '.join(twice)}")
    return {rows[flag].name: value for flag, value in values.items()}


def _read_config(path: Path, rows: Mapping[str, Argument]) -> Header:
    _, given = readers.read_toml(path)
    unknown = [name for name in given if name not in rows]
    if unknown:
        raise ValueError(f"{path} must hold only {', '.join(rows)}, got {', '.join(unknown)}")
    try:
        return read_values(rows, given)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def own_environment(library: PolicyLibrary) -> str:
    """Return the id of a library's training environment; raise ValueError if there is none or it is not registered."""
    from rasf.envs.registration import is_registered

    env_id = library.environment.id
    if env_id is None:
        raise ValueError(
            "env must be given, as ID or MODULE:ID, because the library was trained on an environment without an id"
        )
    if not is_registered(env_id):
        raise ValueError(
            f"env must be given as MODULE:{env_id}, where MODULE registers this id, because neither Gymnasium nor "
            "MO-Gymnasium (rasf[mo]) has it"
        )
    return env_id


def arguments_like(library: PolicyLibrary, env_id: str, given: Header) -> Header:
    """Return the keyword arguments for an environment.

    These are `given`, and for the library's own environment also the arguments of training that are not in `given`.
    """
    return library.environment.make_kwargs(**given) if env_id == library.environment.id else given


def silence_box_warnings() -> None:
    """Silence two harmless warnings of MO-Gymnasium's spaces."""
    warnings.filterwarnings("ignore", message=r".*Box (low|high)'s precision lowered by casting to float32")
