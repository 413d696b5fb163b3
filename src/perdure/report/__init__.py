"""Reports: tables, figures, one self-contained HTML page, and the live page."""

from __future__ import annotations

from pathlib import Path

from ..record import InputError

__all__ = ["check_output"]

FORMATS = ("pdf", "svg", "png")


def check_output(path: str | Path) -> Path:
    """Return the path of a figure to write; raise InputError if it cannot be written there.

    Example:
        >>> check_output("curves.jpg")
        Traceback (most recent call last):
        perdure.record.io.files.InputError: curves.jpg: expected a file name that ends in one of ...
    """
    target = Path(path)
    if target.suffix.lower().removeprefix(".") not in FORMATS:
        listed = ", ".join(f".{name}" for name in FORMATS)
        raise InputError(f"{target}: expected a file name that ends in one of {listed}")
    if not target.parent.is_dir():
        raise InputError(f"{target}: there is no folder {target.parent}; create it first")
    if target.is_dir():
        raise InputError(f"{target}: is a directory, expected a file")
    return target
