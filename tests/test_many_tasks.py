"""Cost by the number of tasks: what is asked is computed and nothing else, in one pass over it."""

from __future__ import annotations

import statistics
import sys
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from perdure.metrics import (
    CRITERIA,
    METRICS,
    ControlScores,
    PerExample,
    ScoreMatrix,
    Stream,
    Summary,
    SummaryOptions,
    UndefinedMetricError,
    summary,
)
from perdure.record import read_points
from perdure.report.live.curves import make_run_curves, summarize_points

from .cli_helpers import COSTS, run, scored
from .test_summary import ids, some_costs

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

HEADER = "step,trained,tested,kind,score,n\n"


def results_of(tasks: dict[str, range]) -> dict[str, PerExample]:
    rng = np.random.default_rng(0)
    return {
        name: PerExample.pack(steps, rng.random((len(steps), 60)) < 0.7)
        for name, steps in tasks.items()
    }


def everything(options: SummaryOptions) -> Summary:
    """Summarise a run that has everything: per-example results, sizes, costs, references."""
    results = results_of({"a": range(1, 41), "b": range(21, 41)})
    ends = results_of({"a": range(2), "b": range(2)})
    matrix = ScoreMatrix(
        np.array([ends[name].accuracy() for name in "ab"]).T, ["a", "b"], initial=[0.1, 0.1],
        joint=[0.9, 0.9], single=[0.9, 0.8], offline=[0.9, 0.9], classes=[2, 2], sizes=[60, 60],
    )  # fmt: skip
    stream = Stream(
        {name: (mine.steps, mine.accuracy()) for name, mine in results.items()},
        [("a", 20), ("b", 40)], before={"a": 0.1, "b": 0.15}, sizes={"a": 60, "b": 60},
    )  # fmt: skip
    control = results_of({"c": range(3), "d": range(3)})
    accuracies = np.array([mine.accuracy() for mine in control.values()]).T
    return summary(
        matrix,
        stream=stream,
        costs=some_costs(),
        control=ControlScores(["c", "d"], accuracies[0], accuracies[1:], control),
        per_example=results,
        per_example_at_ends=ends,
        options=options,
    )


@pytest.mark.parametrize("id_", ids())
def test_one_metric_alone_is_as_among_all(id_: str) -> None:
    all_, alone = everything(SummaryOptions()), everything(SummaryOptions(only=frozenset({id_})))
    all_.keep_only([id_])
    assert all_.metrics or id_ == "clstability"
    assert alone == all_


def log(tasks: int, seed: int = 0) -> str:
    """A points.csv in which two evaluations per task test it and five others; all at the end."""
    rng = np.random.default_rng(seed)
    lines = []
    for k in range(tasks):
        for step in (2 * k + 1, 2 * k + 2):
            tested = np.unique(np.append(rng.integers(0, k + 1, 5), k))
            lines += [
                f"{step},t{k},t{task},probe,{rng.integers(0, 1001) / 1000},1000\n"
                for task in tested
            ]
    for task in range(tasks):
        score = rng.integers(0, 1001) / 1000
        lines.append(f"{2 * tasks},t{tasks - 1},t{task},full,{score},1000\n")
    return HEADER + "".join(lines)


MADE_OF = {"clscore": set(CRITERIA.values()), "clstability": set(CRITERIA.values())}


@pytest.mark.parametrize("id_", METRICS)
def test_what_is_not_asked_is_not_computed(
    id_: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: Any, **__: Any) -> Any:
        raise AssertionError("nobody asked for it")

    for other in METRICS.keys() - MADE_OF.get(id_, {id_}):
        unused = replace(METRICS[other], function=never, curve=never)
        monkeypatch.setitem(METRICS, other, unused)
    for name in ("fixed_curve", "forgetting_matrix"):
        monkeypatch.setattr(sys.modules["perdure.metrics.summary"], name, never)
    if id_ not in ("min_acc", "wc_acc"):
        monkeypatch.setattr("perdure.metrics.stream_extremes._minimum_biases", never)
    (tmp_path / "points.csv").write_text(log(5))
    costs = COSTS
    for k, name in enumerate("abcde"):
        costs = costs.replace(f"\n{name},", f"\nt{k},")
    (tmp_path / "costs.csv").write_text(costs)
    asked = {"wf": "wf10", "wp": "wp10", "lca": "lca0"}.get(id_, id_)
    for path in (tmp_path, tmp_path / "points.csv"):
        answer = run("score", path, "--metrics", asked, "--beta", "0")
        assert answer.code in (0, 1), answer.err


# A visit or a task more must not cost more for every task there is.


