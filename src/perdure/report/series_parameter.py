"""The one value in which methods of a series differ: a memory size, an angle, a learning rate."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from ..record import InputError
from ..record.grouping import unlike
from ..record.run_index import said_in
from .load import get_config

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .load import RunsByMethod

__all__ = ["SeriesParameter", "find_series_parameter"]

NUMBER = re.compile(r"(?<![\d.])\d+(?:\.\d+)?(?:e[-+]?\d+)?", re.IGNORECASE)


class SeriesParameter(NamedTuple):
    """What differs, and its value by method, lowest first."""

    name: str
    of: dict[str, float]


def find_series_parameter(methods: RunsByMethod) -> SeriesParameter:
    """Return in which one number the methods differ: from their descriptions, or their names.

    Example:
        >>> find_series_parameter({"er 2000": [], "er 500": []})
        SeriesParameter(name='er', of={'er 500': 500.0, 'er 2000': 2000.0})
    """
    if len(methods) < 2:
        raise InputError(
            f"a series needs at least 2 methods, got {len(methods)}; see perdure compare"
        )
    said = [said_in(get_config(runs[0])) if runs else {} for runs in methods.values()]
    strategies = sorted({str(each["strategy"]) for each in said if "strategy" in each})
    if len(strategies) > 1:
        raise InputError(
            f"methods are {', '.join(strategies)}, expected one; draw them with curves"
        )
    found = _described(methods, said) or _named(methods)
    return SeriesParameter(found.name, dict(sorted(found.of.items(), key=lambda item: item[1])))


def _described(methods: RunsByMethod, said: list[dict[str, Any]]) -> SeriesParameter | None:
    """Return the value that descriptions tell, or None where they do not tell one."""
    keys = unlike(said)
    if len(keys) != 1 or not all(keys[0] in each for each in said):
        return None
    values = [each[keys[0]] for each in said]
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        short = keys[0].rpartition(".")[2]
        return SeriesParameter(short, dict(zip(methods, map(float, values), strict=True)))
    return _numbered(dict(zip(methods, map(str, values), strict=True)))


def _named(methods: RunsByMethod) -> SeriesParameter:
    found = _numbered({name: name for name in methods})
    if found is None:
        raise InputError(
            f"the methods {', '.join(methods)!r:.80} differ in no one number, expected that; "
            "name them by it: 500=PATH 1000=PATH"
        )
    return found


def _numbered(texts: Mapping[str, str]) -> SeriesParameter | None:
    """Return the number in texts that are alike otherwise; None where there is no such one."""
    parts = {name: _split(text) for name, text in texts.items()}
    known = [part for part in parts.values() if part is not None]
    if len(known) < len(texts) or len({(start, end) for start, _, end in known}) > 1:
        return None
    values = {name: part[1] for name, part in parts.items() if part is not None}
    if len(set(values.values())) < len(values):
        return None
    label = " ".join(known[0][::2]).strip(" -_=:,")
    return SeriesParameter(label or "value", values)


def _split(text: str) -> tuple[str, float, str] | None:
    """Return what stands before the last number of a text, the number, and what follows."""
    found = list(NUMBER.finditer(text))
    if not found:
        return None
    last = found[-1]
    # A dash is a minus only where nothing stands before it: rotated-mnist-30 is 30.
    sign = -1.0 if text[: last.start()].strip() == "-" else 1.0
    return text[: last.start()], sign * float(last.group()), text[last.end() :]
