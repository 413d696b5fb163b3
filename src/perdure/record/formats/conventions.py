"""Which unit and orientation the matrices of one method have, where the user does not say.

Decided for all matrices of a group together, and only where nothing else is plausible: scores up
to 100 of which every one on the diagonal is above 1 are percent, and a matrix without a score
below the diagonal has its trained tasks in columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..io.files import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from .matrix_entry import MatrixEntry

__all__ = [
    "are_fractions",
    "detect_percent",
    "detect_transposed",
    "fractions_note",
    "is_lower_triangle",
    "looks_like_percent",
    "percent_note",
    "suspect_transposed",
]

MIN_TOP_PERCENT = 10  # a highest score below it may be a loss as well


def looks_like_percent(scores: NDArray[np.float64], decisive: NDArray[np.float64]) -> bool:
    """Return whether scores can only be percent; `decisive` are those that are never tiny.

    Example:
        >>> matrix = np.array([[90.0, 0.5], [60.0, 80.0]])
        >>> looks_like_percent(matrix, matrix.diagonal())
        True
        >>> looks_like_percent(matrix / 30, matrix.diagonal() / 30)  # perhaps losses
        False
    """
    measured = scores[~np.isnan(scores)]
    if not measured.size or measured.min() < 0 or measured.max() > 100:
        return False
    tiny = (decisive > 0) & (decisive <= 1)
    return bool(np.nanmax(decisive) > MIN_TOP_PERCENT and not tiny.any())


def percent_note(scores: NDArray[np.float64], source: str) -> str:
    """Return the note on scores that are read as percent."""
    return (
        f"{source}: scores up to {np.nanmax(scores):g} are read as percent (losses need "
        "`lower_is_better=True`, other scores their `range=`)"
    )


def are_fractions(scores: ArrayLike) -> bool:
    """Return whether scores are fractions rather than percent; zeros may be either."""
    return bool(0 < np.nanmax(np.append(scores, 0)) <= 1)


def fractions_note(source: str) -> str:
    """Return the note on scores that are read as fractions although percent was asked for."""
    return f"{source}: no score is above 1, so scores are read as fractions"


def detect_percent(entries: Sequence[tuple[str, MatrixEntry]], group: str) -> str | None:
    """Return a note if the matrices of `group`, each with its source, are percent; else None.

    Raises InputError if some are percent and others are fractions.
    """
    matrices = [entry.fields["matrix"] for _, entry in entries]
    if not all(_is_square(matrix) for matrix in matrices):
        return None  # refused when it is read
    stated = [entry.percent for _, entry in entries]
    if all(stated):
        return f"{group}: scores with percent signs are read as percent"
    diagonals = [matrix.diagonal() for matrix in matrices]
    percent = [
        mark or looks_like_percent(*pair)
        for mark, *pair in zip(stated, matrices, diagonals, strict=True)
    ]
    small = [are_fractions(matrix) for matrix in matrices]
    if any(percent) and any(small):
        one, other = entries[percent.index(True)][0], entries[small.index(True)][0]
        raise InputError(
            f"{other}: no score is above 1, and {one} is in percent, expected one unit for the "
            "seeds of a method; convert one of them"
        )
    together = np.concatenate([matrix.ravel() for matrix in matrices])
    if not looks_like_percent(together, np.concatenate(diagonals)):
        return None
    return percent_note(together, group)


def detect_transposed(entries: Sequence[tuple[str, MatrixEntry]], group: str) -> str | None:
    """Return a note if columns are the trained tasks in all matrices of `group`; else None.

    Raises InputError if that is so in some only, or cannot be told from zeros.
    """
    verdicts = {}
    for source, entry in entries:
        matrix = entry.fields["matrix"]
        if _is_square(matrix) and len(matrix) > 1 and not entry.oriented:
            verdicts[source] = _orientation(matrix)
    if "zeros" in verdicts.values():
        source = next(source for source, verdict in verdicts.items() if verdict == "zeros")
        raise InputError(
            f"{source}: all scores below the diagonal are 0 and those above are not, expected a "
            "row per trained task; use `transposed=True` if rows are evaluated tasks, or "
            "`transposed=False` if everything was forgotten"
        )
    if "columns" not in verdicts.values():
        return None
    source = next(source for source, verdict in verdicts.items() if verdict == "columns")
    for other, verdict in verdicts.items():
        if verdict == "rows":
            raise InputError(
                f"{source}: no score is below the diagonal, and {other} has some, expected one "
                "orientation for the seeds of a method; transpose one of them"
            )
    return (
        f"{group}: no score is below the diagonal, so columns are read as the trained tasks "
        "(`transposed=True`)"
    )


def suspect_transposed(
    entries: Sequence[tuple[str, MatrixEntry]], group: str, *, lower_is_better: bool
) -> str | None:
    """Return a note if every score above the diagonal is better than its mirror image below it.

    A model is then better at each task before it learns it than after it has learned others.
    """
    for _, entry in entries:
        matrix = entry.fields["matrix"]
        if not _is_square(matrix) or len(matrix) < 3:
            return None
        lower = np.tri(len(matrix), k=-1, dtype=bool)
        gains = matrix.T[lower] - matrix[lower]
        if not ((-gains if lower_is_better else gains) > 0).all():
            return None
    return (
        f"{group}: every score above the diagonal is better than the one mirrored below it; if "
        "rows are evaluated tasks, use `transposed=True`"
    )


def _orientation(matrix: NDArray[np.float64]) -> str:
    """Return what the blank half of a matrix says: rows, columns or zeros (either)."""
    lower = matrix[np.tri(len(matrix), k=-1, dtype=bool)]
    upper = matrix.T[np.tri(len(matrix), k=-1, dtype=bool)]
    if np.isnan(lower).all():
        return "any" if np.isnan(upper).all() else "columns"
    if not np.nan_to_num(lower).any() and np.nan_to_num(upper).all():
        return "zeros"
    return "rows"


def is_lower_triangle(matrix: NDArray[np.float64]) -> bool:
    """Return whether scores are measured below the diagonal and none above it.

    Example:
        >>> is_lower_triangle(np.array([[0.9, np.nan], [0.6, 0.8]]))
        True
    """
    return _is_square(matrix) and len(matrix) > 1 and _orientation(matrix.T) == "columns"


def _is_square(matrix: NDArray[np.float64]) -> bool:
    return matrix.ndim == 2 and 0 < len(matrix) == matrix.shape[1]
