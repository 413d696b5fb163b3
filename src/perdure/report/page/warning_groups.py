"""Warnings of all methods and runs, grouped by kind."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from ...metrics import parse_id
from ..tables.scores import group_reasons

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ...metrics import Summary
    from .summaries import MethodSummary

__all__ = ["WarningGroup", "group_notes", "group_undefined", "group_warnings"]

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
        labels = dict.fromkeys(label for label, _ in several)
        texts = {note for _, note in several}
        concerns = _count_methods(list(labels), methods)
        if len(texts) > 1:
            entries = [f"{label}: {note}" if methods > 1 else note for label, note in several]
            groups.append(WarningGroup(kind, concerns, entries))
        else:
            groups.append(WarningGroup(texts.pop(), concerns, _list_some(list(labels), methods)))
    return groups


def _list_some(labels: list[str], methods: int) -> list[str]:
    """Return labels that the count does not name."""
    return labels if 1 < len(labels) < methods else []


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
    """Return the largest bound on the bias of each metric over several runs."""
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
