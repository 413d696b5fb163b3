"""Checks of the evaluation data of a task, which name what is wrong and what to pass instead."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor, nn
from torch.utils.data import (
    DataLoader,
    Dataset,
    RandomSampler,
    SequentialSampler,
)
from torch.utils.data import Subset as DatasetSubset

from .._display import count_of
from .examples.collation import PADDING, is_stream
from .state.trees import as_tensors, leaves

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from .eval_set import EvalSet

__all__ = [
    "check_classes",
    "check_ids",
    "check_labels",
    "check_types",
    "common_length",
    "one_line",
    "refuse_batches",
    "sampled_dataset",
    "split_batch",
]

TYPE_ERROR = re.compile("dtype|scalar type|Input type")  # of PyTorch, in its various wordings
LABEL_KEYS = ("labels", "label", "y", "target", "targets")  # of a batch that is a dict


def split_batch(batch: object, name: str) -> tuple[object, object]:
    """Return the examples and labels of a batch: a pair (the rest is ignored), or a dict.

    Example:
        >>> split_batch({"ids": 1, "labels": 2}, "a")
        ({'ids': 1}, 2)
    """
    if isinstance(batch, Mapping):
        if any(hasattr(part, "column_names") for part in batch.values()):
            raise TypeError(
                f"task {name!r}: data is a dict of the datasets {sorted(map(str, batch))}, "
                "expected one of them"
            )
        key = next((key for key in LABEL_KEYS if key in batch), None)
        if key is None:
            raise TypeError(
                f"task {name!r}: a batch has {sorted(map(str, batch))}, expected labels under one "
                f"of {LABEL_KEYS}"
            )
        return {k: v for k, v in batch.items() if k != key}, batch[key]
    if isinstance(batch, tuple | list) and len(batch) >= 2:
        return batch[0], batch[1]
    raise TypeError(
        f"task {name!r}: a batch is {type(batch).__name__} without labels, expected (examples, "
        "labels) or a dict"
    )


def refuse_batches(data: object, name: str) -> None:
    """Raise if `data` is a list of batches, as `list(loader)` returns it.

    A list of single examples whose labels are vectors looks the same, hence both pieces of advice.
    """
    if isinstance(data, tuple | list) and data and all(map(_is_batch, data)):
        raise TypeError(
            f"task {name!r}: data is a {type(data).__name__} of {len(data)} batches, expected "
            "(x, y) of the whole task; pass the DataLoader itself (for single examples that have "
            "several labels each: their Dataset)"
        )


def common_length(x: object, y: object, name: str) -> int:
    """Return how many examples x and y have, or raise unless all of their tensors have as many."""
    lengths = []
    for part, what in ((x, "examples"), (y, "labels")):
        tensors = [leaf for leaf in leaves(part) if isinstance(leaf, Tensor) and leaf.dim()]
        if not tensors:
            raise TypeError(
                f"task {name!r}: {what} are {_kind(part)}, expected a tensor or an array of numbers"
            )
        own = sorted({len(tensor) for tensor in tensors})
        if len(own) > 1:
            raise ValueError(
                f"task {name!r}: the {what} are several tensors of {own[0]} to {own[-1]} rows, "
                f"expected as many in each; if these are examples of unequal length, {PADDING}"
            )
        lengths += own
    if lengths[0] != lengths[1]:
        raise ValueError(
            f"task {name!r}: {count_of(lengths[0], 'example')} and "
            f"{count_of(lengths[1], 'label')}, expected as many; pass the labels of the same "
            "examples"
        )
    return lengths[0]


def check_labels(x: object, y: object, name: str, classes: Sequence[int] | None) -> None:
    """Raise unless labels are class numbers, and among `classes` where these are given."""
    if isinstance(y, Tensor) and y.dim() > 1 and y.is_floating_point() and _is_class_numbers(x):
        raise TypeError(f"task {name!r}: data is (labels, examples), expected (examples, labels)")
    if not isinstance(y, Tensor) or y.dtype.is_floating_point or y.is_complex():
        got = str(y.dtype).removeprefix("torch.") if isinstance(y, Tensor) else _kind(y)
        raise TypeError(
            f"labels of task {name!r} are {got}, expected a class number per example: "
            "convert them (y.long(), or y.argmax(1) if they are one-hot), or pass score= for others"
        )
    found = set(y.unique().tolist()) if y.dim() == 1 else set()  # an image has other classes too
    if classes is not None and (others := sorted(found - set(classes))):
        raise ValueError(
            f"task {name!r}: label {others[0]} is not among its classes {list(classes)!r:.60} and "
            "would always count as wrong; add it to classes, or number the labels as the outputs"
        )


def check_classes(classes: object, name: str) -> list[int]:
    """Return the classes as a list, or raise if they are not integers."""
    array = np.asarray(classes)
    if array.ndim != 1 or array.dtype.kind not in "iu" or not len(array) or array.min() < 0:
        raise ValueError(
            f"task {name!r}: classes is {classes!r:.60}, expected a list of integers like [0, 1]"
        )
    return [int(label) for label in array]


def check_ids(ids: object, name: str) -> NDArray[np.int64]:
    """Return ids as an array, or raise if they are not distinct integers."""
    array = np.asarray(ids)
    if array.ndim != 1 or array.dtype.kind not in "iu" or len(np.unique(array)) != len(array):
        raise ValueError(
            f"task {name!r}: ids are {array.dtype} of shape {array.shape}, expected one distinct "
            "integer per example"
        )
    return array.astype(np.int64)


def sampled_dataset(loader: DataLoader[object], name: str) -> Dataset[object]:
    """Return the examples that a DataLoader visits, each once and in the order of its Dataset.

    They are read from a copy of its sampler, because training may be using the sampler itself.
    """
    if is_stream(loader.dataset):
        return loader.dataset
    batch_sampler: Any = loader.batch_sampler
    custom = (
        batch_sampler is not None and getattr(batch_sampler, "sampler", None) is not loader.sampler
    )
    sampler: Any = batch_sampler if custom else loader.sampler
    if isinstance(sampler, SequentialSampler | RandomSampler):
        return loader.dataset
    try:
        samples = list(copy.deepcopy(sampler, {id(loader.dataset): loader.dataset}))
    except Exception as error:
        raise TypeError(
            f"task {name!r}: the sampler {type(sampler).__name__} cannot be copied and read "
            f"({one_line(error)}), expected one that is not shared with training; "
            "pass the Dataset itself or torch.utils.data.Subset(dataset, indices)"
        ) from None
    batches = [sample if isinstance(sample, list | tuple) else [sample] for sample in samples]
    return DatasetSubset(loader.dataset, sorted({int(k) for batch in batches for k in batch}))


def check_types(error: Exception, model: object, tasks: Iterable[EvalSet]) -> None:
    """Raise a plain error where the model failed because examples have another type."""
    weights = next(iter(model.parameters()), None) if isinstance(model, nn.Module) else None
    if weights is None or not TYPE_ERROR.search(str(error)):
        return
    for task in tasks:
        x = task.first_example()
        if x is not None and x.dtype != weights.dtype:
            raise TypeError(
                f"task {task.name!r}: its examples are {x.dtype} and the model's weights "
                f"{weights.dtype}; convert the examples: x.to({weights.dtype}) "
                f"({one_line(error)})"
            ) from None


def one_line(error: BaseException) -> str:
    """Return the first words of an error, to be quoted in another."""
    return f"{type(error).__name__}: {' '.join(str(error).split()):.80}"


def _is_batch(item: object) -> bool:
    """Return whether an item is an (examples, labels) pair with one class number per example."""
    if not isinstance(item, tuple | list) or len(item) != 2:
        return False
    if not all(isinstance(part, Tensor | np.ndarray) for part in item):
        return False
    x, y = as_tensors(tuple(item))
    return bool(x.dim() > 1 and _is_class_numbers(y) and len(x) == len(y))


def _is_class_numbers(part: object) -> bool:
    """Return whether a part of the data is one integer per example."""
    if not isinstance(part, Tensor) or part.dim() != 1:
        return False
    return not (part.is_floating_point() or part.is_complex())


def _kind(part: object) -> str:
    """Return what labels or examples are, in words."""
    if isinstance(part, np.ndarray):
        return f"an array of {part.dtype}"
    if isinstance(part, list | tuple) and part:
        return f"a {type(part).__name__} of {type(part[0]).__name__}"
    return type(part).__name__
