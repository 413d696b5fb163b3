"""`perdure plan`: before a run, what an evaluation costs and what its extremes will be worth."""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
from cyclopts import Parameter

from ..metrics import Stream, UndefinedMetricError, min_acc, wf
from ..record import InputError, read_input
from ..record.points import INITIAL, PROBE
from ..report.tables import TextTable
from ..stats import plan as plan_evaluations
from ..stats import schedule_steps
from ._options import IntList, IntOrAll, IntPair, PositiveInt, TableFormat
from ._output import STDIN, print_json, print_lines, print_notes, print_tables

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from ..record import Points, ScoreInput
    from ..stats import EvaluationPlan

__all__ = ["plan"]

Number = Annotated[float, Parameter(allow_leading_hyphen=True)]


class _Run(NamedTuple):
    """What a recorded run says about the next one."""

    name: str
    points: Points
    iterations: list[int]
    train_seconds: float | None
    example_seconds: float | None
    no_times: list[str]
    notes: list[str]


def plan(
    *,
    iterations: IntList | None = None,
    tasks: PositiveInt | None = None,
    n: IntList = (100, 1000),
    every: IntList = (1, 10, 100, 1000),
    burst: IntPair | None = None,
    accuracy: Number = 0.9,
    changed: Number | None = None,
    window: IntOrAll = 10,
    train_ms: Number | None = None,
    example_us: Number | None = None,
    from_run: str | None = None,
    format_: TableFormat = "text",
) -> None:
    """Print what testing n examples every so many iterations will cost, and what it will show.

    A row for each n and schedule. Before a run: nothing is measured, unless --from-run names a run.

    Args:
        iterations: of each task: 500, or 500,300,200.
        tasks: how many tasks are learned.
        n: examples of each task seen so far, at each evaluation.
        every: iterations between evaluations.
        burst: FIRST,THEN: test every step up to FIRST after a switch, then after gaps of 2, 4,
            8, … and at last every THEN iterations.
        accuracy: the true one to assume.
        changed: share of a fixed subset's answers that differ between two evaluations, at most:
            makes the bounds on the bias smaller.
        window: evaluations in the window of wf, or all.
        train_ms: milliseconds of a training iteration.
        example_us: microseconds to test one example.
        from_run: a recorded run whose tasks, iterations and times are taken where not given here;
            also shows what it would have shown if tested less often.
        format_: how to print the table.
    """
    schedules: list[dict[str, Any]] = [{"every": k} for k in every]
    schedules += [{"burst": burst}] if burst is not None else []
    seconds = [_seconds(train_ms, "--train-ms", 1e-3), _seconds(example_us, "--example-us", 1e-6)]
    run = _read(from_run) if from_run is not None else None
    length = _length(iterations, tasks, run)
    if run is not None:
        known = (run.train_seconds, run.example_seconds)
        seconds = [b if a is None else a for a, b in zip(seconds, known, strict=True)]
    found = [
        plan_evaluations(
            **length, n=size, **schedule, accuracy=accuracy, changed=changed, window=window,
            train_seconds=seconds[0], example_seconds=seconds[1],
        )
        for size in n for schedule in schedules
    ]  # fmt: skip
    seen = [_seen(run, schedule, window) if run else {} for schedule in schedules]
    _print(found, seen * len(n), _notes(found[0], run, seen), format_)


def _read(path: str) -> _Run:
    name = "standard input" if path == STDIN else path
    source = read_input("-" if path == STDIN else path, pipe=sys.stdin.buffer)
    if source.points is None:
        raise InputError(f"{name}: a matrix, expected a run folder or a points.csv")
    ends = [0, *(last for _, last in source.points.spans())]
    if len(ends) == 1:
        raise InputError(f"{name}: no line says which task was trained, expected a run with tasks")
    iterations = [b - a for a, b in pairwise(ends)]
    why: list[str] = []
    train = _time(lambda: _total(source, "seconds_train") / ends[-1], why)
    example = _time(lambda: _total(source, "seconds_eval") / _tested(source.points), why)
    return _Run(name, source.points, iterations, train, example, why, source.notes)


