"""Clients who would keep others out are let go: those who do not ask, and those who do not read."""

from __future__ import annotations

import asyncio
import resource
from socket import SO_SNDBUF, SOL_SOCKET
from typing import TYPE_CHECKING

from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["ChunkedResponses", "TimeLimitedConnection", "max_connections"]

CLIENT_TIMEOUT = 20.0  # seconds to send a request, and to read a piece of an answer
MAX_CONNECTIONS = 800
CHUNK_BYTES = 32 << 10  # bytes of an answer that wait in a connection
MAX_UNSENT_BYTES = 128 << 20  # bytes of all answers that are being sent


def max_connections() -> int:
    """Return how many connections are kept: 800, or half of the files that may be open."""
    return min(MAX_CONNECTIONS, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)


class TimeLimitedConnection(H11Protocol):
    """Uvicorn's HTTP connection, which by itself waits forever for requests and for readers."""

    _answered: object = None  # the last request that was seen answered
    waits_since = 0.0  # for the client, to ask or to read
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start to wait; of too many connections, the one that waits for longest is closed."""
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=CHUNK_BYTES)
        # By itself the system takes megabytes, and shows long after that some were read.
        transport.get_extra_info("socket").setsockopt(SOL_SOCKET, SO_SNDBUF, 4 * CHUNK_BYTES)
        self.waits_since = self.loop.time()
        ours = [c for c in self.connections if isinstance(c, TimeLimitedConnection)]
        open_ = [c for c in ours if not c.transport.is_closing()]
        if len(open_) > max_connections():
            min(
                filter(TimeLimitedConnection.waits, open_), key=lambda c: c.waits_since
            ).transport.abort()
        self.loop.call_later(CLIENT_TIMEOUT, self._wait_no_more)

    def waits(self) -> bool:
        """Return whether it is the client's turn, to ask or to read."""
        return self._unread is not None or self._done()

    def _done(self) -> bool:
        """Return whether the last request is answered; there is none at first."""
        return bool(getattr(self.cycle, "response_complete", True))

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self.waits_since = self.loop.time()
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Give the client some time to read what waits for it."""
        super().pause_writing()
        self.waits_since = self.loop.time()
        self._unread = self.loop.call_later(CLIENT_TIMEOUT, self.transport.abort)

    def resume_writing(self) -> None:
        """Note that the client has read."""
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _wait_no_more(self) -> None:
        if self not in self.connections:
            return
        done = self._done()
        # What is closing is closed once all is read, which may be never.
        if self.transport.is_closing() or (done and self.cycle is self._answered):
            self.transport.abort()
            return
        self._answered = self.cycle if done else None
        self.loop.call_later(CLIENT_TIMEOUT, self._wait_no_more)


class ChunkedResponses:
    """Sends the answers of `app` piece by piece, so that none waits as a whole in a connection.

    An answer is held until its client has read it. Where all together are too large, those whose
    clients have not read for longest are given up.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._held: dict[asyncio.Task[None], bytes] = {}  # by when they were last read

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer."""
        task = asyncio.current_task()
        assert task is not None

        async def in_pieces(sent: Message) -> None:
            body = sent.get("body", b"")
            if len(body) <= CHUNK_BYTES:
                await send(sent)
                return
            self._hold(task, body)
            for start in range(0, len(body), CHUNK_BYTES):
                more = start + CHUNK_BYTES < len(body) or sent.get("more_body", False)
                piece = {**sent, "body": body[start : start + CHUNK_BYTES], "more_body": more}
                await send(piece)
                await asyncio.sleep(0)  # a client who is gone is noticed, others have their turn
                self._held[task] = self._held.pop(task, body)
            self._held.pop(task, None)

        try:
            await self._app(scope, receive, in_pieces)
        finally:
            self._held.pop(task, None)

    def _hold(self, task: asyncio.Task[None], body: bytes) -> None:
        self._held[task] = body
        while len(self._held) > 1 and self.held() > MAX_UNSENT_BYTES:
            slowest = next(iter(self._held))
            del self._held[slowest]
            slowest.cancel()

    def held(self) -> int:
        """Return how many bytes are held; an answer to several clients counts once."""
        return sum({id(body): len(body) for body in self._held.values()}.values())
