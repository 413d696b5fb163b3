"""lm-evaluation-harness: the checkpoints of a model that was fine-tuned on one task after another.

Every checkpoint has a folder with the files that `lm_eval --output_path … --log_samples` wrote.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from ..metrics import ACCURACY, ScoreScale
from ..record import InputError
from ..record.io.text import first_few
from .files import find_files, read_head
from .imported import STEPS_ARE_TASKS, ImportedRun
from .lm_eval_files import RESULTS, read_checkpoint, read_evaluations

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from .imported import ImportOptions
    from .lm_eval_files import CheckpointResults

__all__ = ["read", "recognize"]

MAX_NAMED = 5
MAX_DEPTH = 4  # folders below the one that is named
STATED = {
    "task_hashes": "prompts or documents (task_hashes)",
    "versions": "version",
    "n-shot": "number of examples in the prompt (n-shot)",
}


class TaskRow(NamedTuple):
    """A task of the record: one of the harness under one filter, scored by one metric."""

    name: str
    task: str
    metric: str
    scale: ScoreScale

    @property
    def kind_of_score(self) -> tuple[ScoreScale, str]:
        """What is the same for all tasks of a run; accuracies may have different names."""
        return self.scale, "" if self.scale.is_accuracy else self.metric


def recognize(path: Path) -> str | None:
    """Return why a path looks like results of the harness, None if it does not."""
    if path.is_file():
        files = [path]
    else:
        found = (sorted(path.glob("*/" * depth + RESULTS)) for depth in range(MAX_DEPTH))
        files = next((matches for matches in found if matches), [])
    for file in files[:1]:
        if file.match(RESULTS) and '"results"' in read_head(file)[:100]:
            return f"{file.name} has scores of lm-evaluation-harness"
    return None


def read(paths: Sequence[Path], options: ImportOptions) -> list[ImportedRun]:
    """Return the run whose checkpoints are in these folders, in the order that `order` says."""
    folders = _order_checkpoints(_find_checkpoints(paths, options.order), options.order)
    checkpoints = [read_checkpoint(name, folder) for name, folder in folders.items()]
    learned = _find_learned(checkpoints)
    rows, notes = _choose_rows(checkpoints, learned, options)
    notes = [STEPS_ARE_TASKS, *_compare(checkpoints), *notes]
    trained = [_name_trained(task, rows, notes) for task in learned]
    if len(learned) < len(checkpoints):
        trained.insert(0, None)
    evaluations = [
        evaluation
        for row in rows
        for evaluation in read_evaluations(row.name, row.metric, checkpoints, trained, notes)
    ]
    metrics = {row.name: row.metric for row in rows}
    shared = set(metrics.values())
    return [
        ImportedRun(
            tool="lm-evaluation-harness",
            evaluations=sorted(evaluations, key=lambda evaluation: evaluation.step),
            files=[file for checkpoint in checkpoints for file in checkpoint.files],
            version=checkpoints[-1].version,
            config={"metric": shared.pop() if len(shared) == 1 else metrics},
            scale=rows[0].scale,
            control=tuple(row.name for row in rows if row.task in options.control),
            notes=[*notes, *_note_others(rows, learned, options.control)],
        )
    ]


def _find_checkpoints(paths: Sequence[Path], order: Sequence[str]) -> dict[str, Path]:
    """Return the folder of each checkpoint by its name: the paths, or the folders in one path."""
    if len(paths) == 1 and paths[0].is_dir():
        (path,) = paths
        files = find_files([path], RESULTS)
        inside = {file.relative_to(path).parts[0] for file in files if file.parent != path}
        if len(inside) > 1 or inside.intersection(order):
            return {name: path / name for name in sorted(inside)}
    folders: dict[str, Path] = {}
    for path in paths:
        if not path.is_dir():
            raise InputError(f"{path}: not a folder, expected one per checkpoint")
        other = folders.setdefault(path.absolute().name, path)
        if other is not path:
            raise InputError(f"{other} and {path} have the same name; rename one, for `order=`")
    return folders


def _order_checkpoints(folders: dict[str, Path], order: Sequence[str]) -> dict[str, Path]:
    """Return the folders by the name of the task learned last, in the order of learning."""
    known = ", ".join(folders)
    if not order:
        raise InputError(
            f"checkpoints are in folders {known}, and nothing says in which order they were "
            "trained; pass `order=`, the checkpoint before training first, as in base,sql,math"
        )
    ordered: dict[str, Path] = {}
    for entry in order:
        task, _, folder = entry.rpartition("=")
        if folder not in folders:
            raise InputError(f"order has {folder!r:.60}, which is not a folder; expected {known}")
        ordered[task or folder] = folders[folder]
    unused = [name for name, folder in folders.items() if folder not in ordered.values()]
    if unused or len(set(ordered.values())) < len(order):
        what = f"lacks {', '.join(unused)}" if unused else "names a task or a folder twice"
        raise InputError(f"order {what}; expected each of {known} once")
    return ordered


def _find_learned(checkpoints: Sequence[CheckpointResults]) -> list[str]:
    """Return the tasks that checkpoints are named after; the first may be before training."""
    evaluated = dict.fromkeys(s.task for c in checkpoints for s in c.scores.values())
    names = [checkpoint.name for checkpoint in checkpoints]
    learned = names if names[0] in evaluated else names[1:]
    for name in learned:
        if name not in evaluated:
            raise InputError(
                f"order has {name!r:.60}, which is not an evaluated task "
                f"({_list(evaluated)}); say what it had learned, as in TASK={name:.60}"
            )
    if not learned:
        raise InputError("order has only the checkpoint before training, expected others as well")
    return learned


def _choose_rows(
    checkpoints: Sequence[CheckpointResults], learned: Sequence[str], options: ImportOptions
) -> tuple[list[TaskRow], list[str]]:
    """Return the tasks of the record, and notes on those that cannot be in it."""
    wanted = options.metric.split(",") if options.metric else []
    rows, available = [], dict[str, None]()
    for name in dict.fromkeys(name for c in checkpoints for name in c.scores):
        scores = [c.scores[name] for c in checkpoints if name in c.scores]
        known = dict.fromkeys(metric for score in scores for metric in score.metrics)
        available |= known
        metric = next((metric for metric in wanted or known if metric in known), None)
        if metric is not None:
            values = [s.metrics[metric] for s in scores if metric in s.metrics]
            higher = all(s.higher_is_better.get(metric) is not False for s in scores)
            rows.append(TaskRow(name, scores[0].task, metric, _make_scale(metric, values, higher)))
    if not rows:
        raise InputError(f"metric is {options.metric!r:.60}, expected one of {_list(available)}")
    main = next((row for row in rows if row.task in learned), rows[0])
    others = [row for row in rows if row.kind_of_score != main.kind_of_score]
    notes = []
    if others:
        named = _list(f"{row.name} ({row.metric})" for row in others)
        notes.append(
            f"left out, since other scores are {main.scale.label}: {named}; their own "
            "metric makes another run of them"
        )
    for row in others:
        if row.task in options.control:
            raise InputError(
                f"control has {row.name!r:.60}, which is scored by {row.metric}, and the learned "
                f"tasks by {main.metric}; one run has one kind of score, choose it with `metric=`"
            )
    return [row for row in rows if row.kind_of_score == main.kind_of_score], notes


def _make_scale(metric: str, values: Sequence[float], higher: bool) -> ScoreScale:
    """Return range and direction of a metric: the harness states the direction only."""
    if higher and all(0 <= value <= 1 for value in values):
        return ACCURACY
    low = 0.0 if min(values) >= 0 else -math.inf
    return ScoreScale(low, math.inf, lower_is_better=not higher, name=metric)


def _name_trained(task: str, rows: Sequence[TaskRow], notes: list[str]) -> str | None:
    """Return the name of a learned task in the record: that of its first filter."""
    names = [row.name for row in rows if row.task == task]
    if len(names) > 1:
        notes.append(
            f"{task} has a score per filter: {names[0]} counts as the learned task, and "
            f"{_list(names[1:])} is evaluated only"
        )
    return names[0] if names else task


def _compare(checkpoints: Sequence[CheckpointResults]) -> list[str]:
    """Return notes on what should be the same for all checkpoints and is not."""
    notes = []
    for key, what in STATED.items():
        tables = [checkpoint.stated.get(key, {}) for checkpoint in checkpoints]
        tasks = dict.fromkeys(task for table in tables for task in table)
        changed = [t for t in tasks if len({repr(table[t]) for table in tables if t in table}) > 1]
        if changed:
            notes.append(f"the {what} of {_list(changed)} changed between checkpoints")
    versions = sorted({checkpoint.version or "an unknown one" for checkpoint in checkpoints})
    if len(versions) > 1:
        notes.append(f"checkpoints were evaluated by different versions: {', '.join(versions)}")
    if limited := dict.fromkeys(task for c in checkpoints for task in c.limited):
        notes.append(f"evaluated on a part of their documents (--limit): {_list(limited)}")
    return notes


def _note_others(
    rows: Sequence[TaskRow], learned: Sequence[str], control: Sequence[str]
) -> list[str]:
    others = [row.name for row in rows if row.task not in learned and row.task not in control]
    if not others:
        return []
    advice = "those that should be retained can be named as control tasks"
    return [f"evaluated but never learned: {_list(others)}; {advice}"]


def _list(names: Iterable[str]) -> str:
    return first_few(list(names), MAX_NAMED)
