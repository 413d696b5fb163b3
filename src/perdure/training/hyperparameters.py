"""Hyperparameters: keyword-only parameters, their values from text; learning-rate schedules."""

from __future__ import annotations

import ast
import builtins
import inspect
import math
import sys
import types
import typing
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from ..record import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch.optim import Optimizer

__all__ = [
    "SCHEDULES",
    "Hyperparameter",
    "LearningRateSchedule",
    "describe_types",
    "list_hyperparameters",
    "make_hyperparameter",
    "parse_value",
    "set_learning_rates",
]

BOOLEANS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
TYPE_NAMES: dict[object, str] = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text",
    types.NoneType: "none",
}


class Hyperparameter(NamedTuple):
    """The types that a hyperparameter may have, and its default."""

    types: tuple[object, ...]  # one, or the members of a union
    default: object  # `inspect.Parameter.empty` if it must be given


def list_hyperparameters(
    function: Callable[..., object], skip: tuple[str, ...] = ()
) -> dict[str, Hyperparameter]:
    """Return every keyword-only parameter whose value can be given as text, by name.

    Args:
        function: A function, or a class; one that takes `**options` has those of its base too.
        skip: Names to leave out.

    Example:
        >>> from perdure.strategies import find_strategy
        >>> list_hyperparameters(find_strategy("cumulative"), skip=("seed",))
        {'restart': Hyperparameter(types=(<class 'bool'>,), default=True)}
    """
    found: dict[str, Hyperparameter] = {}
    parameters = inspect.signature(function).parameters
    if isinstance(function, type) and any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        base = function.__mro__[1]
        found = list_hyperparameters(base, skip) if base is not object else {}
    namespace = vars(sys.modules[function.__module__]) if function.__module__ in sys.modules else {}
    for name, parameter in parameters.items():
        if parameter.kind is not parameter.KEYWORD_ONLY or name in skip:
            continue
        default = parameter.default
        required = default is parameter.empty
        plain = isinstance(default, bool | int | float | str | list | tuple)
        if required or default is None or plain:
            found[name] = make_hyperparameter(parameter.annotation, default, namespace)
    return found


def make_hyperparameter(
    annotation: object, default: object, namespace: Mapping[str, object]
) -> Hyperparameter:
    """Return a hyperparameter with the types of its annotation, which may be a string.

    Example:
        >>> make_hyperparameter("int | None", 3, {}).types
        (<class 'int'>, <class 'NoneType'>)
    """
    default = list(default) if isinstance(default, tuple) else default
    return Hyperparameter(_resolve(annotation, namespace), default)


def parse_value(name: str, value: object, kinds: tuple[object, ...]) -> object:
    """Return a hyperparameter's value, from text or as it is; raise if its type does not fit.

    A value of a type other than numbers, text, booleans and None is checked by whoever takes it.

    Example:
        >>> parse_value("lr", ".01", (float,)), parse_value("mask", "yes", (bool,))
        (0.01, True)
    """
    simple = all(kind in TYPE_NAMES or typing.get_origin(kind) is Literal for kind in kinds)
    if isinstance(value, str):
        for kind in kinds:
            with suppress(ValueError):
                return _parse_text(value, kind)
        fits = str in kinds
    elif str in kinds and type(value) in (int, float):
        return str(value)  # a number where text may list several: 400 for 400,400
    else:
        fits = type(value) in kinds or (type(value) is int and float in kinds)
        fits = fits and not (isinstance(value, float) and not math.isfinite(value))
    if simple and not fits:
        raise InputError(f"{name} is {value!r:.40}, expected {describe_types(kinds)}")
    return list(value) if isinstance(value, tuple) else value


def describe_types(kinds: tuple[object, ...]) -> str:
    """Return types in words.

    Example:
        >>> describe_types((float, types.NoneType))
        'a number or none'
    """
    words: list[str] = []
    for kind in kinds:
        choices = typing.get_args(kind) if typing.get_origin(kind) is Literal else ()
        words += [str(choice) for choice in choices] or [TYPE_NAMES[kind]]
    return " or ".join(words)


