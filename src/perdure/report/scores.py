"""The tables that `perdure score` prints."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ..metrics import RunsSummary, better_of, find_metric
from ..metrics.summary_types import name_of
from .grid import Grid

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..metrics import Metric, ScoreScale, Summary, ToolRow

__all__ = ["reasons", "scale_of", "scores_grids", "stacked", "tool_grid"]

ARROWS = {"higher": "↑", "lower": "↓"}


def scores_grids(
    found: Summary | RunsSummary,
    *,
    percent: bool = False,
    per_task: bool = False,
    digits: int | None = 4,
) -> list[Grid]:
    """Return the headline table and, if asked for, values of each task and after each task."""
    grids = [_headline(found, percent, digits)]
    if per_task:
        ids = [id_ for id_ in found.metrics if id_ in found.per_task]
        by_task = {id_: found.per_task[id_] for id_ in ids}
        grids.append(_by_task("each task", by_task, found.tasks, percent, digits))
        grids += _intervals_by_task(found, percent, digits)
        grids.append(_by_task("after each task", found.curves, found.tasks, percent, digits))
    return grids


def tool_grid(
    rows: Sequence[ToolRow], tool: str, *, percent: bool = False, digits: int | None = 4
) -> Grid:
    """Return the table of another tool's names, its numbers, and our ids beside them."""
    body = []
    for row in rows:
        shown = "undefined"
        if row.value is not None:
            unit = find_metric(row.id).unit if row.id else "score"
            shown = number(row.value, unit, percent=percent, digits=digits)
        body.append([row.name, shown, row.id or "none", row.note])
    value = "value (%)" if percent else "value"
    return Grid([f"{tool} prints", value, "our id", "remark"], body, right={value})


def stacked(grids: Mapping[str, Grid]) -> Grid:
    """Return tables of several methods as one, with the method in the first column.

    Example:
        >>> stacked({"er": Grid(["id", "value"], [["acc", "0.5"]])}).rows
        [['er', 'acc', '0.5']]
    """
    columns = dict.fromkeys(name for grid in grids.values() for name in grid.header)
    rows = []
    for method, grid in grids.items():
        for row in grid.rows:
            cells = dict(zip(grid.header, row, strict=True))
            rows.append([method, *(cells.get(name, "") for name in columns)])
    return Grid(["method", *columns], rows)


def reasons(undefined: Mapping[str, str]) -> list[str]:
    """Return one line for each reason, with the ids that share it.

    Example:
        >>> reasons({"fwt.gem": "needs b", "fwt.learned": "needs b"})
        ['fwt.gem, fwt.learned: needs b']
    """
    by_reason: dict[str, list[str]] = {}
    for id_, reason in undefined.items():
        by_reason.setdefault(reason, []).append(id_)
    return [f"{', '.join(ids)}: {reason}" for reason, ids in by_reason.items()]


def number(value: float, unit: str, *, percent: bool, digits: int | None) -> str:
    """Return a metric's value as text: percent are of scores only; no digits, all of them.

    Example:
        >>> number(0.25, "score", percent=True, digits=4)
        '25.00'
    """
    if digits is None:
        return repr(float(value))
    if percent and unit != "none":
        value, digits = value * (100 if unit == "score" else 10_000), digits - 2
    if unit == "none" and float(value).is_integer() and abs(value) >= 10:
        return f"{value:.0f}"
    return f"{value:.{digits}f}"


def _headline(found: Summary | RunsSummary, percent: bool, digits: int | None) -> Grid:
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
        rows.append([*row, name_of(metric, scale_of(found))])
    right = {value, "SD", "95% interval", "bias at most"}
    return Grid([*header, "name"], rows, right=right)


def _direction(found: Summary | RunsSummary, id_: str, *, plain: bool) -> str:
    """Return which way is better: a level of a loss is better when lower."""
    better = better_of(id_, scale_of(found))
    return better if plain else ARROWS[better]


def scale_of(found: Summary | RunsSummary) -> ScoreScale:
    """Return range, direction and name of the scores of a summary."""
    return found.runs[0].scale if isinstance(found, RunsSummary) else found.scale


def _by_task(
    what: str,
    values: Mapping[str, Sequence[float | None]],
    tasks: Sequence[str],
    percent: bool,
    digits: int | None,
) -> Grid:
    width = max((len(each) for each in values.values()), default=0)
    names = list(tasks) if len(tasks) == width else [f"visit {k}" for k in range(width)]
    rows = []
    for id_, each in values.items():
        unit = find_metric({"aa": "acc", "af": "acc", "fixed": "acc"}.get(id_, id_)).unit
        cells = [
            "" if value is None else number(value, unit, percent=percent, digits=digits)
            for value in each
        ]
        rows.append([id_, *cells, *[""] * (width - len(cells))])
    return Grid([what, *names], rows, right=set(names))


def _intervals_by_task(
    found: Summary | RunsSummary, percent: bool, digits: int | None
) -> list[Grid]:
    """Return the intervals of one run's tasks, nothing for several runs."""
    if isinstance(found, RunsSummary) or not found.per_task_intervals:
        return []
    rows = []
    for id_, each in found.per_task_intervals.items():
        shown = partial(_shown, metric=find_metric(id_), percent=percent, digits=digits)
        cells = ["" if ends is None else " to ".join(map(shown, ends)) for ends in each]
        rows.append([id_, *cells, *[""] * (len(found.tasks) - len(cells))])
    return [Grid(["95% interval of each task", *found.tasks], rows, right=set(found.tasks))]


def _shown(value: float, metric: Metric, percent: bool, digits: int | None) -> str:
    return number(value, metric.unit, percent=percent, digits=digits)
