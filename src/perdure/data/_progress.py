"""A progress bar on the terminal for operations that take longer than a second."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["progress_bar"]

DELAY_SECONDS = 1.0  # before the bar appears


@contextmanager
def progress_bar(
    title: str, total: int, *, show: bool | None, unit: str = "images"
) -> Iterator[Callable[[int], None]]:
    """Yield a function to call with the progress made; None shows the bar on a terminal only."""
    if not (sys.stderr.isatty() if show is None else show):
        yield lambda _: None
        return
    from rich import progress
    from rich.console import Console

    count = progress.DownloadColumn() if unit == "bytes" else progress.MofNCompleteColumn()
    description = progress.TextColumn("{task.description}", markup=False)
    columns = (description, progress.BarColumn(), count, progress.TimeRemainingColumn())
    bar = progress.Progress(*columns, console=Console(file=sys.stderr))
    task = bar.add_task(title, total=total)
    start, running = time.monotonic(), False

    def advance(by: int) -> None:
        nonlocal running
        bar.advance(task, by)
        if not running and time.monotonic() - start > DELAY_SECONDS:
            bar.start()
            running = True

    try:
        yield advance
    finally:
        if running:
            bar.stop()
