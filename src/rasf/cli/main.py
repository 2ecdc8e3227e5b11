"""The command line: commands of this package, and entry points of other packages in the group `rasf.commands`.

An error prints one sentence on standard error, without a traceback, and gives a non-zero exit code. Ctrl-C ends a
command with code 130; see `rasf.cli.terminal`.
"""

from __future__ import annotations

import os
import sys
from importlib.metadata import entry_points
from typing import Annotated, NoReturn

import typer

import rasf
from rasf.cli.calibrate import calibrate
from rasf.cli.evaluate import evaluate
from rasf.cli.terminal import console, leaving_at_once, on_stderr
from rasf.cli.train import train

app = typer.Typer(
    help="Risk-aware transfer in reinforcement learning.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
for command in (train, evaluate, calibrate):
    app.command()(command)
for offered in entry_points(group="rasf.commands"):
    found = offered.load()
    if isinstance(found, typer.Typer):  # a command with subcommands
        app.add_typer(found, name=offered.name)
    else:
        app.command(offered.name)(found)


def _version(asked: bool) -> None:
    if asked:
        console.print(f"rasf {rasf.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line; print an error as one sentence."""
    try:
        with leaving_at_once():
            app()
    except OSError as error:
        _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except ValueError as error:
        _fail(str(error))
    except Exception as error:  # a user's environment may raise anything
        if "RASF_TRACEBACK" in os.environ:
            raise
        said = f"{type(error).__name__}: {' '.join(str(error).split())}"
        _fail(f"{said}; to see the traceback, set the environment variable RASF_TRACEBACK=1")


def _fail(sentence: str) -> NoReturn:
    on_stderr().print(f"rasf: {sentence}", style="red", markup=False, highlight=False, soft_wrap=True)
    sys.exit(1)
