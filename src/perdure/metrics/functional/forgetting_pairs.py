"""Final forgetting next to the largest drop on the way, for every older task."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from .value import UndefinedMetricError
from .worst_case import largest_by_span

if TYPE_CHECKING:
    from ..score_matrix import ScoreMatrix
    from ..stream import Stream

__all__ = ["forgetting_pairs"]


def forgetting_pairs(
    matrix: ScoreMatrix, stream: Stream, window: int | None = 10
) -> dict[tuple[int, int], tuple[float, float]]:
    """Return FORG and WF of every older task after each task (De Lange et al. 2023).

    The keys are the positions of the task just learned and of the older one. FORG is the score when
    the task was learned minus the score now; WF is the largest drop within `window` evaluations.

    Example:
        >>> from perdure.metrics import ScoreMatrix, Stream
        >>> stream = Stream({"a": ([1, 2, 3], [1.0, 0.25, 0.75]), "b": ([3], [0.5])},
        ...                 spans=[("a", 1), ("b", 3)])
        >>> forgetting_pairs(ScoreMatrix([[1.0, 0.0], [0.75, 0.5]]), stream)
        {(1, 0): (0.25, 0.75)}
    """
    scores = matrix.higher_is_better
    pairs: dict[tuple[int, int], tuple[float, float]] = {}
    with suppress(UndefinedMetricError):  # no task was evaluated twice
        for k, drops in enumerate(largest_by_span(stream, window)):
            if np.isnan(drops).all():  # none was by then
                continue
            forgetting = (scores.diagonal() - scores[k])[:k]
            both = zip(forgetting.tolist(), drops.tolist(), strict=False)
            pairs |= {(k, j): pair for j, pair in enumerate(both)}
    return pairs
