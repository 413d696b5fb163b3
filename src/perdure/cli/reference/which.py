"""`perdure which`: the definitions and tools that give a number."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from ...api.definitions import which_of_group
from ...api.grouped_scores import score_groups
from ...api.typed_number import TypedNumber
from ...record import InputError
from .._options import DEFAULT_FILE_OPTIONS, FileOptions, TextFormat
from .._output import (
    STDIN,
    print_json,
    print_lines,
    print_notes,
    print_tables,
    print_wrapped,
    render_options,
)
from .._task_options import DEFAULT_TASK_OPTIONS, TaskOptions
from .names import PathText

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...api.definitions import DefinitionMatches

__all__ = ["which"]

Typed = Annotated[str | None, Parameter("--value", metavar="NUMBER", allow_leading_hyphen=True)]


def which(
    *files: PathText,
    value: Typed = None,
    inputs: FileOptions = DEFAULT_FILE_OPTIONS,
    tasks: TaskOptions = DEFAULT_TASK_OPTIONS,
    format_: TextFormat = "text",
) -> int:
    """Print which definitions give a number for these scores, and which tools print it.

    `perdure which results.csv --value -0.33` compares every metric, and every number that other
    tools would print, with -0.33 within its rounding: from -0.335 to -0.325. A whole number, one
    above 1 and one with % are also read as percentages. Values of the other sign are shown as
    `negated`, near misses as `close`. Exits with code 1 if nothing matches, and then prints the
    three that are closest.

    Args:
        files: Score matrix, evaluation log (points.csv), run folder, or - for standard input;
            several are seeds of one method, whose means are compared. Runs are grouped by their
            config, with a table per method.
        value: The number, with as many digits as it is printed with.
        inputs: How to read the scores.
        tasks: What else is known about the tasks.
        format_: Output format.
    """
    if not files:
        raise InputError("no file; name a matrix, a points.csv, a run folder, or - (stdin)")
    if value is None:
        raise InputError("no number; add the one you are looking for, as in --value -0.33")
    number = TypedNumber.parse(value)
    options = tasks.add_to(inputs.make())
    paths = ["-" if file == STDIN else file for file in files]
    groups, notes = score_groups(*paths, inputs=options, stdin=sys.stdin.buffer)
    results = {name: which_of_group(group, number, options) for name, group in groups.items()}
    if format_ == "json":
        _print_json(results, notes)
    else:
        for k, (name, result) in enumerate(results.items()):
            if len(results) > 1:
                print_lines(*[""] * (k > 0), name, "")
            _print(result)
        print_notes(notes, format_)
    return 0 if any(result.found for result in results.values()) else 1


def _print(result: DefinitionMatches) -> None:
    print_tables([result.table()], "text")
    for line in result.describe():
        print_wrapped(line, "  ")
    print_notes(result.notes, "text")


def _print_json(results: Mapping[str, DefinitionMatches], notes: Sequence[str]) -> None:
    """Print a single method as it is, several under their names."""
    plain = {
        name: {**result.to_dict(), "notes": [*map(render_options, (*result.notes, *notes))]}
        for name, result in results.items()
    }
    print_json({"groups": plain} if len(plain) > 1 else next(iter(plain.values())))
