"""Text from untrusted files made safe to print on a terminal."""

from __future__ import annotations

import re

__all__ = ["escape_line"]

LINE_BREAKS = re.compile("[\t\n\v\f\r\x1c-\x1f\x85\u2028\u2029]+")


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
