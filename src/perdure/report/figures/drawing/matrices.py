"""Score matrices of methods, checked for drawing: complete, equally many tasks, one scale."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ....record import InputError
from ...filtering import drop_other_task_counts, drop_unusable
from ...labels import drop_modules, merge_names, merge_scales
from .panels import shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from ....metrics import ScoreMatrix, ScoreScale
    from ....record import ScoreInput
    from ...load import RunsByMethod
    from .paper import Size

# Maximum length of a task's name on an axis.
MAX_TASK_LETTERS = {"column": 14, "page": 22, "slide": 10}


class MeanAndSD(NamedTuple):
    """Mean and sample SD over runs (zero for one run); NaN where any run has no value."""

    mean: NDArray[np.float64]
    sd: NDArray[np.float64]
    runs: int


def average_runs(values: Sequence[NDArray[np.float64]]) -> MeanAndSD:
    """Return the mean and SD over runs of arrays of equal shape.

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
    find_problem: Callable[[ScoreMatrix], str] = lambda matrix: "",  # noqa: ARG005
) -> dict[str, list[ScoreMatrix]]:
    """Return the matrices of each method; runs that cannot be drawn are left out with a warning.

    Args:
        methods: runs by method.
        together: require equally many tasks of all methods, not only within each method.
        find_problem: returns why a matrix cannot be drawn, or an empty string.

    Example:
        >>> from perdure.record import ScoreInput
        >>> get_matrices({"er": [ScoreInput(no_matrix="tasks return")]})
        Traceback (most recent call last):
        perdure.record.io.files.InputError: er: no score matrix: tasks return
    """

    def find_run_problem(run: ScoreInput) -> str:
        if run.matrix is None:
            reason = run.no_matrix or "expected the score on every task after each task"
            return f"no score matrix: {reason}"
        return find_problem(run.matrix)

    usable = drop_other_task_counts(drop_unusable(methods, find_run_problem), together=together)
    matrices = {name: [run.matrix for run in runs if run.matrix] for name, runs in usable.items()}
    _check_one_scale(matrices)
    return matrices


def _check_one_scale(matrices: Mapping[str, Sequence[ScoreMatrix]]) -> None:
    first: tuple[str, ScoreScale] | None = None
    for name, several in matrices.items():
        for matrix in several:
            first = first or (name, matrix.scale)
            if matrix.scale != first[1]:
                raise InputError(
                    f"{name} has scores of another range or direction than {first[0]}, expected "
                    "the same kind of score everywhere"
                )


def merge_matrix_scales(matrices: Mapping[str, Sequence[ScoreMatrix]]) -> ScoreScale:
    """Return the scale that all scores share."""
    return merge_scales([matrix.scale for several in matrices.values() for matrix in several])


def short_task_names(matrices: Sequence[ScoreMatrix], size: Size = "page") -> tuple[str, ...]:
    """Return task names short enough for an axis; numbers where runs order tasks differently.

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
    """Return a name wrapped into lines of at most `letters` letters, as a panel's title.

    Lines break between words and parts of words. A longer name loses the modules before its class,
    and a longer part its middle.

    Example:
        >>> print(wrap_name("my_package.replay:BalancedReservoirReplay experience-replay", 16))
        BalancedRe…eplay
        experience-
        replay
    """
    most = max(int(letters), 8)
    lines = [""]
    short = name if len(name) <= most else drop_modules(name)
    for part in re.findall(r"[^\s_/:,-]*[_/:,-]*\s*", short):
        if len(lines[-1]) + len(part.rstrip()) > most:
            lines.append("")
        lines[-1] += part
    return "\n".join(shorten(line.rstrip(), most) for line in lines if line.strip()) or "-"


def get_score_limits(scale: ScoreScale, *values: NDArray[np.float64]) -> tuple[float, float]:
    """Return the limits of an axis or colour scale: 0 and 1 for accuracies, else those of `values`.

    Example:
        >>> from perdure.metrics import ACCURACY, ScoreScale
        >>> get_score_limits(ACCURACY, np.array([0.4]))
        (0.0, 1.0)
        >>> get_score_limits(ScoreScale(0, 9), np.array([2, 5]))
        (2.0, 5.0)
    """
    if scale.is_accuracy:
        return 0.0, 1.0
    low = min((float(np.nanmin(array)) for array in values), default=0.0)
    high = max((float(np.nanmax(array)) for array in values), default=1.0)
    return (low, high) if low < high else (low - 0.5, high + 0.5)
