"""From single examples to a batch: lists, rows of unequal length, and streams without a length."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from numbers import Number
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import IterableDataset, default_collate

from ..state.trees import map_tree

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = [
    "PADDING",
    "as_examples",
    "check_lengths",
    "collate_examples",
    "is_list_of_examples",
    "is_stream",
    "read_stream",
]

MAX_STREAMED = 10_000  # examples of a stream without a length that are read into memory
PADDING = (
    "pad them with a collate function: perdure.EvalTask(data, collate=…), for example "
    "transformers.DataCollatorWithPadding(tokenizer)"
)


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
        parts = item.items() if isinstance(item, Mapping) else enumerate(_parts_of(item))
        for key, part in parts:
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


def _parts_of(item: object) -> Sequence[object]:
    return item if isinstance(item, tuple | list) else [item]


def _has_one_label(item: object) -> bool:
    """Return whether an item is an (example, label) pair whose label is one number."""
    if not isinstance(item, tuple | list) or len(item) != 2:
        return False
    label = item[1]
    return isinstance(label, Number) or (isinstance(label, Tensor | np.ndarray) and not label.ndim)
