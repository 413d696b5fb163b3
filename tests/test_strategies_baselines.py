"""Cumulative, joint, single and random against what their definitions say."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from perdure.scenarios import make_scenario
from perdure.strategies import find_strategy
from perdure.training import Position, train
from perdure.training.loop import iterate_batches

from .strategy_helpers import NORMED, Chosen, blobs, differing, everything, finish, made

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perdure.strategies import Strategy

RARE = 1e-4


def state(strategy: Strategy) -> dict[str, Any]:
    return {k: v.clone() for k, v in strategy.model.state_dict().items()}


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return all(torch.equal(one[k], other[k]) for k in one)


class Beginnings:
    """Remembers weights and optimizer as each task's first step finds them."""

    def __init__(self, strategy: Strategy) -> None:
        self.weights: list[dict[str, Any]] = []
        self.moments: list[int] = []
        begin = strategy.begin_task

        def begun(task: int, rows: NDArray[np.int64]) -> NDArray[np.int64]:
            found = begin(task, rows)
            self.weights.append(state(strategy))
            self.moments.append(len(strategy.optimizer.state))
            return found

        vars(strategy)["begin_task"] = begun


# Cumulative.


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("restart", [True, False])
def test_cumulative_restarts_or_goes_on(restart: bool, optimizer: str) -> None:
    scenario = blobs()
    options = {"restart": str(restart).lower()}
    strategy, plan = made(
        "cumulative", scenario, model=NORMED, optimizer=optimizer, settings=options
    )
    initial = state(strategy)
    seen = Beginnings(strategy)
    before: list[dict[str, Any]] = []
    for place in train(scenario, strategy, plan):
        if place.done == 1:
            before.append({})
        before[-1] = state(strategy)
    assert len(seen.weights) == 3
    if restart:
        assert all(same(initial, weights) for weights in seen.weights)
        assert seen.moments == [0, 0, 0]
    else:
        assert same(before[0], seen.weights[1])
        assert same(before[1], seen.weights[2])
        assert not same(initial, seen.weights[1])
        assert seen.moments[1] > 0


def test_cumulative_trains_on_every_example_seen_so_far() -> None:
    scenario = blobs()
    strategy, plan = made("cumulative", scenario, epochs=3)
    chosen = Chosen(strategy)
    places = finish(train(scenario, strategy, plan))
    for phase in range(3):
        steps = [new for new, at in zip(chosen.new, places, strict=True) if at.phase == phase]
        rows = [row for task in scenario.tasks[: phase + 1] for row in task.train.tolist()]
        assert Counter(np.concatenate(steps).tolist()) == dict.fromkeys(rows, 3)


def test_cumulative_with_restart_ends_as_a_fresh_network_on_everything() -> None:
    """The last task of T is plain training of the initial network on all rows."""
    scenario = blobs()
    strategy, plan = made("cumulative", scenario)
    finish(train(scenario, strategy, plan))
    plain, _ = made("naive", scenario)
    rows = np.concatenate([task.train for task in scenario.tasks])
    for new in iterate_batches(rows, plan, 2):
        plain.step(plain.examples.take(new))
    assert same(state(strategy), state(plain))


# Joint.


