"""Limits on clients: which requests are allowed, and clients that send nothing or do not read.

`TimeLimitedConnection` extends uvicorn's H11Protocol, which is not a documented interface and has
no timeouts of its own for requests and for readers. The range of uvicorn in pyproject.toml is
pinned for that, and `tests/test_live_clients.py` fails if a part that is used here goes away.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import re
from socket import SO_SNDBUF, SOL_SOCKET
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse, RedirectResponse
from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = [
    "AuthMiddleware",
    "ChunkedResponses",
    "TimeLimitedConnection",
    "is_loopback",
    "max_connections",
]

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


def is_loopback(host: str) -> bool:
    """Return whether an address can be reached from this machine only.

    Example:
        >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("0.0.0.0")
        (True, True, False)
    """
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class AuthMiddleware:
    """Passes permitted requests on to `app` and adds security headers to every response.

    Args:
        app: the application to protect.
        token: the secret that a client must present; None if only this machine can connect.
        loopback: refuse requests under other host names, which a foreign page could make point
            to this machine. (Starlette's TrustedHostMiddleware cannot parse [::1]:8765.)
        cookie: name of the cookie in which a browser keeps the token.
    """

    def __init__(self, app: ASGIApp, *, token: str | None, loopback: bool, cookie: str) -> None:
        self._app, self._token, self._loopback, self._cookie = app, token, loopback, cookie

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond to a request, or let the application respond."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        response = self._refuse(scope) or self._app
        await response(scope, receive, send_with_headers)

    def _refuse(self, scope: Scope) -> Response | None:
        if scope["method"] not in ("GET", "HEAD"):
            return PlainTextResponse("this page is read-only", 405, {"Allow": "GET, HEAD"})
        host = Headers(scope=scope).get("host", "")
        if self._loopback and not is_loopback(_host_name(host)):
            return PlainTextResponse("unknown host name", 400)
        return None if self._token is None else self._check_token(scope, self._token)

    def _check_token(self, scope: Scope, token: str) -> Response | None:
        """Return the response to a client without the token in its cookie, None if it has it."""
        try:
            query = parse_qs(scope["query_string"].decode("latin-1"), max_num_fields=40)
            given = query.get("token", [""])[-1]
        except ValueError:
            given = ""
        if not _is_equal(given, token):
            # Browsers send the cookies of every port, so those of other programs may be malformed.
            if _is_equal(HTTPConnection(scope).cookies.get(self._cookie, ""), token):
                return None
            return PlainTextResponse("token required: open the address that perdure printed", 401)
        # Removes the token from the address, where histories and screenshots would keep it.
        response = RedirectResponse("/", 303)
        # Not "strict", which would refuse "/" to whoever follows a link from a mail or a chat.
        response.set_cookie(self._cookie, token, httponly=True, samesite="lax")
        return response


def _host_name(host: str) -> str:
    match = re.fullmatch(r"(?:\[([^\]]*:[^\]]*)\]|([^:\[\]]*))(?::\d*)?", host.lower())
    return (match[1] or match[2]) if match else ""


def _is_equal(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), token.encode())


CLIENT_TIMEOUT = 20.0  # seconds to send a request, and to read a chunk of a response
MAX_CONNECTIONS = 800
CHUNK_BYTES = 32 << 10  # of a response that wait in a connection
MAX_UNSENT_BYTES = 128 << 20  # of all responses that are being sent


def max_connections() -> int:
    """Return the maximum number of connections: 800, or half of the open files allowed."""
    try:
        import resource
    except ImportError:  # Windows
        return MAX_CONNECTIONS
    return min(MAX_CONNECTIONS, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)


class TimeLimitedConnection(H11Protocol):
    """An HTTP connection that is closed if its client neither sends a request nor reads."""

    _answered: object = None  # the last request whose response was seen complete
    waiting_since = 0.0  # for the client, to send or to read
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the timeout; of too many connections, close the one that waits longest."""
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=CHUNK_BYTES)
        # The default buffer of the system takes megabytes, and reports reads much later.
        transport.get_extra_info("socket").setsockopt(SOL_SOCKET, SO_SNDBUF, 4 * CHUNK_BYTES)
        self.waiting_since = self.loop.time()
        ours = [c for c in self.connections if isinstance(c, TimeLimitedConnection)]
        open_ = [c for c in ours if not c.transport.is_closing()]
        if len(open_) > max_connections():
            idle = filter(TimeLimitedConnection.is_waiting, open_)
            min(idle, key=lambda c: c.waiting_since).transport.abort()
        self.loop.call_later(CLIENT_TIMEOUT, self._check_timeout)

    def is_waiting(self) -> bool:
        """Return whether it is the client's turn, to send a request or to read."""
        return self._unread is not None or self._is_complete()

    def _is_complete(self) -> bool:
        """Return whether the last request, if there was any, has its response."""
        return bool(getattr(self.cycle, "response_complete", True))

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self.waiting_since = self.loop.time()
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Start the timeout for the client to read."""
        super().pause_writing()
        self.waiting_since = self.loop.time()
        self._unread = self.loop.call_later(CLIENT_TIMEOUT, self.transport.abort)

    def resume_writing(self) -> None:
        """Stop the timeout: the client has read."""
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _check_timeout(self) -> None:
        if self not in self.connections:
            return
        complete = self._is_complete()
        # A closing connection ends once everything is read, which may be never.
        if self.transport.is_closing() or (complete and self.cycle is self._answered):
            self.transport.abort()
            return
        self._answered = self.cycle if complete else None
        self.loop.call_later(CLIENT_TIMEOUT, self._check_timeout)


class ChunkedResponses:
    """Sends the responses of `app` in chunks, so that none waits as a whole in a connection.

    A response is kept until its client has read it. If all of them together are too large, those
    that have not been read for the longest time are given up.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._unsent: dict[asyncio.Task[None], bytes] = {}  # the least recently read first

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond to a request."""
        task = asyncio.current_task()
        assert task is not None

        async def send_in_chunks(message: Message) -> None:
            body = message.get("body", b"")
            if len(body) <= CHUNK_BYTES:
                await send(message)
                return
            self._add(task, body)
            for start in range(0, len(body), CHUNK_BYTES):
                end = start + CHUNK_BYTES
                more = end < len(body) or message.get("more_body", False)
                await send({**message, "body": body[start:end], "more_body": more})
                await asyncio.sleep(0)  # lets others run, and notices a client that is gone
                self._unsent[task] = self._unsent.pop(task, body)
            self._unsent.pop(task, None)

        try:
            await self._app(scope, receive, send_in_chunks)
        finally:
            self._unsent.pop(task, None)

    def _add(self, task: asyncio.Task[None], body: bytes) -> None:
        self._unsent[task] = body
        while len(self._unsent) > 1 and self.unsent_bytes() > MAX_UNSENT_BYTES:
            slowest = next(iter(self._unsent))
            del self._unsent[slowest]
            slowest.cancel()

    def unsent_bytes(self) -> int:
        """Return the size of all unsent responses; one that several clients share counts once."""
        return sum({id(body): len(body) for body in self._unsent.values()}.values())
