"""`perdure plan`: what evaluation will cost in a run, and how far its extremes can be trusted."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Annotated, NamedTuple

import numpy as np
from cyclopts import Parameter

from ..api.recorded_runs import read_reference_run, scores_on_schedule
from ..metrics import format_id
from ..record import InputError
from ..record.points import PROBE
from ..report.tables import TextTable
from ..stats import plan as plan_evaluations
from ..stats.schedules import parse_share
from ._options import EveryList, IntList, IntOrAll, IntPair, PositiveInt, TableFormat
from ._output import STDIN, print_json, print_notes, print_tables

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..api.recorded_runs import ReferenceRun
    from ..stats import EvaluationPlan

    Scores = dict[str, float]

__all__ = ["plan"]

Number = Annotated[float, Parameter(allow_leading_hyphen=True)]


class _TaskLengths(NamedTuple):
    """Iterations of each task, or of every one of `tasks` tasks."""

    iterations: int | list[int]
    tasks: int | None = None


def plan(
    *,
    iterations: IntList | None = None,
    tasks: PositiveInt | None = None,
    n: IntList = (100, 1000),
    every: EveryList = (1, 10, 100, 1000),
    burst: IntPair | None = None,
    accuracy: Number = 0.9,
    changed: Number | None = None,
    window: IntOrAll = 10,
    train_ms: Number | None = None,
    example_us: Number | None = None,
    from_run: Annotated[str | None, Parameter(metavar="PATH")] = None,
    format_: TableFormat = "text",
) -> None:
    """Print what evaluating n examples every k iterations will cost, and how precise it will be.

    The table has a row per subset size and schedule. Nothing is trained or measured; `--from-run`
    takes tasks and times from a recorded run.

    Args:
        iterations: Number of iterations per task: 500, or 500,300,200.
        tasks: Number of tasks.
        n: Number of examples of each task seen so far in each evaluation; one or more sizes.
        every: Number of iterations between evaluations; one or more schedules. A share of the
            time, such as `10%`, is shown as the number of iterations that keeps to it on average.
        burst: FIRST,THEN: evaluate every iteration up to FIRST after a task switch, then after
            gaps of 2, 4, 8, … iterations, and finally every THEN iterations.
        accuracy: Assumed true accuracy.
        changed: Largest fraction of the answers on a fixed subset that differ between two
            evaluations. Tightens the bounds on the bias.
        window: Number of evaluations in the window of wf.
        train_ms: Milliseconds per training iteration.
        example_us: Microseconds to evaluate one example.
        from_run: Run folder or points.csv whose tasks, iterations and times are used where you do
            not set them. The table then also shows what this run would have shown on each schedule.
        format_: Output format.
    """
    train_seconds = _seconds(train_ms, "--train-ms", 1e-3)
    example_seconds = _seconds(example_us, "--example-us", 1e-6)
    run = None
    if from_run is not None:
        run = read_reference_run("-" if from_run == STDIN else from_run, sys.stdin.buffer)
        train_seconds = run.train_seconds if train_seconds is None else train_seconds
        example_seconds = run.example_seconds if example_seconds is None else example_seconds
    lengths, limit = _task_lengths(iterations, tasks, run), run.largest_set if run else None
    sizes = tuple(dict.fromkeys(min(size, limit or size) for size in n))
    make_plan = partial(
        plan_evaluations, lengths.iterations, tasks=lengths.tasks, accuracy=accuracy,
        changed=changed, window=window, train_seconds=train_seconds,
        example_seconds=example_seconds,
    )  # fmt: skip
    plans = []
    for size in sizes:
        plan_size = partial(make_plan, n=size)
        plans += [_plan_share(plan_size, k) if isinstance(k, str) else plan_size(every=k)
                  for k in every]  # fmt: skip
        plans += [plan_size(burst=burst)] if burst is not None else []
    seen: list[Scores] = [
        scores_on_schedule(run, every=row.every, burst=row.burst and burst, window=window)
        if run
        else {}
        for row in plans
    ]
    notes = _notes(plans[0], run, seen)
    if run is not None and sizes != n:
        notes.append(f"n: at most {limit}, as the largest evaluation set of {run.name} has")
    _print(plans, seen, notes, format_)


def _plan_share(make_plan: Callable[..., EvaluationPlan], share: str) -> EvaluationPlan:
    """Return the plan of the densest schedule that takes at most a share of the time."""
    limit = parse_share(share)
    low, high = 1, 10**9
    if make_plan(every=1).share is None:
        raise InputError(
            f"--every is {share}, which needs the times: give --train-ms and --example-us, or "
            "--from-run RUN"
        )
    while low < high:
        middle = (low + high) // 2
        taken = make_plan(every=middle).share
        low, high = (low, middle) if taken is not None and taken <= limit else (middle + 1, high)
    return make_plan(every=low)


def _task_lengths(
    iterations: tuple[int, ...] | None, tasks: int | None, run: ReferenceRun | None
) -> _TaskLengths:
    """Return iterations and tasks, from the options or else from the run."""
    if iterations is None:
        if run is None:
            raise InputError("how long is a task? Give --iterations and --tasks, or --from-run RUN")
        return _task_lengths_of_run(run, tasks)
    if len(iterations) > 1:
        if tasks not in (None, len(iterations)):
            raise InputError(f"--tasks is {tasks}, expected {len(iterations)} as in --iterations")
        return _TaskLengths(list(iterations))
    if tasks is None and run is None:
        raise InputError("how many tasks? Give --tasks, or --iterations with one number per task")
    return _TaskLengths(iterations[0], tasks or len(run.iterations if run else ()))


def _task_lengths_of_run(run: ReferenceRun, tasks: int | None) -> _TaskLengths:
    names = [task for task, _ in run.points.spans()]
    repeated = next((task for task in names if names.count(task) > 1), None)
    if repeated is not None:
        raise InputError(f"{run.name}: task {repeated!r} returns; give --iterations and --tasks")
    if tasks in (None, len(names)):
        return _TaskLengths(run.iterations)
    if len(set(run.iterations)) > 1:
        raise InputError(
            f"--tasks is {tasks}, {run.name} has {len(names)} of different lengths; "
            "give --iterations"
        )
    return _TaskLengths(run.iterations[0], tasks)


def _notes(plan_: EvaluationPlan, run: ReferenceRun | None, seen: Sequence[Scores]) -> list[str]:
    drop = format_id("wf", plan_.window)
    subsets = "fixed or resampled subsets"
    if plan_.changed is not None:
        subsets = f"fixed subsets, {plan_.changed:g} of answers changing"
    notes = [
        (
            f"bias: min_acc reads low and {drop} high by at most this on average, where the true "
            f"accuracy stays at {plan_.accuracy:g}, with {subsets}"
        ),
        f"±: half a {plan_.level:.0%} interval, which reaches further towards the bias",
        f"{drop}: its window counts evaluations, so it spans more iterations where they are fewer",
    ]
    if plan_.seconds_train is not None:
        notes.append(f"training takes {_short(plan_.seconds_train)} seconds")
    times = {"--train-ms": plan_.seconds_train, "--example-us": plan_.seconds_eval}
    missing = " and ".join(option for option, value in times.items() if value is None)
    if missing and run is None:
        notes.append(f"times are not known: give {missing}, or --from-run RUN")
    elif missing and run is not None:
        reasons = "; ".join(dict.fromkeys(run.missing_times))
        notes.append(f"times are not known from {run.name}: {reasons}; give {missing}")
    return notes if run is None else [*notes, *_notes_on_run(run, seen)]


def _notes_on_run(run: ReferenceRun, seen: Sequence[Scores]) -> list[str]:
    sizes = np.unique(run.points.n[run.points.kind == PROBE])
    n = f"n = {sizes[0]}" if len(sizes) == 1 and sizes[0] else "its own n"
    notes = [f"seen: what {run.name} shows on each schedule, with {n} in every row"]
    if not run.points.scale.is_accuracy:
        notes = [f"seen is left out: the scores of {run.name} are not accuracies"]
    elif not all(seen):
        notes.append(f"seen is empty where {run.name} lacks evaluations that the schedule has")
    return [*notes, *run.notes]


def _print(
    plans: Sequence[EvaluationPlan], seen: Sequence[Scores], notes: list[str], format_: str
) -> None:
    if format_ == "json":
        print_json(
            {
                "plans": [
                    row.to_dict() | {"seen": scores}
                    for row, scores in zip(plans, seen, strict=True)
                ],
                "notes": notes,
            }
        )
        return
    rows = [
        _row(row, scores, exact=format_ == "csv") for row, scores in zip(plans, seen, strict=True)
    ]
    header = [name for name in rows[0] if any(row[name] for row in rows)]
    cells = [[row[name] for name in header] for row in rows]
    table = TextTable(header, cells, right=set(header), keys=2)  # n and every
    print_tables([table], format_)
    print_notes(notes, format_)


def _row(plan_: EvaluationPlan, seen: Scores, *, exact: bool) -> dict[str, str]:
    """Return the cells of a row by column; a cell is empty if its value is unknown."""

    def cell(value: float | None, format_: Callable[[float], str]) -> str:
        return "" if value is None else repr(float(value)) if exact else format_(value)

    first, then = plan_.burst[:2] if plan_.burst is not None else (0, 0)
    row = {
        "n": str(plan_.n),
        "every": f"burst {first},{then}" if plan_.every is None else str(plan_.every),
        "evaluations": str(sum(plan_.evaluations)),
        "ratio": cell(plan_.ratio, lambda value: f"{value:.4g}"),
        "examples": str(plan_.examples),
        "seconds": cell(plan_.seconds_eval, _short),
        "share": cell(plan_.share, lambda value: f"{value:.1%}"),
    }
    for id_, bias, half in (
        ("min_acc", plan_.bias_min_acc, plan_.half_min_acc),
        (format_id("wf", plan_.window), plan_.bias_wf, plan_.half_wf),
    ):
        row[f"{id_} bias"] = cell(bias, "{:.4f}".format)
        row[f"{id_} ±"] = cell(half, "{:.4f}".format)
        row[f"{id_} seen"] = cell(seen.get(id_), "{:.4f}".format)
    return row


def _short(seconds: float) -> str:
    return f"{seconds:.1f}" if seconds >= 1 else f"{seconds:.2g}"


def _seconds(value: float | None, option: str, unit: float) -> float | None:
    if value is None:
        return None
    if not 0 <= value < float("inf"):
        raise InputError(f"{option} is {value:g}, expected a number of at least 0")
    return value * unit
