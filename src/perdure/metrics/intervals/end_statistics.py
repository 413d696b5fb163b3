"""Accuracies at task ends and their covariances, from per-example results."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from ..per_example import PerExample

    Floats = NDArray[np.float64]

__all__ = ["EndStatistics", "end_statistics"]


class EndStatistics(NamedTuple):
    """Per task (first axis): accuracy at each task end, covariance and number of examples.

    For the difference of two runs, the task ends of the second follow those of the first.
    """

    mean: Floats
    covariance: Floats
    n: Floats
    known: NDArray[np.bool_]
    runs: int

    def after(self, task: int) -> EndStatistics:
        """Return the statistics of the end of one task only."""
        ends = slice(task, None, len(self.mean))
        return self._replace(mean=self.mean[:, ends], covariance=self.covariance[:, ends, ends])

    def covers(self, used: NDArray[np.bool_]) -> bool:
        """Return whether every run has the results that `used` (tasks, task ends) asks for."""
        return not (np.tile(used, self.runs) & ~self.known[: len(used)]).any()


def end_statistics(
    runs: Sequence[Mapping[str, PerExample]],
    tasks: Sequence[str],
    ends: Sequence[int] | None = None,
) -> EndStatistics:
    """Return the accuracies at task ends and their covariances; runs must share their examples.

    `ends` are the steps of the results that count as task ends, by default one per task.
    """
    steps = np.arange(len(tasks)) if ends is None else np.array(ends)
    count, width = len(tasks), len(steps) * len(runs)
    statistics = EndStatistics(
        np.zeros((count, width)), np.zeros((count, width, width)), np.ones(count),
        np.zeros((count, width), dtype=bool), len(runs),
    )  # fmt: skip
    for j, task in enumerate(tasks):
        results = [(run[task], k * len(steps)) for k, run in enumerate(runs) if task in run]
        if not results:
            continue
        at = [np.searchsorted(steps, result.steps) + start for result, start in results]
        columns = np.concatenate(at)
        right = np.concatenate([result[:] for result, _ in results])
        mean, n = right.mean(axis=1), right.shape[1]
        table = right.astype(np.float32)  # counts up to 2**24 are exact
        statistics.mean[j, columns], statistics.known[j, columns] = mean, True
        statistics.n[j] = n
        both_right = (table @ table.T).astype(np.float64) / n
        statistics.covariance[j][np.ix_(columns, columns)] = (both_right - np.outer(mean, mean)) / n
    return statistics
