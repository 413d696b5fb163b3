"""What commands share: the flags they take, and how tables and notes are printed."""

from __future__ import annotations

import shutil
import sys
import textwrap
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..report import Grid

__all__ = ["STDIN", "Flag", "form_of", "print_grids", "print_notes", "print_wrapped"]

STDIN = "<stdin>"  # what a bare - becomes: the parser takes it for an option
Flag = Annotated[bool, Parameter(negative="", show_default=False)]


def form_of(**asked: bool) -> str:
    """Return the one form that was asked for, `people` where none was."""
    chosen = [name for name, yes in asked.items() if yes]
    if len(chosen) > 1:
        raise ValueError(f"--{' and --'.join(chosen)} exclude each other; choose one")
    return chosen[0] if chosen else "people"


def print_grids(grids: Sequence[Grid], form: str) -> None:
    """Print tables in the form that was asked for, a blank line between them."""
    for k, grid in enumerate(grids):
        if k:
            print()
        if form == "people":
            grid.show(sys.stdout)
        else:
            print(getattr(grid, form)())


def print_notes(notes: Sequence[str], form: str) -> None:
    """Print what a reader should know; beside a table for a paper it goes to standard error."""
    for note in notes if form != "json" else ():
        if form == "people":
            print_wrapped(f"note: {note}", "  ")
        else:
            sys.stderr.write(f"perdure: note: {note}\n")


def print_wrapped(line: str, indent: str) -> None:
    """Print a line, folded to a terminal's width and left whole in a pipe."""
    if sys.stdout.isatty():
        width = max(40, shutil.get_terminal_size().columns)
        line = textwrap.fill(line, width, subsequent_indent=indent, break_on_hyphens=False)
    print(line)
