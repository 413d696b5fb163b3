"""`perdure watch`: a page in the browser that shows runs while they train."""

from __future__ import annotations

import re
import webbrowser
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from ..record import InputError
from ._options import Flag, NonNegativeInt
from ._output import print_lines

__all__ = ["watch"]

SHORTEST = 8
AUTO = "auto"


def watch(
    store: Path = Path("runs"),
    *,
    port: NonNegativeInt | None = None,
    host: str = "127.0.0.1",
    token: str | None = None,
    open_: Annotated[Flag, Parameter("--open")] = False,
) -> int:
    """Show a folder of runs in the browser, while they train; it reads and never writes.

    Prints the address of the page. Ctrl-C ends it.

    Args:
        store: folder of the runs.
        port: of the address; 8765 or the next free one if not given.
        host: an address of this machine; others than 127.0.0.1 let others look, and need a token.
        token: a word that those who look must know; `auto` makes one.
        open_: open the page in the browser.
    """
    if port is not None and port > 65535:
        raise InputError(f"--port is {port}, expected at most 65535")
    if not store.is_dir():
        raise InputError(f"{store}: no such folder, expected one of runs; `perdure run` makes some")
    live = _live()
    token = _token(live, host, token)
    server = live.LiveServer(store, live.open_port(host, port), host, token=token)
    count = len(server.watching.listing)
    print_lines(f"{store}: {count} run{'' if count == 1 else 's'}, shown at {server.address}")
    print_lines("Ctrl-C ends it")
    if open_:
        webbrowser.open(server.address)
    with suppress(KeyboardInterrupt):
        server.serve_here()
    return 0


def _live() -> Any:
    for needed in ("starlette", "uvicorn", "plotly"):
        if find_spec(needed) is None:
            raise InputError(
                f"{needed} is not installed, expected it for pages; pip install 'perdure[report]'"
            )
    return import_module("perdure.report.live.serve")


def _token(live: Any, host: str, token: str | None) -> str | None:
    if token is None:
        if not live.is_loopback(host):
            raise InputError(
                f"--host {host:.60} lets other machines look, expected a token with it; "
                "--token auto makes one"
            )
        return None
    if token == AUTO:
        return str(live.new_token())
    if not re.fullmatch(r"[A-Za-z0-9._~-]+", token) or len(token) < SHORTEST:
        raise InputError(
            f"--token has {len(token)} characters, expected at least {SHORTEST} letters or digits "
            "(or . _ ~ -); --token auto makes one"
        )
    return token
