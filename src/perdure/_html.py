"""Tables and small pictures as HTML, for notebooks and pages: no library, everything escaped."""

from __future__ import annotations

from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    Curves = Mapping[str, tuple[NDArray[np.int64], NDArray[np.float64]]]

__all__ = ["HUES", "curves", "extremes", "heatmap", "table"]

# Hues that colour-blind readers can tell apart (after Okabe and Ito).
HUES = ("#0072b2", "#d55e00", "#009e73", "#b8598a", "#c97b00", "#3a9bdc", "#6b6b6b")
MOST_TASKS = 200  # of a table: as many rows and columns
SHADE = "rgba(0, 114, 178, {:.2f})"
WIDE, TALL, LEFT, BOTTOM = 640, 220, 36, 20  # of a picture, and its margins
MOST = 1000  # points of a curve that are drawn


def table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    right: Collection[int] = (),
    caption: str = "",
    shades: Mapping[tuple[int, int], str] | None = None,
) -> str:
    """Return a table; the first cell of a row names it.

    Args:
        header: names of the columns.
        rows: their cells.
        right: which columns are numbers.
        caption: above the table.
        shades: colours behind cells, by row and column.

    Example:
        >>> table(["id", "value"], [["<b>", "0.5"]], right={1}).splitlines()[3]
        '<tr><th scope="row">&lt;b&gt;</th><td style="text-align:right">0.5</td></tr>'
    """

    def style(i: int | None, k: int) -> str:
        parts = ["text-align:right"] if k in right else []
        if i is not None and shades and (i, k) in shades:
            parts.append(f"background:{shades[i, k]}")
        return f' style="{";".join(parts)}"' if parts else ""

    head = [f'<th scope="col"{style(None, k)}>{escape(each)}</th>' for k, each in enumerate(header)]
    lines = ["<table>", f"<caption>{escape(caption)}</caption>" if caption else ""]
    lines.append(f"<thead><tr>{''.join(head)}</tr></thead><tbody>")
    for i, row in enumerate(rows):
        cells = [
            f"<td{style(i, k)}>{escape(text)}</td>" if k else f'<th scope="row">{escape(text)}</th>'
            for k, text in enumerate(row)
        ]
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return "\n".join([*lines, "</tbody></table>"])


def heatmap(
    scores: ArrayLike,
    tasks: Sequence[str],
    *,
    low: float = 0.0,
    high: float = 1.0,
    name: str = "score",
    lower_is_better: bool = False,
    caption: str = "",
) -> str:
    """Return a score matrix as a table whose cells are the darker the better; blank for NaN.

    Example:
        >>> "0.60" in heatmap([[0.9, float("nan")], [0.6, 0.8]], ["a", "b"])
        True
    """
    r = np.asarray(scores, dtype=np.float64)
    if len(r) > MOST_TASKS:
        return (
            f"<p>{len(r)} tasks: a table shows {MOST_TASKS} at most; see perdure plot heatmaps</p>"
        )
    low, high = _ends(r[np.isfinite(r)], low, high)
    # No darker than this: letters on it stay readable, in light and in dark pages.
    dark = np.clip((r - low) / (high - low), 0, 1)
    dark = 0.6 * (1 - dark if lower_is_better else dark)
    known = np.argwhere(np.isfinite(r)).tolist()
    shades = {(i, j + 1): SHADE.format(dark[i, j]) for i, j in known}
    rows = [
        [task, *("" if np.isnan(value) else f"{value:.2f}" for value in row)]
        for task, row in zip(tasks, r, strict=True)
    ]
    numbers = range(1, len(tasks) + 1)
    caption = caption or f"{name} on each task (columns) after learning each task (rows)"
    return table(["after", *tasks], rows, right=numbers, caption=caption, shades=shades)


