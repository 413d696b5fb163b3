"""What a task costs, measured beside training: operations, seconds and bytes."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from contextlib import contextmanager, nullcontext, suppress
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from ..engine.eval_batches import device_of, state_of
from ..state.preserve import preserve_state
from ..state.reachable import GENERATORS, keep_generators, reachable
from ..state.tensors import tensor_bytes
from ..state.trees import as_tensors, first_tensor, leaves, mapped, nbytes
from .flops import Flops

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ..engine.scoring import Scorer
    from ..tasks import EvaluationTask

__all__ = ["Meter", "data_size", "reset_peak_memory"]

ROWS = 2  # enough to count the operations of one


class Meter:
    """Measures one task at a time. Operations of training are counted on a few of its steps.

    A counted step stands for those that follow, up to the next one counted: steps 1, 2, 3, then
    10, 100, 1000 and so on of a task, and the one after a step that differs.
    """

    def __init__(self, *, on: bool, say: Callable[[str], None]) -> None:
        self.on, self._say = on, say
        self.rows: dict[str, dict[str, float | None]] = {}
        self._row: dict[str, float | None] = {}
        self._counter: Flops | None = None
        self._flops_a_step: float | None = None
        self._doubt = False
        self._unmeasured: set[str] = set()
        self._examples: int | None = None
        self._steps = 0
        self._since = 0.0
        self._apart = 0.0
        self.left_out = 0.0  # seconds, of all that was done for measuring
        self._count_rows: dict[str, float] = {}
        self._tested: dict[str, int] = {}
        self._ahead = [0.0, 0.0]  # seconds and operations for a task that has not begun

    def state(self) -> dict[str, Any]:
        """Return everything as plain data, for a checkpoint."""
        return {
            "rows": {name: dict(row) for name, row in self.rows.items()},
            "task": next((name for name, row in self.rows.items() if row is self._row), None),
            "flops_a_step": self._flops_a_step,
            "doubt": self._doubt,
            "unmeasured": sorted(self._unmeasured),
            "examples": self._examples,
            "steps": self._steps,
            "count_rows": dict(self._count_rows),
            "tested": dict(self._tested),
            "ahead": list(self._ahead),
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """Go on where `state` was."""
        self.rows = {name: dict(row) for name, row in state["rows"].items()}
        self._row = {} if state["task"] is None else self.rows[state["task"]]
        self._flops_a_step, self._doubt = state["flops_a_step"], state["doubt"]
        self._unmeasured, self._examples = set(state["unmeasured"]), state["examples"]
        self._steps, self._ahead = state["steps"], list(state["ahead"])
        self._count_rows, self._tested = dict(state["count_rows"]), dict(state["tested"])
        self._lap()

    @property
    def ended(self) -> dict[str, dict[str, float | None]]:
        """The rows of the tasks that have ended."""
        return {name: row for name, row in self.rows.items() if row is not self._row}

    def begin(self, task: str, stored: int | None, data: Any) -> None:
        """Begin a task, which may be one that returns: then its costs add up."""
        self._examples, size = data_size(data)
        new: dict[str, float | None] = dict.fromkeys(
            ("seconds_train", "seconds_eval", "flops_train", "flops_eval"), 0.0
        )
        self._row = self.rows.setdefault(task, new | {"stored_bytes": stored, "data_bytes": size})
        for column, amount in zip(("seconds_train", "flops_train"), self._ahead, strict=True):
            self._add(column, amount)
        self._ahead = [0.0, 0.0]
        self._steps, self._flops_a_step, self._doubt = 0, None, False
        self._count_rows, self._tested = {}, {}
        self._lap()

    def end(self, model: Any, extra_bytes: int, copies_bytes: int | None) -> None:
        """End the task: what the model takes now, and what is kept beside it."""
        self._add("seconds_eval", self._lap())
        if self.on and self._row["flops_train"] == 0:  # neither in steps nor at the end
            self._cannot("flops_train", "no operations were seen between two steps")
            self._row["flops_train"] = None
        counts = [(rows, self._count_rows.get(task)) for task, rows in self._tested.items()]
        known = [rows * flops for rows, flops in counts if flops is not None]
        self._row["flops_eval"] = (
            None
            if len(known) < len(counts)
            else (sum(known) + (self._row.get("flops_eval") or 0.0))
        )
        state = state_of(model) if isinstance(model, nn.Module) else []
        self._row["model_bytes"] = sum(map(tensor_bytes, state)) + extra_bytes or None
        self._row["copies_bytes"] = copies_bytes
        self._row["peak_bytes"] = _peak_bytes(device_of(model))
        self._row = {}

    def forget(self, task: str) -> None:
        """Leave out a task that had no step."""
        self.rows.pop(task, None)
        self._row = {}

    def resume(self) -> None:
        """The trainer goes on: its time counts as training from here."""
        if self._row:
            k = self._steps + 1
            due = k <= 3 or (str(k)[0] == "1" and not k % 10 ** (len(str(k)) - 1))
            if self.on and (due or self._doubt):
                self._start_counting()
            self._add("seconds_eval", self._lap())

    def pause(self, *, stepped: bool) -> None:
        """The evaluator takes over: time from here to `resume` is its own."""
        flops = self._stop_counting()
        if not self._row:
            return
        self._add("seconds_train", self._lap())
        if not stepped:
            return
        self._steps += 1
        if flops is not None:
            # One step of another size may be the short last batch of an epoch: the next one tells.
            same = self._flops_a_step in (None, flops)
            if same or self._doubt:
                self._flops_a_step = flops
            self._doubt = not (same or self._doubt)
        if self._flops_a_step is None:
            self._row["flops_train"] = None
        else:
            self._add("flops_train", self._flops_a_step if flops is None else flops)

    @contextmanager
    def whole(self) -> Iterator[None]:
        """Count every operation of this block as training: of this task, or of the next one."""
        other = torch._C._len_torch_dispatch_stack() > (self._counter is not None)  # noqa: SLF001
        start, flops = time.perf_counter(), Flops()
        with nullcontext() if not self.on or other or _compiled() else flops:
            yield
        if flops.problem:
            self._cannot("flops_train", flops.problem)
            self._row["flops_train"] = None
        if self._row:
            self._add("flops_train", flops.total)
            self._apart += flops.total if self._counter is not None else 0.0  # counted there too
        else:
            self._ahead[0] += time.perf_counter() - start
            self._ahead[1] += flops.total

    def elsewhere(self, seconds: float, *, in_trainers_time: bool) -> None:
        """Add the time of a test that ran beside the trainer's process, or in the GPU's queue."""
        self._add("seconds_eval", seconds)
        if in_trainers_time:
            self._add("seconds_train", -seconds)

    def apart(self, seconds: float, flops: float) -> None:
        """Leave out work that was done for measuring in the middle of a step."""
        self._since += seconds
        self.left_out += seconds
        self._add("seconds_eval", seconds)
        self._apart += flops

    def tested(self, task: str, rows: int) -> None:
        """Note that `rows` rows of `task` were tested."""
        self._tested[task] = self._tested.get(task, 0) + rows

    @property
    def tested_tasks(self) -> list[str]:
        """The tasks that were tested since the one being learned began."""
        return list(self._tested)

    def count_rows(self, model: Any, tasks: Sequence[EvaluationTask], scorer: Scorer) -> None:
        """Count the operations of testing one example of each task, as the model is now."""
        for task in tasks if self.on else ():
            try:
                with preserve_state(model):
                    (part,) = scorer.together([_few(task)], device_of(model))
                    with Flops() as flops:
                        scorer.values(model, part)
                if flops.problem:
                    raise ValueError(flops.problem)
            except Exception as error:  # a score that needs more rows, say
                self._cannot("flops_eval", f"{type(error).__name__}: {error}")
                continue
            self._count_rows[task.name] = flops.total / len(part)

    def count_pass(self, model: Any, task: EvaluationTask, scorer: Scorer) -> None:
        """Count one forward and backward pass over the task's data, on a few examples like it.

        Gradients are returned, not accumulated: those of the model stay as they are.
        """
        if not self.on or self._examples is None or self._row.get("flops_one_pass") is not None:
            return
        try:
            wanted = [p for p in model.parameters() if p.requires_grad]
            with preserve_state(model):
                (part,) = scorer.together([_few(task)], device_of(model))
                for parameter in wanted:
                    parameter.requires_grad_()
                with torch.enable_grad(), Flops() as flops:
                    lent = part.lent(part.x)
                    output = first_tensor(scorer.call(scorer.forward, model, part, lent))
                    torch.autograd.grad(output.sum(), wanted, allow_unused=True)
                if flops.problem:
                    raise ValueError(flops.problem)
        except Exception as error:  # whatever the user's model does here, training goes on
            self._cannot("flops_one_pass", f"{type(error).__name__}: {error}")
            return
        self._row["flops_one_pass"] = flops.total / len(part) * self._examples

    def close(self) -> None:
        """Stop counting."""
        self._stop_counting()

    def _lap(self) -> float:
        """Return the seconds since the last call."""
        before, self._since = self._since, time.perf_counter()
        return self._since - before

    def _add(self, column: str, amount: float) -> None:
        before = self._row.get(column)
        if before is not None:
            self._row[column] = max(before + amount, 0.0)

    def _start_counting(self) -> None:
        if _compiled():  # a counter would make the step run uncompiled: other bits
            self._cannot("flops_train", "compiled code cannot be counted without changing it")
        elif torch._C._len_torch_dispatch_stack():  # noqa: SLF001
            self._cannot("flops_train", "another dispatch mode is active around the step")
        else:
            self._counter = Flops()
            self._counter.start()

    def _stop_counting(self) -> float | None:
        counter, self._counter = self._counter, None
        apart, self._apart = self._apart, 0.0
        if counter is None:
            return None
        flops = counter.stop() - apart
        if counter.problem:
            self._cannot("flops_train", counter.problem)
            return None
        return flops

    @property
    def flops_so_far(self) -> float:
        """Operations counted in the step that is going on."""
        return float(self._counter.total) if self._counter is not None else 0.0

    def _cannot(self, column: str, reason: str) -> None:
        if column not in self._unmeasured:
            self._unmeasured.add(column)
            self._say(f"{column} is not measured: {reason}")


def _few(task: EvaluationTask) -> tuple[str, Any, Any]:
    x, y = mapped(lambda a: a[:ROWS] if isinstance(a, torch.Tensor) else a, task.subset())
    return task.name, x, y


def _compiled() -> bool:
    """Return whether torch.compile was called in this process."""
    utils, frames = (sys.modules.get(f"torch._dynamo.{name}") for name in ("utils", "eval_frame"))
    if utils is None or frames is None:
        return False
    backends = getattr(frames, "cached_backends", {}).values()
    return bool(utils.counters["frames"]) or any(backends)


def reset_peak_memory(device: torch.device | str) -> None:
    """Let the peak of memory count from here: another run was in this process before."""
    if torch.device(device).type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    with suppress(OSError):  # not on this system: the peak is the process's
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def _peak_bytes(device: torch.device) -> float | None:
    if device.type == "cuda":
        return float(torch.cuda.max_memory_allocated(device))
    with suppress(OSError, ValueError, IndexError):
        said = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
        return float(said.split("VmHWM:")[1].split()[0]) * 1024
    try:
        import resource
    except ImportError:  # Windows
        return None
    kilo = 1 if sys.platform == "darwin" else 1024
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * kilo)


def data_size(data: Any) -> tuple[int | None, int | None]:
    """Return examples and bytes of training data: tensors, a Dataset, a DataLoader, or a number.

    Example:
        >>> data_size((torch.zeros(10, 4), torch.zeros(10)))
        (10, 200)
        >>> data_size(60_000)
        (60000, None)
    """
    if data is None:
        return None, None
    if isinstance(data, bool | float | str) or (isinstance(data, Integral) and int(data) < 0):
        raise TypeError(f"data is {data!r:.60}, expected training data or how many examples it has")
    if isinstance(data, Integral):
        return int(data), None
    data = getattr(data, "dataset", data)  # of a DataLoader
    data = getattr(data, "tensors", data)  # of a TensorDataset
    if isinstance(data, tuple | Mapping) or hasattr(data, "nbytes") or _is_pair(data):
        return len(first_tensor(as_tensors(data))), nbytes(as_tensors(data))
    try:
        with keep_generators(reachable([data], GENERATORS)):
            sizes = [getattr(leaf, "nbytes", None) for leaf in leaves(data[0])]
        count = len(data)
    except (TypeError, NotImplementedError):  # examples that come one by one: no size is known
        return None, None
    known = [size for size in sizes if size is not None]  # labels are often plain numbers
    return count, count * sum(known) if known else None


def _is_pair(data: Any) -> bool:
    """Return whether a list holds all examples and all labels, rather than one example each."""
    return isinstance(data, list) and all(getattr(part, "ndim", 0) for part in data)
