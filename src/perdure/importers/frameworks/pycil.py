"""Logs of PyCIL and PILOT: the `CNN:` and `NME:` lines with accuracies per group of classes."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...record import InputError
from ..files import find_files, find_in_folder, read_head, read_log_text
from ..imported import NO_SIZES, STEPS_ARE_TASKS, Evaluation, ImportedRun
from .values import parse_scalar

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from ..options import ImportOptions

__all__ = ["read", "recognize"]

LINE = re.compile(r"^\S+ \S+ \[(\w+\.py)\] => (.*)$")
ENTRY = re.compile(r"'([^']+)': (?:np\.float\d+\()?(\d+(?:\.\d*)?)\)?")
LEARNING = re.compile(r"Learning on (\d{1,9})-(\d{1,9})(?!\d)")
GROUP = re.compile(r"(\d{1,9})-(\d{1,9})")
CLASSIFIERS = ("CNN", "NME")
NOT_CONFIG = ("config", "device", "prefix", "nb_tasks", "nb_classes")
NOTES = (STEPS_ARE_TASKS, NO_SIZES, "the log rounds scores to 0.01 percentage points")
MEAN_OF_GROUPS = (
    "the log has accuracies per ten classes: those of a task are averaged as if all had equally "
    "many test examples"
)
MIXED_GROUPS = (
    "the log has accuracies per ten classes, which are not whole tasks: only the newest task, and "
    "the first after the second, could be read"
)


@dataclass
class PycilRun:
    """One run in a log: its arguments, the classes of each task, and the lines per classifier."""

    arguments: dict[str, str] = field(default_factory=dict)
    tasks: list[tuple[int, int]] = field(default_factory=list)  # first class, last class + 1
    groups: dict[str, list[dict[str, float]]] = field(default_factory=dict)


def recognize(path: Path) -> str | None:
    """Return why a file looks like a log of PyCIL or PILOT, None if it does not."""
    if path.is_dir():
        return find_in_folder(path, "*.log", recognize)
    head = read_head(path)
    if "[trainer.py] => " in head and ("Learning on" in head or "All params:" in head):
        return "its lines are written by trainer.py of PyCIL or PILOT"
    return None


def read(paths: Sequence[Path], options: ImportOptions) -> list[ImportedRun]:
    """Return a run per run in each log and per classifier; `metric` chooses `cnn` or `nme`."""
    runs = []
    for path in find_files(paths, "*.log"):
        logged = [run for run in _split_runs(read_log_text(path), path) if run.groups]
        for run in logged:
            for name in CLASSIFIERS:
                wanted = options.metric is None or options.metric.upper() == name
                if wanted and name in run.groups:
                    runs.append(_make_run(run, name, path))
    return runs


def _split_runs(text: str, path: Path) -> Iterator[PycilRun]:
    """Yield the runs of a log: a second run, or seed, is appended to the file of the first."""
    run = PycilRun()
    first = ""  # argument, which begins every run
    in_arguments = True
    for line in text.split("\n"):
        match = LINE.match(line)
        if match is None:
            continue
        file, message = match.groups()
        key, colon, value = message.partition(": ")
        if learning := LEARNING.match(message):
            run.tasks.append((int(learning[1]), int(learning[2])))
            _check_tasks(run.tasks, path)
        elif file != "trainer.py" or not colon:
            continue
        elif key in CLASSIFIERS:
            entries = {name: float(score) for name, score in ENTRY.findall(value)}
            run.groups.setdefault(key, []).append(entries)
        elif key == "All params":
            in_arguments = False
        elif in_arguments or key == first:
            if not in_arguments:
                yield run
                run, in_arguments = PycilRun(), True
            first = first or key
            run.arguments[key] = value
    yield run


def _check_tasks(tasks: list[tuple[int, int]], path: Path) -> None:
    first, end = tasks[-1]
    expected = tasks[-2][1] if len(tasks) > 1 else 0
    if first != expected or end <= first:
        raise InputError(f"{path}: learning on {first}-{end}, expected classes from {expected} on")


def _make_run(logged: PycilRun, classifier: str, path: Path) -> ImportedRun:
    names = [f"{first:02d}-{end - 1:02d}" for first, end in logged.tasks]
    evaluations: list[Evaluation] = []
    notes = dict.fromkeys(NOTES)
    for k, groups in enumerate(logged.groups[classifier][: len(names)]):
        ranges = _ranges(groups)
        for j, task in enumerate(logged.tasks[: k + 1]):
            if j == k or (j, k) == (0, 1):
                score, note = groups.get("new" if j == k else "old"), ""
            else:
                score, note = _mean_of_groups(ranges, *task)
            notes |= {note: None} if note else {}
            if score is not None:
                evaluations.append(Evaluation(k + 1, names[k], names[j], score / 100))
    pilot = "backbone_type" in logged.arguments
    seed = logged.arguments.get("seed", "")
    return ImportedRun(
        tool="PILOT" if pilot else "PyCIL", metrics="pilot" if pilot else "pycil",
        evaluations=evaluations, files=[path], notes=list(notes),
        label=f"{path.stem}-s{seed}-{classifier.lower()}",
        classes=[end - first for first, end in logged.tasks],
        config=_make_config(logged.arguments, classifier),
    )  # fmt: skip


def _mean_of_groups(
    ranges: dict[int, tuple[int, float]], first: int, end: int
) -> tuple[float | None, str]:
    """Return the accuracy of a task from those of the groups it consists of, and a note."""
    total, count, start = 0.0, 0, first
    while start < end:
        stop, score = ranges.get(start, (start, 0.0))
        if not start < stop <= end:
            return None, MIXED_GROUPS
        total, count, start = total + (stop - start) * score, count + 1, stop
    return total / (end - first), MEAN_OF_GROUPS if count > 1 else ""


def _ranges(groups: dict[str, float]) -> dict[int, tuple[int, float]]:
    """Return last class + 1 and accuracy of each group, by its first class."""
    matches = [(GROUP.fullmatch(name), score) for name, score in groups.items()]
    return {int(match[1]): (int(match[2]) + 1, score) for match, score in matches if match}


def _make_config(arguments: dict[str, str], classifier: str) -> dict[str, object]:
    names = {"model_name": "strategy", "dataset": "scenario"}
    config = {
        names.get(key, key): parse_scalar(value)
        for key, value in arguments.items()
        if key not in NOT_CONFIG
    }
    return {**config, "classifier": classifier.lower(), "setting": "class"}
