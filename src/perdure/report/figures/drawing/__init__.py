"""Sizes, fonts and lines that all figures share, and saving of figures."""

from __future__ import annotations

import re
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties

from ....record import InputError
from ... import check_output

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    Size = Literal["column", "page", "slide"]

MISSING_GLYPH = r"Glyph (\d+) "  # the start of matplotlib's warning, repeated per letter
# Width in inches and font size in points: a column and a page of a paper, a 16:9 slide.
SIZES: dict[str, tuple[float, float]] = {"column": (3.4, 8), "page": (7.0, 8), "slide": (12.0, 16)}


@contextmanager
def new_figure(
    size: Size, height: float, rows: int = 1, columns: int = 1, **axes: Any
) -> Iterator[Figure]:
    """Yield a figure with `rows` x `columns` axes to draw on; `height` is relative to its width.

    Example:
        >>> with new_figure("page", 0.5, 1, 2) as figure:
        ...     _ = figure.axes[0].set_title("left")
        >>> figure.get_size_inches().tolist(), len(figure.axes)
        ([7.0, 3.5], 2)
    """
    if size not in SIZES:
        raise InputError(f"size is {size!r:.40}, expected one of {', '.join(SIZES)}")
    width, points = SIZES[size]
    with mpl.rc_context(_font_settings(points)), warnings.catch_warnings():
        warnings.filterwarnings("ignore", MISSING_GLYPH)  # `save` warns once
        figure = Figure(figsize=(width, width * height), layout="constrained")
        figure.subplots(rows, columns, squeeze=False, **axes)
        yield figure


def _font_settings(points: float) -> Any:  # matplotlib types its settings one by one
    return {
        "font.size": points,
        "axes.titlesize": points,
        "axes.labelsize": points,
        "legend.fontsize": points - 1,
        "xtick.labelsize": points - 1,
        "ytick.labelsize": points - 1,
        "lines.linewidth": points / 7,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "legend.frameon": False,
    }


def split_into_rows(count: int, most: int = 4) -> tuple[int, int]:
    """Return the rows and columns for a number of panels, with at most `most` columns.

    Rows are as few as possible, and then columns, so that few places stay empty.

    Example:
        >>> split_into_rows(5), split_into_rows(3)
        ((2, 3), (1, 3))
    """
    rows = -(-count // most)
    return rows, -(-count // rows)


def add_title(figure: Figure, title: str) -> None:
    """Add a title above a figure, or above its legend if it has one at the top.

    Example:
        >>> with new_figure("page", 0.5) as figure:
        ...     add_title(figure, "Forgotten")
        >>> figure.get_suptitle()
        'Forgotten'
    """
    text = title.replace("$", r"\$")
    size = 1.2 * float(figure.axes[0].title.get_fontsize())
    if figure.legends:  # the layout would draw a title over the legend
        figure.legends[0].set_title(text, prop=FontProperties(size=size))
    else:
        figure.suptitle(text, fontsize=size)


def set_caption(figure: Figure, *parts: str) -> None:
    """Keep what a caption must state: the definitions drawn, the bands, and lines that coincide."""
    figure.set_label("; ".join(part for part in parts if part))


def describe_runs(runs: Iterable[int], drawn: str = "lines", spread: str = "bands one SD") -> str:
    """Return what the caption says of means over runs, given the number of runs of each method.

    Example:
        >>> describe_runs([3, 1]), describe_runs([5], "cells", "")
        ('lines are means over 1 to 3 runs, bands one SD', 'cells are means over 5 runs')
        >>> describe_runs([1, 1])
        'one run per method'
    """
    counts = sorted(set(runs))
    if counts[-1] == 1:
        return "one run per method"
    several = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"{drawn} are means over {several} runs" + (f", {spread}" if spread else "")


def get_caption(figure: Figure) -> str:
    """Return what the caption of a figure must state, an empty string if nothing."""
    return str(figure.get_label() or "")


def save(figure: Figure, path: str | Path, dpi: int = 200) -> Path:
    """Write a figure in the format of the file's suffix and return the path.

    Text stays text in PDF and SVG, and the same figure gives the same bytes. Warns once about
    letters that the font lacks.
    """
    target = check_output(path)
    form = target.suffix.lower().removeprefix(".")
    fixed: Any = {"svg.hashsalt": "perdure", "svg.fonttype": "none", "pdf.fonttype": 42}
    undated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(form, {})
    try:
        with mpl.rc_context(fixed), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            figure.savefig(target, dpi=dpi, metadata=undated)
    except OSError as error:
        raise InputError(f"{target}: {(error.strerror or 'cannot be written').lower()}") from None
    _warn_once({str(warning.message): None for warning in caught})
    return target


def _warn_once(messages: Iterable[str]) -> None:
    """Pass warnings on; those about letters that the font lacks become one."""
    missing = [chr(int(match[1])) for text in messages if (match := re.match(MISSING_GLYPH, text))]
    rest = [text for text in messages if not re.match(MISSING_GLYPH, text)]
    if missing:
        letters = "".join(missing[:10]) + ("…" if len(missing) > 10 else "")
        rest.append(
            f"{letters} are not in the font and are drawn as boxes; set font.family in a "
            "matplotlibrc file to a font that has them"
        )
    for text in rest:
        warnings.warn(text, stacklevel=3)
