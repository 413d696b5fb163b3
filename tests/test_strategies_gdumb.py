"""GDumb against training written out, its memory against sharing out one place at a time."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy
from torch.optim.lr_scheduler import CosineAnnealingWarmRestarts

from perdure import Evaluator
from perdure.data.examples import Batch, Examples
from perdure.models import build
from perdure.record import InputError
from perdure.scenarios import blur_boundaries
from perdure.strategies.gdumb import GDumb, cosine_factor
from perdure.training import DivergedError, save_checkpoint, train

from .strategy_helpers import (
    LINEAR,
    NORMED,
    blobs,
    differing,
    done,
    everything,
    finish,
    go_on,
    held_for,
    made,
    short_config,
)
from .test_strategies_gem import BATCHED

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from perdure.strategies import Strategy

    Rows = NDArray[np.int64]

QUICK = {"memory": "20", "passes": "3", "batch_size": "6"}


class Ends:
    """Remembers the batches and the rates of what is learned at each task's end."""

    def __init__(self, strategy: Strategy) -> None:
        self.batches: list[list[Rows]] = []
        self.rates: list[list[float]] = []
        end, take, step = strategy.end_task, strategy.examples.take, strategy.optimizer.step

        def ended(task: int, rows: Rows) -> None:
            self.batches.append([])
            self.rates.append([])
            vars(strategy.examples)["take"] = taken
            end(task, rows)
            del vars(strategy.examples)["take"]

        def taken(rows: Rows, task: int | None = None) -> Batch:
            self.batches[-1].append(rows.copy())
            return take(rows, task)

        def stepped(*arguments: Any) -> Any:
            self.rates[-1].append(strategy.optimizer.param_groups[0]["lr"])
            return step(*arguments)

        vars(strategy)["end_task"] = ended
        vars(strategy.optimizer)["step"] = stepped


def weights_of(strategy: Strategy) -> dict[str, str]:
    """Return weights and statistics, bit for bit."""
    mine = everything(strategy)
    return {k: v for k, v in mine.items() if k.startswith("/model") and not k.endswith("trains")}


@pytest.mark.parametrize(("optimizer", "lr"), [("sgd", "0.05"), ("adam", "0.01")])
@pytest.mark.parametrize("setting", ["class", "task", "domain"])
@pytest.mark.parametrize("model", ["mlp", BATCHED])
def test_what_is_trained_is_the_memory_alone(
    model: str, setting: Any, optimizer: str, lr: str
) -> None:
    """From the initial weights, with the run's optimizer anew: the bits of a few plain lines."""
    scenario = blobs(setting=setting)
    settings = {**QUICK, "lr": lr, "weight_decay": "0.01", "cosine_annealing": "false"}
    how: dict[str, Any] = {"model": model, "optimizer": optimizer, "settings": settings}
    strategy, plan = made("gdumb", scenario, **how)
    ends, shown = Ends(strategy), list[dict[str, str]]()
    end = strategy.end_task

    def ended(task: int, rows: Rows) -> None:
        end(task, rows)
        shown.append(weights_of(strategy))
        parts, memory = ends.batches[-1], strategy.memory_rows()
        assert len(parts) % 3 == 0
        n = len(parts) // 3
        passes = [np.concatenate(parts[k * n : (k + 1) * n]) for k in range(3)]
        assert all(sorted(each.tolist()) == sorted(memory.tolist()) for each in passes)
        assert len({tuple(each.tolist()) for each in passes}) == 3  # in another order each
        sizes = [len(part) for part in parts]
        assert max(sizes) - min(sizes) <= 1
        assert min(sizes) >= 3

    vars(strategy)["end_task"] = ended
    finish(train(scenario, strategy, plan))
    for task in range(3):
        twin, _ = made("gdumb", scenario, **how)
        for opened in range(task + 1):
            twin.model.open(opened, scenario.tasks[opened].classes)
        for rows in ends.batches[task]:
            x, y, of, _ = twin.examples.take(rows)
            twin.optimizer.zero_grad()
            cross_entropy(twin.model(x, of), y).backward()
            twin.optimizer.step()
        assert differing(shown[task], weights_of(twin)) == []


