"""The numbers in plain words: a diagnosis of each method, what task ends do not show, warnings.

The diagnosis follows a table in Evaluation Metrics for Continual Learning (tutorial), whose limits
are for accuracies; other scores are described in numbers, without a verdict.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...metrics import ACCURACY, parse_id
from ..tables.scores import group_reasons

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ...metrics import ScoreScale, Summary
    from .summaries import MethodSummary

__all__ = [
    "Interpretation",
    "WarningGroup",
    "describe_stability_gap",
    "diagnose",
    "group_notes",
    "group_undefined",
    "group_warnings",
    "interpret",
]

DIAGNOSIS_IDS = ("acc", "acc.learning", "bwt")

# The tutorial calls values above these high; it does not say what is about 0 or very negative.
HIGH_LEARNING, HIGH_FINAL = 0.9, 0.8
ABOUT_ZERO, SEVERE = 0.05, -0.2
HALF_POINT = 0.005  # smaller changes are written as 0 points


class Interpretation(NamedTuple):
    """The diagnosis of a method, empty if there is none, and the numbers behind it in words."""

    name: str
    diagnosis: str
    reason: str


def interpret(method: MethodSummary) -> Interpretation:
    """Return the numbers of a method in words, or which metric is missing for that."""
    metrics, scale = method.summary.metrics, method.scale
    ends, lows = (method.summary.per_task.get(id_, []) for id_ in ("acc", "min_acc"))
    pairs = zip(ends, lows, strict=False)
    finals = [end for end, low in pairs if end is not None and low is not None]
    older = float(np.mean(finals)) if finals else None
    missing = next((id_ for id_ in DIAGNOSIS_IDS if id_ not in metrics), None)
    diagnosis, gap = "", ""
    if missing is not None:
        why = method.summary.undefined.get(missing, "not computed")
        reason = f"{missing} is undefined: {why}"
    elif scale.label != ACCURACY.label:
        reason = describe_scores(metrics, scale, older)
    else:
        diagnosis, reason = diagnose(metrics, percent=scale.percent)
        gap = describe_stability_gap(metrics, older, percent=scale.percent)
    changes = dict(
        zip(method.summary.control, method.summary.per_task.get("retention", []), strict=False)
    )
    control = describe_retention(metrics, changes, scale)
    return Interpretation(method.label, diagnosis, "; ".join(filter(None, (reason, gap, control))))


def describe_retention(
    metrics: Mapping[str, float], changes: Mapping[str, float | None], scale: ScoreScale
) -> str:
    """Return how control tasks changed, in words; an empty string without any.

    Args:
        metrics: values by id.
        changes: the change of each control task.
        scale: name and direction of the scores.

    Example:
        >>> describe_retention({"retention": -0.06}, {"mmlu": -0.1, "arc": -0.02}, ACCURACY)
        'control tasks, never trained, lost 6 points on average, mmlu most with 10 points lost'
    """
    if "retention" not in metrics:
        return ""
    is_accuracy = scale.label == ACCURACY.label
    mean, unchanged = metrics["retention"], HALF_POINT if is_accuracy else 0.0
    amount = _format_points if is_accuracy else lambda change: f"{abs(change):.3g}"
    text = "control tasks, never trained, kept their scores on average"
    if abs(mean) > unchanged:
        verb = "gained" if mean > 0 else "lost"
        text = f"control tasks, never trained, {verb} {amount(mean)} on average"
    known = {task: change for task, change in changes.items() if change is not None}
    worst = min(known, key=lambda task: known[task], default="")
    if len(known) < 2 or known[worst] >= -unchanged:
        return text
    return f"{text}, {worst} most with {amount(known[worst])} lost"


def diagnose(metrics: Mapping[str, float], *, percent: bool = False) -> tuple[str, str]:
    """Return what learning, backward transfer and final accuracy mean together, and the reason.

    Example:
        >>> diagnose({"acc.learning": 0.98, "bwt": -0.6, "acc": 0.5})[0]
        'severe forgetting'
        >>> diagnose({"acc.learning": 0.95, "bwt": 0.03, "acc": 0.97})[0]
        'beneficial transfer'
    """
    learned, bwt, acc = metrics["acc.learning"], metrics["bwt"], metrics["acc"]
    change = f"{'gained' if bwt > 0 else 'lost'} {_format_points(bwt)}"
    reason = (
        f"tasks were learned to {_format(learned, percent)} on average and later "
        f"{'kept' if abs(bwt) < HALF_POINT else change}; "
        f"at the end they are at {_format(acc, percent)}"
    )
    return _name_diagnosis(learned, bwt, acc), reason


def _format(score: float, percent: bool) -> str:
    return f"{100 * score:.0f}%" if percent else f"{score:.2f}"


def _format_points(change: float) -> str:
    points = f"{100 * abs(change):.0f}"
    return f"{points} point{'' if points == '1' else 's'}"


def _name_diagnosis(learned: float, bwt: float, acc: float) -> str:
    if learned >= HIGH_LEARNING and bwt >= HALF_POINT and acc >= HIGH_LEARNING:
        return "beneficial transfer"
    if learned >= HIGH_LEARNING and abs(bwt) <= ABOUT_ZERO and acc >= HIGH_FINAL:
        return "a good continual learner"
    if bwt <= SEVERE and acc < HIGH_FINAL:
        poor = learned < HIGH_LEARNING
        return "severe forgetting, and learns less than it could" if poor else "severe forgetting"
    if learned < HIGH_LEARNING and abs(bwt) <= ABOUT_ZERO:
        poor = acc < HIGH_FINAL
        return "poor learning" if poor else "retains what it learns, but learns less than it could"
    return "some forgetting" if bwt < 0 else "between the tutorial's patterns"


def describe_stability_gap(
    metrics: Mapping[str, float], older: float | None, *, percent: bool = False
) -> str:
    """Return what happened to older tasks between task ends; an empty string if not known.

    Args:
        metrics: values by id.
        older: mean final score of the tasks that min_acc is about.
        percent: write scores in percent.

    Example:
        >>> describe_stability_gap({"min_acc": 0.4}, 0.9)
        'during training older tasks fell to 0.40, 50 points below their end: a stability gap'
    """
    if "min_acc" not in metrics or older is None:
        return ""
    low, depth = metrics["min_acc"], metrics.get("gap.depth", 1.0)
    fell = f"during training older tasks fell to {_format(low, percent)}"
    if older - low < ABOUT_ZERO and metrics.get("bwt", 0.0) <= SEVERE:
        return f"{fell} and stayed there"
    if older - low < ABOUT_ZERO:
        end = _format(older, percent)
        return f"{fell}, not far below their end ({end}): hardly a stability gap"
    if depth < ABOUT_ZERO:  # they had never been higher: later gains are not a recovery
        cost = _format_points(max(depth, 0.0))
        return f"{fell}, but new tasks cost them {cost} at their start: hardly a stability gap"
    return f"{fell}, {_format_points(older - low)} below their end: a stability gap"


def describe_scores(metrics: Mapping[str, float], scale: ScoreScale, older: float | None) -> str:
    """Return how scores that are not accuracies changed, in words.

    Args:
        metrics: values by id.
        scale: name and direction of the scores.
        older: mean final score of the tasks that min_acc is about.

    Example:
        >>> from perdure.metrics import ScoreScale
        >>> loss = ScoreScale(0, 9, lower_is_better=True, name="loss")
        >>> describe_scores({"acc.learning": 0.5, "bwt": -2.0, "acc": 1.5}, loss, None)
        'mean loss when learned: 0.5; on older tasks it then rose by 2; mean loss at the end: 1.5'
    """
    worse, better = ("rose", "fell") if scale.lower_is_better else ("fell", "rose")
    bwt = metrics["bwt"]
    change = f"{better if bwt > 0 else worse} by {abs(bwt):.3g}" if bwt else "stayed the same"
    parts = [
        f"mean {scale.label} when learned: {metrics['acc.learning']:.3g}",
        f"on older tasks it then {change}",
        f"mean {scale.label} at the end: {metrics['acc']:.3g}",
    ]
    if "min_acc" in metrics and older is not None:
        low = f"during training it {worse} to {metrics['min_acc']:.3g} on older tasks"
        parts.append(f"{low}, which end at {older:.3g}")
    return "; ".join(parts)


# What differs between notes of one kind: paths and numbers.
_VARIABLE = re.compile(r"[^\s,;:()]*/[^\s,;:()]*|(?<![\w.])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?(?![\w.])")


class WarningGroup(NamedTuple):
    """A kind of warning: its text, whom it concerns, and the single ones if they differ."""

    text: str
    concerns: str
    entries: list[str]


def group_warnings(methods: Sequence[MethodSummary]) -> list[WarningGroup]:
    """Return the warnings of all methods, one group per kind."""
    notes = [(method.label, note) for method in methods for note in dict.fromkeys(method.notes)]
    return [*_describe_bias(methods), *_group_by_kind(notes, _generalize, len(methods))]


def group_undefined(methods: Sequence[MethodSummary]) -> list[WarningGroup]:
    """Return one group per reason for which metrics are undefined."""
    lines = [
        (method.label, line)
        for method in methods
        for line in group_reasons(method.summary.undefined)
    ]
    return _group_by_kind(lines, str, len(methods))


def group_notes(notes: Iterable[str]) -> list[WarningGroup]:
    """Return notes on runs, one group per kind.

    Example:
        >>> group = group_notes([f"left out: runs/{k}: no evaluations" for k in "ab"])[0]
        >>> group.text, group.concerns
        ('left out: …: no evaluations', '2 times')
    """
    kinds: dict[str, list[str]] = {}
    for note in dict.fromkeys(notes):
        kinds.setdefault(_generalize(note), []).append(note)
    return [
        WarningGroup(kind, f"{len(several)} times", several)
        if len(several) > 1
        else WarningGroup(several[0], "", [])
        for kind, several in kinds.items()
    ]


def _generalize(note: str) -> str:
    return _VARIABLE.sub("…", note)


def _group_by_kind(
    notes: Iterable[tuple[str, str]], kind_of: Callable[[str], str], methods: int
) -> list[WarningGroup]:
    """Return groups of notes, each with the label of its method, of which there are `methods`."""
    kinds: dict[str, list[tuple[str, str]]] = {}
    for label, note in notes:
        kinds.setdefault(kind_of(note), []).append((label, note))
    groups = []
    for kind, several in kinds.items():
        labels = list(dict.fromkeys(label for label, _ in several))
        texts = {note for _, note in several}
        concerns = _count_methods(labels, methods)
        if len(texts) > 1:
            entries = [f"{label}: {note}" if methods > 1 else note for label, note in several]
            groups.append(WarningGroup(kind, concerns, entries))
        else:
            unnamed = labels if 1 < len(labels) < methods else []
            groups.append(WarningGroup(texts.pop(), concerns, unnamed))
    return groups


def _count_methods(labels: Sequence[str], methods: int) -> str:
    if methods == 1:
        return ""
    if len(labels) == 1:
        return labels[0]
    if len(labels) == methods == 2:
        return "both methods"
    which = "all" if len(labels) == methods else f"{len(labels)} of"
    return f"{which} {methods} methods"


def _describe_bias(methods: Sequence[MethodSummary]) -> list[WarningGroup]:
    """Return the bounds on the bias of extremes, the largest of all methods first."""
    bounds = {method.label: _bound_bias(method.run_summaries) for method in methods}
    known = {label: own for label, own in bounds.items() if own}
    if not known:
        return []
    entries = [f"{label}: {_list_bounds(own)}" for label, own in known.items()]
    largest = _bound_bias([run for method in methods for run in method.run_summaries])
    return [
        WarningGroup(
            f"Minima and maxima of noisy evaluations are biased: {_list_bounds(largest)}",
            _count_methods(list(known), len(methods)),
            entries if len(known) > 1 else [],
        )
    ]


def _bound_bias(summaries: Iterable[Summary]) -> dict[str, float]:
    bias: dict[str, float] = {}
    for summary in summaries:
        for id_, bound in summary.bias.items():
            bias[id_] = max(bound, bias.get(id_, 0.0))
    return bias


def _list_bounds(bounds: Mapping[str, float]) -> str:
    return ", ".join(
        f"{id_} may be up to {bound:.3f} too {'high' if parse_id(id_).base == 'wf' else 'low'}"
        for id_, bound in bounds.items()
    )
