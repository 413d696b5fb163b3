"""The tables that `perdure score` prints."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ...metrics import RunsSummary, better_direction, display_name, find_metric
from .text_table import TextTable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...metrics import Metric, ScoreScale, Summary, ToolRow

__all__ = [
    "get_scale",
    "group_reasons",
    "make_headline_table",
    "make_score_tables",
    "make_task_table",
    "make_tool_table",
    "stack_tables",
]

ARROWS = {"higher": "↑", "lower": "↓"}
HEADLINE_IDS = (
    "acc", "aaa", "acc.learning", "forgetting.learned", "bwt", "min_acc", "wc_acc", "wf10", "wf100",
    "wp10", "wp100", "gap.depth",
)  # fmt: skip
TASK_COLUMNS = {
    "learned": "acc.learning",
    "{worst} since": "min_acc",
    "at the end": "acc",
    "lost": "forgetting.learned",
}


def make_score_tables(
    found: Summary | RunsSummary,
    *,
    percent: bool = False,
    per_task: bool = False,
    digits: int | None = 4,
) -> list[TextTable]:
    """Return the headline table and, if asked for, values of each task and after each task."""
    grids = [_headline(found, percent, digits)]
    if per_task:
        ids = [id_ for id_ in found.metrics if id_ in found.per_task]
        by_task = {id_: found.per_task[id_] for id_ in ids}
        grids.append(_by_task("each task", by_task, found.tasks, percent, digits))
        grids += _intervals_by_task(found, percent, digits)
        grids.append(_by_task("after each task", found.curves, found.tasks, percent, digits))
    return grids


def make_task_table(found: Summary | RunsSummary) -> TextTable:
    """Return for each task how well it was learned, its worst, its end, and what it lost."""
    worst = get_scale(found).worst
    columns = {
        title.format(worst=worst): id_
        for title, id_ in TASK_COLUMNS.items()
        if id_ in found.per_task
    }
    rows = []
    for k, task in enumerate(found.tasks):
        cells = []
        for id_ in columns.values():
            each = found.per_task[id_]
            value = each[k] if k < len(each) else None
            cells.append(
                "" if value is None else format_value(value, "score", percent=False, digits=3)
            )
        rows.append([task, *cells])
    return TextTable(["task", *columns], rows, right=set(columns))


def make_headline_table(found: Summary | RunsSummary, *, names: bool = True) -> TextTable:
    """Return the metrics that the papers print, with SD over seeds; without names where narrow."""
    (grid,) = make_score_tables(found)
    wanted = [row for row in grid.rows if row[0] in HEADLINE_IDS]
    width = len(grid.header) - (not names)
    return TextTable(grid.header[:width], [row[:width] for row in wanted], right=grid.right)


def make_tool_table(
    rows: Sequence[ToolRow], tool: str, *, percent: bool = False, digits: int | None = 4
) -> TextTable:
    """Return the table of another tool's names, its numbers, and our ids beside them."""
    body = []
    for row in rows:
        shown = "undefined"
        if row.value is not None:
            unit = find_metric(row.id).unit if row.id else "score"
            shown = format_value(row.value, unit, percent=percent, digits=digits)
        body.append([row.name, shown, row.id or "none", row.note])
    value = "value (%)" if percent else "value"
    return TextTable([f"{tool} prints", value, "our id", "remark"], body, right={value})


def stack_tables(grids: Mapping[str, TextTable]) -> TextTable:
    """Return tables of several methods as one, with the method in the first column.

    Example:
        >>> stack_tables({"er": TextTable(["id", "value"], [["acc", "0.5"]])}).rows
        [['er', 'acc', '0.5']]
    """
    columns = dict.fromkeys(name for grid in grids.values() for name in grid.header)
    rows = []
    for method, grid in grids.items():
        for row in grid.rows:
            cells = dict(zip(grid.header, row, strict=True))
            rows.append([method, *(cells.get(name, "") for name in columns)])
    return TextTable(["method", *columns], rows)


