"""Estimates with one-sided bounds of what requirements are about, and by which method.

Paired where both evaluations have per-example results, otherwise from the numbers of examples; or
over several seeds: what other seeds of the same method would give.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..metrics import UndefinedMetricError, difference_of_runs, parse_id
from ..record import InputError
from ..stats import (
    MAX_EXACT_PAIRS,
    OneSidedBounds,
    accuracy_bounds,
    add_bounds,
    mean_accuracy_bounds,
    mean_drop_bounds,
    t_interval,
    welch_t,
)
from .checked_run import count_changes, pair_examples

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..metrics import PerExample, ScoreScale
    from .checked_run import CheckedRun, TaskScore

__all__ = [
    "NO_INTERVAL",
    "Estimate",
    "check_seed_counts",
    "difference_estimate",
    "drop_estimate",
    "metric_estimate",
    "seeds_estimate",
]

CHANGES = {"forgetting.learned": 1.0, "bwt": -1.0}  # means of drops since learning, by their sign
EXACT = f"exact for up to {MAX_EXACT_PAIRS} discordant pairs"
PAIRED = f"paired on examples (Tango's score interval; {EXACT})"
PAIRED_LINEAR = "paired on examples (score interval)"
EXTREME = "per-example results (interval for extremes)"
WILSON = "number of examples (Wilson's interval; exact for few right or wrong answers)"
UNPAIRED = "unpaired, from the numbers of examples (Newcombe's interval)"
INDEPENDENT = "unpaired, from the intervals of both runs"
POINT = "point value only, no interval"
NO_INTERVAL = (
    "there is no interval for it: {}; record per-example results (`per_example=True`), or decide "
    "by the value alone (`point_values=True`)"
)
MIN_SEEDS = 3


@dataclass(frozen=True)
class Estimate:
    """A value, its bounds for an error of alpha on each side, and the method behind them.

    `examples` is the smallest number of examples of a task, 0 where unknown. `evaluations` counts
    the evaluations of each of `tasks` that the value depends on, for the noise of the scorer.
    """

    value: float
    bounds: Callable[[float], OneSidedBounds]
    method: str
    examples: int = 0
    tasks: tuple[str, ...] = ()
    evaluations: int = 1
    unit: str = "examples"


def point_estimate(value: float) -> Estimate:
    """Return a value that counts as known exactly."""
    return Estimate(value, lambda alpha: OneSidedBounds(value, value, value), POINT)  # noqa: ARG005


def metric_estimate(run: CheckedRun, id_: str, *, point_values: bool = False) -> Estimate:
    """Return the estimate of a metric of one run; raises UndefinedMetricError with the reason."""
    value, reason = run.metric(id_)
    if value is None:
        raise UndefinedMetricError(reason)
    estimate = _accuracy(run, id_) or _change(run, id_) or _from_intervals(run, id_, value)
    if estimate is not None:
        return estimate
    if point_values:
        return point_estimate(value)
    raise UndefinedMetricError(NO_INTERVAL.format(_missing(run, id_)))


def difference_estimate(
    run: CheckedRun, base: CheckedRun, id_: str, *, point_values: bool = False
) -> Estimate:
    """Return the estimate of a metric of a run minus that of the baseline; raises likewise."""
    for one in (run, base):
        value, reason = one.metric(id_)
        if value is None:
            fix = "; give the run folder as `baseline=`, a frozen one has only scores at task ends"
            raise UndefinedMetricError(f"{one.name}: {reason}{fix if one.frozen else ''}")
    if paired := _paired_accuracy(run, base, id_) or _paired_metric(run, base, id_):
        return paired
    new, old = (metric_estimate(one, id_, point_values=point_values) for one in (run, base))
    if POINT in (new.method, old.method):
        return point_estimate(new.value - old.value)

    def bounds(alpha: float) -> OneSidedBounds:
        return add_bounds([new.bounds(alpha), old.bounds(alpha)], [1, -1])

    return Estimate(
        new.value - old.value, bounds, INDEPENDENT, min(new.examples, old.examples), new.tasks,
        2 * new.evaluations,
    )  # fmt: skip


def drop_estimate(
    task: str,
    before: TaskScore,
    after: TaskScore,
    scale: ScoreScale,
    pair: tuple[PerExample, PerExample] | None,
    *,
    point_values: bool = False,
) -> Estimate:
    """Return the estimate of how far the score of a task has dropped; raises likewise."""
    drop = before.score - after.score
    if scale.lower_is_better:
        drop = -drop
    if pair is not None:
        count = count_changes(pair[0][0], pair[1][0])
        return _paired_mean([count], [1.0], (task,))
    if scale.is_accuracy and before.n and after.n:
        parts = [(round(one.score * one.n), one.n) for one in (before, after)]

        def bounds(alpha: float) -> OneSidedBounds:
            return add_bounds([accuracy_bounds(*part, alpha=alpha) for part in parts], [1, -1])

        return Estimate(drop, bounds, UNPAIRED, min(before.n, after.n), (task,), 2)
    if point_values:
        return point_estimate(drop)
    what = f"of {task!r} neither per-example results nor the numbers of examples are known"
    raise UndefinedMetricError(NO_INTERVAL.format(what))


def _missing(run: CheckedRun, id_: str) -> str:
    if not run.scale.is_accuracy:
        return "these scores are no accuracies"
    if run.source.per_example or run.source.per_example_at_ends:
        return f"the recorded results do not give one for {id_}"
    return "no per-example results are recorded"


def _paired_mean(
    counts: Sequence[tuple[int, int, int]], shares: Sequence[float], tasks: Sequence[str],
    sign: float = 1.0,
) -> Estimate:  # fmt: skip
    """Return the estimate of a mean drop, or with `sign` -1 of a mean gain."""

    def bounds(alpha: float) -> OneSidedBounds:
        drop, low, high, _ = mean_drop_bounds(counts, shares, alpha=alpha)
        return OneSidedBounds(drop, low, high) if sign > 0 else OneSidedBounds(-drop, -high, -low)

    drops = [s * (lost - got) / n for s, (lost, got, n) in zip(shares, counts, strict=True)]
    return Estimate(
        sign * sum(drops) + 0.0, bounds, PAIRED, min(n for _, _, n in counts), tuple(tasks), 2
    )


def _accuracy(run: CheckedRun, id_: str) -> Estimate | None:
    """Return the estimate of a mean accuracy of different tasks from the numbers of examples."""
    matrix = run.source.matrix
    if matrix is None or not run.scale.is_accuracy or matrix.sizes is None:
        return None
    scores, sizes = matrix.scores[-1], matrix.sizes
    if id_ == "acc.learning":
        scores = matrix.scores.diagonal()
        sizes = sizes if matrix.learned_sizes is None else matrix.learned_sizes
    elif id_ not in ("acc", "acc.pooled"):
        return None
    shares = sizes / sizes.sum() if id_ == "acc.pooled" else np.full(len(sizes), 1 / len(sizes))
    counts = [(round(score * n), int(n)) for score, n in zip(scores, sizes, strict=True)]

    def bounds(alpha: float) -> OneSidedBounds:
        return mean_accuracy_bounds(counts, shares.tolist(), alpha=alpha)

    value = float((shares * scores).sum())
    return Estimate(value, bounds, WILSON, int(sizes.min()), matrix.tasks)


def _change(run: CheckedRun, id_: str) -> Estimate | None:
    """Return the estimate of a mean change since each task was learned."""
    matrix = run.source.matrix
    if id_ not in CHANGES or matrix is None or not run.scale.is_accuracy:
        return None
    tasks, sign = matrix.tasks[:-1], CHANGES[id_]
    shares = [1 / len(tasks)] * len(tasks)
    pairs = [(run.first[task], run.last[task]) for task in tasks]
    if all(_same_examples(*pair) for pair in pairs):
        counts = [count_changes(a.right[0], b.right[0]) for a, b in pairs if a.right and b.right]
        return _paired_mean(counts, shares, tasks, sign)
    if not all(one.n and two.n for one, two in pairs):
        return None
    parts = [(round(one.score * one.n), one.n) for pair in pairs for one in pair]
    weights = [sign * side / len(tasks) for _ in tasks for side in (1, -1)]

    def bounds(alpha: float) -> OneSidedBounds:
        return add_bounds([accuracy_bounds(*part, alpha=alpha) for part in parts], weights)

    value = sum(w * right / n for w, (right, n) in zip(weights, parts, strict=True))
    return Estimate(value, bounds, UNPAIRED, min(n for _, n in parts), tasks, 2)


def _same_examples(one: TaskScore, two: TaskScore) -> bool:
    first, second = one.right, two.right
    if first is None or second is None or first.examples != second.examples:
        return False
    if first.ids is None or second.ids is None:
        return first.ids is second.ids
    return bool((first.ids == second.ids).all())


def _from_intervals(run: CheckedRun, id_: str, value: float) -> Estimate | None:
    """Return the estimate with the interval that `perdure score` prints, if it has one."""
    if run.interval(id_, 0.9) is None:
        return None

    def bounds(alpha: float) -> OneSidedBounds:
        ends = run.interval(id_, 1 - 2 * alpha)
        assert ends is not None
        return OneSidedBounds(value, *ends)

    stream = parse_id(id_).base in ("min_acc", "wc_acc", "wf")
    results = run.source.per_example if stream else run.source.per_example_at_ends
    return Estimate(
        value, bounds, EXTREME if stream else PAIRED_LINEAR,
        min((mine.examples for mine in results.values()), default=0), run.learned,
        1 if id_.startswith("acc") or parse_id(id_).base in ("min_acc", "wc_acc") else 2,
    )  # fmt: skip


def _paired_accuracy(run: CheckedRun, base: CheckedRun, id_: str) -> Estimate | None:
    """Return the difference of the last accuracies, paired on examples."""
    if id_ not in ("acc", "acc.pooled") or not run.learned or run.learned != base.learned:
        return None
    if any(one.last[task].right is None for one in (run, base) for task in run.learned):
        return None
    pairs = [pair_examples(task, base, run) for task in run.learned]
    counts = [count_changes(before[0], after[0]) for before, after in pairs]
    total = sum(n for _, _, n in counts)
    shares = [n / total if id_ == "acc.pooled" else 1 / len(counts) for _, _, n in counts]
    return _paired_mean(counts, shares, run.learned, sign=-1.0)


def _paired_metric(run: CheckedRun, base: CheckedRun, id_: str) -> Estimate | None:
    """Return the difference of a matrix metric, paired on examples, where the results allow it."""
    ends = run.source.per_example_at_ends, base.source.per_example_at_ends
    if not run.learned or not all(list(one) == list(run.learned) for one in ends):
        return None
    try:
        difference = difference_of_runs(*ends, run.learned)
    except UndefinedMetricError:
        return None
    if id_ not in difference.intervals:
        return None

    def bounds(alpha: float) -> OneSidedBounds:
        again = difference_of_runs(*ends, run.learned, level=1 - 2 * alpha)
        return OneSidedBounds(again.metrics[id_], *again.intervals[id_])

    examples = min(mine.examples for mine in ends[0].values())
    return Estimate(
        difference.metrics[id_], bounds, PAIRED_LINEAR, examples, run.learned,
        2 if id_.startswith("acc") else 4,
    )  # fmt: skip


def check_seed_counts(runs: int, baselines: int) -> None:
    """Raise InputError if one side is several seeds and the other a single run."""
    if baselines and (runs > 1) != (baselines > 1):
        raise InputError(
            f"{runs} and {baselines} runs are compared, expected one run and one baseline, or "
            "several seeds of both (`baseline=[…]`)"
        )


def seeds_estimate(values: Sequence[float], base: Sequence[float] = ()) -> Estimate:
    """Return the mean over seeds, minus that of the baseline's seeds, with bounds over seeds.

    Raises UndefinedMetricError where seeds cannot show how much others would differ.
    """
    if min(len(values), len(base) or MIN_SEEDS) < MIN_SEEDS:
        raise UndefinedMetricError(f"it takes {MIN_SEEDS} seeds or more, got {len(values)}")
    if not max(np.ptp(values), np.ptp(base) if base else 0.0):
        raise UndefinedMetricError(
            f"all {len(values)} seeds have the same value {values[0]:g}, so they do not show how "
            "much other seeds would differ; check one run, whose bounds are about examples"
        )
    if base:
        test = welch_t(values, base)
        method = f"Welch's t over {len(values)} and {len(base)} seeds"

        def bounds(alpha: float) -> OneSidedBounds:
            return OneSidedBounds(*welch_t(values, base, level=1 - 2 * alpha)[:3])

        return Estimate(test.difference, bounds, method, min(len(values), len(base)), unit="seeds")
    mean = sum(values) / len(values)

    def bounds_of_mean(alpha: float) -> OneSidedBounds:
        return OneSidedBounds(mean, *t_interval(values, level=1 - 2 * alpha))

    method = f"Student's t over {len(values)} seeds"
    return Estimate(mean, bounds_of_mean, method, len(values), unit="seeds")
