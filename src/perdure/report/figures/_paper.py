"""Paper and slides: sizes, letters and lines that all figures share, and how they are saved."""

from __future__ import annotations

import re
import warnings
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties

from ...record import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    Size = Literal["column", "page", "slide"]

__all__ = ["FORMATS", "SIZES", "add_title", "new_figure", "save", "split_into_rows"]

FORMATS = ("pdf", "svg", "png")
MISSING = r"Glyph (\d+) "  # how matplotlib begins, for every letter and every time it looks for it
# Width in inches and letters in points: a column and a page of a paper, a 16:9 slide.
SIZES: dict[str, tuple[float, float]] = {"column": (3.4, 8), "page": (7.0, 8), "slide": (12.0, 16)}


@contextmanager
def new_figure(
    size: Size, height: float, rows: int = 1, columns: int = 1, **axes: Any
) -> Iterator[Figure]:
    """Give a figure with `rows` x `columns` axes to draw on; `height` is a share of its width.

    Example:
        >>> with new_figure("page", 0.5, 1, 2) as figure:
        ...     _ = figure.axes[0].set_title("left")
        >>> figure.get_size_inches().tolist(), len(figure.axes)
        ([7.0, 3.5], 2)
    """
    if size not in SIZES:
        raise InputError(f"size is {size!r:.40}, expected one of {', '.join(SIZES)}")
    width, points = SIZES[size]
    with mpl.rc_context(_letters(points)), warnings.catch_warnings():
        warnings.filterwarnings("ignore", MISSING)  # `save` says it once
        figure = Figure(figsize=(width, width * height), layout="constrained")
        figure.subplots(rows, columns, squeeze=False, **axes)
        yield figure


def _letters(points: float) -> Any:  # the names of settings are typed one by one
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
    """Return rows and columns for so many panels, at most `most` beside each other.

    Example:
        >>> split_into_rows(5), split_into_rows(3)
        ((2, 4), (1, 3))
    """
    columns = min(count, most)
    return -(-count // columns), columns


def add_title(figure: Figure, title: str) -> None:
    """Put a title above a figure: over its legend, where there is one at the top.

    Example:
        >>> with new_figure("page", 0.5) as figure:
        ...     add_title(figure, "Forgotten")
        >>> figure.get_suptitle()
        'Forgotten'
    """
    text = title.replace("$", r"\$")
    size = 1.2 * float(figure.axes[0].title.get_fontsize())
    if figure.legends:  # the layout keeps no two things apart there
        figure.legends[0].set_title(text, prop=FontProperties(size=size))
    else:
        figure.suptitle(text, fontsize=size)


def save(figure: Figure, path: str | Path, dpi: int = 200) -> Path:
    """Return the path that the figure was written to, in the format its ending names.

    Letters stay letters in PDF and SVG, and the same figure gives the same bytes. Warns once of
    letters that the font does not have.
    """
    target = Path(path)
    form = target.suffix.lower().removeprefix(".")
    if form not in FORMATS:
        named = ", ".join(f".{each}" for each in FORMATS)
        raise InputError(f"{target}: a figure is written as {named}; end the name in one of them")
    if not target.parent.is_dir():
        raise InputError(f"{target}: there is no folder {target.parent}; make it first")
    fixed: Any = {"svg.hashsalt": "perdure", "svg.fonttype": "none", "pdf.fonttype": 42}
    undated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(form, {})
    try:
        with mpl.rc_context(fixed), warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            figure.savefig(target, dpi=dpi, metadata=undated)
    except OSError as error:
        raise InputError(f"{target}: {(error.strerror or 'cannot be written').lower()}") from None
    _tell({str(each.message): None for each in told})
    return target


def _tell(told: Iterable[str]) -> None:
    """Pass warnings on, those of letters that are in no font as one."""
    lacks = [chr(int(found[1])) for text in told if (found := re.match(MISSING, text))]
    rest = [text for text in told if not re.match(MISSING, text)]
    if lacks:
        letters = "".join(lacks[:10]) + ("…" if len(lacks) > 10 else "")
        rest.append(
            f"{letters} are not in the font and are drawn as boxes; name a font that has them as "
            "font.family in a matplotlibrc file"
        )
    for text in rest:
        warnings.warn(text, stacklevel=3)
