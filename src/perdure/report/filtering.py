"""Filtering of runs that can be shown together; the others are left out with a warning."""

from __future__ import annotations

import warnings
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from .._display import count_of
from ..record import InputError, Run, RunFolder
from ..record.comparability import SELECT_PART, explain_mixture
from ..record.run_index import make_ref

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..record import ScoreInput
    from .load import RunsByMethod

__all__ = [
    "LeftOutWarning",
    "count_tasks",
    "drop_other_task_counts",
    "drop_unusable",
    "require_one_scenario",
    "summarize_reasons",
]

MAX_NAMED = 3  # runs that are left out for the same reason


class LeftOutWarning(UserWarning):
    """Runs are not shown; the message names the first of them and the reason that they share."""


def require_one_scenario(methods: RunsByMethod) -> None:
    """Raise InputError unless methods that share axes are of one scenario, as `compare` does.

    They must have one setting and equally many tasks too; unfinished runs may have fewer.

    Example:
        >>> from perdure.metrics import ScoreMatrix
        >>> from perdure.record import ScoreInput
        >>> one, two = (ScoreInput(ScoreMatrix(r)) for r in ([[0.9]], [[0.9, 0.1], [0.6, 0.8]]))
        >>> require_one_scenario({"er": [one], "ewc": [two]})
        Traceback (most recent call last):
        perdure.record.io.files.InputError: er has 1 task and ewc has 2, expected equally many...
    """
    every = [run for runs in methods.values() for run in runs if isinstance(run, Run)]
    if mixed := explain_mixture([make_ref(str(run.folder), run.metadata) for run in every]):
        raise InputError(f"{mixed}; {SELECT_PART}")
    counts = {
        name: Counter(count_tasks(run) for run in runs if not isinstance(run, Run) or run.finished)
        for name, runs in methods.items()
    }
    usual = {name: _most_common(own) for name, own in counts.items() if own}
    first, tasks = next(iter(usual.items()), ("", 0))
    for name, other in usual.items():
        if other != tasks:
            raise InputError(
                f"{first} has {count_of(tasks, 'task')} and {name} has {other}, expected "
                "equally many in one figure; name methods with the same number of tasks"
            )


def drop_unusable(
    methods: RunsByMethod,
    find_problem: Callable[[ScoreInput], str],
    *,
    together: bool | None = None,
) -> dict[str, list[ScoreInput]]:
    """Return the methods with their usable runs; each reason to leave runs out gives a warning.

    Args:
        methods: runs by method.
        find_problem: returns why a run cannot be shown, or an empty string.
        together: see `drop_other_task_counts`, which follows unless this is None.

    Raises InputError with the first reason if no run is left.

    Example:
        >>> from perdure.record import ScoreInput
        >>> drop_unusable({"er": [ScoreInput(no_matrix="tasks return")]}, lambda run: run.no_matrix)
        Traceback (most recent call last):
        perdure.record.io.files.InputError: er: tasks return
    """
    usable = _drop(methods, lambda _, run: find_problem(run))
    return usable if together is None else drop_other_task_counts(usable, together=together)


def drop_other_task_counts(methods: RunsByMethod, *, together: bool) -> dict[str, list[ScoreInput]]:
    """Return the methods without the runs whose number of tasks differs from the most common one.

    Args:
        methods: runs by method.
        together: take the most common number over all runs, not per method.
    """
    counts = {name: Counter(map(count_tasks, runs)) for name, runs in methods.items()}
    if together:
        counts = dict.fromkeys(methods, sum(counts.values(), Counter[int]()))
    usual = {name: _most_common(own) for name, own in counts.items() if own}

    def find_problem(name: str, run: ScoreInput) -> str:
        if count_tasks(run) == usual[name]:
            return ""
        return (
            f"{count_of(count_tasks(run), 'task')} where most runs have {usual[name]}{_state(run)}"
        )

    return _drop(methods, find_problem)


def _most_common(counts: Counter[int]) -> int:
    return max(counts, key=lambda count: (counts[count], count))


def _state(run: ScoreInput) -> str:
    """Return why a run lacks some of its tasks, an empty string if it has finished."""
    if not isinstance(run, Run) or run.finished:
        return ""
    failure = RunFolder(run.folder).failure()
    return "; it is unfinished" if failure is None else f"; it failed: {' '.join(failure.split())}"


def summarize_reasons(reasons: Sequence[str]) -> str:
    """Return the first reason, and how many other runs are left out too.

    Example:
        >>> summarize_reasons(["a: no evaluations", "b: no evaluations"])
        'a: no evaluations (1 other run cannot be shown either)'
    """
    others = len(reasons) - 1
    return reasons[0] + (
        f" ({count_of(others, 'other run')} cannot be shown either)" if others else ""
    )


def count_tasks(run: ScoreInput) -> int:
    """Return how many tasks a run has learned so far."""
    if run.matrix is not None:
        return len(run.matrix.tasks)
    return len({span.task for span in run.stream.spans}) if run.stream is not None else 0


def _drop(
    methods: RunsByMethod, find_problem: Callable[[str, ScoreInput], str]
) -> dict[str, list[ScoreInput]]:
    usable: dict[str, list[ScoreInput]] = {}
    problems: dict[str, list[str]] = {}
    for name, runs in methods.items():
        for k, run in enumerate(runs):
            if problem := find_problem(name, run):
                problems.setdefault(problem, []).append(_run_name(name, runs, k))
            else:
                usable.setdefault(name, []).append(run)
    if not usable:
        if not problems:
            raise InputError("nothing to draw, expected at least one method")
        reasons = [f"{name}: {problem}" for problem, names in problems.items() for name in names]
        raise InputError(summarize_reasons(reasons))
    for problem, names in problems.items():
        more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
        listed = ", ".join(names[:MAX_NAMED])
        warnings.warn(f"left out: {listed}{more}: {problem}", LeftOutWarning, stacklevel=3)
    return usable


def _run_name(name: str, runs: Sequence[ScoreInput], k: int) -> str:
    run = runs[k]
    if isinstance(run, Run) and run.folder != Path():
        return str(run.folder)
    return f"run {k + 1} of {name}" if len(runs) > 1 else name
