"""What a cost meter reads: operations of steps and of examples, memory, and the size of data."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import suppress
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import torch
from torch import nn

from ..state.preserve import preserve_state
from ..state.reachable import GENERATORS, preserve_generators, reachable
from ..state.tensors import as_tensors, first_tensor, leaves, map_tree, model_device, nbytes
from .flops import FlopCounter

if TYPE_CHECKING:
    from ..engine.scoring import Rows, Scorer
    from ..eval_set import EvalSet

__all__ = [
    "DataSize",
    "StepFlops",
    "can_count",
    "data_size",
    "evaluation_flops",
    "peak_memory",
    "reset_peak_memory",
    "training_pass_flops",
]

EXAMPLES = 2  # enough to count the operations of one


class StepFlopsState(msgspec.Struct):
    """What a checkpoint keeps of the counting."""

    steps: int = 0
    per_step: float | None = None  # of the last step that was counted
    differs: bool = False  # it differed from the one before; the next one decides


class StepFlops:
    """Counts steps 1, 2, 3, 10, 100, 1000, … of a task, and the one after a step that differs.

    A counted step stands for those that follow, up to the next counted one.

    Attributes:
        problem: why operations cannot be counted, None if they can.
    """

    def __init__(self) -> None:
        self.state = StepFlopsState()
        self.problem: str | None = None
        self.excluded = 0.0  # operations of the current step that do not count as training
        self._counter: FlopCounter | None = None

    @property
    def counting(self) -> bool:
        """Whether the current step is being counted."""
        return self._counter is not None

    @property
    def so_far(self) -> float:
        """Operations counted in the current step."""
        return float(self._counter.total) if self._counter is not None else 0.0

    def start(self) -> None:
        """Start counting if the next step is one to count."""
        next_step = self.state.steps + 1
        digits = str(next_step)
        is_power_of_ten = digits[0] == "1" and not digits[1:].strip("0")
        if not (next_step <= 3 or is_power_of_ten or self.state.differs):
            return
        if _is_compiled():  # a counter would make the step run uncompiled: other bits
            self.problem = "compiled code cannot be counted without changing it"
        elif torch._C._len_torch_dispatch_stack():  # noqa: SLF001 - see flops.py
            self.problem = (
                "something else follows the operations of the step, such as another evaluator or "
                "torch.utils.flop_counter; one evaluator can count them (count_flops=False)"
            )
        else:
            self._counter = FlopCounter()
            self._counter.start()

    def stop(self) -> float | None:
        """Stop counting; return the operations since `start`, None if they were not counted."""
        counter, self._counter = self._counter, None
        excluded, self.excluded = self.excluded, 0.0
        if counter is None:
            return None
        flops = counter.stop() - excluded
        if counter.problem:
            self.problem = counter.problem
            return None
        return flops

    def end_step(self, counted: float | None) -> float | None:
        """Return the operations of a step that has ended, None if they are not known."""
        state = self.state
        state.steps += 1
        if counted is not None:
            # A step that differs may be the short last batch of an epoch: the next one decides.
            same = state.per_step in (None, counted)
            if same or state.differs:
                state.per_step = counted
            state.differs = not (same or state.differs)
        if state.per_step is None:
            return None
        return state.per_step if counted is None else counted


def can_count(*, counting: bool) -> bool:
    """Return whether a block can be counted: it is not compiled, nor inside another mode."""
    other_modes = torch._C._len_torch_dispatch_stack() > counting  # noqa: SLF001 - see flops.py
    return not other_modes and not _is_compiled()


def _is_compiled() -> bool:
    """Return whether torch.compile was called in this process.

    PyTorch does not say so publicly; tests/test_private_torch.py fails if these counters go away.
    """
    utils, frames = (sys.modules.get(f"torch._dynamo.{name}") for name in ("utils", "eval_frame"))
    if utils is None or frames is None:
        return False
    backends = getattr(frames, "cached_backends", {}).values()
    return bool(utils.counters["frames"]) or any(backends)


def evaluation_flops(model: object, task: EvalSet, scorer: Scorer) -> float:
    """Return the operations of evaluating one example of a task."""
    with preserve_state(model):
        rows = _few_rows(model, task, scorer)
        with FlopCounter() as flops:
            scorer.values(model, rows) if scorer.metric is None else scorer.outputs(model, rows)
    return _per_example(flops, rows)


def training_pass_flops(model: object, task: EvalSet, scorer: Scorer) -> float:
    """Return the operations of a forward and a backward pass of one example of a task.

    Gradients are returned, not accumulated: those of the model stay as they are.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"the model is {type(model).__name__}, expected a torch.nn.Module")
    trainable = [p for p in model.parameters() if p.requires_grad]
    with preserve_state(model):
        rows = _few_rows(model, task, scorer)
        for parameter in trainable:
            parameter.requires_grad_()
        with torch.enable_grad(), FlopCounter() as flops:
            output = first_tensor(scorer.call_forward(model, rows, rows.x, rows.y))
            torch.autograd.grad(output.sum(), trainable, allow_unused=True)
    return _per_example(flops, rows)


def _few_rows(model: object, task: EvalSet, scorer: Scorer) -> Rows:
    part = task.fixed_rows(scorer.part_size(task))[0]
    few = map_tree(lambda a: a[:EXAMPLES] if isinstance(a, torch.Tensor) else a, part)
    (rows,) = scorer.group([(task.name, *few)], model_device(model))
    return rows


def _per_example(flops: FlopCounter, rows: Rows) -> float:
    if flops.problem:
        raise ValueError(flops.problem)
    return float(flops.total) / len(rows)


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
