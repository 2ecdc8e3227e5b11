"""The command `rasf explore`, which serves the risk explorer on this machine."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from rasf.cli.terminal import console, interruptible
from rasf.library.arguments.readers import import_environment


def explore(
    file: Annotated[
        Path | None, typer.Argument(help="A library file. Default: worlds that come with rasf.", show_default=False)
    ] = None,
    env: Annotated[
        str | None,
        typer.Option(metavar="MODULE:ID", help="Environment of FILE, if its module must be imported first."),
    ] = None,
    host: Annotated[
        str, typer.Option(help="Address to listen on; other machines can connect to an address that is not local.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port to listen on.")] = 8080,
    browser: Annotated[bool, typer.Option(help="Open the page in a browser.")] = True,
    seed: Annotated[
        int, typer.Option(min=0, help="Seed for training the policies of Four rooms, and default seed of rollouts.")
    ] = 0,
) -> None:
    """Explore a library on a local web page: set reward weights and risk, and see how the library acts, and why.

    Example: `rasf explore my-library.rasf --port 8081`

    Example: `rasf explore bridge.rasf --env bridge:my/Bridge-v0`
    """
    interruptible()
    if env is not None and file is None:
        raise ValueError(f"env must be given together with the file of a library, got only env {env!r}")
    if find_spec("nicegui") is None:
        raise ValueError("the explorer needs the extra packages of pip install 'rasf[explorer]'")
    from rasf.library.file import load
    from rasf_explorer.app import is_local, serve

    def ready(address: str) -> None:
        console.print(f"the explorer is at {address}; press Ctrl-C to stop it", highlight=False)
        if not is_local(host):
            console.print("any machine that reaches this address can use the explorer", highlight=False)

    library, env_id = None if file is None else load(file), None if env is None else import_environment(env)
    serve(library, env=env_id, host=host, port=port, show=browser, seed=seed, ready=ready)
