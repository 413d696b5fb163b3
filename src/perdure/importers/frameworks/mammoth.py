"""Mammoth: the dictionaries in logs.pyd, and the accuracies that a run prints on the console."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...record import InputError
from ..files import find_files, find_in_folder, read_head, read_log_text
from ..imported import NO_SIZES, STEPS_ARE_TASKS, Evaluation, ImportedRun
from ..values import parse_numbers, parse_scalar, split_items

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from ..imported import ImportOptions

__all__ = ["read", "recognize"]

ENTRY = re.compile(r"accuracy_(\d{1,6})_task(\d{1,6})")
HEADING = re.compile(r"(Future )?Accuracy(?: \(epoch (\d+)\))? for (\d{1,6}|final) task\(s\):")
RAW = re.compile(r"Raw accuracy values: (.*)")
VALUES = re.compile(r"(Class-IL|Task-IL|Domain-IL) (\[[^\]]*\])")
SETTINGS = {"Class-IL": "class", "Task-IL": "task", "Domain-IL": "domain"}
FOLDERS = {"class-il": "class", "task-il": "task", "domain-il": "domain"}
# What does not describe the method: where it ran, and what follows from the rest.
NOT_CONFIG = re.compile(
    r"acc|conf_|cpu_|gpu_|forward_transfer|backward_transfer|forgetting|device|notes|results_path|"
    r"base_path|checkpoint|non_verbose|enable_other|disable_log|savecheck|loadcheck|wandb|num_workers"
)
EPOCHS = "steps count evaluations: the log does not say after how many iterations each was made"
LAST_LEFT_OUT = (
    "an extra last evaluation was left out: with a validation set, Mammoth evaluates the final "
    "model once more on the test set"
)
NO_BASELINE = (
    "accuracies of tasks before they are learned, which Mammoth's Forward Transfer and Forgetting "
    "include, are not in the log"
)


class OnlyMeansError(InputError):
    """Raised for a log without accuracies per task."""


@dataclass
class MammothRun:
    """Accuracies in percent per evaluation, each on the tasks seen so far, and the arguments."""

    setting: str
    rows: list[list[float]] = field(default_factory=list)
    future: dict[int, list[float]] = field(default_factory=dict)  # by number of tasks learned
    arguments: dict[str, str] = field(default_factory=dict)


def recognize(path: Path) -> str | None:
    """Return why a file or folder looks like Mammoth's, None if it does not."""
    if path.is_dir():
        return find_in_folder(path, "logs.pyd", recognize)
    head = read_head(path)
    if head.startswith("{") and ("'accmean_task1'" in head or "'conf_git_hash'" in head):
        return "its lines are dictionaries with the arguments and results of Mammoth"
    if HEADING.search(head) and RAW.search(head):
        return "it has Mammoth's lines `Accuracy for … task(s)` and `Raw accuracy values`"
    return None


def read(paths: Sequence[Path], options: ImportOptions) -> list[ImportedRun]:
    """Return a run per line of logs.pyd, or per setting on the console (`metric` chooses one)."""
    runs: list[ImportedRun] = []
    left_out: list[OnlyMeansError] = []
    for path in find_files(paths, "logs.pyd"):
        text = read_log_text(path)
        logs = text.lstrip().startswith("{")
        try:
            found = list(_read_logs(text, path) if logs else _read_console(text, path))
        except OnlyMeansError as error:
            left_out.append(error)
            continue
        runs += [
            _make_run(logged, path, number)
            for number, logged in enumerate(found)
            if options.metric in (None, logged.setting)
        ]
    if left_out and not runs:
        raise left_out[0]
    for run in runs:
        run.notes += [f"left out: {error}" for error in left_out]
    return runs


def _read_logs(text: str, path: Path) -> Iterator[MammothRun]:
    setting = next((FOLDERS[part] for part in path.parts[::-1] if part in FOLDERS), "")
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            items = split_items(line)
        except ValueError as error:
            raise InputError(
                f"{path} line {number}: {error}, expected one run of Mammoth"
            ) from None
        rows: dict[int, dict[int, float]] = {}
        for key, value in items.items():
            if match := ENTRY.fullmatch(key):
                rows.setdefault(int(match[2]), {})[int(match[1])] = _percent(value, path, number)
        _check_log(items, rows, path, number)
        dense = [[row[j] for j in sorted(row)] for _, row in sorted(rows.items())]
        yield MammothRun(setting, dense, arguments=items)


