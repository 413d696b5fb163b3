"""Avalanche: eval_results.csv of its CSVLogger, and the text of InteractiveLogger or TextLogger.

Its names of metrics are read here for trackers too, which store scalars under them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from ...record import InputError
from ..files import find_files, find_in_folder, read_head, read_log_text, read_rows
from ..imported import NO_SIZES, STEPS_ARE_EVALUATIONS, STEPS_ARE_TASKS, Evaluation, ImportedRun
from ..values import parse_score

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from ..imported import ImportOptions

__all__ = ["is_accuracy", "parse_tag", "read", "recognize", "run_from_scalars"]

ACCURACY_METRIC = "Top1_Acc_Exp"
FORGETTING_METRIC = "ExperienceForgetting"
TAG = re.compile(r"(\w+)/(\w+)_phase/(\w+)_stream(?:/Task(\d{1,9}))?(?:/Exp(\d{1,9}))?")
IN_ORDER = (
    "the file does not say which experience was trained: there are as many phases of training as "
    "experiences, taken to be in order"
)

HEADER = ("eval_exp", "training_exp", "eval_accuracy")
NOT_MONITORED = "0"  # a measured zero is written 0.0000
TRAINING = re.compile(r"-- Starting training on experience (\d+)(?: \(Task \d+\))? from")
TRAINING_PHASE = "-- >> Start of training phase << --"
EVALUATION = "-- >> Start of eval phase << --"
PHASE = re.compile(r"-- >> (Start|End) of training phase << --")
METRIC = re.compile(r"^\s{0,8}(\w{1,100}/eval_phase/\S{1,200}) = (\S{1,40})")
ROUNDED = "the file rounds scores to 0.0001"


class AvalancheTag(NamedTuple):
    """The parts of a metric's name; task and experience are None if it has none."""

    metric: str
    phase: str
    stream: str
    task: int | None
    experience: int | None


def parse_tag(tag: str) -> AvalancheTag | None:
    """Return the parts of the name of a metric, None if it is not one of Avalanche's.

    Example:
        >>> parse_tag("Top1_Acc_Exp/eval_phase/test_stream/Task000/Exp001")
        AvalancheTag(metric='Top1_Acc_Exp', phase='eval', stream='test', task=0, experience=1)
        >>> parse_tag("Top1_Acc_Exp/eval_phase/test_stream/Exp001").task is None
        True
        >>> parse_tag("loss/train") is None
        True
    """
    match = TAG.fullmatch(tag)
    if match is None:
        return None
    task, experience = (None if part is None else int(part) for part in match.groups()[3:])
    return AvalancheTag(match[1], match[2], match[3], task, experience)


def is_accuracy(tag: str) -> bool:
    """Return whether a tag is the accuracy on one experience."""
    parsed = parse_tag(tag)
    return parsed is not None and (parsed.metric, parsed.phase) == (ACCURACY_METRIC, "eval")


def name_experience(number: int) -> str:
    """Return the name of an experience, as Avalanche's tags have it.

    Example:
        >>> name_experience(3)
        'Exp003'
    """
    return f"Exp{number:03d}"


def choose_stream(tags: Iterable[str], stream: str | None, source: object) -> tuple[str, list[str]]:
    """Return the stream to read, the test stream unless another is named, and notes."""
    parsed = [tag for tag in map(parse_tag, tags) if tag and tag.metric == ACCURACY_METRIC]
    streams = sorted({tag.stream for tag in parsed if tag.phase == "eval"})
    if not streams:
        raise InputError(
            f"{source}: no {ACCURACY_METRIC}, the accuracy per experience; add "
            "accuracy_metrics(experience=True) to Avalanche's EvaluationPlugin"
        )
    wanted = stream or ("test" if "test" in streams else streams[0])
    if wanted not in streams or (stream is None and wanted != "test" and len(streams) > 1):
        raise InputError(
            f"{source}: has the streams {', '.join(streams)}; choose one with `metric=`"
        )
    others = [name for name in streams if name != wanted]
    left_out = f"evaluations of other streams are left out: {', '.join(others)}"
    return wanted, [left_out] if others else []


