"""The table of results: one row per method, one column per headline metric."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ...metrics import better_direction, display_name, find_metric
from ..tables.scores import ARROWS, format_metric

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...metrics import MethodsComparison, ScoreScale
    from .summaries import MethodSummary

__all__ = ["MetricColumn", "ResultCell", "ResultRow", "make_columns", "make_rows", "percent_unit"]


class MetricColumn(NamedTuple):
    """The header of a metric; `parts` is its id where a line may break."""

    id: str
    parts: list[str]
    unit: str
    name: str
    arrow: str
    direction: str


class ResultCell(NamedTuple):
    """A value of a metric, or the reason why it is undefined."""

    text: str = ""
    letters: str = ""
    interval: str = ""
    best: bool = False
    undefined: str = ""


class ResultRow(NamedTuple):
    """A method; `label` is its name, shortened."""

    name: str
    label: str
    runs: int
    cells: list[ResultCell]


def make_columns(
    ids: Sequence[str], methods: Sequence[MethodSummary], scale: ScoreScale
) -> list[MetricColumn]:
    """Return the header of each metric."""
    columns = []
    for id_ in ids:
        directions = {better_direction(id_, method.scale) for method in methods}
        direction = directions.pop() if len(directions) == 1 else ""  # both losses and accuracies
        columns.append(
            MetricColumn(
                id=id_,
                parts=[*(f"{part}." for part in id_.split(".")[:-1]), id_.rpartition(".")[2]],
                unit=percent_unit(id_, scale),
                name=display_name(find_metric(id_), scale),
                arrow=ARROWS.get(direction, ""),
                direction=f"{direction} is better",
            )
        )
    return columns


def percent_unit(id_: str, scale: ScoreScale) -> str:
    """Return what follows the id of a metric that is shown in percent."""
    return " (%)" if scale.percent and find_metric(id_).unit != "none" else ""


def make_rows(
    methods: Sequence[MethodSummary],
    ids: Sequence[str],
    compared: Mapping[str, MethodsComparison],
) -> list[ResultRow]:
    """Return a row per method; the best is marked."""
    return [
        ResultRow(
            method.name,
            method.label,
            len(method.runs),
            [_make_cell(method, id_, methods, compared.get(id_)) for id_ in ids],
        )
        for method in methods
    ]


def _make_cell(
    method: MethodSummary,
    id_: str,
    methods: Sequence[MethodSummary],
    compared: MethodsComparison | None,
) -> ResultCell:
    summary, percent = method.summary, method.scale.percent
    value = summary.metrics.get(id_)
    if value is None:
        return ResultCell(undefined=summary.undefined.get(id_, "not computed"))
    write = partial(format_metric, id_=id_, percent=percent, digits=3 + percent)
    sd = getattr(summary, "sd", {}).get(id_)
    return ResultCell(
        text=write(value) if sd is None else f"{write(value)} ± {write(sd)}",
        letters=compared.letters.get(method.name, "") if compared is not None else "",
        interval=" to ".join(map(write, summary.intervals.get(id_, ()))),
        best=_is_best(method, id_, methods),
    )


def _is_best(method: MethodSummary, id_: str, methods: Sequence[MethodSummary]) -> bool:
    values = [m.summary.metrics[id_] for m in methods if id_ in m.summary.metrics]
    if len(values) < 2:
        return False
    best = max(values) if better_direction(id_, method.scale) == "higher" else min(values)
    # Compared as printed: of two equal numbers, neither alone may be bold.
    write = partial(format_metric, id_=id_, percent=False, digits=3)
    return write(method.summary.metrics[id_]) == write(best)
