"""One task's evaluation data, however it was given, and the examples evaluated while training."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset, default_collate, default_convert

from .._display import count_of
from .arguments import EvalTask, Subset, as_subset
from .eval_data import (
    as_examples,
    check_classes,
    check_ids,
    check_labels,
    check_lengths,
    collate_examples,
    common_length,
    is_list_of_examples,
    is_stream,
    one_line,
    read_stream,
    refuse_batches,
    sampled_dataset,
    split_batch,
)
from .state.reachable import GENERATORS, RandomGenerator, preserve_generators, reachable
from .state.tensors import as_tensors, leaves, map_tree, take_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

__all__ = ["EvalSet"]

CHECKED = 100  # examples whose lengths are compared before training


class EvalSet:
    """One task's evaluation data, loaded when it is first needed.

    Args:
        name: the task.
        task: its data, or an `EvalTask` with options.
        subset: which examples are evaluated while training, unless the task has its own.
        labels_are_classes: whether labels have to be class numbers, as accuracy needs them.
        train_of: the task whose training examples these are; None for evaluation data.
    """

    def __init__(
        self, name: str, task: object, subset: Subset, *, labels_are_classes: bool = False,
        train_of: str | None = None,
    ) -> None:  # fmt: skip
        if not isinstance(task, EvalTask):
            task = EvalTask(task)
        self.name, self.control, self.train_of = name, task.control, train_of
        self.classes = None if task.classes is None else check_classes(task.classes, name)
        self._subset = subset if task.subset is None else as_subset(task.subset)
        self._ids = None if task.ids is None else check_ids(task.ids, name)
        self._data: Any = task.data
        self._labels_are_classes = labels_are_classes
        self._checked = self._loaded = False
        self._tensors: tuple[object, object] | None = None
        self._dataset: Any = None
        self._generators: list[RandomGenerator] = []
        self._collate: Callable[[list[object]], object] = task.collate or collate_examples
        self._has_collate = task.collate is not None
        self._fixed_rows: list[tuple[object, object]] | None = None
        self._fingerprint: str | None = None

    @property
    def size(self) -> int:
        """How many examples the whole set has."""
        self.load()
        return self._size

    @property
    def resample(self) -> bool:
        """Whether other examples are evaluated each time."""
        return self._subset.resample

    @property
    def is_padded(self) -> bool:
        """Whether examples form a batch by a function of the user's, which may pad them."""
        return self._collate is not collate_examples

    @property
    def is_on_cuda(self) -> bool:
        """Whether the data is tensors on a GPU."""
        tensors = [leaf for leaf in leaves(self._tensors) if isinstance(leaf, torch.Tensor)]
        return bool(tensors) and all(tensor.is_cuda for tensor in tensors)

    @property
    def is_function(self) -> bool:
        """Whether the data is a function that has not been called yet."""
        data = self._data
        return callable(data) and not isinstance(data, type) and not hasattr(data, "__getitem__")

    def load(self) -> None:
        """Load the data; a second call does nothing."""
        if self._loaded:
            return
        self.check()
        if reachable([self._dataset], GENERATORS):  # every read would differ
            self._dataset = self._read(np.arange(self._size))
        self._loaded = True

    def check(self) -> None:
        """Raise unless the data can be evaluated; a second call does nothing."""
        if self._checked:
            return
        data = self._data
        if isinstance(data, type):
            raise TypeError(
                f"task {self.name!r}: data is the class {data.__name__}, expected an instance of "
                f"it: {data.__name__}(…)"
            )
        if self.is_function:
            with preserve_generators(reachable([data], GENERATORS)):
                data = data()
        if isinstance(data, DataLoader):
            if not (self._has_collate or data.collate_fn in (default_convert, default_collate)):
                self._collate = data.collate_fn
            data = sampled_dataset(data, self.name)
        if is_stream(data):
            with preserve_generators(reachable([data], GENERATORS)):
                data = read_stream(data, self.name)
        if isinstance(data, TensorDataset) and self._collate is collate_examples:
            data = data.tensors
        readable = hasattr(data, "__getitem__") and hasattr(data, "__len__")
        if isinstance(data, str | bytes) or not readable:
            raise TypeError(
                f"task {self.name!r}: data is {type(data).__name__}, expected tensors (x, y), a "
                "Dataset with a length, a DataLoader of one, or a function that returns one"
            )
        refuse_batches(data, self.name)
        if self._has_collate:
            data = as_examples(data)
        if isinstance(data, tuple | list | Mapping) and not is_list_of_examples(data):
            self._tensors = self._as_columns(data)
            self._size = common_length(*self._tensors, self.name)
        else:
            self._dataset, self._size = data, len(data)
        self._check_size()
        self._generators = reachable([self._dataset, self._collate], GENERATORS)
        if self._tensors is not None and self._labels_are_classes:
            check_labels(*self._tensors, self.name, self.classes)
        elif self._tensors is None and not reachable([self._dataset], GENERATORS):
            self._check_last_example()
        self._data, self._checked = None, True

    def _as_columns(self, data: object) -> tuple[object, object]:
        try:
            return split_batch(as_tensors(data), self.name)
        except ValueError as error:  # of NumPy
            columns: Any = data.values() if isinstance(data, Mapping) else data
            for column in columns:
                rows = [(row,) for row in column] if isinstance(column, list) else []
                check_lengths(rows, self.name)
            raise TypeError(
                f"task {self.name!r}: its examples form no tensor ({one_line(error)}); expected "
                "numbers"
            ) from None

    def _check_size(self) -> None:
        if self._size < 1:
            raise ValueError(f"task {self.name!r}: no examples, expected at least 1")
        if self._ids is not None and len(self._ids) != self._size:
            raise ValueError(
                f"task {self.name!r}: {count_of(len(self._ids), 'id')} for "
                f"{count_of(self._size, 'example')}, expected one per example"
            )

    def _check_last_example(self) -> None:
        """Read the last example, so that a Dataset that is too short raises before training."""
        items = self._read(np.array([self._size - 1]))
        if self._collate is collate_examples and any(isinstance(a, list) for a in leaves(items[0])):
            items = self._read(np.arange(min(self._size, CHECKED))) + items
            check_lengths(items, self.name)
        if self._has_collate or self._collate is collate_examples:
            x, y = self._join(items)
            if self._labels_are_classes:
                check_labels(x, y, self.name, None)

    def indices(self, draw: int | None = None) -> NDArray[np.int64]:
        """Return which examples are evaluated while training: fixed ones, or those of `draw`."""
        if self.subset_is_whole:
            return np.arange(self.size)
        key = [self._subset.seed, crc32(self.name.encode()), *([] if draw is None else [draw])]
        chosen = np.random.default_rng(key).choice(self.size, self._subset.size, replace=False)
        return np.sort(chosen).astype(np.int64)

    @property
    def subset_is_whole(self) -> bool:
        """Whether all examples are evaluated while training."""
        return self._subset.size is None or self._subset.size >= self.size

    def ids(self, *, whole: bool) -> NDArray[np.integer[Any]]:
        """Return the ids of the examples in the subset, or in the whole set, for the record."""
        indices = np.arange(self.size) if whole else self.indices()
        if self._ids is not None:
            return self._ids[indices]
        # The smallest type: most of the record of a whole set are its positions.
        return indices.astype(np.min_scalar_type(self.size - 1)) if whole else indices

    def fingerprint(self) -> str | None:
        """Return a checksum of the labels and some examples; None where these are no tensors.

        It distinguishes runs that have different data at the same positions.
        """
        if self._fingerprint is None and self._loaded and self._tensors is not None:
            some = np.unique(np.linspace(0, self.size - 1, 64).astype(np.int64))
            labels = self.labels()
            value = crc32(b"" if labels is None else np.ascontiguousarray(labels).tobytes())
            for part in leaves(take_rows(self._tensors, torch.as_tensor(some))):
                if isinstance(part, torch.Tensor) and part.layout == torch.strided:
                    plain = part.detach().resolve_conj().cpu().contiguous().flatten()
                    value = crc32(plain.view(torch.uint8).numpy().tobytes(), value)
            self._fingerprint = f"{value:08x}"
        return self._fingerprint

    def fixed_rows(self, part_size: int) -> list[tuple[object, object]]:
        """Return the fixed subset, read once, so that random transforms are applied once.

        It is in one part, unless rows are padded: then each part is padded by itself.
        """
        if self._fixed_rows is None:
            indices = self.indices()
            size = part_size if self.is_padded else len(indices)
            starts = range(0, len(indices), size)
            self._fixed_rows = [self.rows(indices[start : start + size]) for start in starts]
        return self._fixed_rows

    def rows(self, indices: NDArray[np.int64]) -> tuple[object, object]:
        """Return the examples at `indices` and their labels."""
        self.load()
        if self._tensors is not None:
            if len(indices) == self.size:
                return self._tensors
            return take_rows(self._tensors, torch.as_tensor(indices))
        return self._join(self._read(indices))

    def _read(self, indices: NDArray[np.int64]) -> list[object]:
        """Return examples of a Dataset. Its random generators, which training may use, are kept."""
        k = 0
        try:
            with preserve_generators(self._generators):
                return [self._dataset[k := int(index)] for index in indices]
        except (IndexError, KeyError) as error:
            raise ValueError(
                f"task {self.name!r}: {type(self._dataset).__name__} has a length of {self._size} "
                f"but no example {k} ({one_line(error)}); its __len__ must count examples that all "
                "have a label"
            ) from error

    def _join(self, items: list[object]) -> tuple[object, object]:
        """Return examples of a Dataset as one batch, and their labels."""
        try:
            with preserve_generators(self._generators):
                batch = self._collate(items)
        except (RuntimeError, TypeError, ValueError) as error:
            advice = (
                "drop what it cannot convert, such as columns of text: dataset.remove_columns([…])"
                if self.is_padded
                else "expected tensors of one shape: convert them in the Dataset, or pass a "
                "collate_fn: perdure.EvalTask(data, collate=…)"
            )
            raise TypeError(
                f"task {self.name!r}: its examples do not form a batch ({one_line(error)}); "
                f"{advice}"
            ) from error
        return split_batch(as_tensors(batch), self.name)

    def batches(self, size: int) -> Iterator[tuple[object, object]]:
        """Yield the whole set, `size` examples at a time."""
        self.load()
        for start in range(0, self.size, size):
            if self._tensors is not None:
                part = slice(start, start + size)
                yield map_tree(lambda a, part=part: a[part], self._tensors)
            else:
                yield self.rows(np.arange(start, min(start + size, self.size)))

    def first_example(self) -> torch.Tensor | None:
        """Return the first tensor of the examples where some are in memory."""
        parts = self._fixed_rows if self._tensors is None else [self._tensors]
        x = parts[0][0] if parts else None
        return next((leaf for leaf in leaves(x) if isinstance(leaf, torch.Tensor)), None)

    @cached_property
    def label_classes(self) -> frozenset[int]:
        """The classes of the task: those stated, or those of its labels."""
        self.load()
        labels = self.labels() if self.classes is None else self.classes
        return frozenset() if labels is None else frozenset(np.unique(labels).tolist())

    def labels(self) -> NDArray[np.generic] | None:
        """Return all labels where they are available as one tensor of integers."""
        y = self._tensors[1] if self._tensors is not None else None
        if isinstance(y, torch.Tensor) and y.dim() == 1 and not y.is_floating_point():
            return np.asarray(y.cpu())
        return None
