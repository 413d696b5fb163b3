"""Ids of metrics from what people type: ids, aliases and patterns."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

from .._suggestions import normalize_name
from .registry import FAMILIES, METRIC_ALIASES, METRICS, family_members, parse_id
from .summary_types import SummaryOptions

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["MetricSelection", "resolve_metric", "select_metric_ids"]


class MetricSelection(NamedTuple):
    """The ids that names stand for, those named one by one, and a note per alias."""

    ids: list[str]
    named: list[str]
    notes: list[str]


def select_metric_ids(names: Iterable[str]) -> MetricSelection:
    """Return the ids that names stand for: ids, aliases such as `aa`, patterns such as `acc.*`.

    Raises ValueError for an unknown name, and for one that stands for several metrics.

    Example:
        >>> select_metric_ids(["AA", "omega.*"])
        MetricSelection(ids=['acc', 'omega.base', 'omega.new', 'omega.all', 'omega.offline'], \
named=['acc'], notes=['AA means acc'])
    """
    ids: list[str] = []
    named: list[str] = []
    notes: list[str] = []
    for name in names:
        if "*" in name or "?" in name:
            ids += _match_pattern(name)
            continue
        try:
            id_ = resolve_metric(name)
        except ValueError as error:
            word = name.casefold()
            every = f"{word}.*" if word in FAMILIES else f"{word}*" if word in METRICS else ""
            raise ValueError(f"{error}{f', or {every!r} for all' if every else ''}") from None
        named.append(id_)
        ids.append(id_)
        notes += [f"{name} means {id_}"] if id_ != name else []
    return MetricSelection(list(dict.fromkeys(ids)), named, notes)


def resolve_metric(name: str) -> str:
    """Return the id that a name stands for.

    Raises ValueError if there is none, or if several metrics have the name.

    Example:
        >>> resolve_metric("LA"), resolve_metric("wf10"), resolve_metric("WC-ACC")
        ('acc.learning', 'wf10', 'wc_acc')
    """
    word = name.casefold()
    if name in METRICS and METRICS[name].parameter is None:
        return name
    candidates = METRIC_ALIASES.get(normalize_name(name), ())
    if not candidates and word in FAMILIES and word not in METRICS:
        candidates = tuple(family_members(word))
    if len(candidates) > 1:
        raise ValueError(
            f"{name!r:.60} stands for several metrics; name one of {', '.join(candidates)}"
        )
    if candidates:
        return candidates[0]
    try:
        parse_id(name)
    except ValueError:
        if word in METRICS:
            return word
        raise
    return name


def _match_pattern(pattern: str) -> list[str]:
    computed = [id_ for base in METRICS for id_ in SummaryOptions().ids_of(base)]
    # acc.* is the family of acc, which is part of it
    matches = [id_ for id_ in computed if any(fnmatchcase(i, pattern) for i in (id_, f"{id_}."))]
    if not matches:
        raise ValueError(f"no id of a metric matches {pattern!r:.60}; see `perdure list metrics`")
    return matches
