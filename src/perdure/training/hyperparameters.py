"""Hyperparameters: what a function takes, and values for it from text."""

from __future__ import annotations

import inspect
import math
import sys
import types
import typing
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

from ..record import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["describe_types", "list_hyperparameters", "parse_value"]

UNIONS = (typing.Union, types.UnionType)
BOOLEANS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
SIMPLE = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text",
    types.NoneType: "none",
}


def list_hyperparameters(
    function: Callable[..., Any], skip: tuple[str, ...] = ()
) -> dict[str, tuple[Any, Any]]:
    """Return type and default of every keyword-only parameter that text can give.

    Example:
        >>> from perdure.strategies import find_strategy
        >>> list_hyperparameters(find_strategy("cumulative"), skip=("seed",))
        {'restart': (<class 'bool'>, True)}
    """
    found: dict[str, tuple[Any, Any]] = {}
    parameters = inspect.signature(function).parameters
    if isinstance(function, type) and any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        above = function.__mro__[1]  # what **options hands on
        found = list_hyperparameters(above, skip) if above is not object else {}
    module = sys.modules.get(function.__module__)
    for name, parameter in parameters.items():
        if parameter.kind is not parameter.KEYWORD_ONLY or name in skip:
            continue
        kind, default = parameter.annotation, parameter.default
        if isinstance(kind, str):  # as written: only our own code and the user's own is read
            try:
                kind = eval(kind, dict(vars(module) if module else {}))  # noqa: S307
            except Exception:
                kind = str
        default = list(default) if isinstance(default, tuple) else default
        needed = default is parameter.empty
        if needed or default is None or isinstance(default, bool | int | float | str | list):
            found[name] = (kind, default)
    return found


def parse_value(name: str, text: Any, kind: Any) -> Any:
    """Return a hyperparameter's value, from text or as it is, or raise saying what was expected.

    Example:
        >>> parse_value("alpha", "none", float | None), parse_value("lr", ".01", float)
        (None, 0.01)
    """
    kinds = typing.get_args(kind) if typing.get_origin(kind) in UNIONS else (kind,)
    if not isinstance(text, str):
        return _value_as_it_is(name, text, kinds)
    for each in kinds:
        if each is types.NoneType and text.lower() in ("none", "null"):
            return None
        if each is bool and text.lower() in BOOLEANS:
            return BOOLEANS[text.lower()]
        if typing.get_origin(each) is Literal and text in typing.get_args(each):
            return text
        if each in (int, float):
            with suppress(ValueError):
                if math.isfinite(value := each(text)):
                    return value
    if str not in kinds and all(k in SIMPLE or typing.get_origin(k) is Literal for k in kinds):
        raise InputError(f"{name} is {text!r:.40}, expected {describe_types(kinds)}")
    return text  # a type of its own: whoever takes it judges it


def _value_as_it_is(name: str, value: Any, kinds: tuple[Any, ...]) -> Any:
    if str in kinds and type(value) in (int, float):
        return str(value)  # a number where text may have several: 400 for 400,400
    known = all(each in SIMPLE or typing.get_origin(each) is Literal for each in kinds)
    fits = type(value) in kinds or (type(value) is int and float in kinds)
    if known and not (fits and _is_finite(value)):
        raise InputError(f"{name} is {value!r:.40}, expected {describe_types(kinds)}")
    return list(value) if isinstance(value, tuple) else value


def _is_finite(value: Any) -> bool:
    return not isinstance(value, float) or math.isfinite(value)


def describe_types(kinds: tuple[Any, ...]) -> str:
    """Return some types in words.

    Example:
        >>> describe_types((float, types.NoneType))
        'a number or none'
    """
    words = []
    for kind in kinds:
        if typing.get_origin(kind) is Literal:
            words += [str(value) for value in typing.get_args(kind)]
        else:
            words.append(SIMPLE[kind])
    return " or ".join(words)
