"""Connections on which nothing is asked are closed: they would keep others out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    import asyncio

__all__ = ["Impatient"]

PATIENCE = 20.0  # seconds for a whole request


class Impatient(H11Protocol):
    """Uvicorn's way to speak HTTP, which by itself waits for ever for the end of a request."""

    _answered: object = None  # the last request that was seen answered

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start to wait."""
        super().connection_made(transport)
        self.loop.call_later(PATIENCE, self._wait_no_more)

    def _wait_no_more(self) -> None:
        if self.transport.is_closing():
            return
        done = getattr(self.cycle, "response_complete", True)  # there is none at first
        if done and self.cycle is self._answered:
            self.transport.abort()
            return
        self._answered = self.cycle if done else None
        self.loop.call_later(PATIENCE, self._wait_no_more)
