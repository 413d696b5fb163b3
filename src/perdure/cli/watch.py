"""`perdure watch`: a page in the browser that shows runs while they train."""

from __future__ import annotations

import re
import webbrowser
from contextlib import suppress
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from .._extras import install_hint, is_installed
from ..record import InputError
from ._options import Flag, NonNegativeInt
from ._output import print_lines

__all__ = ["watch"]

MIN_TOKEN_LENGTH = 8
AUTO = "auto"


def watch(
    store: Path = Path("runs"),
    *,
    port: NonNegativeInt | None = None,
    host: str = "127.0.0.1",
    token: str | None = None,
    open_: Annotated[Flag, Parameter("--open")] = False,
) -> int:
    """Show the runs in a folder on a web page that updates while they train.

    Prints the address of the page; Ctrl-C stops the server. Nothing is written.

    Args:
        store: Folder in which runs are stored.
        port: Port of the address. Defaults to 8765, or the next free one.
        host: Address to listen on. Addresses other than 127.0.0.1 expose the page to the network
            and require a token.
        token: Token that viewers must know; `auto` generates one.
        open_: Open the page in the browser.
    """
    if port is not None and port > 65535:
        raise InputError(f"--port is {port}, expected at most 65535")
    if not store.is_dir():
        raise InputError(
            f"{store}: no such folder, expected a folder of runs; it appears once a run or an "
            f"Evaluator trains; to watch before that: mkdir {store}"
        )
    _require_packages()
    from ..report.live.serve import LiveServer, open_port

    token = _check_token(host, token)
    server = LiveServer(store, open_port(host, port), host, token=token)
    count = len(server.watcher.listing)
    print_lines(f"{store}: {count} run{'' if count == 1 else 's'}, shown at {server.address}")
    print_lines("Ctrl-C stops it")
    if open_:
        webbrowser.open(server.address)
    with suppress(KeyboardInterrupt):
        server.serve_here()
    return 0


def _require_packages() -> None:
    for package in ("starlette", "uvicorn"):
        if not is_installed(package):
            raise InputError(
                f"{package} is not installed, expected it for pages; {install_hint('report')}"
            )


def _check_token(host: str, token: str | None) -> str | None:
    """Return the token that viewers must know; None if only this machine can see the page."""
    from ..report.live.auth import is_loopback
    from ..report.live.serve import new_token

    if token is None:
        if not is_loopback(host):
            raise InputError(
                f"--host {host:.60} exposes the page to the network and requires a token; "
                "--token auto generates one"
            )
        return None
    if token == AUTO:
        return new_token()
    if not re.fullmatch(r"[A-Za-z0-9._~-]+", token) or len(token) < MIN_TOKEN_LENGTH:
        raise InputError(
            f"--token has {len(token)} characters, expected at least {MIN_TOKEN_LENGTH} letters or "
            "digits (or . _ ~ -); --token auto generates one"
        )
    return token
