"""Names as people type them: spelling that does not matter, and suggestions."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["normalize_name", "suggest_names"]


def normalize_name(name: str) -> str:
    """Return a name without case, spaces, hyphens and underscores.

    Example:
        >>> normalize_name("WC-ACC"), normalize_name("Backward Transfer")
        ('wcacc', 'backwardtransfer')
    """
    return "".join(character for character in name.casefold() if character not in " -_")


def suggest_names(name: str, known: Iterable[str]) -> str:
    """Return "did you mean …? " with the known names closest to `name`, or an empty string.

    Example:
        >>> suggest_names("replya", ["naive", "replay"]), suggest_names("x", ["naive"])
        ('did you mean replay? ', '')
    """
    by_lowercase: dict[str, str] = {}
    for candidate in known:
        by_lowercase.setdefault(candidate.lower(), candidate)
    matches = difflib.get_close_matches(name.lower(), by_lowercase, n=3, cutoff=0.5)
    if not matches:
        return ""
    return f"did you mean {' or '.join(by_lowercase[match] for match in matches)}? "
