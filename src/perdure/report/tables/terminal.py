"""A table on a terminal: as wide as it has room, in several parts where it has not."""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .text_table import TextTable

__all__ = ["print_table", "split_columns"]

COLUMN_GAP = 2  # blanks between columns
MIN_TEXT_WIDTH = 12  # characters that a column of words may be folded to


def print_table(grid: TextTable, out: TextIO) -> None:
    """Write a table to a terminal; no number is cut or folded, words are."""
    from rich.console import Console  # imported here: not needed for --format json and pipes
    from rich.table import Table
    from rich.text import Text

    console = Console(file=out, highlight=False)
    rows = grid.cells()
    blocks = split_columns([grid.header, *rows], grid.right, console.width)
    names = max(len(row[0]) for row in [grid.header, *rows])
    for place, columns in enumerate(blocks):
        title = grid.title if not place else None
        table = Table(title=title or None, title_justify="left", box=None, pad_edge=False)
        for k in columns:
            numbers = grid.header[k] in grid.right
            table.add_column(
                Text(grid.header[k]),
                justify="right" if numbers else "left",
                no_wrap=numbers or (k == 0 and names <= console.width // 2),
                overflow="fold",  # nothing is cut off
            )
        for i, row in enumerate(rows):
            # Text: names may hold markup
            table.add_row(*(Text(row[k], grid.style((i, k))) for k in columns))
        if place:
            console.print()
        console.print(table)


def split_columns(table: Sequence[Sequence[str]], right: set[str], width: int) -> list[list[int]]:
    """Return which columns stand beside each other; the first is in every part.

    Args:
        table: header and rows.
        right: the names of columns of numbers, which are never folded.
        width: characters in a line.

    Example:
        >>> table = [["id", "one", "two"], ["a", "0.123", "0.456"]]
        >>> split_columns(table, {"one", "two"}, 80), split_columns(table, {"one", "two"}, 12)
        ([[0, 1, 2]], [[0, 1], [0, 2]])
    """
    widths = [max(len(row[k]) for row in table) for k in range(len(table[0]))]
    least = [
        wide if name in right or not k else min(wide, MIN_TEXT_WIDTH)
        for k, (name, wide) in enumerate(zip(table[0], widths, strict=True))
    ]
    blocks, used = [[0]], least[0]
    for k in range(1, len(least)):
        if used + COLUMN_GAP + least[k] > width and len(blocks[-1]) > 1:
            blocks.append([0])
            used = least[0]
        blocks[-1].append(k)
        used += COLUMN_GAP + least[k]
    return blocks
