"""A study while it runs: how many runs are done, what runs now, the tables so far, time left."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from statistics import fmean
from typing import TYPE_CHECKING, Any

from .._terminal_text import escape_line
from ._output import print_stderr
from ._progress import live_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..execution import Job, ProgressEvent, RunEvent
    from ..report.tables import TextTable
    from ..studies import StudyStatus

__all__ = ["StudyView", "in_words"]

EVERY = 10  # seconds between two lines where there is no terminal
REDRAWN = 5  # seconds between two looks at the tables


class StudyView:
    """Shows a study on a terminal as it goes; elsewhere a line now and then, and each failure.

    Args:
        before: where the study was when it was started.
        max_parallel: how many run side by side.
        tables: returns the tables so far.
        show: False shows nothing.
    """

    def __init__(
        self,
        before: StudyStatus,
        max_parallel: int,
        tables: Callable[[], Sequence[TextTable]],
        *,
        show: bool,
    ) -> None:
        self._show, self._max_parallel, self._tables = show, max_parallel, tables
        self.ended: Counter[str] = Counter(done=before.finished)
        self._failed, self._later = set(before.failed), len(before.after_selection)
        self._waiting: dict[int, Job] = {}
        self._running: dict[int, tuple[Job, float, ProgressEvent]] = {}
        self._took: dict[str, list[float]] = {}  # seconds by kind of run
        self._line_at = self._tables_at = 0.0
        self._grids: Sequence[TextTable] = ()
        self._live: Any = None

    def __enter__(self) -> StudyView:
        if self._show and sys.stderr.isatty() and not os.environ.get("CI"):
            from rich.console import Console
            from rich.live import Live

            self._live = Live(console=Console(stderr=True), auto_refresh=False, transient=True)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def planned(self, jobs: Sequence[Job], later: int = 0) -> None:
        """Take a round of runs into account, and how many will follow it."""
        self._waiting |= {id(job): job for job in jobs}
        self._failed -= {job.folder for job in jobs}  # they are tried again
        self._later = later
        self._draw(force=True)

    def on_event(self, job: Job, event: RunEvent) -> None:
        """Take an event of a run into account."""
        from ..execution import ExitEvent, NoteEvent, ProgressEvent

        if id(job) in self._waiting and isinstance(event, ProgressEvent | ExitEvent):
            del self._waiting[id(job)]
            self._running[id(job)] = (job, time.monotonic(), ProgressEvent(0.0))
        if isinstance(event, ProgressEvent):
            self._running[id(job)] = (*self._running[id(job)][:2], event)
        if isinstance(event, ExitEvent) and id(job) in self._running:
            _, began, _ = self._running.pop(id(job))
            self.ended["failed" if job.error else "done"] += 1
            if not job.error:
                seconds = job.seconds or time.monotonic() - began
                self._took.setdefault(_kind(job), []).append(seconds)
            else:
                self._say(f"{job.folder.name} failed: {job.error}")
        if isinstance(event, NoteEvent):
            self._say(f"{job.folder.name}: {event.text}")
        self._draw(force=isinstance(event, ExitEvent))

    @property
    def left(self) -> float | None:
        """About how many seconds are left, None while nothing is known."""
        if not self._took:
            return None
        usual = fmean(fmean(each) for each in self._took.values())

        def of(job: Job) -> float:
            return fmean(self._took.get(_kind(job), [usual]))

        waiting = sum(of(job) for job in self._waiting.values())
        running = sum(of(job) * (1 - last.fraction) for job, _, last in self._running.values())
        return (waiting + running) / self._max_parallel

    def _status(self) -> str:
        done, running = self.ended["done"], len(self._running)
        failed = self.ended["failed"] + len(self._failed)
        waiting = len(self._waiting) + self._later
        parts = [f"{done} of {done + running + failed + waiting} runs done", f"{running} running"]
        parts += [f"{failed} failed"] if failed else []
        parts += [f"{waiting} waiting"] if waiting else []
        parts += [f"about {in_words(self.left)} left"] if self.left is not None else []
        return ", ".join(parts)

    def _draw(self, *, force: bool) -> None:
        now = time.monotonic()
        if self._live is None:
            if self._show and now - self._line_at >= EVERY:
                self._line_at = now
                self._say(self._status())
            return
        if force and now - self._tables_at >= REDRAWN:
            self._tables_at, self._grids = now, self._tables()
        lines = [self._status()]
        for job, _, last in self._running.values():
            text = f"  {last.fraction:>4.0%}  {job.folder.name}  {live_text(last)}"
            lines.append(escape_line(text))
        lines += ["", *(grid.text() + "\n" for grid in self._grids)]
        from rich.text import Text

        self._live.update(Text("\n".join(lines)), refresh=True)

    def _say(self, text: str) -> None:
        if self._live is not None:
            self._live.console.print(escape_line(text), markup=False, highlight=False)
        elif self._show:
            print_stderr(text)


def _kind(job: Job) -> str:
    what = job.config
    return f"{what.scenario} {what.setting} {what.model} {what.strategy}"


def in_words(seconds: float | None) -> str:
    """Return a time for people.

    Example:
        >>> in_words(42), in_words(125), in_words(7300), in_words(None)
        ('42 s', '2 min', '2.0 h', '?')
    """
    if seconds is None:
        return "?"
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
