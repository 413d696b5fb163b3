"""Formulas of metrics as SVG, rendered from LaTeX by matplotlib."""

from __future__ import annotations

import re
from html import escape

from matplotlib.path import Path as Outline
from matplotlib.textpath import TextPath

__all__ = ["render_formula"]

POINTS = 15.0
COMMANDS = {Outline.MOVETO: "M", Outline.LINETO: "L", Outline.CURVE3: "Q", Outline.CURVE4: "C"}
# LaTeX that matplotlib's mathtext lacks, and its replacement.
REPLACEMENTS = (
    (r"\\le(?![a-zA-Z])", r"\\leq"),
    (r"\\ge(?![a-zA-Z])", r"\\geq"),
    (r"\\t?frac(\w)(\w)", r"\\frac{\1}{\2}"),
    (r"\\frac", r"\\dfrac"),  # matplotlib draws a \frac in the size of an index
    (r"\\[bB]igg?(?![a-zA-Z])", ""),
    (r" \\(sum|min|max)(?=_)", r"\\;\\\1"),  # else what is below it touches its neighbour
)


def render_formula(latex: str) -> str:
    r"""Return a formula as SVG in the colour of the surrounding text.

    Example:
        >>> render_formula(r"\frac1T \sum_j R_{T,j}")[:17]
        '<svg role="img" a'
    """
    supported = latex
    for old, new in REPLACEMENTS:
        supported = re.sub(old, new, supported)
    outline = TextPath((0, 0), f"${supported}$", size=POINTS)
    box = outline.get_extents()
    at = f"{box.x0 - 1:.1f} {-box.y1 - 1:.1f} {box.width + 2:.1f} {box.height + 2:.1f}"
    parts = []
    for coordinates, code in outline.iter_segments():
        pairs = coordinates.reshape(-1, 2)
        numbers = " ".join(f"{x:.1f} {-y:.1f}" for x, y in pairs)
        parts.append("Z" if code == Outline.CLOSEPOLY else COMMANDS[code] + numbers)
    return (
        f'<svg role="img" aria-label="{escape(latex)}" viewBox="{at}" '
        f'width="{box.width + 2:.0f}" height="{box.height + 2:.0f}">'
        f'<path fill="currentColor" d="{"".join(parts)}"/></svg>'
    )
