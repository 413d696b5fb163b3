"""samples_*.jsonl of lm-evaluation-harness: the result of every document, at every checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ...record import InputError
from ...record.io.files import open_regular, parse_json
from ..imported import Evaluation

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from .lm_eval_files import CheckpointResults, HarnessScores

__all__ = ["read_evaluations"]

MAX_SAMPLES = 8 << 30  # bytes
MAX_SAMPLE = 16 << 20  # bytes of one line
TOLERANCE = 1e-6


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
        return [_without_examples(evaluation) for evaluation in evaluations]
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


def _without_examples(evaluation: Evaluation) -> Evaluation:
    if evaluation.correct is None:
        return evaluation
    right, n = sum(evaluation.correct), len(evaluation.correct)
    return evaluation._replace(score=right / n, n=n, correct=None, ids=None)
