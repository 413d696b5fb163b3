"""Objects as aligned lines of text, HTML tables, small charts and data frames; text is escaped."""

from __future__ import annotations

import re
import textwrap
from html import escape
from importlib import import_module
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    import polars as pl
    from numpy.typing import ArrayLike, NDArray
    from pandas import DataFrame

    Curves = Mapping[str, tuple[NDArray[np.int64], NDArray[np.float64]]]

__all__ = [
    "HUES",
    "count_of",
    "escape_line",
    "format_block",
    "list_some",
    "make_frame",
    "make_polars",
    "render_curves",
    "render_heatmap",
    "render_table",
    "select_extremes",
]

MAX_ROWS = 12
MAX_WIDTH = 100  # characters of a line
MAX_FOOTER_LINES = 3  # of one note
NUMBER = re.compile(r"[-+]?[\d.,]+%?|")
LINE_BREAKS = re.compile("[\t\n\v\f\r\x1c-\x1f\x85\u2028\u2029]+")
# Hues that colour-blind readers can distinguish (after Okabe and Ito).
HUES = ("#0072b2", "#d55e00", "#009e73", "#b8598a", "#c97b00", "#3a9bdc", "#6b6b6b")
MAX_HEATMAP_TASKS = 200
SHADE = "rgba(0, 114, 178, {:.2f})"
MAX_SHADE = 0.6  # text on it stays readable in light and dark pages
WIDTH, HEIGHT, LEFT_MARGIN, BOTTOM_MARGIN, TOP_MARGIN = 640, 220, 36, 20, 20  # of a chart
MAX_CURVE_POINTS = 1000


def format_block(title: str, rows: Sequence[Sequence[str]], footer: Sequence[str] = ()) -> str:
    """Return a title and, indented below it, rows with aligned columns and the lines of a footer.

    Columns of numbers are right-aligned; rows that are too long, and those beyond the twelfth, are
    cut, and the footer is wrapped. Text may come from files, so control characters are escaped.

    Example:
        >>> print(format_block("Run of 2 tasks", [("acc", "0.7"), ("bwt", "-0.3")], ["finished"]))
        Run of 2 tasks
          acc   0.7
          bwt  -0.3
          finished
    """
    cells = [[escape_line(cell) for cell in row] for row in rows[:MAX_ROWS]]
    columns = list(zip(*cells, strict=True))
    right = [k > 0 and all(map(NUMBER.fullmatch, column)) for k, column in enumerate(columns)]
    widths = [max(map(len, column)) for column in columns]
    lines = []
    for row in cells:
        parts = [
            cell.rjust(width) if numeric else cell.ljust(width)
            for cell, width, numeric in zip(row, widths, right, strict=True)
        ]
        lines.append("  " + "  ".join(parts).rstrip())
    if len(rows) > MAX_ROWS:
        lines.append(f"  … and {len(rows) - MAX_ROWS} more")
    lines = [_cut(line) for line in [escape_line(title), *lines]]
    for line in footer:  # sentences, whose ends say what to do
        lines += textwrap.wrap(
            escape_line(line), MAX_WIDTH, max_lines=MAX_FOOTER_LINES, placeholder=" …",
            initial_indent="  ", subsequent_indent="    ",
        )  # fmt: skip
    return "\n".join(lines)


def count_of(number: int, noun: str) -> str:
    """Return a number with its noun.

    Example:
        >>> count_of(1, "task"), count_of(3, "task"), count_of(2, "batch"), count_of(2, "entry")
        ('1 task', '3 tasks', '2 batches', '2 entries')
    """
    if noun.endswith("try"):
        plural = f"{noun[:-1]}ies"
    else:
        plural = f"{noun}es" if noun.endswith(("s", "tch")) else f"{noun}s"
    return f"{number} {noun if number == 1 else plural}"


def list_some(names: Sequence[object], most: int = 4) -> str:
    """Return the first of several names, and how many there are if not all are shown.

    Example:
        >>> list_some(["a", "b"]), list_some(range(100), 3)
        ('a, b', '0, 1, 2, … (100)')
    """
    shown = ", ".join(str(name) for name in names[:most])
    return shown if len(names) <= most else f"{shown}, … ({len(names)})"


def make_frame(
    records: Sequence[Mapping[str, object]], columns: Sequence[str], index: Sequence[str]
) -> DataFrame:
    """Return records as a pandas table whose rows are named by the columns in `index`."""
    frame = _frame_library("pandas").DataFrame(list(records), columns=list(columns))
    return frame.set_index(list(index))


def make_polars(records: Sequence[Mapping[str, object]], columns: Sequence[str]) -> pl.DataFrame:
    """Return records as a polars table."""
    by_column = {name: [record.get(name) for record in records] for name in columns}
    return _frame_library("polars").DataFrame(by_column)


def _frame_library(name: str) -> Any:
    """Return a library of data frames, which perdure does not depend on."""
    try:
        return import_module(name)
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            f"to_{name}() needs {name}: pip install {name}; to_dict() works without it", name=name
        ) from None


def _cut(line: str) -> str:
    return line if len(line) <= MAX_WIDTH else line[: MAX_WIDTH - 1] + "…"


def escape_line(text: str) -> str:
    r"""Return `text` as a single line with control and format characters escaped.

    Names, notes and error messages come from files that anyone may have written: an ESC could
    control the terminal, a line break forge a line, and a right-to-left mark reorder one.

    Example:
        >>> escape_line("red: \x1b[31m"), escape_line("one\ntwo"), escape_line("größer ± 1")
        ('red: \\x1b[31m', 'one two', 'größer ± 1')
    """
    line = LINE_BREAKS.sub(" ", text)
    if line.isprintable():
        return line
    return "".join(
        char if char.isprintable() or char.isspace() else char.encode("unicode_escape").decode()
        for char in line
    )


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
