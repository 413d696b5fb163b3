"""Text files of class-incremental frameworks: logs and matrices of FACIL, logs of PyCIL, PILOT."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...record import InputError, read_json
from ...record.io.files import parse_json
from ..files import find_files, find_in_folder, read_head, read_log_text
from ..imported import NO_SIZES, STEPS_ARE_TASKS, Evaluation, ImportedRun
from ..values import parse_scalar

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from ..imported import ImportOptions

__all__ = ["read_facil", "read_pycil", "recognize_facil", "recognize_pycil"]

RAW_LOG = re.compile(r"raw_log-(.+)\.txt")
MATRIX = re.compile(r"(acc_taw|acc_tag)-(.+)\.txt")
SETTINGS = {"acc_taw": "task", "acc_tag": "class"}  # task-aware, task-agnostic
MAX_TASK = 10_000
FACIL_NOT_CONFIG = (
    "gpu",
    "results_path",
    "exp_name",
    "log",
    "num_workers",
    "pin_memory",
    "save_models",
)
ABOVE = "entries above the diagonal are zeros that FACIL does not measure; they are left out"
ROUNDED = "the matrix rounds scores to 0.000001"

Scores = dict[tuple[int, int], float]  # by trained and tested task

LINE = re.compile(r"^\S+ \S+ \[(\w+\.py)\] => (.*)$")
ENTRY = re.compile(r"'([^']+)': (?:np\.float\d+\()?(\d+(?:\.\d*)?)\)?")
LEARNING = re.compile(r"Learning on (\d{1,9})-(\d{1,9})(?!\d)")
GROUP = re.compile(r"(\d{1,9})-(\d{1,9})")
CLASSIFIERS = ("CNN", "NME")
PYCIL_NOT_CONFIG = ("config", "device", "prefix", "nb_tasks", "nb_classes")
PYCIL_NOTES = (STEPS_ARE_TASKS, NO_SIZES, "the log rounds scores to 0.01 percentage points")
MEAN_OF_GROUPS = (
    "the log has accuracies per ten classes: those of a task are averaged as if all had equally "
    "many test examples"
)
MIXED_GROUPS = (
    "the log has accuracies per ten classes, which are not whole tasks: only the newest task, and "
    "the first after the second, could be read"
)


def recognize_facil(path: Path) -> str | None:
    """Return why a file or folder looks like FACIL's, None if it does not."""
    if path.is_dir():
        return find_in_folder(path, "raw_log-*.txt", recognize_facil)
    first = read_head(path).partition("\n")[0]
    if RAW_LOG.fullmatch(path.name) and '"group":' in first and '"task":' in first:
        return "it is a raw log of FACIL"
    return "it is an accuracy matrix of FACIL" if MATRIX.fullmatch(path.name) else None


def read_facil(paths: Sequence[Path], options: ImportOptions) -> list[ImportedRun]:
    """Return two runs per raw log, task-aware (taw) and task-agnostic (tag); `metric` chooses."""
    runs = []
    for path in find_files(paths, "raw_log-*.txt"):
        matrix = MATRIX.fullmatch(path.name)
        if matrix:
            tables, notes = {matrix[1]: _read_matrix(path)}, [ABOVE, ROUNDED]
        else:
            tables, notes = _read_raw_log(path), []
        for name, scores in tables.items():
            if options.metric in (None, name.removeprefix("acc_")):
                runs.append(_make_facil_run(path, name, scores, notes))
    return runs


def _read_raw_log(path: Path) -> dict[str, Scores]:
    """Return the test accuracies of a raw log, which names each that was measured."""
    tables: dict[str, Scores] = {}
    lines = read_log_text(path).split("\n")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        if number == len(lines):  # every line ends with a line break
            raise InputError(f"{path} line {number}: cut off, expected a whole line")
        entry = parse_json(line, f"{path} line {number}")
        if not isinstance(entry, dict) or entry.get("group") != "test":
            continue
        name = entry.get("name")
        if not isinstance(name, str) or name not in SETTINGS:
            continue
        key = _task(entry.get("task"), path, number), _task(entry.get("iter"), path, number)
        scores = tables.setdefault(name, {})
        if key in scores:
            raise InputError(
                f"{path} line {number}: task {key[1]} was evaluated twice after task {key[0]}; two "
                "runs started in the same minute write to one file"
            )
        scores[key] = _percent(entry.get("value"), path, number)
    if not tables:
        raise InputError(f"{path}: no test accuracy, expected acc_taw and acc_tag of group test")
    return tables


