"""CLArena: acc.csv, one row per trained task and one column per task evaluated so far."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...record import InputError
from ..files import find_files, find_in_folder, read_head, read_log_text, read_rows
from ..imported import NO_SIZES, STEPS_ARE_TASKS, Evaluation, ImportedRun

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ..options import ImportOptions

__all__ = ["read", "recognize"]

FIRST = ["after_training_task", "average_accuracy"]
TESTED = "test_on_task_"
BATCHES = "CLArena averages accuracies over batches, a smaller last batch counting as much"


def recognize(path: Path) -> str | None:
    """Return why a file or folder looks like CLArena's, None if it does not."""
    if path.is_dir():
        return find_in_folder(path, "acc.csv", recognize)
    if read_head(path).startswith(f"{','.join(FIRST)},{TESTED}"):
        return "it has the columns of CLArena's acc.csv"
    return None


def read(paths: Sequence[Path], options: ImportOptions) -> list[ImportedRun]:  # noqa: ARG001
    """Return one run per acc.csv."""
    return [_read_file(path) for path in find_files(paths, "acc.csv")]


def _read_file(path: Path) -> ImportedRun:
    if not read_log_text(path).endswith("\n"):
        raise InputError(f"{path}: the last line is cut off, expected a line break after it")
    header, *rows = read_rows(path) or [[]]
    tasks = [name.removeprefix(TESTED) for name in header[2:]]
    if header[:2] != FIRST or not all(name.startswith(TESTED) for name in header[2:]):
        raise InputError(f"{path} line 1: expected {','.join(FIRST)},{TESTED}1,…")
    evaluations = []
    for k, row in enumerate(rows):
        where = f"{path} line {k + 2}"
        if len(row) != k + 3 or k >= len(tasks):  # the header is rewritten after every task
            raise InputError(
                f"{where}: {len(row) - 2} accuracies, expected {k + 1}, one per task so far; after "
                "unlearning, CLArena's columns do not say which task they are"
            )
        if row[0] != tasks[k]:
            raise InputError(f"{where}: after task {row[0]!r:.40}, expected task {tasks[k]}")
        for tested, cell in zip(tasks, row[2:], strict=False):
            evaluations.append(
                Evaluation(k + 1, f"task {row[0]}", f"task {tested}", _score(cell, where))
            )
    return ImportedRun(
        tool="CLArena", evaluations=evaluations, files=[path], label=path.parent.name,
        notes=[BATCHES, STEPS_ARE_TASKS, NO_SIZES],
    )  # fmt: skip


def _score(text: str, where: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{where}: an accuracy is {text!r:.40}, expected a number") from None
