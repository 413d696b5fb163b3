"""The live page: a read-only view of a folder of runs in a browser."""

from __future__ import annotations

import errno
import secrets
import socket
from typing import TYPE_CHECKING

import uvicorn

from ...record import InputError
from .broadcaster import Broadcaster
from .limits import TimeLimitedConnection, is_loopback
from .server import make_app
from .store_watcher import StoreWatcher

if TYPE_CHECKING:
    from pathlib import Path
    from types import FrameType

__all__ = ["LiveServer", "new_token", "open_port"]

DEFAULT_PORT = 8765
PORT_ATTEMPTS = 100  # ports from the default on


class LiveServer(uvicorn.Server):
    """The live page of a store on a port; `serve_here` serves until it is stopped.

    Args:
        store: folder of the runs.
        port: an open port, from `open_port`.
        host: its address.
        token: the secret that a client must present; None for none.
        every: seconds between two polls of the disk.
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
        self.watcher, self._broadcaster, self._port = StoreWatcher(store), Broadcaster(), port
        number = port.getsockname()[1]
        app = make_app(
            self.watcher, self._broadcaster, token=token, loopback=is_loopback(host),
            cookie=f"perdure-{number}", every=every,
        )  # fmt: skip
        name = socket.gethostname() if host in ("0.0.0.0", "::") else host  # noqa: S104
        name = f"[{name}]" if ":" in name else name
        self.address = f"http://{name}:{number}/" + (f"?token={token}" if token else "")
        super().__init__(
            uvicorn.Config(
                app, log_level="critical", access_log=False, server_header=False, ws="none",
                timeout_graceful_shutdown=2, http=TimeLimitedConnection,
            )
        )  # fmt: skip

    def serve_here(self) -> None:
        """Serve until the program is stopped."""
        self.run(sockets=[self._port])

    def end(self) -> None:
        """Make `serve_here` return soon."""
        self._broadcaster.close()
        self.should_exit = True

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End the event streams, which would otherwise wait for ever, then the rest."""
        self._broadcaster.close()
        super().handle_exit(sig, frame)


def open_port(host: str, port: int | None) -> socket.socket:
    """Return an open port: `port`, or the first free one from 8765 on."""
    numbers = range(DEFAULT_PORT, DEFAULT_PORT + PORT_ATTEMPTS) if port is None else [port]
    try:
        family, _, _, _, address = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError):
        raise InputError(f"host is {host!r:.60}, expected an address of this machine") from None
    for number in numbers:
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((address[0], number))
            listener.listen(256)
        except OSError as error:
            listener.close()
            if error.errno == errno.EADDRINUSE and port is None:
                continue
            reason = (error.strerror or str(error)).lower()
            raise InputError(
                f"{host} port {number}: {reason}; choose another with `port=`"
            ) from None
        return listener
    raise InputError(f"ports {numbers[0]} to {numbers[-1]} are taken; choose another with `port=`")


def new_token() -> str:
    """Return a token that cannot be guessed."""
    return secrets.token_urlsafe(24)
