"""Tables and small charts as HTML for notebooks and pages, without a library; text is escaped."""

from __future__ import annotations

from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    Curves = Mapping[str, tuple[NDArray[np.int64], NDArray[np.float64]]]

__all__ = ["HUES", "render_curves", "render_heatmap", "render_table", "select_extremes"]

# Hues that colour-blind readers can distinguish (after Okabe and Ito).
HUES = ("#0072b2", "#d55e00", "#009e73", "#b8598a", "#c97b00", "#3a9bdc", "#6b6b6b")
MAX_HEATMAP_TASKS = 200
SHADE = "rgba(0, 114, 178, {:.2f})"
MAX_SHADE = 0.6  # text on it stays readable in light and dark pages
WIDTH, HEIGHT, LEFT_MARGIN, BOTTOM_MARGIN, TOP_MARGIN = 640, 220, 36, 20, 20  # of a chart
MAX_CURVE_POINTS = 1000


def render_table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    right: Collection[int] = (),
    caption: str = "",
    shades: Mapping[tuple[int, int], str] | None = None,
) -> str:
    """Return an HTML table; the first cell of a row is its header.

    Args:
        header: names of the columns.
        rows: cells of each row.
        right: columns that are right-aligned, as numbers are.
        caption: caption above the table.
        shades: background colours of cells, by row and column.

    Example:
        >>> render_table(["id", "value"], [["<b>", "0.5"]]).splitlines()[3]
        '<tr><th scope="row">&lt;b&gt;</th><td>0.5</td></tr>'
    """

    def style(i: int | None, k: int) -> str:
        parts = ["text-align:right"] if k in right else []
        if i is not None and k in right:
            parts.append("white-space:nowrap")  # an interval stays on one line
        if i is not None and shades and (i, k) in shades:
            parts.append(f"background:{shades[i, k]}")
        return f' style="{";".join(parts)}"' if parts else ""

    head = [f'<th scope="col"{style(None, k)}>{escape(text)}</th>' for k, text in enumerate(header)]
    lines = ["<table>", f"<caption>{escape(caption)}</caption>" if caption else ""]
    lines.append(f"<thead><tr>{''.join(head)}</tr></thead><tbody>")
    for i, row in enumerate(rows):
        cells = [
            f"<td{style(i, k)}>{escape(text)}</td>" if k else f'<th scope="row">{escape(text)}</th>'
            for k, text in enumerate(row)
        ]
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return "\n".join([*lines, "</tbody></table>"])


def render_heatmap(
    scores: ArrayLike,
    tasks: Sequence[str],
    *,
    low: float = 0.0,
    high: float = 1.0,
    name: str = "score",
    lower_is_better: bool = False,
    caption: str = "",
) -> str:
    """Return a score matrix as a table in which better cells are darker and NaN is blank.

    Example:
        >>> "0.60" in render_heatmap([[0.9, float("nan")], [0.6, 0.8]], ["a", "b"])
        True
    """
    r = np.asarray(scores, dtype=np.float64)
    if len(r) > MAX_HEATMAP_TASKS:
        return (
            f"<p>{len(r)} tasks: a table shows {MAX_HEATMAP_TASKS} at most; see `perdure plot "
            "heatmaps`</p>"
        )
    low, high = _finite_range(r[np.isfinite(r)], low, high)
    depth = np.clip((r - low) / (high - low), 0, 1)
    depth = MAX_SHADE * (1 - depth if lower_is_better else depth)
    measured = np.argwhere(np.isfinite(r)).tolist()
    shades = {(i, j + 1): SHADE.format(depth[i, j]) for i, j in measured}
    rows = [
        [task, *("" if np.isnan(value) else f"{value:.2f}" for value in row)]
        for task, row in zip(tasks, r, strict=True)
    ]
    numbers = range(1, len(tasks) + 1)
    caption = caption or f"{name} on each task (columns) after learning each task (rows)"
    return render_table(["after", *tasks], rows, right=numbers, caption=caption, shades=shades)


