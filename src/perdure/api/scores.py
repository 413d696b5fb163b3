"""Scoring in one call: every metric of an array, a file or a run folder."""

from __future__ import annotations

import math
import os
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

from ..metrics import (
    ACCURACY,
    ScoreMatrix,
    ScoreScale,
    Stream,
    SummaryOptions,
    criteria_weights,
    parse_id,
)
from ..metrics import summary as summarize
from ..record import InputError, InputOptions, read_input
from ..record.run_index import find_runs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Literal

    from numpy.typing import ArrayLike

    from ..metrics import RunsSummary, Setting, Summary

__all__ = ["make_matrix", "make_options", "make_scale", "score", "select_metrics"]


def score(
    source: str | Path | ArrayLike | ScoreMatrix | Stream,
    *,
    metrics: str | Sequence[str] | None = None,
    transposed: bool = False,
    percent: bool = False,
    upper: Literal["measured"] | None = None,
    classes: Sequence[float] | None = None,
    setting: Setting | None = None,
    initial: Sequence[float] | None = None,
    joint: Sequence[float] | None = None,
    single: Sequence[float] | None = None,
    sizes: Sequence[float] | None = None,
    range: tuple[float, float] | None = None,  # noqa: A002  (as the option is called)
    lower_is_better: bool = False,
    costs: str | Path | None = None,
    per_example: str | Path | None = None,
    weights: Mapping[str, float] | None = None,
    epsilon: float = 1.0,
    window: int | Sequence[int | None] = (10, 100, None),
    subsample: int = 1,
    beta: int = 10,
) -> Summary:
    """Return every metric that an array, a file or a run supports and, for the rest, why not.

    Args:
        source: A score matrix as an array or a file (row i is measured after learning task i), a
            points.csv, or a run folder.
        metrics: Ids of the metrics to compute; all if None.
        transposed: Rows are evaluated tasks and columns are trained tasks.
        percent: The scores of the matrix or log are percentages.
        upper: "measured" if zeros that fill the upper triangle of a matrix are measured scores.
        classes: Number of classes that each task introduces.
        setting: What is incremental: "class", "task" or "domain".
        initial: Scores of the untrained model, one per task.
        joint: Scores of a model trained on all tasks at once, one per task.
        single: Scores of models trained on a single task each, one per task.
        sizes: Number of test examples per task.
        range: Lowest and highest possible score, for scores that are not accuracies.
        lower_is_better: The scores are losses or errors.
        costs: A costs.csv.
        per_example: A folder of per-example results.
        weights: Weights of the criteria of clscore, by the names of the paper or by id.
        epsilon: Factor of ce.
        window: Evaluations in the windows of wf and wp; None is all of them.
        subsample: Use only every n-th evaluation of a points.csv.
        beta: Number of batches per task that lca considers.

    Example:
        >>> scores = score([[0.90, 0.10], [0.60, 0.85]], metrics=["acc", "bwt"])
        >>> scores.metrics["acc"], round(scores.metrics["bwt"], 3)
        (0.725, -0.3)
        >>> score([[90, 10], [60, 85]], percent=True).metrics["acc"]
        0.725
    """
    metrics = [metrics] if isinstance(metrics, str) else metrics
    window = [window] if isinstance(window, int) else window
    options = make_options(metrics, window=window, beta=beta, epsilon=epsilon, weights=weights)
    inputs = InputOptions(
        transposed=transposed, percent=percent, setting=setting,
        scale=make_scale(range, lower_is_better=lower_is_better), classes=_list(classes),
        sizes=_list(sizes), initial=_list(initial), joint=_list(joint),
        single=_list(single), subsample=subsample, upper=upper,
    )  # fmt: skip
    if isinstance(source, str | Path):
        summary = read_input(
            _single_path(source), inputs, costs=_path(costs), per_example=_path(per_example)
        ).summary(options)
    elif isinstance(source, Stream):
        _check_unused(inputs, "a Stream", costs=costs, per_example=per_example)
        summary = summarize(None, stream=source, options=options)
    else:
        if isinstance(source, ScoreMatrix):
            _check_unused(inputs, "a ScoreMatrix", costs=costs, per_example=per_example)
        else:
            log_only = InputOptions(subsample=inputs.subsample)
            _check_unused(log_only, "an array", costs=costs, per_example=per_example)
        matrix = source if isinstance(source, ScoreMatrix) else make_matrix(source, inputs)
        summary = summarize(matrix, options=options)
    select_metrics(summary, metrics or ())
    return summary


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


def _check_unused(inputs: InputOptions, kind: str, **files: object) -> None:
    """Raise InputError if something is given that has no effect on this kind of source."""
    defaults = InputOptions()
    names = {field.name: field.name for field in fields(inputs)} | {"scale": "range"}
    given = [n for f, n in names.items() if getattr(inputs, f) != getattr(defaults, f)]
    given += [name for name, value in files.items() if value is not None]
    if given:
        raise InputError(f"`{given[0]}=` has no effect on {kind}; leave it out, or score a file")


def make_matrix(scores: ArrayLike, inputs: InputOptions) -> ScoreMatrix:
    """Return an array as a matrix, with what is stated about it."""
    return ScoreMatrix(
        inputs.to_fractions(scores),
        transposed=inputs.transposed,
        scale=inputs.scale or ACCURACY,
        upper=inputs.upper,
        **inputs.matrix_fields(),
    )


def _single_path(source: str | Path) -> str:
    refs = find_runs(os.fspath(source))
    if len(refs) > 1:
        raise InputError(
            f"{source}: {len(refs)} runs, expected one; `perdure.score_groups` averages seeds and "
            "`perdure.compare` compares methods"
        )
    return refs[0].path


def _path(path: str | Path | None) -> Path | None:
    return None if path is None else Path(path)


def _list(values: Sequence[float] | None) -> list[float] | None:
    return None if values is None else list(values)


def select_metrics(summary: Summary | RunsSummary, metrics: Sequence[str]) -> None:
    """Drop all but the given metrics; one that was not computed is undefined with a reason."""
    if metrics:
        summary.keep_only(metrics)
        for id_ in metrics:
            if id_ not in summary.metrics:
                summary.undefined.setdefault(id_, "not computed: see `beta=` and `window=`")
