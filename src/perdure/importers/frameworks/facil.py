"""FACIL: the raw log of an experiment, or its matrices acc_taw and acc_tag."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ...record import InputError, read_json
from ...record.io.files import parse_json
from ..files import find_files, find_in_folder, read_head, read_log_text
from ..imported import NO_SIZES, STEPS_ARE_TASKS, Evaluation, ImportedRun

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ..options import ImportOptions

__all__ = ["read", "recognize"]

RAW_LOG = re.compile(r"raw_log-(.+)\.txt")
MATRIX = re.compile(r"(acc_taw|acc_tag)-(.+)\.txt")
SETTINGS = {"acc_taw": "task", "acc_tag": "class"}  # task-aware, task-agnostic
MAX_TASK = 10_000
NOT_CONFIG = ("gpu", "results_path", "exp_name", "log", "num_workers", "pin_memory", "save_models")
ABOVE = "entries above the diagonal are zeros that FACIL does not measure; they are left out"
ROUNDED = "the matrix rounds scores to 0.000001"

Scores = dict[tuple[int, int], float]  # by trained and tested task


def recognize(path: Path) -> str | None:
    """Return why a file or folder looks like FACIL's, None if it does not."""
    if path.is_dir():
        return find_in_folder(path, "raw_log-*.txt", recognize)
    first = read_head(path).partition("\n")[0]
    if RAW_LOG.fullmatch(path.name) and '"group":' in first and '"task":' in first:
        return "it is a raw log of FACIL"
    return "it is an accuracy matrix of FACIL" if MATRIX.fullmatch(path.name) else None


def read(paths: Sequence[Path], options: ImportOptions) -> list[ImportedRun]:
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
                runs.append(_make_run(path, name, scores, notes))
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
        key = _tasks(entry.get("task"), entry.get("iter"), f"{path} line {number}")
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


def _tasks(trained: object, tested: object, where: str) -> tuple[int, int]:
    """Return the numbers of the trained and of the tested task, or raise if they are none."""
    for task in (trained, tested):
        if not isinstance(task, int) or not 0 <= task < MAX_TASK:
            raise InputError(f"{where}: a task is {task!r:.40}, expected its number")
    assert isinstance(trained, int)
    assert isinstance(tested, int)
    return trained, tested


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


def _make_run(path: Path, name: str, scores: Scores, notes: list[str]) -> ImportedRun:
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
    return {names.get(str(k), str(k)): v for k, v in arguments.items() if k not in NOT_CONFIG}
