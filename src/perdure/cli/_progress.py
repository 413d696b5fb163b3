"""A bar a seed on a terminal; a line now and then elsewhere."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Any

from .._terminal_text import escape_line
from ._output import print_stderr

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..execution import Job, ProgressEvent, RunEvent

__all__ = ["SeedBars"]


class SeedBars:
    """Shows how far each seed is, its accuracy on the task it learns, its lowest, and time left.

    Args:
        jobs: the runs.
        show: False shows nothing.
    """

    def __init__(self, jobs: Sequence[Job], *, show: bool) -> None:
        self._bars: Any = None
        self._show = show
        self._quarter = dict.fromkeys((id(job) for job in jobs), 0)
        self._began = time.monotonic()
        if show and sys.stderr.isatty() and not os.environ.get("CI"):
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

            self._bars = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                TextColumn("{task.percentage:>3.0f}%"),
                TextColumn("{task.fields[live]}", markup=False),
                TimeRemainingColumn(),
                console=Console(stderr=True),
            )
            self._rows = {
                id(job): self._bars.add_task(
                    f"seed {job.config.seed}", total=1.0, live="waiting", start=False
                )
                for job in jobs
            }

    def __enter__(self) -> SeedBars:
        if self._bars is not None:
            self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bars is not None:
            self._bars.stop()

    def on_event(self, job: Job, event: RunEvent) -> None:
        """Show an event of a run."""
        from ..execution import NoteEvent, ProgressEvent

        if isinstance(event, NoteEvent):
            self._line(f"seed {job.config.seed}: {event.text}")
        if not isinstance(event, ProgressEvent):
            return
        if self._bars is not None:
            row = self._rows[id(job)]
            self._bars.start_task(row)
            self._bars.update(row, completed=event.fraction, live=live_text(event))
        elif int(4 * event.fraction) > self._quarter[id(job)]:
            self._quarter[id(job)] = int(4 * event.fraction)
            seconds = time.monotonic() - self._began
            done = f"{event.fraction:.0%} after {seconds:.0f} s"
            parts = [done, live_text(event)] if live_text(event) else [done]
            self._line(f"seed {job.config.seed}: {', '.join(parts)}")

    def _line(self, text: str) -> None:
        if self._bars is not None:
            self._bars.console.print(escape_line(text), markup=False, highlight=False)
        elif self._show:
            print_stderr(text)


def live_text(event: ProgressEvent) -> str:
    """Return the live numbers of a run as text.

    Example:
        >>> from perdure.execution import ProgressEvent
        >>> live_text(ProgressEvent(0.5, task="4-5", current_accuracy=0.98))
        'learning 4-5: 0.980'
    """
    parts = []
    if event.current_accuracy is not None:
        parts.append(f"learning {event.task}: {event.current_accuracy:.3f}")
    if event.min_acc is not None:
        parts.append(f"min_acc {event.min_acc:.3f}")
    return escape_line("  ".join(parts))
