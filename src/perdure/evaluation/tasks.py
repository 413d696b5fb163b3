"""Evaluation data as it comes (tensors, a Dataset, a factory), and the rows that are tested."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np
import torch
from torch.utils.data import (
    DataLoader,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    Subset,
    TensorDataset,
    default_collate,
    default_convert,
)

from .state.reachable import GENERATORS, keep_generators, reachable
from .state.trees import as_tensors, first_tensor, leaves, mapped, taken

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

__all__ = ["EvaluationTask", "split_batch"]

LABELS = ("labels", "label", "y", "target", "targets")  # where a batch that is a dict has them


class EvaluationTask:
    """One task's evaluation data, opened when it is first needed.

    Args:
        name: the task.
        data: `(x, y)` as tensors or arrays (x may be a tuple or dict of them), a dict with
            labels, a map-style Dataset of such pairs or dicts, a DataLoader, or a function
            without arguments that returns one of these.
        subset: how many examples the fixed subset has; None for all.
        seed: of the choice of the subset.
        ids: a whole number that names each example, for the record; positions if not given.
    """

    def __init__(
        self, name: str, data: Any, *, subset: int | None, seed: int, ids: Any = None
    ) -> None:
        self.name = name
        self._data = data
        self._ids = None if ids is None else _judged_ids(ids, name)
        self._fingerprint: str | None = None
        self._wanted = subset
        self._seed = seed
        self._tensors: tuple[Any, Any] | None = None
        self._dataset: Any = None
        self._generators: list[Any] = []
        self._collate: Callable[[list[Any]], Any] = default_collate
        self._opened = False
        self._subset: tuple[Any, Any] | None = None

    @property
    def size(self) -> int:
        """How many examples the whole set has."""
        self.open()
        return self._size

    def open(self) -> None:
        """Open the data; a second call does nothing."""
        if self._opened:
            return
        data = self._data
        if callable(data) and not hasattr(data, "__getitem__"):
            with keep_generators(reachable([data], GENERATORS)):
                data = data()
        if isinstance(data, DataLoader):
            if data.collate_fn is not default_convert:  # of a loader that makes no batches
                self._collate = data.collate_fn
            data = _sampled(data, self.name)
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
        if self._size < 1:
            raise ValueError(f"task {self.name!r}: no examples, expected at least 1")
        if self._ids is not None and len(self._ids) != self._size:
            raise ValueError(
                f"task {self.name!r}: {len(self._ids)} ids of {self._size} examples, expected one "
                "each"
            )
        self._data = None
        self._generators = reachable([self._dataset, self._collate], GENERATORS)
        if reachable([self._dataset], GENERATORS):  # every reading would differ
            self._dataset = self._read(np.arange(self._size))
        self._opened = True

    def indices(self, draw: int | None = None) -> NDArray[np.int64]:
        """Return which examples are tested while training: fixed, or drawn anew for each `draw`."""
        self.open()
        if self.subset_is_whole:
            return np.arange(self.size)
        key = [self._seed, crc32(self.name.encode()), *([] if draw is None else [draw])]
        chosen = np.random.default_rng(key).choice(self.size, self._wanted, replace=False)
        return np.sort(chosen).astype(np.int64)

    @property
    def subset_is_whole(self) -> bool:
        """Whether all examples are tested while training."""
        return self._wanted is None or self._wanted >= self.size

    def ids(self, *, whole: bool) -> NDArray[np.integer[Any]]:
        """Return which examples the subset, or the whole set, is made of, for the record."""
        chosen = np.arange(self.size) if whole else self.indices()
        if self._ids is not None:
            return self._ids[chosen]
        # As small as can be: a whole set's positions are the larger part of its record.
        return chosen.astype(np.min_scalar_type(self.size - 1)) if whole else chosen

    def fingerprint(self) -> str | None:
        """Return a checksum of the labels and some examples; None where these are no tensors.

        It tells two runs apart that have different data at the same positions.
        """
        if self._fingerprint is None and self._opened and self._tensors is not None:
            some = np.unique(np.linspace(0, self.size - 1, 64).astype(np.int64))
            labels = self.labels()
            value = crc32(b"" if labels is None else np.ascontiguousarray(labels).tobytes())
            for part in leaves(taken(self._tensors, torch.as_tensor(some))):
                if isinstance(part, torch.Tensor) and part.layout == torch.strided:
                    plain = part.detach().resolve_conj().cpu().contiguous().flatten()
                    value = crc32(plain.view(torch.uint8).numpy().tobytes(), value)
            self._fingerprint = f"{value:08x}"
        return self._fingerprint

    def subset(self) -> tuple[Any, Any]:
        """Return the fixed subset, read once: a random transform in a Dataset stays as it fell."""
        if self._subset is None:
            self._subset = self.rows(self.indices())
        return self._subset

    def rows(self, indices: NDArray[np.int64]) -> tuple[Any, Any]:
        """Return the examples at `indices` and their labels."""
        self.open()
        if self._tensors is not None:
            if len(indices) == self.size:
                return self._tensors
            x, y = taken(self._tensors, torch.as_tensor(indices))
            return x, y
        items = self._read(indices)
        with keep_generators(self._generators):
            return split_batch(as_tensors(self._collate(items)), self.name)

    def _read(self, indices: NDArray[np.int64]) -> list[Any]:
        """Return examples of a Dataset. Generators of its own stay as they are: training's too."""
        with keep_generators(self._generators):
            return [self._dataset[int(k)] for k in indices]

    def batches(self, size: int) -> Iterator[tuple[Any, Any]]:
        """Yield the whole set, `size` examples at a time."""
        self.open()
        for start in range(0, self.size, size):
            if self._tensors is not None:
                part = slice(start, start + size)
                yield mapped(lambda a, part=part: a[part], self._tensors)
            else:
                yield self.rows(np.arange(start, min(start + size, self.size)))

    def labels(self) -> NDArray[Any] | None:
        """Return all labels where they are at hand as one tensor of whole numbers."""
        y = self._tensors[1] if self._tensors is not None else None
        if isinstance(y, torch.Tensor) and y.dim() == 1 and not y.is_floating_point():
            return np.asarray(y.cpu())
        return None


