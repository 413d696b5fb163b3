"""Everything that the commands print.

What is printed may quote files from anywhere, so every line goes through `escape_line`. Code below
`cli/` names Python arguments in backticks, `restart=True`; here they become options, --restart.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import textwrap
from contextlib import contextmanager
from threading import Timer
from typing import TYPE_CHECKING

from .._display import escape_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..metrics import RunsSummary, Summary
    from ..report.tables import ComparisonReport, TextTable
    from . import Command

__all__ = [
    "NEEDS_BOOKTABS",
    "STDIN",
    "announce_waiting",
    "print_json",
    "print_lines",
    "print_notes",
    "print_section",
    "print_stderr",
    "print_tables",
    "print_wrapped",
    "render_all",
    "render_options",
    "running_command",
]

NEEDS_BOOKTABS = r"% needs \usepackage{booktabs}"
STDIN = "<stdin>"  # stands for a bare -, which the parser would take for an option
_HYPERPARAMETER = re.compile(r"`settings=\{['\"]([\w.]+)['\"]: ([^`{}]*)\}`")
_ARGUMENT = re.compile(r"`([a-z][a-z0-9_]*)=([^`=\s]*)`")


_running: Command | None = None  # whose options messages may name; None for any


@contextmanager
def running_command(command: Command) -> Iterator[None]:
    """Render messages inside for a command, which may lack the option that others have."""
    global _running
    before, _running = _running, command
    try:
        yield
    finally:
        _running = before


FIRST_LINE_SECONDS = 1.5
_waiting: Timer | None = None  # prints a line unless something else is printed before


@contextmanager
def announce_waiting(command: str) -> Iterator[None]:
    """Print a line on standard error if nothing has been printed for a while.

    A command that prints nothing for seconds looks as if it hung, in a pipe too. PERDURE_QUIET
    turns the line off.
    """
    global _waiting
    text = f"{command} is running; its output will follow"
    _waiting = Timer(FIRST_LINE_SECONDS, print_stderr, [text])
    _waiting.daemon = True
    if not os.environ.get("PERDURE_QUIET"):
        _waiting.start()
    try:
        yield
    finally:
        _waiting.cancel()


def _stop_waiting() -> None:
    if _waiting is not None:
        _waiting.cancel()


def render_options(message: str) -> str:
    """Return a message in which Python arguments are written as command-line options.

    Example:
        >>> render_options("Use `restart=True` to start over, or a smaller `every=`.")
        'Use --restart to start over, or a smaller --every.'
        >>> render_options("try `settings={'lr': …}`, `device='cpu'` or `per_example=False`")
        'try --set lr=…, --device cpu or --no-per-example'
    """
    message = _HYPERPARAMETER.sub(lambda m: _option("set", f"{m[1]}={_unquote(m[2])}"), message)
    return _ARGUMENT.sub(lambda m: _option(m[1], _unquote(m[2])), message)


def _option(argument: str, value: str) -> str:
    name = argument.rstrip("_").replace("_", "-")
    option = f"--no-{name}" if value == "False" else f"--{name}"
    shown = option if value in ("", "…", "True", "False") else f"{option} {value}"
    if _running is None or option in _running.options:
        return shown
    owner = _running.owner(option)
    if _running.is_study and owner == "perdure run":
        setting = value if argument == "set" else f"{argument} = {value or '…'}"
        return f"{setting} in the study file"
    return shown if owner is None else f"{shown} of `{owner}`"


def _unquote(value: str) -> str:
    return value.strip("'\"")


def render_all(result: Summary | RunsSummary | ComparisonReport) -> None:
    """Write the arguments in the notes and reasons of a result and of its runs as options."""
    runs = getattr(result, "runs", None)
    for run in runs if isinstance(runs, list) else ():
        render_all(run)
    result.notes = [render_options(note) for note in result.notes]
    result.undefined = {id_: render_options(reason) for id_, reason in result.undefined.items()}


def print_lines(*lines: str) -> None:
    """Print each argument as one line, or a blank line if there is none."""
    _stop_waiting()
    print("\n".join(map(escape_line, lines)), flush=True)  # noqa: T201 - the only one


def print_stderr(*lines: str, prefix: str = "perdure: ") -> None:
    """Print each argument as one line on standard error."""
    _stop_waiting()
    sys.stderr.write("".join(f"{prefix}{escape_line(render_options(line))}\n" for line in lines))


def print_json(value: object) -> None:
    """Print a value as JSON, without control characters that a terminal would obey."""
    text = json.dumps(value, allow_nan=False, indent=1, default=str)
    print_lines(*text.replace("\x7f", "\\u007f").split("\n"))


def print_tables(tables: Sequence[TextTable], format_: str, *, ids: bool = False) -> None:
    """Print tables in a format, separated by blank lines; LaTeX with symbols unless `ids`."""
    _stop_waiting()
    for k, table in enumerate(tables):
        if k:
            print_lines()
        if format_ == "text":
            table.show(sys.stdout)
        elif format_ == "latex":
            print_lines(*table.latex(symbols=not ids).split("\n"))
        else:
            print_lines(*getattr(table, format_)().split("\n"))


def print_notes(notes: Sequence[str], format_: str) -> None:
    """Print notes below a text table, or on standard error next to a table for a paper."""
    for note in notes if format_ != "json" else ():
        if format_ == "text":
            print_wrapped(f"note: {note}", "  ")
        else:
            print_stderr(f"note: {note}")


def print_section(heading: str, lines: Sequence[str], format_: str) -> None:
    """Print a heading, its lines, and a blank line."""
    print_wrapped(heading, "  ", format_)
    for line in lines:
        print_wrapped(line, "    ", format_)
    print_lines()


def print_wrapped(line: str, indent: str, format_: str = "text") -> None:
    """Print a line, wrapped to the width of a terminal, and left whole in a pipe or in Markdown."""
    lines = [escape_line(render_options(line))]
    if sys.stdout.isatty() and format_ == "text":
        width = max(40, shutil.get_terminal_size().columns)
        lines = textwrap.wrap(lines[0], width, subsequent_indent=indent, break_on_hyphens=False)
    print_lines(*lines)
