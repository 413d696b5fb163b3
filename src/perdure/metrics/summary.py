"""Everything the data supports, and for the rest why not."""

from __future__ import annotations

from contextlib import suppress
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from ..stats import mean_proportion_interval, wilson_interval
from .criteria import check_scores, clscore_of, criteria_weights
from .functional._value import UndefinedMetricError, Value
from .functional.accuracy import fixed_curve
from .functional.forgetting import forgetting_matrix
from .intervals.matrix_intervals import matrix_intervals
from .intervals.matrix_weights import LARGEST, LINEAR
from .intervals.stream_intervals import extreme_intervals, selection_bias
from .registry import METRICS, NEEDS, Metric
from .score_matrix import ACCURACY, ZERO_UPPER, ScoreMatrix, ScoreScale
from .stream import Stream
from .summary_types import CURVE_NAMES, Summary, SummaryOptions, listed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numpy.typing import ArrayLike, NDArray

    from .functional.costs import Costs
    from .per_example import PerExample

__all__ = ["summary"]

LONG = 200  # tasks; curves that cost T times their metric are left out beyond
LONGEST = 2000  # tasks; beyond, the forgetting matrix would be gigabytes of numbers
# Metrics that rise with another one and have their intervals from it.
MONOTONE = {
    "rem": "bwt.all",
    "bwt.positive": "bwt.all",
    "raa": "acc",
    "uraa": "acc",
    "raf": "forgetting.best",
    "uraf": "forgetting.best",
}


def summary(
    data: ScoreMatrix | Stream | ArrayLike | None = None,
    *,
    stream: Stream | None = None,
    costs: Costs | None = None,
    per_example: Mapping[str, PerExample] | None = None,
    per_example_at_ends: Mapping[str, PerExample] | None = None,
    options: SummaryOptions | None = None,
) -> Summary:
    """Return every metric that the data supports and, for the rest, the reason why not.

    Args:
        data: a score matrix (also as plain nested lists) or a stream.
        stream: evaluations during training, beside a matrix.
        costs: what each task cost.
        per_example: which examples were right at each evaluation, by task: gives intervals on
            extremes.
        per_example_at_ends: the same for the entries of the matrix, `steps` being its rows: gives
            intervals on bwt, forgetting and the like, and per task.
        options: windows, weights and the like.

    Example:
        >>> found = summary([[0.9, 0.1], [0.6, 0.8]])
        >>> round(found.metrics["bwt"], 6), found.undefined["fwt.gem"]
        (-0.3, "needs the untrained model's scores (initial)")
    """
    if isinstance(data, str | PathLike):
        raise TypeError(f"got {data!r}, expected scores; perdure.record.read_input reads files")
    if isinstance(data, Stream):
        if stream is not None:
            raise TypeError("two streams given, expected one")
        data, stream = None, data
    matrix = data if data is None or isinstance(data, ScoreMatrix) else ScoreMatrix(data)
    options = options or SummaryOptions()
    weights = criteria_weights(options.weights)
    if matrix is not None and stream is not None and matrix.scale != stream.scale:
        raise ValueError(f"matrix has scores of {matrix.scale}, stream of {stream.scale}")
    main = matrix if matrix is not None else stream
    found = Summary(tasks=(), scale=main.scale if main is not None else ACCURACY)
    if matrix is not None:
        found.tasks, found.notes = matrix.tasks, list(matrix.notes)
    if stream is not None and len(stream.names) > len(found.tasks):
        found.tasks = stream.names  # learned tasks first, as in the matrix, then others tested
    for full_id, metric, extra in _asked(options, weights):
        if metric.of == "matrix":
            _add(found, full_id, _on_matrix, metric, matrix)
        elif metric.of == "stream":
            _add(found, full_id, _on_stream, metric, stream, extra)
        elif metric.of == "costs":
            _add(found, full_id, _on_costs, metric, costs, extra)
    if matrix is not None:
        _matrix_extras(found, matrix, options)
        if per_example_at_ends and matrix.scale.is_accuracy and options.intervals:
            _example_intervals(found, matrix, per_example_at_ends, options.level)
    if stream is not None:
        _stream_extras(found, stream, per_example or {}, options)
    _fused(found, weights)
    if "ce" in found.metrics:
        found.notes.append(f"ce: epsilon = {options.epsilon:g}")
    if options.only is not None:
        found.keep_only(sorted(options.only))
    return found


def _fused(found: Summary, weights: Mapping[str, float]) -> None:
    """Add what is made of other metrics, with the weights that were used."""
    try:
        check_scores(weights, found.scale)
        found.metrics["clscore"] = clscore_of(found.metrics, weights)
    except UndefinedMetricError as reason:
        found.undefined["clscore"] = str(reason)
    found.undefined["clstability"] = "needs at least 2 runs, got 1"
    if "clscore" in found.metrics:
        shares = ", ".join(f"{id_} {weight:.3g}" for id_, weight in weights.items())
        found.notes.append(f"clscore: weights {shares}")


