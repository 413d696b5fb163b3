"""Everybody who looks: each has a queue of messages that cannot grow without end."""

from __future__ import annotations

import asyncio
from secrets import token_hex
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from .limits import max_connections

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from .store_watcher import StoreChanges

__all__ = [
    "Broadcaster",
    "EncodedChanges",
    "TooManyViewersError",
    "Viewer",
    "encode_changes",
    "encode_event",
]

MAX_VIEWERS = 500
MAX_PENDING = 32  # messages of a viewer who does not keep up
MAX_PENDING_BYTES = 1 << 20  # of these messages
MAX_POINTS_BYTES = 256 << 10  # bytes of a message about points; more are fetched
KEEPALIVE_SECONDS = 15.0  # seconds after which a quiet connection is shown to be alive
MAX_CHANGED_ROWS = 500  # more changed rows than this are fetched as a whole list


class TooManyViewersError(RuntimeError):
    """Too many look already."""


class Viewer:
    """Who looks at which runs, and what is still to be sent."""

    def __init__(self, runs: frozenset[str]) -> None:
        self.runs = runs
        self._waiting: asyncio.Queue[bytes | None] = asyncio.Queue(MAX_PENDING)
        self._bytes = 0  # of what waits

    def tell(self, said: bytes | None) -> None:
        """Have something sent; whoever does not keep up is told to look anew instead."""
        if self._waiting.full() or self._bytes > MAX_PENDING_BYTES:
            while not self._waiting.empty():
                self._waiting.get_nowait()
            self._waiting.put_nowait(encode_event("again", {}))
            self._bytes = 0
        self._waiting.put_nowait(said)
        self._bytes += len(said or b"")

    async def messages(self) -> AsyncIterator[bytes]:
        """Yield what is to be sent, and something at times when there is nothing."""
        while True:
            try:
                said = await asyncio.wait_for(self._waiting.get(), KEEPALIVE_SECONDS)
            except TimeoutError:
                said = b": still here\n\n"
            if said is None:
                return
            self._bytes = max(self._bytes - len(said), 0)
            yield said


class Broadcaster:
    """The viewers, by what they look at."""

    def __init__(self) -> None:
        self.id = token_hex(8)  # who reconnects sees whether it is the same program
        self._viewers: set[Viewer] = set()
        self._closed = False

    def join(self, runs: frozenset[str]) -> Viewer:
        """Return a new viewer, or raise TooManyViewersError."""
        most = min(MAX_VIEWERS, max_connections() * 5 // 8)  # the others are for those who ask
        if len(self._viewers) >= most or self._closed:
            raise TooManyViewersError
        viewer = Viewer(runs)
        self._viewers.add(viewer)
        return viewer

    def leave(self, viewer: Viewer) -> None:
        """Forget a viewer."""
        self._viewers.discard(viewer)

    def viewed(self) -> set[str]:
        """Return the runs that somebody looks at."""
        return set().union(*(viewer.runs for viewer in self._viewers))

    def tell(self, messages: EncodedChanges) -> None:
        """Tell everybody what concerns them."""
        for viewer in self._viewers:
            for said in messages.to_all:
                viewer.tell(said)
            for name in viewer.runs & messages.of_runs.keys():
                viewer.tell(messages.of_runs[name])

    def close(self) -> None:
        """End every connection."""
        self._closed = True
        for viewer in self._viewers:
            viewer.tell(None)


class EncodedChanges(NamedTuple):
    """What everybody is told, and what those are told who look at a run."""

    to_all: Sequence[bytes]
    of_runs: dict[str, bytes]


def encode_changes(changes: StoreChanges) -> EncodedChanges:
    """Return what to tell of changes: what several are told is written once."""
    of_runs = {name: encode_event("redraw", {"name": name}) for name in changes.again}
    for name, points in changes.points.items():
        said = encode_event("points", {"name": name, **points})
        of_runs[name] = (
            said if len(said) <= MAX_POINTS_BYTES else encode_event("redraw", {"name": name})
        )
    return EncodedChanges(_to_all(changes), of_runs)


def _to_all(changes: StoreChanges) -> Sequence[bytes]:
    said = []
    if len(changes.rows) > MAX_CHANGED_ROWS:
        said.append(encode_event("relist", {}))
    elif changes.rows or changes.gone:
        rows = {"rows": list(changes.rows.values()), "gone": changes.gone, "rev": changes.rev}
        said.append(encode_event("rows", rows))
    if changes.studies is not None:
        said.append(encode_event("studies", {"studies": changes.studies}))
    return said


def encode_event(kind: str, data: Any) -> bytes:
    r"""Return one event as it goes over the line.

    Example:
        >>> encode_event("rows", {"gone": ["a\nb"]})
        b'event: rows\ndata: {"gone":["a\\nb"]}\n\n'
    """
    return b"event: " + kind.encode() + b"\ndata: " + msgspec.json.encode(data) + b"\n\n"
