"""`perdure score`: every metric of a file, a run, or several seeds."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from ..api.grouped_scores import score_groups, tool_rows
from ..api.options import make_options
from ..record import InputError
from ..report.load import check_percent
from ..report.tables import make_score_tables, make_tool_table
from ..report.tables.scores import group_reasons, merge_reasons, stack_tables
from ._option_groups import DEFAULT_FILE_OPTIONS, DEFAULT_TASK_OPTIONS, FileOptions, TaskOptions
from ._options import (
    Flag,
    MetricIds,
    NonNegativeInt,
    PathText,
    PositiveInt,
    TableFormat,
    ToolName,
    Weights,
    Windows,
)
from ._output import (
    NEEDS_BOOKTABS,
    STDIN,
    print_json,
    print_lines,
    print_notes,
    print_stderr,
    print_tables,
    print_wrapped,
    render_all,
    render_options,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ..api.grouped_scores import ScoreGroup
    from ..report.tables import TextTable

__all__ = ["score"]

Paths = Annotated[list[Path] | None, Parameter(negative="")]


def score(
    *files: PathText,
    metrics: MetricIds | None = None,
    as_: Annotated[ToolName | None, Parameter("--as", metavar="TOOL")] = None,
    per_task: Flag = False,
    format_: TableFormat = "text",
    ids: Flag = False,
    pool: Flag = False,
    inputs: FileOptions = DEFAULT_FILE_OPTIONS,
    tasks: TaskOptions = DEFAULT_TASK_OPTIONS,
    costs: Paths = None,
    per_example: Paths = None,
    weights: Weights | None = None,
    epsilon: float = 1.0,
    window: Windows = (10, 100, None),
    subsample: PositiveInt = 1,
    beta: NonNegativeInt = 10,
    interval: Literal["t", "bca"] = "t",
) -> int:
    """Print every metric that the scores support and, for the others, why they are undefined.

    Several matrices or logs are seeds of one method; their mean, standard deviation and interval
    are printed. A file may hold several matrices: an array (seeds, T, T), or methods by name. Run
    folders are grouped by their config, with a table per group: runs that differ only in the seed
    are seeds of one method. `er=runs/a-* ewc=runs/b-*` names the groups.

    Args:
        files: Score matrix (CSV, TSV, JSON, NPY or NPZ; row i is measured after learning task i),
            long table (trained,tested,score), evaluation log (points.csv), run folder, folder of
            runs, or - for standard input. docs/formats.md shows every form.
        metrics: Print only these metrics: ids, or a pattern such as 'forgetting.*'. Exits with code
            1 if one that is named is undefined, or all that match a pattern.
        as_: Print what another tool or paper would print, such as `avalanche` or `mammoth`; see
            `perdure list tools`.
        per_task: Also print the values per task and the values after each task.
        format_: Output format. LaTeX tables use booktabs and the symbols of metrics.
        ids: In LaTeX, print the ids of metrics instead of their symbols.
        pool: Average runs that differ in more than the seed.
        inputs: How to read and show the scores.
        tasks: What else is known about the tasks.
        costs: File costs.csv of a run. Repeat the option for each scored file.
        per_example: Folder with per-example results. Repeat the option for each scored file.
        weights: Weights of the criteria in the CLscore (clscore), such as A=.4,REM=.6, by id or by
            the names of Díaz-Rodríguez et al. 2018.
        epsilon: The factor epsilon in computational efficiency (ce).
        window: Window sizes, in evaluations, of windowed forgetting (wf) and plasticity (wp).
        subsample: Use only every INT-th evaluation of a points.csv.
        beta: Number of batches per task in the learning curve area (lca).
        interval: Confidence interval over seeds: Student's t, or the BCa bootstrap.
    """
    if not files:
        raise InputError(
            "no file to score; name a matrix, a points.csv, a run folder, or - (stdin)"
        )
    if metrics and as_ is not None:
        raise InputError("--metrics and --as exclude each other; choose one")
    options = make_options(metrics, window=window, beta=beta, epsilon=epsilon, weights=weights)
    options = replace(options, curves=per_task or format_ == "json")
    input_options = replace(tasks.add_to(inputs.make()), subsample=subsample)
    groups, notes = score_groups(
        *("-" if file == STDIN else file for file in files), metrics=metrics, inputs=input_options,
        options=options, interval=interval, pool=pool, costs=costs or (),
        per_example=per_example or (), stdin=sys.stdin.buffer,
    )  # fmt: skip
    for group in groups.values():
        render_all(group.summary)
        if inputs.percent and group.refs[0].ours:
            check_percent(group.summaries[0].scale, group.refs[0].path)
    percent = inputs.percent and format_ != "csv"
    if as_ is not None:
        _print_as(groups, as_, format_, notes, percent=percent)
        return 0
    _print_scores(groups, format_, notes, percent=percent, per_task=per_task, ids=ids)
    return _report_missing(groups, metrics, format_)


def _report_missing(
    groups: Mapping[str, ScoreGroup], metrics: MetricIds | None, format_: str
) -> int:
    """Return 1 if a metric that was asked for is undefined; next to a paper's table, say why."""
    code = 0
    for name, group in groups.items():
        missing = metrics.missing(group.summary.metrics) if metrics else []
        code = 1 if missing else code
        if missing and format_ in ("markdown", "latex", "csv"):
            prefix = f"{name}: " if len(groups) > 1 else ""
            for line in group_reasons({id_: group.summary.undefined[id_] for id_ in missing}):
                print_stderr(f"undefined: {prefix}{line}")
    return code


