"""The tables that a run ends with: what was kept and what was lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .grid import Grid
from .scores import number, scale_of, scores_grids

if TYPE_CHECKING:
    from ..metrics import RunsSummary, Summary

__all__ = ["headline_grid", "kept_grid"]

HEADLINE = (
    "acc", "aaa", "acc.learning", "forgetting.learned", "bwt", "min_acc", "wc_acc", "wf10", "wf100",
    "wp10", "wp100", "gap.depth",
)  # fmt: skip
COLUMNS = {
    "learned": "acc.learning",
    "{worst} since": "min_acc",
    "at the end": "acc",
    "lost": "forgetting.learned",
}


def kept_grid(found: Summary | RunsSummary) -> Grid:
    """Return for each task how well it was learned, its worst, its end, and what it lost."""
    worst = scale_of(found).worst
    columns = {
        title.format(worst=worst): id_ for title, id_ in COLUMNS.items() if id_ in found.per_task
    }
    rows = []
    for k, task in enumerate(found.tasks):
        cells = []
        for id_ in columns.values():
            each = found.per_task[id_]
            value = each[k] if k < len(each) else None
            cells.append("" if value is None else number(value, "score", percent=False, digits=3))
        rows.append([task, *cells])
    return Grid(["task", *columns], rows, right=set(columns))


def headline_grid(found: Summary | RunsSummary, *, names: bool = True) -> Grid:
    """Return the metrics that the papers print, with SD over seeds; without names where narrow."""
    (grid,) = scores_grids(found)
    wanted = [row for row in grid.rows if row[0] in HEADLINE]
    width = len(grid.header) - (not names)
    return Grid(grid.header[:width], [row[:width] for row in wanted], right=grid.right)
