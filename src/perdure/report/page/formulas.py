"""Formulas as pictures: the LaTeX of the table of metrics, drawn by matplotlib."""

from __future__ import annotations

import re
from html import escape

from matplotlib.path import Path as Outline
from matplotlib.textpath import TextPath

__all__ = ["render_formula"]

POINTS = 15.0
COMMANDS = {Outline.MOVETO: "M", Outline.LINETO: "L", Outline.CURVE3: "Q", Outline.CURVE4: "C"}
# What matplotlib's own small LaTeX does not know, in words that it does.
INSTEAD = (
    (r"\\le(?![a-zA-Z])", r"\\leq"),
    (r"\\ge(?![a-zA-Z])", r"\\geq"),
    (r"\\t?frac(\w)(\w)", r"\\frac{\1}{\2}"),
    (r"\\[bB]igg?(?![a-zA-Z])", ""),
    (r"\\text\{", r"\\mathrm{"),
)


def render_formula(latex: str) -> str:
    r"""Return a formula as an SVG picture in the colour of the text around it.

    Example:
        >>> render_formula(r"\frac1T \sum_j R_{T,j}")[:17]
        '<svg role="img" a'
    """
    known = latex
    for old, new in INSTEAD:
        known = re.sub(old, new, known)
    outline = TextPath((0, 0), f"${known}$", size=POINTS)
    box = outline.get_extents()
    at = f"{box.x0 - 1:.1f} {-box.y1 - 1:.1f} {box.width + 2:.1f} {box.height + 2:.1f}"
    parts = []
    for places, code in outline.iter_segments():
        pairs = places.reshape(-1, 2)
        numbers = " ".join(f"{x:.1f} {-y:.1f}" for x, y in pairs)
        parts.append("Z" if code == Outline.CLOSEPOLY else COMMANDS[code] + numbers)
    return (
        f'<svg role="img" aria-label="{escape(latex)}" viewBox="{at}" '
        f'width="{box.width + 2:.0f}" height="{box.height + 2:.0f}">'
        f'<path fill="currentColor" d="{"".join(parts)}"/></svg>'
    )
