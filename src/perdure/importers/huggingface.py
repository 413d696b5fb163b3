"""Sequences of all_results.json that Hugging Face training scripts wrote, one per task learned.

O-LoRA and its relatives write `outputs/<position>-<task>/all_results.json` with one score per task
seen so far, `predict_<metric>_for_<task>`, in percent.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ..record import InputError
from ..record.io.files import read_json
from .files import find_files
from .imported import NO_SIZES, STEPS_ARE_TASKS, Evaluation, ImportedRun

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from .imported import ImportOptions

    Scores = dict[str, float]  # by task or category

__all__ = ["read", "recognize"]

NAME = "all_results.json"
FOLDER = re.compile(r"(\d{1,6})-(.+)")
SCORE = re.compile(r"predict_(.+?)_for_(.+)")
DEFAULT_METRIC = "exact_match"


def recognize(path: Path) -> str | None:
    """Return why a path looks like such a sequence, None if it does not."""
    if not path.is_dir():
        return None
    for pattern in (f"*/{NAME}", f"*/*/{NAME}"):
        if any(FOLDER.fullmatch(file.parent.name) for file in path.glob(pattern)):
            return f"has folders <position>-<task> with {NAME}"
    return None


def read(paths: Sequence[Path], options: ImportOptions) -> list[ImportedRun]:
    """Return one run per folder with a sequence."""
    return [_read_sequence(path, options) for path in paths]


def _read_sequence(path: Path, options: ImportOptions) -> ImportedRun:
    if not path.is_dir():
        raise InputError(f"{path}: not a folder, expected one with <position>-<task>/{NAME}")
    tasks = _order_tasks(path, find_files([path], NAME), options.order)
    metric = options.metric or DEFAULT_METRIC
    tables = {task: _read_scores(file, metric) for task, file in tasks.items()}
    values = [score for scores in tables.values() for score in scores.values()]
    percent = max(values) > 1 if options.percent is None else options.percent
    evaluations = [
        Evaluation(step, trained, tested, score / 100 if percent else score)
        for step, (trained, scores) in enumerate(tables.items(), start=1)
        for tested, score in scores.items()
        if tested in tasks or tested in options.control
    ]
    folder = path.absolute()
    return ImportedRun(
        tool="Hugging Face all_results.json",
        evaluations=evaluations,
        files=list(tasks.values()),
        label=folder.parent.name if folder.name == "outputs" else folder.name,
        config={"metric": metric},
        notes=_notes(path, tables, options.control, percent=percent),
    )


def _order_tasks(path: Path, files: Sequence[Path], order: Sequence[str]) -> dict[str, Path]:
    """Return the file of each task in the order of learning: by number, 10 comes after 9."""
    positions: dict[int, Path] = {}
    for file in files:
        match = FOLDER.fullmatch(file.parent.name)
        if match is None:
            raise InputError(
                f"{file}: its folder does not say which task was learned when, expected "
                f"<position>-<task>, such as 1-{file.parent.name}; rename it"
            )
        other = positions.setdefault(int(match[1]), file)
        if other is not file:
            raise InputError(
                f"{path}: {other.parent} and {file.parent} have the same position, expected the "
                "folders of one run; two runs? Import them one by one"
            )
    missing = sorted(set(range(min(positions), max(positions))) - set(positions))
    if missing:
        raise InputError(
            f"{path}: no results of position {missing[0]}, expected a folder for each task from "
            f"{min(positions)} to {max(positions)}"
        )
    names = [positions[k].parent.name.partition("-")[2] for k in sorted(positions)]
    tasks = dict(zip(names, (positions[k] for k in sorted(positions)), strict=True))
    if len(tasks) < len(names):
        raise InputError(f"{path}: a task is learned twice ({', '.join(names)}), expected once")
    if order and list(order) != names:
        raise InputError(
            f"{path}: order is {','.join(order)}, but the folders are numbered "
            f"{','.join(names)}; omit `order=`"
        )
    return tasks


def _read_scores(file: Path, metric: str) -> Scores:
    contents = read_json(file)
    if not isinstance(contents, dict):
        raise InputError(f"{file}: expected an object with scores by name")
    matches = [match for match in map(SCORE.fullmatch, contents) if match]
    scores = {match[2]: contents[match[0]] for match in matches if match[1] == metric}
    if not scores:
        known = ", ".join(sorted({match[1] for match in matches}))
        raise InputError(
            f"{file}: no predict_{metric}_for_<task>, but {known}; choose one with `metric=`"
            if known
            else f"{file}: no score of any task, so nothing was evaluated when this one had been "
            "learned; a record cannot leave out a learned task, so evaluate that checkpoint"
        )
    for task, score in scores.items():
        if isinstance(score, bool) or not isinstance(score, int | float) or not 0 <= score <= 100:
            raise InputError(
                f"{file}: {metric} of {task!r:.60} is {score!r:.60}, expected a number from 0 to "
                "100"
            )
    return scores


def _notes(
    path: Path, tables: dict[str, Scores], control: Sequence[str], *, percent: bool
) -> list[str]:
    """Return what the files do not say, and what of them is not a task."""
    notes = [STEPS_ARE_TASKS, NO_SIZES]
    if percent:
        notes.append(f"{path}: scores are read as percent")
    names = {name for scores in tables.values() for name in scores}
    categories = sorted(names.difference(tables, control))
    if categories:
        notes.append(
            f"{path}: left out, since no folder is named after them: {', '.join(categories)} "
            "(categories, or tasks that were not learned)"
        )
    return notes
