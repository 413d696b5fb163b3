"""Names that were nearly right."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["suggest_names"]


def suggest_names(name: str, known: Iterable[str]) -> str:
    """Return the names that `name` may have been meant for, as part of a message, or nothing.

    Example:
        >>> suggest_names("replya", ["naive", "replay"]), suggest_names("x", ["naive"])
        ('did you mean replay? ', '')
    """
    plain = {each.lower(): each for each in known}
    found = [
        plain[each] for each in difflib.get_close_matches(name.lower(), plain, n=3, cutoff=0.5)
    ]
    return f"did you mean {' or '.join(found)}? " if found else ""
