"""One line in the terminal while training goes on; nothing in pipes and in CI."""

from __future__ import annotations

import os
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .live import Live

__all__ = ["Progress", "line_of"]

REFRESH = 0.2  # seconds


class Progress:
    """Shows the live numbers, at most five times a second.

    Args:
        wanted: True or False to insist; None shows it on a terminal that is not a CI machine's.
    """

    def __init__(self, wanted: bool | None) -> None:
        if wanted is None:
            wanted = sys.stderr.isatty() and not os.environ.get("CI")
        self._display: Any = None
        self._next = 0.0
        self._started = time.monotonic()
        if wanted:
            from rich.console import Console
            from rich.live import Live as Display
            from rich.text import Text

            self._text = partial(Text, no_wrap=True, overflow="ellipsis")  # no markup in names
            console = Console(stderr=True, force_terminal=True)
            self._display = Display(
                console=console,
                auto_refresh=False,
                transient=True,
                redirect_stdout=sys.stdout.isatty(),  # never takes what goes to a file
                redirect_stderr=False,
            )
            self._display.start()
            console.show_cursor(show=True)  # a killed program leaves it as it is

    def show(self, step: int, live: Live) -> None:
        """Show where training is, if it is time to."""
        if self._display is None or time.monotonic() < self._next:
            return
        self._next = time.monotonic() + REFRESH
        rate = step / max(time.monotonic() - self._started, 1e-9)
        self._display.update(self._text(line_of(step, rate, live)), refresh=True)

    def close(self) -> None:
        """Leave the terminal as it was."""
        if self._display is not None:
            self._display.stop()
            self._display = None


def line_of(step: int, rate: float, live: Live) -> str:
    """Return the line that is shown, other scores than accuracies in words of their own."""
    parts = [f"step {step:,}", f"{rate:.3g} steps/s"]
    if live.task is not None:
        parts.append(f"learning {live.task}")
    ids = ("current", "min_acc", "wc_acc", *(f"wf{w}" for w in live.windows[:1]))
    name, worst = live.scale.label, live.scale.worst
    words = {"current": name, "min_acc": f"{worst} since learned", "wc_acc": "worst case"}
    for id_ in ids:
        value = live[id_]
        if value is not None:
            parts.append(f"{id_ if name == 'accuracy' else words.get(id_, id_)} {value:.3f}")
    return "  ".join(parts)
