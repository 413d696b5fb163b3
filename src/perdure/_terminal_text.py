"""Text from files as one line that drives no terminal."""

from __future__ import annotations

import re

__all__ = ["escape_line"]

BREAKS = re.compile("[\t\n\v\f\r\x1c-\x1f\x85\u2028\u2029]+")


def escape_line(text: str) -> str:
    r"""Return `text` in one line, with its control and format characters as escapes.

    Names, notes and failure messages come from files, which may be anybody's: an ESC would drive
    the terminal, a line break forge a line, and a right-to-left mark reorder one.

    Example:
        >>> escape_line("red: \x1b[31m"), escape_line("one\ntwo"), escape_line("größer ± 1")
        ('red: \\x1b[31m', 'one two', 'größer ± 1')
    """
    line = BREAKS.sub(" ", text)
    if line.isprintable():
        return line
    return "".join(
        each if each.isprintable() or each.isspace() else each.encode("unicode_escape").decode()
        for each in line
    )
