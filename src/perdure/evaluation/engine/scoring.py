"""From a model and examples to one value per example: correctness, or any other score."""

from __future__ import annotations

import inspect
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import torch
from torch import Tensor

from ..._devices import widest_float
from ..arguments import check_parameters
from ..eval_data import decoder_inputs
from ..scores import TokenScore, WholeSetMetric
from ..state.preserve import refuse_unknown_modules, user_model
from ..state.tensors import (
    clone_leaf,
    first_tensor,
    join_rows,
    leaves,
    map_tree,
    move_leaf,
    row_layout,
)
from .outputs import class_scores, output_tensor, token_scores

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ..eval_set import EvalSet

__all__ = ["Rows", "Scorer", "correct"]

CPU_BATCH_SIZE = 500  # the activations of this many examples stay in the cache
CUDA_BATCH_SIZE = 1 << 14
TOKEN_BATCH_SIZE = 8  # rows with many labels each have many logits: tokens times vocabulary
PART_SIZE = 1000  # examples of a whole set that are in memory at a time
CUDA_PART_SIZE = 4000  # of one that is on a GPU already
OUT_OF_MEMORY = "can't allocate memory"  # in the RuntimeError of PyTorch's allocator on a CPU


class Span(NamedTuple):
    """A task's rows: from `start` up to, not including, `end`."""

    task: str
    start: int
    end: int


TaskRows = tuple[str, object, object]  # the name of a task, its examples and labels
T = TypeVar("T")


class Rows:
    """Examples of one or more tasks that pass through the model together, in batches."""

    def __init__(self, x: object, y: object, spans: list[Span], batch_size: int) -> None:
        self.x, self.y, self.spans = x, y, spans
        self.modules_checked = False  # whether the modules that an evaluation calls are known
        self.labels_checked: tuple[int, int] | None = None  # for outputs and tasks trained
        self._class_masks: dict[int, Tensor] = {}
        self._mutated: bool | None = None  # in place by the model; None before the first pass
        self.set_batch_size(batch_size)

    def __len__(self) -> int:
        return self.spans[-1].end

    def set_batch_size(self, size: int) -> None:
        """Split the rows into batches of at most `size`, as views."""
        self.batch_size = size
        slices = [slice(lo, min(lo + size, len(self))) for lo in range(0, len(self), size)]
        self.batches = [(at, *map_tree(lambda a, at=at: a[at], (self.x, self.y))) for at in slices]

    @contextmanager
    def copy_if_mutated(self, inputs: T) -> Iterator[T]:
        """Yield inputs for a model: copies, unless a first pass showed that it keeps them."""
        if self._mutated is not False:
            inputs = map_tree(clone_leaf, inputs)
        yield inputs
        if self._mutated is None:
            self._mutated = any(getattr(leaf, "_version", 0) for leaf in leaves(inputs))

    def class_mask(self, classes: Mapping[str, Sequence[int]], width: int) -> Tensor:
        """Return a table that is True where the task of a row does not have that class."""
        if width not in self._class_masks:  # the outputs may grow with the tasks
            mask = torch.zeros(len(self), width, dtype=torch.bool)
            for task, start, end in self.spans:
                if task in classes:
                    mask[start:end] = True
                    mask[start:end, [k for k in classes[task] if k < width]] = False
            self._class_masks = {width: mask.to(first_tensor(self.x).device)}
        return self._class_masks[width]


