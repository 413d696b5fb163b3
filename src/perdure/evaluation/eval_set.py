"""One task's evaluation data, however it was given, and the examples evaluated while training."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np
import torch
from torch.utils.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    TensorDataset,
    default_collate,
    default_convert,
)
from torch.utils.data import Subset as DatasetSubset

from .options import EvalTask, Subset, as_subset
from .state.reachable import GENERATORS, RandomGenerator, preserve_generators, reachable
from .state.trees import as_tensors, first_tensor, leaves, map_tree, take_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

__all__ = ["EvalSet", "split_batch"]

LABEL_KEYS = ("labels", "label", "y", "target", "targets")  # of a batch that is a dict


class EvalSet:
    """One task's evaluation data, loaded when it is first needed.

    Args:
        name: the task.
        task: its data, or an `EvalTask` with options.
        subset: which examples are evaluated while training, unless the task has its own.
    """

    def __init__(self, name: str, task: object, subset: Subset) -> None:
        if not isinstance(task, EvalTask):
            task = EvalTask(task)
        self.name = name
        self.classes = None if task.classes is None else _check_classes(task.classes, name)
        self._subset = subset if task.subset is None else as_subset(task.subset)
        self._ids = None if task.ids is None else _check_ids(task.ids, name)
        self._data: Any = task.data
        self._loaded = False
        self._tensors: tuple[object, object] | None = None
        self._dataset: Any = None
        self._generators: list[RandomGenerator] = []
        self._collate: Callable[[list[object]], object] = default_collate
        self._fixed_rows: tuple[object, object] | None = None
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

    def load(self) -> None:
        """Load the data; a second call does nothing."""
        if self._loaded:
            return
        data = self._data
        if callable(data) and not hasattr(data, "__getitem__"):
            with preserve_generators(reachable([data], GENERATORS)):
                data = data()
        if isinstance(data, DataLoader):
            if data.collate_fn is not default_convert:  # what a loader without batches has
                self._collate = data.collate_fn
            data = _sampled_dataset(data, self.name)
        if isinstance(data, TensorDataset) and self._collate is default_collate:
            data = data.tensors
        readable = hasattr(data, "__getitem__") and hasattr(data, "__len__")
        if isinstance(data, str | bytes | IterableDataset) or not readable:
            raise TypeError(
                f"task {self.name!r}: data is {type(data).__name__}, expected tensors (x, y), a "
                "Dataset with a length, or a function that returns one"
            )
        if isinstance(data, tuple | list | Mapping) and not _is_list_of_examples(data):
            x, y = split_batch(as_tensors(data), self.name)
            if len(first_tensor(x)) != len(first_tensor(y)):
                raise ValueError(
                    f"task {self.name!r}: {len(first_tensor(x))} examples and "
                    f"{len(first_tensor(y))} labels, expected as many"
                )
            self._tensors, self._size = (x, y), len(first_tensor(x))
        else:
            self._dataset, self._size = data, len(data)
        self._check_size()
        self._data = None
        self._generators = reachable([self._dataset, self._collate], GENERATORS)
        if reachable([self._dataset], GENERATORS):  # every read would differ
            self._dataset = self._read(np.arange(self._size))
        self._loaded = True

    def _check_size(self) -> None:
        if self._size < 1:
            raise ValueError(f"task {self.name!r}: no examples, expected at least 1")
        if self._ids is not None and len(self._ids) != self._size:
            raise ValueError(
                f"task {self.name!r}: {len(self._ids)} ids for {self._size} examples, expected one "
                "per example"
            )

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

    def fixed_rows(self) -> tuple[object, object]:
        """Return the fixed subset, read once, so that random transforms are applied once."""
        if self._fixed_rows is None:
            self._fixed_rows = self.rows(self.indices())
        return self._fixed_rows

    def rows(self, indices: NDArray[np.int64]) -> tuple[object, object]:
        """Return the examples at `indices` and their labels."""
        self.load()
        if self._tensors is not None:
            if len(indices) == self.size:
                return self._tensors
            return take_rows(self._tensors, torch.as_tensor(indices))
        items = self._read(indices)
        with preserve_generators(self._generators):
            return split_batch(as_tensors(self._collate(items)), self.name)

    def _read(self, indices: NDArray[np.int64]) -> list[object]:
        """Return examples of a Dataset. Its random generators, which training may use, are kept."""
        with preserve_generators(self._generators):
            return [self._dataset[int(k)] for k in indices]

    def batches(self, size: int) -> Iterator[tuple[object, object]]:
        """Yield the whole set, `size` examples at a time."""
        self.load()
        for start in range(0, self.size, size):
            if self._tensors is not None:
                part = slice(start, start + size)
                yield map_tree(lambda a, part=part: a[part], self._tensors)
            else:
                yield self.rows(np.arange(start, min(start + size, self.size)))

    def labels(self) -> NDArray[np.generic] | None:
        """Return all labels where they are available as one tensor of integers."""
        y = self._tensors[1] if self._tensors is not None else None
        if isinstance(y, torch.Tensor) and y.dim() == 1 and not y.is_floating_point():
            return np.asarray(y.cpu())
        return None


def split_batch(batch: object, name: str) -> tuple[object, object]:
    """Return the examples and labels of a batch: a pair (the rest is ignored), or a dict.

    Example:
        >>> split_batch({"ids": 1, "labels": 2}, "a")
        ({'ids': 1}, 2)
    """
    if isinstance(batch, Mapping):
        key = next((key for key in LABEL_KEYS if key in batch), None)
        if key is None:
            raise TypeError(
                f"task {name!r}: a batch has {sorted(batch)}, expected labels under one of "
                f"{LABEL_KEYS}"
            )
        return {k: v for k, v in batch.items() if k != key}, batch[key]
    if isinstance(batch, tuple | list) and len(batch) >= 2:
        return batch[0], batch[1]
    raise TypeError(
        f"task {name!r}: a batch is {type(batch).__name__}, expected (examples, labels) or a dict"
    )


def _check_classes(classes: object, name: str) -> list[int]:
    """Return the classes as a list, or raise if they are not integers."""
    array = np.asarray(classes)
    if array.ndim != 1 or array.dtype.kind not in "iu" or not len(array):
        raise ValueError(
            f"task {name!r}: classes is {classes!r:.60}, expected a list of integers like [0, 1]"
        )
    return [int(label) for label in array]


def _check_ids(ids: object, name: str) -> NDArray[np.int64]:
    """Return ids as an array, or raise if they are not distinct integers."""
    array = np.asarray(ids)
    if array.ndim != 1 or array.dtype.kind not in "iu" or len(np.unique(array)) != len(array):
        raise ValueError(
            f"task {name!r}: ids are {array.dtype} of shape {array.shape}, expected one distinct "
            "integer per example"
        )
    return array.astype(np.int64)


def _sampled_dataset(loader: DataLoader[object], name: str) -> Dataset[object]:
    """Return the examples that a DataLoader visits, each once and in the order of its Dataset.

    They are read from a copy of its sampler, because training may be using the sampler itself.
    """
    if isinstance(loader.dataset, IterableDataset):
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
            f"({' '.join(str(error).split()):.80}), expected one that is not shared with training; "
            "pass the Dataset itself or torch.utils.data.Subset(dataset, indices)"
        ) from None
    batches = [sample if isinstance(sample, list | tuple) else [sample] for sample in samples]
    return DatasetSubset(loader.dataset, sorted({int(k) for batch in batches for k in batch}))


def _is_list_of_examples(data: object) -> bool:
    """Return whether a list holds (example, label) pairs rather than all examples and labels."""
    return (
        isinstance(data, list)
        and len(data) > 0
        and isinstance(data[0], tuple | list | Mapping)
        and len(data) != 2
    )
