"""A table as plain data, written as text, Markdown, LaTeX or CSV.

On a terminal:

1. A table that fits is printed as it is.
2. Columns of text are wrapped, but not to fewer than 24 characters, or 16 next to numbers.
3. A table of numbers that is still too wide is split into several, each with the first column.
4. A table of text that is still too wide becomes a list, with one block per row.

Numbers are never wrapped, and nothing is cut off. In a pipe, none of this applies: there, a row is
always one line, so that `grep` finds it whole.
"""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TextIO

from ..._display import escape_line
from ...metrics import metric_symbol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

__all__ = ["TextTable", "choose_parts", "print_table", "render_table"]

Cell = tuple[int, int]  # row, column; the header is row -1


@dataclass
class TextTable:
    """A header and rows of text; columns named in `right` are right-aligned numbers.

    Cells in `best` are bold, those in `second` underlined (Markdown cannot underline).
    `superscripts` follow a cell, for example letters of significance. `ids` are the cells that
    start with the id of a metric, for which LaTeX has a symbol.
    """

    header: list[str]
    rows: list[list[str]]
    title: str = ""
    right: set[str] = field(default_factory=set)
    best: set[Cell] = field(default_factory=set)
    second: set[Cell] = field(default_factory=set)
    superscripts: dict[Cell, str] = field(default_factory=dict)
    keys: int = 1  # of the first columns, which say what a row is about
    ids: dict[Cell, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.title = escape_line(self.title)
        self.header = [escape_line(cell) for cell in self.header]
        self.rows = [[escape_line(cell) for cell in row] for row in self.rows]
        self.right = {escape_line(name) for name in self.right}
        self.superscripts = {cell: escape_line(text) for cell, text in self.superscripts.items()}

    def text(self) -> str:
        """Return aligned plain text, for pipes and logs.

        Example:
            >>> print(TextTable(["id", "value"], [["acc", "0.5"]], right={"value"}).text())
            id   value
            acc    0.5
        """
        table = [self.header, *self.cells()]
        widths = [max(len(row[k]) for row in table) for k in range(len(self.header))]
        lines = [self.title] if self.title else []
        for row in table:
            cells = [
                cell.rjust(width) if name in self.right else cell.ljust(width)
                for name, cell, width in zip(self.header, row, widths, strict=True)
            ]
            lines.append("  ".join(cells).rstrip())
        return "\n".join(lines)

    def show(self, out: TextIO) -> None:
        """Write the table for people: fitted to a terminal, plain text elsewhere."""
        if not out.isatty():
            out.write(self.text() + "\n")
        else:
            print_table(self, out)

    def markdown(self) -> str:
        r"""Return a Markdown table.

        Example:
            >>> print(TextTable(["id", "value"], [["a|b", "0.5"]], right={"value"}).markdown())
            | id | value |
            |---|---:|
            | a\|b | 0.5 |
        """
        rule = ["---:" if name in self.right else "---" for name in self.header]
        body = self._cells(_markdown, best="**{}**", superscript="<sup>{}</sup>")
        rows = [list(map(_markdown, self.header)), *body]
        lines = [f"| {' | '.join(row)} |" for row in rows]
        lines.insert(1, f"|{'|'.join(rule)}|")
        return "\n".join(([f"**{_markdown(self.title)}**", ""] if self.title else []) + lines)

    def latex(self, *, symbols: bool = True) -> str:
        r"""Return a LaTeX table in the booktabs style, with symbols of metrics or with their ids.

        Example:
            >>> table = TextTable(["bwt ↑"], [["-0.5"]], right={"bwt ↑"}, ids={(-1, 0): "bwt"})
            >>> print(table.latex())
            \begin{tabular}{r}
            \toprule
            $\mathrm{BWT}$ $\uparrow$ \\
            \midrule
            $-$0.5 \\
            \bottomrule
            \end{tabular}
        """
        ids = self.ids if symbols else {}
        spec = "".join("r" if name in self.right else "l" for name in self.header)
        titles = [
            _latex_with_symbol(cell, ids[-1, k]) if (-1, k) in ids else _latex(cell)
            for k, cell in enumerate(self.header)
        ]
        if titles[0] == "id" and ids:
            titles[0] = "metric"
        head = " & ".join(titles)
        marked = self._cells(
            _latex,
            ids=ids,
            best=r"\textbf{{{}}}",
            second=r"\underline{{{}}}",
            superscript=r"\textsuperscript{{{}}}",
        )
        body = [" & ".join(row) + r" \\" for row in marked]
        lines = [rf"\begin{{tabular}}{{{spec}}}", r"\toprule", head + r" \\", r"\midrule"]
        return "\n".join([*lines, *body, r"\bottomrule", r"\end{tabular}"])

    def csv(self) -> str:
        """Return comma-separated values with a header."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerows([self.header, *self.rows])
        return out.getvalue().rstrip("\n")

    def _cells(
        self,
        escape: Callable[[str], str] = str,
        *,
        ids: Mapping[Cell, str] | None = None,
        best: str = "{}",
        second: str = "{}",
        superscript: str = "{}",
    ) -> list[list[str]]:
        """Return the escaped rows, with the marks of a format for best, second and superscripts."""
        rows = [list(map(escape, row)) for row in self.rows]
        for (i, k), id_ in (ids or {}).items():
            if i >= 0:
                rows[i][k] = _latex_with_symbol(self.rows[i][k], id_)
        for cells, mark in ((self.best, best), (self.second, second)):
            for i, k in cells:
                rows[i][k] = mark.format(rows[i][k])
        for (i, k), text in self.superscripts.items():
            rows[i][k] += superscript.format(escape(text)) if text else ""
        return rows

    def cells(self) -> list[list[str]]:
        """Return the rows as a terminal shows them."""
        return self._cells(superscript=" {}")

    def style(self, cell: Cell) -> str:
        """Return how a terminal writes a cell: bold, underlined, or plain."""
        return "bold" if cell in self.best else "underline" if cell in self.second else ""


def _markdown(cell: str) -> str:
    cell = cell.replace("\\", "\\\\").replace("|", r"\|").replace("\n", " ")
    cell = cell.replace("<", "&lt;").replace("*", r"\*").replace("`", r"\`").replace("[", r"\[")
    return re.sub(r"(?<!\w)_|_(?!\w)", r"\_", cell)  # inside a word it is not markup


def _latex_with_symbol(cell: str, id_: str) -> str:
    """Return a cell that starts with the id of a metric, with its symbol instead."""
    symbol = metric_symbol(id_)
    words = re.fullmatch(r"\\text\{(.*)\}", symbol)  # of amsmath, which a paper may not load
    return (words[1] if words else f"${symbol}$") + _latex(cell.removeprefix(id_))


def _latex(cell: str) -> str:
    special = {
        "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
        "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", "…": r"\dots{}",
        "±": r"$\pm$", "↑": r"$\uparrow$", "↓": r"$\downarrow$", "≤": r"$\le$",
        **{character: "\\" + character for character in "&%$#_{}"},
    }  # fmt: skip
    escaped = "".join(special.get(character, character) for character in cell)
    return re.sub(r"(?<![\w.-])-(?=\d)", "$-$", escaped)  # a minus, not a hyphen


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
