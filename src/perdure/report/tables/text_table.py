"""A table as plain data, written as text, Markdown, LaTeX or CSV."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TextIO

from ..._terminal_text import escape_line
from ...metrics import metric_symbol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["TextTable"]


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
            return
        from .terminal import print_table

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
