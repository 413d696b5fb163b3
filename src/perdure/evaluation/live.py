"""Metrics while training is running, at constant cost per evaluation and constant memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING

import msgspec

from .._display import format_block
from .._suggestions import suggest_names
from ..metrics import LiveWindow, WindowState, format_id, parse_id
from .arguments import check_integer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..metrics import ScoreScale

__all__ = ["Live", "LiveTask", "metric_window"]


@dataclass
class LiveTask:
    """What is kept of one task's evaluations. Higher scores are better here, also for losses."""

    windows: dict[int, LiveWindow]
    n: int = 0
    evaluations: int = 0
    score: float | None = None
    last_step: int = -1  # of the last evaluation
    end_step: int | None = None  # the last step of the first time it was trained
    low: float = inf  # the worst score after that step
    evaluations_since_end: int = 0

    def update(self, step: int, score: float, n: int) -> None:
        """Take one evaluation into account."""
        self.score, self.last_step, self.n = score, step, n
        self.evaluations += 1
        for window in self.windows.values():
            window.update(score)
        if self.end_step is not None and step > self.end_step:
            self.low = min(self.low, score)
            self.evaluations_since_end += 1


class _TaskState(msgspec.Struct):
    """What a checkpoint keeps of a task."""

    windows: list[tuple[int, WindowState]]
    n: int
    evaluations: int
    score: float | None
    last_step: int
    end_step: int | None
    low: float
    evaluations_since_end: int


class _LiveState(msgspec.Struct):
    """What a checkpoint keeps of the live metrics."""

    step: int
    task: str | None
    begin_step: int
    windows: list[int]
    tasks: dict[str, _TaskState]