def curves(
    lines: Curves,
    *,
    switches: Sequence[int] = (),
    low: float = 0.0,
    high: float = 1.0,
    name: str = "score",
) -> str:
    """Return a picture (SVG) of curves over steps, with switches as vertical lines.

    Example:
        >>> curves({"a": (np.array([1, 2]), np.array([0.5, 1.0]))}).count("<polyline")
        1
    """
    drawn = {name: line for name, line in lines.items() if len(line[0])}
    first = min((int(steps[0]) for steps, _ in drawn.values()), default=0)
    last = max((int(steps[-1]) for steps, _ in drawn.values()), default=0)
    last = max(last, first + 1)
    every = np.concatenate([scores for _, scores in drawn.values()] or [np.zeros(0)])
    low, high = _ends(every, low, high)

    def x(step: ArrayLike) -> NDArray[np.float64]:
        return LEFT + (np.asarray(step) - first) / (last - first) * (WIDE - LEFT)

    def y(score: ArrayLike) -> NDArray[np.float64]:
        return (TALL - BOTTOM) * (1 - (np.asarray(score) - low) / (high - low))

    label = escape(f"{name} on each task over training iterations")
    size = f'viewBox="0 0 {WIDE} {TALL}" width="{WIDE}" role="img" aria-label="{label}"'
    look = 'style="max-width:100%;font:11px sans-serif;overflow:visible" fill="currentColor"'
    parts = [
        f"<svg {size} {look}>",
        *(_text(0, y(score) + 4, f"{score:.3g}") for score in (low, (low + high) / 2, high)),
        _text(LEFT, TALL - 4, f"step {first}"),
        _text(WIDE, TALL - 4, str(last), "end"),
        *(_rule(x(step)) for step in switches),
    ]
    for k, (name, (steps, scores)) in enumerate(drawn.items()):
        kept = extremes(scores)
        places = zip(x(steps[kept]), y(scores[kept]), strict=True)
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in places)
        parts.append(
            f'<polyline points="{points}" fill="none" stroke="{HUES[k % len(HUES)]}" '
            f'stroke-width="1.5"><title>{escape(name)}</title></polyline>'
        )
    return "\n".join([*parts, "</svg>", _legend(list(drawn))])


def extremes(values: ArrayLike, most: int = MOST) -> NDArray[np.intp]:
    """Return the places of at most `most` values that look like all of them.

    Of each stretch the lowest and the highest are kept, and the first and last of all, so that
    the minimum shown is the true minimum.

    Example:
        >>> extremes([0.9, 0.8, 0.1, 0.8, 0.9, 0.7, 0.8, 0.9], most=6)
        array([0, 2, 4, 5, 7])
    """
    a = np.asarray(values, dtype=np.float64)
    if len(a) <= most:
        return np.arange(len(a))
    edges = np.linspace(0, len(a), max((most - 2) // 2, 1) + 1).astype(np.intp)
    kept = [np.array([0, len(a) - 1])]
    for start, end in pairwise(edges):
        part = a[start:end]
        kept.append(start + np.array([part.argmin(), part.argmax()]))
    return np.unique(np.concatenate(kept))


def _ends(known: NDArray[np.float64], low: float, high: float) -> tuple[float, float]:
    """Return the range to draw: as given, or of what is known where that has no end."""
    low = low if np.isfinite(low) else float(known.min()) if len(known) else 0.0
    high = high if np.isfinite(high) else float(known.max()) if len(known) else 1.0
    return low, high if high > low else low + 1


def _text(x: float, y: float | NDArray[np.float64], text: str, anchor: str = "start") -> str:
    return f'<text x="{x}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _rule(x: NDArray[np.float64]) -> str:
    ends = f'x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{TALL - BOTTOM}"'
    return f'<line {ends} stroke="currentColor" stroke-opacity="0.35" stroke-dasharray="3 3"/>'


def _legend(names: Sequence[str]) -> str:
    squares = [
        f'<span><span style="color:{HUES[k % len(HUES)]}" aria-hidden="true">&#9632;</span> '
        f"{escape(name)}</span>"
        for k, name in enumerate(names)
    ]
    return f'<div style="display:flex;flex-wrap:wrap;gap:0 1em">{" ".join(squares)}</div>'
