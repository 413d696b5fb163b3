"""A recorded run as the model for the next one: its tasks, its times, and other schedules."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..metrics import Stream, UndefinedMetricError, format_id, min_acc, wf
from ..record import InputError, read_input
from ..record.points import FULL, INITIAL, PROBE
from ..stats import schedule_steps

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO

    from numpy.typing import NDArray

    from ..record import Points, ScoreInput

__all__ = ["ReferenceRun", "read_reference_run", "scores_on_schedule"]


class ReferenceRun(NamedTuple):
    """What a recorded run says about the next one; `missing_times` says why a time is unknown."""

    name: str
    points: Points
    iterations: list[int]
    train_seconds: float | None
    example_seconds: float | None
    missing_times: list[str]
    notes: list[str]

    @property
    def largest_set(self) -> int | None:
        """How many examples the largest evaluation set has; None if no whole set was evaluated."""
        sizes = self.points.n[self.points.kind == FULL]
        return int(sizes.max()) or None if len(sizes) else None


def read_reference_run(path: str, stdin: BinaryIO | None = None) -> ReferenceRun:
    r"""Return what the run folder or points.csv at `path` says; "-" reads `stdin`.

    Example:
        >>> import io
        >>> log = b"step,trained,tested,score\n1,a,a,0.5\n2,a,a,0.6\n5,b,b,0.7\n"
        >>> read_reference_run("-", io.BytesIO(log)).iterations
        [2, 3]
    """
    name = "standard input" if path == "-" else path
    source = read_input(path, pipe=stdin)
    if source.points is None:
        raise InputError(f"{name}: a matrix, expected a run folder or a points.csv")
    points = source.points
    ends = [0, *(last for _, last in points.spans())]
    if len(ends) == 1:
        raise InputError(f"{name}: no line says which task was trained, expected a run with tasks")
    missing: list[str] = []
    train = _measure(lambda: _total(source, "seconds_train") / ends[-1], missing)
    example = _measure(lambda: _total(source, "seconds_eval") / _evaluated(points), missing)
    iterations = [end - start for start, end in pairwise(ends)]
    return ReferenceRun(name, points, iterations, train, example, missing, source.notes)


def scores_on_schedule(
    run: ReferenceRun,
    *,
    every: int | None = None,
    burst: tuple[int, int] | None = None,
    window: int | None = None,
) -> dict[str, float]:
    """Return min_acc and wf as the run would show them if evaluated on a sparser schedule.

    The result is empty if the run lacks evaluations that the schedule has.
    """
    points = run.points
    steps = schedule_steps(run.iterations, every=every, burst=burst)
    recorded = np.unique(points.step[points.kind != INITIAL])
    if not (points.scale.is_accuracy and np.isin(steps, recorded).all()):
        return {}
    stream = _on_schedule(points, steps)
    scores = {}
    for id_, compute in (
        ("min_acc", partial(min_acc, stream)),
        (format_id("wf", window), partial(wf, stream, window)),
    ):
        with suppress(UndefinedMetricError):  # too few evaluations are left
            scores[id_] = float(compute())
    return scores


def _measure(compute: Callable[[], float], missing: list[str]) -> float | None:
    try:
        return compute()
    except UndefinedMetricError as reason:
        missing.append(str(reason))
        return None


def _total(source: ScoreInput, column: str) -> float:
    if source.costs is None:
        raise UndefinedMetricError("needs a costs.csv, which is not there")
    return float(source.costs.column(column).sum())


def _evaluated(points: Points) -> int:
    if not (points.n > 0).all():
        raise UndefinedMetricError(
            "needs to know how many examples were evaluated (column n of points.csv)"
        )
    return int(points.n.sum())


def _on_schedule(points: Points, steps: NDArray[np.int64]) -> Stream:
    """Return the stream with probes at these steps only."""
    keep = (points.kind != PROBE) | np.isin(points.step, steps)
    columns = ("step", "trained", "tested", "kind", "score", "n")
    kept = replace(points, **{name: getattr(points, name)[keep] for name in columns}).stream()
    empty = (np.empty(0, dtype=np.int64), np.empty(0))
    tasks = {name: kept.tasks.get(name, empty) for name in points.stream().names}
    return Stream(tasks, points.spans(), scale=points.scale)
