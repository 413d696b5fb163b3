"""Files of lm-evaluation-harness: results_*.json of a checkpoint, samples_*.jsonl of documents."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from ..record import InputError
from ..record.io.files import open_regular, parse_json, read_json
from ..record.io.text import visible
from .files import find_files
from .imported import Evaluation, drop_examples

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

__all__ = ["RESULTS", "CheckpointResults", "read_checkpoint", "read_evaluations"]

RESULTS, SAMPLES = "results_*.json", "samples_{task}_{date}.jsonl"
MAX_RESULTS = 64 << 20  # bytes; configs of thousands of tasks are in it
MAX_SAMPLES = 8 << 30  # bytes
MAX_SAMPLE = 16 << 20  # bytes of one line
TOLERANCE = 1e-6


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


class Samples(NamedTuple):
    """The documents of a task and whether each was right."""

    ids: list[int]
    hashes: list[str | None]
    correct: list[bool]


def read_evaluations(
    name: str,
    metric: str,
    checkpoints: Sequence[CheckpointResults],
    trained: Sequence[str | None],
    notes: list[str],
) -> list[Evaluation]:
    """Return the evaluations of one task, with the result of each document if it is 0 or 1.

    `trained` has the task that each checkpoint learned last; None is before training, step 0.
    """
    evaluations: list[Evaluation] = []
    documents: dict[str, Samples] = {}
    first_step = 0 if trained[0] is None else 1
    for step, (checkpoint, task) in enumerate(zip(checkpoints, trained, strict=True), first_step):
        scores = checkpoint.scores.get(name)
        if scores is None or metric not in scores.metrics:
            notes.append(f"checkpoint {checkpoint.name} has no {metric} of {name}")
            continue
        evaluation = Evaluation(
            step, task, name, scores.metrics[metric], scores.n, "full" if step else "initial"
        )
        samples = _read_samples(scores, metric)
        if samples is not None:
            documents[checkpoint.name] = samples
            evaluation = evaluation._replace(
                score=None, n=None, correct=samples.correct, ids=samples.ids
            )
        evaluations.append(evaluation)
    if difference := _compare_documents(documents):
        notes.append(f"{name}: {difference}, so its scores are not of the same documents")
        return [drop_examples(evaluation) for evaluation in evaluations]
    if not documents:
        logged = any(name in c.scores and c.scores[name].samples for c in checkpoints)
        reason = f"{metric} is not 0 or 1" if logged else "samples were not logged (--log_samples)"
        notes.append(f"{name}: no results per document, since {reason}")
    return evaluations


def _read_samples(scores: HarnessScores, metric: str) -> Samples | None:
    """Return the documents of a task; None if they were not logged or not just right or wrong.

    Raises InputError if they are not those of the results file.
    """
    if scores.samples is None:
        return None
    documents: dict[int, tuple[str | None, object]] = {}
    for where, sample in _read_lines(scores.samples):
        if sample.get("filter", scores.filter) != scores.filter or metric not in sample:
            continue
        number, digest = sample.get("doc_id"), sample.get("doc_hash")
        if isinstance(number, bool) or not isinstance(number, int) or abs(number) >= 1 << 62:
            raise InputError(f"{where}: doc_id is {number!r:.40}, expected a whole number")
        if number in documents:
            raise InputError(f"{where}: document {number} is there twice, expected it once")
        documents[number] = (digest if isinstance(digest, str) else None, sample[metric])
    if not documents or (scores.n is not None and len(documents) != scores.n):
        raise InputError(
            f"{scores.samples}: {len(documents)} documents with {metric}, but the results are of "
            f"{scores.n or 'some'}; is the file cut off?"
        )
    ids = sorted(documents)
    values = [documents[k][1] for k in ids]
    if not all(isinstance(value, int | float) and value in (0, 1) for value in values):
        return None
    correct = [value == 1 for value in values]
    _check_score(correct, scores, metric)
    return Samples(ids, [documents[k][0] for k in ids], correct)


def _check_score(correct: Sequence[bool], scores: HarnessScores, metric: str) -> None:
    if abs(sum(correct) / len(correct) - scores.metrics[metric]) > TOLERANCE:
        raise InputError(
            f"{scores.samples}: {sum(correct)} of {len(correct)} documents have {metric} 1, but "
            f"the results say {scores.metrics[metric]:.4f}; is it of another evaluation?"
        )


def _read_lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the objects of a JSON Lines file, each with its place for errors."""
    with open_regular(path, MAX_SAMPLES) as file:
        number = 0
        while line := file.readline(MAX_SAMPLE + 1):
            number += 1
            where = f"{path} line {number}"
            if len(line) > MAX_SAMPLE:
                raise InputError(f"{where}: too long, expected at most {MAX_SAMPLE >> 20} MiB")
            try:
                text = line.decode()
            except UnicodeDecodeError:
                raise InputError(f"{where}: not UTF-8 text, expected JSON") from None
            sample = parse_json(text, where) if text.strip() else {}
            if not isinstance(sample, dict):
                raise InputError(f"{where}: expected an object with doc_id and metrics")
            yield where, sample


def _compare_documents(documents: dict[str, Samples]) -> str | None:
    """Return how the documents of two checkpoints differ, None if they are the same."""
    first, expected = next(iter(documents.items()), ("", Samples([], [], [])))
    for name, samples in documents.items():
        if samples.ids != expected.ids:
            return f"{first} has {len(expected.ids)} documents and {name} {len(samples.ids)} others"
        for number, *pair in zip(expected.ids, expected.hashes, samples.hashes, strict=True):
            if pair[0] != pair[1]:
                return f"document {number} differs between {first} and {name} (doc_hash)"
    return None
