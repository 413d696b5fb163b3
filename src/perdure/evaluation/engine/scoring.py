"""A model and rows to values: which rows are right, or any score of each."""

from __future__ import annotations

import inspect
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from ..state.model_parts import given, refuse_unknown
from ..state.trees import copied, first_tensor, joined, layout, leaves, mapped, moved

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["Rows", "Scorer"]

CPU_BATCH = 500  # rows whose activations stay in the cache
CUDA_BATCH = 1 << 14


class Span(NamedTuple):
    """A task's rows: from `start` up to, not including, `end`."""

    task: str
    start: int
    end: int


class Rows:
    """Rows of one or more tasks that go through the model together, cut into batches once."""

    def __init__(self, x: Any, y: Any, spans: list[Span], size: int) -> None:
        self.x, self.y, self.spans = x, y, spans
        self._masks: dict[int, Tensor] = {}
        self._worked_on: bool | None = None  # in place, by the model; not known before a first test
        self.seen_through = False  # whether the modules that a test calls are known
        self.cut(size)

    def __len__(self) -> int:
        return self.spans[-1].end

    def cut(self, size: int) -> None:
        """Cut the rows into batches of at most `size`: views, nothing is copied."""
        self.size = size
        places = [slice(lo, min(lo + size, len(self))) for lo in range(0, len(self), size)]
        self.batches = [(at, *mapped(lambda a, at=at: a[at], (self.x, self.y))) for at in places]

    def lent(self, x: Any) -> Any:
        """Return rows for a model: copies, until it is known that it does not work in place."""
        return x if self._worked_on is False else mapped(copied, x)

    def returned(self, x: Any) -> None:
        """Look at rows that were lent."""
        if self._worked_on is None:
            self._worked_on = any(getattr(leaf, "_version", 0) for leaf in leaves(x))

    def forbidden(self, classes: Mapping[str, Sequence[int]], width: int) -> Tensor:
        """Return a table, True where a row's task does not have that class."""
        if width not in self._masks:  # outputs may grow with the tasks
            mask = torch.zeros(len(self), width, dtype=torch.bool)
            for task, start, end in self.spans:
                if task in classes:
                    mask[start:end] = True
                    mask[start:end, [k for k in classes[task] if k < width]] = False
            self._masks = {width: mask.to(first_tensor(self.x).device)}
        return self._masks[width]