Parts = tuple[Value, "NDArray[np.float64] | None"]


def _add(
    found: Summary, id_: str, compute: Callable[..., Parts], metric: Metric, *arguments: Any
) -> None:
    """Compute one metric with its curve and keep it, or keep the reason why it is undefined."""
    try:
        value, curve = compute(metric, *arguments)
    except UndefinedMetricError as reason:
        found.undefined[id_] = str(reason)
        return
    sign = -1.0 if metric.level and found.scale.lower_is_better else 1.0
    found.metrics[id_] = sign * float(value)
    each = listed(sign * value.per_task)
    found.per_task[id_] = each + [None] * (len(found.tasks) - len(each))
    if curve is not None and not np.isnan(curve).all():
        found.curves[CURVE_NAMES.get(id_, id_)] = listed(sign * curve)


def _on_matrix(metric: Metric, matrix: ScoreMatrix | None) -> Parts:
    if matrix is None:
        raise UndefinedMetricError("needs a score matrix: the score on every task after each task")
    _check_scale(metric, matrix.scale)
    arguments = _matrix_arguments(metric, matrix)
    r = matrix.higher_is_better
    value = metric.function(r, **arguments)
    if metric.curve is not None:
        return value, metric.curve(r, **arguments)
    if len(r) > LONG:
        return value, None
    curve = np.full(len(r), np.nan)
    for k in range(len(r)):  # as if learning had stopped after task k
        with suppress(UndefinedMetricError):
            past = {name: given[: k + 1] for name, given in arguments.items()}
            curve[k] = metric.function(r[: k + 1, : k + 1], **past)
    return value, curve


def _matrix_arguments(metric: Metric, matrix: ScoreMatrix) -> dict[str, Any]:
    arguments: dict[str, Any] = {}
    for need in metric.needs:
        if need == "zero-shot" and matrix.setting == "class":
            raise UndefinedMetricError(
                "a class-incremental model cannot name classes it has not learned "
                "(Faber et al. 2023, sec. 3)"
            )
        if need in ("zero-shot", "unseen"):
            if matrix.upper == "zeros":
                raise UndefinedMetricError(ZERO_UPPER)
            continue
        if need == "setting":
            arguments["setting"] = matrix.setting or "class"
            continue
        given = getattr(matrix, need)
        if given is None:
            raise UndefinedMetricError(f"needs {NEEDS[need]}")
        scores = need in ("initial", "joint", "single")
        arguments[need] = matrix.scale.higher_is_better(given) if scores else given
    return arguments


def _on_stream(metric: Metric, stream: Stream | None, extra: dict[str, Any]) -> Parts:
    if stream is None:
        raise UndefinedMetricError("needs a stream: scores recorded while training (points.csv)")
    _check_scale(metric, stream.scale)
    value: Value = metric.function(stream, **extra)
    if value.curve is None and metric.curve and stream.spans:
        return value, metric.curve(stream, **extra)
    return value, value.curve if stream.spans else None


def _on_costs(metric: Metric, costs: Costs | None, extra: dict[str, Any]) -> Parts:
    if costs is None:
        raise UndefinedMetricError("needs what each task cost (costs.csv)")
    columns = [costs.column(need) for need in metric.needs]
    try:
        return metric.function(*columns, **extra), None
    except ValueError as error:
        raise UndefinedMetricError(str(error)) from None


def _check_scale(metric: Metric, scale: ScoreScale) -> None:
    if metric.scores == "accuracy" and not scale.is_accuracy:
        raise UndefinedMetricError("is made for accuracies from 0 to 1; these are other scores")
    if metric.scores == "not negative" and (scale.lower_is_better or scale.low < 0):
        raise UndefinedMetricError(
            "is made for scores that are never negative and better when larger"
        )


def _asked(
    options: SummaryOptions, weights: Mapping[str, float]
) -> Iterator[tuple[str, Metric, dict[str, Any]]]:
    """Yield every id to compute, with its metric and arguments."""
    only = options.only
    if only is not None and not only.isdisjoint(("clscore", "clstability")):
        only = only.union(weights)
    for id_, metric in METRICS.items():
        for full_id, extra in _instances(id_, options):
            if only is None or full_id in only:
                yield full_id, metric, extra


