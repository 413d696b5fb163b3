"""The files of lm-evaluation-harness for one checkpoint: results_*.json and samples_*.jsonl."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from ...record import InputError
from ...record.io.files import read_json
from ...record.io.text import visible
from ..files import find_files

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["RESULTS", "CheckpointResults", "HarnessScores", "read_checkpoint"]

RESULTS, SAMPLES = "results_*.json", "samples_{task}_{date}.jsonl"
MAX_RESULTS = 64 << 20  # bytes; configs of thousands of tasks are in it


class HarnessScores(NamedTuple):
    """What a results file says about one task under one filter."""

    task: str
    filter: str
    metrics: dict[str, float]
    higher_is_better: dict[str, bool]
    n: int | None
    samples: Path | None  # the file with a line per document


@dataclass
class CheckpointResults:
    """The results of one checkpoint: its scores by the name of a task, or TASK/FILTER.

    Attributes:
        name: of the checkpoint.
        scores: one entry per task, and per filter if a task has several.
        stated: what has to be the same for all checkpoints, by what it is and by task.
        version: of the harness.
        files: the results files.
        limited: tasks that were evaluated on a part of their documents (`--limit`).
    """

    name: str
    scores: dict[str, HarnessScores] = field(default_factory=dict)
    stated: dict[str, dict[str, object]] = field(default_factory=dict)
    version: str | None = None
    files: list[Path] = field(default_factory=list)
    limited: list[str] = field(default_factory=list)


def read_checkpoint(name: str, folder: Path) -> CheckpointResults:
    """Return the results in the folder of a checkpoint, or raise InputError.

    Several files are several evaluations, of different tasks.
    """
    checkpoint = CheckpointResults(name)
    for file in find_files([folder], RESULTS):
        contents = read_json(file, MAX_RESULTS)
        if not isinstance(contents, dict) or not isinstance(contents.get("results"), dict):
            raise InputError(f"{file}: no scores under results, expected a file of lm-eval")
        _add_results(checkpoint, contents, file)
    return checkpoint


def _add_results(checkpoint: CheckpointResults, contents: dict[str, Any], file: Path) -> None:
    date = file.stem.removeprefix("results_")
    for task, scores in contents["results"].items():
        by_filter = _split_metrics(scores, f"{file}: {task}")
        sizes = _entry(contents, "n-samples", task)
        effective = sizes.get("effective") if isinstance(sizes, dict) else None
        n = effective if isinstance(effective, int) and effective > 0 else None
        if isinstance(sizes, dict) and n is not None and n != sizes.get("original"):
            checkpoint.limited.append(visible(task))
        better = _entry(contents, "higher_is_better", task)
        samples = file.with_name(SAMPLES.format(task=task, date=date)) if "/" not in task else None
        for filter_, metrics in by_filter.items():
            name = visible(task if len(by_filter) == 1 else f"{task}/{filter_}")
            if name in checkpoint.scores:
                raise InputError(
                    f"{file}: task {name!r:.80} has a score already, expected one evaluation per "
                    "checkpoint; move other results of it away"
                )
            checkpoint.scores[name] = HarnessScores(
                visible(task), filter_, metrics,
                better if isinstance(better, dict) else {}, n,
                samples if samples is not None and samples.is_file() else None,
            )  # fmt: skip
    for key in ("task_hashes", "versions", "n-shot"):
        stated = contents.get(key)
        if isinstance(stated, dict):
            checkpoint.stated.setdefault(key, {}).update(stated)
    version = contents.get("lm_eval_version")
    checkpoint.version = version if isinstance(version, str) else checkpoint.version
    checkpoint.files.append(file)


def _entry(contents: dict[str, Any], key: str, task: str) -> object:
    """Return what a file states about one task, None if nothing."""
    entries = contents.get(key)
    return entries.get(task) if isinstance(entries, dict) else None


def _split_metrics(scores: object, source: str) -> dict[str, dict[str, float]]:
    """Return the metrics of a task by filter: the keys are `metric,filter`.

    Example:
        >>> _split_metrics({"alias": "a", "acc,none": 0.5, "acc_stderr,none": 0.1}, "a")
        {'none': {'acc': 0.5}}
    """
    by_filter: dict[str, dict[str, float]] = {}
    if not isinstance(scores, dict):
        raise InputError(f"{source}: expected an object with scores")
    for key, value in scores.items():
        metric, comma, filter_ = key.partition(",")
        if not comma or metric.endswith("_stderr"):
            continue
        metrics = by_filter.setdefault(filter_, {})
        # Groups that the harness does not aggregate have text here, undefined scores NaN.
        if isinstance(value, int | float) and math.isfinite(value) and not isinstance(value, bool):
            metrics[metric] = float(value)
    return by_filter