def _parse_text(text: str, kind: object) -> object:
    """Return the value that a text stands for as one type, or raise ValueError."""
    if kind is types.NoneType and text.lower() in ("none", "null"):
        return None
    if kind is bool and text.lower() in BOOLEANS:
        return BOOLEANS[text.lower()]
    if typing.get_origin(kind) is Literal and text in typing.get_args(kind):
        return text
    if kind is int:
        return int(text)
    if kind is float and math.isfinite(number := float(text)):
        return number
    raise ValueError(text)


def _resolve(annotation: object, namespace: Mapping[str, object]) -> tuple[object, ...]:
    """Return the types of an annotation; text if its names are not known at run time.

    One that is a string is parsed and its names are looked up: nothing in it is ever executed.
    """
    if isinstance(annotation, str):
        try:
            return _resolve_node(ast.parse(annotation, mode="eval").body, namespace)
        except (SyntaxError, ValueError, LookupError):
            return (str,)
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return typing.get_args(annotation)
    return (annotation,)


def _resolve_node(node: ast.expr, namespace: Mapping[str, object]) -> tuple[object, ...]:
    match node:
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return (*_resolve_node(left, namespace), *_resolve_node(right, namespace))
        case ast.Constant(value=None):
            return (types.NoneType,)
        case ast.Name(id=name):
            return _resolve(namespace[name] if name in namespace else vars(builtins)[name], {})
        case ast.Attribute(value=ast.Name(id=module), attr=name):
            return _resolve(vars(namespace[module])[name], {})
        case ast.Subscript(value=generic, slice=arguments):
            (kind,) = _resolve_node(generic, namespace)
            if kind is Literal:
                return (Literal.__getitem__(ast.literal_eval(arguments)),)
            if kind is typing.Optional:
                return (*_resolve_node(arguments, namespace), types.NoneType)
            return (kind,)
    raise ValueError(ast.dump(node))


_WARMUP = {"warmup": Hyperparameter((int,), 0)}

# The hyperparameters of each schedule.
SCHEDULES: Final[dict[str, dict[str, Hyperparameter]]] = {
    "constant": _WARMUP,
    "cosine": _WARMUP,
    "step": {
        **_WARMUP,
        "decay_every": Hyperparameter((int,), inspect.Parameter.empty),
        "gamma": Hyperparameter((float,), 0.1),
    },
}


class LearningRateSchedule(NamedTuple):
    """How the learning rate changes within a task.

    Args:
        name: `constant`; `cosine`, from the learning rate to 0 at the end of the task; or `step`,
            multiplied by `gamma` every `decay_every` iterations.
        warmup: Iterations in which it first grows linearly to its full value.
        decay_every: Iterations between two steps.
        gamma: Factor of a step.
    """

    name: str = "constant"
    warmup: int = 0
    decay_every: int = 1
    gamma: float = 0.1

    @property
    def is_constant(self) -> bool:
        """Whether the learning rate never changes."""
        return self.name == "constant" and not self.warmup

    def check(self) -> None:
        """Raise InputError for values out of range."""
        for name, least in (("warmup", 0), ("decay_every", 1)):
            if (value := getattr(self, name)) < least:
                raise InputError(f"{name} is {value}, expected a whole number of at least {least}")
        if not 0 < self.gamma <= 1:
            raise InputError(f"gamma is {self.gamma:g}, expected a factor above 0, at most 1")

    def factor(self, step: int, steps: int) -> float:
        """Return the factor of the learning rate in one of the `steps` of a task, from 0.

        Example:
            >>> [round(LearningRateSchedule("cosine", warmup=2).factor(k, 6), 3) for k in range(6)]
            [0.5, 1.0, 1.0, 0.854, 0.5, 0.146]
        """
        if step < self.warmup:
            return (step + 1) / self.warmup
        step, steps = step - self.warmup, steps - self.warmup
        if self.name == "cosine":
            return (1 + math.cos(math.pi * step / steps)) / 2
        if self.name == "step":
            return float(self.gamma ** (step // self.decay_every))
        return 1.0


def set_learning_rates(optimizer: Optimizer, factor: float) -> None:
    """Set every learning rate to this factor of its initial value, which the optimizer keeps.

    A resumed optimizer has its initial values from the checkpoint.
    """
    for group in optimizer.param_groups:
        group["lr"] = group.setdefault("initial_lr", group["lr"]) * factor
