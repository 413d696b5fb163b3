"""Record(log=…): every recorded number goes out as well, and training stays as it was."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
import torch

import perdure

from .evaluator_helpers import lines, net, quietly, sets, watch
from .evaluator_loops import alone, data, train
from .evaluator_models import normed

if TYPE_CHECKING:
    from pathlib import Path

Calls = list[tuple[dict[str, float], int]]


@pytest.mark.parametrize("executor", [perdure.Inline(), perdure.Worker()])
def test_what_goes_out_is_what_the_record_says(tmp_path: Path, executor: perdure.Inline) -> None:
    calls: Calls = []
    record = perdure.Record(tmp_path / "run", log=lambda values, step: calls.append((values, step)))
    with perdure.Evaluator(sets("ab"), record=record, executor=executor, every=2) as evaluator:
        watch(evaluator, net(), [("a", 4), ("b", 4)])
    scores = {
        (step, name): value
        for values, step in calls
        for name, value in values.items()
        if not name.startswith(("live/", "final/"))
    }
    recorded = {(p.step, f"{p.kind}/{p.tested}"): p.score for p in lines(tmp_path / "run")}
    assert scores == recorded
    assert [step for _, step in calls] == sorted(step for _, step in calls)  # as W&B wants it
    *_, last, final = [values for values, _ in calls]
    summary = evaluator.summary().metrics
    assert final == {f"final/{id_}": value for id_, value in summary.items()}
    for id_ in ("min_acc", "wc_acc", "wf10"):
        assert last[f"live/{id_}"] == pytest.approx(summary[id_])


def test_a_logger_that_draws_random_numbers_leaves_training_as_it_was() -> None:
    def log(values: dict[str, float], step: int) -> None:
        random.random()
        torch.rand(3)

    with perdure.Evaluator(data(), record=perdure.Record(log=log)) as evaluator:
        assert train(normed, evaluator) == alone(normed)


def test_a_logger_that_fails_is_reported_once_and_stops_nothing(tmp_path: Path) -> None:
    def log(values: dict[str, float], step: int) -> None:
        raise ConnectionError("no route")

    record = perdure.Record(tmp_path / "run", log=log)
    with perdure.Evaluator(sets("a"), record=record) as evaluator:
        _, warned = quietly(lambda: watch(evaluator, net(), [("a", 3)]))
    (message,) = warned
    assert message == (
        "log= raised ConnectionError: no route at step 0; the record itself is complete"
    )
    assert perdure.open_run(tmp_path / "run").finished


@pytest.mark.parametrize("log", [3, lambda: None, lambda values: None])
def test_a_log_that_cannot_be_called_is_refused(log: object) -> None:
    with pytest.raises(TypeError, match=r"log is .*expected"):
        perdure.Record(log=log)  # type: ignore[arg-type]


def test_a_run_without_a_step_has_no_summary_to_log() -> None:
    calls: Calls = []
    record = perdure.Record(log=lambda values, step: calls.append((values, step)))
    with perdure.Evaluator(sets("a"), record=record):
        pass
    assert calls == []
