"""Comparing methods in one call: means over seeds, ranks, and a test of every pair."""

from __future__ import annotations

import math
import os
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING

from .._display import count_of
from .._suggestions import suggest_names
from ..metrics import UndefinedMetricError, compare_methods, difference_of_runs, options_for
from ..record import InputError, InputOptions, detect_options, read_ref
from ..record.comparability import (
    SELECT_PART,
    check_same_scale,
    check_same_tasks,
    describe_differences,
    explain_missing,
    explain_mixture,
    merge_notes,
    pair_runs,
    select_finished,
)
from ..record.group_names import format_order
from ..record.grouping import find_groups
from ..report.tables import ComparisonReport
from ..report.tables.comparison_tables import ExampleComparison
from ..report.tables.study import COLUMNS, CONTROL_COLUMNS
from ..stats import find_pair_test
from .options import resolve_metrics

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from ..metrics import Summary
    from ..record import ScoreInput
    from ..record.grouping import Groups, Scores
    from ..record.run_index import RunRef
    from ..stats import IntervalMethod, PairTestName

    Seed = int | str
    Summaries = dict[str, dict[Seed, Summary]]
    Runs = dict[str, dict[Seed, RunRef]]

__all__ = ["compare"]

MAX_EXAMPLE_COMPARISONS = 5  # methods of one run each: nobody reads the tables of more pairs


def compare(
    *groups: str | Path | Scores,
    metrics: str | Sequence[str] | None = None,
    test: PairTestName = "t",
    unpaired: bool = False,
    against: str | None = None,
    alpha: float = 0.05,
    interval: IntervalMethod = "t",
    level: float = 0.95,
    finished: bool = False,
    unfinished: bool = False,
    force: bool = False,
    pool: bool = False,
    inputs: InputOptions | None = None,
) -> ComparisonReport:
    r"""Return the comparison of several methods: means over seeds, ranks and tests of all pairs.

    Args:
        groups: NAME=PATH,PATH… or PATH: run folders, folders of runs, score matrices, points.csv,
            or patterns. Runs without a name that differ only in the seed are one method. Or scores:
            a dict by method of arrays of shape (seeds, T, T), or of what `repeat` returns.
        metrics: Ids of the metrics to compare by; the usual ones if None.
        test: Test of every pair, paired by seed: "t", "permutation" or "wilcoxon"; "welch" is the
            unpaired t-test.
        unpaired: Do not pair runs by seed.
        against: Compare the other methods with this one only.
        alpha: Significance level after Holm's correction.
        interval: Interval over seeds: Student's t, or the BCa bootstrap.
        level: Confidence level of the intervals.
        finished: Leave unfinished runs out.
        unfinished: Include unfinished runs with the tasks they have finished.
        force: Compare runs of different scenarios, settings or tasks, or unequal numbers of files.
        pool: Average runs under one NAME that differ in more than the seed.
        inputs: How to read files that are not run folders.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> folder = Path(tempfile.mkdtemp())
        >>> for name, last in {"er": 0.8, "ewc": 0.5}.items():
        ...     for seed in range(3):
        ...         text = f"0.9,\n{last + seed / 100},0.8\n"
        ...         _ = (folder / f"{name}{seed}.csv").write_text(text)
        >>> report = compare(f"er={folder}/er*", f"ewc={folder}/ewc*", metrics=["acc"])
        >>> round(report.metrics["acc"].means["er"].mean, 3)
        0.805
        >>> er = [[[0.9], [0.8, 0.8]], [[0.9], [0.81, 0.8]]]  # two seeds, the lower triangles
        >>> ewc = [[[0.9], [0.5, 0.8]], [[0.9], [0.52, 0.8]]]
        >>> compare({"er": er, "ewc": ewc}, metrics=["acc"]).paired_by
        'file order'
    """
    for name, value in (("alpha", alpha), ("level", level)):
        if not 0 < value < 1:
            raise InputError(f"`{name}=` is {value:g}, expected a number between 0 and 1")
    if finished and unfinished:
        raise InputError("`finished=True` and `unfinished=True` exclude each other; choose one")
    if not groups:
        raise InputError("nothing to compare; name runs, folders of runs or files")
    metrics, aliases = resolve_metrics(metrics)
    ids: Sequence[str] = metrics or (*COLUMNS, *CONTROL_COLUMNS)
    methods, notes = _find_methods(
        [os.fspath(group) if isinstance(group, str | os.PathLike) else group for group in groups],
        finished=finished,
        unfinished=unfinished,
        force=force,
        pool=pool,
    )
    if against is not None and against not in methods:
        raise InputError(
            f"`against=` is {against!r:.60}; {suggest_names(against, methods)}expected one of the "
            f"methods: {', '.join(methods)}"
        )
    unpaired = not find_pair_test(test, unpaired=unpaired).paired
    runs, paired_by = _unpaired(methods) if unpaired else pair_runs(methods, force=force)
    options = {name: detect_options(list(mine.values()), inputs) for name, mine in runs.items()}
    summaries = {
        name: {seed: _summarize(run, options[name], ids) for seed, run in by_seed.items()}
        for name, by_seed in runs.items()
    }
    if not metrics and not any(one.control for mine in summaries.values() for one in mine.values()):
        ids = COLUMNS
    scale = check_same_scale(summaries, runs)
    notes += check_same_tasks(summaries, runs, force=force) + describe_differences(methods)
    notes += merge_notes(summaries)
    fewest = min(map(len, runs.values()))
    if interval == "bca" and fewest < 10:
        notes.append(f"BCa intervals of {fewest} seeds are too narrow; it takes about ten")
    by_order = any(len({run.order for run in mine.values()}) > 1 for mine in runs.values())
    paths = {name: {seed: run.path for seed, run in mine.items()} for name, mine in runs.items()}
    if by_order:
        paired_by, paths = "task order", {n: _paths_per_order(mine) for n, mine in runs.items()}
        notes.append(
            "the runs are in several task orders: means, intervals and tests are over the means of "
            "each order, because the runs of one order are not independent"
        )
    report = ComparisonReport(
        {}, paths, paired_by, alpha, interval, level, scale, test, unpaired, against, notes=notes,
        subject=_describe_subject(methods, summaries),
        run_folder=next(
            (run.path for group in methods.values() for run in group if run.ours), None
        ),
    )  # fmt: skip
    _add_metrics(report, summaries, runs, ids, by_order=by_order)
    report.example_comparisons = _compare_examples(runs, level=level)
    report.notes += aliases
    return report