@dataclass
class Live:
    """The metrics of the run so far, each None while it is undefined.

    They equal those of `perdure score` on what was recorded so far; the results of a worker count
    once they arrive. `live["wf100"]` looks a metric up by its id.
    """

    scale: ScoreScale
    windows: tuple[int, ...] = (10, 100)
    step: int = 0
    task: str | None = None
    tasks: dict[str, LiveTask] = field(default_factory=dict)
    begin_step: int = 0  # after which the current task began

    def __repr__(self) -> str:
        title = f"Live metrics at step {self.step}{self.describe_task()}"
        return format_block(title, *self.describe())

    def describe_task(self) -> str:
        """Return the task that is being trained or was last, for `print`."""
        if self.task is None:
            return ""
        end = self.tasks[self.task].end_step if self.task in self.tasks else None
        ended = end is not None and end >= self.begin_step  # not an earlier visit
        return f", {'after' if ended else 'training'} {self.task!r}"

    def describe(self) -> tuple[list[tuple[str, str]], list[str]]:
        """Return the metrics so far as pairs of id and value, and which are undefined."""
        values = self.to_dict()
        rows = [(id_, f"{value:.4f}") for id_, value in values.items() if value is not None]
        undefined = [id_ for id_, value in values.items() if value is None]
        return rows, [f"undefined so far: {', '.join(undefined)}"] if undefined else []

    def to_dict(self) -> dict[str, float | None]:
        """Return every live metric by id, None for one that is undefined so far."""
        windowed = [f"{base}{window}" for base in ("wf", "wp") for window in self.windows]
        return {id_: self[id_] for id_ in ("current", "min_acc", "wc_acc", *windowed)}

    def add_windows(self, *windows: int) -> None:
        """Also compute `wf` and `wp` over these numbers of evaluations, from now on."""
        for window in windows:
            check_integer("a window", window, 1)
            if window not in self.windows:
                self.windows = (*self.windows, int(window))
                for task in self.tasks.values():
                    task.windows[int(window)] = LiveWindow(int(window))

    def begin_task(self, task: str, step: int) -> None:
        """Note that `task` is trained from here on."""
        if task == self.task:  # no other task came in between: one span in the record
            live_task = self._task(task)
            live_task.end_step = None if live_task.end_step == step else live_task.end_step
        else:
            self.task, self.begin_step = task, step

    def end_task(self, task: str, step: int) -> None:
        """Note that training of `task` ended; its minimum counts from the next evaluation on."""
        live_task = self._task(task)
        if live_task.end_step is None:
            live_task.end_step = step

    def update(self, step: int, task: str, score: float, n: int) -> None:
        """Take one evaluation of `task` into account."""
        self.step = max(self.step, step)
        self._task(task).update(step, -score if self.scale.lower_is_better else score, n)

    def _task(self, task: str) -> LiveTask:
        if task not in self.tasks:
            self.tasks[task] = LiveTask({w: LiveWindow(w) for w in self.windows})
        return self.tasks[task]

    def state(self) -> dict[str, object]:
        """Return everything as plain data, for a checkpoint."""
        return {
            "step": self.step,
            "task": self.task,
            "begin_step": self.begin_step,
            "windows": list(self.windows),
            "tasks": {
                name: vars(task) | {"windows": [[w, x.state()] for w, x in task.windows.items()]}
                for name, task in self.tasks.items()
            },
        }

    def load(self, state: Mapping[str, object]) -> None:
        """Continue from `state`; a window that it does not have starts now."""
        saved = msgspec.convert(state, _LiveState)
        self.step, self.task, self.begin_step = saved.step, saved.task, saved.begin_step
        self.add_windows(*saved.windows)
        for name, saved_task in saved.tasks.items():
            task = self._task(name)
            for window, window_state in saved_task.windows:
                task.windows[window].load(window_state)
            vars(task).update(msgspec.structs.asdict(saved_task) | {"windows": task.windows})

    def older(self) -> list[LiveTask]:
        """Return the tasks whose training ended and that are not being trained now."""
        return [
            task
            for name, task in self.tasks.items()
            if task.end_step is not None and name != self.task
        ]

    @property
    def current(self) -> float | None:
        """The last score of the task being trained."""
        task = self.tasks.get(self.task) if self.task is not None else None
        if task is None or task.score is None or task.last_step <= self.begin_step:
            return None
        return self._signed(task.score)

    @property
    def min_acc(self) -> float | None:
        """The mean over older tasks of their worst score since their training ended."""
        lows = [task.low for task in self.older()]
        return self._signed(sum(lows) / len(lows)) if lows and max(lows) < inf else None

    @property
    def wc_acc(self) -> float | None:
        """The worst case: the mean of the current task's score and every older task's worst."""
        current, lows = self.current, [task.low for task in self.older()]
        if current is None or (lows and max(lows) == inf):
            return None
        return self._signed((self._signed(current) + sum(lows)) / (1 + len(lows)))

    @property
    def wf(self) -> dict[int, float | None]:
        """Windowed forgetting by window."""
        return {window: self._change("drop", window) for window in self.windows}

    @property
    def wp(self) -> dict[int, float | None]:
        """Windowed plasticity by window."""
        return {window: self._change("rise", window) for window in self.windows}

    def __getitem__(self, metric: str) -> float | None:
        if metric in ("current", "min_acc", "wc_acc"):
            value: float | None = getattr(self, metric)
            return value
        windowed = {
            format_id(base, window): (direction, window)
            for base, direction in (("wf", "drop"), ("wp", "rise"))
            for window in self.windows
        }
        if metric in windowed:
            return self._change(*windowed[metric])
        known = ["current", "min_acc", "wc_acc", *windowed]
        raise KeyError(
            f"{metric!r} is not a live metric, {suggest_names(metric, known)}expected one of "
            f"{', '.join(known)}"
        )

    def _change(self, direction: str, window: int) -> float | None:
        evaluated = [task for task in self.tasks.values() if task.evaluations]
        if not any(task.evaluations > 1 for task in evaluated):
            return None
        changes = [float(getattr(task.windows[window], direction)) for task in evaluated]
        return sum(changes) / len(changes)

    def _signed(self, value: float) -> float:
        """Return a higher-is-better score in the units of the score, or the reverse."""
        return -value if self.scale.lower_is_better else value


def metric_window(metric: str) -> int | None:
    """Return the window of a windowed metric; None for any other name.

    Example:
        >>> metric_window("wf10"), metric_window("min_acc")
        (10, None)
    """
    try:
        return parse_id(metric).arguments.get("window")
    except ValueError:
        return None