def split_batch(batch: Any, name: str) -> tuple[Any, Any]:
    """Return examples and labels of a batch: a pair (more is left out) or a dict with labels.

    Example:
        >>> split_batch({"ids": 1, "labels": 2}, "a")
        ({'ids': 1}, 2)
    """
    if isinstance(batch, Mapping):
        key = next((key for key in LABELS if key in batch), None)
        if key is None:
            raise TypeError(
                f"task {name!r}: a batch has {sorted(batch)}, expected labels under one of {LABELS}"
            )
        return {k: v for k, v in batch.items() if k != key}, batch[key]
    if isinstance(batch, tuple | list) and len(batch) >= 2:
        return batch[0], batch[1]
    raise TypeError(
        f"task {name!r}: a batch is {type(batch).__name__}, expected (examples, labels) or a dict"
    )


def _judged_ids(ids: Any, name: str) -> NDArray[np.int64]:
    """Return ids as an array, or raise if they are not whole numbers, each once."""
    given = np.asarray(ids)
    if given.ndim != 1 or given.dtype.kind not in "iu" or len(np.unique(given)) != len(given):
        raise ValueError(
            f"task {name!r}: ids are {given.dtype} of shape {given.shape}, expected one whole "
            "number per example, each once"
        )
    return given.astype(np.int64)


def _sampled(loader: DataLoader[Any], name: str) -> Any:
    """Return the examples that a DataLoader goes through, each once and in the Dataset's order.

    A copy of its sampler says which: the sampler itself may be in use for training.
    """
    if isinstance(loader.dataset, IterableDataset):
        return loader.dataset
    batches: Any = loader.batch_sampler
    own = batches is not None and getattr(batches, "sampler", None) is not loader.sampler
    sampler: Any = batches if own else loader.sampler
    if isinstance(sampler, SequentialSampler | RandomSampler):
        return loader.dataset
    try:
        chosen = list(copy.deepcopy(sampler, {id(loader.dataset): loader.dataset}))
    except Exception as error:
        raise TypeError(
            f"task {name!r}: the sampler {type(sampler).__name__} cannot be copied and read "
            f"({' '.join(str(error).split()):.80}), expected one that is not shared with training; "
            "pass the Dataset itself or torch.utils.data.Subset(dataset, indices)"
        ) from None
    batched = [each if isinstance(each, list | tuple) else [each] for each in chosen]
    return Subset(loader.dataset, sorted({int(k) for batch in batched for k in batch}))


def _is_list_of_examples(data: Any) -> bool:
    """Return whether a list holds (example, label) pairs rather than all examples and labels."""
    return (
        isinstance(data, list)
        and len(data) > 0
        and isinstance(data[0], tuple | list | Mapping)
        and len(data) != 2
    )
