"""Two runs compared on the same examples: tables of their differences, in words, and as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from ...metrics import better_direction, display_name, find_metric
from .scores import ARROWS, format_metric
from .text_table import TextTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...metrics import RunDifference, ScoreScale
    from .scores import Format

__all__ = [
    "ExampleComparison",
    "describe_example_comparison",
    "example_comparison_to_dict",
    "make_example_tables",
]


@dataclass
class ExampleComparison:
    """The difference of two runs on the same examples, or the reason why there is none."""

    first: str
    second: str
    difference: RunDifference | None = None
    reason: str = ""
    level: float = 0.95


def make_example_tables(
    comparison: ExampleComparison,
    ids: Sequence[str],
    scale: ScoreScale,
    *,
    percent: bool = False,
    digits: int | None = 4,
    per_task: bool = False,
) -> list[TextTable]:
    """Return the differences of two runs with intervals, and a table per task if `per_task`."""
    difference = comparison.difference
    if difference is None:
        return []
    write = partial(format_metric, percent=percent, digits=digits)
    title = f"{comparison.first} - {comparison.second}, on the same examples"
    interval = f"{100 * comparison.level:g}% interval"
    value = "difference (%)" if percent else "difference"
    known = [id_ for id_ in ids if id_ in difference.intervals]
    rows = []
    for id_ in known:
        low, high = ends = difference.intervals[id_]
        numbers = [write(difference.metrics[id_], id_), _join(ends, id_, write)]
        numbers.append("yes" if low > 0 or high < 0 else "no")
        rows.append(
            [
                id_,
                ARROWS[better_direction(id_, scale)],
                *numbers,
                display_name(find_metric(id_), scale),
            ]
        )
    header = ["id", "better", value, interval, "apart", "name"]
    cells = {(i, 0): id_ for i, id_ in enumerate(known)}
    tables = [TextTable(header, rows, title=title, right={value, interval}, ids=cells)]
    if per_task:
        tasks = difference.tasks
        cells_of = [
            [id_, *(_task_cell(difference, id_, k, write) for k in range(len(tasks)))]
            for id_ in known
        ]
        tables.append(
            TextTable(["each task", *tasks], cells_of, title=title, right=set(tasks), ids=cells)
        )
    return tables


def describe_example_comparison(comparison: ExampleComparison) -> str:
    """Return in words what the differences are about, or why there are none."""
    first, second = comparison.first, comparison.second
    if comparison.difference is None:
        return f"{first} and {second} are not compared example by example: {comparison.reason}"
    return (
        f"{first} - {second}: intervals are paired on examples and are about these two trained "
        "models, not about the methods: another seed may differ by more; compare several seeds "
        "for that"
    )


def example_comparison_to_dict(comparison: ExampleComparison) -> dict[str, object]:
    """Return plain lists and numbers, ready for JSON."""
    difference = comparison.difference
    header = {"first": comparison.first, "second": comparison.second, "level": comparison.level}
    if difference is None:
        return {**header, "undefined": comparison.reason}
    return {**header, **difference.to_dict()}


def _join(ends: tuple[float, float], id_: str, write: Format) -> str:
    return " to ".join(write(end, id_) for end in ends)


def _task_cell(difference: RunDifference, id_: str, k: int, write: Format) -> str:
    value, ends = difference.per_task[id_][k], difference.per_task_intervals[id_][k]
    return (
        "" if value is None or ends is None else f"{write(value, id_)} ({_join(ends, id_, write)})"
    )
