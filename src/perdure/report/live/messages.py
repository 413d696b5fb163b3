"""Messages to the browser: the curves of a run, and events."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NamedTuple

import msgspec

if TYPE_CHECKING:
    from .list_row import ListRow
    from .studies import StudyProgress


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
