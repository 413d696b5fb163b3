"""Starting the live page: a free port, an address to open, an end without a word."""

from __future__ import annotations

import errno
import secrets
import socket
from typing import TYPE_CHECKING, Any

import uvicorn

from ...record import InputError
from .auth import is_loopback
from .broadcaster import Broadcaster
from .limits import TimeLimitedConnection
from .server import make_app
from .store_watcher import StoreWatcher

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["LiveServer", "new_token", "open_port"]

DEFAULT_PORT = 8765
PORT_ATTEMPTS = 100  # ports after it that are tried


class LiveServer(uvicorn.Server):
    """The live page of a store on a port; `run` serves until it is told to end.

    Args:
        store: folder of the runs.
        port: an open one, from `open_port`.
        host: its address.
        token: the word that must be known; None for none.
        every: seconds between two looks at the disk.
    """

    def __init__(
        self,
        store: Path,
        port: socket.socket,
        host: str = "127.0.0.1",
        *,
        token: str | None = None,
        every: float = 0.5,
    ) -> None:
        self.watching, self._hub, self._port = StoreWatcher(store), Broadcaster(), port
        number = port.getsockname()[1]
        app = make_app(
            self.watching, self._hub, token=token, loopback=is_loopback(host),
            cookie=f"perdure-{number}", every=every,
        )  # fmt: skip
        at = socket.gethostname() if host in ("0.0.0.0", "::") else host  # noqa: S104
        at = f"[{at}]" if ":" in at else at
        self.address = f"http://{at}:{number}/" + (f"?token={token}" if token else "")
        super().__init__(
            uvicorn.Config(
                app, log_level="critical", access_log=False, server_header=False, ws="none",
                timeout_graceful_shutdown=2, http=TimeLimitedConnection,
            )
        )  # fmt: skip

    def serve_here(self) -> None:
        """Serve until the program is told to end."""
        self.run(sockets=[self._port])

    def end(self) -> None:
        """Have `serve_here` return soon."""
        self._hub.close()
        self.should_exit = True

    def handle_exit(self, sig: int, frame: Any) -> None:
        """End the connections that would wait for changes for ever, then the rest."""
        self._hub.close()
        super().handle_exit(sig, frame)


def open_port(host: str, port: int | None) -> socket.socket:
    """Return an open port: the one that was asked for, or the first free one from 8765 on."""
    wanted = range(DEFAULT_PORT, DEFAULT_PORT + PORT_ATTEMPTS) if port is None else [port]
    try:
        family, _, _, _, place = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError):
        raise InputError(f"host is {host!r:.60}, expected an address of this machine") from None
    for number in wanted:
        opened = socket.socket(family, socket.SOCK_STREAM)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            opened.bind((place[0], number))
            opened.listen(256)
        except OSError as error:
            opened.close()
            if error.errno == errno.EADDRINUSE and port is None:
                continue
            why = (error.strerror or str(error)).lower()
            raise InputError(f"{host} port {number}: {why}; choose another with `port=`") from None
        return opened
    last = DEFAULT_PORT + PORT_ATTEMPTS - 1
    raise InputError(f"ports {DEFAULT_PORT} to {last} are taken; choose another with `port=`")


def new_token() -> str:
    """Return a word that nobody guesses."""
    return secrets.token_urlsafe(24)
