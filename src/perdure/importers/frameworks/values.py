"""Values written as text in the logs of Python programs; nothing is evaluated."""

from __future__ import annotations

import math

__all__ = ["parse_scalar"]


def parse_scalar(text: str) -> str | int | float | bool | None:
    """Return a number, True, False or None as such, and any other text as it is.

    Example:
        >>> [parse_scalar(text) for text in ("3", "1e-3", "True", "None", "er_ace", "nan")]
        [3, 0.001, True, None, 'er_ace', 'nan']
    """
    text = text.strip()
    words = {"True": True, "False": False, "None": None}
    if text in words:
        return words[text]
    for convert in (int, float):
        try:
            number = convert(text)
        except ValueError:
            continue
        return number if math.isfinite(number) and len(text) < 40 else text
    return text