def _find_methods(
    groups: Sequence[str | Scores], *, finished: bool, unfinished: bool, force: bool, pool: bool
) -> tuple[Groups, list[str]]:
    """Return the runs of each method and notes about them; raise if they are not comparable."""
    methods, notes = find_groups(groups, pool=pool, orders_together=not pool)
    done, open_ = select_finished(methods)
    if open_ and not (finished or unfinished):
        raise InputError(
            f"unfinished: {_first_three(open_)}; expected finished runs; `finished=True` leaves "
            "them out, `unfinished=True` includes the tasks they have finished"
        )
    if open_ and finished:
        notes.append(f"unfinished and left out: {_first_three(open_)}")
        methods = done
    if len(methods) < 2:
        what = (
            "; ".join(f"{name}, {count_of(len(runs), 'run')}" for name, runs in methods.items())
            or "none"
        )
        raise InputError(
            f"one group only ({what}), expected two or more methods; name them: er=PATH ewc=PATH, "
            "or see `perdure score` for one"
        )
    mixed = explain_mixture([run for runs in methods.values() for run in runs])
    if mixed and not force:
        raise InputError(f"{mixed}; {SELECT_PART}, or use `force=True`")
    return methods, [*notes, *([mixed] if mixed else [])]


def _first_three(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
    return ", ".join(paths[:3]) + more


def _unpaired(methods: Groups) -> tuple[Runs, str]:
    """Return the runs of each method by seed, or by keys that no two methods share."""
    alone = {name: pair_runs({name: runs}) for name, runs in methods.items()}
    if all(by == "seed" for _, by in alone.values()):
        return {name: runs[name] for name, (runs, _) in alone.items()}, "seed"
    return {
        name: {f"{name} {k}": run for k, run in enumerate(runs[name].values())}
        for name, (runs, _) in alone.items()
    }, "file order"


def _summarize(run: RunRef, inputs: InputOptions, ids: Sequence[str]) -> Summary:
    if run.summary is not None:
        return run.summary
    if run.ours:  # a run states its own scale
        inputs = replace(inputs, scale=None)
    return read_ref(run, inputs, per_example=False).summary(options_for(ids))


def _describe_subject(methods: Groups, summaries: Summaries) -> str:
    """Return scenario, setting and number of tasks in one line, as far as they are known."""
    runs = [run for group in methods.values() for run in group]
    scenarios = dict.fromkeys(run.scenario for run in runs if run.scenario)
    settings = dict.fromkeys(run.setting for run in runs if run.setting)
    tasks = sorted({len(run.tasks) for by_seed in summaries.values() for run in by_seed.values()})
    parts = [*scenarios, *(f"{setting}-incremental" for setting in settings)]
    counted = count_of(tasks[0], "task") if len(tasks) == 1 else f"{tasks[0]} to {tasks[-1]} tasks"
    return ", ".join([*parts, counted])


def _add_metrics(
    report: ComparisonReport,
    summaries: Summaries,
    runs: Runs,
    ids: Sequence[str],
    *,
    by_order: bool,
) -> None:
    """Add the comparison by each metric, or the reason why there is none."""
    for id_ in ids:
        if reason := explain_missing(id_, summaries, runs):
            report.undefined[id_] = reason
            continue
        values = {
            name: {seed: run.metrics[id_] for seed, run in by_seed.items()}
            for name, by_seed in summaries.items()
        }
        if by_order:
            values = {name: _mean_per_order(mine, runs[name]) for name, mine in values.items()}
        report.metrics[id_] = compare_methods(
            id_, values, scale=report.scale, alpha=report.alpha, interval=report.interval,
            level=report.level, test=report.test, unpaired=report.unpaired, against=report.against,
        )  # fmt: skip


def _mean_per_order(values: Mapping[Seed, float], runs: Mapping[Seed, RunRef]) -> dict[Seed, float]:
    """Return the mean over the seeds of each task order, by the order."""
    orders: dict[Seed, list[float]] = {}
    for key, value in values.items():
        orders.setdefault(format_order(runs[key].order), []).append(value)
    return {order: math.fsum(several) / len(several) for order, several in orders.items()}


def _paths_per_order(runs: Mapping[Seed, RunRef]) -> dict[Seed, str]:
    paths: dict[Seed, list[str]] = {}
    for run in runs.values():
        paths.setdefault(format_order(run.order), []).append(run.path)
    return {order: ", ".join(several) for order, several in paths.items()}


def _compare_examples(runs: Runs, *, level: float) -> list[ExampleComparison]:
    """Return the differences of all pairs if every method is one run with per-example results."""
    single = {name: list(by_seed.values()) for name, by_seed in runs.items()}
    if len(single) > MAX_EXAMPLE_COMPARISONS or not all(
        len(refs) == 1 and refs[0].is_folder for refs in single.values()
    ):
        return []
    try:
        sources = {name: read_ref(refs[0]) for name, refs in single.items()}
    except InputError as error:  # in per-example results: everything else has been read before
        return [ExampleComparison(*pair, reason=str(error)) for pair in combinations(single, 2)]
    if not any(source.per_example_at_ends for source in sources.values()):
        return []
    return [_compare_pair(*pair, sources, level) for pair in combinations(sources, 2)]


def _compare_pair(
    first: str, second: str, sources: Mapping[str, ScoreInput], level: float
) -> ExampleComparison:
    comparison = ExampleComparison(first, second, level=level)
    for name in (first, second):
        if sources[name].matrix is None:
            comparison.reason = f"{name} has no score matrix: {sources[name].no_matrix}"
            return comparison
        if not sources[name].per_example_at_ends:
            comparison.reason = (
                f"{name} has no record of which examples were right at the ends of tasks"
            )
            return comparison
    matrix = sources[first].matrix
    assert matrix is not None
    try:
        comparison.difference = difference_of_runs(
            sources[first].per_example_at_ends, sources[second].per_example_at_ends, matrix.tasks,
            level=level,
        )  # fmt: skip
    except UndefinedMetricError as reason:
        comparison.reason = str(reason)
    return comparison
