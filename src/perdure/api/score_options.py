"""How scores are summarized and what they mean, as `score` and the commands take it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ..metrics import ScoreScale, SummaryOptions, criteria_weights, parse_id, select_metric_ids
from ..record import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..metrics import RunsSummary, Summary

__all__ = ["make_options", "make_scale", "resolve_metrics", "select_metrics"]


def make_options(
    metrics: Sequence[str] | None = None,
    *,
    window: Sequence[int | None] = (10, 100, None),
    beta: int = 10,
    epsilon: float = 1.0,
    weights: Mapping[str, float] | None = None,
) -> SummaryOptions:
    """Return how to summarize for the given metrics; see `score` for the arguments.

    Example:
        >>> make_options(["wf5"]).windows
        (5, 10, 100, None)
    """
    if not (epsilon > 0 and math.isfinite(epsilon)):
        raise InputError(f"`epsilon=` is {epsilon:g}, expected a positive number")
    windows = [w for id_ in metrics or () if (w := parse_id(id_).arguments.get("window"))]
    only = None
    if metrics:
        # clstability is made of the spread over runs of each criterion, not of their score.
        criteria = criteria_weights(weights) if "clstability" in metrics else ()
        only = frozenset(metrics).union(criteria)
    return SummaryOptions(
        tuple(dict.fromkeys((*windows, *window))), beta, epsilon, weights, only=only
    )


def resolve_metrics(metrics: str | Sequence[str] | None) -> tuple[list[str] | None, list[str]]:
    """Return the ids that names, aliases and patterns stand for, and a note per alias.

    Example:
        >>> resolve_metrics(["aa", "bwt"]), resolve_metrics(None)
        ((['acc', 'bwt'], ['aa means acc']), (None, []))
    """
    if metrics is None:
        return None, []
    ids, _, notes = select_metric_ids([metrics] if isinstance(metrics, str) else metrics)
    return ids, notes


def make_scale(
    limits: tuple[float, float] | None, *, lower_is_better: bool = False
) -> ScoreScale | None:
    """Return the scale of scores, or None if nothing is stated: a run knows its own.

    Example:
        >>> make_scale((0, 10)).high
        10
    """
    if limits is None:
        return ScoreScale(-math.inf, math.inf, lower_is_better=True) if lower_is_better else None
    return ScoreScale(*limits, lower_is_better=lower_is_better)


def select_metrics(summary: Summary | RunsSummary, metrics: Sequence[str]) -> None:
    """Drop all but the given metrics; one that was not computed is undefined with a reason."""
    if metrics:
        summary.keep_only(metrics)
        for id_ in metrics:
            if id_ not in summary.metrics:
                summary.undefined.setdefault(id_, "not computed: see `beta=` and `window=`")
