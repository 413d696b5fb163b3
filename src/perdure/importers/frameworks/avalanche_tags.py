"""Avalanche's names of metrics, and the runs in scalars that a tracker stored under them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from ...record import InputError
from ..imported import NO_SIZES, Evaluation, ImportedRun

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from ..options import ImportOptions

__all__ = [
    "ACCURACY_METRIC",
    "AvalancheTag",
    "choose_stream",
    "is_accuracy",
    "name_experience",
    "parse_tag",
    "run_from_scalars",
    "trained_in_order",
]

ACCURACY_METRIC = "Top1_Acc_Exp"
FORGETTING_METRIC = "ExperienceForgetting"
TAG = re.compile(r"(\w+)/(\w+)_phase/(\w+)_stream(?:/Task(\d{1,9}))?(?:/Exp(\d{1,9}))?")
IN_ORDER = (
    "the file does not say which experience was trained: there are as many phases of training as "
    "experiences, taken to be in order"
)


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
