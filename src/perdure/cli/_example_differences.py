"""`perdure compare` of single runs: how they differ on the examples that both were tested on."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

from ..metrics import UndefinedMetricError, difference_of_runs
from ..record import InputError, read_input
from ..report.tables.example_differences import (
    ExampleComparison,
    describe_example_comparison,
    make_example_tables,
)
from ._output import print_lines, print_stderr, print_tables, print_wrapped

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..metrics import ScoreScale
    from ..record import ScoreInput
    from ..record.run_index import RunRef

__all__ = ["example_differences", "print_example_differences"]

MOST_RUNS = 5  # whose every two are compared: nobody reads the tables of more


def example_differences(
    runs: Mapping[str, Mapping[int | str, RunRef]], *, level: float
) -> list[ExampleComparison]:
    """Return the difference of every two methods, if each is one run folder and any has hits."""
    members = {name: list(mine.values()) for name, mine in runs.items()}
    single = all(len(mine) == 1 and Path(mine[0].path).is_dir() for mine in members.values())
    if not single or len(members) > MOST_RUNS:
        return []
    try:
        sources = {name: read_input(mine[0].path) for name, mine in members.items()}
    except InputError as error:  # of hits: everything else has been read before
        return [ExampleComparison(*pair, reason=str(error)) for pair in combinations(members, 2)]
    if not any(source.per_example_at_ends for source in sources.values()):
        return []
    return [
        _difference(first, second, sources, level) for first, second in combinations(sources, 2)
    ]


def _difference(
    first: str, second: str, sources: Mapping[str, ScoreInput], level: float
) -> ExampleComparison:
    found = ExampleComparison(first, second, level=level)
    try:
        for name in (first, second):
            if sources[name].matrix is None:
                raise UndefinedMetricError(f"{name} has no score matrix: {sources[name].no_matrix}")
            if not sources[name].per_example_at_ends:
                raise UndefinedMetricError(
                    f"{name} has no record of which examples were right at the ends of tasks"
                )
        one, other = sources[first], sources[second]
        assert one.matrix is not None
        found.difference = difference_of_runs(
            one.per_example_at_ends, other.per_example_at_ends, one.matrix.tasks, level=level
        )
    except UndefinedMetricError as reason:
        found.reason = str(reason)
    return found


def print_example_differences(
    every: Sequence[ExampleComparison],
    ids: Sequence[str],
    scale: ScoreScale,
    format_: str,
    *,
    percent: bool,
    digits: int,
    details: bool,
) -> None:
    """Print a table for every two runs and what it speaks about; JSON has them already."""
    if format_ == "json" or (format_ == "csv" and not details):
        return
    for found in every:
        grids = make_example_tables(
            found, ids, scale, percent=percent and format_ != "csv",
            digits=None if format_ == "csv" else digits + 2 * percent, per_task=details,
        )  # fmt: skip
        words = describe_example_comparison(found)
        if grids:
            print_lines()
        if format_ == "latex":
            for grid in grids:
                print_lines(f"% {grid.title}", *grid.latex().split("\n"))
            print_lines(f"% {words}")
        elif format_ == "csv":
            print_tables(grids, format_)
            print_stderr(f"note: {words}")
        else:
            print_tables(grids, format_)
            print_wrapped(f"- {words}" if format_ == "markdown" else words, "  ")