def _task(value: object, path: Path, number: int) -> int:
    if not isinstance(value, int) or not 0 <= value < MAX_TASK:
        raise InputError(f"{path} line {number}: a task is {value!r:.40}, expected its number")
    return value


def _percent(value: object, path: Path, number: int) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 100:
        raise InputError(f"{path} line {number}: value is {value!r:.40}, expected 0 to 100")
    return value / 100


def _read_matrix(path: Path) -> Scores:
    """Return the lower triangle of a matrix; rows of zeros at its end were not trained yet."""
    rows = [line.split() for line in read_log_text(path).split("\n") if line.strip()]
    if not rows or any(len(row) != len(rows) for row in rows) or len(rows) > MAX_TASK:
        raise InputError(f"{path}: {len(rows)} rows, expected a square matrix")
    try:
        values = [[float(cell) for cell in row] for row in rows]
    except ValueError:
        raise InputError(f"{path}: a cell is not a number, expected accuracies") from None
    while values and not any(values[-1]):
        values.pop()
    return {(t, u): values[t][u] for t in range(len(values)) for u in range(t + 1)}


def _make_facil_run(path: Path, name: str, scores: Scores, notes: list[str]) -> ImportedRun:
    evaluations = [
        Evaluation(trained + 1, f"task {trained}", f"task {tested}", score)
        for (trained, tested), score in sorted(scores.items())
    ]
    return ImportedRun(
        tool="FACIL", metrics="facil", evaluations=evaluations, files=[path],
        config={**_read_arguments(path), "setting": SETTINGS[name]},
        label=f"{path.parent.name}-{path.stem.partition('-')[2]}-{name.removeprefix('acc_')}",
        notes=[*notes, STEPS_ARE_TASKS, NO_SIZES],
    )  # fmt: skip


def _read_arguments(path: Path) -> dict[str, object]:
    """Return the arguments of the run that began at the same time, if their file is there."""
    time = path.stem.partition("-")[2]
    folder = path.parent.parent if path.parent.name == "results" else path.parent
    try:
        arguments = read_json(folder / f"args-{time}.txt")
    except (FileNotFoundError, NotADirectoryError):
        return {}
    if not isinstance(arguments, dict):
        raise InputError(f"{folder / f'args-{time}.txt'}: not an object, expected arguments")
    names = {"approach": "strategy", "datasets": "scenario"}
    return {names.get(str(k), str(k)): v for k, v in arguments.items() if k not in FACIL_NOT_CONFIG}


@dataclass
class PycilRun:
    """One run in a log: its arguments, the classes of each task, and the lines per classifier."""

    arguments: dict[str, str] = field(default_factory=dict)
    tasks: list[tuple[int, int]] = field(default_factory=list)  # first class, last class + 1
    groups: dict[str, list[dict[str, float]]] = field(default_factory=dict)


def recognize_pycil(path: Path) -> str | None:
    """Return why a file looks like a log of PyCIL or PILOT, None if it does not."""
    if path.is_dir():
        return find_in_folder(path, "*.log", recognize_pycil)
    head = read_head(path)
    if "[trainer.py] => " in head and ("Learning on" in head or "All params:" in head):
        return "its lines are written by trainer.py of PyCIL or PILOT"
    return None


def read_pycil(paths: Sequence[Path], options: ImportOptions) -> list[ImportedRun]:
    """Return a run per run in each log and per classifier; `metric` chooses `cnn` or `nme`."""
    runs = []
    for path in find_files(paths, "*.log"):
        logged = [run for run in _split_runs(read_log_text(path), path) if run.groups]
        for run in logged:
            for name in CLASSIFIERS:
                wanted = options.metric is None or options.metric.upper() == name
                if wanted and name in run.groups:
                    runs.append(_make_pycil_run(run, name, path))
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


def _make_pycil_run(logged: PycilRun, classifier: str, path: Path) -> ImportedRun:
    names = [f"{first:02d}-{end - 1:02d}" for first, end in logged.tasks]
    evaluations: list[Evaluation] = []
    notes = dict.fromkeys(PYCIL_NOTES)
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
        if key not in PYCIL_NOT_CONFIG
    }
    return {**config, "classifier": classifier.lower(), "setting": "class"}
