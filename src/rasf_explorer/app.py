"""The server of `rasf explore`: a local page that is made with NiceGUI and served by uvicorn.

NiceGUI serves its own scripts and style sheets, so nothing is fetched from the internet. By default the server listens
on a local address. On any other address, visitors cannot open files by a path on the server's machine. Requests from
pages of other origins are refused (`own_origin`).
"""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import os
import socket
import threading
import weakref
import webbrowser
from collections.abc import Callable
from pathlib import Path

from rasf.checks import is_whole, whole
from rasf.library.policy_library import PolicyLibrary
from rasf_explorer.drawing import palette

_STATIC = Path(__file__).parent / "static"


def serve(
    library: PolicyLibrary | None,
    *,
    env: str | None = None,
    host: str = "127.0.0.1",
    port: int = 8080,
    show: bool = True,
    seed: int = 0,
    ready: Callable[[str], object] | None = None,
) -> None:
    """Serve the explorer until it is interrupted.

    Args:
        library: The library that the first view shows. None: the page has only the built-in views.
        env: Id of the library's environment. Default: the id that the library stores.
        host: Address to listen on. Default: 127.0.0.1.
        port: Port to listen on; 0 takes a free port. Default: 8080.
        show: Whether to open the page in a browser. Default: True.
        seed: Seed for training the library of the view Four rooms, and default seed of rollouts. Default: 0.
        ready: Called with the URL once the server listens. Default: none.

    Raises:
        ValueError: The address cannot be used, or NiceGUI is not installed.
    """
    whole("seed", seed, 0)
    listening = _listen(host, port)
    try:
        import uvicorn
        from fastapi import FastAPI
        from fastapi.middleware.trustedhost import TrustedHostMiddleware
        from nicegui import app as nicegui_app
        from nicegui import ui

        from rasf_explorer.own_origin import OwnOriginMiddleware
        from rasf_explorer.pages.shell import Shell
        from rasf_explorer.views import Views
    except ImportError as error:
        listening.close()
        raise ValueError(f"the explorer needs NiceGUI: pip install 'rasf[explorer]' ({error})") from None

    views = Views(library, seed, env)
    shells: weakref.WeakSet[Shell] = weakref.WeakSet()
    address = f"http://{_in_url(host)}:{listening.getsockname()[1]}/"

    @ui.page("/", title="rasf explorer")
    def index() -> None:
        ui.add_css(page_style())
        ui.add_head_html(f"<script>{(_STATIC / 'explorer.js').read_text()}</script>")
        shell = Shell(views, dict(ui.context.client.request.query_params), seed, may_open_paths=is_local(host))
        shells.add(shell)

    def started() -> None:
        if ready is not None:
            ready(address)
        if show:
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()

    def ended() -> None:
        # stop running threads, which would keep the process alive until their work is done
        views.close()
        for shell in list(shells):
            shell.close()

    nicegui_app.on_startup(started)
    nicegui_app.on_shutdown(ended)
    server_app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    server_app.add_middleware(OwnOriginMiddleware)
    if is_local(host):
        # against DNS rebinding: requests whose header `Host` is the name of another site are refused
        names = ["localhost", "127.0.0.1", "::1", "[::1]", host]
        server_app.add_middleware(TrustedHostMiddleware, allowed_hosts=names, www_redirect=False)
    ui.run_with(
        server_app, title="rasf explorer", favicon=_STATIC / "favicon.svg", dark=None, language="en-US", tailwind=False,
        show_welcome_message=False, reconnect_timeout=10.0,
    )  # fmt: skip
    # on one machine, compressing a picture takes longer than sending it
    config = uvicorn.Config(server_app, log_level="warning", timeout_graceful_shutdown=1, ws_per_message_deflate=False)
    with listening, contextlib.suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[listening])


def page_style() -> str:
    """Return the page's style sheet, with the palette of the pictures."""
    light, dark = palette.variables(palette.LIGHT), palette.variables(palette.DARK)
    return f"body{{{light}}}body.body--dark{{{dark}}}" + (_STATIC / "explorer.css").read_text()


def _listen(host: str, port: int) -> socket.socket:
    if not is_whole(port) or not 0 <= port < 65536:
        raise ValueError(f"port must be a whole number from 0 to 65535, got {port!r}")
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        # the name could not be resolved, or the address belongs to another machine
        if error.errno is None or error.errno < 0 or error.errno == errno.EADDRNOTAVAIL:
            raise ValueError(f"host must be a name or an address of this machine, got {host!r}") from None
        why = os.strerror(error.errno)
        raise ValueError(f"port {port} of {host} cannot be used: {why}; choose another port with --port") from None


def is_local(host: str) -> bool:
    """Return whether only this machine can connect to an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _in_url(host: str) -> str:
    return "127.0.0.1" if host in ("", "0.0.0.0") else f"[{host}]" if ":" in host else host
