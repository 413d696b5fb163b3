"""The loop against a caller's own lines, and the order of batches against its laws."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import perdure
from perdure.models import build
from perdure.scenarios import blur_boundaries, make_scenario, order_drifting_stream
from perdure.training import DivergedError, Position, TrainingPlan, run, train
from perdure.training.loop import count_steps, iterate_batches, list_phases

from .strategy_helpers import (
    ALL,
    NORMED,
    Chosen,
    blobs,
    differing,
    done,
    everything,
    finish,
    made,
    short_config,
)

if TYPE_CHECKING:
    from pathlib import Path

    from perdure.strategies import Strategy

PLANS = [
    TrainingPlan(batch=8, epochs=3),
    TrainingPlan(batch=1, epochs=2),
    TrainingPlan(batch=1000, epochs=2),
    TrainingPlan(batch=3, iterations=1),
    TrainingPlan(batch=5, iterations=47, seed=3),
    TrainingPlan(batch=12, epochs=1, seed=1),
    TrainingPlan(batch=8, epochs=1, boundaries=False),
]


# Which batch comes when.


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("count", [1, 2, 8, 9, 25, 36, 37])
def test_every_example_comes_once_an_epoch(plan: TrainingPlan, count: int) -> None:
    rows = np.arange(100, 100 + count)
    found = list(iterate_batches(rows, plan, 0))
    assert len(found) == count_steps(rows, plan)
    whole = Counter(rows.tolist())
    epoch: Counter[int] = Counter()
    for new in found:
        assert 1 <= len(new) <= plan.batch + 1
        assert len(new) > 1 or plan.batch == 1 or count == 1  # BatchNorm needs two
        epoch.update(new.tolist())
        assert max(epoch.values()) == 1
        if epoch == whole:
            epoch.clear()
    if plan.iterations is None:
        assert not epoch
        assert sum(map(len, found)) == count * plan.epochs
    else:
        assert len(found) == plan.iterations


def test_a_last_batch_of_one_goes_with_the_one_before() -> None:
    sizes = {
        (9, 4): [4, 5],
        (10, 4): [4, 4, 2],
        (8, 4): [4, 4],
        (5, 4): [5],
        (1, 4): [1],
        (3, 2): [3],
        (3, 1): [1, 1, 1],
    }
    for (count, size), expected in sizes.items():
        found = iterate_batches(np.arange(count), TrainingPlan(batch=size), 0)
        assert [len(new) for new in found] == expected


@pytest.mark.parametrize("plan", PLANS)
def test_skipping_gives_the_rest(plan: TrainingPlan) -> None:
    rows = np.arange(25)
    whole = [new.tolist() for new in iterate_batches(rows, plan, 1)]
    for skip in range(len(whole) + 1):
        rest = [new.tolist() for new in iterate_batches(rows, plan, 1, skip=skip)]
        assert rest == whole[skip:]


def test_seed_phase_and_epoch_each_change_the_order() -> None:
    rows = np.arange(64)
    orders: set[tuple[int, ...]] = set()
    for seed in (0, 1):
        for phase in (0, 1):
            found = list(iterate_batches(rows, TrainingPlan(batch=64, epochs=2, seed=seed), phase))
            orders.update(tuple(new.tolist()) for new in found)
    assert len(orders) == 8
    assert tuple(rows.tolist()) not in orders


def test_the_order_does_not_depend_on_epochs_or_iterations_to_come() -> None:
    rows = np.arange(30)
    few = [new.tolist() for new in iterate_batches(rows, TrainingPlan(batch=8, epochs=1), 0)]
    many = [new.tolist() for new in iterate_batches(rows, TrainingPlan(batch=8, epochs=5), 0)]
    some = [new.tolist() for new in iterate_batches(rows, TrainingPlan(batch=8, iterations=6), 0)]
    assert many[: len(few)] == few
    assert many[:6] == some


def test_a_stream_is_taken_as_it_comes() -> None:
    scenario = blobs()
    plan = TrainingPlan(batch=10, epochs=2, boundaries=False, blur=0.2, seed=4)
    (phase,) = list_phases(scenario, plan)
    order = order_drifting_stream(scenario, 0.2, passes=2, seed=4)
    assert np.concatenate(list(iterate_batches(phase.rows, plan, 0))).tolist() == order.tolist()
    assert phase.name is None
    assert list(phase.tasks) == [0, 1, 2]


def test_phases_name_the_tasks_whose_classes_come_up() -> None:
    sharp = blobs()
    assert [list(phase.tasks) for phase in list_phases(sharp, TrainingPlan())] == [[0], [1], [2]]
    rows = np.concatenate(
        [phase.rows for phase in list_phases(blur_boundaries(sharp, 0.6), TrainingPlan())]
    )
    assert sorted(rows.tolist()) == list(range(len(sharp.train.y)))  # none is lost, none twice
    for phase in list_phases(blur_boundaries(sharp, 0.6), TrainingPlan()):
        assert set(phase.tasks) == set(sharp.train.task[phase.rows].tolist()) == {0, 1, 2}


def test_online_means_that_each_example_comes_once() -> None:
    scenario = make_scenario("split-digits")
    strategy, plan = made("replay", scenario, epochs=1, settings={"fill": "reservoir"})
    chosen = Chosen(strategy)
    finish(train(scenario, strategy, plan))
    assert sorted(np.concatenate(chosen.new).tolist()) == list(range(len(scenario.train.y)))


# The loop.


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("model", ["mlp", NORMED])
def test_the_loop_equals_plain_pytorch(model: str, optimizer: str) -> None:
    """No strategy, no examples, no plan: tensors, a network, an optimizer."""
    scenario = blobs()
    strategy, plan = made("naive", scenario, model=model, optimizer=optimizer, seed=7)
    chosen = Chosen(strategy)
    finish(train(scenario, strategy, plan))
    del vars(strategy)["select_rows"]
    torch.manual_seed(7)
    plain = build(model, (1, 4, 4), 6, hidden=16)
    kind: Any = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[optimizer]
    more = {"momentum": 0.9} if optimizer == "sgd" else {}
    steps = kind(plain.parameters(), lr=0.05, fused=True, **more)
    shown = strategy.examples.take(np.arange(len(scenario.train.y))).x  # checked elsewhere
    for rows in chosen.new:
        x, y = shown[torch.tensor(rows)], torch.tensor(scenario.train.y[rows])
        steps.zero_grad()
        cross_entropy(plain(x), y).backward()
        steps.step()
    mine, theirs = strategy.model.state_dict(), plain.state_dict()
    assert mine.keys() == theirs.keys()
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)


@pytest.mark.parametrize("name", ALL)
def test_the_loop_equals_a_callers_own_lines(name: str) -> None:
    scenario = blobs()
    looped, plan = made(name, scenario, model=NORMED)
    finish(train(scenario, looped, plan))
    whole = everything(looped)

    strategy, plan = made(name, scenario, model=NORMED)
    for number, task in enumerate(scenario.tasks):
        tasks = range(3) if strategy.trains_on_all_tasks else [number]
        for each in tasks:
            strategy.model.open(each, scenario.tasks[each].classes)
        rows = strategy.begin_task(number, task.train)
        for new in iterate_batches(rows, plan, number):
            strategy.step(*(strategy.examples.take(part) for part in strategy.select_rows(new)))
        strategy.end_task(number, task.train)

    assert differing(whole, everything(strategy)) == []


def test_places_count_steps() -> None:
    scenario = blobs()
    strategy, plan = made("naive", scenario)
    places = finish(train(scenario, strategy, plan))
    assert [at.step for at in places] == list(range(1, 31))
    assert [(at.phase, at.done) for at in places] == [
        (p, d) for p in range(3) for d in range(1, 11)
    ]
    for at in places:
        assert at.rows is not None
        assert sorted(at.rows.tolist()) == scenario.tasks[at.phase].train.tolist()


def test_iterations_are_those_of_each_task() -> None:
    scenario = blobs(each=[40, 40, 8, 8, 17, 17])
    strategy, plan = made("replay", scenario, iterations=7)
    places = finish(train(scenario, strategy, plan))
    assert Counter(at.phase for at in places) == {0: 7, 1: 7, 2: 7}


def test_tasks_begin_and_end_once_with_their_own_rows() -> None:
    scenario = blobs()
    strategy, plan = made("naive", scenario)
    told: list[tuple[str, int, list[int]]] = []
    begin, end = strategy.begin_task, strategy.end_task

    def begun(task: int, rows: Any) -> Any:
        told.append(("begin", task, rows.tolist()))
        return begin(task, rows)

    def ended(task: int, rows: Any) -> None:
        told.append(("end", task, rows.tolist()))
        end(task, rows)

    vars(strategy).update(begin_task=begun, end_task=ended)
    finish(train(scenario, strategy, plan))
    assert told == [
        (what, k, task.train.tolist())
        for k, task in enumerate(scenario.tasks)
        for what in ("begin", "end")
    ]


# Losses that are no numbers.


def poisoned(strategy: Strategy, at: int, value: float) -> None:
    """Let the loss of one step be no number."""
    step, count = strategy.step, 0

    def bad(*parts: Any, **more: Any) -> torch.Tensor:
        nonlocal count
        count += 1
        loss = step(*parts, **more)
        return torch.tensor(value) if count == at else loss

    vars(strategy)["step"] = bad


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize(("at", "task"), [(1, "0-1"), (10, "0-1"), (11, "2-3"), (30, "4-5")])
def test_a_loss_that_is_no_number_stops_at_once(value: float, at: int, task: str) -> None:
    scenario = blobs()
    strategy, plan = made("replay", scenario)
    poisoned(strategy, at, value)
    steps = train(scenario, strategy, plan)
    assert [next(steps).step for _ in range(at - 1)] == list(range(1, at))
    with pytest.raises(DivergedError) as caught:
        next(steps)
    said = str(caught.value)
    assert f"step {at} " in said
    assert f"task {task!r}" in said
    assert "Replay" in said
    assert f" {value} " in said
    assert len(strategy.memory_rows()) == (13 if at > 10 else 0)  # what was learned before stays
    assert "\n" not in said


@pytest.mark.parametrize("gradients", [None, 1, 3])
def test_what_was_recorded_before_stays(gradients: int | None, tmp_path: Path) -> None:
    what = short_config("naive", settings={"lr": "1e30"}, gradients=gradients, batch=64)
    with pytest.raises(DivergedError, match=r"Naive.* step 2 of task '0-1'") as caught:
        run(what, tmp_path / "run")
    assert "\n" not in str(caught.value)
    found = perdure.open_run(tmp_path / "run")
    assert not found.finished
    assert found.points is not None
    assert found.points.step.tolist() == [0, 1]
    # The folder can be used again, and a run that is not finished is never taken for one.
    assert not (tmp_path / "run" / "done.json").exists()
    run(short_config("naive", batch=64, every=10), tmp_path / "run", overwrite=True)
    assert perdure.open_run(tmp_path / "run").finished


def test_a_stream_without_boundaries_names_no_task() -> None:
    scenario = blobs()
    strategy, plan = made("naive", scenario, boundaries="none")
    poisoned(strategy, 5, float("nan"))
    with pytest.raises(DivergedError, match=r"Naive is nan at step 5, expected"):
        finish(train(scenario, strategy, plan))


def test_going_on_at_a_later_task_leaves_the_earlier_ones_out() -> None:
    scenario = blobs()
    strategy, plan = made("naive", scenario)
    chosen = Chosen(strategy)
    places = finish(train(scenario, strategy, plan, start=Position(phase=2, step=20)))
    assert [at.step for at in places] == list(range(21, 31))
    assert set(np.concatenate(chosen.new).tolist()) == set(scenario.tasks[2].train.tolist())


class Masked(nn.Module):
    """Has a buffer that is not finite, and a state that is no tensor: neither means divergence."""

    def __init__(self, pixels: int, outputs: int) -> None:
        super().__init__()
        self.last = nn.Linear(pixels, outputs)
        self.register_buffer("mask", torch.full((2,), -torch.inf))

    def forward(self, x: Tensor) -> Tensor:
        return self.last(x.flatten(1))  # type: ignore[no-any-return]

    def get_extra_state(self) -> dict[str, int]:
        return {"version": 1}

    def set_extra_state(self, state: dict[str, int]) -> None:
        assert state == {"version": 1}


def masked(shape: tuple[int, int, int], outputs: int) -> nn.Module:
    return Masked(int(np.prod(shape)), outputs)


def test_buffers_that_are_not_finite_do_not_stop_a_run() -> None:
    done("naive", blobs(), model="tests.test_training_loop:masked")