def test_order_follows_the_seed_and_the_task() -> None:
    scenario, found = blobs(), []
    for seed, model in ((0, "mlp"), (0, NORMED), (1, "mlp")):
        strategy, plan = made("gdumb", scenario, seed=seed, model=model, settings=QUICK)
        ends = Ends(strategy)
        finish(train(scenario, strategy, plan))
        found.append([[rows.tolist() for rows in batches] for batches in ends.batches])
    assert found[0] == found[1] != found[2]


def test_annealing_is_that_of_warm_restarts() -> None:
    """SGDR over 1, 2, 4, 8, … passes down to a hundredth, as PyTorch has it."""
    weight = torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.3)
    schedule = CosineAnnealingWarmRestarts(optimizer, T_0=1, T_mult=2, eta_min=0.003)
    for turn in range(130):
        assert 0.3 * cosine_factor(turn) == pytest.approx(optimizer.param_groups[0]["lr"], rel=1e-9)
        optimizer.step()
        schedule.step()
    assert [k for k in range(130) if cosine_factor(k) == 1] == [
        0,
        1,
        3,
        7,
        15,
        31,
        63,
        127,
    ]


@pytest.mark.parametrize("cosine_annealing", [True, False])
def test_rates_of_each_group_are_annealed_and_put_back(cosine_annealing: bool) -> None:
    labels = np.arange(12) % 3
    strategy = small(labels, memory=12, passes=7, batch_size=4, cosine_annealing=cosine_annealing)
    weight, bias = strategy.model.parameters()
    groups: list[dict[str, Any]] = [{"params": [weight], "lr": 0.5}, {"params": [bias], "lr": 0.02}]
    strategy.optimizer = torch.optim.SGD(groups, lr=1.0)
    ends = Ends(strategy)
    strategy.end_task(0, np.arange(12))
    assert [group["lr"] for group in strategy.optimizer.param_groups] == [0.5, 0.02]
    factors = [cosine_factor(turn) if cosine_annealing else 1 for turn in range(7)]
    assert ends.rates[0] == pytest.approx([0.5 * f for f in factors for _ in range(3)])


@pytest.mark.parametrize("setting", ["class", "task", "domain"])
def test_nothing_is_learned_while_a_task_streams_by(setting: Any) -> None:
    scenario = blobs(setting=setting)
    strategy, plan = made("gdumb", scenario, model=NORMED, settings=QUICK)
    found: dict[int, set[tuple[str, ...]]] = {}
    for place in train(scenario, strategy, plan):
        named = {k: v for k, v in weights_of(strategy).items() if k != "/model/opened"}
        found.setdefault(place.phase, set()).add(tuple(named.values()))
        assert not strategy.optimizer.state_dict()["state"] or place.phase
    assert [len(states) for states in found.values()] == [1, 1, 1]
    assert len(set.union(*found.values())) == 3


def test_a_test_in_between_is_of_the_model_before(tmp_path: Path) -> None:
    scenario = blobs(noise=60.0)
    strategy, plan = made("gdumb", scenario, settings=QUICK)
    with Evaluator(
        held_for(scenario), every=2, unseen=True, initial="all", record=tmp_path / "run"
    ) as evaluator:
        finish(train(scenario, strategy, plan, evaluator))
    with (tmp_path / "run" / "points.csv").open() as file:
        points = list(csv.DictReader(file))
    last: dict[str, str] = {}
    probes = 0
    for point in points:  # in the order of testing
        if point["kind"] == "probe":
            assert point["score"] == last[point["tested"]]
            probes += 1
        else:
            last[point["tested"]] = point["score"]
    assert probes == 15 * 3
    names = [task.name for task in scenario.tasks]
    full = {(p["trained"], p["tested"]): p["score"] for p in points if p["kind"] == "full"}
    assert len({tuple(full[name, each] for each in names) for name in names}) == 3


def small(labels: Rows, **options: Any) -> GDumb:
    """Return a learner of one-pixel images with these labels."""
    x = np.arange(len(labels), dtype=np.uint8)[:, None, None, None]
    examples = Examples(x, labels, np.zeros_like(labels), mean=[(0.0,)], std=[(1.0,)])
    model = build(LINEAR, (1, 1, 1), int(labels.max()) + 1)
    return GDumb(model, torch.optim.SGD(model.parameters(), lr=0.01), examples, **options)


