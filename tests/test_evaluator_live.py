"""Live numbers are, after every step, what the metrics make of what was recorded so far."""

from __future__ import annotations

import csv
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

import perdure
from perdure.metrics import (
    ScoreScale,
    Stream,
    UndefinedMetricError,
    current_accuracy,
    min_acc,
    wc_acc,
    wf,
    wp,
)

from .evaluator_loops import WORKER, data, loss, train
from .evaluator_models import mlp

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

WINDOWS = (2, 3, 100)


def stream_of(points: Path, spans: list[tuple[str, int]], scale: ScoreScale) -> Stream:
    """Return the stream in a points.csv: probes, and whole sets at steps without one."""
    scores: dict[str, dict[int, float]] = {task: {} for task, _ in spans}
    with points.open() as file:
        for row in csv.DictReader(file):
            mine, step = scores.setdefault(row["tested"], {}), int(row["step"])
            if row["kind"] == "probe" or (row["kind"] == "full" and step not in mine):
                mine[step] = float(row["score"])
    return Stream({t: (list(s), list(s.values())) for t, s in scores.items()}, spans, scale=scale)


def expected(stream: Stream) -> dict[str, Any]:
    sign = -1.0 if stream.scale.lower_is_better else 1.0
    metrics: dict[str, Callable[[], float]] = {
        "min_acc": lambda: sign * min_acc(stream),
        "wc_acc": lambda: sign * wc_acc(stream),
        "current": lambda: sign * current_accuracy(stream),
    }
    for w in WINDOWS:
        metrics[f"wf{w}"] = lambda w=w: wf(stream, w)  # type: ignore[misc]
        metrics[f"wp{w}"] = lambda w=w: wp(stream, w)  # type: ignore[misc]
    found: dict[str, Any] = dict.fromkeys(metrics)
    for name, metric in metrics.items():
        with suppress(UndefinedMetricError):
            found[name] = pytest.approx(float(metric()), abs=1e-12)
    return found


class Follower:
    """Compares the live numbers with the record after each step of a loop."""

    def __init__(self, evaluator: perdure.Evaluator, points: Path, scale: ScoreScale) -> None:
        self.evaluator, self.points, self.scale = evaluator, points, scale
        self.spans: list[tuple[str, int]] = []
        self.defined: set[str] = set()
        self.step = 0

    def __call__(self, task: str, step: int) -> None:
        self.went_on(task, step)
        self.check()

    def went_on(self, task: str, _: int) -> None:
        self.step += 1
        if self.spans and self.spans[-1][0] == task:
            self.spans.pop()
        self.spans.append((task, self.step))

    def check(self) -> None:
        self.evaluator.flush()
        live = self.evaluator.live
        wanted = expected(stream_of(self.points, self.spans, self.scale))
        assert {name: live[name] for name in wanted} == wanted, self.step
        assert [live.wf[w] for w in WINDOWS] == [wanted[f"wf{w}"] for w in WINDOWS]
        assert [live.wp[w] for w in WINDOWS] == [wanted[f"wp{w}"] for w in WINDOWS]
        self.defined |= {name for name, value in wanted.items() if value is not None}


SETTINGS: dict[str, dict[str, Any]] = {
    "every step": {},
    "every 3": {"every": 3},
    "burst": {"every": perdure.burst(first=2, then=2)},
    "loss": {"score": perdure.Score(loss, lower_is_better=True)},
    "unseen": {"unseen": True, "initial": "all"},
    "worker": WORKER,
}


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("order", ["abc", "abab", "abcab", "aab", "abba"])
def test_live_numbers_are_those_of_the_record(tmp_path: Path, order: str, setting: str) -> None:
    lower = setting == "loss"
    scale = ScoreScale(float("-inf"), float("inf"), lower_is_better=True) if lower else ScoreScale()
    given = {**SETTINGS[setting], "count_flops": False}
    with perdure.Evaluator(data(), record=tmp_path, subset=15, **given) as evaluator:
        evaluator.live.add_windows(*WINDOWS)
        follow = Follower(evaluator, tmp_path / "points.csv", scale)
        train(mlp, evaluator, order=order, steps=5, watch=follow)
    assert follow.defined >= {"min_acc", "wc_acc", "current", "wf2", "wp2"}


@pytest.mark.parametrize("place", [{}, WORKER], ids=["inline", "worker"])
def test_a_task_that_was_interrupted_is_left_behind(tmp_path: Path, place: dict[str, Any]) -> None:
    with perdure.Evaluator(data(), record=tmp_path, count_flops=False, **place) as evaluator:
        evaluator.live.add_windows(*WINDOWS)
        follow = Follower(evaluator, tmp_path / "points.csv", ScoreScale())

        def interrupt(task: str, step: int) -> None:
            follow.went_on(task, step)
            if step == 3:  # a worker is still at it
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            train(mlp, evaluator, order="a", watch=interrupt)
        follow.check()
        train(mlp, evaluator, order="bc", watch=follow)
    assert "min_acc" in follow.defined
