"""Tables on a terminal, split into several parts where they are too wide."""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .text_table import TextTable

__all__ = ["print_table", "split_columns"]

COLUMN_GAP = 2  # spaces between columns
MIN_TEXT_WIDTH = 12  # a column of text may be wrapped to this many characters


def print_table(content: TextTable, out: TextIO) -> None:
    """Write a table to a terminal; text may be wrapped, numbers never are."""
    from rich.console import Console  # imported here: JSON output and pipes do not need it
    from rich.table import Table
    from rich.text import Text

    console = Console(file=out, highlight=False)
    rows = content.cells()
    blocks = split_columns([content.header, *rows], content.right, console.width)
    names = max(len(row[0]) for row in [content.header, *rows])
    for part, columns in enumerate(blocks):
        title = content.title if not part else None
        table = Table(title=title or None, title_justify="left", box=None, pad_edge=False)
        for k in columns:
            numbers = content.header[k] in content.right
            table.add_column(
                Text(content.header[k]),
                justify="right" if numbers else "left",
                no_wrap=numbers or (k == 0 and names <= console.width // 2),
                overflow="fold",  # wrap instead of cutting off
            )
        for i, row in enumerate(rows):
            # Text, because names may contain markup
            table.add_row(*(Text(row[k], content.style((i, k))) for k in columns))
        if part:
            console.print()
        console.print(table)


def split_columns(table: Sequence[Sequence[str]], right: set[str], width: int) -> list[list[int]]:
    """Return the columns of each part of a wide table; the first column is in every part.

    Args:
        table: header and rows.
        right: names of the columns of numbers, which are never wrapped.
        width: characters per line.

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