def _print_scores(
    groups: Mapping[str, ScoreGroup],
    format_: str,
    notes: Sequence[str],
    *,
    percent: bool,
    per_task: bool,
    ids: bool,
) -> None:
    """Print a single group as it is, several under their names."""
    if format_ == "json":
        plain = {name: group.summary.to_dict() for name, group in groups.items()}
        if len(plain) > 1:
            print_json({"groups": plain, "notes": notes})
        else:
            (group,) = groups.values()
            print_json(group.summary.to_dict() | {"notes": [*group.summary.notes, *notes]})
        return
    digits = None if format_ == "csv" else 4
    tables = {
        name: make_score_tables(
            group.summary,
            percent=percent,
            per_task=per_task,
            digits=digits,
            grouped=format_ == "text",
        )
        for name, group in groups.items()
    }
    own = [group.summary.notes for group in groups.values()]
    common = [note for note in own[0] if len(own) > 1 and all(note in other for other in own)]
    for name in _print_groups(tables, format_, ids=ids):
        prefix = f"{name}: " if len(groups) > 1 and format_ != "text" else ""
        mine = [prefix + note for note in groups[name].summary.notes if note not in common]
        if len(groups) == 1:
            _print_undefined(groups, format_)
        print_notes(mine, format_)
    if len(groups) > 1:
        _print_undefined(groups, format_)
        if format_ == "text" and (common or notes):
            print_lines()
    print_notes([*common, *notes], format_)


def _print_undefined(groups: Mapping[str, ScoreGroup], format_: str) -> None:
    undefined = {name: group.summary.undefined for name, group in groups.items()}
    if format_ == "text" and (lines := merge_reasons(undefined)):
        print_lines("", "undefined")
        for line in lines:
            print_wrapped(f"  {line}", "    ")


def _print_groups(
    tables: Mapping[str, list[TextTable]], format_: str, *, ids: bool = False
) -> Iterator[str]:
    """Print the tables of each group under its name, and yield the name after them."""
    if format_ == "csv":
        print_tables(_stack(tables), format_)
        yield from tables
        return
    heading = {"markdown": "### ", "latex": "% "}.get(format_, "")
    if format_ == "latex":
        print_lines(NEEDS_BOOKTABS)
    for k, (name, group_tables) in enumerate(tables.items()):
        if len(tables) > 1:
            print_lines(*[""] * (k > 0), heading + name, *[""] * (format_ != "latex"))
        print_tables(group_tables, format_, ids=ids)
        yield name


def _stack(tables: Mapping[str, list[TextTable]]) -> list[TextTable]:
    """Return each table once for all groups, with the names of the groups in its first column."""
    if len(tables) == 1:
        return next(iter(tables.values()))
    return [
        stack_tables(dict(zip(tables, same, strict=True)))
        for same in zip(*tables.values(), strict=True)
    ]


def _print_as(
    groups: Mapping[str, ScoreGroup],
    tool: str,
    format_: str,
    notes: Sequence[str],
    *,
    percent: bool,
) -> None:
    """Print what another tool would: a single group as it is, several under their names."""
    rows = {
        name: [row._replace(note=render_options(row.note)) for row in tool_rows(group, tool)]
        for name, group in groups.items()
    }
    if format_ == "json":
        plain = {name: [row._asdict() for row in group_rows] for name, group_rows in rows.items()}
        if len(plain) > 1:
            print_json({"tool": tool, "groups": plain})
        else:
            print_json({"tool": tool, "rows": next(iter(plain.values()))})
        return
    digits = None if format_ == "csv" else 4
    tables = {
        name: [make_tool_table(group_rows, tool, percent=percent, digits=digits)]
        for name, group_rows in rows.items()
    }
    for name in _print_groups(tables, format_):
        read = [note for source in groups[name].inputs for note in source.notes]
        print_notes(list(dict.fromkeys(read)), format_)
    print_notes(notes, format_)
