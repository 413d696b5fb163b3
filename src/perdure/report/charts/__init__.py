"""The charts of the report and of the live page: SVG that is drawn by a few small scripts.

No library: what the pages need is few curves with few points, and printing, themes, the keyboard
and names as plain text, which libraries that draw on a canvas do not offer.
"""

from __future__ import annotations

import re
from importlib.resources import files

__all__ = ["MODULES", "STYLE", "join_modules", "read_file"]

MODULES = (
    "scale.js",
    "elements.js",
    "pointer.js",
    "plot.js",
)  # each imports only from those before it
STYLE = "plot.css"


def read_file(name: str) -> str:
    """Return a module or the style sheet.

    Example:
        >>> "export class Plot" in read_file("plot.js")
        True
    """
    return (files(__name__) / name).read_text("utf-8")


def join_modules() -> str:
    """Return all modules as one, for a page that has no server to import them from.

    Example:
        >>> "import " in join_modules()
        False
    """
    return re.sub(r"^import .*\n", "", "".join(map(read_file, MODULES)), flags=re.MULTILINE)