def _check_log(
    items: dict[str, str], rows: dict[int, dict[int, float]], path: Path, number: int
) -> None:
    where = f"{path} line {number}"
    if not rows:
        raise OnlyMeansError(
            f"{where}: no accuracy per task, only means: Mammoth leaves them out of the "
            "domain-incremental log; import the console output (`2> console.txt`) instead"
        )
    for name in ("joint", "eval_future"):
        if parse_scalar(items.get(name, "0")) not in (0, False, None):
            raise InputError(f"{where}: {name}={items[name]}, whose rows are not one per task")
    if any(sorted(row) != list(range(1, len(row) + 1)) for row in rows.values()):
        raise InputError(f"{where}: accuracies of some tasks are missing; is the line cut off?")


def _percent(value: str, path: Path, number: int) -> float:
    score = parse_scalar(value)
    if isinstance(score, bool) or not isinstance(score, int | float) or not 0 <= score <= 100:
        raise InputError(f"{path} line {number}: an accuracy is {value:.40}, expected 0 to 100")
    return float(score)


def _read_console(text: str, path: Path) -> Iterator[MammothRun]:
    """Yield the runs of a console output, per setting; each line may be there twice."""
    runs: dict[str, MammothRun] = {}
    seen: set[tuple[str, ...]] = set()
    heading: tuple[str, str, str] | None = None
    last = 0
    for number, line in enumerate(text.split("\n"), 1):
        if match := HEADING.search(line):
            heading = (match[1] or "", match[2] or "", match[3])
        elif heading and (match := RAW.search(line)):
            if (*heading, match[1]) in seen:
                continue  # printed, and logged
            if heading[2] == "final":
                continue
            if int(heading[2]) < last:
                yield from runs.values()
                runs, seen = {}, set()
            last = int(heading[2])
            seen.add((*heading, match[1]))
            for name, values in VALUES.findall(match[1]):
                run = runs.setdefault(name, MammothRun(SETTINGS[name]))
                scores = _parse_row(values, f"{path} line {number}")
                if heading[0]:
                    run.future[last] = scores
                else:
                    run.rows.append(scores)
    yield from runs.values()


def _parse_row(values: str, where: str) -> list[float]:
    try:
        scores = parse_numbers(values)
    except ValueError:
        scores = []
    if not scores or not all(0 <= score <= 100 for score in scores):
        raise InputError(f"{where}: accuracies are {values:.60}, expected numbers from 0 to 100")
    return scores


def _make_run(logged: MammothRun, path: Path, number: int) -> ImportedRun:
    rows, notes = _trim(logged.rows)
    lengths = [len(row) for row in rows]
    tasks = [f"task {j + 1}" for j in range(max(lengths) + len(logged.future.get(lengths[0], ())))]
    evaluations = []
    for step, row in enumerate(rows, 1):
        scores = row
        if logged.future and lengths[step - 1 : step + 1] != [len(row)] * 2:  # the end of a task
            scores = row + logged.future.get(len(row), [])
        evaluations += [
            Evaluation(step, tasks[len(row) - 1], tasks[j], score / 100)
            for j, score in enumerate(scores)
        ]
    notes.append(EPOCHS if len(set(lengths)) < len(lengths) else STEPS_ARE_TASKS)
    notes += [NO_SIZES, NO_BASELINE]
    config: dict[str, object] = {
        {"model": "strategy", "dataset": "scenario"}.get(key, key): parse_scalar(value)
        for key, value in logged.arguments.items()
        if not NOT_CONFIG.match(key) and value != "None"
    }
    config |= {"setting": logged.setting} if logged.setting else {}
    version = parse_scalar(logged.arguments.get("conf_git_hash", "None"))
    return ImportedRun(
        tool="Mammoth", metrics="mammoth", evaluations=evaluations, files=[path], notes=notes,
        version=str(version)[:12] if version else None, config=config,
        label=f"{path.parent.name}-{logged.setting or 'run'}-{number}",
    )  # fmt: skip


def _trim(rows: list[list[float]]) -> tuple[list[list[float]], list[str]]:
    """Return the rows without what was not measured or is on other data, with notes."""
    notes = []
    square = len(rows) > 1 and all(len(row) == len(rows) for row in rows)
    if square and not any(any(row[k + 1 :]) for k, row in enumerate(rows)):
        rows = [row[: k + 1] for k, row in enumerate(rows)]
        notes.append("zeros above the diagonal were filled in by Mammoth and are left out")
    counts = [sum(len(row) == tasks for row in rows) for tasks in sorted({len(r) for r in rows})]
    if len(counts) > 1 and counts[-1] == counts[-2] + 1:
        rows = rows[:-1]
        notes.append(LAST_LEFT_OUT)
    return rows, notes
