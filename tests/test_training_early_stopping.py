"""Early stopping against an epoch-by-epoch loop of our own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from perdure.training import EarlyStopping, TrainingPlan, train
from perdure.training.loop import iterate_batches
from perdure.training.monitoring import split_for_early_stopping

from .strategy_helpers import (
    ALL,
    NORMED,
    REFUSE_PATIENCE,
    Chosen,
    accuracy,
    blobs,
    differing,
    done,
    everything,
    finish,
    made,
)

if TYPE_CHECKING:
    from perdure.strategies import Strategy


def test_held_out_rows_are_a_share_and_never_all() -> None:
    for count in (2, 3, 10, 101):
        for share in (0.01, 0.1, 0.5, 0.99):
            for seed in (0, 1):
                rows = np.arange(50, 50 + count)
                learn, held = split_for_early_stopping(
                    rows, TrainingPlan(patience=1, early_stopping_split=share, seed=seed)
                )
                assert sorted([*learn.tolist(), *held.tolist()]) == rows.tolist()
                assert len(held) >= 1
                assert len(learn) >= 1
                assert abs(len(held) - share * count) <= 1


def test_without_patience_nothing_is_held_out() -> None:
    learn, held = split_for_early_stopping(np.arange(10), TrainingPlan())
    assert learn.tolist() == list(range(10))
    assert len(held) == 0


@pytest.mark.parametrize("name", [n for n in ALL if n not in REFUSE_PATIENCE])
def test_held_out_rows_are_never_trained_on(name: str) -> None:
    """Not in their own task, nor in any other; nor are they put into a memory."""
    scenario = blobs()
    strategy, plan = made(name, scenario, patience=2, early_stopping_split=0.2, epochs=3)
    held = np.concatenate(
        [split_for_early_stopping(task.train, plan)[1] for task in scenario.tasks]
    )
    assert len(held) == 21
    chosen = Chosen(strategy)
    finish(train(scenario, strategy, plan))
    used = np.concatenate(
        [np.concatenate([n, *o]) for n, o in zip(chosen.new, chosen.others, strict=True)]
    )
    assert not np.isin(used, held).any()
    if not strategy.trains_on_all_tasks:
        assert not np.isin(strategy.memory_rows(), held).any()
    learned = np.setdiff1d(np.concatenate([task.train for task in scenario.tasks]), held)
    assert set(learned.tolist()) <= set(used.tolist())


def scripted(monkeypatch: pytest.MonkeyPatch, scores: list[float]) -> list[float]:
    """Let held-out accuracy be what a list says."""
    left = list(scores)
    asked: list[float] = []

    def next_score(_strategy: Strategy, rows: Any) -> float:
        assert len(rows)
        asked.append(left.pop(0))
        return asked[-1]

    monkeypatch.setattr("perdure.training.monitoring.measure_accuracy", next_score)
    return asked


@pytest.mark.parametrize(
    ("patience", "scores", "epochs"),
    [
        (1, [0.1, 0.2, 0.2], 3),
        (1, [0.5, 0.4], 2),
        (2, [0.5, 0.4, 0.6, 0.6, 0.1], 5),
        (2, [0.0, 0.0, 0.0], 3),  # no better than the first: two epochs without a better one
        (3, [0.9, 0.1, 0.8, 0.9], 4),
        (9, [0.1] * 6, 6),  # the epochs come to their end before
        (1, [0.1, 0.2, 0.3, 0.4, 0.5, 0.6], 6),
    ],
)
def test_a_task_ends_when_patience_does(
    patience: int, scores: list[float], epochs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = blobs(tasks=1)
    strategy, plan = made("naive", scenario, patience=patience, epochs=6)
    asked = scripted(monkeypatch, scores)
    places = finish(train(scenario, strategy, plan))
    assert places[-1].rows is not None
    each = len(list(iterate_batches(places[-1].rows, plan._replace(epochs=1), 0)))
    assert len(places) == epochs * each
    assert len(asked) == epochs


def test_each_task_begins_with_patience_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = blobs()
    strategy, plan = made("replay", scenario, patience=1, epochs=4)
    asked = scripted(monkeypatch, [0.9, 0.9, 0.1, 0.2, 0.1, 0.3, 0.2])
    places = finish(train(scenario, strategy, plan))
    each = 4  # 34 rows of a task, 3 held out, 8 in a batch
    assert [sum(at.phase == k for at in places) for k in range(3)] == [2 * each, 3 * each, 2 * each]
    assert len(asked) == 7


@pytest.mark.parametrize("model", ["mlp", NORMED])
def test_stops_where_our_own_count_does(model: str) -> None:
    scenario = blobs(noise=60)  # hard enough to go up and down
    settings = {"lr": "0.01"}
    strategy, plan = made(
        "naive",
        scenario,
        model=model,
        settings=settings,
        patience=2,
        early_stopping_split=0.3,
        epochs=30,
    )
    ends: dict[int, int] = {}
    for place in train(scenario, strategy, plan):
        ends[place.phase] = place.done
    plain, _ = made("naive", scenario, model=model, settings=settings)
    expected: dict[int, int] = {}
    for phase, task in enumerate(scenario.tasks):
        learn, held = split_for_early_stopping(task.train, plan)
        scores: list[float] = []
        steps = 0
        for epoch in range(30):
            whole = list(iterate_batches(learn, plan._replace(epochs=epoch + 1), phase))
            for new in whole[steps:]:
                plain.step(plain.examples.take(new))
            steps = len(whole)
            scores.append(accuracy(plain, held))
            best = int(np.argmax(scores))  # the first of the best
            if epoch - best >= 2:
                break
        expected[phase] = steps
    assert ends == expected
    assert len(set(ends.values())) > 1  # the tasks did not all go on for as long
    assert differing(everything(plain), everything(strategy)) == []


def test_asking_changes_nothing() -> None:
    """Endless patience on rows that are held out is plain training on the others."""
    scenario = blobs()
    for model in ("mlp", NORMED):
        patient = done("naive", scenario, model=model, patience=100, early_stopping_split=0.2)
        plain, plan = made("naive", scenario, model=model, patience=1, early_stopping_split=0.2)
        for phase, task in enumerate(scenario.tasks):
            learn, _ = split_for_early_stopping(task.train, plan)
            for new in iterate_batches(learn, plan, phase):
                plain.step(plain.examples.take(new))
        assert differing(everything(patient), everything(plain)) == []


@pytest.mark.parametrize("setting", ["class", "task", "domain"])
def test_held_out_accuracy_is_that_of_the_tasks_own_rows(setting: Any) -> None:
    scenario = blobs(setting=setting)
    strategy = done("replay", scenario)
    stopping = EarlyStopping(1)
    rows = scenario.tasks[0].train
    before = everything(strategy)
    stopping.should_stop(strategy, np.array(rows))
    assert differing(before, everything(strategy)) == []
    assert stopping.best == pytest.approx(accuracy(strategy, rows))
    assert torch.is_grad_enabled()
