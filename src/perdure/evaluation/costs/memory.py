"""Memory: the peak of a process or a GPU, and the size of training data."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import suppress
from numbers import Integral
from pathlib import Path
from typing import NamedTuple

import torch

from ..state.reachable import GENERATORS, preserve_generators, reachable
from ..state.trees import as_tensors, first_tensor, leaves, nbytes

__all__ = ["DataSize", "data_size", "peak_memory", "reset_peak_memory"]


def reset_peak_memory(device: torch.device | str) -> None:
    """Measure the peak from here on: another run was in this process before."""
    if torch.device(device).type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    with suppress(OSError):  # elsewhere than on Linux the peak is that of the whole process
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def peak_memory(device: torch.device) -> float | None:
    """Return the peak of allocated GPU memory, or of the process's memory, in bytes."""
    if device.type == "cuda":
        return float(torch.cuda.max_memory_allocated(device))
    with suppress(OSError, ValueError, IndexError):
        status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
        return float(status.split("VmHWM:")[1].split()[0]) * 1024
    try:
        import resource
    except ImportError:  # Windows
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit)


class DataSize(NamedTuple):
    """How large training data is, None where that is unknown."""

    examples: int | None = None
    bytes: int | None = None


def data_size(data: object) -> DataSize:
    """Return the size of training data: tensors, a Dataset, a DataLoader or a number of examples.

    Example:
        >>> data_size((torch.zeros(10, 4), torch.zeros(10)))
        DataSize(examples=10, bytes=200)
        >>> data_size(60_000)
        DataSize(examples=60000, bytes=None)
    """
    if data is None:
        return DataSize()
    if isinstance(data, bool | float | str) or (isinstance(data, Integral) and int(data) < 0):
        raise TypeError(
            f"train_data is {data!r:.60}, expected training data or a number of examples"
        )
    if isinstance(data, Integral):
        return DataSize(int(data))
    data = getattr(data, "dataset", data)  # of a DataLoader
    data = getattr(data, "tensors", data)  # of a TensorDataset
    if isinstance(data, tuple | Mapping) or hasattr(data, "nbytes") or _is_pair(data):
        return DataSize(len(first_tensor(as_tensors(data))), nbytes(as_tensors(data)))
    try:
        with preserve_generators(reachable([data], GENERATORS)):
            example = data[0]  # type: ignore[index]  # what has none is caught
        sizes = [getattr(leaf, "nbytes", None) for leaf in leaves(example)]
        count = len(data)  # type: ignore[arg-type]
    except (TypeError, NotImplementedError):  # an iterable dataset
        return DataSize()
    known = [size for size in sizes if size is not None]  # labels are often plain numbers
    return DataSize(count, count * sum(known) if known else None)


def _is_pair(data: object) -> bool:
    """Return whether a list holds all examples and all labels, rather than one example each."""
    return isinstance(data, list) and all(getattr(part, "ndim", 0) for part in data)
