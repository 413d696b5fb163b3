"""Labels of methods, scores and tasks, and the scale that several runs share."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from ..record import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..metrics import ScoreScale, Stream
    from .colours import LineStyle

__all__ = [
    "axis_label", "control_label", "drop_modules", "is_control", "mark_control", "merge_names",
    "merge_scales", "require_one_scale", "shorten_names", "span_names", "task_names", "worst_label",
]  # fmt: skip

MAX_LABEL = 40  # characters of the name of a method in a table or a legend
LONG_WORD = 20
CONTROL_MARK = " (control)"


def require_one_scale(streams: Iterable[Stream]) -> ScoreScale:
    """Return the scale that all streams share; raise InputError if they cannot share an axis."""
    scales = [stream.scale for stream in streams]
    if len({scale.lower_is_better for scale in scales}) > 1:
        raise InputError(
            "higher is better for some scores and lower for others, expected one kind of score"
        )
    return merge_scales(scales)


def merge_scales(scales: Sequence[ScoreScale]) -> ScoreScale:
    """Return the first of several scales, named `score` if their names differ."""
    labels = {scale.label for scale in scales}
    return scales[0] if len(labels) == 1 else replace(scales[0], name="score")


def axis_label(scale: ScoreScale) -> str:
    """Return the label of an axis of scores.

    Example:
        >>> from perdure.metrics import ScoreScale
        >>> loss = ScoreScale(0, 9, lower_is_better=True, name="loss")
        >>> axis_label(ScoreScale()), axis_label(loss), axis_label(ScoreScale(percent=True))
        ('accuracy', 'loss (lower is better)', 'accuracy (%)')
    """
    remarks = ["%"] if scale.percent else []
    remarks += ["lower is better"] if scale.lower_is_better else []
    return f"{scale.label} ({', '.join(remarks)})" if remarks else scale.label


def worst_label(scale: ScoreScale) -> str:
    """Return the legend label of the worst score since a task was learned.

    Example:
        >>> from perdure.metrics import ScoreScale
        >>> loss = ScoreScale(0, 9, lower_is_better=True, name="loss")
        >>> worst_label(ScoreScale()), worst_label(loss)
        ('min-ACC', 'highest loss since learned')
    """
    name = scale.label
    return "min-ACC" if name == "accuracy" else f"{scale.worst} {name} since learned"


def control_label(task: str) -> str:
    """Return how figures and pages name a control task, which is evaluated but never trained."""
    return f"{task}{CONTROL_MARK}"


def is_control(label: str) -> bool:
    """Return whether this is the label of a control task.

    Example:
        >>> is_control(control_label("mmlu")), is_control("mmlu")
        (True, False)
    """
    return label.endswith(CONTROL_MARK)


def mark_control(style: LineStyle, label: str) -> LineStyle:
    """Return the style of a task's line: that of a control task is dotted."""
    return style._replace(dashes="dotted") if is_control(label) else style


def task_names(streams: Sequence[Stream]) -> list[str]:
    """Return a name per task in learning order: its own if all streams agree on it.

    Example:
        >>> from perdure.metrics import Stream
        >>> one, two = (Stream({"-90": ([1], [0.5]), b: ([1], [0.5])}) for b in ("-80", "-60"))
        >>> task_names([one, two])
        ['-90', 'task no. 2']
    """
    return merge_names([stream.names for stream in streams])


def span_names(streams: Sequence[Stream]) -> list[str]:
    """Return a name per training span: its task's name if all streams agree on it.

    Example:
        >>> from perdure.metrics import Stream
        >>> span_names([Stream({"a": ([1, 2], [0.5, 0.6])}, [("a", 1), ("a", 2)])])
        ['a', 'a']
    """
    return merge_names([[span.task for span in stream.spans] for stream in streams])


def merge_names(several: Sequence[Sequence[str]]) -> list[str]:
    """Return the name at each position of several lists, or its number if they disagree.

    Example:
        >>> merge_names([["a", "b"], ["a", "c", "d"]])
        ['a', 'task no. 2', 'd']
    """
    count = max(map(len, several), default=0)
    choices = [{names[k] for names in several if k < len(names)} for k in range(count)]
    return [
        min(names) if len(names) == 1 else f"task no. {k}"
        for k, names in enumerate(choices, start=1)
    ]


def shorten_names(names: Iterable[str], limit: int = MAX_LABEL) -> dict[str, str]:
    """Return a label of at most about `limit` characters per name, no two of them the same.

    A long name loses the module before its class, then the middle of its longest word, so that
    hyperparameters remain visible.

    Example:
        >>> long = "my_package.strategies.replay:BalancedReservoirReplay lr=0.02 memory={}"
        >>> list(shorten_names([long.format(100), long.format(500)]).values())
        ['BalancedReservo…eplay lr=0.02 memory=100', 'BalancedReservo…eplay lr=0.02 memory=500']
    """
    labels: dict[str, str] = {}
    taken: set[str] = set()
    for name in names:
        label = unnumbered = _shorten(name, limit)
        number = 1
        while label in taken:
            number += 1
            label = f"{unnumbered} ({number})"
        taken.add(label)
        labels[name] = label
    return labels


def drop_modules(name: str) -> str:
    """Return a name without the modules before its classes.

    Example:
        >>> drop_modules("my_package.strategies:Reservoir lr=0.1")
        'Reservoir lr=0.1'
    """
    return " ".join(re.sub(r"^.*[./].*:(?=\w+$)", "", word) for word in name.split())


def _shorten(name: str, limit: int) -> str:
    if len(name) <= limit:
        return name
    words = drop_modules(name).split()
    longest = max(range(len(words)), key=lambda k: len(words[k]), default=0)
    excess = len(" ".join(words)) - limit
    if excess > 0 and len(words[longest]) > LONG_WORD:
        words[longest] = _cut_middle(words[longest], max(len(words[longest]) - excess, LONG_WORD))
    text = " ".join(words)
    return _cut_middle(text, limit) if len(text) > limit else text


def _cut_middle(text: str, length: int) -> str:
    tail = (length - 1) // 4
    return f"{text[: length - 1 - tail]}…{text[len(text) - tail :]}"
