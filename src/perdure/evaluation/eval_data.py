"""Evaluation data as it is given: how examples form a batch, and what is wrong with others."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from itertools import islice
from numbers import Number
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    default_collate,
)
from torch.utils.data import Subset as DatasetSubset

from .._display import count_of
from .state.tensors import as_tensors, leaves, map_tree

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from .eval_set import EvalSet

__all__ = [
    "PADDING",
    "as_examples",
    "check_classes",
    "check_ids",
    "check_labels",
    "check_lengths",
    "check_types",
    "collate_examples",
    "common_length",
    "decoder_inputs",
    "is_list_of_examples",
    "is_stream",
    "one_line",
    "read_stream",
    "refuse_batches",
    "sampled_dataset",
    "split_batch",
]

MAX_STREAMED = 10_000  # examples of a stream without a length that are read into memory
PADDING = (
    "pad them with a collate function: perdure.EvalTask(data, collate=…), for example "
    "transformers.DataCollatorWithPadding(tokenizer)"
)
TYPE_ERROR = re.compile("dtype|scalar type|Input type")  # of PyTorch, in its various wordings
LABEL_KEYS = ("labels", "label", "y", "target", "targets")  # of a batch that is a dict


def collate_examples(items: list[object]) -> object:
    """Return a batch as PyTorch's `default_collate` does, but a list of numbers is one tensor.

    Example:
        >>> collate_examples([{"ids": [1, 2], "label": 0}, {"ids": [3, 4], "label": 1}])["ids"]
        tensor([[1, 2],
                [3, 4]])
    """
    batch: object = default_collate([map_tree(_as_row, item) for item in items])
    return batch


def as_examples(data: object) -> object:
    """Return columns, as `(x, y)` or a dict, as a list of examples; anything else as it is.

    Example:
        >>> as_examples({"ids": [[1], [2, 3]], "label": [0, 1]})
        [{'ids': [1], 'label': 0}, {'ids': [2, 3], 'label': 1}]
        >>> as_examples(([[1], [2, 3]], [0, 1]))
        [([1], 0), ([2, 3], 1)]
    """
    if isinstance(data, Mapping):
        rows = zip(*data.values(), strict=True)
        return [dict(zip(data, row, strict=True)) for row in rows]
    if isinstance(data, tuple | list) and not is_list_of_examples(data):
        return list(zip(*data, strict=True))
    return data


def check_lengths(items: Iterable[object], name: str) -> None:
    """Raise if rows of numbers, such as token ids, have unequal lengths."""
    lengths: dict[object, set[int]] = {}
    for item in items:
        values = item if isinstance(item, tuple | list) else [item]
        for key, part in item.items() if isinstance(item, Mapping) else enumerate(values):
            if isinstance(part, list) and part and isinstance(part[0], Number):
                lengths.setdefault(key, set()).add(len(part))
    for found in lengths.values():
        if len(found) > 1:
            raise TypeError(
                f"task {name!r}: rows have {min(found)} to {max(found)} numbers, expected one "
                f"length; {PADDING}"
            )


def read_stream(data: object, name: str) -> list[object]:
    """Return the examples of an IterableDataset, or raise if it has too many."""
    examples = list(islice(iter(data), MAX_STREAMED + 1))  # type: ignore[call-overload]
    if len(examples) > MAX_STREAMED:
        raise ValueError(
            f"task {name!r}: {type(data).__name__} is a stream of more than {MAX_STREAMED} "
            "examples, which would be read into memory; pass a part of it: "
            "list(itertools.islice(dataset, 1000)), or a Dataset with a length"
        )
    return examples


def is_stream(data: object) -> bool:
    """Return whether data can be iterated over again and again, but not indexed."""
    if hasattr(data, "__getitem__") and not isinstance(data, IterableDataset):
        return False
    return hasattr(data, "__iter__") and not hasattr(data, "__next__")


def is_list_of_examples(data: object) -> bool:
    """Return whether a list holds (example, label) pairs rather than all examples and labels.

    Example:
        >>> is_list_of_examples([([0.5, 1.0], 0), ([1.5, 2.0], 1)])
        True
        >>> is_list_of_examples([[[0.5, 1.0], [1.5, 2.0]], [0, 1]])
        False
    """
    if not isinstance(data, list) or not data or not isinstance(data[0], tuple | list | Mapping):
        return False
    return len(data) != 2 or all(isinstance(item, tuple) and _has_one_label(item) for item in data)


def _as_row(leaf: object) -> object:
    is_row = isinstance(leaf, list) and bool(leaf) and isinstance(leaf[0], Number | list)
    return torch.as_tensor(leaf) if is_row else leaf


def _has_one_label(item: object) -> bool:
    """Return whether an item is an (example, label) pair whose label is one number."""
    if not isinstance(item, tuple | list) or len(item) != 2:
        return False
    label = item[1]
    return isinstance(label, Number) or (isinstance(label, Tensor | np.ndarray) and not label.ndim)


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


def decoder_inputs(model: object, x: object, y: object) -> object:
    """Return the inputs of an encoder-decoder with those of its decoder, made from the labels.

    Hugging Face's models make them themselves where they are passed labels, and say how.
    """
    make: Any = getattr(model, "prepare_decoder_input_ids_from_labels", None)
    if make is None or not isinstance(x, Mapping) or "decoder_input_ids" in x:
        return x
    return {**x, "decoder_input_ids": make(labels=y)}


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
                f"{weights.dtype}; convert the examples: x.to({weights.dtype}), or of an array "
                f"x.astype('{str(weights.dtype).removeprefix('torch.')}') ({one_line(error)})"
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
