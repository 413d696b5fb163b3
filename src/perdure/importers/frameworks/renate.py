"""Renate: metrics_summary_update_<k>.csv, whose two header rows are the metric and the task."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ...metrics import ACCURACY, ScoreScale
from ...record import InputError
from ..files import find_files, find_in_folder, read_head, read_rows
from ..imported import NO_SIZES, STEPS_ARE_TASKS, Evaluation, ImportedRun

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ..options import ImportOptions

__all__ = ["read", "recognize"]

FILE = re.compile(r"metrics_summary_update_(\d+)\.csv")
DEFAULT = "accuracy"
LOSS = ScoreScale(0, float("inf"), lower_is_better=True, name="loss")
NO_INITIAL = (
    "scores of the untrained model, which Renate's Forward Transfer subtracts, are not in the file"
)


def recognize(path: Path) -> str | None:
    """Return why a file or folder looks like Renate's, None if it does not."""
    if path.is_dir():
        return find_in_folder(path, "metrics_summary_update_*.csv", recognize)
    lines = read_head(path).split("\n")
    if lines[0].startswith("Task ID,") and lines[1:] and lines[1].startswith(",Task 1"):
        return "it has the two header rows of Renate's summary of updates"
    return None


def read(paths: Sequence[Path], options: ImportOptions) -> list[ImportedRun]:
    """Return a run per folder, from the file of its last update; `metric` chooses the score."""
    last: dict[Path, Path] = {}
    for path in find_files(paths, "metrics_summary_update_*.csv"):
        folder, match = path.parent, FILE.fullmatch(path.name)
        number = int(match[1]) if match else -1
        before = FILE.fullmatch(last[folder].name) if folder in last else None
        if before is None or number > int(before[1]):
            last[folder] = path  # every file repeats the rows of those before it
    return [_read_file(path, options.metric or DEFAULT) for path in last.values()]


def _read_file(path: Path, metric: str) -> ImportedRun:
    rows = read_rows(path)
    if len(rows) < 3 or (rows[0][0], rows[1][0]) != ("Task ID", "") or len(rows[0]) != len(rows[1]):
        raise InputError(f"{path}: expected two header rows, `Task ID,{metric},…` and `,Task 1,…`")
    columns = {task: k for k, task in enumerate(rows[1]) if rows[0][k] == metric}
    if not columns:
        known = ", ".join(dict.fromkeys(rows[0][1:]))
        raise InputError(f"{path}: has no {metric!r:.40}; choose with `metric=`: {known}")
    evaluations = []
    for k, row in enumerate(rows[2:]):
        where = f"{path} line {k + 3}"
        if len(row) != len(rows[0]) or row[0] != str(k + 1):
            raise InputError(
                f"{where}: {len(row)} cells after task {row[0]!r:.40}, expected {len(rows[0])} "
                f"after task {k + 1}"
            )
        for task, column in columns.items():
            score = _score(row[column], where)
            evaluations.append(Evaluation(k + 1, f"Task {k + 1}", task, score))
    return ImportedRun(
        tool="Renate", metrics="renate", evaluations=evaluations, files=[path],
        label=path.parent.name, scale=LOSS if metric == "loss" else ACCURACY,
        notes=[STEPS_ARE_TASKS, NO_SIZES, NO_INITIAL],
    )  # fmt: skip


def _score(text: str, where: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{where}: a score is {text!r:.40}, expected a number") from None
