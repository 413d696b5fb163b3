"""A progress bar on a terminal, for what takes longer than a second."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["bar"]

PATIENCE = 1.0  # seconds without a bar


@contextmanager
def bar(
    what: str, total: int, *, shown: bool | None, unit: str = "images"
) -> Iterator[Callable[[int], None]]:
    """Give a function to call with how much was done; shown: None means on a terminal only."""
    if not (sys.stderr.isatty() if shown is None else shown):
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeRemainingColumn as Left

    count = DownloadColumn() if unit == "bytes" else MofNCompleteColumn()
    console = Console(file=sys.stderr)
    line = Progress(
        TextColumn("{task.description}", markup=False), BarColumn(), count, Left(), console=console
    )
    task = line.add_task(what, total=total)
    began, running = time.monotonic(), False

    def advance(by: int) -> None:
        nonlocal running
        line.advance(task, by)
        if not running and time.monotonic() - began > PATIENCE:
            line.start()
            running = True

    try:
        yield advance
    finally:
        if running:
            line.stop()