def calls(action: Callable[[], object]) -> int:
    """Return how many functions are called, Python's own included."""
    count = 0

    def counted(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(counted)
    try:
        action()
    except UndefinedMetricError:
        pass
    finally:
        sys.setprofile(None)
    return count


EXTRA: dict[str, dict[str, Any]] = {
    "wf": {"window": 10}, "wp": {"window": None}, "lca": {"beta": 0},
}  # fmt: skip


def actions(tasks: int) -> dict[str, Callable[[], object]]:
    text = log(tasks)
    points = read_points(text, "points.csv")
    matrix = points.matrix()

    streamed = points.stream()

    def of_stream(function: Callable[..., object], **extra: object) -> object:
        return function(replace(streamed), **extra)  # a copy: what was found is reservoir_sample

    made: dict[str, Callable[[], object]] = {}
    for id_, metric in METRICS.items():
        extra = EXTRA.get(id_, {})
        if metric.input == "stream":
            made[id_] = partial(of_stream, metric.function, **extra)
            if metric.curve is not None:
                made[f"{id_} curve"] = partial(of_stream, metric.curve, **extra)
    return made | {
        "read": lambda: read_points(text, "points.csv"),
        "stream": lambda: points.stream(),
        "matrix": lambda: points.matrix(),
        "grid": lambda: replace(streamed).grid,
        "summary": lambda: summary(matrix, stream=replace(streamed)),
        "list": lambda: summarize_points(points, streamed),
        "view": lambda: make_run_curves(streamed, 1, 1),
    }


def test_the_cost_grows_with_the_points_and_not_with_their_square() -> None:
    few, many = actions(100), actions(400)
    for name in few:
        assert calls(many[name]) < 5 * calls(few[name]), name


def test_many_tasks_have_the_values_of_plain_loops(tmp_path: Path) -> None:
    tasks = 2000
    (tmp_path / "points.csv").write_text(log(tasks))
    check_plain_loops(tmp_path / "points.csv", tasks, "acc,bwt,min_acc,wc_acc,gap.depth,wfall,aaa")


@pytest.mark.slow  # a matrix of 10^8 entries
def test_ten_thousand_tasks(tmp_path: Path) -> None:
    (tmp_path / "points.csv").write_text(log(10_000))
    check_plain_loops(tmp_path / "points.csv", 10_000, None)


def check_plain_loops(path: Path, tasks: int, only: str | None) -> None:
    found = scored(path, *(["--metrics", only] if only else []))["metrics"]
    scores: dict[int, dict[int, float]] = {k: {} for k in range(tasks)}
    final, learned = {}, {}
    for line in path.read_text().splitlines()[1:]:
        step, trained, tested, kind, score, _ = line.replace("t", "").split(",")
        if kind == "probe":
            scores[int(tested)][int(step)] = float(score)
            if trained == tested:
                learned[int(tested)] = float(score)
        else:
            final[int(tested)] = float(score)
            scores[int(tested)].setdefault(int(step), float(score))
    learned[tasks - 1] = final[tasks - 1]
    older = range(tasks - 1)
    last = scores[tasks - 1][2 * tasks]
    lows = [min(a for t, a in scores[k].items() if t > 2 * k + 2) for k in older]
    depths = []
    for k in older:
        before, mine = scores[k][2 * k + 2], {t: a for t, a in scores[k].items() if t > 2 * k + 2}
        for visit in sorted({(t - 1) // 2 for t in mine}):
            during = [a for t, a in mine.items() if (t - 1) // 2 == visit]
            depths.append(before - min(during))
            before = during[-1]
    drops = []
    for mine in scores.values():
        highest = largest = 0.0
        for a in mine.values():
            highest = max(highest, a)
            largest = max(largest, highest - a)
        drops.append(largest)
    by_step: dict[int, list[float]] = {}
    for mine in scores.values():
        for t, a in mine.items():
            by_step.setdefault(t, []).append(a)
    expected = {
        "acc": statistics.fmean(final.values()),
        "bwt": statistics.fmean(final[k] - learned[k] for k in older),
        "min_acc": statistics.fmean(lows),
        "wc_acc": (sum(lows) + last) / tasks,
        "gap.depth": statistics.fmean(depths),
        "wfall": statistics.fmean(drops),
        "aaa": statistics.fmean(statistics.fmean(each) for each in by_step.values()),
    }
    assert {id_: found[id_] for id_ in expected} == pytest.approx(expected, abs=1e-12)


def test_more_tasks_than_a_matrix_holds_leave_what_the_stream_says(tmp_path: Path) -> None:
    from perdure.record import points

    path = tmp_path / "points.csv"
    path.write_text(log(30))
    whole = scored(path)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(points, "MAX_TASKS", 29)
        found = scored(path)
    assert (
        found["undefined"]["acc"] == "30 tasks were learned: a score matrix is made for 29 at most"
    )
    assert found["metrics"].items() <= whole["metrics"].items()
    assert {METRICS[id_].input for id_ in whole["metrics"].keys() - found["metrics"].keys()} == {
        "matrix"
    }