def render_curves(
    curves: Curves,
    *,
    switches: Sequence[int] = (),
    low: float = 0.0,
    high: float = 1.0,
    name: str = "score",
) -> str:
    """Return an SVG chart of curves over steps, with task switches as vertical lines.

    Example:
        >>> render_curves({"a": (np.array([1, 2]), np.array([0.5, 1.0]))}).count("<polyline")
        1
    """
    curves = {task: curve for task, curve in curves.items() if len(curve[0])}
    first = min((int(steps[0]) for steps, _ in curves.values()), default=0)
    last = max((int(steps[-1]) for steps, _ in curves.values()), default=0)
    last = max(last, first + 1)
    all_scores = np.concatenate([scores for _, scores in curves.values()] or [np.zeros(0)])
    low, high = _finite_range(all_scores, low, high)

    def x(step: ArrayLike) -> NDArray[np.float64]:
        return LEFT_MARGIN + (np.asarray(step) - first) / (last - first) * (WIDTH - LEFT_MARGIN)

    def y(score: ArrayLike) -> NDArray[np.float64]:
        return (HEIGHT - BOTTOM_MARGIN) * (1 - (np.asarray(score) - low) / (high - low))

    label = escape(f"{name} on each task over training iterations")
    box = f"0 {-TOP_MARGIN} {WIDTH} {HEIGHT + TOP_MARGIN}"
    size = f'viewBox="{box}" width="{WIDTH}" role="img" aria-label="{label}"'
    style = 'style="max-width:100%;font:11px sans-serif;overflow:visible" fill="currentColor"'
    parts = [
        f"<svg {size} {style}>",
        *(_text(0, y(score) + 4, f"{score:.3g}") for score in (low, (low + high) / 2, high)),
        _text(0, 8 - TOP_MARGIN, name),
        _text((LEFT_MARGIN + WIDTH) / 2, HEIGHT - 4, "iterations", "middle"),
        _text(LEFT_MARGIN, HEIGHT - 4, str(first)),
        _text(WIDTH, HEIGHT - 4, str(last), "end"),
        *(_vertical_line(x(step)) for step in switches),
    ]
    for k, (task, (steps, scores)) in enumerate(curves.items()):
        rows = select_extremes(scores)
        pairs = zip(x(steps[rows]), y(scores[rows]), strict=True)
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in pairs)
        parts.append(
            f'<polyline points="{points}" fill="none" stroke="{HUES[k % len(HUES)]}" '
            f'stroke-width="1.5"><title>{escape(task)}</title></polyline>'
        )
    return "\n".join([*parts, "</svg>", _legend(list(curves))])


def select_extremes(values: ArrayLike, max_points: int = MAX_CURVE_POINTS) -> NDArray[np.intp]:
    """Return the positions of at most `max_points` values that draw the same curve.

    The values are divided into intervals of which the lowest and the highest are selected, and the
    first and last value of all, so that the minimum shown is the true minimum.

    Example:
        >>> select_extremes([0.9, 0.8, 0.1, 0.8, 0.9, 0.7, 0.8, 0.9], max_points=6)
        array([0, 2, 4, 5, 7])
    """
    a = np.asarray(values, dtype=np.float64)
    if len(a) <= max_points:
        return np.arange(len(a))
    edges = np.linspace(0, len(a), max((max_points - 2) // 2, 1) + 1).astype(np.intp)
    rows = {0, len(a) - 1}
    for start, end in pairwise(edges.tolist()):
        part = a[start:end]
        rows |= {start + int(part.argmin()), start + int(part.argmax())}
    return np.array(sorted(rows), dtype=np.intp)


def _finite_range(values: NDArray[np.float64], low: float, high: float) -> tuple[float, float]:
    """Return the range to draw: as given, or that of the values where it is infinite."""
    low = low if np.isfinite(low) else float(values.min()) if len(values) else 0.0
    high = high if np.isfinite(high) else float(values.max()) if len(values) else 1.0
    return low, high if high > low else low + 1


def _text(x: float, y: float | NDArray[np.float64], text: str, anchor: str = "start") -> str:
    return f'<text x="{x}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _vertical_line(x: NDArray[np.float64]) -> str:
    ends = f'x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{HEIGHT - BOTTOM_MARGIN}"'
    return f'<line {ends} stroke="currentColor" stroke-opacity="0.35" stroke-dasharray="3 3"/>'


def _legend(names: Sequence[str]) -> str:
    entries = [
        f'<span><span style="color:{HUES[k % len(HUES)]}" aria-hidden="true">&#9632;</span> '
        f"{escape(name)}</span>"
        for k, name in enumerate(names)
    ]
    return f'<div style="display:flex;flex-wrap:wrap;gap:0 1em">{" ".join(entries)}</div>'
