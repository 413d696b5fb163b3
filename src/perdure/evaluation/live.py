"""Seed metrics while training goes on: constant cost an evaluation, constant memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any

from ..metrics import LiveWindow, format_id

if TYPE_CHECKING:
    from ..metrics import ScoreScale

__all__ = ["Live", "LiveTask"]


@dataclass
class LiveTask:
    """What is kept of one task's evaluations. Scores are larger-is-better here."""

    windows: dict[int, LiveWindow]
    n: int = 0
    tests: int = 0
    score: float | None = None
    tested_at: int = -1
    left_at: int | None = None  # the last step of its first visit
    low: float = inf
    tests_since: int = 0

    def update(self, step: int, score: float, n: int) -> None:
        """Take one evaluation into account."""
        self.score, self.tested_at, self.n = score, step, n
        self.tests += 1
        for window in self.windows.values():
            window.update(score)
        if self.left_at is not None and step > self.left_at:
            self.low = min(self.low, score)
            self.tests_since += 1


@dataclass
class Live:
    """Live numbers, each None while it is undefined; `live["wf100"]` reads one by its id.

    They are those of `perdure score` on what was recorded so far. A worker's results count when
    they arrive.
    """

    scale: ScoreScale
    windows: tuple[int, ...] = (10, 100)
    step: int = 0
    task: str | None = None
    tasks: dict[str, LiveTask] = field(default_factory=dict)
    entered_at: int = 0

    def entered(self, task: str, step: int) -> None:
        """Note that `task` is being learned from here on."""
        if task == self.task:  # it was never left: to the record this is one visit
            mine = self._of(task)
            mine.left_at = None if mine.left_at == step else mine.left_at
        else:
            self.task, self.entered_at = task, step

    def left(self, task: str, step: int) -> None:
        """Note that `task` is learned; its minimum counts from the next evaluation on."""
        mine = self._of(task)
        if mine.left_at is None:
            mine.left_at = step

    def update(self, step: int, task: str, score: float, n: int) -> None:
        """Take one evaluation of `task` into account."""
        self.step = max(self.step, step)
        self._of(task).update(step, -score if self.scale.lower_is_better else score, n)

    def _of(self, task: str) -> LiveTask:
        if task not in self.tasks:
            self.tasks[task] = LiveTask({w: LiveWindow(w) for w in self.windows})
        return self.tasks[task]

    def state(self) -> dict[str, Any]:
        """Return everything as plain data, for a checkpoint."""
        tasks = {
            name: vars(mine) | {"windows": [[w, each.state()] for w, each in mine.windows.items()]}
            for name, mine in self.tasks.items()
        }
        here = {"step": self.step, "task": self.task, "entered_at": self.entered_at}
        return here | {"tasks": tasks}

    def load(self, state: dict[str, Any]) -> None:
        """Go on where `state` was; a window that was not there then starts now."""
        self.step, self.task, self.entered_at = state["step"], state["task"], state["entered_at"]
        for name, saved in state["tasks"].items():
            mine = self._of(name)
            vars(mine).update({key: saved[key] for key in saved if key != "windows"})
            for window, each in saved["windows"]:
                if window in mine.windows:
                    mine.windows[window].load(each)

    def older(self) -> list[LiveTask]:
        """Return the tasks that were learned and are not the one being learned."""
        return [
            mine
            for name, mine in self.tasks.items()
            if mine.left_at is not None and name != self.task
        ]

    @property
    def current(self) -> float | None:
        """The last score of the task being learned."""
        mine = self.tasks.get(self.task) if self.task is not None else None
        if mine is None or mine.tested_at <= self.entered_at:
            return None
        return self._signed(mine.score)

    @property
    def min_acc(self) -> float | None:
        """The mean over tasks left behind of their worst score since."""
        lows = [mine.low for mine in self.older()]
        return self._signed(sum(lows) / len(lows)) if lows and max(lows) < inf else None

    @property
    def wc_acc(self) -> float | None:
        """The worst case: the mean of the current task's score and every older task's worst."""
        now, lows = self.current, [mine.low for mine in self.older()]
        if now is None or (lows and max(lows) == inf):
            return None
        oriented = -now if self.scale.lower_is_better else now
        return self._signed((oriented + sum(lows)) / (1 + len(lows)))

    @property
    def wf(self) -> dict[int, float | None]:
        """Windowed forgetting, by window."""
        return {w: self._change("drop", w) for w in self.windows}

    @property
    def wp(self) -> dict[int, float | None]:
        """Windowed plasticity, by window."""
        return {w: self._change("rise", w) for w in self.windows}

    def __getitem__(self, id_: str) -> float | None:
        if id_ in ("current", "min_acc", "wc_acc"):
            value: float | None = getattr(self, id_)
            return value
        windowed = {
            format_id(base, window): (kind, window)
            for base, kind in (("wf", "drop"), ("wp", "rise"))
            for window in self.windows
        }
        if id_ in windowed:
            return self._change(*windowed[id_])
        raise KeyError(f"{id_!r} is no live number, expected one of current, min_acc, wc_acc, "
                       f"{', '.join(windowed)}")  # fmt: skip

    def _change(self, which: str, window: int) -> float | None:
        tested = [mine for mine in self.tasks.values() if mine.tests]
        if not any(mine.tests > 1 for mine in tested):
            return None
        return sum(float(getattr(m.windows[window], which)) for m in tested) / len(tested)

    def _signed(self, value: float | None) -> float | None:
        return -value if value is not None and self.scale.lower_is_better else value