def _time(measured: Callable[[], float], why: list[str]) -> float | None:
    try:
        return measured()
    except UndefinedMetricError as reason:
        why.append(str(reason))
        return None


def _total(source: ScoreInput, column: str) -> float:
    if source.costs is None:
        raise UndefinedMetricError("needs a costs.csv, which is not there")
    return float(source.costs.column(column).sum())


def _tested(points: Points | None) -> int:
    assert points is not None
    if not (points.n > 0).all():
        raise UndefinedMetricError(
            "needs to know how many examples were tested (column n of points.csv)"
        )
    return int(points.n.sum())


def _length(
    iterations: tuple[int, ...] | None, tasks: int | None, run: _Run | None
) -> dict[str, Any]:
    """Return iterations and tasks, from the options or else from the run."""
    if iterations is not None:
        return _given_tasks(iterations, tasks, run)
    if run is None:
        raise InputError("how long is a task? Give --iterations and --tasks, or --from-run RUN")
    return _tasks_of_run(run, tasks)


def _given_tasks(
    iterations: tuple[int, ...], tasks: int | None, run: _Run | None
) -> dict[str, Any]:
    """Return iterations and tasks as the options say; the run only says how many tasks."""
    if len(iterations) > 1:
        if tasks not in (None, len(iterations)):
            raise InputError(f"--tasks is {tasks}, expected {len(iterations)} as in --iterations")
        return {"iterations": list(iterations)}
    if tasks is None and run is None:
        raise InputError("how many tasks? Give --tasks, or --iterations with one number a task")
    return {"iterations": iterations[0], "tasks": tasks or len(run.iterations if run else ())}


def _tasks_of_run(run: _Run, tasks: int | None) -> dict[str, Any]:
    names = [task for task, _ in run.points.spans()]
    again = next((task for task in names if names.count(task) > 1), None)
    if again is not None:
        raise InputError(f"{run.name}: task {again!r} returns; give --iterations and --tasks")
    if tasks in (None, len(names)):
        return {"iterations": run.iterations}
    if len(set(run.iterations)) > 1:
        raise InputError(
            f"--tasks is {tasks}, {run.name} has {len(names)} of different lengths; "
            "give --iterations"
        )
    return {"iterations": run.iterations[0], "tasks": tasks}


def _seen(run: _Run, schedule: dict[str, Any], window: int | None) -> dict[str, float]:
    """Return what the run would have shown on this schedule; nothing if it was not tested so."""
    points = run.points
    wanted = schedule_steps(run.iterations, **schedule)
    recorded = np.unique(points.step[points.kind != INITIAL])
    if not (points.scale.is_accuracy and np.isin(wanted, recorded).all()):
        return {}
    stream = _on_schedule(points, wanted)
    found = {}
    for id_, value in (
        ("min_acc", partial(min_acc, stream)),
        (_wf(window), partial(wf, stream, window)),
    ):
        with suppress(UndefinedMetricError):  # too few evaluations are left
            found[id_] = float(value())
    return found


def _on_schedule(points: Points, steps: NDArray[np.int64]) -> Stream:
    """Return the stream with probes at these steps only, as `Points.stream` does by thinning."""
    keep = (points.kind != PROBE) | np.isin(points.step, steps)
    columns = ("step", "trained", "tested", "kind", "score", "n")
    kept = replace(points, **{name: getattr(points, name)[keep] for name in columns}).stream()
    none = (np.empty(0, dtype=np.int64), np.empty(0))
    tasks = {name: kept.tasks.get(name, none) for name in points.stream().names}
    return Stream(tasks, points.spans(), scale=points.scale)


