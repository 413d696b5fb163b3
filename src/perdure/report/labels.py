"""Labels of methods, scores and tasks, the scale that runs share, and how a series differs."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from ..record import InputError
from ..record.group_names import differing_keys
from ..record.run_metadata import flatten_config
from .load import get_config

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ..metrics import ScoreScale, Stream
    from .colours import LineStyle
    from .load import RunsByMethod

__all__ = [
    "SeriesParameter",
    "axis_label",
    "control_label",
    "drop_modules",
    "find_series_parameter",
    "is_control",
    "mark_control",
    "merge_names",
    "merge_scales",
    "require_one_scale",
    "shorten_names",
    "span_names",
    "task_names",
    "worst_label",
]

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


NUMBER = re.compile(r"(?<![\d.])\d+(?:\.\d+)?(?:e[-+]?\d+)?", re.IGNORECASE)


class SeriesParameter(NamedTuple):
    """The name of a hyperparameter and its value by method, lowest first."""

    name: str
    values: dict[str, float]


def find_series_parameter(methods: RunsByMethod) -> SeriesParameter:
    """Return the one number in which methods differ, found in their configs or their names.

    Example:
        >>> find_series_parameter({"er 2000": [], "er 500": []})
        SeriesParameter(name='er', values={'er 500': 500.0, 'er 2000': 2000.0})
    """
    if len(methods) < 2:
        raise InputError(
            f"a series needs at least 2 methods, got {len(methods)}; see perdure compare"
        )
    configs = [flatten_config(get_config(runs[0])) if runs else {} for runs in methods.values()]
    strategies = sorted({str(config["strategy"]) for config in configs if "strategy" in config})
    if len(strategies) > 1:
        raise InputError(
            f"methods are {', '.join(strategies)}, expected one; draw them with curves"
        )
    parameter = _find_in_configs(methods, configs) or _find_in_texts(
        {name: name for name in methods}
    )
    if parameter is None:
        raise InputError(
            f"the methods {', '.join(methods)!r:.80} do not differ in exactly one number; "
            "label them yourself, e.g. 500=PATH 1000=PATH"
        )
    by_value = dict(sorted(parameter.values.items(), key=lambda item: item[1]))
    return parameter._replace(values=by_value)


def _find_in_configs(
    methods: RunsByMethod, configs: Sequence[Mapping[str, object]]
) -> SeriesParameter | None:
    """Return the one entry in which configs differ; None if there is not exactly one."""
    keys = differing_keys(configs)
    if len(keys) != 1 or not all(keys[0] in config for config in configs):
        return None
    values = dict(zip(methods, (config[keys[0]] for config in configs), strict=True))
    numbers = {
        name: float(value)
        for name, value in values.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
    if len(numbers) == len(values):
        return SeriesParameter(keys[0].rpartition(".")[2], numbers)
    return _find_in_texts({name: str(value) for name, value in values.items()})


def _find_in_texts(texts: Mapping[str, str]) -> SeriesParameter | None:
    """Return the number in texts that are equal otherwise; None if there is no such number."""
    parts = {name: split for name, text in texts.items() if (split := _split(text)) is not None}
    if len(parts) < len(texts) or len({(start, end) for start, _, end in parts.values()}) > 1:
        return None
    values = {name: number for name, (_, number, _) in parts.items()}
    if len(set(values.values())) < len(values):
        return None
    start, _, end = next(iter(parts.values()))
    return SeriesParameter(f"{start} {end}".strip(" -_=:,") or "value", values)


def _split(text: str) -> tuple[str, float, str] | None:
    numbers = list(NUMBER.finditer(text))
    if not numbers:
        return None
    last = numbers[-1]
    # A dash is a minus sign only at the start of the text: rotated-mnist-30 is 30.
    sign = -1.0 if text[: last.start()].strip() == "-" else 1.0
    return text[: last.start()], sign * float(last.group()), text[last.end() :]
