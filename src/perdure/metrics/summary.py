"""The summary of a run: every metric that its data supports, and reasons for the others."""

from __future__ import annotations

from contextlib import suppress
from os import PathLike
from typing import TYPE_CHECKING

import numpy as np

from .functional.accuracy import fixed_curve
from .functional.common import UndefinedMetricError, Value, not_measured
from .functional.forgetting import forgetting_matrix
from .registry import METRICS, parse_id
from .registry.metric import NEEDS, Metric
from .run_intervals import (
    add_accuracy_intervals,
    add_control_intervals,
    add_example_intervals,
    add_stream_intervals,
)
from .score_matrix import ACCURACY, REFERENCES, ZERO_UPPER, ScoreMatrix, ScoreScale
from .stream import Stream
from .summary_options import SummaryOptions, check_criteria_scale, clscore_of, criteria_weights
from .summary_types import CURVE_NAMES, Summary, to_list

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import ArrayLike, NDArray

    from .functional.costs import Costs
    from .score_matrix import ControlScores
    from .stream import PerExample

    ValueAndCurve = tuple[Value, NDArray[np.float64] | None]

__all__ = ["summary"]

MAX_TASKS_FOR_CURVES = 200  # beyond, curves that cost T times their metric are left out
MAX_TASKS_FOR_MATRIX = 2000  # beyond, the forgetting matrix would take gigabytes


def summary(
    data: ScoreMatrix | Stream | ArrayLike | None = None,
    *,
    stream: Stream | None = None,
    costs: Costs | None = None,
    control: ControlScores | None = None,
    per_example: Mapping[str, PerExample] | None = None,
    per_example_at_ends: Mapping[str, PerExample] | None = None,
    options: SummaryOptions | None = None,
) -> Summary:
    """Return every metric that the data supports and, for the others, the reason why not.

    Args:
        data: a score matrix (nested lists are accepted) or a stream.
        stream: evaluations during training, in addition to a matrix.
        costs: what each task cost.
        control: scores of tasks that are evaluated but never trained, for retention.
        per_example: per task, which examples were right at each evaluation. Intervals on extremes
            are computed from it.
        per_example_at_ends: the same for the entries of the matrix, where `steps` are its rows.
            Intervals on bwt, forgetting and others, and per task, are computed from it.
        options: windows, weights and others.

    Example:
        >>> result = summary([[0.9, 0.1], [0.6, 0.8]])
        >>> round(result.metrics["bwt"], 6), result.undefined["fwt.gem"]
        (-0.3, "needs the untrained model's scores (`initial=`)")
    """
    matrix, stream = _split_data(data, stream)
    options = options or SummaryOptions()
    weights = criteria_weights(options.weights)
    scored = next((part for part in (matrix, stream, control) if part is not None), None)
    result = Summary(tasks=(), scale=scored.scale if scored is not None else ACCURACY)
    if matrix is not None:
        result.tasks, result.notes = matrix.tasks, list(matrix.notes)
    if stream is not None and len(stream.names) > len(result.tasks):
        result.tasks = stream.names  # learned tasks first, as in the matrix, then the others
    if control is not None:
        result.control = control.tasks
    for id_, metric, arguments in _requested_metrics(options, weights):
        try:
            value, curve = _compute(
                metric, arguments, matrix, stream, costs, control, curves=options.curves
            )
        except UndefinedMetricError as reason:
            result.undefined[id_] = _name_tasks(
                reason, matrix if metric.input != "control" else control
            )
        else:
            _add_value(result, id_, metric, value, curve)
    if control is not None and control.scale.is_accuracy and options.intervals:
        add_control_intervals(result, control, options.level)
    if matrix is not None:
        _add_matrix_results(result, matrix, options, per_example_at_ends)
    if stream is not None:
        if stream.periodicity is not None:
            result.notes.append(f"wf, wp: windows count evaluations, {stream.describe_spacing()}")
        if stream.scale.is_accuracy and options.intervals:
            add_stream_intervals(result, stream, per_example or {}, options.level)
    _add_clscore(result, weights)
    if "ce" in result.metrics:
        factor = f"epsilon = {options.epsilon:g}"
        result.notes.append(f"ce: the cost of one pass is multiplied by {factor} (`epsilon=`)")
    if options.only is not None:
        result.keep_only(sorted(options.only))
    return result


