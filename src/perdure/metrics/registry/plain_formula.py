r"""Formulas as plain text: the LaTeX of the registry in characters that a terminal shows."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["plain_formula"]

PIECE = re.compile(r"\\[a-zA-Z]+|\\.|\s+|.")
SYMBOLS = {
    r"\sum": "Σ", r"\max": "max", r"\min": "min", r"\arg": "arg ", r"\le": "≤", r"\ge": "≥",
    r"\in": "∈", r"\dots": "…", r"\int": "∫", r"\downarrow": "↓", r"\uparrow": "↑",
    r"\Delta": "Δ", r"\Omega": "Ω", r"\beta": "β", r"\gamma": "γ", r"\rho": "ρ", r"\theta": "θ",
    r"\varepsilon": "ε", r"\big": "", r"\Big": "", r"\,": " ", r"\;": " ", r"\%": "%",
    r"\{": "{", r"\}": "}",
}  # fmt: skip
GROUPS = {r"\mathrm": "{}", r"\text": "{}", r"\overline": "mean({})"}
FRACTIONS = (r"\frac", r"\tfrac")


def plain_formula(latex: str) -> str:
    r"""Return a formula of the registry as one line of plain text.

    An index of one word follows an underscore, a longer one is in brackets.

    Example:
        >>> plain_formula(r"\frac{1}{T-1} \sum_{j<T} (R_{T,j} - R_{j,j})")
        '1/(T-1) Σ[j<T] (R[T,j] - R[j,j])'
        >>> plain_formula(r"\mathrm{BWT}_{\mathrm{all}}")
        'BWT_all'
    """
    pieces = iter(PIECE.findall(latex))
    text = re.sub(r"\s+", " ", _sequence(pieces)).strip()
    text = text.replace("( ", "(").replace("arg min", "argmin").replace("Δ ", "Δ")
    return re.sub(r"\]\^(\S+)", r"..\1]", text)  # the limits of a sum


def _sequence(pieces: Iterator[str]) -> str:
    """Return the text up to the closing brace, or to the end."""
    text = ""
    for piece in pieces:
        if piece == "}":
            break
        text += _index(piece, _argument(pieces)) if piece in ("_", "^") else _one(piece, pieces)
    return text


def _one(piece: str, pieces: Iterator[str]) -> str:
    if piece == "{":
        return _sequence(pieces)
    if piece in FRACTIONS:
        return "/".join(_in_parentheses(_argument(pieces)) for _ in range(2))
    if piece in GROUPS:
        return GROUPS[piece].format(_argument(pieces))
    if piece in SYMBOLS:
        return SYMBOLS[piece]
    if piece.startswith("\\"):
        raise ValueError(f"no plain text for {piece}; add it to SYMBOLS")
    return piece


def _argument(pieces: Iterator[str]) -> str:
    """Return the next piece or group, without the spaces before it."""
    for piece in pieces:
        if not piece.isspace():
            return _one(piece, pieces)
    return ""


def _index(kind: str, index: str) -> str:
    """Return a subscript or superscript."""
    index = re.sub(r"\s*([≤≥<>=∈])\s*", r"\1", index).strip()
    if kind == "^":
        return f"^{index}"
    return f"_{index}" if re.fullmatch(r"[^\W_]+|.", index) else f"[{index}]"


def _in_parentheses(text: str) -> str:
    """Return one side of a fraction, in parentheses unless it is a single term."""
    single = re.fullmatch(r"[\w.]+(\[[^\[\]]*\]|\^\w)?|\|\w+\|", text)
    return text if single else f"({text.strip()})"
