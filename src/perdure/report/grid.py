"""A table as plain data, and its four written forms."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Grid"]


@dataclass
class Grid:
    """A header and rows of text; columns named in `right` are numbers."""

    header: list[str]
    rows: list[list[str]]
    title: str = ""
    right: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        # Names come from files: a control character could steer a terminal or break a table.
        self.header = [_visible(cell) for cell in self.header]
        self.rows = [[_visible(cell) for cell in row] for row in self.rows]
        self.right = {_visible(name) for name in self.right}

    def text(self) -> str:
        """Return aligned plain text, for pipes and logs.

        Example:
            >>> print(Grid(["id", "value"], [["acc", "0.5"]], right={"value"}).text())
            id   value
            acc    0.5
        """
        table = [self.header, *self.rows]
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
        from rich.console import Console  # imported here: not needed for --json and pipes
        from rich.table import Table
        from rich.text import Text

        table = Table(title=self.title or None, title_justify="left", box=None, pad_edge=False)
        for k, name in enumerate(self.header):
            numbers = name in self.right
            table.add_column(
                Text(name),
                justify="right" if numbers else "left",
                no_wrap=numbers or k == 0,
                overflow="fold",  # nothing is cut off
            )
        for row in self.rows:
            table.add_row(*(Text(cell) for cell in row))  # Text: names may hold markup
        Console(file=out).print(table)

    def markdown(self) -> str:
        r"""Return a Markdown table.

        Example:
            >>> print(Grid(["id", "value"], [["a|b", "0.5"]], right={"value"}).markdown())
            | id | value |
            |---|---:|
            | a\|b | 0.5 |
        """
        rule = ["---:" if name in self.right else "---" for name in self.header]
        lines = [self._line(self.header, _markdown), f"|{'|'.join(rule)}|"]
        lines += [self._line(row, _markdown) for row in self.rows]
        return "\n".join(([f"**{_markdown(self.title)}**", ""] if self.title else []) + lines)

    def latex(self) -> str:
        r"""Return a LaTeX table in the booktabs style.

        Example:
            >>> print(Grid(["id", "value"], [["min_acc", "0.5"]], right={"value"}).latex())
            \begin{tabular}{lr}
            \toprule
            id & value \\
            \midrule
            min\_acc & 0.5 \\
            \bottomrule
            \end{tabular}
        """
        spec = "".join("r" if name in self.right else "l" for name in self.header)
        head = " & ".join(map(_latex, self.header))
        body = [" & ".join(map(_latex, row)) + r" \\" for row in self.rows]
        lines = [rf"\begin{{tabular}}{{{spec}}}", r"\toprule", head + r" \\", r"\midrule"]
        return "\n".join([*lines, *body, r"\bottomrule", r"\end{tabular}"])

    def csv(self) -> str:
        """Return comma-separated values with a header."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerows([self.header, *self.rows])
        return out.getvalue().rstrip("\n")

    @staticmethod
    def _line(cells: list[str], escape: Callable[[str], str]) -> str:
        return f"| {' | '.join(map(escape, cells))} |"


def _visible(cell: str) -> str:
    return re.sub(r"[\x00-\x1f\x7f-\x9f]", "\ufffd", cell)


def _markdown(cell: str) -> str:
    cell = cell.replace("\\", "\\\\").replace("|", r"\|").replace("\n", " ")
    cell = cell.replace("<", "&lt;").replace("*", r"\*").replace("`", r"\`").replace("[", r"\[")
    return re.sub(r"(?<!\w)_|_(?!\w)", r"\_", cell)  # inside a word it is no markup


def _latex(cell: str) -> str:
    special = {
        "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
        "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", "…": r"\dots{}",
        "±": r"$\pm$", "↑": r"$\uparrow$", "↓": r"$\downarrow$", "≤": r"$\le$",
        **{character: "\\" + character for character in "&%$#_{}"},
    }  # fmt: skip
    escaped = "".join(special.get(character, character) for character in cell)
    return re.sub(r"(?<![\w.-])-(?=\d)", "$-$", escaped)  # a minus, not a hyphen
