"""Two runs on the same examples: the table of their differences, in words and as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...metrics import better_direction, display_name, find_metric
from .scores import ARROWS, format_value
from .text_table import TextTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...metrics import RunDifference, ScoreScale

__all__ = [
    "ExampleComparison",
    "describe_example_comparison",
    "example_comparison_to_dict",
    "make_example_tables",
]


@dataclass
class ExampleComparison:
    """Two runs by name, how they differ, or the reason why that cannot be said of examples."""

    first: str
    second: str
    difference: RunDifference | None = None
    reason: str = ""
    level: float = 0.95


def make_example_tables(
    found: ExampleComparison,
    ids: Sequence[str],
    scale: ScoreScale,
    *,
    percent: bool = False,
    digits: int | None = 4,
    per_task: bool = False,
) -> list[TextTable]:
    """Return the differences of two runs with their intervals and, if asked for, of each task."""
    apart = found.difference
    if apart is None:
        return []
    title = f"{found.first} - {found.second}, on the same examples"
    interval = f"{100 * found.level:g}% interval"
    value = "difference (%)" if percent else "difference"
    shown = [id_ for id_ in ids if id_ in apart.intervals]
    rows = []
    for id_ in shown:
        ends = _ends(apart.intervals[id_], id_, percent, digits)
        metric = find_metric(id_)
        each = [_number(apart.metrics[id_], id_, percent, digits), ends, _verdict(apart, id_)]
        rows.append([id_, ARROWS[better_direction(id_, scale)], *each, display_name(metric, scale)])
    header = ["id", "better", value, interval, "apart", "name"]
    grids = [TextTable(header, rows, title=title, right={value, interval})]
    if per_task:
        cells = [
            [id_, *(_cell(apart, id_, k, percent, digits) for k in range(len(apart.tasks)))]
            for id_ in shown
        ]
        grids.append(
            TextTable(["each task", *apart.tasks], cells, title=title, right=set(apart.tasks))
        )
    return grids


def describe_example_comparison(found: ExampleComparison) -> str:
    """Return what the differences speak about, or why there are none."""
    if found.difference is None:
        return (
            f"{found.first} and {found.second} are not compared example by example: {found.reason}"
        )
    return (
        f"{found.first} - {found.second}: intervals are paired on examples and speak about these "
        "two trained models, not about the methods: another seed may differ by more; compare "
        "several seeds for that"
    )


def example_comparison_to_dict(found: ExampleComparison) -> dict[str, Any]:
    """Return plain lists and numbers, ready for JSON."""
    apart = found.difference
    said = {"first": found.first, "second": found.second, "level": found.level}
    return said | ({"undefined": found.reason} if apart is None else apart.as_dict())


def _verdict(apart: RunDifference, id_: str) -> str:
    low, high = apart.intervals[id_]
    return "yes" if low > 0 or high < 0 else "no"


def _number(value: float, id_: str, percent: bool, digits: int | None) -> str:
    return format_value(value, find_metric(id_).unit, percent=percent, digits=digits)


def _ends(ends: tuple[float, float], id_: str, percent: bool, digits: int | None) -> str:
    return " to ".join(_number(end, id_, percent, digits) for end in ends)


def _cell(apart: RunDifference, id_: str, k: int, percent: bool, digits: int | None) -> str:
    value, ends = apart.per_task[id_][k], apart.per_task_intervals[id_][k]
    if value is None or ends is None:
        return ""
    return f"{_number(value, id_, percent, digits)} ({_ends(ends, id_, percent, digits)})"