def dealt(capacity: int, counts: list[int]) -> list[int]:
    """Return the places of each class, dealt out one at a time to the class with the fewest."""
    places = [0] * len(counts)
    for _ in range(min(capacity, sum(counts))):
        wanting = [k for k, n in enumerate(counts) if places[k] < n]
        places[min(wanting, key=lambda k: places[k])] += 1
    return places


@pytest.mark.parametrize("capacity", [1, 4, 7, 16, 23, 40, 1000])
def test_the_memory_is_balanced(capacity: int) -> None:
    sizes = [2, 30, 11, 11, 1, 25]
    labels = np.repeat(np.arange(6), sizes)
    strategy = small(labels, memory=capacity, passes=1)
    for task in range(3):
        before = set(strategy.memory_rows().tolist())
        rows = np.flatnonzero(labels // 2 == task)
        strategy.end_task(task, rows)
        kept = strategy.memory_rows()
        assert len(set(kept.tolist())) == len(kept)
        assert set(kept.tolist()) <= before | set(rows.tolist())  # what is gone stays gone
        places = np.bincount(labels[kept], minlength=6)[: 2 * task + 2].tolist()
        assert sorted(places) == sorted(dealt(capacity, sizes[: 2 * task + 2]))


def test_a_blurred_stream_is_balanced_by_class() -> None:
    scenario = blur_boundaries(blobs(each=[5, 30, 17, 17, 9, 21]), 0.5, seed=3)
    strategy, plan = made("gdumb", scenario, settings={**QUICK, "memory": "40"})
    finish(train(scenario, strategy, plan))
    held = np.bincount(strategy.examples.labels[strategy.memory_rows()])
    assert held.sum() == 40
    assert max(held) - min(held) <= 2  # one class has 5 examples


@pytest.mark.parametrize("setting", ["class", "task"])
def test_without_a_memory_the_initial_weights_stay(setting: Any) -> None:
    scenario = blobs(setting=setting)
    first, _ = made("gdumb", scenario, model=NORMED)
    last = done("gdumb", scenario, model=NORMED, settings={"memory": "0"})
    differ = differing(weights_of(first), weights_of(last))
    assert differ == (["/model/opened"] if setting == "task" else [])
    assert last.memory_rows().tolist() == []


def test_dropout_is_repeatable_and_draws() -> None:
    scenario = blobs()
    runs = [everything(done("gdumb", scenario, model=NORMED, settings=QUICK)) for _ in range(2)]
    assert differing(*runs) == []
    plain = everything(done("gdumb", scenario, model=BATCHED, settings=QUICK))
    assert plain["/random"] != runs[0]["/random"]


@pytest.mark.parametrize("step", [5, 10, 15, 25])
def test_going_on_from_anywhere(step: int, tmp_path: Path) -> None:
    way: dict[str, Any] = {
        "model": NORMED,
        "optimizer": "adam",
        "settings": {**QUICK, "lr": "0.01"},
    }
    scenario = blobs()
    strategy, plan = made("gdumb", scenario, **way)
    for place in train(scenario, strategy, plan):
        if place.step == step:
            save_checkpoint(tmp_path, strategy, place)
    again, _ = go_on(short_config("gdumb", **way), scenario, tmp_path)
    assert differing(everything(strategy), everything(again)) == []


@pytest.mark.parametrize("lr", ["1e20", "1e30", "1e38"])
def test_a_rate_that_diverges_at_the_end_is_said(lr: str) -> None:
    scenario = blobs()
    strategy, plan = made("gdumb", scenario, settings={**QUICK, "lr": lr})
    with pytest.raises(DivergedError, match="GDumb") as caught:
        finish(train(scenario, strategy, plan))
    said = str(caught.value)
    assert "\n" not in said
    assert said.startswith("the weights of GDumb are not finite after end_task")
    assert scenario.tasks[0].name in said
    assert "try a smaller lr" in said


@pytest.mark.parametrize(
    ("options", "message"),
    [({"memory": -1}, "memory is -1"), ({"passes": 0}, "passes is 0"),
     ({"batch_size": 0}, "batch_size is 0"), ({"batch_size": -4}, "batch_size is -4")],
)  # fmt: skip
def test_values_that_make_no_sense_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        small(np.zeros(3, dtype=np.int64), **options)
    assert "\n" not in str(caught.value)