def _name_tasks(reason: UndefinedMetricError, scores: ScoreMatrix | ControlScores | None) -> str:
    """Return why a metric is undefined, with the names of tasks instead of their numbers."""
    if scores is not None and reason.task is not None:
        return str(reason).replace(f"task {reason.task}", scores.tasks[reason.task], 1)
    if reason.entry is None or scores is None:
        return str(reason)
    after, task = (scores.tasks[k] for k in reason.entry)
    return not_measured(after, task)


def _split_data(
    data: ScoreMatrix | Stream | ArrayLike | None, stream: Stream | None
) -> tuple[ScoreMatrix | None, Stream | None]:
    """Return the matrix and the stream among the arguments of `summary`."""
    if isinstance(data, str | PathLike):
        raise TypeError(f"got {data!r}, expected scores; perdure.record.read_input reads files")
    if isinstance(data, Stream):
        if stream is not None:
            raise TypeError("two streams given, expected one")
        return None, data
    matrix = data if data is None or isinstance(data, ScoreMatrix) else ScoreMatrix(data)
    if matrix is not None and stream is not None and matrix.scale != stream.scale:
        raise ValueError(f"matrix has scores of {matrix.scale}, stream of {stream.scale}")
    return matrix, stream


def _requested_metrics(
    options: SummaryOptions, weights: Mapping[str, float]
) -> Iterator[tuple[str, Metric, dict[str, float | None]]]:
    """Yield every id to compute, with its metric and arguments."""
    only = options.only
    if only is not None and not only.isdisjoint(("clscore", "clstability")):
        only = only.union(weights)
    for base, metric in METRICS.items():
        if metric.input == "runs":
            continue
        for id_ in options.ids_of(base):
            if only is None or id_ in only:
                arguments: dict[str, float | None] = {**parse_id(id_).arguments}
                yield id_, metric, {"epsilon": options.epsilon} if base == "ce" else arguments


def _compute(
    metric: Metric,
    arguments: dict[str, float | None],
    matrix: ScoreMatrix | None,
    stream: Stream | None,
    costs: Costs | None,
    control: ControlScores | None,
    *,
    curves: bool,
) -> ValueAndCurve:
    """Return a metric and, if `curves`, its curve, or raise UndefinedMetricError."""
    if metric.input == "control":
        return _compute_on_control(metric, control)
    if metric.input == "matrix":
        if matrix is None:
            raise UndefinedMetricError("needs a score matrix: scores on all tasks after each task")
        return _compute_on_matrix(metric, matrix, curves=curves)
    if metric.input == "stream":
        if stream is None:
            raise UndefinedMetricError("needs a stream: scores recorded during training")
        _check_scale(metric, stream.scale)
        value = _call(metric, stream, **arguments)
        if not curves:
            return value, None
        if value.curve is None and metric.curve and stream.spans:
            return value, metric.curve(stream, **arguments)
        return value, value.curve if stream.spans else None
    if costs is None:
        raise UndefinedMetricError("needs the costs of each task (`costs=`, a costs.csv)")
    columns = [costs.column(need) for need in metric.needs]
    try:
        return _call(metric, *columns, **arguments), None
    except ValueError as error:
        raise UndefinedMetricError(str(error)) from None


def _compute_on_matrix(metric: Metric, matrix: ScoreMatrix, *, curves: bool) -> ValueAndCurve:
    _check_scale(metric, matrix.scale)
    arguments = _matrix_arguments(metric, matrix)
    r = matrix.higher_is_better
    value = _call(metric, r, **arguments)
    if curves and metric.curve is not None:
        return value, metric.curve(r, **arguments)
    if not curves or len(r) > MAX_TASKS_FOR_CURVES:
        return value, None
    curve = np.full(len(r), np.nan)
    curve[-1] = value
    for k in range(len(r) - 1):  # as if learning had stopped after task k
        with suppress(UndefinedMetricError):
            first = {name: values[: k + 1] for name, values in arguments.items()}
            curve[k] = metric.function(r[: k + 1, : k + 1], **first)
    return value, curve


def _compute_on_control(metric: Metric, control: ControlScores | None) -> ValueAndCurve:
    if control is None:
        raise UndefinedMetricError(f"needs {NEEDS['control']}")
    _check_scale(metric, control.scale)
    scores = control.scale.higher_is_better(control.scores)
    initial = control.scale.higher_is_better(control.initial)
    curve = np.full(len(scores), np.nan)
    for k in range(len(scores)):
        with suppress(UndefinedMetricError):
            curve[k] = metric.function(scores[: k + 1], initial)
    return _call(metric, scores, initial), curve


