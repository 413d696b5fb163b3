"""Avalanche: eval_results.csv of its CSVLogger, and the text of InteractiveLogger or TextLogger."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ...record import InputError
from ..files import find_files, find_in_folder, read_head, read_log_text, read_rows
from ..imported import NO_SIZES, STEPS_ARE_TASKS, Evaluation, ImportedRun
from .avalanche_tags import (
    ACCURACY_METRIC,
    choose_stream,
    name_experience,
    parse_tag,
    trained_in_order,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from ..options import ImportOptions

__all__ = ["read", "recognize"]

HEADER = ("eval_exp", "training_exp", "eval_accuracy")
NOT_MONITORED = "0"  # a measured zero is written 0.0000
TRAINING = re.compile(r"-- Starting training on experience (\d+)(?: \(Task \d+\))? from")
TRAINING_PHASE = "-- >> Start of training phase << --"
EVALUATION = "-- >> Start of eval phase << --"
PHASE = re.compile(r"-- >> (Start|End) of training phase << --")
METRIC = re.compile(r"^\s{0,8}(\w{1,100}/eval_phase/\S{1,200}) = (\S{1,40})")
ROUNDED = "the file rounds scores to 0.0001"
EVALUATIONS = "the number of training iterations is not known: steps count evaluations"


def recognize(path: Path) -> str | None:
    """Return why a file or folder looks like Avalanche's, None if it does not."""
    if path.is_dir():
        return find_in_folder(path, "eval_results.csv", recognize)
    head = read_head(path)
    if set(HEADER) <= set(head.partition("\n")[0].strip().split(",")):
        return "it has the columns of Avalanche's CSVLogger"
    if EVALUATION in head and ACCURACY_METRIC in head:
        return "it has the lines of Avalanche's InteractiveLogger"
    return None


def read(paths: Sequence[Path], options: ImportOptions) -> list[ImportedRun]:
    """Return the runs in each file; `metric` chooses the stream of a text, such as `test`."""
    runs = []
    for path in find_files(paths, "eval_results.csv"):
        text = read_log_text(path)
        is_table = set(HEADER) <= set(text.partition("\n")[0].strip().split(","))
        found = _read_table(path) if is_table else _read_text(text, path, options)
        for number, (evaluations, notes) in enumerate(found):
            runs.append(
                ImportedRun(
                    tool="Avalanche", metrics="avalanche", evaluations=evaluations, files=[path],
                    label=f"{path.parent.name}-{number}", notes=[*notes, NO_SIZES, ROUNDED],
                )
            )  # fmt: skip
    return runs


def _read_table(path: Path) -> Iterator[tuple[list[Evaluation], list[str]]]:
    """Yield the evaluations of each run in the file of a CSVLogger."""
    evaluations: list[Evaluation] = []
    trained: list[str] = []  # experiences of this run so far, in order
    seen: set[tuple[str, str]] = set()
    for number, row in enumerate(_rows(path), 2):
        where = f"{path} line {number}"
        learned, score = row["training_exp"], _score(row["eval_accuracy"], where)
        returns = learned in trained[:-1] or (learned == "None" and bool(trained))
        if returns:  # a second run was appended
            yield evaluations, [STEPS_ARE_TASKS]
            evaluations, trained, seen = [], [], set()
        if learned not in {"None", *trained}:
            trained.append(learned)
        if (learned, row["eval_exp"]) in seen:
            raise InputError(
                f"{where}: experience {row['eval_exp']} was evaluated twice after experience "
                f"{learned}; with two streams or calls of eval, import the text of a TextLogger"
            )
        seen.add((learned, row["eval_exp"]))
        tested = name_experience(_experience(row["eval_exp"], where))
        if learned == "None":
            evaluations.append(Evaluation(0, None, tested, score, kind="initial"))
        else:
            name = name_experience(_experience(learned, where))
            evaluations.append(Evaluation(len(trained), name, tested, score))
    yield evaluations, [STEPS_ARE_TASKS]


def _rows(path: Path) -> Iterator[dict[str, str]]:
    header, *rows = read_rows(path)
    header = [name.strip() for name in header]
    places = [header.index(name) for name in HEADER]
    for number, row in enumerate(rows, 2):
        if len(row) != len(header) or not all(row[place].strip() for place in places):
            raise InputError(f"{path} line {number}: cut off, expected {','.join(header)}")
        yield {name: row[place].strip() for name, place in zip(HEADER, places, strict=True)}


def _score(text: str, where: str) -> float:
    if text == NOT_MONITORED:
        raise InputError(
            f"{where}: eval_accuracy is 0, which Avalanche writes if accuracy was not monitored "
            "(0.0000 is measured); add accuracy_metrics(experience=True) and evaluate again"
        )
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{where}: eval_accuracy is {text!r:.40}, expected a number") from None


def _experience(text: str, where: str) -> int:
    if not text.isdecimal() or len(text) > 9:
        raise InputError(f"{where}: an experience is {text!r:.40}, expected its number")
    return int(text)


def _read_text(
    text: str, path: Path, options: ImportOptions
) -> Iterator[tuple[list[Evaluation], list[str]]]:
    """Yield the evaluations of each run in the text of a logger."""
    tags = [match[1] for match in re.finditer(METRIC.pattern, text, re.MULTILINE)]
    wanted, notes = choose_stream(tags, options.metric, path)
    parsed = [tag.experience for tag in map(parse_tag, tags) if tag]
    experiences = sorted({number for number in parsed if number is not None})
    phases: list[int] = []  # the experience of each training phase, if its lines do not say it
    if TRAINING.search(text) is None:
        phases, order_notes = trained_in_order(
            text.count(TRAINING_PHASE), experiences, options, path
        )
        notes += order_notes
    evaluations: list[Evaluation] = []
    trained: list[int] = []
    step, in_training = 0, False
    for number, line in enumerate(text.split("\n"), 1):
        if phase := PHASE.search(line):
            in_training = phase[1] == "Start"
        match = TRAINING.search(line)
        if match or (phases and TRAINING_PHASE in line):
            experience = int(match[1]) if match else phases[len(trained)]
            if experience in trained:  # a second run was appended
                yield evaluations, _steps(notes, evaluations)
                evaluations, trained, step = [], [], 0
            trained.append(experience)
        elif EVALUATION in line:
            step += bool(trained)
        elif (match := METRIC.match(line)) and (tag := parse_tag(match[1])):
            if tag.metric != ACCURACY_METRIC or tag.stream != wanted or tag.experience is None:
                continue
            score = _score(match[2], f"{path} line {number}")
            evaluations.append(_evaluation(step, trained, tag.experience, score, in_training))
    yield evaluations, _steps(notes, evaluations)


def _evaluation(
    step: int, trained: list[int], tested: int, score: float, in_training: bool
) -> Evaluation:
    if not trained:
        return Evaluation(0, None, name_experience(tested), score, kind="initial")
    return Evaluation(
        step, name_experience(trained[-1]), name_experience(tested), score,
        kind="probe" if in_training else "full",
    )  # fmt: skip


def _steps(notes: list[str], evaluations: list[Evaluation]) -> list[str]:
    ends = {(e.step, e.trained) for e in evaluations if e.kind != "initial"}
    per_task = len({trained for _, trained in ends}) == len(ends)
    return [*notes, STEPS_ARE_TASKS if per_task else EVALUATIONS]
