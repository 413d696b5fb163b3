"""`perdure flips`: which examples a run has lost, when, and whether they came back."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from ...api.checks import flips as find_flips
from ...report.tables.verdict import make_flip_tables
from .._options import TableFormat, check_paths
from .._output import print_json, print_lines, print_notes, print_tables
from ..reference.names import PathText

__all__ = ["flips"]


def flips(
    run: PathText,
    *,
    against: Annotated[str | None, Parameter(metavar="PATH")] = None,
    all_examples: Annotated[bool, Parameter(("--all",), negative="", show_default=False)] = False,
    format_: TableFormat = "text",
) -> None:
    """Print which examples were lost, when, and whether they came back.

    Per task: how many examples were right first and wrong last (lost), wrong first and right last
    (gained), lost in between and right last (came back), and McNemar's exact test of lost against
    gained. Below, the lost examples by their id.

    Args:
        run: Run folder with per-example results.
        against: Earlier run, or file of `perdure freeze`, on the same examples. By default the run
            is compared with itself when each task was learned.
        all_examples: Print every lost example, not only the first 20 of each task.
        format_: Output format. JSON has every example.
    """
    check_paths([run, *([against] if against else ())])
    result = find_flips(run, against)
    if format_ == "json":
        print_json(result.to_dict())
        return
    everything = all_examples or format_ == "csv"
    if format_ == "text":
        since = f"against {result.against}" if result.against else "since each task was learned"
        print_lines(f"{result.run}: examples lost {since}", "")
    print_tables(make_flip_tables(result, all_examples=everything), format_)
    print_notes(result.notes, format_)
