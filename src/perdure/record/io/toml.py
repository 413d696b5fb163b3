"""Reading TOML files that may be anything."""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING

from .files import InputError, check_depth, read_file

if TYPE_CHECKING:
    import os

__all__ = ["read_toml"]

MAX_BYTES = 1 << 20
# Python's parser takes quadratic time and memory in the number of parts of a key.
LONG_KEY = re.compile(rb"""(?<![\w"'-])(?:[\w"'-]+[ \t]*\.[ \t]*){64}""")
BARE_FRACTION = re.compile(rb"[=\[,]\s*-?\.\d")


def read_toml(path: str | os.PathLike[str], expected: str) -> dict[str, object]:
    """Return the contents of a TOML file, or raise InputError that says what was `expected`."""
    try:
        data = read_file(path, MAX_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(f"{path}: no such file, expected {expected}") from None
    if LONG_KEY.search(data):
        raise InputError(f"{path}: a key of more than 64 parts, expected a.b = 1")
    try:
        plain = tomllib.loads(data.decode())
    except RecursionError:
        raise InputError(f"{path}: cannot be read as TOML (nested too deeply)") from None
    except ValueError as error:  # also raised for a number of 5000 digits
        hint = "; TOML writes 0.1, not .1" if BARE_FRACTION.search(data) else ""
        raise InputError(
            f"{path}: cannot be read as TOML ({error}{hint}), expected {expected}"
        ) from None
    check_depth(plain, str(path))
    return plain