class Scorer:
    """How a row is scored. Accuracy by default.

    Args:
        score: `score(model, x, y) -> one value a row`; None for accuracy.
        forward: `forward(model, x) -> outputs`; None for `model(x)`.
        classes: the classes that may be named for each task; others are masked.
        batch: rows in a forward; None for what suits the device.

    A `score` or `forward` with a parameter named `task` is given the task's name, and each task
    then goes through the model by itself.
    """

    def __init__(
        self,
        score: Callable[..., Any] | None = None,
        forward: Callable[..., Any] | None = None,
        classes: Mapping[str, Sequence[int]] | None = None,
        batch: int | None = None,
    ) -> None:
        for name, function in (("score", score), ("forward", forward)):
            if function is not None and not callable(function):
                raise TypeError(f"{name} is {function!r:.40}, expected a function of (model, x, …)")
        if score is not None and (forward is not None or classes):
            raise ValueError("score is given the model: forward and classes have no use beside it")
        self.score = score
        self.forward = forward or plain_forward
        self.classes = dict(classes or {})
        self.batch = batch
        self._names_task = "task" in inspect.signature(score or self.forward).parameters

    def together(self, tasks: Sequence[tuple[str, Any, Any]], device: torch.device) -> list[Rows]:
        """Return the rows of all tasks on `device`, joined where one forward can take them."""
        groups: list[list[tuple[str, Any, Any]]] = []
        for task in tasks:
            if groups and not self._names_task and layout(groups[-1][0][1:]) == layout(task[1:]):
                groups[-1].append(task)
            else:
                groups.append([task])
        return [self._joined(group, device) for group in groups]

    def _joined(self, group: list[tuple[str, Any, Any]], device: torch.device) -> Rows:
        spans, start = [], 0
        for name, x, _ in group:
            spans.append(Span(name, start, start + len(first_tensor(x))))
            start = spans[-1].end
        pairs = [mapped(lambda a: moved(a, device), (x, y)) for _, x, y in group]
        x, y = joined(pairs)
        size = self.batch or (CPU_BATCH if device.type == "cpu" else CUDA_BATCH)
        return Rows(x, y, spans, size)

    def values(self, model: Any, rows: Rows) -> Tensor:
        """Return one value a row. Out of CUDA memory, batches are halved until they fit."""
        while True:
            try:
                parts = [self._batch(model, rows, *batch) for batch in rows.batches]
                return torch.cat(parts) if len(parts) > 1 else parts[0]
            except torch.OutOfMemoryError:
                if rows.size == 1:
                    raise
                self.batch = -(-min(rows.size, len(rows)) // 2)
                rows.cut(self.batch)

    def _batch(self, model: Any, rows: Rows, at: slice, x: Any, y: Any) -> Tensor:
        if self.score is None:
            return right(self.logits(model, rows, at, x), y, rows)
        x, y = rows.lent((x, y))
        values = self.call(self.score, model, rows, x, y)
        rows.returned((x, y))
        return _judged(values, at.stop - at.start, rows)

    def logits(self, model: Any, rows: Rows, at: slice | Tensor, x: Any) -> Tensor:
        """Return the outputs for the rows `at`, minus infinity for classes of other tasks."""
        x = rows.lent(x)
        outputs = outputs_of(self.call(self.forward, model, rows, x))
        rows.returned(x)
        if not self.classes:
            return outputs
        mask = rows.forbidden(self.classes, outputs.shape[1])[at]
        places = (1,) * (outputs.dim() - 2)  # of each pixel, say
        return outputs.masked_fill(mask.view(*mask.shape, *places), float("-inf"))

    def call(self, function: Callable[..., Any], model: Any, rows: Rows, *inputs: Any) -> Any:
        """Return what score or forward returns; the task's name goes to one that asks for it."""
        asks = self._names_task and function is (self.score or self.forward)
        named = {"task": rows.spans[0].task} if asks else {}
        with nullcontext() if rows.seen_through else refuse_unknown(model):
            output = function(given(model), *inputs, **named)
        rows.seen_through = True
        return output


def plain_forward(model: Any, x: Any) -> Any:
    """Return `model(x)`; a dict goes in as keyword arguments, a tuple as positional ones."""
    if isinstance(x, dict):
        return model(**x)
    return model(*x) if isinstance(x, tuple) else model(x)


def outputs_of(output: Any) -> Tensor:
    """Return the tensor of class scores in what a model returned, or raise."""
    if not isinstance(output, Tensor):
        if hasattr(output, "logits"):
            output = output.logits
        elif isinstance(output, dict) and "logits" in output:
            output = output["logits"]
        elif isinstance(output, tuple | list) and output:
            output = output[0]
    if not isinstance(output, Tensor) or output.dim() < 2 or output.shape[1] < 2:
        got = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
        raise TypeError(
            f"the model returned {got}, expected (rows, classes) for accuracy; pass score=, or "
            "forward= that returns class scores"
        )
    return output


def right(logits: Tensor, y: Tensor, rows: Rows) -> Tensor:
    """Return which rows have their largest output at their label; a share where rows have many."""
    if y.dtype.is_floating_point or y.shape != logits.shape[:1] + logits.shape[2:]:
        raise TypeError(
            f"labels of task {rows.spans[0].task!r} are {tuple(y.shape)} of {y.dtype}, expected a "
            f"class number for each of the outputs {tuple(logits.shape)}; pass score= for others"
        )
    found = logits.argmax(1) == y
    return found if found.dim() == 1 else found.flatten(1).double().mean(1)


def _judged(values: Any, count: int, rows: Rows) -> Tensor:
    if not isinstance(values, Tensor) or values.shape != (count,):
        got = tuple(values.shape) if isinstance(values, Tensor) else type(values).__name__
        raise TypeError(
            f"score returned {got} for {count} rows of task {rows.spans[0].task!r}, expected a "
            f"tensor of shape ({count},): one value a row"
        )
    plain = values.dtype in (torch.bool, torch.float32, torch.float64)
    return values.detach() if plain else values.detach().double()
