"""When evaluations are due, and how they are executed: in the training loop or next to it."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from math import ceil, inf
from statistics import median
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, get_args

import msgspec

from .._display import count_of
from ..stats.schedules import ENOUGH_EVALUATIONS, BudgetUse, parse_share
from .arguments import check_choice, check_integer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = [
    "Budget",
    "Burst",
    "Every",
    "Executor",
    "Inline",
    "Precision",
    "Schedule",
    "Worker",
    "as_executor",
    "as_schedule",
    "burst",
    "every",
    "task_ends_only",
]

Precision = Literal["auto", "screened", "float32", "tf32", "float16", "bfloat16"]


class Schedule(Protocol):
    """Anything with a method `due`, which decides whether to evaluate after a step."""

    def due(self, step: int, task_step: int) -> bool:
        """Return whether to evaluate after `step` steps, `task_step` of them in this task."""
        ...


@dataclass(frozen=True)
class Every:
    """Evaluate every `n` training steps.

    Example:
        >>> [step for step in range(1, 8) if Every(3).due(step, task_step=step)]
        [3, 6]
    """

    n: int

    def __post_init__(self) -> None:
        check_integer("every", self.n, 1)

    def due(self, step: int, task_step: int) -> bool:  # noqa: ARG002 - the protocol
        """Return whether to evaluate after `step` steps, `task_step` of them in this task."""
        return step % self.n == 0


@dataclass(frozen=True)
class Burst:
    """Evaluate after each of the `first` steps of a task, then less and less often.

    The gaps grow by the factor `growth` up to `then` steps. Scores tend to drop and recover right
    after a task switch, so this finds most minima at a fraction of the cost.

    Example:
        >>> burst = Burst(first=3, then=8)
        >>> [step for step in range(1, 40) if burst.due(100 + step, task_step=step)]
        [1, 2, 3, 5, 9, 17, 25, 33]
    """

    first: int
    then: int
    growth: float = 2.0

    def __post_init__(self) -> None:
        check_integer("burst: first", self.first, 1)
        check_integer("burst: then", self.then, 1)
        if not 1 < self.growth < inf:
            raise ValueError(f"burst: growth is {self.growth!r}, expected a number above 1")
        marks, gap, j = [self.first], 1, 0
        while gap < self.then:
            j += 1
            gap = min(self.then, ceil(self.growth**j))
            marks.append(marks[-1] + gap)
        object.__setattr__(self, "_marks", frozenset(marks))
        object.__setattr__(self, "_last", marks[-1])

    def due(self, step: int, task_step: int) -> bool:  # noqa: ARG002 - the protocol
        """Return whether to evaluate after `step` steps, `task_step` of them in this task."""
        last: int = self._last  # type: ignore[attr-defined]  # set above; the class is frozen
        if task_step > last:
            return (task_step - last) % self.then == 0
        return task_step <= self.first or task_step in self._marks  # type: ignore[attr-defined]


class _Spacing(msgspec.Struct):
    """The evaluated steps so far: how many, in all and in this task, and how far apart."""

    evaluations: int = 0
    of_task: int = 0
    fewest: int | None = None  # of all tasks so far
    warned: bool = False  # of a task with too few
    step: int = 0  # the last one
    last_step: int = 0  # the last one that was evaluated
    gaps: list[tuple[int, int]] = []  # number of steps between two evaluations, and how often


class Budget:
    """Evaluate as often as a share of the time allows: `every="10%"`.

    A step is evaluated if the evaluations so far took at most this share of the time of training
    and evaluation, and the first step of a task always is. Whole sets at the ends of tasks count
    as evaluation. Which steps are evaluated depends on how long they take, and nothing else does:
    training stays bit-identical.

    Args:
        share: of the time, above 0 and below 1.

    Example:
        >>> budget = Budget(0.25)
        >>> seconds = [0.0, 0.0]  # of training and evaluation
        >>> budget.connect(lambda: tuple(seconds))
        >>> steps = []
        >>> for step in range(1, 14):  # training takes 1 second per step, an evaluation 2
        ...     seconds[0] += 1
        ...     if budget.due(step, task_step=step):
        ...         steps.append(step)
        ...         seconds[1] += 2
        >>> steps
        [1, 6, 12]
    """

    note = (
        "evaluated in a share of the time: which steps are evaluated depends on how long they "
        "take, so minima and windows between the ends of tasks are not exactly reproducible; "
        "training itself is"
    )

    def __init__(self, share: float) -> None:
        self.share, self._spacing = share, _Spacing()
        self._gaps = Counter[int]()
        self._seconds: Callable[[], tuple[float, float]] = lambda: (0.0, 0.0)

    def connect(self, seconds: Callable[[], tuple[float, float]]) -> None:
        """Set the function that returns the seconds of training and of evaluation so far."""
        self._seconds = seconds

    @property
    def reached(self) -> float:
        """The share of the time that evaluation has taken so far."""
        training, evaluation = self._seconds()
        return evaluation / (training + evaluation) if training + evaluation else 0.0

    def due(self, step: int, task_step: int) -> bool:
        """Return whether to evaluate after `step` steps, `task_step` of them in this task."""
        spacing = self._spacing
        spacing.step = step
        if task_step == 1:
            spacing.of_task = 0
        elif self.reached > self.share:
            return False
        if spacing.evaluations:
            self._gaps[step - spacing.last_step] += 1
        spacing.evaluations, spacing.last_step = spacing.evaluations + 1, step
        spacing.of_task += 1
        return True

    def end_task(self, task: str, steps: int) -> str | None:
        """Return a warning for the first task that has too few evaluations, else None."""
        count, spacing = self._spacing.of_task, self._spacing
        spacing.fewest = count if spacing.fewest is None else min(count, spacing.fewest)
        if spacing.warned or count >= min(ENOUGH_EVALUATIONS, steps):
            return None
        spacing.warned = True
        return (
            f"task {task!r} was evaluated after {count} of its {count_of(steps, 'step')}, and "
            f"minima and windows (min_acc, wf10) need about {ENOUGH_EVALUATIONS} evaluations per "
            f"task: raise every='{100 * self.share:g}%', or make an evaluation cheaper with a "
            "smaller subset"
        )

    @property
    def use(self) -> BudgetUse:
        """What was done so far, for run.json."""
        spacing, gaps = self._spacing, sorted(self._gaps.elements())
        between = (gaps[0], float(median(gaps)), gaps[-1]) if gaps else None
        reached = round(self.reached, 4)
        return BudgetUse(
            self.share, reached, spacing.evaluations, spacing.step, between, spacing.fewest
        )

    def state(self) -> dict[str, Any]:
        """Return the evaluated steps so far, for a checkpoint."""
        self._spacing.gaps = list(self._gaps.items())
        state: dict[str, Any] = msgspec.to_builtins(self._spacing)
        return state

    def load(self, state: Mapping[str, object]) -> None:
        """Continue from `state`."""
        self._spacing = msgspec.convert(state, _Spacing)
        self._gaps = Counter(dict(self._spacing.gaps))


every = Every
burst = Burst


@dataclass(frozen=True)
class TaskEndsOnly:
    """Evaluate whole sets when tasks end, and nothing while training."""

    def due(self, step: int, task_step: int) -> bool:  # noqa: ARG002 - the protocol
        """Return False."""
        return False


def task_ends_only(every: object, alarm: object) -> TaskEndsOnly:
    """Return the schedule of a metric of whole sets, or raise if more was asked for."""
    for name, value, default in (("every", every, 1), ("alarm", alarm, None)):
        if value != default:
            raise ValueError(
                f"{name}={value!r:.40} has no effect next to Score(metric=…), which is computed on "
                "whole sets at task ends; leave it out"
            )
    return TaskEndsOnly()


def as_schedule(every: int | str | Schedule) -> Schedule:
    """Return a schedule from a number of steps, a share of the time, or a schedule.

    Example:
        >>> as_schedule(10), as_schedule("10%").share
        (Every(n=10), 0.1)
    """
    if isinstance(every, str):
        return Budget(parse_share(every))
    if hasattr(every, "due") and not isinstance(every, type):
        return every
    if not isinstance(every, int):
        raise TypeError(
            f"every is {every!r}, expected a number of steps, a share of the time like '10%', or "
            "perdure.burst(…)"
        )
    return Every(every)


@dataclass(frozen=True, kw_only=True)
class Inline:
    """Evaluates in the training process, inside `Evaluator.step`.

    On CUDA the forward pass is captured in a CUDA graph where possible. Its results are fetched in
    blocks: live metrics and alarms lag by 32 evaluations or 0.2 seconds, or by up to 128
    evaluations while the GPU is behind.

    Args:
        precision: of evaluations while training; whole sets are evaluated in float32.
            `"auto"`: predictions as float32 gives them; on CUDA, models with convolutions are
            screened where that is faster. `"screened"`: evaluate in half precision (float16 on
            CUDA, bfloat16 on a CPU), and again in float32 the examples whose prediction rounding
            could change. `"float32"`: everything in float32. `"tf32"`, `"float16"`, `"bfloat16"`:
            everything in that precision, which may change predictions.
        verify_every: every n evaluations, compare a CUDA graph or screening with a plain
            evaluation.
        batch_size: examples per forward pass; None chooses what suits the device.
    """

    precision: Precision = "auto"
    verify_every: int = 100
    batch_size: int | None = None
    mode: ClassVar[str] = "exact"

    def __post_init__(self) -> None:
        _check_common(self)

    def to_json(self) -> dict[str, object]:
        """Return the options as run.json records them."""
        return {"name": "inline", "mode": self.mode, **asdict(self)}


@dataclass(frozen=True, kw_only=True)
class Worker:
    """Evaluates snapshots of the weights next to training.

    On the CPU a forked process evaluates snapshots in shared memory; on CUDA another stream of
    the same GPU does, or another GPU.

    Args:
        mode: `"exact"` evaluates every snapshot; when the queue is full, the training process
            evaluates the model itself (CPU) or waits (CUDA). `"latest"` drops a snapshot while
            the worker is busy; only steps that were evaluated are recorded.
        queue: how many snapshots may wait for an exact worker.
        device: a second CUDA device to evaluate on.
        precision: as for `Inline`, but `"auto"` does not screen.
        verify_every: every n evaluations, compare the worker's results with an evaluation in the
            training process.
        batch_size: as for `Inline`.
    """

    mode: Literal["exact", "latest"] = "exact"
    queue: int = 4
    device: str | None = None
    precision: Precision = "auto"
    verify_every: int = 100
    batch_size: int | None = None

    def __post_init__(self) -> None:
        check_choice("mode", self.mode, ("exact", "latest"))
        check_integer("queue", self.queue, 1)
        if self.device is not None:
            object.__setattr__(self, "device", str(self.device))  # a torch.device, say
        _check_common(self)

    def to_json(self) -> dict[str, object]:
        """Return the options as run.json records them."""
        return {"name": "worker", **asdict(self)}


Executor = Inline | Worker


def as_executor(executor: object) -> Executor:
    """Return the executor, `Inline()` for None, or raise if it is none."""
    if executor is None:
        return Inline()
    if not isinstance(executor, Inline | Worker):
        raise TypeError(
            f"executor is {executor!r:.60}, expected perdure.Inline(…) or perdure.Worker(…)"
        )
    return executor


def _check_common(executor: Executor) -> None:
    check_choice("precision", executor.precision, get_args(Precision))
    check_integer("verify_every", executor.verify_every, 1)
    if executor.batch_size is not None:
        check_integer("batch_size", executor.batch_size, 1)