def run_from_scalars(
    scalars: Mapping[str, Sequence[tuple[int, float]]],
    files: Sequence[Path],
    options: ImportOptions,
) -> ImportedRun:
    """Return the run in scalars, (iteration, value) by tag, as TensorboardLogger writes them.

    The tags do not say which experience was trained. With one evaluation per experience, they are
    taken to be in order; otherwise `order` names the trained experience of each evaluation.
    """
    source = files[0] if files else "scalars"
    stream, notes = choose_stream(scalars, options.metric, source)
    scores: dict[int, dict[int, float]] = {}  # by iteration and experience
    for name, values in scalars.items():
        tag = parse_tag(name)
        if tag is None or (tag.metric, tag.stream) != (ACCURACY_METRIC, stream):
            continue
        if tag.experience is not None:
            for step, value in values:
                scores.setdefault(step, {})[tag.experience] = value
    steps = sorted(step for step in scores if step > 0)
    experiences = sorted({experience for row in scores.values() for experience in row})
    trained, order_notes = trained_in_order(len(steps), experiences, options, source)
    _check_order(scalars, steps, trained, source)
    evaluations = [
        Evaluation(0, None, name_experience(experience), value, kind="initial")
        for experience, value in sorted(scores.get(0, {}).items())
    ]
    evaluations += [
        Evaluation(step, name_experience(number), name_experience(experience), value)
        for step, number in zip(steps, trained, strict=True)
        for experience, value in sorted(scores[step].items())
    ]
    return ImportedRun(
        tool="Avalanche", metrics="avalanche", evaluations=evaluations, files=files,
        notes=[*notes, *order_notes, NO_SIZES],
    )  # fmt: skip


def trained_in_order(
    count: int, experiences: Sequence[int], options: ImportOptions, source: object
) -> tuple[list[int], list[str]]:
    """Return the experience of each of `count` phases of training, and notes.

    `order` names them; without it there must be one phase per experience.
    """
    if options.order:
        numbers = [int(re.sub(r"\D", "", name) or -1) for name in options.order]
        if len(numbers) != count or not set(numbers) <= set(experiences):
            raise InputError(
                f"order has {len(numbers)} experiences, expected one for each of the {count} "
                f"phases of training, among {', '.join(map(str, experiences))}"
            )
        return numbers, []
    if count != len(experiences):
        raise InputError(
            f"{source}: {count} phases of training and {len(experiences)} experiences, and nothing "
            "says which was trained; name the experience of each phase with `order=`"
        )
    return list(experiences), [IN_ORDER]


def _check_order(
    scalars: Mapping[str, Sequence[tuple[int, float]]],
    steps: Sequence[int],
    trained: Sequence[int],
    source: object,
) -> None:
    """Raise if forgetting of an experience, which follows its training, is there too early."""
    for name, values in scalars.items():
        tag = parse_tag(name)
        if tag and tag.metric == FORGETTING_METRIC and tag.experience in trained and values:
            own = steps[trained.index(tag.experience)]
            if min(step for step, _ in values) <= own:
                raise InputError(
                    f"{source}: experiences were not trained in order; name the experience of each "
                    "evaluation with `order=`"
                )


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
    return parse_score(text, where, "eval_accuracy")


def _experience(text: str, where: str) -> int:
    if not text.isdecimal() or len(text) > 9:
        raise InputError(f"{where}: an experience is {text!r:.40}, expected its number")
    return int(text)


def _read_text(
    text: str, path: Path, options: ImportOptions
) -> Iterator[tuple[list[Evaluation], list[str]]]:
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
    return [*notes, STEPS_ARE_TASKS if per_task else STEPS_ARE_EVALUATIONS]