def _instances(id_: str, options: SummaryOptions) -> list[tuple[str, dict[str, Any]]]:
    """Return the ids under which a metric is computed, wf10 and wf100 for wf, with arguments."""
    if id_ == "ce":
        return [(id_, {"epsilon": options.epsilon})]
    if id_ in ("wf", "wp"):
        return [(f"{id_}{w or 'all'}", {"window": w}) for w in options.windows]
    if id_ == "lca":
        return [(f"lca{options.beta}", {"beta": options.beta})]
    return [(id_, {})]


def _matrix_extras(found: Summary, matrix: ScoreMatrix, options: SummaryOptions) -> None:
    measured = ~np.isnan(matrix.scores)
    if np.triu(measured, 1).any() and not np.tril(measured, -1).any():
        found.notes.append("only the upper half is filled: are rows tested tasks (--transposed)?")
    if matrix.scale.lower_is_better:
        found.notes.append("lower is better: levels are as given, changes count gains as positive")
    if matrix.classes is not None and matrix.setting is None:
        found.notes.append("raa, raf, uraa, uraf: no setting stated, taken as class-incremental")
    if len(matrix.tasks) > LONG:
        found.notes.append(
            f"more than {LONG} tasks: only the main curves are given, and no intervals"
        )
    if options.only is None:
        with suppress(UndefinedMetricError):
            found.curves["fixed"] = listed(fixed_curve(matrix.scores))
        if len(matrix.tasks) <= LONGEST:
            f = forgetting_matrix(matrix.higher_is_better)
            found.forgetting_matrix = [listed(row) for row in f]
    if matrix.sizes is None or not matrix.scale.is_accuracy or not options.intervals:
        return
    level = options.level
    then = matrix.sizes if matrix.learned_sizes is None else matrix.learned_sizes
    for id_, scores, sizes in (
        ("acc", matrix.scores[-1], matrix.sizes),
        ("acc.learning", matrix.scores.diagonal(), then),
    ):
        if id_ in found.metrics:
            found.intervals[id_] = mean_proportion_interval(scores, sizes, level=level)
            ends = wilson_interval(scores, sizes, level=level)
            found.per_task_intervals[id_] = [
                (float(low), float(high)) for low, high in zip(*ends, strict=True)
            ]
    if "acc.pooled" in found.metrics:
        low, high = wilson_interval(found.metrics["acc.pooled"], matrix.sizes.sum(), level=level)
        found.intervals["acc.pooled"] = (float(low), float(high))


def _example_intervals(
    found: Summary, matrix: ScoreMatrix, ends: Mapping[str, PerExample], level: float
) -> None:
    """Add intervals of matrix metrics, and of each task, from which examples were right."""
    wanted = {MONOTONE.get(id_, id_) for id_ in found.metrics}
    if len(matrix.tasks) > LONG or not wanted & {"acc.pooled", *LINEAR, *LARGEST}:
        return
    by_examples = matrix_intervals(ends, matrix.tasks, level=level)
    for id_ in found.metrics:
        base = MONOTONE.get(id_, id_)
        if base not in by_examples.intervals:
            continue
        change = _change_from(base, id_, matrix)
        found.intervals[id_] = change(by_examples.intervals[base])
        found.per_task_intervals[id_] = [
            None if ends is None else change(ends) for ends in by_examples.per_task[base]
        ]


def _change_from(
    base: str, id_: str, matrix: ScoreMatrix
) -> Callable[[tuple[float, float]], tuple[float, float]]:
    """Return how an interval of `base` becomes that of a metric that rises with it."""
    metric, source = METRICS[id_], METRICS[base]
    factor = 1.0
    if "classes" in metric.needs:
        one = np.ones_like(matrix.scores)  # a matrix whose acc, or forgetting, is 1
        one[-1] = base == "acc"
        factor = metric.function(one, **_matrix_arguments(metric, matrix))
    plus = 1.0 if id_ == "rem" else 0.0

    def change(ends: tuple[float, float]) -> tuple[float, float]:
        inside = (min(max(end, source.low), source.high) for end in ends)
        low, high = (min(max(factor * end + plus, metric.low), metric.high) for end in inside)
        return low, high

    return change


def _stream_extras(
    found: Summary, stream: Stream, hits: Mapping[str, PerExample], options: SummaryOptions
) -> None:
    if stream.periodicity is not None:
        found.notes.append(
            f"wf, wp: windows count evaluations; one every {stream.periodicity} iteration(s)"
        )
    if not stream.scale.is_accuracy or not options.intervals:
        return
    wanted = [id_ for id_ in found.metrics if id_ in ("min_acc", "wc_acc") or id_.startswith("wf")]
    reason = None
    if hits:
        intervals, reason = extreme_intervals(stream, hits, wanted, level=options.level)
        found.intervals |= intervals
    if reason:
        found.notes.append(f"extremes without an interval: {reason}")
    found.bias = selection_bias(stream, [id_ for id_ in wanted if id_ not in found.intervals])
