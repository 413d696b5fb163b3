"""Validation of arguments: each function raises an error that names the argument."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from numbers import Integral
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from .._suggestions import suggest_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = [
    "EvaluatorState",
    "check_choice",
    "check_integer",
    "check_parameters",
    "check_state",
    "convert_state",
    "named_tasks",
    "refuse_arguments",
    "task_name",
]

T = TypeVar("T")


def check_integer(name: str, value: object, least: int) -> None:
    """Raise for anything but an integer of at least `least`.

    Example:
        >>> check_integer("queue", 4, least=1)
        >>> check_integer("queue", 0, least=1)
        Traceback (most recent call last):
        ValueError: queue is 0, expected an integer of at least 1
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < least:
        raise ValueError(f"{name} is {value!r:.60}, expected an integer of at least {least}")


def check_choice(name: str, value: object, choices: tuple[str | None, ...]) -> None:
    """Raise unless `value` is one of `choices`.

    Example:
        >>> check_choice("mode", "exact", ("exact", "latest"))
        >>> check_choice("mode", "fast", ("exact", "latest"))
        Traceback (most recent call last):
        ValueError: mode is 'fast', expected exact or latest
    """
    if value not in choices:
        words = " or ".join(str(choice) for choice in choices)
        raise ValueError(f"{name} is {value!r:.60}, expected {words}")


def check_parameters(name: str, function: Callable[..., object], *arguments: str) -> None:
    """Raise unless `function` can be called with these arguments, and perhaps `task`.

    Example:
        >>> check_parameters("forward", lambda model, x, task: x, "model", "x")
        >>> check_parameters("forward", lambda x: x, "model", "x")
        Traceback (most recent call last):
        TypeError: forward is a function of (x), expected one of (model, x)
    """
    try:
        signature = inspect.signature(function)
    except ValueError:  # of some functions in C it is not known
        return
    try:
        signature.bind(*arguments, **({"task": ""} if "task" in signature.parameters else {}))
    except TypeError:
        raise TypeError(
            f"{name} is a function of {signature}, expected one of ({', '.join(arguments)})"
        ) from None


def refuse_arguments(
    function: Callable[..., object], unknown: Iterable[str], options: Iterable[type]
) -> None:
    """Raise for an argument that a function does not have, and say where it belongs.

    Args:
        function: The function, or a class.
        unknown: Names of arguments that it does not have.
        options: Classes that have further arguments.

    Example:
        >>> refuse_arguments(named_tasks, ["task"], [])
        Traceback (most recent call last):
        TypeError: named_tasks has no argument 'task', did you mean tasks? expected one of tasks
    """
    for name in unknown:
        has = [kind.__name__ for kind in options if name in inspect.signature(kind).parameters]
        parameters = inspect.signature(function).parameters.values()
        known = [p.name for p in parameters if p.kind is not p.VAR_KEYWORD]
        hint = f"{suggest_names(name, known)}expected one of {', '.join(known)}"
        if has:
            there = " or ".join(f"perdure.{kind}(…, {name}=…)" for kind in has)
            hint = f"which belongs to {there}"
        raise TypeError(f"{function.__name__} has no argument {name!r}, {hint}")


def named_tasks(tasks: object) -> list[tuple[object, object]]:
    """Return the name and the data of each task; the tasks of a list are numbered.

    Example:
        >>> named_tasks({"a": 1}), named_tasks([1, 2])
        ([('a', 1)], [(0, 1), (1, 2)])
    """
    if tasks is None:
        return []
    if isinstance(tasks, Mapping):
        return list(tasks.items())
    is_pair = isinstance(tasks, list | tuple) and any(hasattr(part, "dtype") for part in tasks)
    if is_pair or not isinstance(tasks, list | tuple):
        raise TypeError(
            f"tasks is {'(x, y)' if is_pair else type(tasks).__name__}, expected data by name: "
            "{name: (x, y)}"
        )
    return list(enumerate(tasks))


def task_name(task: object) -> str:
    """Return the name of a task: text, or what stands for it as text, such as a number.

    Example:
        >>> task_name("digits 0-1"), task_name(3)
        ('digits 0-1', '3')
    """
    if callable(task):
        raise TypeError(
            f"the task is {type(task).__name__}, expected its name: evaluator.task(name, model)"
        )
    item = getattr(task, "item", None)  # of a tensor or an array with one number
    return str(task if item is None or getattr(task, "ndim", 1) != 0 else item())


def convert_state(state: object, kind: type[T]) -> T:
    """Return a part of a state of an evaluator, or raise if another version saved it."""
    try:
        return msgspec.convert(state, kind)
    except msgspec.ValidationError as error:
        raise ValueError(
            f"resume is a state that this version of perdure cannot read ({error}); start over "
            "with `restart=True`, or in Python with Record(folder, overwrite=True)"
        ) from None


class EvaluatorState(msgspec.Struct):
    """The `state_dict` of an evaluator."""

    step: int
    always_evaluated: list[str]
    alarm_active: bool
    lifecycle: dict[str, Any]
    costs: dict[str, Any]
    record: dict[str, Any]
    budget: dict[str, Any] | None = None


def check_state(state: Mapping[str, object], tasks: Mapping[str, object]) -> EvaluatorState:
    """Return the state of an evaluator, or raise unless `tasks` has all that it evaluated."""
    missing = [name for name in EvaluatorState.__struct_fields__ if name not in state]
    if missing:
        raise ValueError(f"resume has no {missing[0]!r}, expected what state_dict() returned")
    checked = convert_state(state, EvaluatorState)
    evaluated = [*checked.lifecycle["trained_tasks"], *checked.always_evaluated]
    if unknown := [name for name in evaluated if name not in tasks]:
        raise ValueError(
            f"resume is the state of a run that evaluates {unknown}, expected evaluation data for "
            "these tasks"
        )
    return checked
