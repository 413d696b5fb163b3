"""Arguments of an evaluator: how they are checked, and those that are more than plain values."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sized
from dataclasses import dataclass
from numbers import Integral
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import msgspec

from .._display import count_of, format_block, list_some
from .._suggestions import suggest_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

__all__ = [
    "EvalTask",
    "EvaluatorState",
    "Record",
    "Subset",
    "as_subset",
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


@dataclass(frozen=True)
class Subset:
    """Which examples of a task are evaluated while training.

    Args:
        size: how many examples; None for all of them.
        seed: seed of the random choice, which also depends on the name of the task.
        resample: choose other examples at every evaluation. This biases minima: `perdure plan`
            shows by how much.
    """

    size: int | None = 1000
    seed: int = 0
    resample: bool = False

    def __post_init__(self) -> None:
        if self.size is not None:
            check_integer("subset", self.size, 1)
        check_integer("seed", self.seed, 0)


def as_subset(subset: int | Subset | None) -> Subset:
    """Return a subset from a number of examples (None for all of them) or from a `Subset`.

    Example:
        >>> as_subset(100)
        Subset(size=100, seed=0, resample=False)
    """
    return subset if isinstance(subset, Subset) else Subset(subset)


@dataclass(frozen=True, repr=False)
class EvalTask:
    """Evaluation data of one task, with options that apply to this task only.

    Args:
        data: `(x, y)` as tensors or arrays (x may be a tuple or dict of them), a dict with
            labels, a map-style Dataset (of Hugging Face, too), a DataLoader, a short
            IterableDataset, or a function without arguments that returns one of these and is
            called when the data is first needed.
        classes: the classes a prediction may name (task-incremental learning); the outputs for
            all others are masked.
        ids: one integer per example that identifies it in the record; by default its position.
            Runs are compared example by example where ids and data agree.
        subset: overrides the evaluator's `subset` for this task; `Subset(None)` for all examples.
        collate: makes a batch of a list of examples, as the `collate_fn` of a DataLoader does:
            needed to pad examples of unequal length.
        control: the task is evaluated but never trained, such as a general ability that a model
            should retain. It is evaluated from the start on, on its whole set before training and
            at the end of each task. `retention` and its variants are computed from that.
        train: training examples of the task, in any form that `data` may have. They are evaluated
            whenever `data` is, and recorded apart, in train_points.csv: no metric uses them.
    """

    data: object
    classes: Sequence[int] | None = None
    ids: Sequence[int] | None = None
    subset: int | Subset | None = None
    collate: Callable[[list[object]], object] | None = None
    control: bool = False
    train: object = None

    def __post_init__(self) -> None:
        if self.collate is not None and not callable(self.collate):
            raise TypeError(
                f"collate is {self.collate!r:.60}, expected a function of a list of examples, like "
                "transformers.DataCollatorWithPadding(tokenizer)"
            )
        if self.control and self.train is not None:
            raise ValueError("a control task is never trained, so it has no train=; omit one")

    def __repr__(self) -> str:
        rows = [("data", _describe_data(self.data))]
        if self.classes is not None:
            rows.append(("classes", list_some(list(self.classes), most=10)))
        if self.ids is not None:
            rows.append(("ids", count_of(len(self.ids), "integer")))
        if self.subset is not None:
            rows.append(("subset", str(as_subset(self.subset))))
        if self.collate is not None:
            rows.append(("collate", getattr(self.collate, "__name__", type(self.collate).__name__)))
        if self.control:
            rows.append(("control", "evaluated but never trained"))
        if self.train is not None:
            rows.append(("train", _describe_data(self.train)))
        return format_block("EvalTask", rows)


@dataclass(frozen=True)
class Record:
    """Where and how a run is recorded.

    Args:
        folder: the run's folder; None keeps the record only as long as the evaluator exists.
        overwrite: replace a run that is already in the folder; `"unfinished"` replaces it only
            if it is not finished.
        resume: `state_dict()` of an evaluator that was stopped: its record continues from there.
            `"later"` opens the folder when the first task begins, so that
            `evaluator.load_state_dict(state)` can be called until then; if it is not, a new run
            starts.
        per_example: also record which examples were classified correctly, for fixed subsets and
            for whole sets at task ends, and which classes were predicted at task ends. Confidence
            intervals of a single run and figures of classes need it.
        log: `log(values, step)` is called after every evaluation with numbers by name, and with
            the final metrics when the run is closed: `wandb.log`, `mlflow.log_metrics`, or a
            function of your own.
    """

    folder: str | PathLike[str] | None = None
    overwrite: bool | Literal["unfinished"] = False
    resume: Mapping[str, object] | Literal["later"] | None = None
    per_example: bool = True
    log: Callable[[dict[str, float], int], object] | None = None

    def __post_init__(self) -> None:
        if self.log is not None and not callable(self.log):
            raise TypeError(
                f"log is {self.log!r:.60}, expected a function of (values, step) like wandb.log"
            )
        if self.log is not None:
            check_parameters("log", self.log, "values", "step")
        if self.resume is not None and self.folder is None:
            raise ValueError("resuming needs the folder of the record: Record(folder, resume=…)")
        if isinstance(self.resume, str):
            check_choice("resume", self.resume, ("later",))
        named = isinstance(self.folder, str | PathLike) and str(self.folder).strip()
        if self.folder is not None and not named:
            raise ValueError(f"record is {self.folder!r:.60}, expected a folder like 'runs/mine'")
        if not isinstance(self.overwrite, bool):
            check_choice("overwrite", self.overwrite, ("unfinished",))


def _describe_data(data: object) -> str:
    """Return the shape and type of tensors and arrays, the kind and length of anything else."""
    if isinstance(data, tuple | list) and len(data) <= 4:
        return f"({', '.join(map(_describe_data, data))})"
    if isinstance(data, Mapping):
        return ", ".join(f"{key}: {_describe_data(value)}" for key, value in data.items())
    if hasattr(data, "shape") and hasattr(data, "dtype"):
        return f"{tuple(data.shape)} {str(data.dtype).removeprefix('torch.')}"
    kind = getattr(data, "__name__", type(data).__name__)
    return f"{kind} of length {len(data)}" if isinstance(data, Sized) else kind
