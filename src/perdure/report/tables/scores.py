"""The tables of one summary: metrics, values per task, and the names other tools use."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from ...metrics import GROUPS, RunsSummary, better_direction, display_name, find_metric, parse_id
from ...metrics.summary_types import CURVE_NAMES
from .text_table import TextTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ...metrics import ScoreScale, Summary, ToolRow

    Format = Callable[[float, str], str]  # value and id of a metric -> text

__all__ = [
    "format_metric",
    "format_value",
    "group_reasons",
    "make_headline_table",
    "make_score_tables",
    "make_task_table",
    "make_tool_table",
    "merge_reasons",
    "stack_tables",
]

MAX_UNGROUPED = 10  # metrics in a table without headings
PERCENT_UNITS = {"score": "%", "squared score": "squared %", "none": ""}  # by unit
ARROWS = {"higher": "↑", "lower": "↓"}
HEADLINE_IDS = (
    "acc", "aaa", "acc.learning", "forgetting.best", "bwt", "retention", "retention.worst",
    "min_acc", "wc_acc", "wf10", "wf100", "wp10", "wp100", "gap.depth",
)  # fmt: skip
TASK_COLUMNS = {
    "learned": "acc.learning",
    "{worst} since": "min_acc",
    "at the end": "acc",
    "lost": "forgetting.learned",
}
CURVE_IDS = {name: id_ for id_, name in CURVE_NAMES.items()}


def make_score_tables(
    summary: Summary | RunsSummary,
    *,
    percent: bool = False,
    per_task: bool = False,
    digits: int | None = 4,
    grouped: bool = False,
) -> list[TextTable]:
    """Return the table of all metrics and, if `per_task`, tables of and after each task.

    `digits=None` writes full precision, for files; `grouped` adds headings to a long table, for
    people.
    """
    write = partial(format_metric, percent=percent, digits=digits)
    tables = [_make_metric_table(summary, write, percent=percent, precise=digits is None)]
    if grouped and len(tables[0].rows) > MAX_UNGROUPED:
        tables[0] = _add_headings(tables[0], get_scale(summary))
    if per_task:
        for title, tasks in (("each task", summary.tasks), ("each control task", summary.control)):
            known = {
                id_: summary.per_task[id_]
                for id_ in summary.metrics
                if id_ in summary.per_task and summary.tasks_of(id_) == tasks
            }
            if known or tasks == summary.tasks:
                tables.append(_make_per_task_table(title, known, tasks, write))
            tables += _make_interval_tables(summary, title, tasks, write)
        curves = {CURVE_IDS.get(name, name): values for name, values in summary.curves.items()}
        tables.append(_make_per_task_table("after each task", curves, summary.tasks, write))
    return tables


def make_task_table(summary: Summary | RunsSummary) -> TextTable:
    """Return per task its score when learned, its worst score since, at the end, and its loss."""
    worst = get_scale(summary).worst
    columns = {
        title.format(worst=worst): summary.per_task[id_]
        for title, id_ in TASK_COLUMNS.items()
        if id_ in summary.per_task
    }
    rows = []
    for k, task in enumerate(summary.tasks):
        values = [values[k] if k < len(values) else None for values in columns.values()]
        rows.append([task, *("" if value is None else f"{value:.3f}" for value in values)])
    return TextTable(["task", *columns], rows, right=set(columns))


def make_headline_table(summary: Summary | RunsSummary) -> TextTable:
    """Return the metrics that papers report, with SD over seeds."""
    (table,) = make_score_tables(summary)
    rows = [row for row in table.rows if row[0] in HEADLINE_IDS]
    return TextTable(table.header, rows, right=table.right)


def make_tool_table(
    rows: Sequence[ToolRow], tool: str, *, percent: bool = False, digits: int | None = 4
) -> TextTable:
    """Return the metrics of another tool: its names, the values, and our ids."""
    body = []
    for row in rows:
        text = "undefined"
        if row.value is not None:
            text = format_metric(row.value, row.id or "acc", percent=percent, digits=digits)
        body.append([row.name, text, row.id or "none", row.note])
    value = "value (%)" if percent else "value"
    return TextTable([f"{tool} prints", value, "our id", "remark"], body, right={value})


def stack_tables(tables: Mapping[str, TextTable]) -> TextTable:
    """Return the tables of several methods as one, with the method in the first column.

    Example:
        >>> stack_tables({"er": TextTable(["id", "value"], [["acc", "0.5"]])}).rows
        [['er', 'acc', '0.5']]
    """
    columns = dict.fromkeys(name for table in tables.values() for name in table.header)
    rows = []
    for method, table in tables.items():
        for row in table.rows:
            cells = dict(zip(table.header, row, strict=True))
            rows.append([method, *(cells.get(name, "") for name in columns)])
    return TextTable(["method", *columns], rows)


def group_reasons(undefined: Mapping[str, str] | Iterable[tuple[str, str]]) -> list[str]:
    """Return one line per reason, with the ids that share it.

    Example:
        >>> group_reasons({"fwt.gem": "needs b", "fwt.learned": "needs b"})
        ['fwt.gem, fwt.learned: needs b']
    """
    by_reason: dict[str, list[str]] = {}
    for id_, reason in undefined.items() if isinstance(undefined, Mapping) else undefined:
        by_reason.setdefault(reason, []).append(id_)
    return [f"{', '.join(ids)}: {reason}" for reason, ids in by_reason.items()]


def merge_reasons(undefined: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Return one line per reason for several methods, which are named unless all share it.

    Example:
        >>> merge_reasons({"er": {"rem": "needs b", "ms": "short"}, "si": {"ms": "short"}})
        ['rem: needs b (er)', 'ms: short']
    """
    methods: dict[tuple[str, str], list[str]] = {}
    for name, reasons in undefined.items():
        for id_, reason in reasons.items():
            methods.setdefault((id_, reason), []).append(name)
    stated = {
        id_reason: "" if len(names) == len(undefined) else f" ({', '.join(names)})"
        for id_reason, names in methods.items()
    }
    return group_reasons([(id_, reason + names) for (id_, reason), names in stated.items()])


