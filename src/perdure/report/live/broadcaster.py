"""Messages to the browser, and events for all open pages; each viewer has a bounded queue."""

from __future__ import annotations

import asyncio
from secrets import token_hex
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import msgspec

from .limits import max_connections

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from .list_row import ListRow, StudyProgress
    from .store_watcher import StoreChanges

__all__ = [
    "Broadcaster",
    "TooManyViewersError",
    "encode_changes",
    "encode_event",
]


class WorstScore(NamedTuple):
    """The worst score of a task since it was learned, and its score when it was learned."""

    step: int
    score: float
    learned: float | None


class CurvePoints(msgspec.Struct):
    """Points of a curve."""

    steps: list[int]
    scores: list[float]


class TaskPoints(msgspec.Struct):
    """Points of the curve of a task, its colour on light and dark ground, and its dashes."""

    name: str
    colour: str
    dark: str
    dash: str
    steps: list[int]
    scores: list[float]


class CurvesMessage(msgspec.Struct):
    """The curves of a run for the browser; `spans` and `worst` refer to tasks by their number."""

    restarts: int
    rows: int
    tasks_left_out: int
    tasks: list[TaskPoints]
    mean: CurvePoints
    spans: list[tuple[int, int, int]]
    worst: dict[int, WorstScore]


class NewPoints(msgspec.Struct):
    """The points of a run after its first `since` rows; `curves` are by number of the task."""

    restarts: int
    since: int
    rows: int
    curves: dict[int, CurvePoints]
    mean: CurvePoints
    spans: list[tuple[int, int, int]]
    worst: dict[int, WorstScore]


class Hello(msgspec.Struct):
    """The first event: which server it is, and the revision of its list."""

    kind: ClassVar[str] = "hello"
    id: str
    rev: int


class RowsChanged(msgspec.Struct):
    """Rows of the list that are new or different, and names of runs that are gone."""

    kind: ClassVar[str] = "rows"
    rows: list[ListRow]
    gone: list[str]
    rev: int


class StudiesChanged(msgspec.Struct):
    """The progress of all studies."""

    kind: ClassVar[str] = "studies"
    studies: list[StudyProgress]


class PointsAdded(msgspec.Struct):
    """New points of a run."""

    kind: ClassVar[str] = "points"
    name: str
    points: NewPoints


class CurvesChanged(msgspec.Struct):
    """The curves of a run must be fetched again."""

    kind: ClassVar[str] = "redraw"
    name: str


class ListChanged(msgspec.Struct):
    """The list must be fetched again."""

    kind: ClassVar[str] = "relist"


class EventsDropped(msgspec.Struct):
    """A viewer did not keep up: everything must be fetched again."""

    kind: ClassVar[str] = "again"


Event = (
    Hello | RowsChanged | StudiesChanged | PointsAdded | CurvesChanged | ListChanged | EventsDropped
)


MAX_VIEWERS = 500
MAX_PENDING = 32  # events of a viewer who does not keep up
MAX_PENDING_BYTES = 1 << 20  # of these events
MAX_POINTS_BYTES = 256 << 10  # larger events are replaced by a request to fetch the curves
MAX_CHANGED_ROWS = 500  # with more, the whole list is fetched
KEEPALIVE_SECONDS = 15.0


class TooManyViewersError(RuntimeError):
    """No further viewer is accepted."""


class Viewer:
    """An open page: the runs it shows, and the events that are still to be sent."""

    def __init__(self, runs: frozenset[str]) -> None:
        self.runs = runs
        self._pending: asyncio.Queue[bytes | None] = asyncio.Queue(MAX_PENDING)
        self._pending_bytes = 0

    def send(self, event: bytes | None) -> None:
        """Queue an event, None for the last; a full queue is replaced by EventsDropped."""
        if self._pending.full() or self._pending_bytes > MAX_PENDING_BYTES:
            while not self._pending.empty():
                self._pending.get_nowait()
            self._pending.put_nowait(encode_event(EventsDropped()))
            self._pending_bytes = 0
        self._pending.put_nowait(event)
        self._pending_bytes += len(event or b"")

    async def events(self) -> AsyncIterator[bytes]:
        """Yield events until the last, and a comment now and then if there are none."""
        while True:
            try:
                event = await asyncio.wait_for(self._pending.get(), KEEPALIVE_SECONDS)
            except TimeoutError:
                event = b": keep-alive\n\n"
            if event is None:
                return
            self._pending_bytes = max(self._pending_bytes - len(event), 0)
            yield event


class Broadcaster:
    """All viewers. `id` lets a page that reconnects notice that the server was restarted."""

    def __init__(self) -> None:
        self.id = token_hex(8)
        self._viewers: set[Viewer] = set()
        self._closed = False

    def join(self, runs: frozenset[str]) -> Viewer:
        """Return a new viewer, or raise TooManyViewersError."""
        most = min(MAX_VIEWERS, max_connections() * 5 // 8)  # the rest is for other requests
        if len(self._viewers) >= most or self._closed:
            raise TooManyViewersError
        viewer = Viewer(runs)
        self._viewers.add(viewer)
        return viewer

    def leave(self, viewer: Viewer) -> None:
        """Remove a viewer."""
        self._viewers.discard(viewer)

    def viewed_runs(self) -> set[str]:
        """Return the runs that any viewer shows."""
        return set().union(*(viewer.runs for viewer in self._viewers))

    def send(self, changes: EncodedChanges) -> None:
        """Send each viewer the changes that concern it."""
        for viewer in self._viewers:
            for event in changes.for_all:
                viewer.send(event)
            for name in viewer.runs & changes.by_run.keys():
                viewer.send(changes.by_run[name])

    def close(self) -> None:
        """End every connection."""
        self._closed = True
        for viewer in self._viewers:
            viewer.send(None)


class EncodedChanges(NamedTuple):
    """Events for all viewers, and events for the viewers of a run."""

    for_all: Sequence[bytes]
    by_run: dict[str, bytes]


def encode_changes(changes: StoreChanges) -> EncodedChanges:
    """Return changes as events, each encoded once for all viewers."""
    by_run = {name: encode_event(CurvesChanged(name)) for name in changes.redraw}
    for name, points in changes.points.items():
        event = encode_event(PointsAdded(name, points))
        if len(event) > MAX_POINTS_BYTES:
            event = encode_event(CurvesChanged(name))
        by_run[name] = event
    for_all: list[Event] = []
    if len(changes.rows) > MAX_CHANGED_ROWS:
        for_all.append(ListChanged())
    elif changes.rows or changes.gone:
        for_all.append(RowsChanged(list(changes.rows.values()), changes.gone, changes.rev))
    if changes.studies is not None:
        for_all.append(StudiesChanged(changes.studies))
    return EncodedChanges([encode_event(event) for event in for_all], by_run)


def encode_event(event: Event) -> bytes:
    r"""Return a server-sent event.

    Example:
        >>> encode_event(CurvesChanged("a\nb"))
        b'event: redraw\ndata: {"name":"a\\nb"}\n\n'
    """
    return f"event: {event.kind}\ndata: ".encode() + msgspec.json.encode(event) + b"\n\n"
