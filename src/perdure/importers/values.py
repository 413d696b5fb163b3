"""Values in other tools' files: numbers, names of tasks, percent, and what Python prints."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from ..record import InputError
from ..record.formats.matrix_entry import MIN_TOP_PERCENT
from ..record.io.text import visible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .imported import Evaluation

__all__ = [
    "as_name",
    "as_number",
    "as_whole_number",
    "check_order",
    "find_unit",
    "parse_numbers",
    "parse_scalar",
    "parse_score",
    "split_items",
]

NUMPY = re.compile(r"np\.\w+\(([^()]*)\)|tensor\(([^()]*)\)")
TOKEN = re.compile(
    r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[\[({<]|[\])}>]|,|:|[^'"\[({<\])}>,:]+"""
)

MAX_DIGITS = 40
MAX_NAME = 200


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


def parse_score(text: str, where: str, what: str) -> float:
    """Return a cell of a table as a number, or raise InputError."""
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{where}: {what} is {text!r:.40}, expected a number") from None


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


def as_number(value: object, where: str) -> float | None:
    """Return a number, None for NaN (not measured), or raise InputError."""
    plain = isinstance(value, int | float) and not isinstance(value, bool)
    if isinstance(value, str) and len(value) <= MAX_DIGITS and "_" not in value:
        plain = True
    try:
        number = float(value) if plain else None  # type: ignore[arg-type]
    except (ValueError, OverflowError):
        number = None
    if number is None:
        raise InputError(f"{where} is {value!r:.60}, expected a number")
    if math.isnan(number):
        return None
    if math.isinf(number):
        raise InputError(f"{where} is {value!r:.60}, expected a finite number")
    return number


def as_whole_number(value: object, where: str, *, least: int) -> int:
    """Return a whole number, which may be written as 100.0, or raise InputError."""
    number = as_number(value, where)
    if number is None or number != int(number) or not least <= number < 1 << 53:
        raise InputError(f"{where} is {value!r:.60}, expected a whole number of at least {least}")
    return int(number)


def as_name(value: object, where: str) -> str:
    """Return the name of a task: text, or a whole number as text."""
    if isinstance(value, str):
        return visible(value.strip())[:MAX_NAME]
    return str(as_whole_number(value, where, least=0))


def check_order(
    evaluations: Sequence[Evaluation], order: Sequence[str], source: str
) -> list[Evaluation]:
    """Return the evaluations with names for numbered tasks; `order` has the names.

    Raises InputError if tasks were not learned in that order, or no trained task is evaluated.
    """
    trained = list(dict.fromkeys(e.trained for e in evaluations if e.trained is not None))
    if order and not trained:
        raise InputError(
            f"{source}: order is {','.join(order)}, but nothing says when each was trained; name "
            "it as trained in `columns=`"
        )
    names: dict[str, str] = {}
    if order and not set(trained) <= set(order):
        names = _number_tasks(trained, order, source)
    named = [
        e._replace(
            trained=names.get(e.trained, e.trained) if e.trained is not None else None,
            tested=e.tested if e.tested in order else names.get(e.tested, e.tested),
        )
        for e in evaluations
    ]
    learned = [names.get(name, name) for name in trained]
    if order and learned != list(order)[: len(learned)]:
        raise InputError(
            f"{source}: tasks were learned in the order {','.join(learned)}, but order is "
            f"{','.join(order)}"
        )
    tested = list(dict.fromkeys(e.tested for e in named))
    if learned and not set(learned) & set(tested):
        raise InputError(
            f"{source}: trained are {', '.join(learned[:5])}, and evaluated {', '.join(tested[:5])}"
            "; give the names of numbered tasks in `order=`"
        )
    return named


def _number_tasks(trained: Sequence[str], order: Sequence[str], source: str) -> dict[str, str]:
    """Return the name of each number of a task, counted from the lowest: 0 or 1."""
    if not all(name.isdecimal() and len(name) < 7 for name in trained):
        unknown = next(name for name in trained if name not in order)
        raise InputError(f"{source}: order lacks {unknown!r:.60}, which is trained")
    first = min(int(name) for name in trained)
    if first > 1 or max(int(name) for name in trained) - first >= len(order):
        raise InputError(
            f"{source}: tasks are numbered {', '.join(trained[:5])}, expected numbers from 0 or 1 "
            f"for the {len(order)} names of `order=`"
        )
    return {str(number): name for number, name in enumerate(order, first)}


def find_unit(scores: Sequence[float], percent: bool | None, source: str) -> tuple[int, list[str]]:
    """Return 100 for scores in percent and 1 for accuracies, and a note if that was found out."""
    low, high = min(scores), max(scores)
    if percent is None and low >= 0 and MIN_TOP_PERCENT < high <= 100:
        return 100, [f"scores up to {high:g} are read as percent"]
    unit = 100 if percent else 1
    if not 0 <= low <= high <= unit:
        raise InputError(
            f"{source}: scores from {low:g} to {high:g}, expected accuracies from 0 to 1, or "
            "percent with `percent=True`; losses need `lower_is_better=True`"
        )
    return unit, []
