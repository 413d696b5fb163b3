"""Live metrics elsewhere: in a line of the terminal, and in a logger of the user's."""

from __future__ import annotations

import os
import sys
import time
from functools import partial
from typing import TYPE_CHECKING

from .._display import count_of, format_block, list_some
from ..stats.schedules import describe_budget
from .eval_data import one_line
from .schedules import Budget
from .state.preserve import preserve_state

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from rich.live import Live as Display

    from .costs.meter import CostRow
    from .live import Live
    from .recorder import Recorder
    from .schedules import Schedule

__all__ = ["LiveLine", "MetricLog", "format_costs", "format_evaluator", "format_line"]

REFRESH = 0.2  # seconds


class LiveLine:
    """Shows the live metrics, at most five times per second.

    By default it does on a terminal, except in continuous integration.
    """

    def __init__(self, show: bool | None) -> None:
        if show is None:
            show = sys.stderr.isatty() and not os.environ.get("CI")
        self._display: Display | None = None
        self._next = 0.0
        self._started = time.monotonic()
        if show:
            from rich.console import Console
            from rich.live import Live as RichLive
            from rich.text import Text

            self._text = partial(
                Text, no_wrap=True, overflow="ellipsis"
            )  # names may contain markup
            console = Console(stderr=True, force_terminal=True)
            self._display = RichLive(
                console=console,
                auto_refresh=False,
                transient=True,
                redirect_stdout=sys.stdout.isatty(),  # never what goes to a file
                redirect_stderr=False,
            )
            self._display.start()
            console.show_cursor(show=True)  # or a killed program would leave it hidden

    def update(self, step: int, live: Live) -> None:
        """Show where training is, unless the line was refreshed a moment ago."""
        if self._display is None or time.monotonic() < self._next:
            return
        self._next = time.monotonic() + REFRESH
        rate = step / max(time.monotonic() - self._started, 1e-9)
        self._display.update(self._text(format_line(step, rate, live)), refresh=True)

    def close(self) -> None:
        """Restore the terminal."""
        if self._display is not None:
            self._display.stop()
            self._display = None


class MetricLog:
    """Passes numbers on to a function of the user's, if any, which leaves training as it was."""

    def __init__(
        self, function: Callable[[dict[str, float], int], object] | None, recorder: Recorder
    ) -> None:
        self._function, self._recorder, self._failed = function, recorder, False

    @property
    def is_active(self) -> bool:
        """Whether there is a function."""
        return self._function is not None

    def write(self, kind: str, step: int, scores: Mapping[str, float]) -> None:
        """Pass on the scores of an evaluation (`probe/TASK`) and the metrics (`live/ID`)."""
        if self._function is not None:
            values = {f"{kind}/{task}": score for task, score in scores.items()}
            live = {} if kind == "initial" else self._recorder.live.to_dict()
            self._call(
                values | {f"live/{id_}": v for id_, v in live.items() if v is not None}, step
            )

    def finish(self, step: int) -> None:
        """Pass on the final metrics (`final/ID`)."""
        if self._function is not None and step:
            metrics = self._recorder.summary(None).metrics
            self._call({f"final/{id_}": value for id_, value in metrics.items()}, step)

    def _call(self, values: dict[str, float], step: int) -> None:
        assert self._function is not None
        try:
            with preserve_state(None):
                self._function(values, step)
        except Exception as error:
            if not self._failed:
                self._failed = True
                self._recorder.warn(
                    f"log= raised {one_line(error)} at step {step}; the record itself is complete"
                )


def format_line(step: int, rate: float, live: Live) -> str:
    """Return the line that is shown; scores other than accuracy get names that fit them."""
    parts = [f"step {step:,}", f"{rate:.3g} steps/s"]
    if live.task is not None:
        parts.append(f"training {live.task}")
    ids = ("current", "min_acc", "wc_acc", *(f"wf{w}" for w in live.windows[:1]))
    name, worst = live.scale.label, live.scale.worst
    labels = {"current": name, "min_acc": f"{worst} since trained", "wc_acc": "worst case"}
    for id_ in ids:
        value = live[id_]
        if value is not None:
            parts.append(f"{id_ if name == 'accuracy' else labels.get(id_, id_)} {value:.3f}")
    return "  ".join(parts)


def format_evaluator(
    tasks: Iterable[str], recorder: Recorder, schedule: Schedule, *, closed: bool
) -> str:
    """Return what an evaluator evaluates and when, where it records, and the metrics so far."""
    live, names = recorder.live, list(tasks)
    state = "closed" if closed else f"at step {live.step}{live.describe_task()}"
    metrics, undefined = live.describe()
    folder = str(recorder.writer.folder) if recorder.is_open else "opened with the first task"
    rows = [("tasks", list_some(names)), ("record", folder)]
    if isinstance(schedule, Budget):
        rows.append(("evaluation", describe_budget([schedule.use])))
    title = f"Evaluator of {count_of(len(names), 'task')}, {state}"
    return format_block(title, [*rows, *metrics], undefined)


def format_costs(rows: Mapping[str, CostRow]) -> str:
    """Return what each task cost so far: seconds, operations and the size of the model."""
    header = ("task", "train s", "eval s", "train FLOPs", "eval FLOPs", "model MB")
    lines = []
    for task, row in rows.items():
        numbers = [
            *(_number(row.get(name), ".2f") for name in ("seconds_train", "seconds_eval")),
            *(_number(row.get(name), ".3g") for name in ("flops_train", "flops_eval")),
            _number(row.get("model_bytes"), ".3f", 1e6),
        ]
        aligned = [text.rjust(len(name)) for name, text in zip(header[1:], numbers, strict=True)]
        lines.append((task, *aligned))
    title = f"Costs of {count_of(len(rows), 'task')}"
    return format_block(title, [header, *lines]) if rows else "Costs: no task has begun"


def _number(value: float | None, form: str, unit: float = 1.0) -> str:
    return "?" if value is None else format(value / unit, form)