def test_joint_sees_everything_from_the_start_in_t_times_the_passes() -> None:
    scenario = blobs()
    strategy, plan = made("joint", scenario, epochs=2)
    chosen = Chosen(strategy)
    places = finish(train(scenario, strategy, plan))
    rows = sorted(row for task in scenario.tasks for row in task.train.tolist())
    passes = np.array_split(np.arange(len(places)), 3 * 2)
    assert [at.phase for at in places] == np.repeat([0, 1, 2], len(places) // 3).tolist()
    for steps in passes:
        assert sorted(np.concatenate([chosen.new[k] for k in steps]).tolist()) == rows
    assert strategy.memory_rows().tolist() == rows


def test_joint_leaves_out_what_belongs_to_no_task() -> None:
    whole = blobs(tasks=3)
    part = replace(whole, tasks=whole.tasks[:3])
    labels = whole.train.y.copy()
    nobody = whole.tasks[1].train[:4]
    labels[nobody] = -1
    tasks = tuple(t._replace(train=np.setdiff1d(t.train, nobody)) for t in part.tasks)
    scenario = replace(part, tasks=tasks, train=whole.train._replace(y=labels))
    strategy, plan = made("joint", scenario)
    chosen = Chosen(strategy)
    finish(train(scenario, strategy, plan))
    assert not np.isin(np.concatenate(chosen.new), nobody).any()


# Single.


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("setting", ["class", "task"])
def test_single_is_naive_on_each_task_alone(setting: Any, optimizer: str) -> None:
    scenario = blobs(setting=setting)
    strategy, plan = made("single", scenario, optimizer=optimizer)
    ends: dict[int, dict[str, Any]] = {}
    for place in train(scenario, strategy, plan):
        ends[place.phase] = state(strategy)
    for phase, task in enumerate(scenario.tasks):
        naive, _ = made("naive", scenario, optimizer=optimizer)
        for k in range(phase + 1):
            naive.model.open(k, scenario.tasks[k].classes)
        for new in iterate_batches(task.train, plan, phase):
            naive.step(naive.examples.take(new))
        assert same(ends[phase], state(naive))
        naive, _ = made("naive", scenario, optimizer=optimizer)
        for k in range(phase):
            naive.model.open(k, scenario.tasks[k].classes)
        for place in train(scenario, naive, plan, start=Position(phase=phase)):
            if place.done == 10:
                break
        assert same(ends[phase], state(naive))


# Random.


def guesses(strategy: Strategy, x: torch.Tensor) -> NDArray[np.int64]:
    return strategy.model(x).argmax(1).numpy()  # type: ignore[no-any-return]


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("images", ["digits", "noise"])
def test_random_guesses_uniformly_among_classes_seen(seed: int, images: str) -> None:
    scenario = make_scenario("split-digits")
    strategy, plan = made("random", scenario, seed=seed, batch=64, epochs=1)
    generator = torch.Generator().manual_seed(seed)
    x = strategy.examples.take(np.arange(1400)).x
    if images == "noise":
        x = torch.randn(1400, 1, 8, 8, generator=generator)
    before = np.zeros(0, dtype=np.int64)
    agreed = compared = 0.0
    totals = np.zeros(10)
    for place in train(scenario, strategy, plan):
        named = guesses(strategy, x)
        classes = 2 * (place.phase + 1)
        counts = np.bincount(named, minlength=10)
        assert counts[classes:].sum() == 0
        assert chisquare(counts[:classes]).pvalue > RARE
        if place.phase == 4:
            totals += counts
            if len(before):  # from one step to the next a guess stays with chance 1 / classes
                agreed += float((named == before).sum())
                compared += len(named)
            before = named
    assert chisquare(totals).pvalue > RARE
    assert agreed / compared == pytest.approx(0.1, abs=4 * np.sqrt(0.09 / compared))


def test_random_is_right_once_in_as_many_classes_as_were_seen() -> None:
    """And equally so for each class: its guesses know nothing of the labels."""
    scenario = make_scenario("split-digits")
    strategy, plan = made("random", scenario, batch=32, epochs=2)
    batch = strategy.examples.take(np.flatnonzero(scenario.train.task == 0))
    right: dict[int, list[float]] = {}
    for place in train(scenario, strategy, plan):
        hits = guesses(strategy, batch.x) == batch.y.numpy()
        right.setdefault(place.phase, []).append(float(hits.mean()))
    for phase, shares in right.items():
        p = 1 / (2 * phase + 2)
        spread = np.sqrt(p * (1 - p) / (len(shares) * len(batch.y)))
        assert np.mean(shares) == pytest.approx(p, abs=4 * spread)


def test_random_does_not_depend_on_how_batches_are_cut() -> None:
    scenario = make_scenario("split-digits")
    strategy, _ = made("random", scenario)
    strategy.model.open(0, range(7))
    x = strategy.examples.take(np.arange(300)).x
    whole = guesses(strategy, x)
    for size in (1, 7, 64):
        parts = np.concatenate([guesses(strategy, part) for part in x.split(size)])
        assert np.array_equal(parts, whole)
    order = np.random.default_rng(0).permutation(300)
    assert np.array_equal(guesses(strategy, x[order]), whole[order])


def test_random_leaves_the_network_alone_and_has_nothing_to_say_of_terms() -> None:
    scenario = blobs()
    strategy, plan = made("random", scenario)
    (group,) = strategy.optimizer.param_groups
    before = [p.clone() for p in group["params"]]
    terms: list[Any] = []
    step = strategy.step
    vars(strategy)["step"] = lambda *b, **_: step(
        *b, on_loss_terms=lambda *both: terms.append(both)
    )
    finish(train(scenario, strategy, plan))
    assert all(map(torch.equal, before, group["params"]))
    assert terms
    assert all(list(p) == [] and list(s) == [] for p, s in terms)


def test_naive_has_no_stability_term() -> None:
    """Equation 8 with nothing that holds: the first term is the loss itself."""
    for name in ("naive", "single", "cumulative", "joint"):
        strategy, _ = made(name, blobs())
        seen: list[Any] = []
        batch = strategy.examples.take(np.arange(8))
        weights = list(strategy.model.parameters())
        alone = torch.nn.functional.cross_entropy(strategy.model(batch.x), batch.y)
        wanted = torch.autograd.grad(alone, weights)

        def on_loss_terms(p: Any, s: Any, seen: list[Any] = seen, weights: Any = weights) -> None:
            seen += [torch.autograd.grad(p, weights, retain_graph=True), list(s)]

        loss = strategy.step(batch, on_loss_terms=on_loss_terms)
        assert torch.equal(loss, alone.detach())
        assert all(map(torch.equal, seen[0], wanted))
        assert seen[1] == []


def test_only_joint_asks_for_all_tasks() -> None:
    assert find_strategy("joint").trains_on_all_tasks
    one = everything(made("naive", blobs())[0])
    assert differing(one, everything(made("naive", blobs())[0])) == []