def format_value(value: float, unit: str, *, percent: bool, digits: int | None) -> str:
    """Return a value as text; scores in percent on request, full precision without `digits`.

    Example:
        >>> format_value(0.25, "score", percent=True, digits=4)
        '25.00'
    """
    if digits is None:
        return repr(float(value))
    if percent and unit != "none":
        value, digits = value * (100 if unit == "score" else 10_000), digits - 2
    if unit == "none" and float(value).is_integer() and abs(value) >= 10:
        return f"{value:.0f}"
    return f"{value:.{digits}f}"


def format_metric(value: float, id_: str, *, percent: bool, digits: int | None) -> str:
    """Return the value of the metric `id_` as text in its unit."""
    return format_value(value, find_metric(id_).unit, percent=percent, digits=digits)


def get_scale(summary: Summary | RunsSummary) -> ScoreScale:
    """Return the range, direction and name of the scores of a summary."""
    return summary.runs[0].scale if isinstance(summary, RunsSummary) else summary.scale


def _make_metric_table(
    summary: Summary | RunsSummary, write: Format, *, percent: bool, precise: bool
) -> TextTable:
    sd = summary.sd if isinstance(summary, RunsSummary) else {}
    bias = {} if isinstance(summary, RunsSummary) else summary.bias
    scale = get_scale(summary)
    value_column = "value (%)" if percent else "value"
    header = ["id", "better" if precise else "", value_column, *(["SD"] if sd else [])]
    if summary.intervals:
        header += ["low", "high"] if precise else ["95% interval"]
    header += [*(["bias at most"] if bias else []), "name"]
    rows = []
    for id_, value in summary.metrics.items():
        better = better_direction(id_, scale)
        row = [id_, better if precise else ARROWS[better], write(value, id_)]
        row += [write(sd[id_], id_) if id_ in sd else ""] if sd else []
        if summary.intervals:
            ends = [write(end, id_) for end in summary.intervals.get(id_, ())]
            row += (ends or ["", ""]) if precise else [" to ".join(ends)]
        row += [write(bias[id_], id_) if id_ in bias else ""] if bias else []
        name, unit = display_name(find_metric(id_), scale), find_metric(id_).unit
        squared = percent and not precise and unit == "squared score"
        rows.append([*row, f"{name}, in {PERCENT_UNITS[unit]}" if squared else name])
    ids = {(i, 0): id_ for i, id_ in enumerate(summary.metrics)}
    right = {value_column, "SD", "95% interval", "bias at most"}
    return TextTable(header, rows, right=right, ids=ids)


def _add_headings(table: TextTable, scale: ScoreScale) -> TextTable:
    rows: list[list[str]] = []
    headings = set()
    for title, metrics in GROUPS.items():
        members = [row for row in table.rows if parse_id(row[0]).base in metrics]
        if members:
            headings.add((len(rows), 0))
            rows.append([title.replace("accuracy", scale.label), *[""] * (len(table.header) - 1)])
            rows += [[f"  {id_}", *cells] for id_, *cells in members]
    return TextTable(table.header, rows, right=table.right, best=headings)


def _make_per_task_table(
    title: str,
    values: Mapping[str, Sequence[float | None]],
    tasks: Sequence[str],
    write: Format,
) -> TextTable:
    width = max(map(len, values.values()), default=0)
    names = list(tasks) if len(tasks) == width else [f"span {k}" for k in range(width)]
    rows = []
    for id_, several in values.items():
        unit_id = "acc" if id_ == "fixed" else id_  # a metric of the same unit
        cells = ["" if value is None else write(value, unit_id) for value in several]
        rows.append([id_, *cells, *[""] * (width - len(cells))])
    return TextTable([title, *names], rows, right=set(names), ids=_ids_of_rows(values))


def _make_interval_tables(
    summary: Summary | RunsSummary, title: str, tasks: Sequence[str], write: Format
) -> list[TextTable]:
    """Return a table of the intervals of these tasks for one run, none for several runs."""
    if isinstance(summary, RunsSummary):
        return []
    known = {
        id_: several
        for id_, several in summary.per_task_intervals.items()
        if summary.tasks_of(id_) == tasks
    }
    rows = []
    for id_, several in known.items():
        cells = [
            "" if ends is None else " to ".join(write(end, id_) for end in ends) for ends in several
        ]
        rows.append([id_, *cells, *[""] * (len(tasks) - len(cells))])
    header = [f"95% interval of {title}", *tasks]
    return [TextTable(header, rows, right=set(tasks), ids=_ids_of_rows(known))] if rows else []


def _ids_of_rows(names: Iterable[str]) -> dict[tuple[int, int], str]:
    """Return which rows start with the id of a metric; a curve may have a name of its own."""
    return {(i, 0): name for i, name in enumerate(names) if name != "fixed"}
