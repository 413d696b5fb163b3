"""Score matrices of methods, judged for drawing: all there, as many tasks, one kind of score."""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...record import InputError
from ..curve_data import agreed, shared_scale
from ..usable import as_many_tasks, usable
from ._panels import plain, short

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from ...metrics import ScoreMatrix, ScoreScale
    from ...record import ScoreInput
    from ..load import Methods
    from ._paper import Size

__all__ = [
    "Spread",
    "folded",
    "matrices_of",
    "scale_of",
    "score_limits",
    "spread",
    "tasks_of",
]

# Letters of a task's name on an axis.
LONGEST = {"column": 14, "page": 22, "slide": 10}


class Spread(NamedTuple):
    """Mean and sample SD (zero for one run) over runs, NaN where any of them has no value."""

    mean: NDArray[np.float64]
    sd: NDArray[np.float64]
    runs: int


def spread(values: Sequence[NDArray[np.float64]]) -> Spread:
    """Return mean and SD over runs of arrays of one shape.

    Example:
        >>> spread([np.array([0.5, 0.7]), np.array([0.7, 0.7])]).mean
        array([0.6, 0.7])
    """
    stacked = np.stack(values)
    sd = stacked.std(axis=0, ddof=1) if len(values) > 1 else np.zeros(stacked.shape[1:])
    return Spread(stacked.mean(axis=0), sd, len(values))


def matrices_of(
    methods: Methods,
    *,
    together: bool = False,
    lacks: Callable[[ScoreMatrix], str] = lambda matrix: "",  # noqa: ARG005
) -> dict[str, list[ScoreMatrix]]:
    """Return the matrices of every method; a run that cannot be drawn is left out with a warning.

    Args:
        methods: by name.
        together: all methods must have as many tasks; else only the runs of each.
        lacks: returns what a matrix lacks for a figure, nothing where it can be drawn.

    Example:
        >>> from perdure.record import ScoreInput
        >>> matrices_of({"er": [ScoreInput(no_matrix="tasks return")]})
        Traceback (most recent call last):
        perdure.record.io.files.InputError: er: no score matrix: tasks return
    """

    def without(run: ScoreInput) -> str:
        if run.matrix is None:
            reason = run.no_matrix or "expected the score on every task after each task"
            return f"no score matrix: {reason}"
        return lacks(run.matrix)

    kept = as_many_tasks(usable(methods, without), together=together)
    found = {name: [run.matrix for run in runs if run.matrix] for name, runs in kept.items()}
    _refuse_other_scores(found)
    return found


def _refuse_other_scores(found: Mapping[str, Sequence[ScoreMatrix]]) -> None:
    first: tuple[str, ScoreScale] | None = None
    for name, several in found.items():
        for matrix in several:
            first = first or (name, matrix.scale)
            if matrix.scale != first[1]:
                raise InputError(
                    f"{name} has scores of another range or direction than {first[0]}, expected "
                    "the same kind of score everywhere"
                )


def scale_of(found: Mapping[str, Sequence[ScoreMatrix]]) -> ScoreScale:
    """Return range and direction of all scores, with their name where they share one."""
    return shared_scale([matrix.scale for several in found.values() for matrix in several])


def tasks_of(matrices: Sequence[ScoreMatrix], size: Size = "page") -> tuple[str, ...]:
    """Return the names of tasks, short enough for an axis; places where runs order them otherwise.

    Example:
        >>> from perdure.metrics import ScoreMatrix
        >>> a = ScoreMatrix([[0.9, 0.1], [0.6, 0.8]], tasks=["cats", "dogs and wolves"])
        >>> b = ScoreMatrix([[0.9, 0.1], [0.6, 0.8]], tasks=["dogs and wolves", "cats"])
        >>> tasks_of([a, a], "slide"), tasks_of([a, b])
        (('cats', 'dogs a…ves'), ('task no. 1', 'task no. 2'))
    """
    names = agreed([matrix.tasks for matrix in matrices])
    return tuple(short(name, LONGEST.get(size, 22)) for name in names)


def folded(name: str, letters: float) -> str:
    """Return a name as it is drawn above a panel, on more than one line where it is long."""
    return "\n".join(map(plain, wrap(name, max(int(letters), 8)))) or "-"


def score_limits(scale: ScoreScale, *values: NDArray[np.float64]) -> tuple[float, float]:
    """Return the ends of an axis or colour scale of scores: 0 and 1, or those of other scores.

    Example:
        >>> from perdure.metrics import ACCURACY, ScoreScale
        >>> score_limits(ACCURACY, np.array([0.4]))
        (0.0, 1.0)
        >>> score_limits(ScoreScale(0, 9), np.array([2, 5]))
        (2.0, 5.0)
    """
    if scale.is_accuracy:
        return 0.0, 1.0
    low = min((float(np.nanmin(each)) for each in values), default=0.0)
    high = max((float(np.nanmax(each)) for each in values), default=1.0)
    return (low, high) if low < high else (low - 0.5, high + 0.5)
