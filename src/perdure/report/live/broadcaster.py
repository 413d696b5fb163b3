"""Everybody who looks: each has a queue of messages that cannot grow without end."""

from __future__ import annotations

import asyncio
from secrets import token_hex
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from .limits import max_connections

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from .store_watcher import Changes

__all__ = ["Full", "Hub", "Messages", "Viewer", "message", "messages_of"]

MOST_VIEWERS = 500
MOST_WAITING = 32  # messages of a viewer who does not keep up
MOST_BYTES = 1 << 20  # of these messages
LONGEST = 256 << 10  # bytes of a message about points; more are fetched
BEAT = 15.0  # seconds after which a quiet connection is shown to be alive
ROWS = 500  # more changed rows than this are fetched as a whole list


class Full(RuntimeError):
    """Too many look already."""


class Viewer:
    """Who looks at which runs, and what is still to be sent."""

    def __init__(self, runs: frozenset[str]) -> None:
        self.runs = runs
        self._waiting: asyncio.Queue[bytes | None] = asyncio.Queue(MOST_WAITING)
        self._bytes = 0  # of what waits

    def tell(self, said: bytes | None) -> None:
        """Have something sent; whoever does not keep up is told to look anew instead."""
        if self._waiting.full() or self._bytes > MOST_BYTES:
            while not self._waiting.empty():
                self._waiting.get_nowait()
            self._waiting.put_nowait(message("again", {}))
            self._bytes = 0
        self._waiting.put_nowait(said)
        self._bytes += len(said or b"")

    async def messages(self) -> AsyncIterator[bytes]:
        """Yield what is to be sent, and something at times when there is nothing."""
        while True:
            try:
                said = await asyncio.wait_for(self._waiting.get(), BEAT)
            except TimeoutError:
                said = b": still here\n\n"
            if said is None:
                return
            self._bytes = max(self._bytes - len(said), 0)
            yield said


class Hub:
    """The viewers, by what they look at."""

    def __init__(self) -> None:
        self.id = token_hex(8)  # who reconnects sees whether it is the same program
        self._viewers: set[Viewer] = set()
        self._closed = False

    def join(self, runs: frozenset[str]) -> Viewer:
        """Return a new viewer, or raise Full."""
        most = min(MOST_VIEWERS, max_connections() * 5 // 8)  # the others are for those who ask
        if len(self._viewers) >= most or self._closed:
            raise Full
        viewer = Viewer(runs)
        self._viewers.add(viewer)
        return viewer

    def leave(self, viewer: Viewer) -> None:
        """Forget a viewer."""
        self._viewers.discard(viewer)

    def viewed(self) -> set[str]:
        """Return the runs that somebody looks at."""
        return set().union(*(viewer.runs for viewer in self._viewers))

    def tell(self, messages: Messages) -> None:
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


class Messages(NamedTuple):
    """What everybody is told, and what those are told who look at a run."""

    to_all: Sequence[bytes]
    of_runs: dict[str, bytes]


def messages_of(changes: Changes) -> Messages:
    """Return what to tell of changes: what several are told is written once."""
    of_runs = {name: message("redraw", {"name": name}) for name in changes.again}
    for name, points in changes.points.items():
        said = message("points", {"name": name, **points})
        of_runs[name] = said if len(said) <= LONGEST else message("redraw", {"name": name})
    return Messages(_to_all(changes), of_runs)


def _to_all(changes: Changes) -> Sequence[bytes]:
    said = []
    if len(changes.rows) > ROWS:
        said.append(message("relist", {}))
    elif changes.rows or changes.gone:
        rows = {"rows": list(changes.rows.values()), "gone": changes.gone, "rev": changes.rev}
        said.append(message("rows", rows))
    if changes.studies is not None:
        said.append(message("studies", {"studies": changes.studies}))
    return said


def message(kind: str, data: Any) -> bytes:
    r"""Return one event as it goes over the line.

    Example:
        >>> message("rows", {"gone": ["a\nb"]})
        b'event: rows\ndata: {"gone":["a\\nb"]}\n\n'
    """
    return b"event: " + kind.encode() + b"\ndata: " + msgspec.json.encode(data) + b"\n\n"
