"""Tables on a terminal: as they are if they fit, else wrapped, in several parts, or as a list.

1. A table that fits is printed as it is.
2. Columns of text are wrapped, but not to fewer than 24 characters, or 16 next to numbers.
3. A table of numbers that is still too wide is split into several, each with the first column.
4. A table of text that is still too wide becomes a list, with one block per row.

Numbers are never wrapped, and nothing is cut off. In a pipe, none of this applies: there, a row is
always one line, so that `grep` finds it whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    from .text_table import TextTable

__all__ = ["choose_parts", "print_table", "render_table"]

COLUMN_GAP = 2  # spaces between columns
TEXT_WIDTH = 24  # to which a column of text may be wrapped next to others
TEXT_WIDTH_NEXT_TO_NUMBERS = 16  # a name in two lines is easier to read than two tables
MIN_TEXT_WIDTH = 12  # to which the only column of a part may be wrapped


def print_table(content: TextTable, out: TextIO) -> None:
    """Write a table to a terminal, in the width it has."""
    from rich.console import Console  # imported here: JSON output and pipes do not need it

    console = Console(file=out, highlight=False)
    console.print(render_table(content, console.width))


def render_table(content: TextTable, width: int) -> Group:
    """Return a table that fits into `width` characters, for a rich console."""
    from rich.console import Group
    from rich.text import Text

    rows = [content.header, *content.cells()]
    parts = choose_parts(rows, content.right, width, content.keys)
    blocks: list[Text | Table] = [Text(content.title, "italic")] if content.title else []
    if parts is None:
        return Group(*blocks, *_render_list(content, width))
    for number, columns in enumerate(parts):
        blocks += [Text("")] * (number > 0)
        blocks.append(_render_part(content, columns, width))
    return Group(*blocks)


def choose_parts(
    table: Sequence[Sequence[str]], right: set[str], width: int, keys: int = 1
) -> list[list[int]] | None:
    """Return the columns of each part of a table, or None if it is to be a list.

    Args:
        table: header and rows.
        right: names of the columns of numbers, which are never wrapped.
        width: characters per line.
        keys: how many of the first columns are in every part.

    Example:
        >>> table = [["id", "one", "two"], ["a", "0.123", "0.456"]]
        >>> choose_parts(table, {"one", "two"}, 80), choose_parts(table, {"one", "two"}, 12)
        ([[0, 1, 2]], [[0, 1], [0, 2]])
        >>> choose_parts([["id", "one", "two"], ["a", "word " * 9, "word " * 9]], set(), 40)
    """
    header, widths = table[0], _natural_widths(table)

    def least(columns: Sequence[int], text_width: int) -> int:
        narrow = [
            widths[k] if not k or header[k] in right else min(widths[k], text_width)
            for k in columns
        ]
        return sum(narrow) + COLUMN_GAP * (len(narrow) - 1)

    everything = list(range(len(header)))
    has_numbers = sum(name in right for name in header) >= 2
    if least(everything, TEXT_WIDTH_NEXT_TO_NUMBERS if has_numbers else TEXT_WIDTH) <= width:
        return [everything]
    has_text = any(widths[k] > TEXT_WIDTH and header[k] not in right for k in range(1, len(header)))
    if has_text and not has_numbers:
        return None
    parts = [everything[:keys]]
    for k in everything[keys:]:
        if len(parts[-1]) > keys and least([*parts[-1], k], TEXT_WIDTH) > width:
            parts.append(everything[:keys])
        parts[-1].append(k)
    return parts if all(least(part, MIN_TEXT_WIDTH) <= width for part in parts) else None


def _natural_widths(table: Sequence[Sequence[str]]) -> list[int]:
    from rich.cells import cell_len

    return [max(cell_len(row[k]) for row in table) for k in range(len(table[0]))]


def _render_part(content: TextTable, columns: Sequence[int], width: int) -> Table:
    """Return some columns as a table; the widest columns of text are wrapped until they fit."""
    from rich.table import Table
    from rich.text import Text

    rows, header = content.cells(), content.header
    natural = _natural_widths([header, *rows])
    widths = {k: natural[k] for k in columns}
    text = [k for k in columns if k and header[k] not in content.right]
    while text and sum(widths.values()) + COLUMN_GAP * (len(columns) - 1) > width:
        widths[max(text, key=widths.__getitem__)] -= 1
    table = Table(box=None, pad_edge=False)
    for k in columns:
        table.add_column(
            Text(header[k]),
            justify="right" if header[k] in content.right else "left",
            width=widths[k],
            overflow="fold",  # wrap instead of cutting off
        )
    for i, row in enumerate(rows):
        # Text, because names may contain markup
        table.add_row(*(Text(row[k], content.style((i, k))) for k in columns))
    return table


def _render_list(content: TextTable, width: int) -> list[Text | Table]:
    """Return one block per row: its first cell, and below it the others next to their headings."""
    from rich.table import Table
    from rich.text import Text

    labels = min(max(map(len, content.header[1:])), width // 3)
    blocks: list[Text | Table] = []
    for i, row in enumerate(content.cells()):
        blocks += [Text("")] * (i > 0)
        unnamed = [cell for name, cell in zip(content.header[1:], row[1:], strict=True) if not name]
        heading = " ".join(filter(None, [row[0], *unnamed]))  # such as an arrow
        blocks.append(Text(heading, content.style((i, 0)) or "bold", overflow="fold"))
        block = Table(box=None, pad_edge=False, show_header=False)
        block.add_column(width=0)
        block.add_column(width=labels, overflow="fold")
        block.add_column(width=max(1, width - labels - 2 * COLUMN_GAP), overflow="fold")
        for k, cell in enumerate(row[1:], 1):
            if cell and content.header[k]:
                block.add_row("", Text(content.header[k]), Text(cell, content.style((i, k))))
        blocks.append(block)
    return blocks