def _call(metric: Metric, *arguments: object, **options: object) -> Value:
    value = metric.function(*arguments, **options)
    assert isinstance(value, Value)
    return value


def _matrix_arguments(metric: Metric, matrix: ScoreMatrix) -> dict[str, NDArray[np.float64] | str]:
    """Return what a metric needs besides the scores, or raise UndefinedMetricError."""
    arguments: dict[str, NDArray[np.float64] | str] = {}
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
        values = getattr(matrix, need)
        if values is None:
            raise UndefinedMetricError(f"needs {NEEDS[need]}")
        is_score = need in REFERENCES
        arguments[need] = matrix.scale.higher_is_better(values) if is_score else values
    return arguments


def _check_scale(metric: Metric, scale: ScoreScale) -> None:
    if metric.accepts == "accuracy" and not scale.is_accuracy:
        raise UndefinedMetricError("is defined for accuracies from 0 to 1; these are other scores")
    if metric.accepts == "not negative" and (scale.lower_is_better or scale.low < 0):
        raise UndefinedMetricError(
            "is defined for scores that are never negative and better when higher"
        )


def _add_value(
    result: Summary, id_: str, metric: Metric, value: Value, curve: NDArray[np.float64] | None
) -> None:
    """Add a metric with its values per task and its curve, in the direction of the scores."""
    sign = -1.0 if metric.is_score and result.scale.lower_is_better else 1.0
    result.metrics[id_] = sign * float(value)
    per_task = to_list(sign * value.per_task)
    result.per_task[id_] = per_task + [None] * (len(result.tasks_of(id_)) - len(per_task))
    if curve is not None and not np.isnan(curve).all():
        result.curves[CURVE_NAMES.get(id_, id_)] = to_list(sign * curve)


def _add_matrix_results(
    result: Summary,
    matrix: ScoreMatrix,
    options: SummaryOptions,
    per_example: Mapping[str, PerExample] | None,
) -> None:
    """Add what a matrix has besides the metrics: notes, the forgetting matrix and intervals."""
    measured = ~np.isnan(matrix.scores)
    tasks = len(matrix.tasks)
    if np.triu(measured, 1).any() and not np.tril(measured, -1).any():
        result.notes.append(
            "only the upper half is filled: if rows are evaluation tasks, use `transposed=True`"
        )
    if matrix.scale.lower_is_better:
        result.notes.append("lower is better: scores are as given, changes count gains as positive")
    if matrix.classes is not None and matrix.setting is None:
        result.notes.append("raa, raf, uraa, uraf: no setting given, assumed class-incremental")
    if tasks > MAX_TASKS_FOR_CURVES:
        result.notes.append(
            f"more than {MAX_TASKS_FOR_CURVES} tasks: only the main curves, and no intervals"
        )
    if options.only is None:
        if options.curves:
            with suppress(UndefinedMetricError):
                result.curves["fixed"] = to_list(fixed_curve(matrix.scores))
        if tasks <= MAX_TASKS_FOR_MATRIX:
            forgetting = forgetting_matrix(matrix.higher_is_better)
            result.forgetting_matrix = [to_list(row) for row in forgetting]
    if matrix.scale.is_accuracy and options.intervals:
        add_accuracy_intervals(result, matrix, options.level)
        if per_example and tasks <= MAX_TASKS_FOR_CURVES:
            add_example_intervals(
                result, matrix, per_example, options.level,
                lambda id_: {**_matrix_arguments(METRICS[id_], matrix)},
            )  # fmt: skip


def _add_clscore(result: Summary, weights: Mapping[str, float]) -> None:
    """Add the score that combines other metrics, with a note of the weights."""
    try:
        check_criteria_scale(weights, result.scale)
        result.metrics["clscore"] = clscore_of(result.metrics, weights)
        shares = ", ".join(f"{id_} {weight:.3g}" for id_, weight in weights.items())
        result.notes.append(f"clscore: weights {shares}")
    except UndefinedMetricError as reason:
        result.undefined["clscore"] = str(reason)
    result.undefined["clstability"] = "needs at least 2 runs, got 1"
