"""Score matrices of methods, judged for drawing: all there, as many tasks, one kind of score."""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...record import InputError
from ..curve_data import merge_names, merge_scales
from ..filtering import drop_other_task_counts, drop_unusable
from ._panels import escape_text, shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from ...metrics import ScoreMatrix, ScoreScale
    from ...record import ScoreInput
    from ..load import RunsByMethod
    from ._paper import Size

__all__ = [
    "MeanAndSD",
    "average_runs",
    "get_matrices",
    "get_score_limits",
    "merge_matrix_scales",
    "short_task_names",
    "wrap_name",
]

# Letters of a task's name on an axis.
MAX_TASK_LETTERS = {"column": 14, "page": 22, "slide": 10}


class MeanAndSD(NamedTuple):
    """Mean and sample SD (zero for one run) over runs, NaN where any of them has no value."""

    mean: NDArray[np.float64]
    sd: NDArray[np.float64]
    runs: int


def average_runs(values: Sequence[NDArray[np.float64]]) -> MeanAndSD:
    """Return mean and SD over runs of arrays of one shape.

    Example:
        >>> average_runs([np.array([0.5, 0.7]), np.array([0.7, 0.7])]).mean
        array([0.6, 0.7])
    """
    stacked = np.stack(values)
    sd = stacked.std(axis=0, ddof=1) if len(values) > 1 else np.zeros(stacked.shape[1:])
    return MeanAndSD(stacked.mean(axis=0), sd, len(values))


def get_matrices(
    methods: RunsByMethod,
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
        >>> get_matrices({"er": [ScoreInput(no_matrix="tasks return")]})
        Traceback (most recent call last):
        perdure.record.io.files.InputError: er: no score matrix: tasks return
    """

    def without(run: ScoreInput) -> str:
        if run.matrix is None:
            reason = run.no_matrix or "expected the score on every task after each task"
            return f"no score matrix: {reason}"
        return lacks(run.matrix)

    kept = drop_other_task_counts(drop_unusable(methods, without), together=together)
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


def merge_matrix_scales(found: Mapping[str, Sequence[ScoreMatrix]]) -> ScoreScale:
    """Return range and direction of all scores, with their name where they share one."""
    return merge_scales([matrix.scale for several in found.values() for matrix in several])


def short_task_names(matrices: Sequence[ScoreMatrix], size: Size = "page") -> tuple[str, ...]:
    """Return the names of tasks, short enough for an axis; places where runs order them otherwise.

    Example:
        >>> from perdure.metrics import ScoreMatrix
        >>> a = ScoreMatrix([[0.9, 0.1], [0.6, 0.8]], tasks=["cats", "dogs and wolves"])
        >>> b = ScoreMatrix([[0.9, 0.1], [0.6, 0.8]], tasks=["dogs and wolves", "cats"])
        >>> short_task_names([a, a], "slide"), short_task_names([a, b])
        (('cats', 'dogs a…ves'), ('task no. 1', 'task no. 2'))
    """
    names = merge_names([matrix.tasks for matrix in matrices])
    return tuple(shorten(name, MAX_TASK_LETTERS.get(size, 22)) for name in names)


def wrap_name(name: str, letters: float) -> str:
    """Return a name as it is drawn above a panel, on more than one line where it is long."""
    return "\n".join(map(escape_text, wrap(name, max(int(letters), 8)))) or "-"


def get_score_limits(scale: ScoreScale, *values: NDArray[np.float64]) -> tuple[float, float]:
    """Return the ends of an axis or colour scale of scores: 0 and 1, or those of other scores.

    Example:
        >>> from perdure.metrics import ACCURACY, ScoreScale
        >>> get_score_limits(ACCURACY, np.array([0.4]))
        (0.0, 1.0)
        >>> get_score_limits(ScoreScale(0, 9), np.array([2, 5]))
        (2.0, 5.0)
    """
    if scale.is_accuracy:
        return 0.0, 1.0
    low = min((float(np.nanmin(each)) for each in values), default=0.0)
    high = max((float(np.nanmax(each)) for each in values), default=1.0)
    return (low, high) if low < high else (low - 0.5, high + 0.5)
