"""The one hyperparameter in which methods of a series differ: memory size, angle, learning rate."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from ..record import InputError
from ..record.group_names import differing_keys
from ..record.run_metadata import flatten_config
from .load import get_config

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .load import RunsByMethod

__all__ = ["SeriesParameter", "find_series_parameter"]

NUMBER = re.compile(r"(?<![\d.])\d+(?:\.\d+)?(?:e[-+]?\d+)?", re.IGNORECASE)


class SeriesParameter(NamedTuple):
    """The name of a hyperparameter and its value by method, lowest first."""

    name: str
    values: dict[str, float]


def find_series_parameter(methods: RunsByMethod) -> SeriesParameter:
    """Return the one number in which methods differ, found in their configs or their names.

    Example:
        >>> find_series_parameter({"er 2000": [], "er 500": []})
        SeriesParameter(name='er', values={'er 500': 500.0, 'er 2000': 2000.0})
    """
    if len(methods) < 2:
        raise InputError(
            f"a series needs at least 2 methods, got {len(methods)}; see perdure compare"
        )
    configs = [flatten_config(get_config(runs[0])) if runs else {} for runs in methods.values()]
    strategies = sorted({str(config["strategy"]) for config in configs if "strategy" in config})
    if len(strategies) > 1:
        raise InputError(
            f"methods are {', '.join(strategies)}, expected one; draw them with curves"
        )
    parameter = _find_in_configs(methods, configs) or _find_in_texts(
        {name: name for name in methods}
    )
    if parameter is None:
        raise InputError(
            f"the methods {', '.join(methods)!r:.80} do not differ in exactly one number; "
            "label them yourself, e.g. 500=PATH 1000=PATH"
        )
    by_value = dict(sorted(parameter.values.items(), key=lambda item: item[1]))
    return parameter._replace(values=by_value)


def _find_in_configs(
    methods: RunsByMethod, configs: Sequence[Mapping[str, object]]
) -> SeriesParameter | None:
    """Return the one entry in which configs differ; None if there is not exactly one."""
    keys = differing_keys(configs)
    if len(keys) != 1 or not all(keys[0] in config for config in configs):
        return None
    values = dict(zip(methods, (config[keys[0]] for config in configs), strict=True))
    numbers = {
        name: float(value)
        for name, value in values.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
    if len(numbers) == len(values):
        return SeriesParameter(keys[0].rpartition(".")[2], numbers)
    return _find_in_texts({name: str(value) for name, value in values.items()})


def _find_in_texts(texts: Mapping[str, str]) -> SeriesParameter | None:
    """Return the number in texts that are equal otherwise; None if there is no such number."""
    parts = {name: split for name, text in texts.items() if (split := _split(text)) is not None}
    if len(parts) < len(texts) or len({(start, end) for start, _, end in parts.values()}) > 1:
        return None
    values = {name: number for name, (_, number, _) in parts.items()}
    if len(set(values.values())) < len(values):
        return None
    start, _, end = next(iter(parts.values()))
    return SeriesParameter(f"{start} {end}".strip(" -_=:,") or "value", values)


def _split(text: str) -> tuple[str, float, str] | None:
    """Return the text before the last number, the number, and the text after it."""
    numbers = list(NUMBER.finditer(text))
    if not numbers:
        return None
    last = numbers[-1]
    # A dash is a minus sign only at the start of the text: rotated-mnist-30 is 30.
    sign = -1.0 if text[: last.start()].strip() == "-" else 1.0
    return text[: last.start()], sign * float(last.group()), text[last.end() :]
