"""Which runs can be shown together: the others are left out, each named with the reason."""

from __future__ import annotations

import warnings
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from ..record import InputError, Run, failure_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..record import ScoreInput
    from .load import RunsByMethod

__all__ = [
    "LeftOutWarning",
    "count_tasks",
    "drop_other_task_counts",
    "drop_unusable",
    "summarize_reasons",
]


class LeftOutWarning(UserWarning):
    """A run is not shown, and why."""


def drop_unusable(
    methods: RunsByMethod, lacks: Callable[[ScoreInput], str]
) -> dict[str, list[ScoreInput]]:
    """Return the methods with the runs that lack nothing, and warn of every other run.

    Args:
        methods: by name.
        lacks: returns what a run lacks, nothing where it can be shown.

    Raises InputError with the first reason where no run is left.

    Example:
        >>> from perdure.record import ScoreInput
        >>> drop_unusable({"er": [ScoreInput(no_matrix="tasks return")]}, lambda run: run.no_matrix)
        Traceback (most recent call last):
        perdure.record.io.files.InputError: er: tasks return
    """
    return _kept(methods, lambda _, run: lacks(run))


def drop_other_task_counts(methods: RunsByMethod, *, together: bool) -> dict[str, list[ScoreInput]]:
    """Return the methods without runs that have another number of tasks than most.

    Args:
        methods: by name.
        together: than most of all runs; else than most runs of the same method.
    """
    counts = {name: Counter(map(count_tasks, runs)) for name, runs in methods.items()}
    if together:
        everywhere = sum(counts.values(), Counter[int]())
        counts = dict.fromkeys(methods, everywhere)
    usual = {name: max(c, key=lambda n: (c[n], n)) for name, c in counts.items() if c}

    def lacks(name: str, run: ScoreInput) -> str:
        if count_tasks(run) == usual[name]:
            return ""
        return f"{count_tasks(run)} task(s) where most runs have {usual[name]}{_state(run)}"

    return _kept(methods, lacks)


def _state(run: ScoreInput) -> str:
    """Return why a run has not all its tasks, nothing where it has ended."""
    if not isinstance(run, Run) or run.finished:
        return ""
    why = failure_of(run.folder)
    return "; it is unfinished" if why is None else f"; it failed: {' '.join(why.split())}"


def summarize_reasons(left: Sequence[str]) -> str:
    """Return the first reason, and how many more runs are left out, where nothing is left.

    Example:
        >>> summarize_reasons(["a: no evaluations", "b: no evaluations"])
        'a: no evaluations (1 other run cannot be shown either)'
    """
    others = len(left) - 1
    runs = "1 other run" if others == 1 else f"{others} other runs"
    return left[0] + (f" ({runs} cannot be shown either)" if others else "")


def count_tasks(run: ScoreInput) -> int:
    """Return how many tasks a run has learned, as far as it can be scored."""
    if run.matrix is not None:
        return len(run.matrix.tasks)
    return len({visit.task for visit in run.stream.spans}) if run.stream is not None else 0


def _kept(
    methods: RunsByMethod, lacks: Callable[[str, ScoreInput], str]
) -> dict[str, list[ScoreInput]]:
    kept: dict[str, list[ScoreInput]] = {}
    left: list[str] = []
    for name, runs in methods.items():
        for k, run in enumerate(runs):
            if why := lacks(name, run):
                left.append(f"{_called(name, runs, k)}: {why}")
            else:
                kept.setdefault(name, []).append(run)
    if not kept:
        if not left:
            raise InputError("nothing to draw, expected one method or more")
        raise InputError(summarize_reasons(left))
    for each in left:
        warnings.warn(f"left out: {each}", LeftOutWarning, stacklevel=2)
    return kept


def _called(name: str, runs: Sequence[ScoreInput], k: int) -> str:
    run = runs[k]
    if isinstance(run, Run) and run.folder != Path():
        return str(run.folder)
    return f"run {k + 1} of {name}" if len(runs) > 1 else name
