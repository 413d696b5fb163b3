"""`perdure which`: the definitions and tools that give a number."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Annotated, Literal

from cyclopts import Parameter

from ...api.definitions import read_one_method, which_of_group
from ...api.typed_number import TypedNumber
from ...record import InputError
from .._options import DEFAULT_FILE_OPTIONS, FileOptions, TextFormat, Values
from .._output import STDIN, print_json, print_notes, print_tables, print_wrapped, render_options
from .names import PathText

__all__ = ["which"]

Typed = Annotated[str, Parameter("--value", metavar="NUMBER", allow_leading_hyphen=True)]


def which(
    *files: PathText,
    value: Typed,
    inputs: FileOptions = DEFAULT_FILE_OPTIONS,
    classes: Values | None = None,
    setting: Literal["class", "task", "domain"] | None = None,
    initial: Values | None = None,
    joint: Values | None = None,
    single: Values | None = None,
    sizes: Values | None = None,
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
            several are seeds of one method, whose means are compared.
        value: The number, with as many digits as it is printed with.
        inputs: How to read the scores.
        classes: Number of classes that each task introduces, as in 2,2,2.
        setting: Continual learning setting: class-, task- or domain-incremental.
        initial: Scores of the untrained model, one per task.
        joint: Scores of a model trained on all tasks at once, one per task.
        single: Scores of models trained on a single task each, one per task.
        sizes: Number of test examples per task.
        format_: Output format.
    """
    if not files:
        raise InputError("no file; name a matrix, a points.csv, a run folder, or - (stdin)")
    number = TypedNumber.parse(value)
    options = replace(
        inputs.make(),
        setting=setting, classes=classes, sizes=sizes, initial=initial, joint=joint, single=single,
    )  # fmt: skip
    paths = ["-" if file == STDIN else file for file in files]
    group = read_one_method(paths, options, sys.stdin.buffer)
    result = which_of_group(group, number, options)
    if format_ == "json":
        print_json({**result.to_dict(), "notes": [render_options(note) for note in result.notes]})
    else:
        print_tables([result.table()], format_)
        for line in result.describe():
            print_wrapped(line, "  ")
        print_notes(result.notes, format_)
    return 0 if result.found else 1
