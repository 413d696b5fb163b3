"""Values that Python programs print: scalars, lists and dictionaries; nothing is evaluated."""

from __future__ import annotations

import math
import re

__all__ = ["parse_numbers", "parse_scalar", "split_items"]

NUMPY = re.compile(r"np\.\w+\(([^()]*)\)|tensor\(([^()]*)\)")
TOKEN = re.compile(
    r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[\[({<]|[\])}>]|,|:|[^'"\[({<\])}>,:]+"""
)


def parse_scalar(text: str) -> str | int | float | bool | None:
    """Return a number, True, False or None as such, and any other text as it is.

    Example:
        >>> [parse_scalar(text) for text in ("3", "1e-3", "True", "'er'", "np.float64(0.5)", "nan")]
        [3, 0.001, True, 'er', 0.5, 'nan']
    """
    text = NUMPY.sub(lambda match: match[1] or match[2] or "", text.strip())
    words = {"True": True, "False": False, "None": None}
    if text in words:
        return words[text]
    for convert in (int, float):
        try:
            number = convert(text)
        except ValueError:
            continue
        return number if len(text) < 40 and math.isfinite(number) else text
    quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "'\""
    return text[1:-1] if quoted else text


def parse_numbers(text: str) -> list[float]:
    """Return the numbers of a list as Python prints it, or raise ValueError.

    Example:
        >>> parse_numbers("[np.float64(97.5), 80.0]")
        [97.5, 80.0]
    """
    inside = text.strip()
    if not (inside.startswith("[") and inside.endswith("]")):
        raise ValueError(f"{text!r:.60} is not a list of numbers")
    parts = [NUMPY.sub(lambda m: m[1] or m[2] or "", part) for part in inside[1:-1].split(",")]
    return [float(part) for part in parts if part.strip()]


def split_items(text: str) -> dict[str, str]:
    r"""Return the entries of a dictionary as Python prints it, values as text.

    Raises ValueError if the text is no dictionary, or ends inside it.

    Example:
        >>> split_items("{'lr': 0.1, 'on': device(type='cpu'), 'b': [1, 2], 'c': \"x, 'y': 1\"}")
        {'lr': '0.1', 'on': "device(type='cpu')", 'b': '[1, 2]', 'c': '"x, \'y\': 1"'}
    """
    stripped = text.strip()
    if not stripped.startswith("{"):
        raise ValueError("not a dictionary")
    items: dict[str, str] = {}
    depth, key, value = 0, "", ""
    for match in TOKEN.finditer(stripped):
        part = match[0]
        if part in "[({<":
            depth += 1
        elif part in "])}>":
            depth -= 1
        if depth == 0 or (depth == 1 and part == ","):
            if key.strip():
                items[str(parse_scalar(key))] = value.strip()
            key, value = "", ""
            if depth == 0:
                return items
        elif depth == 1 and part == ":" and not key:
            key, value = value, ""
        elif match.start() > 0:
            value += part
    raise ValueError("ends inside a dictionary")
