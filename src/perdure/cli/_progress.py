"""Progress of runs and studies: live on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from statistics import fmean
from typing import TYPE_CHECKING

from .._display import count_of, escape_line
from ..api.recorded_runs import note_interrupt
from ..record.group_names import count_replicates
from ._output import print_stderr, render_options

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.console import Console
    from rich.live import Live
    from rich.progress import Progress, TaskID

    from ..api.runs import RunPlan
    from ..execution import Job, ProgressEvent, RunEvent
    from ..report.tables import TextTable
    from ..studies import StudyStatus

__all__ = ["SeedProgressView", "StudyProgressView", "format_seconds"]

STATUS_SECONDS = 10  # between two status lines of a study without a terminal
TABLE_SECONDS = 5  # between two computations of a study's tables


class SeedProgressView:
    """Shows the progress of each seed, its accuracy on the current task, and the time left.

    Args:
        show: False shows nothing.
    """

    def __init__(self, *, show: bool) -> None:
        self._show = show
        self._progress: Progress | None = None
        self._bars: dict[int, TaskID] = {}
        self._quarters: Counter[int] = Counter()  # by job, as last printed
        self._start = time.monotonic()
        self._jobs: Sequence[Job] = ()

    def __enter__(self) -> SeedProgressView:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._progress is not None:
            self._progress.stop()
        if kind is KeyboardInterrupt and self._jobs:
            print_stderr(*note_interrupt(self._jobs))

    def on_plan(self, plan: RunPlan) -> None:
        """Show what will be done."""
        self._jobs = plan.waiting
        if self._show:
            print_stderr(*plan.notes)
        if self._show and plan.waiting and _is_interactive():
            self._add_bars(plan.waiting)
        elif self._show and plan.waiting:
            config = plan.waiting[0].config
            seeds = count_replicates(job.config.order_and_seed for job in plan.waiting)
            print_stderr(f"training {config.strategy} on {config.scenario}, {seeds}")

    def on_event(self, job: Job, event: RunEvent) -> None:
        """Show an event of a run."""
        from ..execution import NoteEvent, ProgressEvent

        if isinstance(event, NoteEvent):
            self._print(f"{job.config.replicate}: {event.text}")
        if not isinstance(event, ProgressEvent):
            return
        quarter = int(4 * event.fraction)
        if self._progress is not None:
            bar = self._bars[id(job)]
            self._progress.start_task(bar)
            self._progress.update(bar, completed=event.fraction, live=_live_text(event))
        elif quarter > self._quarters[id(job)]:
            self._quarters[id(job)] = quarter
            seconds = time.monotonic() - self._start
            parts = [f"{event.fraction:.0%} after {seconds:.0f} s", _live_text(event)]
            self._print(f"{job.config.replicate}: {', '.join(filter(None, parts))}")

    def _add_bars(self, jobs: Sequence[Job]) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%"),
            TextColumn("{task.fields[live]}", markup=False),
            TimeRemainingColumn(),
            console=Console(stderr=True),
        )
        for job in jobs:
            self._bars[id(job)] = self._progress.add_task(
                f"{job.config.replicate}", total=1.0, live="waiting for its turn", start=False
            )
        self._progress.start()

    def _print(self, text: str) -> None:
        if self._show:
            _print_above(self._progress.console if self._progress is not None else None, text)


class StudyProgressView:
    """Shows the counts of a study's runs, the running ones, the tables so far and the time left.

    Args:
        before: The status of the study when it was started.
        max_parallel: Number of runs in parallel.
        make_tables: Returns the tables so far.
        show: False shows nothing.
    """

    def __init__(
        self,
        before: StudyStatus,
        max_parallel: int,
        make_tables: Callable[[], Sequence[TextTable]],
        *,
        show: bool,
    ) -> None:
        self._show, self._max_parallel, self._make_tables = show, max_parallel, make_tables
        self.ended: Counter[str] = Counter(done=before.finished)
        self._failed, self._later = set(before.failed), len(before.after_selection)
        self._waiting: dict[int, Job] = {}
        self._running: dict[int, tuple[Job, float, ProgressEvent]] = {}
        self._seconds: dict[str, list[float]] = {}  # of finished runs by kind
        self._last_status = self._last_tables = 0.0
        self._tables: Sequence[TextTable] = ()
        self._live: Live | None = None

    def __enter__(self) -> StudyProgressView:
        if self._show and _is_interactive():
            from rich.console import Console
            from rich.live import Live

            self._live = Live(console=Console(stderr=True), auto_refresh=False, transient=True)
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._live is not None:
            self._live.stop()
        if kind is KeyboardInterrupt:
            print_stderr(
                f"interrupted; {count_of(self.ended['done'], 'run')} finished. The same command "
                "resumes the study, unfinished runs from their last checkpoints if they have one"
            )

    def on_round(self, jobs: Sequence[Job], later: int = 0) -> None:
        """Take a round of runs into account, and how many runs will follow it."""
        self._waiting |= {id(job): job for job in jobs}
        self._failed -= {job.folder for job in jobs}  # they are tried again
        self._later = later
        self._draw(update_tables=True)

    def on_event(self, job: Job, event: RunEvent) -> None:
        """Take an event of a run into account."""
        from ..execution import ExitEvent, NoteEvent, ProgressEvent

        if id(job) in self._waiting and isinstance(event, ProgressEvent | ExitEvent):
            del self._waiting[id(job)]
            self._running[id(job)] = (job, time.monotonic(), ProgressEvent(0.0))
        if isinstance(event, ProgressEvent):
            self._running[id(job)] = (*self._running[id(job)][:2], event)
        if isinstance(event, ExitEvent) and id(job) in self._running:
            _, start, _ = self._running.pop(id(job))
            self.ended["failed" if job.error else "done"] += 1
            if not job.error:
                seconds = job.seconds or time.monotonic() - start
                self._seconds.setdefault(_kind(job), []).append(seconds)
            else:
                self._print(f"{job.folder.name} failed: {job.error}")
        if isinstance(event, NoteEvent):
            self._print(f"{job.folder.name}: {event.text}")
        self._draw(update_tables=isinstance(event, ExitEvent))

    @property
    def seconds_left(self) -> float | None:
        """Estimated seconds until the study is finished; None while no run has finished."""
        if not self._seconds:
            return None
        mean = fmean(fmean(seconds) for seconds in self._seconds.values())

        def estimate(job: Job) -> float:
            return fmean(self._seconds.get(_kind(job), [mean]))

        waiting = sum(estimate(job) for job in self._waiting.values())
        running = sum(
            estimate(job) * (1 - last.fraction) for job, _, last in self._running.values()
        )
        return (waiting + running) / self._max_parallel

    def _status(self) -> str:
        done, running = self.ended["done"], len(self._running)
        failed = self.ended["failed"] + len(self._failed)
        waiting = len(self._waiting) + self._later
        parts = [f"{done} of {done + running + failed + waiting} runs done", f"{running} running"]
        parts += [f"{failed} failed"] if failed else []
        parts += [f"{waiting} waiting"] if waiting else []
        left = self.seconds_left
        parts += [f"about {format_seconds(left)} left"] if left is not None else []
        return ", ".join(parts)

    def _draw(self, *, update_tables: bool) -> None:
        now = time.monotonic()
        if self._live is None:
            if self._show and now - self._last_status >= STATUS_SECONDS:
                self._last_status = now
                self._print(self._status())
            return
        if update_tables and now - self._last_tables >= TABLE_SECONDS:
            self._last_tables, self._tables = now, self._make_tables()
        lines = [self._status()]
        for job, _, last in self._running.values():
            text = f"  {last.fraction:>4.0%}  {job.folder.name}  {_live_text(last)}"
            lines.append(escape_line(text))
        from rich.console import Group
        from rich.text import Text

        from ..report.tables.text_table import render_table

        width = self._live.console.width
        tables = [part for table in self._tables for part in ("", render_table(table, width))]
        self._live.update(Group(Text("\n".join(lines)), *tables), refresh=True)

    def _print(self, text: str) -> None:
        if self._show:
            _print_above(self._live.console if self._live is not None else None, text)


def _is_interactive() -> bool:
    return sys.stderr.isatty() and not os.environ.get("CI")


def _print_above(console: Console | None, text: str) -> None:
    """Print a line above what is live on a terminal, or on standard error."""
    if console is None:
        print_stderr(text)
    else:
        console.print(escape_line(render_options(text)), markup=False, highlight=False)


def _live_text(event: ProgressEvent) -> str:
    """Return the live numbers of a run as text.

    Example:
        >>> from perdure.execution import ProgressEvent
        >>> _live_text(ProgressEvent(0.5, task="4-5", current_accuracy=0.98))
        'learning 4-5, accuracy 0.980'
    """
    if event.fraction == 0 and event.current_accuracy is None:
        return "loading PyTorch and the data"
    parts = []
    if event.current_accuracy is not None:
        parts.append(f"learning {event.task}, accuracy {event.current_accuracy:.3f}")
    if event.min_acc is not None:
        parts.append(f"min_acc {event.min_acc:.3f}")
    return escape_line("  ".join(parts))


def _kind(job: Job) -> str:
    config = job.config
    return f"{config.scenario} {config.setting} {config.model} {config.strategy}"


def format_seconds(seconds: float | None) -> str:
    """Return a duration as text.

    Example:
        >>> format_seconds(42), format_seconds(125), format_seconds(7300), format_seconds(None)
        ('42 s', '2 min', '2.0 h', '?')
    """
    if seconds is None:
        return "?"
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