class Scorer:
    """Computes one value per example.

    Args:
        score: `score(model, x, y)` returns one value per example; None for accuracy. Scores of
            tokens and metrics of whole sets are computed from outputs, as accuracy is.
        forward: `forward(model, x)` returns outputs; None for `model(x)`.
        batch_size: examples per forward pass; None chooses what suits the device.

    A `score` or `forward` with a parameter named `task` is passed the name of the task, and each
    task then passes through the model by itself.
    """

    def __init__(
        self,
        score: Callable[..., object] | TokenScore | WholeSetMetric | None = None,
        forward: Callable[..., object] | None = None,
        batch_size: int | None = None,
    ) -> None:
        if forward is not None and not callable(forward):
            raise TypeError(f"forward is {forward!r:.40}, expected a function of (model, x)")
        self.function = None if isinstance(score, TokenScore | WholeSetMetric) else score
        if self.function is not None and forward is not None:
            raise ValueError("score is passed the model: forward has no effect next to it")
        if forward is not None:
            check_parameters("forward", forward, "model", "x")
        self.score = score
        self.forward = forward or call_model
        self.trained: set[str] = set()  # tasks whose labels the model must have outputs for
        self.warnings: set[str] = set()  # about the model's outputs
        self.classes: dict[str, Sequence[int]] = {}  # by task; the others are masked
        self.train_of: dict[str, str] = {}  # the task of each set of training examples
        self.batch_size = batch_size
        called = self.function or self.forward
        self.takes_task = "task" in inspect.signature(called).parameters

    @property
    def metric(self) -> WholeSetMetric | None:
        """The metric of whole sets where that is the score."""
        return self.score if isinstance(self.score, WholeSetMetric) else None

    def part_size(self, task: EvalSet) -> int:
        """Return how many examples are read at a time, and padded together if they are padded."""
        needs_all_outputs = isinstance(self.score, TokenScore | WholeSetMetric)
        few = task.is_padded and needs_all_outputs
        size = CUDA_PART_SIZE if task.is_on_cuda else PART_SIZE
        return self.batch_size or (TOKEN_BATCH_SIZE if few else size)

    def set_classes(self, task: str, classes: Sequence[int]) -> None:
        """Mask the outputs of all other classes for the examples of a task."""
        if self.score is not None:
            raise ValueError("classes are for accuracy: they have no effect next to score=")
        self.classes[task] = classes

    def group(self, tasks: Sequence[TaskRows], device: torch.device) -> list[Rows]:
        """Return (task, x, y) on `device`, joined where one forward pass can take several tasks."""
        groups: list[list[TaskRows]] = []
        for task in tasks:
            fits = groups and row_layout(groups[-1][0][1:]) == row_layout(task[1:])
            # So that test examples pass through the model in the same batches as without them.
            fits = fits and (groups[-1][0][0] in self.train_of) == (task[0] in self.train_of)
            if fits and not (self.takes_task or isinstance(self.score, TokenScore)):
                groups[-1].append(task)
            else:
                groups.append([task])
        return [self._join(group, device) for group in groups]

    def _join(self, group: list[TaskRows], device: torch.device) -> Rows:
        spans, start = [], 0
        for name, x, _ in group:
            spans.append(Span(name, start, start + len(first_tensor(x))))
            start = spans[-1].end
        pairs = [map_tree(lambda a: move_leaf(a, device), (x, y)) for _, x, y in group]
        x, y = join_rows(pairs)
        size = CPU_BATCH_SIZE if device.type == "cpu" else CUDA_BATCH_SIZE
        if isinstance(self.score, TokenScore) and isinstance(y, Tensor) and y.dim() > 1:
            size = TOKEN_BATCH_SIZE
        return Rows(x, y, spans, self.batch_size or size)

    def values(self, model: object, rows: Rows, predicted: list[Tensor] | None = None) -> Tensor:
        """Return one value per row; of a score of tokens, a sum and the number of tokens.

        If the score is accuracy, the predicted classes of each batch are added to `predicted`.
        """

        def compute(at: slice, x: object, y: object) -> Tensor:
            if at.start == 0 and predicted is not None:
                predicted.clear()
            return self._batch_values(model, rows, at, x, y, predicted)

        parts = self._for_batches(rows, compute)
        return torch.cat(parts) if len(parts) > 1 else parts[0]

    def outputs(self, model: object, rows: Rows) -> list[tuple[Tensor, object]]:
        """Return the outputs and labels of each batch."""

        def compute(_: slice, x: object, y: object) -> tuple[Tensor, object]:
            return output_tensor(self.call_forward(model, rows, x, y)), y

        return self._for_batches(rows, compute)

    def _for_batches(self, rows: Rows, compute: Callable[[slice, object, object], T]) -> list[T]:
        """Return a result per batch. Out of memory, batches are halved until they fit."""
        while True:
            try:
                return [compute(*batch) for batch in rows.batches]
            except (RuntimeError, MemoryError) as error:
                if rows.batch_size == 1 or not _is_out_of_memory(error):
                    raise
            self.batch_size = -(-min(rows.batch_size, len(rows)) // 2)
            rows.set_batch_size(self.batch_size)

    def _batch_values(
        self, model: object, rows: Rows, at: slice, x: object, y: object,
        predicted: list[Tensor] | None,
    ) -> Tensor:  # fmt: skip
        if self.score is None:
            logits = self.logits(model, rows, at, x)
            self._inspect(logits, rows)
            return correct(logits, y, rows, predicted)
        if isinstance(self.score, TokenScore):
            logits = token_scores(self.call_forward(model, rows, x, y))
            task, state = rows.spans[0].task, (logits.shape[-1], 0)
            if rows.labels_checked != state:
                warning = self.score.check(rows.x, rows.y, logits.shape[-1], task)
                self.warnings.update([warning] if warning else [])
                rows.labels_checked = state
            return self.score.values(logits, y, task)
        assert self.function is not None
        with rows.copy_if_mutated((x, y)) as inputs:
            values = self.call(self.function, model, rows, *inputs)
        return _check_values(values, at.stop - at.start, rows)

    def call_forward(self, model: object, rows: Rows, x: object, y: object) -> object:
        """Return the outputs for a batch; a decoder is passed the labels before each position."""
        if self.score is not None and self.forward is call_model:
            x = decoder_inputs(user_model(model), x, y)
        with rows.copy_if_mutated(x) as inputs:
            return self.call(self.forward, model, rows, inputs)

    def logits(self, model: object, rows: Rows, at: slice | Tensor, x: object) -> Tensor:
        """Return the outputs for the rows `at`, minus infinity for classes of other tasks."""
        with rows.copy_if_mutated(x) as inputs:
            output = self.call(self.forward, model, rows, inputs)
        outputs = class_scores(output)
        self._check_labels(rows, outputs.shape[1])
        if not self.classes:
            return outputs
        mask = rows.class_mask(self.classes, outputs.shape[1])[at]
        extra_dims = (1,) * (outputs.dim() - 2)  # of an image with one label per pixel, say
        return outputs.masked_fill(mask.view(*mask.shape, *extra_dims), float("-inf"))

    def _check_labels(self, rows: Rows, outputs: int) -> None:
        """Raise if a task that is or was trained has labels that no output stands for.

        The model may still get outputs for the other tasks.
        """
        state = outputs, len(self.trained)
        y = rows.y
        if rows.labels_checked == state or not isinstance(y, Tensor) or y.is_floating_point():
            return
        for task, start, end in rows.spans:
            low, high = (int(end_) for end_ in y[start:end].aminmax())
            if task in self.trained and (low < 0 or high >= outputs):
                raise ValueError(
                    f"task {task!r} has label {low if low < 0 else high}, but the model has "
                    f"{outputs} outputs, expected labels from 0 to {outputs - 1}; number the "
                    "labels as the outputs (score= for labels to be ignored)"
                )
        rows.labels_checked = state

    def _inspect(self, logits: Tensor, rows: Rows) -> None:
        """Warn of outputs that are NaN, where looking at them does not delay a GPU."""
        if logits.device.type == "cpu" and bool(logits.isnan().any()):
            task = rows.spans[0].task
            self.warnings.add(
                f"outputs of the model are NaN for examples of {task!r} and count as wrong; look "
                "for NaN in the examples, or in the weights (training diverged)"
            )

    def call(
        self, function: Callable[..., object], model: object, rows: Rows, *inputs: object
    ) -> object:
        """Return what score or forward returns, passing the name of the task if it takes it."""
        takes_task = self.takes_task and function is (self.function or self.forward)
        task = rows.spans[0].task
        keywords = {"task": self.train_of.get(task, task)} if takes_task else {}
        with nullcontext() if rows.modules_checked else refuse_unknown_modules(model):
            output = function(user_model(model), *inputs, **keywords)
        rows.modules_checked = True
        return output


def call_model(model: Callable[..., object], x: object) -> object:
    """Return `model(x)`; a dict is passed as keyword arguments, a tuple as positional ones."""
    if isinstance(x, dict):
        try:
            return model(**x)
        except TypeError as error:
            if "keyword argument" in str(error):
                error.add_note(
                    f"the examples are a dict: {', '.join(map(str, x))} are passed as keyword "
                    "arguments; pass (x, y) if the model takes one tensor"
                )
            raise
    return model(*x) if isinstance(x, tuple) else model(x)


def correct(logits: Tensor, y: object, rows: Rows, predicted: list[Tensor] | None = None) -> Tensor:
    """Return which rows are classified correctly; a fraction where rows have many labels."""
    expected = logits.shape[:1] + logits.shape[2:]
    if not isinstance(y, Tensor) or y.dtype.is_floating_point or y.shape != expected:
        got = f"{tuple(y.shape)} of {y.dtype}" if isinstance(y, Tensor) else type(y).__name__
        raise TypeError(
            f"labels of task {rows.spans[0].task!r} are {got}, expected a class number for each of "
            f"the outputs {tuple(logits.shape)}; pass {_label_advice(logits, y)}score= for others"
        )
    classes = logits.argmax(1, keepdim=True)
    # argmax takes NaN for the largest: outputs that are no numbers predict nothing.
    is_number = logits.gather(1, classes).isnan().logical_not()
    if predicted is not None:
        predicted.append(torch.where(is_number, classes, -1).squeeze(1))
    matches = ((classes == y.unsqueeze(1)) & is_number).squeeze(1)
    return matches if matches.dim() == 1 else matches.flatten(1).to(widest_float(y.device)).mean(1)


def _label_advice(logits: Tensor, y: object) -> str:
    if isinstance(y, Tensor) and y.shape == logits.shape:
        return "y.argmax(1) if they are one-hot, or "
    if isinstance(y, Tensor) and y.dim() == 2 and y.shape[1] == 1:
        return "y.squeeze(1), or "
    return ""


def _check_values(values: object, count: int, rows: Rows) -> Tensor:
    """Return the values of a score function, or raise unless there is one per row."""
    if not isinstance(values, Tensor) or values.shape != (count,):
        got = tuple(values.shape) if isinstance(values, Tensor) else type(values).__name__
        raise TypeError(
            f"score returned {got} for {count} rows of task {rows.spans[0].task!r}, expected a "
            f"tensor of shape ({count},): one value per row"
        )
    plain = values.dtype in (torch.bool, torch.float32, torch.float64)
    return values.detach() if plain else values.detach().to(widest_float(values.device))


def _is_out_of_memory(error: BaseException) -> bool:
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and OUT_OF_MEMORY in str(error)