def group_reasons(undefined: Mapping[str, str]) -> list[str]:
    """Return one line for each reason, with the ids that share it.

    Example:
        >>> group_reasons({"fwt.gem": "needs b", "fwt.learned": "needs b"})
        ['fwt.gem, fwt.learned: needs b']
    """
    by_reason: dict[str, list[str]] = {}
    for id_, reason in undefined.items():
        by_reason.setdefault(reason, []).append(id_)
    return [f"{', '.join(ids)}: {reason}" for reason, ids in by_reason.items()]


def format_value(value: float, unit: str, *, percent: bool, digits: int | None) -> str:
    """Return a metric's value as text: percent are of scores only; no digits, all of them.

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


def _headline(found: Summary | RunsSummary, percent: bool, digits: int | None) -> TextTable:
    sd = found.sd if isinstance(found, RunsSummary) else {}
    bias = {} if isinstance(found, RunsSummary) else found.bias
    value = "value (%)" if percent else "value"
    ends = ["low", "high"] if digits is None else ["95% interval"]
    header = ["id", "better" if digits is None else "", value]
    header += ["SD"] if sd else []
    header += ends if found.intervals else []
    header += ["bias at most"] if bias else []
    rows = []
    for id_, number_ in found.metrics.items():
        metric = find_metric(id_)
        shown = partial(_shown, metric=metric, percent=percent, digits=digits)
        row = [id_, _direction(found, id_, plain=digits is None), shown(number_)]
        row += [shown(sd[id_]) if id_ in sd else ""] if sd else []
        if found.intervals:
            both = [shown(end) for end in found.intervals.get(id_, ())]
            row += (both or ["", ""]) if digits is None else [" to ".join(both)]
        row += [shown(bias[id_]) if id_ in bias else ""] if bias else []
        rows.append([*row, display_name(metric, get_scale(found))])
    right = {value, "SD", "95% interval", "bias at most"}
    return TextTable([*header, "name"], rows, right=right)


def _direction(found: Summary | RunsSummary, id_: str, *, plain: bool) -> str:
    """Return which way is better: a level of a loss is better when lower."""
    better = better_direction(id_, get_scale(found))
    return better if plain else ARROWS[better]


def get_scale(found: Summary | RunsSummary) -> ScoreScale:
    """Return range, direction and name of the scores of a summary."""
    return found.runs[0].scale if isinstance(found, RunsSummary) else found.scale


def _by_task(
    what: str,
    values: Mapping[str, Sequence[float | None]],
    tasks: Sequence[str],
    percent: bool,
    digits: int | None,
) -> TextTable:
    width = max((len(each) for each in values.values()), default=0)
    names = list(tasks) if len(tasks) == width else [f"visit {k}" for k in range(width)]
    rows = []
    for id_, each in values.items():
        unit = find_metric({"aa": "acc", "af": "acc", "fixed": "acc"}.get(id_, id_)).unit
        cells = [
            "" if value is None else format_value(value, unit, percent=percent, digits=digits)
            for value in each
        ]
        rows.append([id_, *cells, *[""] * (width - len(cells))])
    return TextTable([what, *names], rows, right=set(names))


def _intervals_by_task(
    found: Summary | RunsSummary, percent: bool, digits: int | None
) -> list[TextTable]:
    """Return the intervals of one run's tasks, nothing for several runs."""
    if isinstance(found, RunsSummary) or not found.per_task_intervals:
        return []
    rows = []
    for id_, each in found.per_task_intervals.items():
        shown = partial(_shown, metric=find_metric(id_), percent=percent, digits=digits)
        cells = ["" if ends is None else " to ".join(map(shown, ends)) for ends in each]
        rows.append([id_, *cells, *[""] * (len(found.tasks) - len(cells))])
    return [TextTable(["95% interval of each task", *found.tasks], rows, right=set(found.tasks))]


def _shown(value: float, metric: Metric, percent: bool, digits: int | None) -> str:
    return format_value(value, metric.unit, percent=percent, digits=digits)