def _notes(found: EvaluationPlan, run: _Run | None, seen: Sequence[dict[str, float]]) -> list[str]:
    drop = _wf(found.window)
    true = f"where the true accuracy stays at {found.accuracy:g}, with fixed or redrawn subsets"
    if found.changed is not None:
        true = true.replace("or redrawn subsets", f"subsets, {found.changed:g} of answers changing")
    notes = [
        f"bias: min_acc reads low and {drop} high by at most this on average, {true}",
        f"±: half a {found.level:.0%} interval, which reaches further towards the bias",
        f"{drop}: its window counts evaluations, so it spans more iterations where they are fewer",
    ]
    if found.seconds_train is not None:
        notes.append(f"training takes {_short(found.seconds_train)} seconds")
    times = {"--train-ms": found.seconds_train, "--example-us": found.seconds_eval}
    missing = " and ".join(option for option, value in times.items() if value is None)
    if missing and run is None:
        notes.append(f"times are not known: give {missing}, or --from-run RUN")
    elif missing and run is not None:
        why = "; ".join(dict.fromkeys(run.no_times))
        notes.append(f"times are not known from {run.name}: {why}; give {missing}")
    return notes if run is None else [*notes, *_notes_on_run(run, seen)]


def _notes_on_run(run: _Run, seen: Sequence[dict[str, float]]) -> list[str]:
    sizes = np.unique(run.points.n[run.points.kind == PROBE])
    n = f"n = {sizes[0]}" if len(sizes) == 1 and sizes[0] else "its own n"
    notes = [f"seen: what {run.name} shows on each schedule, with {n} in every row"]
    if not run.points.scale.is_accuracy:
        notes = [f"seen is left out: the scores of {run.name} are not accuracies"]
    elif not all(seen):
        notes.append(f"seen is empty where {run.name} lacks evaluations that the schedule has")
    return [*notes, *run.notes]


def _print(
    found: Sequence[EvaluationPlan],
    seen: Sequence[dict[str, float]],
    notes: list[str],
    format_: str,
) -> None:
    if format_ == "json":
        rows = [row.as_dict() | {"seen": mine} for row, mine in zip(found, seen, strict=True)]
        print_json({"plans": rows, "notes": notes})
        return
    table = [_row(row, mine, format_) for row, mine in zip(found, seen, strict=True)]
    header = [name for name in table[0] if any(row[name] for row in table)]
    cells = [[row[name] for name in header] for row in table]
    grid = TextTable(header, cells, right=set(header))
    if format_ == "text":  # on a terminal too: rich would cut digits off to make columns fit
        print_lines(*grid.text().split("\n"))
    else:
        print_tables([grid], format_)
    print_notes(notes, format_)


def _row(found: EvaluationPlan, seen: dict[str, float], format_: str) -> dict[str, str]:
    """Return the cells of a row by column; empty where not known."""
    exact = format_ == "csv"

    def shown(value: float | None, short: Callable[[float], str]) -> str:
        return "" if value is None else repr(float(value)) if exact else short(value)

    first, then = found.burst[:2] if found.burst is not None else (0, 0)
    drop = _wf(found.window)
    row = {
        "n": str(found.n),
        "every": f"burst {first},{then}" if found.every is None else str(found.every),
        "evaluations": str(sum(found.evaluations)),
        "ratio": shown(found.ratio, lambda value: f"{value:.4g}"),
        "examples": str(found.examples),
        "seconds": shown(found.seconds_eval, _short),
        "share": shown(found.share, lambda value: f"{value:.1%}"),
    }
    for id_, bias, half in (
        ("min_acc", found.bias_min_acc, found.half_min_acc),
        (drop, found.bias_wf, found.half_wf),
    ):
        row[f"{id_} bias"] = shown(bias, "{:.4f}".format)
        row[f"{id_} ±"] = shown(half, "{:.4f}".format)
        row[f"{id_} seen"] = shown(seen.get(id_), "{:.4f}".format)
    return row


def _wf(window: int | None) -> str:
    return f"wf{window or 'all'}"


def _short(seconds: float) -> str:
    return f"{seconds:.1f}" if seconds >= 1 else f"{seconds:.2g}"


def _seconds(given: float | None, option: str, unit: float) -> float | None:
    if given is None:
        return None
    if not 0 <= given < float("inf"):
        raise InputError(f"{option} is {given:g}, expected a number of at least 0")
    return given * unit
