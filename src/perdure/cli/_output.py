"""What commands share: the flags they take, and everything that prints.

What is printed may quote files, which may be anybody's: it goes through `escape_line` here.
"""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from typing import TYPE_CHECKING, Any

from .._terminal_text import escape_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..report.tables import TextTable

__all__ = [
    "STDIN",
    "print_grids",
    "print_json",
    "print_notes",
    "print_wrapped",
    "say",
    "tell",
]

STDIN = "<stdin>"  # what a bare - becomes: the parser takes it for an option


def say(*lines: str) -> None:
    """Print each line as one line; a blank one if there is none."""
    print("\n".join(map(escape_line, lines)), flush=True)  # noqa: T201 - the only one


def tell(*lines: str, start: str = "perdure: ") -> None:
    """Write each line to standard error as one line."""
    sys.stderr.write("".join(f"{start}{escape_line(line)}\n" for line in lines))


def print_json(value: Any) -> None:
    """Print JSON, in which nothing drives a terminal."""
    text = json.dumps(value, allow_nan=False, indent=1, default=str)
    say(*text.replace("\x7f", "\\u007f").split("\n"))


def print_grids(grids: Sequence[TextTable], form: str) -> None:
    """Print tables in the form that was asked for, a blank line between them."""
    for k, grid in enumerate(grids):
        if k:
            say()
        if form == "text":
            grid.show(sys.stdout)
        else:
            say(*getattr(grid, form)().split("\n"))


def print_notes(notes: Sequence[str], form: str) -> None:
    """Print what a reader should know; beside a table for a paper it goes to standard error."""
    for note in notes if form != "json" else ():
        if form == "text":
            print_wrapped(f"note: {note}", "  ")
        else:
            tell(f"note: {note}")


def print_wrapped(line: str, indent: str) -> None:
    """Print a line, folded to a terminal's width and left whole in a pipe."""
    lines = [escape_line(line)]
    if sys.stdout.isatty():
        width = max(40, shutil.get_terminal_size().columns)
        lines = textwrap.wrap(lines[0], width, subsequent_indent=indent, break_on_hyphens=False)
    say(*lines)
